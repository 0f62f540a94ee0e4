"""The example loops of the README, run with the real SDKs against the loopback server."""

import asyncio
import copy
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from loopback import Loopback, running

from jaato_gc import ContextFloorError, FunctionCall, GCConfig
from jaato_gc_formats import FormatError, ProviderSession, check_request, formats

README = Path(__file__).parents[1] / "packages" / "jaato-gc-formats" / "README.md"
WINDOW = 8_000
LONG = "a line of a file, as long as any other\n" * 100

Fields = dict[str, Any]
Answer = Any


@dataclass(frozen=True)
class Sdk:
    """Functions that use one SDK.

    Args:
        items_key: The name of the argument with the messages.
        client: Creates a client.
        create: Sends a request and returns the response.
        stream: Sends a request, reads the stream and returns the complete response.
        create_async: Sends a request with the asynchronous client.
        events: Sends a request and returns the stream of its events.
        events_async: Sends a request with the asynchronous client and returns its events.
        answers: Runs the tool calls of a message and returns the items with their results.
        said: Returns the items of a response that belong to the next request.
        results: Runs the tool calls of a response and returns the items with their results.
        refusal: Returns the exception class for a refused request.
        call: Additional arguments for a small window.
    """

    items_key: str
    client: Callable[[], Any]
    create: Callable[[Any, Fields], Answer]
    stream: Callable[[Any, Fields], Answer]
    create_async: Callable[[Fields], Any]
    events: Callable[[Any, Fields], Iterable[Any]]
    events_async: Callable[[Fields], Any]
    answers: Callable[[list[FunctionCall]], list[Any]]
    said: Callable[[Answer], list[Any]]
    results: Callable[[Answer], list[Any]]
    refusal: Callable[[], type[Exception]]
    call: Fields


def read_file(path: str) -> str:
    return f"{path}:\n{LONG}"


# --- OpenAI ---


def chat_stream(client: Any, call: Fields) -> Answer:
    with client.chat.completions.stream(**call, stream_options={"include_usage": True}) as stream:
        stream.until_done()
        return stream.get_final_completion()


async def chat_async(call: Fields) -> Answer:
    async with openai.AsyncOpenAI() as client:
        return await client.chat.completions.create(**call)


def chat_results(answer: Answer) -> list[Any]:
    return [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": read_file(**json.loads(call.function.arguments)),
        }
        for call in answer.choices[0].message.tool_calls or []
    ]


def responses_stream(client: Any, call: Fields) -> Answer:
    with client.responses.stream(**call) as stream:
        stream.until_done()
        return stream.get_final_response()


async def responses_async(call: Fields) -> Answer:
    async with openai.AsyncOpenAI() as client:
        return await client.responses.create(**call)


def responses_results(answer: Answer) -> list[Any]:
    return [
        {
            "type": "function_call_output",
            "call_id": item.call_id,
            "output": read_file(**json.loads(item.arguments)),
        }
        for item in answer.output
        if item.type == "function_call"
    ]


# --- Anthropic ---


def anthropic_stream(client: Any, call: Fields) -> Answer:
    with client.messages.stream(**call) as stream:
        assert "".join(stream.text_stream) is not None
        return stream.get_final_message()


async def anthropic_async(call: Fields) -> Answer:
    async with anthropic.AsyncAnthropic() as client:
        return await client.messages.create(**call)


def anthropic_results(answer: Answer) -> list[Any]:
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": read_file(**block.input)}
        for block in answer.content
        if block.type == "tool_use"
    ]
    return [{"role": "user", "content": results}] if results else []


def anthropic_answers(calls: list[FunctionCall]) -> list[Any]:
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": read_file(**call.args)}
        for call in calls
    ]
    return [{"role": "user", "content": results}]


# --- Google ---


def gemini_client() -> Any:
    from google import genai

    return genai.Client()


def gemini_stream(client: Any, call: Fields) -> Answer:
    from google.genai import types

    chunks = list(client.models.generate_content_stream(**call))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    content = types.Content(role="model", parts=parts)
    chunks[-1].candidates[0].content = content
    return chunks[-1]


