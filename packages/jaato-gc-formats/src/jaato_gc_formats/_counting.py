"""Counts tokens the way providers do: texts, message and call overhead, tool schemas, images."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jaato_gc import (
    Confidence,
    EstimateCounter,
    Message,
    Part,
    PluginRegistry,
    TiktokenCounter,
    count_tokens,
)
from jaato_gc.plugin import FrameCosts, TokenCounter, as_text, text_tokens
from jaato_gc_formats._convert import default_registry
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
from jaato_gc_formats._wire import unmarked

TOOL_USE = "(tool use)"
"""Budget entry for the general instructions about tools that a provider adds to a request."""


@dataclass(frozen=True, slots=True)
class ToolCosts:
    """The token costs of the tools in a request.

    Args:
        request: Fixed tokens of a request with at least one tool.
        tool: Fixed tokens per tool.
        text: Renders the schema of a tool as the model sees it.
    """

    request: int = 0
    tool: int = 8
    text: Callable[[Any], str] = as_text


USUAL_TOOL_COSTS = ToolCosts()


class ProviderCounter:
    """Counts texts with another counter, and adds the costs of a provider's format.

    Counters with equal ``texts``, ``format`` and ``scale`` must have equal ``costs``: counts are
    cached by the counter's name, which is built from the first three.

    Args:
        texts: Counter for the texts.
        format: Name of the provider's format, used in the counter's name.
        costs: Costs of the format in addition to the texts.
        tools: Costs of tools.
        scale: Provider tokens per token of ``texts``, if ``texts`` was made for another model.
        tolerance: Expected relative error of a total; by default, that of ``texts``. Counts are
            always estimates, because providers do not publish what they add to the texts.
    """

    def __init__(
        self,
        texts: TokenCounter,
        format: str,
        costs: FrameCosts,
        *,
        tools: ToolCosts = USUAL_TOOL_COSTS,
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
        """Returns the number of tokens of a text."""
        return round(self._scale * text_tokens(text, self._texts))


@dataclass(frozen=True, slots=True)
class Provider:
    """The token costs of a family of models. See docs/explanation/counting-tokens.md.

    Args:
        name: Name of the family, used in the counter's name.
        costs: Costs of the format in addition to the texts.
        tools: Costs of tools.
        scale: Tokens of this family per token of cl100k_base.
        tolerance: Measured relative error.
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
"""Since Opus 4.7, Anthropic states up to 1.35 times the tokens for the same text.

The scale assumes half of that increase. No recorded session was available to measure it.
"""
GEMINI = Provider(
    "gemini", FrameCosts(attachment=gemini_image_tokens, sealed=sealed_tokens), ToolCosts(tool=0)
)
GEMINI_2 = Provider(
    "gemini-2",
    FrameCosts(attachment=gemini_2_image_tokens, sealed=sealed_tokens),
    ToolCosts(tool=0),
)
OTHER = Provider("other", FrameCosts(sealed=sealed_tokens), ToolCosts(request=200))
"""Any other model behind an OpenAI-compatible API. The costs vary by model."""

FRAMES_TOLERANCE = 0.1
"""Expected relative error if texts are counted exactly: overhead, schemas, images and thoughts."""

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
"""Providers by a pattern for model names. The first match is used."""


def counter_for(
    format: str, model: str | None = None, *, registry: PluginRegistry | None = None
) -> TokenCounter:
    """Returns the best installed counter for a provider's format and a model.

    Texts are counted with `PluginRegistry.token_counter`. If that counter was not made for the
    model (the estimate, or cl100k_base for a model with another vocabulary), its counts are
    multiplied by a factor that was measured for the provider. For formats of third-party plugins,
    core's counter is returned unchanged.

    Args:
        format: The provider's format.
        model: The model's name.
        registry: The registry that provides counters; by default, all installed plugins.
    """
    texts = (registry or default_registry()).token_counter(model)
    provider = _provider_of(format, model or "")
    if provider is None:
        return texts
    if _is_approximate(texts):
        scale, tolerance = provider.scale, provider.tolerance
    else:
        scale, tolerance = 1.0, max(texts.tolerance, FRAMES_TOLERANCE)
    return ProviderCounter(
        texts, provider.name, provider.costs, tools=provider.tools, scale=scale, tolerance=tolerance
    )


def _provider_of(format: str, model: str) -> Provider | None:
    """Returns the provider whose costs apply. The model decides, not the format."""
    if format not in DEFAULTS:
        return None
    for pattern, provider in BY_MODEL.items():
        if re.search(pattern, model):
            return provider
    return OTHER if model and format == "openai-chat" else DEFAULTS[format]


def _is_approximate(texts: TokenCounter) -> bool:
    is_cores = isinstance(texts, EstimateCounter | TiktokenCounter)
    return is_cores and texts.confidence is Confidence.ESTIMATED


# --- tools ---


def tools_of(request: Mapping[str, Any] | None) -> list[Any]:
    """Returns the tools of a request."""
    tools = (request or {}).get("tools")
    return list(tools) if isinstance(tools, list | tuple) else []


def tool_entries(tools: Iterable[Any], counter: TokenCounter) -> dict[str, int]:
    """Returns the budget entries for the tools of a request: their tokens by name."""
    entries = {}
    for number, tool in enumerate(tools):
        schema = unmarked(tool)
        entries[_tool_name(schema) or f"tool_{number}"] = tool_tokens(schema, counter)
    if entries and (tokens := _costs_of(counter).request):
        entries[TOOL_USE] = tokens
    return entries


def tool_tokens(schema: Any, counter: TokenCounter) -> int:
    """Returns the tokens of a tool's schema; 0 if the provider defers loading it."""
    if isinstance(schema, dict) and schema.get("defer_loading"):
        return 0
    costs = _costs_of(counter)
    return costs.tool + text_tokens(costs.text(schema), counter)


def request_tokens(messages: Iterable[Message], tools: Iterable[Any], counter: TokenCounter) -> int:
    """Returns the tokens of a whole request."""
    schemas = [tool_tokens(unmarked(tool), counter) for tool in tools]
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
