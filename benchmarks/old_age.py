"""The memory of a session and the size of a saved one, early in a long run and at its end.

Every strategy gets the same turns, with and without a stash: an agent reads files, changes them and
runs commands. The table shows the messages of the history, the peak of the memory, the size of
`save()`, and the operations (calls and executed lines) of saving and restoring. They follow the
live history, so after the first 200 collections both figures of a column are about the same.

    python benchmarks/old_age.py --turns 50000
"""

import argparse
import gc
import platform
import tempfile
import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jaato_gc
from jaato_gc import (
    EstimateCounter,
    FunctionCall,
    GCSession,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
)
from jaato_gc_stash import SqlStash
from jaato_gc_testing import count_operations

STRATEGIES = ("gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget", "gc_marksweep")
RESULT = "\n".join(f"{line}: item_{{0}}_{line} is set to {{0}}" for line in range(20))


def turn(number: int) -> list[Message]:
    """Returns the messages of a turn: a request, a call with its result, and an answer."""
    path = f"src/module_{number % 50}.py"
    uses: list[tuple[str, dict[str, Any], str]] = [
        ("read_file", {"path": path}, RESULT.format(number)),
        ("edit_file", {"path": path, "old": f"x{number}", "new": f"y{number}"}, "done"),
        ("bash", {"command": f"pytest tests/test_{number % 50}.py"}, f"{number} passed"),
    ]
    name, arguments, result = uses[number % len(uses)]
    call = FunctionCall(f"call_{number}", name, arguments)
    return [
        Message.from_text(Role.USER, f"Please continue with item {number} in {path}."),
        Message(Role.MODEL, [Part(function_call=call)]),
        Message(Role.TOOL, [Part(function_response=ToolResult(call.id, name, result))]),
        Message.from_text(Role.MODEL, f"Item {number} is done."),
    ]


def run_turns(session: GCSession, numbers: Iterable[int]) -> None:
    """Runs turns as a host with its own loop does."""
    for number in numbers:
        for message in turn(number):
            session.append(message)
            if message.role is not Role.MODEL:
                session.before_send()
        session.after_turn()


@dataclass
class Age:
    """The figures of a session at some age."""

    messages: int
    peak: int
    saved: int
    saving: int
    restoring: int


def age_of(session: GCSession, **options: Any) -> Age:
    """Returns the figures of a session; the peak is the one since it was reset."""
    peak = tracemalloc.get_traced_memory()[1]
    saved = session.save()
    return Age(
        len(session.history),
        peak,
        len(saved),
        count_operations(session.save),
        count_operations(lambda: GCSession.restore(saved, **options)),
    )


def measure(
    strategy: str, turns: int, context_limit: int, stash: SqlStash | None
) -> tuple[Age, Age]:
    """Returns the figures of a session after a fifth of the turns, and after all of them."""
    registry = PluginRegistry()
    options: dict[str, Any] = {
        "counter": EstimateCounter(),
        "registry": registry,
        "stash": stash,
    }
    first = turns // 5

    def new_session() -> GCSession:
        session = GCSession(context_limit=context_limit, **options)
        session.set_gc_plugin(registry.create(strategy))
        return session

    warm = new_session()  # what is made once per process is not counted
    run_turns(warm, range(100))
    age_of(warm, **options)
    tracemalloc.start()
    session = new_session()
    run_turns(session, range(first))
    young = age_of(session, **options)
    gc.collect()
    tracemalloc.reset_peak()
    run_turns(session, range(first, turns))
    old = age_of(session, **options)
    tracemalloc.stop()
    return young, old


def main() -> None:
    """Measures every strategy, with and without a stash, and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--context-limit", type=int, default=3_000, metavar="TOKENS")
    parser.add_argument("--strategy", choices=STRATEGIES, action="append")
    options = parser.parse_args()
    if options.turns < 5:
        parser.error("--turns must be 5 or more")

    first = options.turns // 5
    print(f"A session after {first:,} turns, and after {options.turns:,}")
    print(f"{platform.platform()}, Python {platform.python_version()}")
    print(f"jaato-gc {jaato_gc.__version__}; a window of {options.context_limit:,} tokens\n")
    columns = ("messages", "peak kB", "save() kB", "save operations", "restore operations")
    print(f"{'':20}" + "".join(f"{column:>20}" for column in columns))
    for strategy in options.strategy or STRATEGIES:
        for has_stash in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                stash = SqlStash(Path(folder, "stash.db")) if has_stash else None
                ages = measure(strategy, options.turns, options.context_limit, stash)
                if stash is not None:
                    stash.close()
            young, old = map(figures, ages)
            row = (f"{before:,} → {after:,}" for before, after in zip(young, old, strict=True))
            name = f"{strategy[3:]}{', stash' * has_stash}"
            print(f"{name:20}" + "".join(f"{figure:>20}" for figure in row), flush=True)


def figures(age: Age) -> tuple[int, ...]:
    """Returns the figures of a row, bytes in thousands."""
    return age.messages, age.peak // 1000, age.saved // 1000, age.saving, age.restoring


if __name__ == "__main__":
    main()
