"""Whatever a session sends, a strict provider accepts; `nox -s soak` makes 20,000 requests."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from conversations import WIRES, talk
from strict_provider import PROVIDERS

Fields = dict[str, Any]
TEXT = {"type": "text", "text": "Yes."}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "signed_1"}
CALL = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "x = 1"}
CODE = {"type": "server_tool_use", "id": "code", "name": "code_execution", "input": {}}
BY_CODE = {**CALL, "caller": {"type": "code_execution_20250825", "tool_id": "code"}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "code", "content": []}
MCP = {"type": "mcp_tool_use", "id": "mcp", "name": "find", "input": {}, "server_name": "docs"}
FOUND = {"type": "mcp_tool_result", "tool_use_id": "mcp", "content": []}
REMINDER = {"role": "system", "content": "Be kind."}


def user(*blocks: Fields | str) -> Fields:
    return {"role": "user", "content": [_block(block) for block in blocks]}


def said(*blocks: Fields | str) -> Fields:
    return {"role": "assistant", "content": [_block(block) for block in blocks]}


def _block(block: Fields | str) -> Fields:
    return {"type": "text", "text": block} if isinstance(block, str) else block


def chat_call(*call_ids: str) -> Fields:
    function = {"name": "read", "arguments": "{}"}
    calls = [{"id": each, "type": "function", "function": function} for each in call_ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_result(call_id: str) -> Fields:
    return {"role": "tool", "tool_call_id": call_id, "content": "x = 1"}


ASKED = {"role": "user", "content": "What?"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
FUNCTION_CALL = {
    "type": "function_call", "id": "fc_1", "call_id": "a", "name": "read", "arguments": "{}",
}  # fmt: skip
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "x = 1"}
PROGRAM = {"type": "program", "id": "prg_1", "call_id": "p", "code": "", "fingerprint": ""}
BY_PROGRAM = {**FUNCTION_CALL, "id": "fc_2", "caller": {"type": "program", "caller_id": "p"}}
ACCEPTED: dict[str, tuple[str, list[Fields]]] = {
    "anthropic: calls and results": ("anthropic", [user("?"), said(CALL), user(RESULT)]),
    "anthropic: a system message after the user": (
        "anthropic", [user("?"), REMINDER, said("Yes."), user("?"), REMINDER],
    ),
    "anthropic: a system message after a server tool": (
        "anthropic", [user("?"), said(MCP, FOUND), REMINDER, said("Yes.")],
    ),
    "anthropic: code that calls a tool": (
        "anthropic",
        [user("?"), said(CODE, BY_CODE), user(RESULT), REMINDER, said(RAN, "Yes."), user("?")],
    ),
    "anthropic: code that still runs": (
        "anthropic", [user("?"), said(CODE, BY_CODE), user(RESULT)],
    ),
    "anthropic: a pause": ("anthropic", [user("?"), said("Wait.", CODE)]),
    "chat: parallel calls": (
        "openai-chat", [ASKED, chat_call("a", "b"), chat_result("b"), chat_result("a")],
    ),
    "responses: a program": ("openai-responses", [ASKED, PROGRAM, BY_PROGRAM, OUTPUT]),
}  # fmt: skip
REFUSED: dict[str, tuple[str, list[Fields], str]] = {
    "anthropic: a system message first": ("anthropic", [REMINDER, user("?")], "system message"),
    "anthropic: a system message after an answer": (
        "anthropic", [user("?"), said("Yes."), REMINDER], "system message after assistant",
    ),
    "anthropic: a system message before the user": (
        "anthropic", [user("?"), REMINDER, user("?")], "system message before user",
    ),
    "anthropic: two system messages in a row": (
        "anthropic", [user("?"), REMINDER, REMINDER], "system message before system",
    ),
    "anthropic: a result without its call": ("anthropic", [user("?"), user(RESULT)], "results"),
    "anthropic: a call without its result": (
        "anthropic", [user("?"), said(CALL), user("?")], "calls",
    ),
    "anthropic: a text before a result": (
        "anthropic", [user("?"), said(CALL), user("So:", RESULT)], "come after other content",
    ),
    "anthropic: a result of a server tool without its use": (
        "anthropic", [user("?"), said(RAN, "Yes.")], "without its use",
    ),
    "anthropic: a result of MCP without its use": (
        "anthropic", [user("?"), said(FOUND, "Yes.")], "without its use",
    ),
    "anthropic: a use without its result": (
        "anthropic", [user("?"), said(CODE, "Yes."), user("?")], "uses without results",
    ),
    "anthropic: a call by code that does not run": (
        "anthropic", [user("?"), said(BY_CODE), user(RESULT)], "does not run",
    ),
    "anthropic: one id twice": (
        "anthropic", [user("?"), said(CALL), user(RESULT), said(CALL), user(RESULT)], "twice",
    ),
    "anthropic: an id of another shape": (
        "anthropic", [user("?"), said({**CALL, "id": "a.b"})], "invalid id",
    ),
    "anthropic: five cache marks": (
        "anthropic", [user(*[{**TEXT, "cache_control": {"type": "ephemeral"}}] * 5)], "5 cache",
    ),
    "anthropic: an unknown role": (
        "anthropic", [user("?"), {**said("Yes."), "role": "usr"}], "unknown role",
    ),
    "anthropic: a field of another API": (
        "anthropic", [user("?"), {**said("Yes."), "tool_calls": []}], "unknown fields",
    ),
    "anthropic: no content": ("anthropic", [user("?"), said()], ""),
    "chat: a call without its result": ("openai-chat", [ASKED, chat_call("a"), ASKED], "calls"),
    "chat: a result without its call": ("openai-chat", [ASKED, chat_result("a")], "its call"),
    "chat: one id twice": ("openai-chat", [ASKED, chat_call("a", "a")], "one id"),
    "chat: no content": ("openai-chat", [{"role": "user", "content": None}], "no content"),
    "chat: an unknown role": ("openai-chat", [{"role": "usr", "content": "?"}], "unknown role"),
    "responses: reasoning without its call": (
        "openai-responses", [ASKED, REASONING, ASKED], "required following",
    ),
    "responses: a call without its reasoning": (
        "openai-responses", [ASKED, FUNCTION_CALL, OUTPUT], "required reasoning",
    ),
    "responses: a call by a program that is not there": (
        "openai-responses", [ASKED, BY_PROGRAM, OUTPUT], "not there",
    ),
    "responses: a call without its output": ("openai-responses", [ASKED, FUNCTION_CALL], "outputs"),
    "responses: an output without its call": ("openai-responses", [ASKED, OUTPUT], "not there"),
    "responses: one id twice": (
        "openai-responses", [ASKED, FUNCTION_CALL, OUTPUT, FUNCTION_CALL, OUTPUT], "twice",
    ),
    "responses: an id of another shape": (
        "openai-responses", [ASKED, {**FUNCTION_CALL, "id": "call_1"}, OUTPUT], "begin with",
    ),
    "gemini: an unsigned call": (
        "gemini",
        [
            {"role": "user", "parts": [{"text": "?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {}}}]},
        ],
        "thought_signature",
    ),
    "gemini: an unknown role": ("gemini", [{"role": "usr", "parts": [{"text": "?"}]}], "role"),
    "gemini: an empty part": ("gemini", [{"role": "user", "parts": [{}]}], "a part with"),
}  # fmt: skip
"""What is refused, and a part of the reason."""


def request_with(format: str, items: list[Fields]) -> Fields:
    return {**WIRES[format].call, "model": "any", "system": "", PROVIDERS[format].items_key: items}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_strict_provider_accepts_what_is_documented(name: str) -> None:
    format, items = ACCEPTED[name]

    assert PROVIDERS[format]().receive(request_with(format, items)) == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_strict_provider_refuses(name: str) -> None:
    format, items, reason = REFUSED[name]
    provider = PROVIDERS[format]()
    if format == "openai-responses":
        provider.answered([REASONING, FUNCTION_CALL])

    faults = provider.receive(request_with(format, items))

    assert any(reason in fault for fault in faults), faults


CHANGES: dict[str, Callable[[Fields], object]] = {
    "another system prompt": lambda request: request.update(system="Be long."),
    "other tools": lambda request: request.update(tools=[]),
    "a shorter result": lambda request: request["messages"][2].update(
        content=[{**RESULT, "content": "x"}]
    ),
    "a message less": lambda request: request["messages"].pop(0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_thought_is_refused_after_a_change_of_what_was_before_it(change: str) -> None:
    provider = PROVIDERS["anthropic"]()
    request: Fields = {
        "model": "claude-opus-5-5", "system": "Be brief.", "tools": [{"name": "read"}],
        "messages": [user("?"), said(CALL), user(RESULT)],
    }  # fmt: skip
    assert provider.receive(request) == []
    provider.answered([THOUGHT, TEXT])
    request = copy.deepcopy(request)
    request["messages"] += [said(THOUGHT, TEXT), user("And?")]
    assert provider.receive(request) == []

    CHANGES[change](request)

    assert any("bound to" in fault for fault in provider.receive(request))


def test_more_cache_marks_than_the_host_gave_are_refused() -> None:
    provider = PROVIDERS["anthropic"](marks_given=1)
    marked = {**TEXT, "cache_control": {"type": "ephemeral"}}

    assert provider.receive(request_with("anthropic", [user("?"), said(marked)])) == []
    assert provider.receive(request_with("anthropic", [user("?", marked), said(marked)])) == [
        "2 cache marks, and the host gave 1"
    ]


@pytest.mark.parametrize("format", WIRES)
@pytest.mark.parametrize("seed", ["1", "2", "3", "4"])
def test_whatever_a_session_sends_is_accepted_and_an_error_changes_nothing(
    format: str, seed: str
) -> None:
    conversation = talk(format, seed, requests=40)

    assert conversation.findings == []
    assert conversation.requests >= 40
