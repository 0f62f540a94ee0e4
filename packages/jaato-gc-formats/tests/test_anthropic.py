"""Anthropic's Messages API: lossless round trips, valid requests, predicted refusals."""

import copy
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    InlineData,
    Message,
    Part,
    Role,
    ToolResult,
    check_history,
    message_from_dict,
    message_to_dict,
    repair_history,
)
from jaato_gc.plugin import Shortening, shortened
from jaato_gc_formats import FormatError, History, Refusal, detect
from jaato_gc_formats._anthropic import AnthropicMessages
from jaato_gc_formats._openai_chat import OpenAIChat

TRANSCRIPTS = Path(
    os.environ.get("JAATO_GC_TRANSCRIPTS") or Path(__file__).parents[4] / "shared" / "transcripts"
)
needs_transcripts = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason="no transcripts: set JAATO_GC_TRANSCRIPTS to their folder"
)

API = AnthropicMessages()
Json = dict[str, Any]
LONG = "line of output\n" * 50
PIXEL = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
IMAGE = {"type": "image", "source": PIXEL}
THINKING = {"type": "thinking", "thinking": "Look first.", "signature": "c2lnbmVk"}
BREAKPOINT = {"type": "ephemeral"}


def said(text: str, **fields: Any) -> Json:
    return {"type": "text", "text": text, **fields}


def called(call_id: str, **fields: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {"path": "a"}, **fields}


def result(call_id: str, content: Any = "ok", **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def user(*content: Any) -> Json:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> Json:
    return {"role": "assistant", "content": list(content)}


def read(data: Any) -> History:
    return API.to_history(data)


def written(messages: list[Message], like: Json | None = None) -> Any:
    return API.from_messages(messages, like)


def refusals(request: Any) -> list[Refusal]:
    return list(API.check(API.as_request(request)))


def restored(messages: list[Message]) -> list[Message]:
    """Saves messages as JSON and restores them, which drops their original objects."""
    return [
        message_from_dict(json.loads(json.dumps(message_to_dict(message)))) for message in messages
    ]


# --- any history ---

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(min_size=1).filter(lambda text: not text.isspace() and text == text.strip())
extras = st.sampled_from([{}, {}, {"unknown": {"score": 1}}])
results_content = st.one_of(
    st.just(LONG),
    texts,
    st.just(""),
    st.lists(st.one_of(texts.map(said), st.just(IMAGE), st.just({"type": "tool_reference"}))),
)
arguments = st.sampled_from([{}, {"path": "a"}, {"text": LONG, "lines": [LONG, 1]}])
sources = st.sampled_from(
    [
        IMAGE,
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "document", "title": "T", "source": {**PIXEL, "media_type": "application/pdf"}},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "All of it."},
        },
        {"type": "document", "source": {"type": "content", "content": [said("In parts.")]}},
    ]
)
thoughts = st.sampled_from(
    [[], [THINKING], [{"type": "redacted_thinking", "data": "c2VjcmV0"}], [THINKING, THINKING]]
)


def server_side(number: int) -> st.SearchStrategy[list[Json]]:
    use_id = f"srvtoolu_{number}"
    use = {"type": "server_tool_use", "id": use_id, "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": use_id, "content": []}
    return st.sampled_from([[], [use, result]])


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    messages: list[Json] = []
    calls = 0
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            messages.append({"role": "user", "content": draw(texts)})
        else:
            blocks = [said(draw(texts), **draw(extras)), *draw(st.lists(sources, max_size=2))]
            messages.append(user(*blocks))
        for _ in range(draw(st.integers(0, 3))):
            ids = [f"toolu_{calls + number}" for number in range(draw(st.integers(1, 3)))]
            calls += len(ids)
            spoken = [said(draw(texts))] if draw(st.booleans()) else []
            uses = [{**called(each, **draw(extras)), "input": draw(arguments)} for each in ids]
            messages.append(assistant(*draw(thoughts), *spoken, *draw(server_side(calls)), *uses))
            errors = st.sampled_from([{}, {"is_error": True}, {"is_error": False}])
            answers = [result(each, draw(results_content), **draw(errors)) for each in ids]
            also = [said(draw(texts))] if draw(st.booleans()) else []
            messages.append(user(*answers, *also))
        messages.append(assistant(*draw(thoughts), said(draw(texts))))
    return messages


