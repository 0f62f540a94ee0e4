"""Measures the version of jaato-gc that is installed, for `two_versions.py`.

    PYTHON benchmarks/versions/measure.py session gc_budget 1000
    PYTHON benchmarks/versions/measure.py collection gc_truncate 10000

Prints seconds, one figure per line.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from either_version import collection_count, new_session, public, size_of, use_strategy

from jaato_gc import FunctionCall, GCConfig, GCSession, Message, Part, Role, ToolResult

sys.path.append(str(Path(__file__).parents[1] / "peers"))

from histories import MESSAGES_A_TURN, Plain, make_turns

SESSION_WINDOW = 16_000
SESSIONS = 10
REPEATS = {100_000: 2, 10_000: 5}
MOST_REPEATS = 20

of_parts: Callable[[list[Part]], Any] = type(Message.from_text(Role.USER, "x").parts)
"""What holds the parts of a message: a list or a tuple, depending on the version."""
PRESERVABLE = public("GCPolicy")("preservable")


def message_of(plain: Plain) -> Message:
    """Returns a message of the installed version."""
    if plain.role == "tool":
        result = ToolResult(plain.call_id, plain.call or "", plain.text)
        return Message(Role.TOOL, of_parts([Part(function_response=result)]))
    parts = [Part(text=plain.text)]
    if plain.call:
        call = FunctionCall(plain.call_id, plain.call, dict(plain.arguments or {}))
        parts.append(Part(function_call=call))
    role = Role.USER if plain.role == "user" else Role.MODEL
    return Message(role, of_parts(parts), policy=PRESERVABLE if plain.preservable else None)


def time_session(strategy: str, turns: int) -> list[float]:
    """Seconds of whole sessions; their messages are made and counted in them."""
    made = make_turns(turns, lambda _text: 0, most_preservable=0)
    found = []
    for _ in range(SESSIONS):
        session = new_session(SESSION_WINDOW)
        use_strategy(session, strategy, {}, GCConfig())
        found.append(timed(partial(run_turns, session, made)))
        if collection_count(session) < turns // 50:
            raise SystemExit(f"only {collection_count(session)} collections in {turns} turns")
    return found


def run_turns(session: GCSession, turns: Iterable[Sequence[Plain]]) -> None:
    """Does what a host with its own loop does."""
    for request, *rest in turns:
        session.append(message_of(request))
        session.before_send()
        for plain in rest:
            session.append(message_of(plain))
        session.after_turn()


def time_collection(strategy: str, messages: int) -> list[float]:
    """Seconds of single collections from about 100 % to 60 % of the window, tokens known."""
    turns = make_turns(messages // MESSAGES_A_TURN, lambda _text: 0)
    made = [message_of(plain) for turn in turns for plain in turn]
    window = sum(map(size_of, made))
    found = []
    for _ in range(REPEATS.get(messages, MOST_REPEATS)):
        session = new_session(window)
        use_strategy(session, strategy, {}, GCConfig())
        for message in made:
            session.append(message)
        found.append(timed(partial(plan_and_apply, session)))
        if len(session.history) > 0.9 * messages:
            raise SystemExit(f"{len(session.history)} of {messages} messages are left")
    return found


def plan_and_apply(session: GCSession) -> None:
    """Runs one collection."""
    session.apply(session.plan_gc())


def timed(work: Callable[[], object]) -> float:
    """Seconds of CPU time that something takes: waiting for other processes does not count."""
    gc.collect()
    gc.freeze()
    start = time.process_time()
    work()
    seconds = time.process_time() - start
    gc.unfreeze()
    return seconds


if __name__ == "__main__":
    work = {"session": time_session, "collection": time_collection}[sys.argv[1]]
    for seconds in work(sys.argv[2], int(sys.argv[3])):
        print(seconds)
