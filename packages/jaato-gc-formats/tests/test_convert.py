"""The functions that most hosts use, on the format that everyone knows."""

import copy
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
    {"content": "It greets.", "role": "assistant", "unheard_of": {"score": 1}},
]
REQUEST = {"model": "gpt-x", "messages": MESSAGES, "tools": [{"type": "function"}]}


class SdkObject:
    """What clients of providers return: pydantic models, mostly."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, **_options: Any) -> dict[str, Any]:
        return self.fields


def test_untouched_messages_come_out_as_the_very_same_objects() -> None:
    back = from_messages(to_messages(MESSAGES))

    assert all(one is other for one, other in zip(back, MESSAGES, strict=True))


def test_a_request_comes_back_with_all_else_that_was_in_it() -> None:
    back = from_messages(to_messages(REQUEST))

    assert back == REQUEST
    assert list(back) == list(REQUEST)


def test_what_was_saved_and_restored_is_written_the_same() -> None:
    saved = [message_to_dict(message) for message in to_messages(MESSAGES)]
    restored = [message_from_dict(each) for each in saved]

    assert from_messages(restored, "openai-chat") == MESSAGES


def test_sdk_objects_are_read_and_come_out_as_they_were() -> None:
    answer = SdkObject(role="assistant", content="Hello.")
    history = to_messages([{"role": "user", "content": "Hi."}, answer], "openai-chat")

    assert history[1].text == "Hello."
    assert from_messages(history)[1] is answer


def test_results_know_the_tool_that_they_are_of() -> None:
    [answer] = to_messages(MESSAGES)[3].function_responses

    assert answer.name == "read"


def test_only_what_was_changed_is_written_anew() -> None:
    history = to_messages(MESSAGES)
    history[4] = history[4].with_parts([Part(text="[removed]")])
    back = from_messages(history)

    assert back[:4] == MESSAGES[:4]
    assert back[4] == {"role": "assistant", "content": "[removed]", "unheard_of": {"score": 1}}


def test_the_request_to_fill_can_be_given() -> None:
    messages = list(to_messages(MESSAGES))

    assert from_messages(messages, like=REQUEST) == REQUEST
    assert from_messages(messages, like=to_messages(REQUEST)) == REQUEST
    assert from_messages(to_messages(REQUEST), like=[]) == MESSAGES


def test_reading_does_not_alter_what_is_read() -> None:
    before = copy.deepcopy(REQUEST)
    to_messages(REQUEST)

    assert before == REQUEST


def test_messages_of_nowhere_need_a_format() -> None:
    said = [Message.from_text(Role.USER, "Hi.")]

    with pytest.raises(FormatError, match="format="):
        from_messages(said)
    assert from_messages(said, "openai-chat") == [{"role": "user", "content": "Hi."}]


def test_detection_says_what_it_is_and_how_sure() -> None:
    assert detect(MESSAGES).format == "openai-chat"
    assert detect(REQUEST).confidence > detect([{"role": "user", "content": "Hi."}]).confidence


@pytest.mark.parametrize("data", [[], {}, "text", 7, None, [1, 2], {"messages": "no"}, [[]]])
def test_what_nobody_knows_is_refused_with_the_known_formats(data: Any) -> None:
    with pytest.raises(FormatError, match="openai-chat"):
        detect(data)


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(FormatError, match=r"'smoke-signals'.*openai-chat"):
        to_messages(MESSAGES, "smoke-signals")


def test_all_formats_are_found_through_the_hook() -> None:
    assert formats().keys() == PluginRegistry().formats().keys()
    assert "openai-chat" in formats()


def test_a_valid_request_is_not_refused() -> None:
    assert check_request(MESSAGES) == []
    assert check_request(REQUEST) == []


def test_a_history_is_a_list_that_knows_its_format() -> None:
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
def test_several_requests_are_no_list_of_messages(function: Any, request_: Any) -> None:
    with pytest.raises(FormatError, match=r"whole request.*one at a time"):
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
def test_data_of_an_unexpected_shape_is_an_error_that_says_so(format: str, data: Any) -> None:
    with pytest.raises(FormatError, match=r"shape that can't be read|has to be a list"):
        to_messages(data, format)


@pytest.mark.parametrize(
    ("format", "data"),
    [
        ("anthropic", [{"role": "user", "content": 5}]),
        ("gemini", [{"role": "model", "parts": 5}]),
        ("openai-chat", {"messages": 5}),
        ("openai-responses", {"input": 5}),
    ],
)
def test_a_check_does_not_stumble(format: str, data: Any) -> None:
    with pytest.raises(FormatError, match="the request is in a shape that can't be read"):
        check_request(data, format)


def test_detection_does_not_stumble() -> None:
    samples: list[Any] = [[{"role": ["user"]}], {"messages": [{"role": {}, "content": []}]}]
    for data in samples:
        with pytest.raises(FormatError):
            detect(data)


@pytest.mark.parametrize(
    "names", [{"id": 5, "name": "look"}, {"id": ["a"], "name": "look"}, {"id": "a", "name": 7}]
)
def test_names_and_ids_are_texts(names: dict[str, Any]) -> None:
    call = {"type": "tool_use", "input": {}, **names}
    with pytest.raises(FormatError, match="where a text was expected"):
        to_messages([{"role": "assistant", "content": [call]}], "anthropic")


@pytest.mark.parametrize("arguments", ["object", "{}", "", "[1]", "null", '{"a": 1', '{ "a":1 }'])
def test_arguments_are_written_as_they_were(arguments: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    item = {"role": "assistant", "content": None, "tool_calls": [call]}
    [message] = to_messages([item], "openai-chat")
    message.origin = None

    assert from_messages([message], "openai-chat") == [item]


def test_a_message_may_have_a_field_of_any_name() -> None:
    item = {"role": "assistant", "content": "Hi", "format": "markdown", "reasoning": "hm"}
    [message] = to_messages([item], "openai-chat")
    message.origin = None

    assert from_messages([message], "openai-chat") == [item]


def test_a_document_that_is_no_text_is_still_written() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": 5}
    item = {"role": "user", "content": [{"type": "document", "source": source}]}
    [message] = to_messages([item], "anthropic")
    message.origin = None

    assert from_messages([message], "anthropic")
