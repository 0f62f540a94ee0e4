"""Streamed responses: the events are passed on, and a complete response is added."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import Confidence, GCSession, Message
from jaato_gc_formats import FormatError, ProviderSession
from jaato_gc_testing import OldestFirst

Fields = dict[str, Any]
FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini"]
each_format = pytest.mark.parametrize("format", FORMATS)
ARGUMENTS = {"path": "a.py", "lines": [1, 2]}


def agent_of(format: str) -> ProviderSession:
    agent = ProviderSession.open(format, context_limit=9_000, strategy=OldestFirst())
    agent.append("What is in a.py?")
    agent.request()
    return agent


def cut(text: str, places: list[int]) -> list[str]:
    """Cuts a text into pieces."""
    bounds = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(bounds)] or [text]


# --- a response with a text and two calls, whole and in events ---


def chat(text: str, places: list[int]) -> tuple[Fields, list[Fields]]:
    arguments = json.dumps(ARGUMENTS)
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "read", "arguments": ""}}
        for n in range(2)
    ]
    whole = [{**call, "function": {"name": "read", "arguments": arguments}} for call in calls]
    message = {"role": "assistant", "content": text, "refusal": None, "tool_calls": whole}
    usage = {"prompt_tokens": 90, "completion_tokens": 5}

    def chunk(finish: str | None = None, **delta: Any) -> Fields:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    events = [chunk(role="assistant", content="", refusal=None)]
    events += [chunk(content=piece) for piece in cut(text, places)]
    for number, call in enumerate(calls):
        events.append(chunk(tool_calls=[{"index": number, **call}]))
        for piece in cut(arguments, places):
            events.append(chunk(tool_calls=[{"index": number, "function": {"arguments": piece}}]))
    events += [chunk("tool_calls"), {"choices": [], "usage": usage}]
    return {"choices": [{"message": message}], "usage": usage}, events


def responses(text: str, places: list[int]) -> tuple[Fields, list[Fields]]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    output: list[Fields] = [
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"id": "msg_1", "type": "message", "role": "assistant", "content": content},
    ]
    output += [
        {
            "id": f"fc_{n}", "type": "function_call", "call_id": f"call_{n}", "name": "read",
            "arguments": json.dumps(ARGUMENTS),
        }
        for n in range(2)
    ]  # fmt: skip
    usage = {"input_tokens": 90, "output_tokens": 5}
    whole = {"id": "resp_1", "status": "completed", "output": output, "usage": usage}
    events: list[Fields] = [{"type": "response.created", "response": {**whole, "output": []}}]
    events += [
        {"type": "response.output_text.delta", "delta": piece} for piece in cut(text, places)
    ]
    return whole, [*events, {"type": "response.completed", "response": whole}]


def anthropic(text: str, places: list[int]) -> tuple[Fields, list[Fields]]:
    content: list[Fields] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": text},
    ]
    content += [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "read", "input": ARGUMENTS}
        for n in range(2)
    ]
    usage = {"input_tokens": 60, "cache_read_input_tokens": 30, "output_tokens": 5}
    whole: Fields = {"role": "assistant", "content": content, "usage": usage}
    whole["stop_reason"] = "tool_use"
    starts = [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        *({**block, "input": {}} for block in content[2:]),
    ]
    pieces = cut(json.dumps(ARGUMENTS), places)
    inputs = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    deltas: list[list[Fields]] = [
        [
            {"type": "thinking_delta", "thinking": "H"},
            {"type": "thinking_delta", "thinking": "m."},
            {"type": "signature_delta", "signature": "c2ln"},
        ],
        [{"type": "text_delta", "text": piece} for piece in cut(text, places)],
        inputs,
        inputs,
    ]
    started = {**whole, "content": [], "usage": {**usage, "output_tokens": 1}}
    events: list[Fields] = [{"type": "message_start", "message": started}, {"type": "ping"}]
    for index, (start, changes) in enumerate(zip(starts, deltas, strict=True)):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in changes
        ]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}})
    return whole, [*events, {"type": "message_stop"}]


def gemini(text: str, places: list[int]) -> tuple[Fields, list[Fields]]:
    calls: list[Fields] = [
        {"functionCall": {"name": "read", "args": ARGUMENTS}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "read", "args": ARGUMENTS}},
    ]
    usage = {"promptTokenCount": 90, "candidatesTokenCount": 5}

    def chunk(*parts: Fields, **fields: Any) -> Fields:
        return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **fields}]}

    parts: list[Fields] = [{"text": "Hm.", "thought": True}, {"text": text}, *calls]
    events = [chunk({"text": "H", "thought": True}), chunk({"text": "m.", "thought": True})]
    events += [chunk({"text": piece}) for piece in cut(text, places)]
    events += [chunk(*calls), chunk({"text": ""}, finishReason="STOP") | {"usageMetadata": usage}]
    return chunk(*parts, finishReason="STOP") | {"usageMetadata": usage}, events


RESPONSES = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
}


def contents(messages: Sequence[Message]) -> list[Any]:
    return [(message.role, message.parts, message.extra) for message in messages]


@each_format
@given(
    text=st.text(min_size=1).filter(str.strip),
    places=st.lists(st.integers(0, 500), max_size=8),
)
def test_a_streamed_response_is_added_like_a_whole_one(
    format: str, text: str, places: list[int]
) -> None:
    whole, events = RESPONSES[format](text, places)
    expected, agent = agent_of(format), agent_of(format)
    expected.answer(whole)

    stream = agent.stream(events)

    assert list(stream) == events
    assert contents(stream.messages) == contents(agent.session.history[1:])
    assert contents(agent.session.history) == contents(expected.session.history)
    assert agent.session.get_context_usage() == expected.session.get_context_usage()
    assert agent.session.get_context_usage()["confidence"] is Confidence.CALIBRATED


@each_format
def test_the_events_of_a_stream_are_not_modified(format: str) -> None:
    _, events = RESPONSES[format]("Some text.", [3])
    before = json.dumps(events)

    list(agent_of(format).stream(events))

    assert json.dumps(events) == before


# --- streams that end early ---


def state(session: GCSession) -> str:
    return session.save()


@each_format
def test_a_stream_that_is_cut_off_anywhere_adds_nothing(format: str) -> None:
    _, events = RESPONSES[format]("Some text.", [3])
    agent = agent_of(format)
    before = state(agent.session)
    ends = {"openai-chat": 2, "openai-responses": 1, "anthropic": 1, "gemini": 1}

    for length in range(len(events) - ends[format] + 1):
        stream = agent.stream(events[:length])
        with pytest.raises(FormatError, match="ended before the response was complete"):
            list(stream)
        assert stream.messages == []
        assert state(agent.session) == before

    list(agent.stream(events))
    assert len(agent.session.history) == 2


@each_format
def test_a_stream_that_raises_or_is_left_adds_nothing(format: str) -> None:
    _, events = RESPONSES[format]("Some text.", [3])
    agent = agent_of(format)
    before = state(agent.session)

    def broken() -> Iterator[Fields]:
        yield from events[:2]
        raise ConnectionError("the connection was lost")

    with pytest.raises(ConnectionError):
        list(agent.stream(broken()))
    for _ in agent.stream(events):
        break

    assert state(agent.session) == before
    assert agent.request()  # it can be sent again


@each_format
def test_a_cancelled_async_stream_adds_nothing(format: str) -> None:
    _, events = RESPONSES[format]("Some text.", [3])
    agent = agent_of(format)
    before = state(agent.session)

    async def cancelled() -> None:
        begun = asyncio.Event()

        async def endless() -> AsyncIterator[Fields]:
            yield events[0]
            begun.set()
            await asyncio.Event().wait()

        async def read() -> None:
            async for _ in agent.stream(endless()):
                pass

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert state(agent.session) == before


@each_format
def test_an_async_stream_is_added(format: str) -> None:
    whole, events = RESPONSES[format]("Some text.", [3])
    expected, agent = agent_of(format), agent_of(format)
    expected.answer(whole)

    async def streamed() -> None:
        async def source() -> AsyncIterator[Fields]:
            for event in events:
                yield event

        stream = agent.stream(source())
        assert [event async for event in stream] == events
        assert len(stream.messages) == 1

    asyncio.run(streamed())
    assert contents(agent.session.history) == contents(expected.session.history)


@pytest.mark.parametrize(
    ("format", "event"),
    [
        ("openai-chat", {"error": {"message": "overloaded"}}),
        ("openai-responses", {"type": "error", "message": "overloaded"}),
        (
            "openai-responses",
            {"type": "response.failed", "response": {"error": {"message": "overloaded"}}},
        ),
        ("anthropic", {"type": "error", "error": {"message": "overloaded"}}),
        ("gemini", {"error": {"message": "overloaded"}}),
    ],
)
def test_an_error_in_a_stream_is_raised_and_nothing_is_added(format: str, event: Fields) -> None:
    _, events = RESPONSES[format]("Some text.", [3])
    agent = agent_of(format)

    with pytest.raises(FormatError, match=r"the provider returned an error: .*overloaded"):
        list(agent.stream([events[0], event]))
    assert len(agent.session.history) == 1


@each_format
@pytest.mark.parametrize("event", [None, 5, "text", {"choices": 5}, {"type": "message_delta"}])
def test_events_that_can_not_be_read_are_a_format_error(format: str, event: Any) -> None:
    agent = agent_of(format)

    with pytest.raises(FormatError, match="stream"):
        list(agent.stream([event]))
    assert len(agent.session.history) == 1


# --- servers and models ---


@each_format
def test_a_response_in_place_of_a_stream_is_refused(format: str) -> None:
    class Response:
        def model_dump(self) -> Fields:
            return {}

        def __iter__(self) -> Iterator[Any]:
            return iter(())

    async def not_awaited() -> None: ...

    agent, coroutine = agent_of(format), not_awaited()
    for given_instead in (Response(), coroutine, None):
        with pytest.raises(FormatError, match=r"expected a stream, got .*stream=True"):
            agent.stream(given_instead)  # type: ignore[arg-type]
    coroutine.close()


def test_servers_that_repeat_names_or_give_no_index_are_understood() -> None:
    """OpenAI sends the name once and numbers its calls; other servers do not."""
    function = {"name": "read", "arguments": "{}"}
    whole = {"id": "call_1", "type": "function", "function": function}
    deltas: list[Fields] = [
        {"role": "assistant", "tool_calls": [whole]},
        {"tool_calls": [{"id": "call_2", "type": "function", "function": function}]},
        {"tool_calls": [{"index": 7, "id": "call_3", "function": {**function, "arguments": "{"}}]},
        {"tool_calls": [{"index": 7, "id": "call_3", "function": {**function, "arguments": "}"}}]},
    ]
    chunks: list[Fields] = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    agent = agent_of("openai-chat")

    list(agent.stream(chunks))

    calls = agent.session.history[-1].function_calls
    assert [(call.id, call.name, call.args) for call in calls] == [
        ("call_1", "read", {}), ("call_2", "read", {}), ("call_3", "read", {}),
    ]  # fmt: skip


def test_other_choices_of_a_stream_are_ignored() -> None:
    chunks: list[Fields] = [
        {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": "stop"}]}
        for index, text in ((1, "second"), (0, "first"))
    ]
    agent = agent_of("openai-chat")

    list(agent.stream(chunks))

    assert agent.session.history[-1].text == "first"


def test_a_blocked_prompt_ends_a_stream_without_a_message() -> None:
    agent = agent_of("gemini")
    stream = agent.stream([{"promptFeedback": {"blockReason": "SAFETY"}}])

    list(stream)

    assert stream.messages == []
    assert len(agent.session.history) == 1


def test_signed_text_of_google_s_model_stays_apart() -> None:
    signed = {"text": "", "thoughtSignature": "c2ln"}
    parts = [{"text": "So "}, {"text": "it is."}, signed]
    chunks: list[Fields] = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    agent = agent_of("gemini")

    list(agent.stream(chunks))

    assert agent.request()["contents"][-1]["parts"] == [{"text": "So it is."}, signed]


def test_calls_of_google_s_model_in_pieces_are_refused() -> None:
    call = {"name": "read", "partialArgs": [{"jsonPath": "$.path"}], "willContinue": True}
    chunk = {"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}
    agent = agent_of("gemini")

    with pytest.raises(FormatError, match="without stream_function_call_arguments"):
        list(agent.stream([chunk]))
    assert len(agent.session.history) == 1


def test_reasoning_of_other_servers_is_joined() -> None:
    deltas: list[Fields] = [
        {"role": "assistant", "reasoning_content": "First "},
        {"reasoning_content": "this.", "content": None},
        {"content": "Done."},
    ]
    chunks: list[Fields] = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    agent = agent_of("openai-chat")

    list(agent.stream(chunks))

    assert [part.thought or part.text for part in agent.session.history[-1].parts] == [
        "First this.", "Done.",
    ]  # fmt: skip


def test_citations_and_server_tools_of_anthropic_are_kept() -> None:
    citation = {"type": "page_location", "cited_text": "x"}
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    deltas: list[tuple[int, Fields]] = [
        (0, {"type": "input_json_delta", "partial_json": '{"query": "x"}'}),
        (2, {"type": "text_delta", "text": "It is x."}),
        (2, {"type": "citations_delta", "citation": citation}),
    ]
    events: list[Fields] = [{"type": "message_start", "message": {"role": "assistant"}}]
    blocks = [search, found, {"type": "text", "text": "", "citations": None}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": "content_block_delta", "index": number, "delta": delta}
            for number, delta in deltas
            if number == index
        ]
    end = {"stop_reason": "end_turn"}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}})
    agent = agent_of("anthropic")

    list(agent.stream([*events, {"type": "message_stop"}]))

    assert agent.request()["messages"][-1]["content"] == [
        {**search, "input": {"query": "x"}},
        found,
        {"type": "text", "text": "It is x.", "citations": [citation]},
    ]
