"""Token counts of providers: overhead, tools, images, sealed thoughts."""

import base64
import itertools
import json
import pickle
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import (
    Confidence,
    EstimateCounter,
    FunctionCall,
    GCSession,
    InlineData,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
    count_tokens,
)
from jaato_gc.plugin import TokenCounter, as_text, hookimpl
from jaato_gc_formats import ProviderCounter, ProviderSession, counter_for, to_messages
from jaato_gc_formats._counting import BY_MODEL, DEFAULTS, TOOL_USE, tool_entries, tool_tokens
from jaato_gc_formats._plugin import APIS
from jaato_gc_formats._tool_text import as_typescript

MODELS = [
    None, "gpt-4", "gpt-4o", "gpt-4o-mini", "gpt-5-mini", "gpt-5-nano", "o4-mini", "o3",
    "claude-sonnet-4-5", "claude-sonnet-5", "gemini-2.5-pro", "gemini-3-flash", "deepseek-chat",
]  # fmt: skip


class Words:
    """Counts words, so that counts are easy to predict. Imitates a counter made for the model."""

    name = "words"
    confidence = Confidence.ESTIMATED
    tolerance = 0.02

    def count_text(self, text: str) -> int:
        return len(text.split())


class Texts:
    """A plugin that registers a counter."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    @hookimpl
    def jaato_gc_token_counter(self) -> TokenCounter:
        return self._counter


def counted_with(counter: TokenCounter) -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    registry.register(Texts(counter), "texts")
    return registry


WORDS = counted_with(Words())
ESTIMATED = counted_with(EstimateCounter())


def tokens(*parts: Part, format: str, model: str | None = None, role: Role = Role.USER) -> int:
    """Returns the tokens of parts without the overhead of their message."""
    counter = counter_for(format, model, registry=WORDS)
    return count_tokens([Message(role, list(parts))], counter) - count_tokens(
        [Message(role, [])], counter
    )


def image(width: int, height: int, **extra: Any) -> Part:
    data = InlineData("image/png", width=width, height=height)
    return Part(inline_data=data, extra=extra or None)


def test_every_api_format_has_costs() -> None:
    assert DEFAULTS.keys() == {api.name for api in APIS}


# --- images ---


@pytest.mark.parametrize(
    ("format", "model", "size", "price"),
    [
        ("openai-chat", None, (512, 512), 85 + 170),
        ("openai-chat", "gpt-4o", (1024, 1024), 85 + 170 * 4),
        ("openai-responses", "gpt-5", (2048, 4096), 85 + 170 * 6),
        ("openai-responses", "gpt-5-mini", (1024, 1024), 1762),
        ("openai-responses", "gpt-5-nano", (320, 320), 246),
        ("openai-responses", "o4-mini", (9999, 9999), 2642),
        ("openai-chat", "gpt-4o-mini", (512, 512), 85 + 170),
        ("anthropic", None, (750, 400), 400),
        ("anthropic", None, (10, 10), 85),
        ("gemini", "gemini-2.5-flash", (384, 384), 258),
        ("gemini", "gemini-2.5-flash", (1000, 700), 258 * 2),
        ("gemini", "gemini-3-flash", (384, 384), 1120),
        ("gemini", None, (5000, 5000), 1120),
    ],
)
def test_an_image_has_the_token_count_its_provider_publishes(
    format: str, model: str | None, size: tuple[int, int], price: int
) -> None:
    assert tokens(image(*size), format=format, model=model) == price


def test_an_image_at_low_detail_costs_85_tokens() -> None:
    url = "data:image/png;base64," + base64.b64encode(png(4000, 4000)).decode()
    chat = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    responses = {"type": "input_image", "image_url": url, "detail": "low"}
    for format, block in (("openai-chat", chat), ("openai-responses", responses)):
        [message] = to_messages([{"role": "user", "content": [block]}], format)
        counter = counter_for(format, "gpt-4o", registry=WORDS)
        assert count_tokens([message], counter) == 4 + 85


def test_the_size_of_an_image_is_read_from_its_header() -> None:
    data = base64.b64encode(png(1024, 1024)).decode()
    part = Part(inline_data=InlineData("image/png", data))
    assert tokens(part, format="openai-chat") == 85 + 170 * 4


@pytest.mark.parametrize("format", DEFAULTS)
@pytest.mark.parametrize("mime_type", ["image/png", "audio/wav", "application/pdf"])
def test_an_attachment_of_unknown_size_costs_about_as_much_as_a_large_image(
    format: str, mime_type: str
) -> None:
    part = Part(inline_data=InlineData(mime_type, uri="https://example.com/it"))
    assert 1000 < tokens(part, format=format) < 4000


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + bytes(40)


# --- overhead ---


def test_anthropic_calls_have_a_larger_overhead_than_others() -> None:
    call = Part(function_call=FunctionCall("c1", "look", {}))
    answer = Part(function_response=ToolResult("c1", "look", "seen"))
    costs = {format: tokens(call, answer, format=format) for format in DEFAULTS}
    assert costs["anthropic"] - costs["openai-chat"] == 2 * (28 - 8)
    assert costs["openai-chat"] == costs["openai-responses"] == costs["gemini"]


# --- sealed thoughts ---

SEAL = "c2Vh" * 1000
"""Base64 of 3,000 bytes."""


@pytest.mark.parametrize(
    ("format", "item", "thought"),
    [
        (
            "anthropic",
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": SEAL}]},
            750,
        ),
        (
            "anthropic",
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": SEAL}]},
            750,
        ),
        ("gemini", {"role": "model", "parts": [{"text": "", "thoughtSignature": SEAL}]}, 750),
        (
            "openai-responses",
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": SEAL},
            (3000 - 650) // 4,
        ),
    ],
)  # fmt: skip
def test_a_sealed_thought_is_counted_by_its_length(
    format: str, item: dict[str, Any], thought: int
) -> None:
    counter = counter_for(format, registry=WORDS)
    [message] = to_messages([item], format)
    assert count_tokens([message], counter) == 4 + thought
    assert count_tokens([replace(message, origin=None)], counter) == 4 + thought


def test_a_signature_in_bytes_is_counted() -> None:
    item = {"role": "model", "parts": [{"text": "", "thought_signature": b"x" * 3000}]}
    [message] = to_messages([item], "gemini")
    assert count_tokens([message], counter_for("gemini", registry=WORDS)) == 4 + 750


def test_a_sealed_thought_counts_as_the_larger_of_its_seal_and_its_text() -> None:
    words = Part(thought="word " * 900, extra={"type": "thinking", "signature": SEAL})
    assert tokens(words, format="anthropic", role=Role.MODEL) == 900
    summary = replace(words, thought="a summary")
    assert tokens(summary, format="anthropic", role=Role.MODEL) == 750


def test_a_seal_shorter_than_its_envelope_counts_as_zero() -> None:
    part = Part(thought="", extra={"encrypted_content": "abcd"})
    assert tokens(part, format="openai-responses") == 0


# --- tools ---

LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at a thing.",
        "parameters": {
            "type": "object",
            "properties": {
                "thing": {"type": "string", "description": "What to look at."},
                "closely": {"type": "boolean"},
                "with": {"enum": ["eyes", "glasses"]},
                "sizes": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["thing"],
        },
    },
}


def test_openai_tool_schemas_are_rendered_as_typescript() -> None:
    assert as_typescript(LOOK) == (
        "// Look at a thing.\n"
        "type look = (_: {\n"
        "// What to look at.\n"
        "thing: string,\n"
        "closely?: boolean,\n"
        'with?: "eyes" | "glasses",\n'
        "sizes?: number[],\n"
        "}) => any;\n\n"
    )
    assert as_typescript({"type": "function", "name": "wait"}) == "type wait = () => any;\n\n"
    described = {"type": "object", "description": "Whatever you like."}
    assert "Whatever you like." in as_typescript({"name": "wait", "parameters": described})


def test_openai_tools_cost_less_than_their_json() -> None:
    estimated = counter_for("openai-chat", registry=ESTIMATED)
    assert tool_tokens(LOOK, estimated) < EstimateCounter().count_text(json.dumps(LOOK)) * 0.6


def test_anthropic_tools_cost_more_than_their_json() -> None:
    estimated = counter_for("anthropic", registry=ESTIMATED)
    schema = {"name": "look", "input_schema": {"type": "object"}}
    assert tool_tokens(schema, estimated) > 50 + EstimateCounter().count_text(as_text(schema))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
SCHEMAS = st.dictionaries(
    st.sampled_from(
        ["name", "type", "function", "parameters", "properties", "required", "items", "enum",
         "anyOf", "description", "defer_loading"]
    ),
    JSON | st.dictionaries(st.sampled_from(["properties", "type", "a", "name", "items"]), JSON),
)  # fmt: skip


@given(SCHEMAS | JSON)
def test_any_schema_can_be_counted(schema: Any) -> None:
    for format in DEFAULTS:
        assert tool_tokens(schema, counter_for(format, registry=ESTIMATED)) >= 0


def test_a_very_deep_schema_can_be_counted() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100_000):
        schema = {"type": "array", "items": schema}
    tool = {"name": "deep", "parameters": schema}
    assert tool_tokens(tool, counter_for("openai-chat", registry=ESTIMATED)) > 0
    # Take the schema apart: freeing it at once would exceed the recursion limit.
    while (inner := schema.pop("items", None)) is not None:
        schema = inner


def booked(*tools: Any, format: str) -> dict[str, int]:
    return tool_entries(tools, counter_for(format, registry=WORDS))


def test_each_tool_has_a_budget_entry_and_tool_use_has_one() -> None:
    look, listen = {"name": "look"}, {"name": "listen"}
    assert booked(look, listen, format="anthropic") == {"look": 51, "listen": 51, TOOL_USE: 346}
    assert set(booked(look, {"type": "web_search"}, format="openai-responses")) == {
        "look", "tool_1", TOOL_USE,
    }  # fmt: skip
    assert booked(format="anthropic") == {}


def test_a_tool_with_deferred_loading_costs_nothing() -> None:
    costs = booked({"name": "look", "defer_loading": True}, format="anthropic")
    assert costs == {"look": 0, TOOL_USE: 346}


def test_a_session_counts_its_tools() -> None:
    session = GCSession(context_limit=10_000, counter=counter_for("anthropic", registry=WORDS))
    call = {"model": "claude-x", "max_tokens": 10, "tools": [{"name": "look"}]}
    ProviderSession("anthropic", session, call=call)
    assert session.budget.total_tokens() == 346 + 51


# --- counters ---


def test_the_model_determines_the_costs_in_every_format() -> None:
    def name(format: str, model: str | None = None) -> str:
        return counter_for(format, model, registry=WORDS).name

    assert name("openai-chat") == "words/openai"
    assert name("openai-chat", "openrouter/anthropic/claude-sonnet-4") == "words/anthropic"
    assert name("openai-chat", "google/gemini-2.0-flash") == "words/gemini-2"
    assert name("openai-chat", "qwen3-coder") == "words/other"
    assert name("openai-responses", "gpt-5.1-codex-mini") == "words/openai-mini"
    assert name("anthropic", "anything") == "words/anthropic"
    for old in ("claude-3-5-sonnet", "claude-opus-4-6", "claude-haiku-4-5-20251001"):
        assert name("anthropic", old) == "words/anthropic"
    for new in ("claude-opus-4-7", "anthropic/claude-opus-4.8", "claude-sonnet-5"):
        assert name("anthropic", new) == "words/anthropic-5"
    assert name("third-party", "claude-sonnet-4") == "words"


def test_only_counters_not_made_for_the_model_are_scaled() -> None:
    text = "some words that are counted " * 100
    plain = EstimateCounter().count_text(text)

    scaled = counter_for("anthropic", "claude-x", registry=ESTIMATED)
    assert scaled.count_text(text) == round(1.15 * plain)
    assert scaled.name == "estimate*1.15/anthropic"
    assert scaled.tolerance == 0.15

    own = counter_for("anthropic", "claude-x", registry=WORDS)
    assert own.count_text(text) == 500
    assert own.tolerance == 0.1


@pytest.mark.parametrize("format", DEFAULTS)
@pytest.mark.parametrize("model", MODELS)
def test_every_provider_count_is_an_estimate(format: str, model: str | None) -> None:
    counter = counter_for(format, model, registry=PluginRegistry(load_installed=False))
    assert isinstance(counter, ProviderCounter)
    assert counter.confidence is Confidence.ESTIMATED
    assert 0.1 <= counter.tolerance <= 0.3


def test_counters_with_the_same_name_return_the_same_counts() -> None:
    messages = [
        Message(Role.USER, [Part(text="Look at this."), image(1000, 1000)]),
        Message(Role.MODEL, [
            Part(thought="Hm.", extra={"signature": SEAL}),
            Part(function_call=FunctionCall("c1", "look", {"closely": True})),
        ]),
        Message(Role.TOOL, [Part(function_response=ToolResult("c1", "look", "a cat " * 50))]),
    ]  # fmt: skip
    found: dict[str, int] = {}
    every = itertools.product(DEFAULTS, MODELS, (WORDS, ESTIMATED, PluginRegistry()))
    for format, model, registry in every:
        counter = counter_for(format, model, registry=registry)
        counted = count_tokens(map(replace, messages), counter)  # copies remember no count
        assert found.setdefault(counter.name, counted) == counted
    assert len(found) > len(BY_MODEL)
    assert len(set(found.values())) > len(BY_MODEL)


@pytest.mark.parametrize("model", MODELS)
def test_a_counter_can_be_pickled(model: str | None) -> None:
    counter = counter_for("openai-chat", model, registry=PluginRegistry(load_installed=False))
    again = pickle.loads(pickle.dumps(counter))
    assert (again.name, again.tolerance, again.costs) == (
        counter.name, counter.tolerance, counter.costs,  # type: ignore[attr-defined]
    )  # fmt: skip
    assert again.count_text("some text") == counter.count_text("some text")
    assert tool_tokens(LOOK, again) == tool_tokens(LOOK, counter)