async def gemini_async(call: Fields) -> Answer:
    async with gemini_client().aio as client:
        return await client.models.generate_content(**call)


def gemini_results(answer: Answer) -> list[Any]:
    from google.genai import types

    parts = [
        types.Part.from_function_response(
            name=call.name, response={"output": read_file(**call.args)}
        )
        for call in answer.function_calls or []
    ]
    return [types.Content(role="user", parts=parts)] if parts else []


def gemini_answers(calls: list[FunctionCall]) -> list[Any]:
    responses = [{"name": c.name, "response": {"output": read_file(**c.args)}} for c in calls]
    parts = [{"functionResponse": response} for response in responses]
    return [{"role": "user", "parts": parts}]


def gemini_error() -> type[Exception]:
    from google.genai import errors

    return errors.ClientError


SDKS = {
    "openai-chat": Sdk(
        "messages",
        openai.OpenAI,
        lambda client, call: client.chat.completions.create(**call),
        chat_stream,
        chat_async,
        lambda client, call: client.chat.completions.create(
            **call, stream=True, stream_options={"include_usage": True}
        ),
        lambda call: openai.AsyncOpenAI().chat.completions.create(
            **call, stream=True, stream_options={"include_usage": True}
        ),
        lambda calls: [
            {"role": "tool", "tool_call_id": call.id, "content": read_file(**call.args)}
            for call in calls
        ],
        lambda answer: [answer.choices[0].message],
        chat_results,
        lambda: openai.BadRequestError,
        {},
    ),
    "openai-responses": Sdk(
        "input",
        openai.OpenAI,
        lambda client, call: client.responses.create(**call),
        responses_stream,
        responses_async,
        lambda client, call: client.responses.create(**call, stream=True),
        lambda call: openai.AsyncOpenAI().responses.create(**call, stream=True),
        lambda calls: [
            {"type": "function_call_output", "call_id": call.id, "output": read_file(**call.args)}
            for call in calls
        ],
        lambda answer: list(answer.output),
        responses_results,
        lambda: openai.BadRequestError,
        {},
    ),
    "anthropic": Sdk(
        "messages",
        anthropic.Anthropic,
        lambda client, call: client.messages.create(**call),
        anthropic_stream,
        anthropic_async,
        lambda client, call: client.messages.create(**call, stream=True),
        lambda call: anthropic.AsyncAnthropic().messages.create(**call, stream=True),
        anthropic_answers,
        lambda answer: [{"role": "assistant", "content": answer.content}],
        anthropic_results,
        lambda: anthropic.BadRequestError,
        {"max_tokens": 1_500, "thinking": {"type": "enabled", "budget_tokens": 1_024}},
    ),
    "gemini": Sdk(
        "contents",
        gemini_client,
        lambda client, call: client.models.generate_content(**call),
        gemini_stream,
        gemini_async,
        lambda client, call: client.models.generate_content_stream(**call),
        lambda call: gemini_client().aio.models.generate_content_stream(**call),
        gemini_answers,
        lambda answer: [answer.candidates[0].content],
        gemini_results,
        gemini_error,
        {},
    ),
}
each_sdk = pytest.mark.parametrize("format", SDKS)


def copied(format: str) -> Fields:
    """Runs the README's code for one provider and returns its namespace."""
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    tool = next(block for block in blocks if "def read_file" in block)
    [loop] = [block for block in blocks if "def ask(" in block and f'"{format}"' in block]
    body = loop.partition("def ask(question):\n")[2].partition("\n\n\n")[0]
    assert len(body.splitlines()) <= 12, "the loop is too long to copy"
    namespace: Fields = {}
    exec(tool + loop, namespace)
    return namespace


@cache
def copied_call(format: str) -> Fields:
    """Returns the arguments of the README's requests, without the messages."""
    agent: ProviderSession = copied(format)["agent"]
    return {**agent.call, **SDKS[format].call}


@pytest.fixture(autouse=True)
def _calls_are_known(providers: Loopback) -> None:
    """Runs the README's code before a test counts requests: whichever test is the first."""
    for format in SDKS:
        copied_call(format)
    providers.reset()


