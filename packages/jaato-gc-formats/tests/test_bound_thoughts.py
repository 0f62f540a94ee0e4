"""Which thoughts of a changed request are sent to a model that binds them.

Long runs of sessions are in tests-integration/test_bound_thinking.py.
"""

from dataclasses import replace
from typing import Any

import pytest

from jaato_gc import Message
from jaato_gc_formats import check_request, from_messages, to_messages

Fields = dict[str, Any]


def thought(seal: str) -> Fields:
    return {"type": "thinking", "thinking": "", "signature": seal}


def call(name: str) -> Fields:
    return {"type": "tool_use", "id": name, "name": "read", "input": {"path": name}}


def result(name: str) -> Fields:
    return {"type": "tool_result", "tool_use_id": name, "content": "found"}


REQUEST: Fields = {
    "model": "claude-opus-5-5",
    "system": "Be brief.",
    "tools": [{"name": "read", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [thought("1"), call("a"), thought("2"), call("b")]},
        {"role": "user", "content": [result("a"), result("b")]},
        {"role": "assistant", "content": [thought("3"), {"type": "text", "text": "Done."}]},
        {"role": "user", "content": "Thanks."},
    ],
}


def seals(request: Fields) -> list[str]:
    return [
        block["signature"]
        for message in request["messages"]
        if not isinstance(message["content"], str)
        for block in message["content"]
        if block["type"] == "thinking"
    ]


def with_other_path(message: Message, name: str) -> Message:
    """Returns a message with another argument in one of its calls."""
    parts = [
        replace(part, function_call=replace(part.function_call, args={"path": "…"}))
        if part.function_call and part.function_call.id == name
        else part
        for part in message.parts
    ]
    return message.with_parts(parts)


def test_an_unchanged_request_is_written_unchanged() -> None:
    assert from_messages(to_messages(REQUEST, "anthropic")) == REQUEST


@pytest.mark.parametrize(("name", "sent"), [("a", []), ("b", ["1", "2"])])
def test_a_changed_call_costs_the_thoughts_after_it(name: str, sent: list[str]) -> None:
    messages = to_messages(REQUEST, "anthropic")

    changed = [with_other_path(message, name) for message in messages]
    request = from_messages(changed, "anthropic", like=REQUEST)

    assert seals(request) == sent
    assert check_request(request, "anthropic", before=REQUEST) == []


@pytest.mark.parametrize(
    ("change", "sent"),
    [
        ({"system": "Be very brief."}, []),
        ({"tools": []}, []),
        ({"system": [{"type": "text", "text": "Be brief.", "cache_control": {}}]}, ["1", "2", "3"]),
        ({"max_tokens": 10, "output_config": {"effort": "low"}}, ["1", "2", "3"]),
        ({"model": "claude-opus-4-5", "system": "Be very brief."}, ["1", "2", "3"]),
    ],
)
def test_a_changed_call_of_the_client_costs_all_thoughts_if_they_are_bound_to_it(
    change: Fields, sent: list[str]
) -> None:
    other = {**REQUEST, **change}
    prompt = to_messages(other, "anthropic")[:1]
    said = to_messages(REQUEST, "anthropic")[1:]

    assert seals(from_messages([*prompt, *said], "anthropic", like=other)) == sent
