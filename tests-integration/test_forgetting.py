"""Forgetting content that our strategies removed into a real stash."""

import contextlib
from pathlib import Path

import pytest

from jaato_gc import (
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCSession,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    UndoError,
    load_gc_plugin,
)
from jaato_gc_stash import SqlStash
from jaato_gc_testing import assert_in_step

SECRET = "zebrafish_password"


def work(session: GCSession, start: int, end: int) -> None:
    for number in range(start, end):
        call = FunctionCall(f"c{number}", "bash", {"command": f"cat notes_{number}.txt"})
        output = f"line {number}\n" * 60 + (SECRET if number == 1 else "the end")
        answer = ToolResult(call.id, call.name, output)
        session.append(Message(Role.MODEL, [Part(function_call=call)], f"call-{number}"))
        session.append(Message(Role.TOOL, [Part(function_response=answer)], f"result-{number}"))


@pytest.mark.parametrize("strategy", ["gc_budget", "gc_marksweep", "gc_hybrid"])
@pytest.mark.parametrize("journal_bytes", [0, 100_000])
def test_a_secret_in_a_result_can_be_forgotten(
    strategy: str, journal_bytes: int, tmp_path: Path
) -> None:
    with SqlStash(tmp_path / "stash.db") as stash:
        session = GCSession(
            context_limit=8_000,
            counter=EstimateCounter(),
            stash=stash,
            journal_bytes=journal_bytes,
        )
        config = GCConfig(preserve_recent_turns=0, preserve_recent_groups=1)
        session.set_gc_plugin(load_gc_plugin(strategy), config)
        session.append(Message.from_text(Role.USER, "Look for the notes."))
        for start in (0, 12):
            work(session, start, start + 12)
            session.manual_gc(target_percent=20.0, ledger_percent=50.0)
        assert SECRET in "".join(each.text for each in session.history), "in the ledger"
        [hit, *_] = stash.search(SECRET)
        keys = [
            key
            for result in session.get_gc_history()
            for item in result.removal_list
            for message_id, key in zip(item.message_ids, item.stash_keys, strict=True)
            if message_id == "result-1"
        ]
        assert hit

        assert session.forget(keys) == len(set(keys))

        assert stash.search(SECRET) == []
        assert SECRET not in session.save()
        assert_in_step(session)
        with contextlib.suppress(UndoError):
            session.undo()  # the newest one may have other content only
        with pytest.raises(UndoError, match="forgotten"):
            session.undo()
        assert SECRET not in session.save()
        assert [each for each in session.history if each.synthetic is SyntheticKind.LEDGER]
        assert_in_step(session)