@patient
@given(histories())
def test_an_unchanged_history_is_written_as_the_original_objects(history: list[Json]) -> None:
    before = copy.deepcopy(history)

    back = written(read(history))

    assert all(one is other for one, other in zip(back, history, strict=True))
    assert history == before


@patient
@given(histories())
def test_a_saved_and_restored_history_is_written_unchanged(history: list[Json]) -> None:
    messages = read(history)

    assert check_history(messages) == []
    assert written(restored(messages)) == history


@patient
@given(histories(), st.data())
def test_the_api_accepts_a_history_with_shortened_parts(
    history: list[Json], data: st.DataObject
) -> None:
    messages = read(history)
    chosen = data.draw(st.sets(st.integers(0, len(messages) - 1)))
    how = Shortening(what=data.draw(st.sampled_from(["results", "arguments"])))
    collected = [
        shortened(each, how) if index in chosen else each for index, each in enumerate(messages)
    ]

    for history_now in (collected, restored(collected)):
        sent = written(history_now)
        assert refusals(sent) == []
        assert [each["role"] for each in sent] == [each["role"] for each in history]


@patient
@given(histories(), st.data())
def test_the_api_accepts_a_repaired_history(history: list[Json], data: st.DataObject) -> None:
    lost = data.draw(st.sets(st.integers(0, len(history) - 1)))
    broken = [
        {**each, "content": [block for block in each["content"] if block["type"] != "tool_result"]}
        if index in lost and isinstance(each["content"], list)
        else each
        for index, each in enumerate(history)
    ]
    kept = [each for each in broken if each["content"]]

    sent = written(repair_history(read(kept)))

    assert refusals(sent) == []


# --- blocks ---


@pytest.mark.parametrize(
    "item",
    [
        user(result("a", is_error=False)),
        user(result("a", is_error=True)),
        user({"type": "tool_result", "tool_use_id": "a"}),
        user(result("a", [said("x"), IMAGE, said("y", cache_control=BREAKPOINT)])),
        user(result("a", cache_control=BREAKPOINT), said("And?")),
        user(said("x", cache_control=BREAKPOINT)),
        assistant(said("x", citations=[{"type": "char_location"}]), called("a", caller={"x": 1})),
        assistant({"type": "tool_use", "id": "a", "name": "n", "input": "no object"}),
        assistant({"type": "mcp_tool_use", "id": "m", "name": "n", "input": {}}),
        {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "n"}}]},
    ],
)
def test_saving_and_restoring_keeps_every_field_of_a_block(item: Json) -> None:
    assert written(restored(read([item]))) == [item]


def test_a_result_is_one_text_with_its_images_in_separate_parts() -> None:
    [message] = read([user(result("a", [said("x"), IMAGE, said("y")], is_error=True))])

    answer, image = message.parts
    assert message.role is Role.TOOL
    assert answer.function_response == ToolResult("a", "", "x\ny", is_error=True)
    assert image.inline_data == InlineData("image/png", data="iVBORw0KGgo=")


def test_results_have_the_name_of_their_tool() -> None:
    messages = read([user(said("Go")), assistant(called("a")), user(result("a"))])

    assert messages[2].function_responses[0].name == "read"


def test_a_message_with_only_redacted_thinking_is_not_empty() -> None:
    [message] = read([assistant({"type": "redacted_thinking", "data": "c2VjcmV0"})])

    assert not message.is_empty
    assert message.parts[0].thought == ""


def test_a_thinking_block_with_a_signature_is_signed() -> None:
    [message] = read([assistant(THINKING)])

    assert message.parts[0].is_signed


