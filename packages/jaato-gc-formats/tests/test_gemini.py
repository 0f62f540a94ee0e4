"""Google's Gemini API: lossless round trips, valid requests, predicted refusals."""

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
from jaato_gc_formats import History, Refusal, detect
from jaato_gc_formats._anthropic import AnthropicMessages
from jaato_gc_formats._gemini import GeminiContents

TRANSCRIPTS = Path(
    os.environ.get("JAATO_GC_TRANSCRIPTS") or Path(__file__).parents[4] / "shared" / "transcripts"
)
needs_transcripts = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason="no transcripts: set JAATO_GC_TRANSCRIPTS to their folder"
)

API = GeminiContents()
Json = dict[str, Any]
LONG = "line of output\n" * 50
SIGNATURE: Json = {"thoughtSignature": "c2lnbmVk"}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
FILE = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/files/1"}}


def called(name: str, args: Json | None = None, **fields: Any) -> Json:
    return {"functionCall": {"name": name, "args": args or {"path": "a"}}, **fields}


def responded(name: str, response: Any = None, **fields: Any) -> Json:
    return {"functionResponse": {"name": name, "response": response or {"output": "ok"}, **fields}}


def user(*parts: Any) -> Json:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> Json:
    return {"role": "model", "parts": list(parts)}


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

