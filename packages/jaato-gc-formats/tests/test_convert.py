"""detect, to_messages, from_messages and check_request, mostly with OpenAI Chat Completions."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from jaato_gc import Message, Part, PluginRegistry, Role, message_from_dict, message_to_dict
from jaato_gc_formats import (
    FormatError,
    History,
    check_request,
    detect,
    formats,
    from_messages,
    to_messages,
)

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "read", "arguments": '{"path": "a.py"}'},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is in a.py?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "print('hello')"},
    {"content": "It greets.", "role": "assistant", "unknown": {"score": 1}},
]
REQUEST = {"model": "gpt-x", "messages": MESSAGES, "tools": [{"type": "function"}]}


class SdkObject:
    """Imitates the pydantic models that providers' SDKs return."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, **_options: Any) -> dict[str, Any]:
        return self.fields


def test_unchanged_messages_are_written_as_the_original_objects() -> None:
    back = from_messages(to_messages(MESSAGES))

    assert all(one is other for one, other in zip(back, MESSAGES, strict=True))


def test_a_request_keeps_its_other_fields() -> None:
    back = from_messages(to_messages(REQUEST))

    assert back == REQUEST
    assert list(back) == list(REQUEST)


def test_saved_and_restored_messages_are_written_unchanged() -> None:
    saved = [message_to_dict(message) for message in to_messages(MESSAGES)]
    restored = [message_from_dict(each) for each in saved]

    assert from_messages(restored, "openai-chat") == MESSAGES


def test_sdk_objects_are_read_and_written_as_the_original_objects() -> None:
    answer = SdkObject(role="assistant", content="Hello.")
    history = to_messages([{"role": "user", "content": "Hi."}, answer], "openai-chat")

    assert history[1].text == "Hello."
    assert from_messages(history)[1] is answer


def test_results_have_the_name_of_their_tool() -> None:
    [answer] = to_messages(MESSAGES)[3].function_responses

    assert answer.name == "read"


def test_only_changed_messages_are_converted_again() -> None:
    history = to_messages(MESSAGES)
    history[4] = history[4].with_parts([Part(text="[removed]")])
    back = from_messages(history)

    assert back[:4] == MESSAGES[:4]
    assert back[4] == {"role": "assistant", "content": "[removed]", "unknown": {"score": 1}}


def test_like_sets_the_request_that_receives_the_messages() -> None:
    messages = list(to_messages(MESSAGES))

    assert from_messages(messages, like=REQUEST) == REQUEST
    assert from_messages(messages, like=to_messages(REQUEST)) == REQUEST
    assert from_messages(to_messages(REQUEST), like=[]) == MESSAGES


def test_reading_does_not_modify_the_data() -> None:
    before = copy.deepcopy(REQUEST)
    to_messages(REQUEST)

    assert before == REQUEST


def test_messages_that_were_not_read_from_a_format_need_one() -> None:
    messages = [Message.from_text(Role.USER, "Hi.")]

    with pytest.raises(FormatError, match="format="):
        from_messages(messages)
    assert from_messages(messages, "openai-chat") == [{"role": "user", "content": "Hi."}]


def test_detection_returns_a_format_and_a_confidence() -> None:
    assert detect(MESSAGES).format == "openai-chat"
    assert detect(REQUEST).confidence > detect([{"role": "user", "content": "Hi."}]).confidence


@pytest.mark.parametrize("data", [[], {}, "text", 7, None, [1, 2], {"messages": "no"}, [[]]])
def test_the_error_for_unknown_data_lists_the_known_formats(data: Any) -> None:
    with pytest.raises(FormatError, match="openai-chat"):
        detect(data)


def test_the_error_for_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(FormatError, match=r"'unknown-format'.*openai-chat"):
        to_messages(MESSAGES, "unknown-format")


def test_formats_come_from_the_hook() -> None:
    assert formats().keys() == PluginRegistry().formats().keys()
    assert "openai-chat" in formats()


def test_a_valid_request_is_not_refused() -> None:
    assert check_request(MESSAGES) == []
    assert check_request(REQUEST) == []


def test_a_history_has_its_format_and_its_request() -> None:
    history = to_messages(REQUEST)

    assert isinstance(history, History)
    assert history.format == "openai-chat"
    assert history.request == REQUEST
    assert to_messages(MESSAGES).request is None


@pytest.mark.parametrize("function", [to_messages, check_request])
@pytest.mark.parametrize(
    "request_",
    [
        {"messages": MESSAGES},
        {"messages": [{"role": "user", "content": "Hi"}], "system": "Be brief."},
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        {"input": [{"role": "user", "content": "Hi"}], "model": "m"},
    ],
)
def test_a_list_of_requests_is_rejected(function: Any, request_: Any) -> None:
    with pytest.raises(FormatError, match=r"got a list of requests: pass one request at a time"):
        function([request_, request_])


@pytest.mark.parametrize(
    ("format", "data"),
    [
        ("anthropic", [{"role": ["user"], "content": "Hi"}]),
        ("anthropic", [{"role": "user", "content": 5}]),
        ("anthropic", {"messages": [], "system": 5}),
        ("gemini", [{"role": "model", "parts": 5}]),
        ("gemini", [{"role": "model", "parts": [{"functionCall": "x"}]}]),
        ("openai-chat", {"messages": 5}),
        ("openai-chat", [{"role": "user", "content": [{"type": ["text"]}]}]),
    ],
)
def test_reading_malformed_data_is_a_format_error(format: str, data: Any) -> None:
    with pytest.raises(FormatError, match=r"unexpected structure|expected a list"):
        to_messages(data, format)


@pytest.mark.parametrize(
    ("format", "data"),
    [
        ("openai-chat", {"messages": 5}),
        ("openai-responses", {"input": 5}),
    ],
)
def test_checking_malformed_data_is_a_format_error(format: str, data: Any) -> None:
    with pytest.raises(FormatError, match="the request can't be read: unexpected structure"):
        check_request(data, format)


def test_detecting_malformed_data_is_a_format_error() -> None:
    samples: list[Any] = [[{"role": ["user"]}], {"messages": [{"role": {}, "content": []}]}]
    for data in samples:
        with pytest.raises(FormatError):
            detect(data)


@pytest.mark.parametrize(
    "names", [{"id": 5, "name": "look"}, {"id": ["a"], "name": "look"}, {"id": "a", "name": 7}]
)
def test_call_names_and_ids_must_be_strings(names: dict[str, Any]) -> None:
    call = {"type": "tool_use", "input": {}, **names}
    with pytest.raises(FormatError, match="expected a string as the id or name of a tool call"):
        to_messages([{"role": "assistant", "content": [call]}], "anthropic")


@pytest.mark.parametrize("arguments", ["object", "{}", "", "[1]", "null", '{"a": 1', '{ "a":1 }'])
def test_arguments_are_written_unchanged(arguments: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    item = {"role": "assistant", "content": None, "tool_calls": [call]}
    [message] = to_messages([item], "openai-chat")

    assert from_messages([replace(message, origin=None)], "openai-chat") == [item]


def test_unknown_fields_of_a_message_are_kept() -> None:
    item = {"role": "assistant", "content": "Hi", "format": "markdown", "reasoning": "hm"}
    [message] = to_messages([item], "openai-chat")

    assert from_messages([replace(message, origin=None)], "openai-chat") == [item]


def test_a_text_document_whose_data_is_not_a_string_can_be_written() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": 5}
    item = {"role": "user", "content": [{"type": "document", "source": source}]}
    [message] = to_messages([item], "anthropic")

    assert from_messages([replace(message, origin=None)], "anthropic")
