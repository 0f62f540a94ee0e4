"""Collects a provider's history in one call, without a session."""

from typing import Any, NamedTuple

from jaato_gc import GCConfig, GCOutcome, GCResult, GCSession, GCTriggerReason, PluginRegistry
from jaato_gc.plugin import GCPlugin, SummarizerFunction, TokenCounter
from jaato_gc_formats._cache_marks import CacheMarks
from jaato_gc_formats._convert import default_registry, detect, find_api, from_messages
from jaato_gc_formats._counting import counter_for, tools_of
from jaato_gc_formats._history import History
from jaato_gc_formats._request_booking import RequestBooking


class Collected(NamedTuple):
    """The collected messages in the format of the input, and the result of the collection."""

    request: Any
    result: GCResult


def collect(
    data: Any,
    *,
    context_limit: int | None = None,
    strategy: str | GCPlugin | None = None,
    config: GCConfig | None = None,
    format: str | None = None,
    model: str | None = None,
    counter: TokenCounter | None = None,
    registry: PluginRegistry | None = None,
    summarizer: SummarizerFunction | None = None,
) -> Collected:
    """Collects a provider's history if it exceeds the threshold, without keeping a session.

    For a running agent, `ProviderSession` is better: it keeps token counts, records collections and
    can undo them.

    Args:
        data: A list of messages or a request in the provider's format, or a `History` from
            `to_messages` or `load`. It is not modified.
        context_limit: The model's context window, in tokens; by default, that of the model, or
            128,000 for a model that no installed plugin knows, which is logged.
        strategy: Name of an installed strategy, or a strategy; by default, the one that is
            installed.
        config: When to collect and how much to remove.
        format: The provider's format; detected by default.
        model: The model's name, which selects window and token counter; by default, the ``model``
            of the request.
        counter: The token counter; selected by model and format by default.
        registry: The registry that provides strategies and formats; by default, all installed
            plugins.
        summarizer: Writes the summaries of a strategy that summarizes.

    Raises:
        FormatError: The data is in no known format, or not in the given one.
        GCPluginError: The strategy is unknown. Without a name: none is installed, or several.
        GCConfigError: The configuration is invalid.
    """
    registry = registry or default_registry()
    used = registry.strategy(strategy)
    if isinstance(data, History):
        api, history = find_api(data.format, registry), data
    else:
        api = find_api(format or detect(data, registry=registry).format, registry)
        history = api.to_history(data)
    model = model or (history.request or {}).get("model")
    session = GCSession(
        context_limit=context_limit,
        model=model,
        counter=counter or counter_for(api.name, model, registry=registry),
        registry=registry,
        journal_bytes=0,
        summarizer=summarizer,
    )
    session.set_gc_plugin(used, config)
    booked = [session.append(message) for message in history]
    RequestBooking(api, session).follow({"tools": tools_of(history.request)})
    result = session.after_turn() or _not_needed(session)
    left = CacheMarks(api, booked).placed(session.history) if result.success else history
    session.close()
    return Collected(from_messages(left, api.name, like=history, registry=registry), result)


def _not_needed(session: GCSession) -> GCResult:
    tokens = session.budget.total_tokens()
    name = session.strategy.name if session.strategy else ""
    return GCResult(
        True, 0, tokens, tokens, name, GCTriggerReason.THRESHOLD, outcome=GCOutcome.NOT_NEEDED
    )
