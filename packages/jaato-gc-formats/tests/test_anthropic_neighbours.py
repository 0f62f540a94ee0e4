"""What belongs together in Anthropic's messages: system messages in their place, server tools."""

import json
from typing import Any

import pytest

from jaato_gc import GCPolicy, GCSession, Message, Role, message_from_dict, message_to_dict
from jaato_gc_formats import (
    History,
    ProviderSession,
    check_request,
    from_messages,
    repaired,
    to_messages,
)

Json = dict[str, Any]
FORMAT = "anthropic"
REMINDER = {"role": "system", "content": "Be kind."}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CODE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {}}
ASKED = {
    "type": "mcp_tool_use",
    "id": "mcptoolu_1",
    "name": "echo",
    "server_name": "s",
    "input": {},
}
TOLD = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks) or [text("Go on.")]}


def model(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks) or [text("Done.")]}


def call(call_id: str, caller: str = "") -> Json:
    block = {"type": "tool_use", "id": call_id, "name": "read", "input": {}}
    if caller:
        block["caller"] = {"type": "code_execution_20250825", "tool_id": caller}
    return block


def result(call_id: str) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


PROGRAM = [
    user(), model(CODE, call("a", "srvtoolu_1")), user(result("a")),
    model(call("b", "srvtoolu_1")), user(result("b")), model(RAN, text("Done.")), user(),
]  # fmt: skip


def read(messages: list[Json]) -> History:
    return to_messages(messages, FORMAT)


def restored(messages: list[Message]) -> list[Message]:
    saved = json.dumps([message_to_dict(message) for message in messages])
    return [message_from_dict(fields) for fields in json.loads(saved)]


def broken(messages: list[Json]) -> list[str]:
    return [refusal.rule for refusal in check_request(messages, FORMAT)]


# --- the rules ---


@pytest.mark.parametrize(
    "messages",
    [
        [user(), REMINDER],
        [user(), REMINDER, model()],
        [user(), model(call("a")), user(result("a")), REMINDER, model()],
        [user(), model(text("Hm."), SEARCH), REMINDER, model(FOUND)],
        [user(), model(SEARCH, FOUND), REMINDER, model()],
        [user(), model(SEARCH)],
        [user(), model(SEARCH), model(FOUND, text("Done."))],
        [user(), model(ASKED, TOLD, text("Done.")), user()],
        PROGRAM,
        PROGRAM[:3],
        PROGRAM[:5],
        [*PROGRAM[:5], REMINDER, *PROGRAM[5:]],
    ],
)
def test_documented_requests_are_accepted(messages: list[Json]) -> None:
    assert broken(messages) == []


@pytest.mark.parametrize(
    "messages",
    [
        [REMINDER, user()],
        [user(), REMINDER, REMINDER],
        [user(), REMINDER, user()],
        [user(), model(), REMINDER],
        [user(), model(SEARCH, FOUND, text("Hm.")), REMINDER],
    ],
)
def test_a_system_message_in_another_place_is_refused(messages: list[Json]) -> None:
    assert set(broken(messages)) == {"misplaced_system"}


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([user(), model(SEARCH), user()], "dangling_server_use"),
        ([user(), model(SEARCH), user(), model()], "dangling_server_use"),
        ([user(), model(ASKED), user(), model()], "dangling_server_use"),
        ([user(), model(FOUND, text("Done."))], "orphaned_server_result"),
        ([user(), model(TOLD, text("Done."))], "orphaned_server_result"),
        (PROGRAM[:1] + PROGRAM[3:], "orphaned_server_result"),
        (PROGRAM[:5] + PROGRAM[6:], "dangling_server_use"),
    ],
)
def test_a_server_tool_without_its_other_half_is_refused(messages: list[Json], rule: str) -> None:
    assert rule in broken(messages)


def test_a_thought_is_required_also_if_a_reminder_is_last() -> None:
    request = {
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [user(), model(call("a")), user(result("a")), REMINDER],
    }

    assert [refusal.rule for refusal in check_request(request, FORMAT)] == ["thought_missing"]