texts = st.text(min_size=1).filter(lambda text: not text.isspace())
said = st.builds(
    lambda text, extra: {"text": text, **extra},
    texts,
    st.sampled_from([{}, {}, SIGNATURE, {"thought_signature": "c2lnbmVk"}]),
)
thoughts = texts.map(lambda text: {"text": text, "thought": True})
media = st.sampled_from(
    [
        IMAGE,
        FILE,
        {"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}},
        {"file_data": {"file_uri": "gs://bucket/1"}, "videoMetadata": {"fps": 1}},
    ]
)
code = st.sampled_from(
    [
        [],
        [
            {"executableCode": {"language": "PYTHON", "code": "1 + 1"}, **SIGNATURE},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        ],
    ]
)
arguments = st.sampled_from([{}, {"path": "a"}, {"text": LONG}])
responses: st.SearchStrategy[Json] = st.one_of(
    st.sampled_from(["output", "result", "return_value", "error"]).map(lambda key: {key: LONG}),
    st.just({"stdout": LONG, "exit_code": 0}),
    st.just({"output": [1, {"x": LONG}]}),
    st.just({}),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    contents: list[Json] = []
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        contents.append(user(draw(said), *draw(st.lists(media, max_size=2))))
        for _ in range(draw(st.integers(0, 3))):
            has_ids, snake = draw(st.booleans()), draw(st.booleans())
            calls: list[Json] = []
            answers: list[Json] = []
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                identity = {"id": f"call_{number}"} if has_ids else {}
                name = draw(st.sampled_from(["read", "write"]))
                args = draw(st.sampled_from([{}, {"args": draw(arguments)}]))
                attached = draw(st.sampled_from([{}, {}, {"parts": [IMAGE]}]))
                key = "function_call" if snake else "functionCall"
                calls.append({key: {**identity, "name": name, **args}})
                key = "function_response" if snake else "functionResponse"
                response = {**identity, "name": name, "response": draw(responses), **attached}
                answers.append({key: response})
            calls[0] |= draw(st.sampled_from([{}, SIGNATURE]))
            contents.append(model(*draw(st.lists(thoughts, max_size=1)), *calls))
            role = {"role": draw(st.sampled_from(["user", "function"]))}
            contents.append({"parts": answers, **role})
        contents.append(model(*draw(code), draw(said)))
    return contents


@patient
@given(histories())
def test_an_unchanged_history_is_written_as_the_original_objects(history: list[Json]) -> None:
    back = written(read(history))

    assert all(one is other for one, other in zip(back, history, strict=True))


@patient
@given(histories())
def test_a_saved_and_restored_history_is_written_unchanged(history: list[Json]) -> None:
    messages = read(history)

    assert check_history(messages) == []
    assert refusals(history) == []
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
    kept = [
        each
        for index, each in enumerate(history)
        if index not in lost or not read([each])[0].function_responses
    ]

    assert refusals(written(repair_history(read(kept)))) == []


@patient
@given(histories())
def test_another_api_accepts_the_converted_history(history: list[Json]) -> None:
    other = AnthropicMessages()

    sent = other.from_messages(read([*history, user({"text": "Go on."})]), None)

    assert list(other.check({"messages": sent})) == []
    assert refusals(API.from_messages(other.to_history(sent), None)) == []


# --- parts ---


@pytest.mark.parametrize(
    "content",
    [
        user({"text": ""}),
        model({"text": "", **SIGNATURE}),
        model({"text": "Hm.", "thought": True}),
        model({"text": "Hm.", "thought": True, "thought_signature": "c2lnbmVk"}),
        model({"functionCall": {"name": "f"}}),
        model({"functionCall": {"name": "f", "args": {}, "willContinue": True}}),
        model({"function_call": {"id": "1", "name": "f", "args": {"x": 1}}}),
        user({"function_response": {"name": "f", "response": {"result": "x"}}}),
        user(responded("f", {"stdout": "x", "exit_code": 0}, scheduling="SILENT")),
        user(responded("f", {"output": {"$ref": "a.png"}}, parts=[IMAGE, FILE])),
        user(responded("f", parts=[{"unknown": 1}])),
        user(responded("f"), {"text": "Hurry."}),
        user({"inlineData": {"mime_type": "image/png", "data": "AQI=", "displayName": "a"}}),
        user({"file_data": {"file_uri": "gs://bucket/1", "mimeType": "video/mp4"}}),
        model({"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "1"}, **SIGNATURE}),
        {"parts": [{"text": "Go"}]},
        {"role": "function", "parts": [responded("f")], "unknown": 1},
    ],
)
def test_saving_and_restoring_keeps_every_field_and_its_spelling(content: Json) -> None:
    assert written(restored(read([content]))) == [content]


def test_a_response_with_one_text_is_read_as_that_text() -> None:
    [message] = read([user(responded("f", {"return_value": "Paris"}, id="1"))])

    assert message.role is Role.TOOL
    assert message.function_responses == [ToolResult("1", "f", "Paris")]


def test_a_response_with_an_error_field_is_an_error() -> None:
    [message] = read([user(responded("f", {"error": "No such file"}))])

    assert message.function_responses == [ToolResult(None, "f", "No such file", is_error=True)]


@pytest.mark.parametrize(
    ("response", "key"),
    [
        ({"return_value": LONG}, "return_value"),
        ({"error": LONG}, "error"),
        ({"stdout": LONG, "exit_code": 0}, "output"),
    ],
)
def test_a_shortened_response_keeps_the_name_of_its_field(response: Json, key: str) -> None:
    history = [user({"text": "Go"}), model(called("f")), user(responded("f", response))]

    [*before, answered] = written([shortened(each) for each in read(history)])

    assert before == history[:2]
    stub = answered["parts"][0]["functionResponse"]["response"]
    assert list(stub) == [key]
    assert "characters cleared" in stub[key]


def test_a_shortened_response_has_no_media() -> None:
    answer = responded("f", {"output": LONG}, parts=[IMAGE])
    history = [user({"text": "Go"}), model(called("f")), user(answer)]

    [*_, answered] = written([shortened(each) for each in read(history)])

    [part] = answered["parts"]
    assert set(part["functionResponse"]) == {"name", "response"}


def test_a_part_with_a_thought_signature_is_signed() -> None:
    [message] = read([model(called("f", **SIGNATURE), called("g"))])

    assert [part.is_signed for part in message.parts] == [True, False]


def test_fields_that_are_none_are_ignored() -> None:
    dumped = {"text": None, "thought_signature": None, "function_call": {"name": "f", "args": {}}}

    [message] = read([model(dumped)])

    assert message.function_calls == [FunctionCall(None, "f", {})]
    assert not message.parts[0].is_signed


def test_saving_and_restoring_keeps_bytes() -> None:
    content = user(
        {"inline_data": {"mime_type": "image/png", "data": b"\x01\xff"}},
        {"text": "Look.", "thought_signature": b"\x02\xfe"},
    )

    messages = read([content])

    assert messages[0].parts[0].inline_data == InlineData("image/png", data=b"\x01\xff")
    assert written(restored(messages)) == [content]


def test_parts_can_be_sdk_objects() -> None:
    class SdkPart:
        def model_dump(self, **_options: Any) -> Json:
            return called("f")

    history = [user({"text": "Go"}), model(SdkPart()), user(responded("f"))]

    messages = read(history)

    assert messages[1].function_calls == [FunctionCall(None, "f", {"path": "a"})]
    assert written(messages)[1] is history[1]
    assert refusals(history) == []


def test_contents_that_are_a_string_are_read_as_a_user_message() -> None:
    [message] = read({"model": "gemini", "contents": "Go"})

    assert (message.role, message.text) == (Role.USER, "Go")
    assert refusals({"contents": "Go"}) == []


# --- the system prompt ---


@pytest.mark.parametrize("key", ["systemInstruction", "system_instruction"])
@pytest.mark.parametrize(
    "system",
    [
        "Be brief.",
        {"parts": [{"text": "Be brief."}]},
        {"role": "user", "parts": [{"text": "Be"}, {"text": "brief."}]},
        [{"text": "Be brief."}],
    ],
)
def test_the_system_prompt_is_written_in_its_original_form(key: str, system: Any) -> None:
    request = {"contents": [user({"text": "Go"})], key: system}

    messages = read(request)

    assert messages[0].role is Role.SYSTEM
    assert written(messages, request) == request
    assert written(restored(messages), request) == request


# --- messages that are not written as the original objects ---


def test_responses_of_one_turn_are_merged_in_the_order_of_the_calls() -> None:
    messages = [
        Message.from_text(Role.USER, "Go"),
        Message(Role.MODEL, [Part(function_call=FunctionCall(each, "f", {})) for each in "abc"]),
        Message(Role.TOOL, [Part(function_response=ToolResult("c", "f", "C"))]),
        Message(
            Role.TOOL,
            [
                Part(function_response=ToolResult("a", "f", "A", is_error=True)),
                Part(inline_data=InlineData("image/png", data="AQI=")),
            ],
        ),
        Message(Role.TOOL, [Part(function_response=ToolResult("b", "f", {"x": 1}))]),
    ]

    sent = written(messages)

    assert refusals(sent) == []
    assert sent[2:] == [
        user(
            responded("f", {"error": "A"}, id="a"),
            responded("f", {"x": 1}, id="b"),
            responded("f", {"output": "C"}, id="c"),
        ),
        user({"inlineData": {"mimeType": "image/png", "data": "AQI="}}),
    ]


def test_a_missing_response_is_added_to_the_others() -> None:
    history = [
        user({"text": "Go"}),
        model(called("f"), called("g")),
        user(responded("g")),
        model({"text": "Done."}),
    ]

    repaired = written(repair_history(read(history)))

    names = [part["functionResponse"]["name"] for part in repaired[2]["parts"]]
    assert names == ["f", "g"]
    assert refusals(repaired) == []


def test_responses_without_ids_are_ordered_by_the_names_of_the_calls() -> None:
    calls = [Part(function_call=FunctionCall(None, name, {})) for name in "fgf"]
    answers = [Part(function_response=ToolResult(None, name, name)) for name in "ffg"]
    messages = [
        Message.from_text(Role.USER, "Go"),
        Message(Role.MODEL, calls),
        *(Message(Role.TOOL, [answer]) for answer in answers),
    ]

    *_, responses = written(messages)

    names = [part["functionResponse"]["name"] for part in responses["parts"]]
    assert names == ["f", "g", "f"]


def test_responses_are_written_with_the_role_user() -> None:
    message = Message(Role.MODEL, [Part(function_response=ToolResult(None, "f", "ok"))])

    assert written([message]) == [user(responded("f"))]


def test_a_removed_image_becomes_a_text() -> None:
    history = [
        user({"text": "Go"}),
        model(called("f")),
        user(responded("f", {"output": LONG}), IMAGE),
    ]

    [*_, answered] = written([shortened(each) for each in read(history)])

    assert answered["parts"][1] == {"text": "[attachment cleared to free context space]"}


def test_fields_of_other_providers_are_not_sent() -> None:
    other = [
        {"role": "user", "content": [{"type": "text", "text": "Go", "cache_control": {}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}, "caller": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "ok", "is_error": False},
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            ],
        },
    ]

    sent = written(AnthropicMessages().to_history(other))

    assert sent == [
        user({"text": "Go"}),
        model({"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}}),
        user(responded("f", id="a"), {"text": "[image/* attachment]"}),
    ]


# --- responses ---


def test_the_first_candidate_of_a_response_is_its_only_item() -> None:
    answer = {
        "candidates": [{"content": model({"text": "Hi."}), "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2},
    }

    class Answer:
        def model_dump(self, **_options: Any) -> Json:
            return answer

    for given_answer in (answer, Answer()):
        assert API.answer_items(given_answer) == [model({"text": "Hi."})]
        usage = API.usage(given_answer)
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens) == (7, 2)
    assert API.answer_items({"candidates": [{"content": {"role": "model"}}]}) == []
    assert API.answer_items({"promptFeedback": {"blockReason": "SAFETY"}}) == []


# --- detection ---


@pytest.mark.parametrize(
    "data",
    [
        [user({"text": "Go"}), model(called("f"))],
        {"contents": [{"parts": [{"text": "Go"}]}]},
        [{"role": "user", "parts": [{"function_response": {"name": "f"}}]}],
    ],
)
def test_gemini_contents_are_detected(data: Any) -> None:
    assert detect(data).format == "gemini"


def test_unknown_parts_are_not_recognized_as_gemini() -> None:
    assert API.recognize([{"kind": "request", "parts": [{"part_kind": "user-prompt"}]}]) == 0


# --- refusals ---

ASKED = user({"text": "Go"})
COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)
REFUSED: dict[str, tuple[Any, str]] = {
    "no_contents": ([], "contents is not specified"),
    "empty_parts": ([user()], "contents[0].parts: contents.parts must not be empty."),
    "empty_part": (
        [user({"text": "Go"}, {})],
        "contents[0].parts[1].data: required oneof field 'data' must have one initialized field",
    ),
    "wrong_role": (
        [ASKED, model(called("f")), user(responded("f")), model(responded("f"))],
        "Content with role 'model' can't contain 'functionResponse' part",
    ),
    "unanswered_calls": ([ASKED, model(called("f"), called("g")), user(responded("f"))], COUNT),
    "extra_responses": ([ASKED, model(called("f")), user(responded("f"), responded("f"))], COUNT),
    "misplaced_calls": (
        [model(called("f")), user(responded("f"))],
        "Please ensure that function call turn comes immediately after a user turn or after a "
        "function response turn.",
    ),
    "orphaned_response": (
        [ASKED, user(responded("f"))],
        "Please ensure that function response turn comes immediately after a function call turn.",
    ),
    "unsigned_call": (
        {
            "model": "gemini-3-pro-preview",
            "contents": [ASKED, model(called("f")), user(responded("f"))],
        },
        "Function call is missing a thought_signature in functionCall parts.",
    ),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_each_rule_reports_the_error_message_of_the_api(rule: str) -> None:
    request, words = REFUSED[rule]

    [refusal] = refusals(request)

    assert refusal.rule == rule
    assert words in refusal.message


SIGNED = model(called("f", **SIGNATURE), called("g"))
EARLIER = [ASKED, model(called("f")), user(responded("f")), model({"text": "Done."})]


@pytest.mark.parametrize(
    "request_",
    [
        EARLIER,
        {"model": "gemini-2.5-flash", "contents": EARLIER[:3]},
        {"model": "gemini-3-pro-image-preview", "contents": EARLIER[:3]},
        {"model": "gemini-3-flash", "contents": [*EARLIER, ASKED]},
        {
            "model": "models/gemini-3.1-pro",
            "contents": [*EARLIER, ASKED, SIGNED, user(responded("f"), responded("g"))],
        },
        [ASKED, ASKED, model({"text": "Hi."}), model({"text": "Hi!"})],
        [ASKED, model(called("f")), user(responded("f")), ASKED],
        [{"parts": [{"text": ""}]}],
    ],
)
def test_valid_requests_are_not_refused(request_: Any) -> None:
    assert refusals(request_) == []


# --- recorded requests and errors ---

KNOWN_ERRORS = {
    "number of responses differs from number of calls": "unanswered_calls",
    "functionResponse under role model": "wrong_role",
}


@needs_transcripts
def test_every_known_error_of_the_api_is_predicted() -> None:
    known = json.loads((TRANSCRIPTS / "edge" / "api_errors.json").read_text())["errors"]
    errors = {each["case"]: each for each in known if each["provider"] == "gemini"}

    assert set(errors) == set(KNOWN_ERRORS)
    for case, error in errors.items():
        [refusal] = refusals(REFUSED[KNOWN_ERRORS[case]][0])
        assert refusal.message == error["message"]


def exchanges() -> Iterator[Json]:
    for path in sorted(TRANSCRIPTS.glob("*/*/*.exchange.json")):
        for exchange in json.loads(path.read_text()):
            if "enerateContent" in exchange["uri"] and "googleapis" in exchange["uri"]:
                yield exchange


@needs_transcripts
def test_recorded_requests_are_written_unchanged_and_not_refused() -> None:
    seen = 0
    for exchange in exchanges():
        name = exchange["uri"].partition("/models/")[2].partition(":")[0]
        request = {"model": name, **exchange["request"]}
        messages = read(request)
        assert written(messages, request) == request
        assert written(restored(messages), request) == request
        assert exchange["status"]["code"] == 200
        assert refusals(request) == []
        assert refusals(written([shortened(each) for each in messages], request)) == []
        if "string" not in exchange["response"]:  # a streamed response
            for item in API.answer_items(exchange["response"]):
                assert API.write_item(API.read_item(item)) == [item]
        seen += 1
    assert seen > 20
