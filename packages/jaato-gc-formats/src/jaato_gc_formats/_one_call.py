"""One call: a provider's messages in, fewer of them out, and the account of it beside."""

from typing import Any, NamedTuple

from jaato_gc import (
    GCConfig,
    GCOutcome,
    GCResult,
    GCSession,
    GCTriggerReason,
    PluginRegistry,
    TokenCounter,
)
from jaato_gc_formats._convert import detect, find_api, from_messages, installed
from jaato_gc_formats._counting import book_tools, counter_for, tools_of
from jaato_gc_formats._history import History


class Collected(NamedTuple):
    """What is left, in the shape that it came in, and the account of what went."""

    request: Any
    result: GCResult


def collect(
    data: Any,
    *,
    limit: int,
    strategy: str = "gc_budget",
    config: GCConfig | None = None,
    format: str | None = None,
    model: str | None = None,
    counter: TokenCounter | None = None,
    registry: PluginRegistry | None = None,
) -> Collected:
    """Collect a provider's history if it is due, without keeping a session.

    For an agent that runs on, `ProviderSession` is better: it remembers what was counted, what was
    collected and how to undo it.

    Args:
        data: A list of messages or a whole request, in the provider's shape, or what `to_messages`
            and `load` made of it. It is not altered.
        limit: The model's window, in tokens.
        strategy: Name of an installed strategy.
        config: When to collect and how far down.
        format: The provider's format; detected if not given.
        model: The model's name, to choose a counter by; a request's own ``model`` if not given.
        counter: What counts tokens; chosen by model and format if not given.
        registry: Where strategies and formats come from; all that are installed if not given.

    Raises:
        FormatError: The data is in no known format.
        GCPluginError: There is no such strategy.
        GCConfigError: The configuration is not valid.
    """
    registry = registry or installed()
    if isinstance(data, History):
        api, history = find_api(data.format, registry), data
    else:
        api = find_api(format or detect(data, registry=registry).format, registry)
        history = api.to_history(data)
    model = model or (history.request or {}).get("model")
    session = GCSession(
        context_limit=limit,
        counter=counter or counter_for(api.name, model, registry=registry),
        registry=registry,
        journal_tokens=0,
    )
    session.set_gc_plugin(registry.create(strategy), config)
    for message in history:
        session.append(message)
    book_tools(session, tools_of(history.request))
    result = session.after_turn() or _not_needed(session)
    left = session.history if result.success else history
    session.close()
    return Collected(from_messages(left, api.name, like=history, registry=registry), result)


def _not_needed(session: GCSession) -> GCResult:
    tokens = session.budget.total_tokens()
    name = session.plugin.name if session.plugin else ""
    return GCResult(
        True, 0, tokens, tokens, name, GCTriggerReason.THRESHOLD, outcome=GCOutcome.NOT_NEEDED
    )