def test_a_removed_image_becomes_a_text_with_its_breakpoint() -> None:
    picture = {**IMAGE, "cache_control": BREAKPOINT}
    history = [user(said("Go")), assistant(called("a")), user(result("a", [said(LONG), picture]))]

    [*_, answered] = written([shortened(each) for each in read(history)])

    [block] = answered["content"]
    stub, clipped = block["content"]
    assert stub["text"].startswith(f"[{len(LONG)} characters cleared")
    assert clipped["type"] == "text"
    assert clipped["cache_control"] == BREAKPOINT


def test_a_shortened_result_keeps_its_breakpoint_and_error_flag() -> None:
    answer = result("a", LONG, is_error=True, cache_control=BREAKPOINT)
    history = [user(said("Go")), assistant(called("a")), user(answer)]

    [*before, answered] = written([shortened(each) for each in read(history)])

    assert all(one is other for one, other in zip(before, history, strict=False))
    [block] = answered["content"]
    assert {**block, "content": LONG} == answer
    assert block["content"] != LONG


def test_blocks_can_be_sdk_objects() -> None:
    class Block:
        def model_dump(self, **_options: Any) -> Json:
            return called("a")

    history = [user(said("Go")), assistant(Block()), user(result("a"))]

    messages = read(history)

    assert messages[1].function_calls == [FunctionCall("a", "read", {"path": "a"})]
    assert written(messages)[1] is history[1]
    assert refusals(history) == []


# --- the system prompt ---


@pytest.mark.parametrize("system", ["Be brief.", [said("Be brief.", cache_control=BREAKPOINT)]])
def test_the_system_prompt_is_written_in_its_original_form(system: Any) -> None:
    request = {"model": "claude", "system": system, "messages": [user(said("Go"))]}

    messages = read(request)

    assert messages[0].role is Role.SYSTEM
    assert written(messages, request) == request
    assert written(restored(messages), like=request) == request


def test_system_messages_in_the_list_stay_in_the_list() -> None:
    history = [user(said("Go")), {"role": "system", "content": "Now in French."}]
    request = {"system": "Be brief.", "messages": history}

    messages = read(request)

    assert [message.role for message in messages] == [Role.SYSTEM, Role.USER, Role.SYSTEM]
    assert written(restored(messages), like=request) == request


def test_a_system_message_of_another_format_needs_a_request() -> None:
    messages = [Message.from_text(Role.SYSTEM, "Be brief."), Message.from_text(Role.USER, "Go")]

    with pytest.raises(FormatError, match="like="):
        written(messages)
    assert written(messages, like={}) == {
        "messages": [user(said("Go"))],
        "system": [said("Be brief.")],
    }


# --- messages that are not written as the original objects ---


def test_results_of_one_turn_are_merged_into_one_message() -> None:
    history = [
        user(said("Go")),
        assistant(called("a"), called("b")),
        user(result("a"), said("Hurry.")),
        assistant(said("Done.")),
    ]

    repaired = written(repair_history(read(history)))

    assert [message["role"] for message in repaired] == ["user", "assistant", "user", "assistant"]
    blocks = repaired[2]["content"]
    assert [block.get("tool_use_id") for block in blocks] == ["a", "b", None]
    assert [block.get("is_error") for block in blocks] == [None, True, None]
    assert repaired[1] is history[1]


def test_calls_without_ids_get_ids() -> None:
    def call(name: str) -> Part:
        return Part(function_call=FunctionCall(None, name, {}))

    def answer(name: str) -> Part:
        return Part(function_response=ToolResult(None, name, name))

    messages = [
        Message.from_text(Role.USER, "Go"),
        Message(Role.MODEL, [call("x"), call("y"), call("x")]),
        Message(Role.TOOL, [answer("x"), answer("x")]),
        Message(Role.TOOL, [answer("y")]),
    ]

    sent = written(messages)

    assert refusals(sent) == []
    first, second, third = (block["id"] for block in sent[1]["content"])
    assert [block["tool_use_id"] for block in sent[2]["content"]] == [first, third, second]
    assert written(messages) == sent


