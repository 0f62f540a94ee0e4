"""Counting tokens as a provider does: frames of messages and calls, tool schemas, images."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from jaato_gc import (
    Confidence,
    FrameCosts,
    GCPolicy,
    GCSession,
    InlineData,
    InstructionSource,
    PluginRegistry,
    TokenCounter,
    image_size,
    image_tokens,
)
from jaato_gc_formats._wire import compact, plain

TOOL_OVERHEAD = 8
"""Tokens that a provider spends on the frame of one tool's schema."""


class ProviderCounter:
    """Counts texts as another counter does, and all else as a provider's format does.

    Args:
        texts: Counts the texts.
        format: Whose format it is.
        costs: What the format costs beside the texts.
    """

    def __init__(self, texts: TokenCounter, format: str, costs: FrameCosts) -> None:
        self._texts = texts
        self.name = f"{texts.name}/{format}"
        self.costs = costs

    @property
    def confidence(self) -> Confidence:
        return self._texts.confidence

    @property
    def tolerance(self) -> float:
        return self._texts.tolerance

    def count_text(self, text: str) -> int:
        return self._texts.count_text(text)


def counter_for(
    format: str, model: str | None = None, *, registry: PluginRegistry | None = None
) -> TokenCounter:
    """The best counter for a provider's format and a model, with what is on this machine."""
    texts = (registry or PluginRegistry()).token_counter(model)
    costs = COSTS.get(format)
    return ProviderCounter(texts, format, costs) if costs else texts


def tools_of(request: Mapping[str, Any] | None) -> list[Any]:
    """The tools of a request."""
    tools = (request or {}).get("tools")
    return list(tools) if isinstance(tools, list | tuple) else []


def book_tools(session: GCSession, tools: Iterable[Any]) -> None:
    """Put the schemas of tools into a session's budget: they are sent with every request."""
    for number, tool in enumerate(tools):
        schema = plain(tool)
        session.budget.add_child(
            InstructionSource.PLUGIN,
            _tool_name(schema) or f"tool_{number}",
            tool_tokens(schema, session.budget.counter),
            GCPolicy.LOCKED,
        )


def tool_tokens(schema: Any, counter: TokenCounter) -> int:
    """Tokens of the schema of one tool."""
    return TOOL_OVERHEAD + counter.count_text(compact(schema))


def _tool_name(schema: Any) -> str | None:
    if not isinstance(schema, dict):
        return None
    function = schema.get("function")
    name = function.get("name") if isinstance(function, dict) else schema.get("name")
    return name if isinstance(name, str) else None


def openai_image_tokens(image: InlineData) -> int:
    """OpenAI's published price at high detail: 85, and 170 for each tile of 512 by 512.

    The image is first scaled to fit 2048 by 2048, then to 768 on its shorter side.
    """
    width, height = image_size(image)
    if not width or not height:
        return image_tokens(image)
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def gemini_image_tokens(image: InlineData) -> int:
    """Google's published price: 258 for an image up to 384 by 384, and for each tile of 768."""
    width, height = image_size(image)
    if not width or not height:
        return image_tokens(image)
    if max(width, height) <= 384:
        return 258
    return 258 * math.ceil(width / 768) * math.ceil(height / 768)


COSTS = {
    "openai-chat": FrameCosts(attachment=openai_image_tokens),
    "openai-responses": FrameCosts(attachment=openai_image_tokens),
    "anthropic": FrameCosts(),
    "gemini": FrameCosts(attachment=gemini_image_tokens),
}
