"""Every history that a session sends is accepted by the rules of every format."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCSession,
    InlineData,
    InvalidHistoryError,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    discover_gc_plugins,
    extractive_summary,
    load_gc_plugin,
)
from jaato_gc_formats import ApiFormat, check_request, formats, from_messages, to_messages

FORMATS = sorted(name for name, each in formats().items() if isinstance(each, ApiFormat))
STRATEGIES = sorted(discover_gc_plugins())

# --- arbitrary messages ---

CALL_IDS = st.sampled_from(["x", "y", "x.1", "x_1", "ü/ :", "", None])
NAMES = st.sampled_from(["bash", "read_file"])
TEXTS = st.sampled_from(["ok", "", " \n", "the end \n", "\x00\u200b", "a long text " * 40])
ATTACHMENTS = st.sampled_from(
    [
        InlineData("image/png", b"\x89PNG"),
        InlineData("image/png", "bm9uZQ=="),
        InlineData("image/png", uri="https://example.org/a.png"),
        InlineData("image/png", uri="gs://bucket/a.png"),
        InlineData("image/png", width=10, height=10),
        InlineData("application/pdf", b"%PDF"),
        InlineData("audio/wav", "bm9uZQ=="),
        InlineData("text/csv", b"a,b"),
    ]
)
EXTRAS = st.sampled_from(
    [None, None, {"signature": "c2ln"}, {"thoughtSignature": "c2ln"}, {"type": "thinking"}]
)
CALLS = st.builds(FunctionCall, CALL_IDS, NAMES, st.sampled_from([{}, {"path": "a"}]))
RESULTS = st.builds(
    ToolResult, CALL_IDS, NAMES, st.sampled_from(["ok", "", None, {"a": 1}, [1]]), st.booleans()
)
PARTS = st.one_of(
    st.builds(Part, text=TEXTS, extra=EXTRAS),
    st.builds(Part, thought=TEXTS, extra=EXTRAS),
    st.builds(Part, inline_data=ATTACHMENTS, extra=EXTRAS),
    st.builds(Part, function_call=CALLS, extra=EXTRAS),
    st.builds(Part, function_response=RESULTS, extra=EXTRAS),
    st.builds(Part, TEXTS, CALLS, st.none() | RESULTS, st.none() | ATTACHMENTS),
    st.just(Part()),
)
KINDS = st.sampled_from([None, None, None, *SyntheticKind])
MESSAGES = st.builds(Message, st.sampled_from(Role), st.lists(PARTS, max_size=3), synthetic=KINDS)

# --- messages of an agent, in unusual shapes ---


@st.composite
def exchanges(draw: st.DrawFn) -> list[Message]:
    """Draws calls and their results: together, apart, or in one message."""
    calls = draw(st.lists(CALLS, min_size=1, max_size=3))
    beside = draw(st.lists(PARTS, max_size=2))
    beside = [part for part in beside if not (part.function_call or part.function_response)]
    asked = [*beside, *(Part(function_call=call) for call in calls)]
    answers = [Part(function_response=ToolResult(call.id, call.name, "ok")) for call in calls]
    answers = draw(st.permutations(answers))
    role = draw(st.sampled_from([Role.TOOL, Role.TOOL, Role.USER]))
    match draw(st.sampled_from(["together", "apart", "in one message", "with others"])):
        case "together":
            return [Message(Role.MODEL, asked), Message(role, answers)]
        case "apart":
            return [Message(Role.MODEL, asked), *(Message(role, [each]) for each in answers)]
        case "in one message":
            return [Message(Role.MODEL, [*asked, *answers])]
        case _:
            return [Message(Role.MODEL, asked), Message(role, [*beside, *answers, *beside])]


def _is_said(part: Part) -> bool:
    return not (part.function_call or part.function_response)


SPOKEN = st.lists(PARTS.filter(_is_said), min_size=1, max_size=2)
SAID = st.builds(Message, st.sampled_from([Role.USER, Role.MODEL]), SPOKEN)

# --- messages that were read from a provider ---

RECORDED: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"role": "user", "content": "Look"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"},
                {"type": "text", "text": "and?"},
            ],
        },
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "c2ln"}]},
        {"role": "assistant", "content": "done "},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "Look"}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"functionCall": {"name": "bash", "args": {}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "bash", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "bash", "response": {"output": "ok"}}}] * 2,
        },
        {"role": "model", "parts": [{"text": "", "thoughtSignature": "c2ln"}]},
        {"role": "model", "parts": [{"text": "done"}]},
    ],
    "openai-chat": [
        {"role": "user", "content": "Look", "name": "ann"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "ok"}]},
        {"role": "assistant", "content": "", "reasoning_content": "hm"},
        {"role": "assistant", "refusal": "no", "content": None},
    ],
    "openai-responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "Look"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"},
        {"type": "function_call", "call_id": "1", "name": "bash", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "1", "output": "ok"},
        {"type": "reasoning", "summary": [], "encrypted_content": "c2ln"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "done"}], "id": "msg_1"},
    ],
}


@st.composite
def recorded(draw: st.DrawFn) -> list[Message]:
    """Draws a recorded run; the messages may be changed, so that they are written again."""
    format = draw(st.sampled_from(FORMATS))
    run = list(to_messages(RECORDED[format], format))
    return run if draw(st.booleans()) else [replace(message, origin=None) for message in run]


def _numbered(messages: list[Message]) -> list[Message]:
    return [replace(each, message_id=f"m.{number}") for number, each in enumerate(messages)]


@st.composite
def any_histories(draw: st.DrawFn) -> list[Message]:
    """Draws a history of all of these. A recorded run occurs once: its items have unique ids."""
    one = st.one_of(SAID, MESSAGES).map(lambda message: [message])
    runs = draw(st.lists(st.one_of(one, exchanges()), max_size=6))
    runs.insert(draw(st.integers(0, len(runs))), draw(st.just([]) | recorded()))
    return _numbered([message for run in runs for message in run])


ANY_HISTORY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def session_of(history: list[Message], **options: Any) -> GCSession:
    options = {"summarizer": extractive_summary, **options}
    session = GCSession(counter=EstimateCounter(), context_limit=1_000_000, **options)
    for message in history:
        session.append(message)
    return session


def assert_accepted(sent: list[Message]) -> None:
    for format in FORMATS:
        request = from_messages(sent, format, like={})
        assert check_request(request, format) == [], (format, request)


def test_every_format_has_a_recorded_run() -> None:
    assert sorted(RECORDED) == FORMATS


@settings(ANY_HISTORY, max_examples=400)
@given(any_histories(), st.booleans())
def test_every_format_accepts_what_a_session_sends(history: list[Message], repair: bool) -> None:
    try:
        sent = session_of(history, repair=repair).before_send()
    except InvalidHistoryError:
        return
    assert_accepted(sent)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(ANY_HISTORY, max_examples=50)
@given(any_histories())
def test_every_format_accepts_what_a_session_sends_after_a_collection(
    strategy: str, history: list[Message]
) -> None:
    session = session_of([*history, Message.from_text(Role.USER, "Go on")], repair=True)
    config = GCConfig(preserve_recent_turns=0, preserve_recent_groups=1)
    session.set_gc_plugin(load_gc_plugin(strategy), config)
    session.manual_gc(target_percent=1)
    try:
        sent = session.before_send()
    except InvalidHistoryError:
        return
    assert_accepted(sent)