def test_ids_of_other_providers_are_made_valid_and_unique() -> None:
    exchange = [
        Message(Role.MODEL, [Part(function_call=FunctionCall("call|1", "x", {}))]),
        Message(Role.TOOL, [Part(function_response=ToolResult("call|1", "x", "ok"))]),
    ]
    again = restored([Message(each.role, each.parts) for each in exchange])

    sent = written([Message.from_text(Role.USER, "Go"), *exchange, *again])

    assert refusals(sent) == []


def test_unsigned_thoughts_are_not_written() -> None:
    messages = [
        Message.from_text(Role.USER, "Go"),
        Message(Role.MODEL, [Part(thought="Hm."), Part(text="Done.")]),
        Message(Role.MODEL, [Part(thought="Hm.")]),
    ]

    assert written(messages) == [user(said("Go")), assistant(said("Done."))]


def test_blank_texts_are_not_written() -> None:
    messages = restored(read([user(said("", x=1), said(" "), said("Go"))]))

    assert written(messages) == [user(said("Go"))]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (InlineData("image/png", data=b"\x01\x02"), {**IMAGE, "source": {**PIXEL, "data": "AQI="}}),
        (
            InlineData("image/*", uri="https://example.org/a.png"),
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ),
        (InlineData("image/png", uri="gs://bucket/a.png"), said("[image/png attachment]")),
        (InlineData("audio/wav", data="AQI="), said("[audio/wav attachment]")),
    ],
)
def test_attachments_of_other_formats_are_converted(data: InlineData, expected: Json) -> None:
    message = Message(Role.USER, [Part(inline_data=data, extra={"foreign": 1})])

    assert written([message]) == [user(expected)]


def test_fields_of_other_providers_are_not_sent() -> None:
    chat = [
        {"role": "user", "content": "Go", "name": "Ann"},
        {
            "role": "assistant",
            "content": "Right.",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
            "reasoning_content": "Hm.",
        },
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]

    sent = written(OpenAIChat().to_history(chat))

    assert sent == [
        user(said("Go")),
        assistant(said("Right."), {"type": "tool_use", "id": "c", "name": "f", "input": {}}),
        user(result("c")),
    ]


# --- responses ---


def test_items_of_a_response_have_only_fields_that_can_be_sent() -> None:
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [said("Right.", citations=None), called("a", caller={"type": "direct"})],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 3},
    }

    class Answer:
        def model_dump(self, **_options: Any) -> Json:
            return answer

    for given_answer in (answer, Answer()):
        assert API.answer_items(given_answer) == [
            assistant(said("Right."), called("a", caller={"type": "direct"}))
        ]
        usage = API.usage(given_answer)
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens) == (12, 3)
    assert API.answer_items({**answer, "content": []}) == []


# --- detection ---


@pytest.mark.parametrize(
    "data",
    [
        [user(said("Go")), assistant(called("a"))],
        [{"role": "user", "content": "Go"}, assistant(THINKING, said("Right."))],
        {"system": "Be brief.", "messages": [{"role": "user", "content": "Go"}]},
        {"tools": [{"name": "f", "input_schema": {}}], "messages": [user(said("Go"))]},
    ],
)
def test_anthropic_messages_are_detected(data: Any) -> None:
    assert detect(data).format == "anthropic"


# --- refusals ---

ASKED = user(said("Go"))
WHOLE = {"model": "claude", "max_tokens": 10, "tools": [{"name": "read", "input_schema": {}}]}
EXCHANGE = [ASKED, assistant(called("a")), user(result("a"))]
THINKS = {**WHOLE, "thinking": {"type": "enabled", "budget_tokens": 1024}}

