"""Sessions of every strategy: what they keep does not grow with the number of turns."""

from typing import Any

import pytest
from repository import own_strategies

from jaato_gc import (
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCSession,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
    extractive_summary,
)
from jaato_gc_testing import MemoryStash

KEPT = 10


def run_turns(session: GCSession, numbers: range) -> None:
    for number in numbers:
        path = f"src/module_{number % 20}.py"
        name, result = [("read_file", f"value_{number} = 1\n" * 30), ("edit_file", "done")][
            number % 2
        ]
        call = FunctionCall(f"call_{number}", name, {"path": path})
        session.append(Message.from_text(Role.USER, f"Please look at {path}, step {number}."))
        session.before_send()
        session.append(Message(Role.MODEL, [Part(function_call=call)]))
        answer = ToolResult(call.id, name, result)
        session.append(Message(Role.TOOL, [Part(function_response=answer)]))
        session.before_send()
        session.append(Message.from_text(Role.MODEL, f"Step {number} is done."))
        session.after_turn()


@pytest.mark.parametrize("has_stash", [False, True], ids=["no stash", "stash"])
@pytest.mark.parametrize("strategy", own_strategies())
def test_saved_sessions_of_every_strategy_stay_small(strategy: str, has_stash: bool) -> None:
    registry = PluginRegistry()
    options: dict[str, Any] = {
        "registry": registry,
        "counter": EstimateCounter(),
        "stash": MemoryStash() if has_stash else None,
        "keep_collections": KEPT,
        "summarizer": extractive_summary,
    }
    session = GCSession(context_limit=2_000, **options)
    session.set_gc_plugin(registry.create(strategy), GCConfig(preserve_recent_turns=2))
    # Collections differ in size, so the largest saved session of each half is compared.
    largest = []
    for half in (range(10, 30), range(30, 50)):
        sizes = []
        for number in half:
            run_turns(session, range(number * 10, number * 10 + 10))
            sizes.append(len(session.save()))
        largest.append(max(sizes))
    young, old = largest
    assert session.collection_count > 2 * KEPT
    assert len(session.get_gc_history()) == KEPT
    assert old <= 1.15 * young

    again = GCSession.restore(session.save(), **options)
    assert again.history == session.history
    assert again.get_gc_history() == session.get_gc_history()
    assert again.save() == session.save()