# --- reading ---


def test_a_system_message_among_the_others_keeps_its_place() -> None:
    history = to_messages({"system": "Be brief.", "messages": [user(), REMINDER]}, FORMAT)

    assert [message.keeps_place for message in history] == [False, False, True]
    assert [message.policy for message in history] == [None, None, None]


@pytest.mark.parametrize("kind", ["tool_addition", "tool_removal"])
def test_a_change_of_the_tools_is_locked(kind: str) -> None:
    change = {"type": kind, "tool": {"type": "tool_reference", "name": "read"}}

    [_, message] = read([user(), {"role": "system", "content": [change]}])

    assert (message.policy, message.keeps_place) == (GCPolicy.LOCKED, True)


def test_a_compaction_is_locked_unless_it_failed() -> None:
    compactions = [{"type": "compaction", "content": words} for words in ("So far: …", None)]

    answers = [read([user(), model(each, text("Done."))])[1] for each in compactions]

    assert [answer.policy for answer in answers] == [GCPolicy.LOCKED, None]


def test_a_server_tool_within_one_message_is_bound_to_no_other() -> None:
    for message in read([user(), model(SEARCH, FOUND), user(), model(ASKED, TOLD), user()]):
        assert message.bonds == ()


def test_the_parts_of_a_server_tool_in_several_messages_are_bound() -> None:
    bonds = [message.bonds for message in read(PROGRAM)]

    assert bonds == [(), ("srvtoolu_1",), (), ("srvtoolu_1",), (), ("srvtoolu_1",), ()]


# --- in a session ---


def session(*messages: Json) -> ProviderSession:
    agent = ProviderSession(FORMAT, GCSession(context_limit=50_000))
    for message in messages:
        agent.append(message)
    return agent


@pytest.mark.parametrize("position", range(1, 6))
def test_a_program_is_removed_as_a_whole(position: int) -> None:
    agent = session(*PROGRAM)

    agent.session.remove(agent.session.history[position].message_id)

    assert agent.request()["messages"] == [PROGRAM[0], PROGRAM[-1]]


def test_what_is_before_a_compaction_may_go_and_the_compaction_stays() -> None:
    compaction = model({"type": "compaction", "content": "So far: …"}, text("Done."))
    agent = session(user(), model(), user(), compaction, user())
    history = agent.session.history

    agent.session.remove(history[1].message_id)

    with pytest.raises(Exception, match="LOCKED"):
        agent.session.remove(history[3].message_id)
    assert agent.request()["messages"] == [user(), user(), compaction, user()]


def test_parallel_results_are_written_as_they_came_before_and_after_a_restore() -> None:
    apart = [
        user(), model(call("a"), call("b")), user(result("a")), user(result("b")), model(), user()
    ]  # fmt: skip
    agent = session(*apart)

    sent = json.dumps(agent.request()["messages"])

    agent = ProviderSession(FORMAT, GCSession.restore(agent.session.save()))
    assert json.dumps(agent.request()["messages"]) == sent == json.dumps(apart)


def test_parallel_results_of_another_format_are_one_message() -> None:
    calls = [
        {"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for each in "ab"
    ]
    history = to_messages(
        [
            {"role": "user", "content": "Go"}, {"role": "assistant", "tool_calls": calls},
            *({"role": "tool", "tool_call_id": each, "content": "ok"} for each in "ab"),
        ],
        "openai-chat",
    )  # fmt: skip

    [_, _, results] = from_messages(list(history), FORMAT)

    assert [block["tool_use_id"] for block in results["content"]] == ["a", "b"]


def test_repair_removes_system_messages_in_a_wrong_place() -> None:
    history = read([user(), REMINDER, REMINDER, model(), REMINDER, user(), REMINDER])

    after = repaired(history)

    assert broken(from_messages(after, FORMAT)) == []
    assert [message.role for message in after][-2:] == [Role.USER, Role.SYSTEM]