REFUSED: dict[str, tuple[Any, str]] = {
    "no_messages": ([], "at least one message is required"),
    "dangling_call": (
        [ASKED, assistant(called("a")), ASKED],
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a.",
    ),
    "results_not_first": (
        [ASKED, assistant(called("a")), user(said("Here:"), result("a"))],
        "`tool_use` ids were found without `tool_result` blocks immediately after: a.",
    ),
    "orphaned_result": (
        [user(said("Go"), result("a"))],
        "messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: a.",
    ),
    "duplicate_result": (
        [ASKED, assistant(called("a")), user(result("a"), result("a"))],
        "each tool_use must have a single result. Found multiple `tool_result` blocks with id: a",
    ),
    "duplicate_ids": (
        [*EXCHANGE, *EXCHANGE[1:]],
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "invalid_id": (
        [ASKED, assistant(called("a|b")), user(result("a|b"))],
        "String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "invalid_input": (
        [ASKED, assistant({**called("a"), "input": "x"}), user(result("a"))],
        "Input should be a valid dictionary",
    ),
    "empty_content": (
        [user(), assistant(said("Hi."))],
        "messages.0: all messages must have non-empty content except for the optional final",
    ),
    "empty_text": ([user(said(""))], "messages: text content blocks must be non-empty"),
    "trailing_whitespace": (
        [ASKED, assistant(said("So, "))],
        "final assistant content cannot end with trailing whitespace",
    ),
    "unsigned_thought": (
        [ASKED, assistant({"type": "thinking", "thinking": "Hm."}, said("Hi."))],
        "messages.1.content.0.thinking.signature: Field required",
    ),
    "thought_missing": (
        {**THINKS, "messages": EXCHANGE},
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
        "`tool_use`. When `thinking` is enabled, a final `assistant` message must start",
    ),
    "no_tools": (
        {"model": "claude", "messages": EXCHANGE},
        "Requests which include `tool_use` or `tool_result` blocks must define tools",
    ),
    "too_many_breakpoints": (
        {
            "tools": [{"name": "read", "cache_control": BREAKPOINT}],
            "system": [said("Be brief.", cache_control=BREAKPOINT)],
            "messages": [
                ASKED,
                assistant(called("a", cache_control=BREAKPOINT)),
                user(result("a", [said("x", cache_control=BREAKPOINT)], cache_control=BREAKPOINT)),
            ],
        },
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_each_rule_reports_the_error_message_of_the_api(rule: str) -> None:
    request, words = REFUSED[rule]

    [refusal] = refusals(request)

    assert refusal.rule == rule
    assert words in refusal.message


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ([user(said(" \n"))], "text content blocks must contain non-whitespace text"),
        (
            [user(said("", cache_control=BREAKPOINT))],
            "messages.0.content.0.text: cache_control cannot be set for empty text blocks",
        ),
        (
            [ASKED, assistant({**THINKING, "signature": ""}, said("Hi."))],
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
        (
            [ASKED, assistant(called("a"), called("b")), user(result("b"))],
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately "
            "after: a. Each",
        ),
        ([ASKED, assistant(called("a"))], "`tool_use` ids were found without `tool_result`"),
    ],
)
def test_variants_of_a_broken_rule_report_their_error_message(request_: Any, words: str) -> None:
    assert any(words in each.message for each in refusals(request_))


@pytest.mark.parametrize(
    "request_",
    [
        EXCHANGE,
        {**WHOLE, "messages": EXCHANGE},
        [assistant(said("Hello.")), ASKED],
        [ASKED, assistant(called("a"), called("b")), user(result("a")), user(result("b"))],
        [ASKED, assistant(said("Right.")), assistant(called("a")), user(result("a"))],
        [ASKED, {"role": "assistant", "content": ""}],
        [ASKED, assistant(said("So, ")), ASKED],
        {**THINKS, "messages": [ASKED, assistant(THINKING, called("a")), user(result("a"))]},
        {
            **THINKS,
            "messages": [
                ASKED,
                assistant(THINKING, called("a")),
                user(result("a")),
                assistant(called("b")),
                user(result("b"), said("Hurry.")),
            ],
        },
        {**THINKS, "messages": [*EXCHANGE, assistant(said("Done.")), ASKED]},
        {**THINKS, "thinking": {"type": "adaptive"}, "messages": EXCHANGE},
    ],
)
def test_valid_requests_are_not_refused(request_: Any) -> None:
    assert refusals(request_) == []


# --- recorded requests and errors ---

KNOWN_ERRORS: dict[str, tuple[Any, str]] = {
    "dangling tool_use": (REFUSED["dangling_call"][0], "dangling_call"),
    "orphaned tool_result after position-based compaction": (
        REFUSED["orphaned_result"][0],
        "orphaned_result",
    ),
    "parallel calls, interrupted (two dangling ids)": (
        [ASKED, assistant(called("a"), called("b")), ASKED],
        "dangling_call",
    ),
    "tool blocks in the history but no tools array in the request (summary call)": (
        REFUSED["no_tools"][0],
        "no_tools",
    ),
}


def general_words(message: str) -> set[str]:
    """Returns the words of an error message that do not depend on the request."""
    words = {word.strip(".,") for word in message.split()}
    return {word for word in words if not word.startswith(("toolu_", "messages."))}


@needs_transcripts
def test_every_known_error_of_the_api_is_predicted() -> None:
    known = json.loads((TRANSCRIPTS / "edge" / "api_errors.json").read_text())["errors"]
    errors = {each["case"]: each for each in known if each["provider"] == "anthropic"}

    assert set(errors) == set(KNOWN_ERRORS)
    for case, error in errors.items():
        request, rule = KNOWN_ERRORS[case]
        [refusal] = refusals(request)
        assert refusal.rule == rule
        if "not quoted" not in error["message"]:
            assert general_words(error["message"]) <= general_words(refusal.message)


def exchanges() -> Iterator[Json]:
    for path in sorted(TRANSCRIPTS.glob("*/*/*.exchange.json")):
        for exchange in json.loads(path.read_text()):
            if "api.anthropic.com/v1/messages" in exchange["uri"]:
                yield exchange


@needs_transcripts
def test_recorded_requests_are_written_unchanged_and_not_refused() -> None:
    seen = 0
    for exchange in exchanges():
        request = exchange["request"]
        messages = read(request)
        assert written(messages, request) == request
        assert written(restored(messages), like=request) == request
        # The requests that were refused had an unknown model or effort, which is not checked.
        assert refusals(request) == []
        if exchange["status"]["code"] == 200:
            [item] = API.answer_items(exchange["response"])
            assert API.write_item(API.read_item(item)) == [item]
        seen += 1
    assert seen > 30


def logged_messages() -> Iterator[Json]:
    for path in sorted(TRANSCRIPTS.glob("claude-code/*/*.jsonl*")):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            for line in lines:
                record = json.loads(line)
                if isinstance(record.get("message"), dict):
                    yield record["message"]


@needs_transcripts
def test_logged_messages_of_claude_code_are_written_unchanged() -> None:
    for item in logged_messages():
        messages = read([item])
        assert written(messages)[0] is item
        assert written(restored(messages)) == [item]


@needs_transcripts
def test_a_logged_history_of_cline_is_written_unchanged() -> None:
    request = json.loads(
        (TRANSCRIPTS / "anthropic-messages" / "cline" / "session.messages.json").read_text()
    )

    messages = read(request)

    assert written(restored(messages), like=request) == request
    assert refusals(written([shortened(each) for each in messages], like=request)) == []


# --- thoughts that are bound to earlier messages ---

A_THOUGHT = {"type": "thinking", "thinking": "Let me see.", "signature": "sealed"}
BINDING = "claude-sonnet-5-5"
THOUGHTFUL: list[dict[str, Any]] = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "What is it?"},
    {"role": "assistant", "content": [A_THOUGHT, {"type": "text", "text": "It is that."}]},
    {"role": "user", "content": "Thanks."},
]


