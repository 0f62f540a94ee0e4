"""A session with a stash on disk: removed content can be found and restored exactly."""

import copy
from pathlib import Path

import pytest

from jaato_gc import (
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCSession,
    Message,
    Part,
    Role,
    ToolResult,
    UndoError,
    load_gc_plugin,
)
from jaato_gc_stash import SqlStash

PLANTED = "the staging database listens on port 54329"


def new_session(stash: SqlStash, strategy: str) -> GCSession:
    session = GCSession(
        context_limit=8_000,
        counter=EstimateCounter(),
        stash=stash,
        journal_bytes=0,  # so that undo has to read the stash
    )
    session.set_gc_plugin(load_gc_plugin(strategy), GCConfig(preserve_recent_turns=2))
    return session


def run_turn(session: GCSession, number: int) -> list[Message]:
    call = FunctionCall(f"call_{number}", "read_file", {"path": f"src/module_{number % 40}.py"})
    fact = PLANTED if number == 10 else f"value_{number} = {number * 7919}"
    body = f"# module_{number % 40}\n" + f"{fact}\n" + f"def helper_{number}(): ...\n" * 12
    messages = [
        Message.from_text(Role.USER, f"Step {number}: look at module {number % 40}."),
        Message(Role.MODEL, [Part(function_call=call)]),
        Message(Role.TOOL, [Part(function_response=ToolResult(call.id, call.name, body))]),
        Message.from_text(Role.MODEL, f"Module {number % 40} is in order."),
    ]
    appended = [session.append(messages[0])]
    session.before_send()
    appended += map(session.append, messages[1:3])
    session.before_send()
    appended.append(session.append(messages[3]))
    session.after_turn()
    return appended


@pytest.mark.parametrize("strategy", ["gc_marksweep", "gc_truncate"])
def test_a_fact_of_turn_10_is_recalled_after_1000_turns_and_undo_restores_everything(
    tmp_path: Path, strategy: str
) -> None:
    with SqlStash(tmp_path / "stash.db") as stash:
        session = new_session(stash, strategy)
        messages = [message for number in range(1_000) for message in run_turn(session, number)]
        expected = copy.deepcopy(messages)
        assert PLANTED not in str(session.history)
        collections = len(session.get_gc_history())

        definition, recall = session.recall_tool()
        found = recall({"query": "staging database port"})
        key = found.split()[1]
        assert definition["name"] == "recall"
        assert PLANTED in recall({"key": key})

        for _ in range(collections):
            session.undo()
        assert session.history == expected
        with pytest.raises(UndoError, match="no collection"):
            session.undo()


def test_a_full_disk_fails_the_collection_and_keeps_history_and_budget(
    tmp_path: Path,
) -> None:
    with SqlStash(tmp_path / "stash.db") as stash:
        session = new_session(stash, "gc_marksweep")
        engine = stash._database.engine
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")  # the file can't grow
        number = 0
        while session.get_context_usage()["percent_used"] < 78:
            run_turn(session, number)
            number += 1
        before, budget = session.history, session.budget.snapshot()

        result = session.manual_gc(target_percent=20.0)

        assert result.outcome is GCOutcome.FAILED
        assert "disk is full" in (result.error or "")
        assert session.history == before
        assert session.budget.snapshot() == budget

        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 100000")
        assert session.manual_gc(target_percent=20.0).tokens_freed > 0


def test_a_stashed_result_is_restored_in_place(tmp_path: Path) -> None:
    with SqlStash(tmp_path / "stash.db") as stash:
        session = new_session(stash, "gc_marksweep")
        messages = [message for number in range(60) for message in run_turn(session, number)]
        cleared = next(
            key
            for result in session.get_gc_history()
            for item in result.removal_list
            for key in item.stash_keys
        )
        tokens = session.get_context_usage()["total_tokens"]

        session.restore_stashed([cleared])

        unchanged = [message for message in session.history if message in messages]
        assert stash.restore([cleared])[0] in unchanged
        assert session.get_context_usage()["total_tokens"] > tokens
        assert unchanged == [message for message in messages if message in unchanged]
