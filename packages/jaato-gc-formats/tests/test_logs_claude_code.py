"""Claude Code's sessions: selecting the active branch and joining its lines."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import PluginRegistry
from jaato_gc_formats import Conversation, from_messages, load

REGISTRY = PluginRegistry()
read = partial(load, registry=REGISTRY)


def line(kind: str, uuid: str, parent: str | None, content: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **fields.pop("message", {})}
    record = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", **fields}
    return {**record, "message": message}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "ls", "input": {}}


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": f"of {call_id}"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def conversations(path: Path, *records: Any) -> list[Conversation]:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return read(path)


def data(conversation: Conversation) -> Any:
    return from_messages(conversation.messages, registry=REGISTRY)


def test_the_lines_of_one_response_are_one_message(path: Path) -> None:
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300}
    [conversation] = conversations(
        path,
        line("user", "1", None, "Look."),
        line("assistant", "2", "1", [text("So.")], message={"id": "m", "usage": usage}),
        line("assistant", "3", "2", [call("a")], message={
            "id": "m", "usage": {**usage, "output_tokens": 7}}),
        line("user", "4", "3", [result("a")]),
    )  # fmt: skip
    assert data(conversation) == [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [text("So."), call("a")]},
        {"role": "user", "content": [result("a")]},
    ]
    [reported] = conversation.usage
    assert (reported.input_tokens, reported.output_tokens, reported.position) == (321, 7, 1)
    assert conversation.problems == []


@pytest.mark.parametrize("next_parent", ["4", "5"])
def test_results_outside_the_active_branch_belong_to_it(next_parent: str, path: Path) -> None:
    """Each result is a child of the line with its call; the next line is a child of one result."""
    [conversation] = conversations(
        path,
        line("user", "1", None, "Look."),
        line("assistant", "2", "1", [call("a")], message={"id": "m"}),
        line("user", "4", "2", [result("a")]),
        line("assistant", "3", "2", [call("b")], message={"id": "m"}),
        line("user", "5", "3", [result("b")]),
        line("assistant", "6", next_parent, [text("Done.")], message={"id": "n"}),
    )
    assert data(conversation) == [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [call("a"), call("b")]},
        {"role": "user", "content": [result("a"), result("b")]},
        {"role": "assistant", "content": [text("Done.")]},
    ]
    assert conversation.problems == []


def test_only_the_active_branch_is_read_after_a_rewind(path: Path) -> None:
    [conversation] = conversations(
        path,
        line("user", "1", None, "Look."),
        line("assistant", "2", "1", [text("Where?")]),
        line("user", "3", "2", "There."),
        line("assistant", "4", "3", [call("x")]),
        line("user", "5", "4", [result("x")]),
        line("user", "6", "2", "Here."),
        line("assistant", "7", "6", [text("Nothing.")]),
    )
    assert [message.text for message in conversation.messages] == [
        "Look.", "Where?", "Here.", "Nothing.",
    ]  # fmt: skip


def test_each_subagent_is_a_separate_conversation(path: Path) -> None:
    main, first, second = conversations(
        path,
        line("user", "1", None, "Delegate."),
        line("assistant", "2", "1", [call("a")]),
        line("user", "s1", None, "Search.", isSidechain=True),
        line("assistant", "s2", "s1", [text("Found.")], isSidechain=True),
        line("user", "t1", None, "Count.", isSidechain=True, agentId="counter"),
        line("assistant", "t2", "t1", [text("Three.")], isSidechain=True, agentId="counter"),
        line("user", "3", "2", [result("a")]),
    )
    assert main.name == "s"
    assert [message.text for message in first.messages] == ["Search.", "Found."]
    assert second.name == "s/counter"
    assert [message.text for message in second.messages] == ["Count.", "Three."]
    assert main.problems == first.problems == second.problems == []


@pytest.mark.parametrize("logical_parent", ["2", "missing", None])
def test_a_compacted_session_is_one_conversation_with_segments(
    logical_parent: str | None, path: Path
) -> None:
    boundary = {
        "type": "system", "subtype": "compact_boundary", "uuid": "3", "parentUuid": None,
        "logicalParentUuid": logical_parent, "sessionId": "s",
    }  # fmt: skip
    [conversation] = conversations(
        path,
        line("user", "1", None, "Look."),
        line("assistant", "2", "1", [text("Seen.")]),
        boundary,
        line("user", "4", "3", "Summary: looked.", isCompactSummary=True),
        line("assistant", "5", "4", [text("Going on.")]),
    )
    assert [message.text for message in conversation.messages] == [
        "Look.", "Seen.", "Summary: looked.", "Going on.",
    ]  # fmt: skip
    assert conversation.compactions == [2]
    assert [len(segment.messages) for segment in conversation.segments()] == [2, 2]
    assert conversation.problems == []


def test_records_that_were_not_sent_are_skipped(path: Path) -> None:
    [conversation] = conversations(
        path,
        {"type": "summary", "summary": "A talk", "leafUuid": "3"},
        {"type": "file-history-snapshot", "messageId": "1", "snapshot": {}},
        line("user", "1", None, "Look.", isMeta=True, toolUseResult={"stdout": "x"}),
        line("assistant", "2", "1", [text("API Error: 500")], isApiErrorMessage=True),
        {"type": "progress", "uuid": "p", "parentUuid": "2", "sessionId": "s", "data": {}},
        line("assistant", "3", "p", [text("Seen.")], message={"model": "m", "stop_reason": None}),
        {"type": "unknown-kind", "sessionId": "s"},
    )
    assert data(conversation) == [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [text("Seen.")]},
    ]


def test_copied_lines_are_read_once(path: Path) -> None:
    first = line("user", "1", None, "Look.")
    second = line("assistant", "2", "1", [text("Seen.")], message={"id": "m"})
    [conversation] = conversations(path, first, first, second, second)
    assert data(conversation) == [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [text("Seen.")]},
    ]


def test_a_prompt_during_a_response_follows_the_response(path: Path) -> None:
    [conversation] = conversations(
        path,
        line("user", "1", None, "Look."),
        line("assistant", "2", "1", [text("So.")], message={"id": "m"}),
        line("user", "3", "2", "Quick!"),
        line("assistant", "4", "3", [call("a")], message={"id": "m"}),
        line("user", "5", "4", [result("a")]),
    )
    assert data(conversation) == [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [text("So."), call("a")]},
        {"role": "user", "content": [result("a")]},
        {"role": "user", "content": "Quick!"},
    ]


def test_a_cycle_of_parents_is_a_problem(path: Path) -> None:
    [conversation] = conversations(
        path,
        line("user", "1", "3", "Look."),
        line("assistant", "2", "1", [text("Seen.")]),
        line("user", "3", "2", "And?"),
    )
    assert [message.text for message in conversation.messages] == ["Look.", "Seen.", "And?"]
    assert [(problem.line, problem.what) for problem in conversation.problems] == [
        (3, "the parents of the record form a cycle")
    ]


def test_lines_that_are_their_own_parents_do_not_cause_a_loop(path: Path) -> None:
    records = [line("user", str(number), str(number), "x") for number in range(3_000)]
    [conversation] = conversations(path, *records)
    assert len(conversation.messages) == len(records)


def test_a_missing_parent_is_a_problem(path: Path) -> None:
    [conversation] = conversations(
        path,
        line("user", "1", "in another file", "Look."),
        line("assistant", "2", "1", [text("Seen.")]),
        line("user", "4", "3", "And?"),
    )
    assert [message.text for message in conversation.messages] == ["Look.", "Seen.", "And?"]
    assert [problem.line for problem in conversation.problems] == [3]


def test_a_session_is_read_without_keeping_it_in_memory(path: Path) -> None:
    """Selecting the lines of the active branch does not keep their content."""
    records = [line("user", "0", None, "x")]
    records += [line("user", str(n), str(n - 1), "x" * 100_000) for n in range(1, 200)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    import tracemalloc

    from jaato_gc_formats import iter_messages

    tracemalloc.start()
    total = sum(len(message.text) for message in iter_messages(path, registry=REGISTRY))
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total > 19_000_000
    assert peak < total / 2