def bound_refusals(messages: list[dict[str, Any]], **fields: Any) -> list[str]:
    before = {"model": BINDING, "messages": THOUGHTFUL}
    request = {"model": BINDING, "messages": messages, **fields}
    return [refusal.rule for refusal in API.check(request, before)]


def test_bound_thoughts_after_a_changed_message_are_refused() -> None:
    assert bound_refusals(THOUGHTFUL[2:]) == ["unbound_thought"]
    assert bound_refusals([{"role": "user", "content": "[removed]"}, *THOUGHTFUL[1:]]) == [
        "unbound_thought"
    ]
    assert bound_refusals(THOUGHTFUL, system="Another.") == ["unbound_thought"]


def test_bound_thoughts_before_a_changed_message_are_not_refused() -> None:
    assert bound_refusals(THOUGHTFUL) == []
    assert bound_refusals([*THOUGHTFUL, {"role": "assistant", "content": "Yes."}]) == []
    assert bound_refusals([*THOUGHTFUL[:4], {"role": "user", "content": "No."}]) == []


def thoughtful_answer(seal: str) -> dict[str, Any]:
    thought = {"type": "thinking", "thinking": "", "signature": seal}
    return {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}


def test_the_answer_to_the_request_before_is_bound_to_that_request() -> None:
    answer = thoughtful_answer("new")
    changed = {"role": "user", "content": "[removed]"}

    assert bound_refusals([*THOUGHTFUL, answer]) == []
    assert bound_refusals([*THOUGHTFUL[:4], changed, answer]) == ["unbound_thought"]


