"""Counting tokens as a provider does: frames of messages and calls, tool schemas, images."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jaato_gc import (
    Confidence,
    EstimateCounter,
    FrameCosts,
    GCPolicy,
    GCSession,
    InstructionSource,
    Message,
    Part,
    PluginRegistry,
    TiktokenCounter,
    TokenCounter,
    as_text,
    count_tokens,
)
from jaato_gc_formats._convert import installed
from jaato_gc_formats._prices import (
    gemini_2_image_tokens,
    gemini_image_tokens,
    openai_image_tokens,
    openai_mini_image_tokens,
    openai_nano_image_tokens,
    openai_sealed_tokens,
    sealed_tokens,
)
from jaato_gc_formats._tool_text import as_typescript
from jaato_gc_formats._wire import plain

TOOL_USE = "(tool use)"
"""Under this name the budget has what a provider tells the model on tools in general."""


@dataclass(frozen=True, slots=True)
class ToolCosts:
    """What the tools of a request cost.

    Args:
        request: Tokens that having any tool costs.
        tool: Tokens of the frame of one tool.
        text: The schema of a tool as the model sees it.
    """

    request: int = 0
    tool: int = 8
    text: Callable[[Any], str] = as_text


class ProviderCounter:
    """Counts texts as another counter does, and all else as a provider's format does.

    Counters of one ``texts``, ``format`` and ``scale`` must have the same ``costs``: counts are
    remembered under the counter's name, which is made of these.

    Args:
        texts: Counts the texts.
        format: Whose format it is.
        costs: What the format costs beside the texts.
        tools: What tools cost.
        scale: How many of the provider's tokens one of ``texts`` makes, if it is another's.
        tolerance: The relative error to expect of a total; that of ``texts`` if not given. An
            error is always to be expected: no provider says what it puts around the texts.
    """

    def __init__(
        self,
        texts: TokenCounter,
        format: str,
        costs: FrameCosts,
        *,
        tools: ToolCosts = ToolCosts(),  # noqa: B008
        scale: float = 1.0,
        tolerance: float | None = None,
    ) -> None:
        self.costs = costs
        self.tools = tools
        self.tolerance = texts.tolerance if tolerance is None else tolerance
        self.confidence = Confidence.ESTIMATED
        self.name = f"{texts.name}/{format}" if scale == 1 else f"{texts.name}*{scale:g}/{format}"
        self._texts = texts
        self._scale = scale

    def count_text(self, text: str) -> int:
        return round(self._scale * self._texts.count_text(text))


@dataclass(frozen=True, slots=True)
class Provider:
    """How a family of models is counted. The figures are explained in the documentation.

    Args:
        name: Its name.
        costs: What the format costs beside the texts.
        tools: What tools cost.
        scale: How many of its tokens one of cl100k_base makes.
        tolerance: The error that was measured.
    """

    name: str
    costs: FrameCosts
    tools: ToolCosts = field(default_factory=ToolCosts)
    scale: float = 1.0
    tolerance: float = 0.3


def _openai(name: str, image_price: Callable[[Part], int]) -> Provider:
    costs = FrameCosts(attachment=image_price, sealed=openai_sealed_tokens)
    tools = ToolCosts(request=15, tool=0, text=as_typescript)
    return Provider(name, costs, tools, tolerance=0.2)


OPENAI = _openai("openai", openai_image_tokens)
OPENAI_MINI = _openai("openai-mini", openai_mini_image_tokens)
OPENAI_NANO = _openai("openai-nano", openai_nano_image_tokens)
ANTHROPIC = Provider(
    "anthropic",
    FrameCosts(call=28, sealed=sealed_tokens),
    ToolCosts(request=346, tool=50),
    scale=1.15,
    tolerance=0.15,
)
ANTHROPIC_5 = replace(ANTHROPIC, name="anthropic-5", scale=1.35, tolerance=0.3)
"""Since Opus 4.7, the same text is said to make up to 1.35 times the tokens: half of that is taken.
There was no session to measure."""
GEMINI = Provider(
    "gemini", FrameCosts(attachment=gemini_image_tokens, sealed=sealed_tokens), ToolCosts(tool=0)
)
GEMINI_2 = Provider(
    "gemini-2",
    FrameCosts(attachment=gemini_2_image_tokens, sealed=sealed_tokens),
    ToolCosts(tool=0),
)
OTHER = Provider("other", FrameCosts(sealed=sealed_tokens), ToolCosts(request=200))
"""A model of somebody else's behind OpenAI's API: there are as many ways as there are models."""

FRAMES_TOLERANCE = 0.1
"""What is left to expect where texts are counted exactly: frames, schemas, images, thoughts."""

DEFAULTS = {
    "openai-chat": OPENAI, "openai-responses": OPENAI, "anthropic": ANTHROPIC, "gemini": GEMINI,
}  # fmt: skip
BY_MODEL = {
    r"claude-(opus-4[-.][7-9]|[a-z]+-[5-9])": ANTHROPIC_5,
    r"claude": ANTHROPIC,
    r"gemini-[12]": GEMINI_2,
    r"gemini": GEMINI,
    r"gpt-(?!4o).*nano": OPENAI_NANO,
    r"(gpt-(?!4o)|o4-).*mini": OPENAI_MINI,
    r"gpt|codex|\bo[134]\b": OPENAI,
}
"""Providers by what the names of their models look like; the first that matches counts."""


def counter_for(
    format: str, model: str | None = None, *, registry: PluginRegistry | None = None
) -> TokenCounter:
    """The best counter for a provider's format and a model, with what is on this machine.

    Texts are counted by what `PluginRegistry.token_counter` gives for the model. Where that is a
    stand-in (the estimate, or cl100k_base for a model of other ranks), its figures are scaled by
    what was measured for the provider. A format of somebody else's is counted as core does.
    """
    texts = (registry or installed()).token_counter(model)
    provider = _provider_of(format, model or "")
    if provider is None:
        return texts
    if _is_stand_in(texts):
        scale, tolerance = provider.scale, provider.tolerance
    else:
        scale, tolerance = 1.0, max(texts.tolerance, FRAMES_TOLERANCE)
    return ProviderCounter(
        texts, provider.name, provider.costs, tools=provider.tools, scale=scale, tolerance=tolerance
    )


def _provider_of(format: str, model: str) -> Provider | None:
    """Whose rules apply: those of the model, whatever format it is spoken to in."""
    if format not in DEFAULTS:
        return None
    for pattern, provider in BY_MODEL.items():
        if re.search(pattern, model):
            return provider
    return OTHER if model and format == "openai-chat" else DEFAULTS[format]


def _is_stand_in(texts: TokenCounter) -> bool:
    is_cores = isinstance(texts, EstimateCounter | TiktokenCounter)
    return is_cores and texts.confidence is Confidence.ESTIMATED


# --- tools ---


def tools_of(request: Mapping[str, Any] | None) -> list[Any]:
    """The tools of a request."""
    tools = (request or {}).get("tools")
    return list(tools) if isinstance(tools, list | tuple) else []


def book_tools(session: GCSession, tools: Iterable[Any]) -> list[str]:
    """Put the schemas of tools into a session's budget: they are sent with every request.

    Returns the names that they are booked under.
    """
    counter = session.budget.counter
    booked = {}
    for number, tool in enumerate(tools):
        schema = plain(tool)
        booked[_tool_name(schema) or f"tool_{number}"] = tool_tokens(schema, counter)
    if booked and (tokens := _costs_of(counter).request):
        booked[TOOL_USE] = tokens
    for name, tokens in booked.items():
        session.budget.add_child(InstructionSource.PLUGIN, name, tokens, GCPolicy.LOCKED)
    return list(booked)


def tool_tokens(schema: Any, counter: TokenCounter) -> int:
    """Tokens of the schema of one tool: none of one whose loading the provider defers."""
    if isinstance(schema, dict) and schema.get("defer_loading"):
        return 0
    costs = _costs_of(counter)
    return costs.tool + counter.count_text(costs.text(schema))


def request_tokens(messages: Iterable[Message], tools: Iterable[Any], counter: TokenCounter) -> int:
    """Tokens of a whole request."""
    schemas = [tool_tokens(plain(tool), counter) for tool in tools]
    per_request = _costs_of(counter).request if schemas else 0
    return count_tokens(messages, counter) + sum(schemas) + per_request


def _costs_of(counter: TokenCounter) -> ToolCosts:
    costs: ToolCosts = getattr(counter, "tools", None) or ToolCosts()
    return costs


def _tool_name(schema: Any) -> str | None:
    if not isinstance(schema, dict):
        return None
    function = schema.get("function")
    name = function.get("name") if isinstance(function, dict) else schema.get("name")
    return name if isinstance(name, str) else None