def opened(
    format: str, context_limit: int = WINDOW, strategy: str = "gc_budget"
) -> ProviderSession:
    """Opens the session of the README's code with a small window."""
    return ProviderSession.open(
        format,
        context_limit=context_limit,
        call=copy.deepcopy(copied_call(format)),
        strategy=strategy,
        config=GCConfig(preserve_recent_turns=1),
    )


def turn(
    format: str, agent: ProviderSession, question: str, create: Callable[[Fields], Answer]
) -> Answer:
    """Runs one turn with any provider."""
    agent.append(question)
    while True:
        answer = create(agent.request())
        agent.answer(answer)
        if not (results := SDKS[format].results(answer)):
            return answer
        agent.append(*results)


def sent(providers: Loopback, format: str) -> list[list[Fields]]:
    return [request[SDKS[format].items_key] for request in providers.requests]


# --- long runs ---


@each_sdk
@pytest.mark.parametrize(("strategy", "turns"), [("gc_budget", 40), ("gc_truncate", 15)])
def test_a_long_run_is_never_refused_and_keeps_its_prefix_between_collections(
    format: str,
    strategy: str,
    turns: int,
    providers: Loopback,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace = copied(format)
    agent = opened(format, strategy=strategy)
    request, collections = agent.request, []

    def counted() -> Fields:
        fields = request()
        collections.append(agent.session.collection_count)
        return fields

    monkeypatch.setattr(agent, "request", counted)
    namespace |= {"agent": agent, "read_file": read_file}
    providers.reset()
    providers.window = WINDOW

    for number in range(turns):
        namespace["ask"](f"Question {number}: what do the files say?")

    assert providers.refusals == []
    assert len(providers.requests) == turns * 3
    assert sum(result.tokens_freed > 0 for result in agent.session.get_gc_history()) > turns / 10
    texts = [[json.dumps(item) for item in items] for items in sent(providers, format)]
    for number, (before, after) in enumerate(pairwise(texts)):
        if collections[number] == collections[number + 1]:
            assert after[: len(before)] == before
    other_fields = [
        json.dumps({name: value for name, value in each.items() if name != SDKS[format].items_key})
        for each in providers.requests
    ]
    assert len(set(other_fields)) == 1
    for each in providers.requests:
        assert check_request({"model": agent.call["model"], **each}, format) == []


# --- invalid requests ---


def kinds(item: Fields) -> set[str]:
    """Returns the types, roles and part names in an item of any API."""
    content, parts = item.get("content"), item.get("parts", [])
    blocks = content if isinstance(content, list) else []
    found = {item.get("type", ""), item.get("role", ""), *(block["type"] for block in blocks)}
    found |= {name for part in parts for name in part}
    return found | ({"tool_calls"} if item.get("tool_calls") else set())


def without_first(kind: str) -> Callable[[list[Fields]], None]:
    def drop(items: list[Fields]) -> None:
        del items[next(place for place, item in enumerate(items) if kind in kinds(item))]

    return drop


def without_a_block(item: Fields) -> None:
    del item["content" if "content" in item else "parts"][0]


def without_thinking(items: list[Fields]) -> None:
    for item in items:
        item["content"] = [block for block in item["content"] if block["type"] != "thinking"]


def changed(kind: str, change: Callable[[Fields], None]) -> Callable[[list[Fields]], None]:
    def alter(items: list[Fields]) -> None:
        change(next(item for item in reversed(items) if kind in kinds(item)))

    return alter


def forged(field: str) -> Callable[[Fields], None]:
    def forge(item: Fields) -> None:
        for each in (item, *item.get("parts", []), *(item.get("content") or [])):
            if isinstance(each, dict) and each.get(field):
                each[field] = "AAAA" + each[field][4:]

    return forge


FAULTS: dict[str, dict[str, Callable[[list[Fields]], None]]] = {
    "openai-chat": {
        "a result is missing": without_first("tool"),
        "a call is missing": without_first("tool_calls"),
        "content is null": changed("user", lambda item: item.update(content=None)),
        "tool_calls is empty": lambda items: items.append(
            {"role": "assistant", "content": "So.", "tool_calls": []}
        ),
        "no messages": list.clear,
    },
    "openai-responses": {
        "a result is missing": without_first("function_call_output"),
        "a call is missing": without_first("function_call"),
        "a reasoning item is missing": without_first("reasoning"),
        "the item after a reasoning item is missing": without_first("message"),
        "a reasoning item is forged": changed("reasoning", forged("encrypted_content")),
        "no messages": list.clear,
    },
    "anthropic": {
        "a result is missing": changed("tool_result", without_a_block),
        "all results are missing": without_first("tool_result"),
        "a call is missing": without_first("tool_use"),
        "thinking is missing": without_thinking,
        "thinking is forged": changed("thinking", forged("signature")),
        "text precedes the results": changed(
            "tool_result", lambda item: item["content"].insert(0, {"type": "text", "text": "So:"})
        ),
        "text is blank": changed("text", lambda item: item["content"][-1].update(text=" ")),
        "no messages": list.clear,
    },
    "gemini": {
        "a result is missing": changed("functionResponse", without_a_block),
        "all results are missing": without_first("functionResponse"),
        "a call is missing": without_first("functionCall"),
        "a result has the model role": changed(
            "functionResponse", lambda item: item.update(role="model")
        ),
        "a signature is missing": changed(
            "thoughtSignature", lambda item: item["parts"][0].pop("thoughtSignature")
        ),
        "a signature is forged": changed("thoughtSignature", forged("thoughtSignature")),
        "parts is empty": changed("text", lambda item: item.update(parts=[])),
        "no messages": list.clear,
    },
}
UNPREDICTABLE = {"a reasoning item is forged", "thinking is forged", "a signature is forged"}
"""Only the provider can verify its signatures."""


@pytest.mark.parametrize(
    ("format", "fault"),
    [(format, fault) for format, faults in FAULTS.items() for fault in faults],
)
def test_an_invalid_request_is_refused_and_check_request_predicts_it(
    format: str, fault: str, providers: Loopback
) -> None:
    sdk, agent = SDKS[format], opened(format, context_limit=1_000_000)
    client = sdk.client()
    for number in range(2):
        turn(format, agent, f"Question {number}", lambda call: sdk.create(client, call))
    valid = providers.requests[-1]  # includes calls, results and signatures
    assert providers.refusals == []
    request = copy.deepcopy({"model": agent.call["model"], **valid})
    FAULTS[format][fault](request[sdk.items_key])
    assert request[sdk.items_key] != valid[sdk.items_key]

    # Google's SDK raises ValueError for some invalid requests before it sends them.
    with pytest.raises((sdk.refusal(), ValueError)) as refused:
        sdk.create(client, {**agent.call, sdk.items_key: request[sdk.items_key]})

    if not isinstance(refused.value, ValueError):
        assert len(providers.refusals) == 1
        assert providers.refusals[0] in str(refused.value)
    if fault == "a reasoning item is missing":  # only visible in comparison with the original
        api: Any = formats()[format]
        assert list(api.check(request, valid)) != []
    elif fault not in UNPREDICTABLE:
        assert check_request(request, format) != []


@each_sdk
def test_a_valid_request_is_accepted_and_check_request_finds_nothing(
    format: str, providers: Loopback
) -> None:
    agent = opened(format, context_limit=1_000_000)
    client = SDKS[format].client()

    turn(format, agent, "Question", lambda call: SDKS[format].create(client, call))

    assert providers.refusals == []
    for request in providers.requests:
        assert check_request({"model": agent.call["model"], **request}, format) == []


# --- requests and responses ---


@each_sdk
def test_requests_are_the_same_as_with_the_sdk_alone(
    format: str, providers: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk, agent = SDKS[format], opened(format, context_limit=1_000_000)
    providers.reset()
    client = sdk.client()
    for number in range(3):
        turn(format, agent, f"Question {number}", lambda call: sdk.create(client, call))

    with running() as other:
        for name, value in other.environment.items():
            monkeypatch.setenv(name, value)
        client, items = sdk.client(), []
        for number in range(3):
            items.append(agent._api.user_item(f"Question {number}"))
            while True:
                answer = sdk.create(client, {**agent.call, sdk.items_key: items})
                items += sdk.said(answer)
                if not (results := sdk.results(answer)):
                    break
                items += results

    assert providers.refusals == other.refusals == []
    assert providers.requests == other.requests


@each_sdk
def test_streamed_responses_are_accepted(format: str, providers: Loopback) -> None:
    sdk, agent = SDKS[format], opened(format)
    providers.window = WINDOW
    client = sdk.client()

    for number in range(5):
        turn(format, agent, f"Question {number}", lambda call: sdk.stream(client, call))

    assert providers.refusals == []
    assert agent.session.get_gc_history()


@each_sdk
def test_a_stream_of_events_is_added_like_a_whole_response(
    format: str, providers: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk, client, whole = SDKS[format], SDKS[format].client(), opened(format)
    for number in range(3):
        turn(format, whole, f"Question {number}", lambda call: sdk.create(client, call))

    with running() as other:
        for name, value in other.environment.items():
            monkeypatch.setenv(name, value)
        client, streamed = sdk.client(), opened(format)
        for number in range(3):
            stream_turn(format, streamed, f"Question {number}", client)

    assert providers.refusals == other.refusals == []
    assert len(providers.requests) == 9
    assert [without_stream(each) for each in other.requests] == providers.requests
    history = [(each.role, each.parts) for each in streamed.session.history]
    assert history == [(each.role, each.parts) for each in whole.session.history]
    assert streamed.session.get_context_usage() == whole.session.get_context_usage()


def stream_turn(format: str, agent: ProviderSession, question: str, client: Any) -> None:
    """Runs one turn with `ProviderSession.stream`, and tools that the SDK has no part in."""
    agent.append(question)
    while True:
        stream = agent.stream(SDKS[format].events(client, agent.request()))
        assert list(stream)
        [message] = stream.messages
        if not message.function_calls:
            return
        agent.append(*SDKS[format].answers(message.function_calls))


def without_stream(request: Fields) -> Fields:
    return {name: value for name, value in request.items() if "stream" not in name}


@each_sdk
def test_the_events_of_an_asynchronous_client_are_added(format: str, providers: Loopback) -> None:
    agent = opened(format)
    agent.append("Question")

    async def read() -> int:
        stream = agent.stream(await SDKS[format].events_async(agent.request()))
        return len([event async for event in stream])

    assert asyncio.run(read()) > 1
    assert len(agent.session.history[-1].function_calls) == 2
    assert providers.refusals == []


@each_sdk
def test_a_connection_that_breaks_off_adds_nothing(format: str, providers: Loopback) -> None:
    sdk, client, agent = SDKS[format], SDKS[format].client(), opened(format)
    agent.append("Question")
    request = agent.request()
    before = agent.session.save()
    providers.events_sent = 1

    # Each SDK has its own HTTP client, and its own exception.
    with pytest.raises(Exception, match=r"peer closed connection|Connection error"):
        list(agent.stream(sdk.events(client, request)))

    assert agent.session.save() == before
    providers.events_sent = None
    list(agent.stream(sdk.events(client, agent.request())))
    assert len(agent.session.history) == 2


@each_sdk
def test_a_stream_that_the_host_leaves_adds_nothing(format: str, providers: Loopback) -> None:
    sdk, client, agent = SDKS[format], SDKS[format].client(), opened(format)
    agent.append("Question")

    for _event in agent.stream(sdk.events(client, agent.request())):
        break

    assert len(agent.session.history) == 1
    turn(format, agent, "Another question", lambda call: sdk.create(client, call))
    assert providers.refusals == []


@each_sdk
def test_a_response_in_place_of_a_stream_is_refused(format: str, providers: Loopback) -> None:
    sdk, client, agent = SDKS[format], SDKS[format].client(), opened(format)
    agent.append("Question")
    response = sdk.create(client, agent.request())

    with pytest.raises(FormatError, match=r"expected a stream.*stream=True"):
        agent.stream(response)
    assert len(providers.requests) == 1


@pytest.mark.parametrize("format", ["openai-chat", "openai-responses", "anthropic"])
def test_helpers_of_the_sdk_that_yield_events_can_be_streamed(
    format: str, providers: Loopback
) -> None:
    client, agent = SDKS[format].client(), opened(format)
    agent.append("Question")
    request = agent.request()
    managers = {
        "openai-chat": lambda: client.chat.completions.stream(**request),
        "openai-responses": lambda: client.responses.stream(**request),
        "anthropic": lambda: client.messages.stream(**request),
    }

    with managers[format]() as helper:
        stream = agent.stream(helper)
        assert len(list(stream)) > 1

    [message] = stream.messages
    assert [call.args for call in message.function_calls] == [
        {"path": "file_1.txt"}, {"path": "file_2.txt"},
    ]  # fmt: skip
    assert providers.refusals == []


def test_a_content_assembled_from_google_s_chunks_is_accepted(providers: Loopback) -> None:
    from google.genai import types

    client, agent = gemini_client(), opened("gemini")
    agent.append("Question")
    chunks = list(client.models.generate_content_stream(**agent.request()))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]

    [message] = agent.answer(types.Content(role="model", parts=parts))
    agent.session.report_usage(chunks[-1].usage_metadata.prompt_token_count)

    assert len(message.function_calls) == 2
    assert agent.session.get_context_usage()["confidence"] == "calibrated"
    chunks[-1].candidates[0].content.parts = parts
    agent.append(*gemini_results(chunks[-1]))
    agent.answer(client.models.generate_content(**agent.request()))
    assert providers.refusals == []


@each_sdk
def test_asynchronous_clients_work(format: str, providers: Loopback) -> None:
    agent = opened(format)
    providers.window = WINDOW

    async def converse() -> None:
        for number in range(5):
            agent.append(f"Question {number}")
            while True:
                answer = await SDKS[format].create_async(agent.request())
                agent.answer(answer)
                if not (results := SDKS[format].results(answer)):
                    break
                agent.append(*results)

    asyncio.run(converse())

    assert providers.refusals == []
    assert agent.session.get_gc_history()


# --- errors and restoring ---


@each_sdk
def test_a_request_that_the_provider_refuses_as_too_long_is_shortened(
    format: str, providers: Loopback
) -> None:
    sdk, agent = SDKS[format], opened(format, context_limit=3 * WINDOW)
    client = sdk.client()
    providers.window = WINDOW  # a third of what the session was told

    def create(call: Fields) -> Answer:
        while True:
            try:
                return sdk.create(client, call)
            except sdk.refusal() as error:
                if not agent.recover(error):
                    raise
                call = agent.request()

    for number in range(8):
        turn(format, agent, f"Question {number}", create)

    assert 0 < len(providers.refusals) < 8
    first, *others = [result.trigger_reason.value for result in agent.session.get_gc_history()]
    assert first == "context_limit"
    assert {*others} <= {"context_limit", "threshold"}  # by then the session knows the window


@each_sdk
def test_a_request_that_can_not_be_shortened_raises(format: str, providers: Loopback) -> None:
    sdk, agent = SDKS[format], opened(format, context_limit=1_000_000)
    client = sdk.client()
    providers.window = 1_700  # which leaves a tenth of it beside the reserve for the answer
    agent.append("Read this: " + LONG * 10)

    with pytest.raises(sdk.refusal()) as refused:
        sdk.create(client, agent.request())

    assert not agent.recover(refused.value)
    assert not agent.recover(ValueError("something else"))
    agent.session.set_context_limit(2_000)
    with pytest.raises(ContextFloorError):
        agent.request()


@each_sdk
def test_a_restored_session_sends_the_same_requests(format: str, providers: Loopback) -> None:
    sdk, agent = SDKS[format], opened(format)
    client = sdk.client()
    providers.window = WINDOW

    def create(call: Fields) -> Answer:
        return sdk.create(client, call)

    for number in range(4):
        turn(format, agent, f"Question {number}", create)
    before = agent.session.get_context_usage()

    restored = ProviderSession.restore(format, agent.session.save(), call=agent.call)
    assert restored.session.get_context_usage() == before
    providers.requests.clear()
    create(agent.request())
    create(restored.request())
    assert providers.requests[0] == providers.requests[1]

    for number in range(4, 8):
        turn(format, restored, f"Question {number}", create)
    assert providers.refusals == []