def test_the_thoughts_that_are_sent_are_an_unbroken_run() -> None:
    question = {"role": "user", "content": "And?"}
    long = [
        question, thoughtful_answer("1"), question, thoughtful_answer("2"), question,
        thoughtful_answer("3"), question,
    ]  # fmt: skip
    silent = {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}
    before = {"model": BINDING, "messages": long}

    def refused(*numbers: int) -> list[str]:
        messages = [silent if index in numbers else each for index, each in enumerate(long)]
        return [each.rule for each in API.check({"model": BINDING, "messages": messages}, before)]

    assert refused(1) == refused(1, 3) == refused(5) == refused(1, 3, 5) == []
    assert refused(3) == ["unbound_thought"]


def test_nothing_before_a_compaction_is_bound() -> None:
    compaction = {"type": "compaction", "content": "They said hello."}
    compacted = [*THOUGHTFUL, {"role": "assistant", "content": [compaction]}]
    later = [thoughtful_answer("later"), {"role": "user", "content": "Good."}]
    before = {"model": BINDING, "messages": [*compacted, *later]}

    after = {"model": BINDING, "messages": [compacted[-1], *later]}

    assert list(API.check(after, before)) == []


def test_cache_marks_are_no_change() -> None:
    marked = {"type": "text", "text": "Hello.", "cache_control": {"type": "ephemeral"}}

    assert bound_refusals([{"role": "user", "content": [marked]}, *THOUGHTFUL[1:]]) == []


@pytest.mark.parametrize(
    "model",
    ["claude-opus-5-5", "anthropic.claude-fable-5-1-v1:0", "us.anthropic.claude-haiku-5-5",
     "claude-sonnet-5-5@20260901"],
)  # fmt: skip
def test_models_that_bind_thoughts_think_only_adaptively(model: str) -> None:
    request = {"model": model, "messages": THOUGHTFUL, "thinking": {"type": "enabled"}}

    assert [each.rule for each in API.check(request)] == ["thinking_not_adaptive"]
    assert not list(API.check({**request, "thinking": {"type": "adaptive"}}))
    assert not list(API.check({**request, "model": "claude-opus-4-5"}))


def test_thoughts_are_not_refused_if_they_are_not_bound_or_may_be_dropped() -> None:
    dropping = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}

    assert bound_refusals(THOUGHTFUL[2:], model="claude-sonnet-4-5") == []
    assert bound_refusals(THOUGHTFUL[2:], thinking=dropping) == []
