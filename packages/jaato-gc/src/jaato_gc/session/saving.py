"""Saves a session as JSON, and restores it.

A restored session must behave as the saved one would have. So every attribute of a session's parts
is in one of the models below, and they are strict: see `jaato_gc.saved`.
"""

import json
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PositiveInt, ValidationError
from pydantic_core import to_jsonable_python

from jaato_gc.budget import InstructionBudget, SavedBudget
from jaato_gc.budget.calibration import Report
from jaato_gc.config import GCConfig
from jaato_gc.errors import GCError, SavedSessionError
from jaato_gc.messages import SavedMessage, message_to_dict
from jaato_gc.plugins import GCPlugin, PluginRegistry
from jaato_gc.saved import Count, Flag, Saved, Seconds
from jaato_gc.session.arguments import window
from jaato_gc.session.journal_entry import SavedJournalEntry, entry_to_dict, read_out
from jaato_gc.session.options import GCSessionOptions
from jaato_gc.settings import explain
from jaato_gc.summaries import SummarySettings

if TYPE_CHECKING:
    from jaato_gc.session.session import GCSession

FORMAT = 1


class _State(Saved, from_attributes=True):
    """The attributes of an object that are saved."""

    @classmethod
    def of(cls, owner: object) -> dict[str, Any]:
        """Returns the attributes of an object."""
        return cls.model_validate(owner).model_dump()

    @classmethod
    def set_on(cls, owner: object, document: "_State") -> None:
        """Sets the attributes of an object from a saved session."""
        for name in cls.model_fields:
            setattr(owner, name, getattr(document, name))


_Samples = list[Annotated[tuple[Count, PositiveInt], Field(strict=False)]]


class _BookingState(_State):
    turns_opened: Count
    exchanges_opened: Count
    summaries_made: Count


class _LiveState(_State):
    turns: Count
    pinned_turns: list[Count]  # a set in the session
    appended: Count
    places: dict[str, Count]
    reports: Count
    samples: _Samples
    doubts_report: Flag
    uncertain_tokens: Count
    counted_at_request: Count | None


class _ScheduleState(_State):
    paused_at: Count | None
    threshold_told: Flag
    threshold_crossed: Flag
    waits_until: Count
    requested_at: Seconds | None
    output_reserve: Count


class _StrategyState(_State):
    uses_summarizer: Flag


class _JournalState(_State):
    recorded: Count
    plans_made: Count
    stashed_ledgers: list[str]


class _Document(_BookingState, _LiveState, _ScheduleState, _StrategyState, _JournalState):
    """A saved session."""

    format: int
    counter: str
    budget: SavedBudget
    history: list[SavedMessage]
    plugin: str | None
    plugin_options: dict[str, Any] | None
    config: dict[str, Any]
    disabled: str | None
    journal: list[SavedJournalEntry]


def dump(session: "GCSession", *, journal: bool = True) -> str:
    """Returns the state of a session as JSON text. The lock must be held.

    Args:
        session: The session.
        journal: False: without the journal.

    Raises:
        SavedSessionError: A message has a value that JSON can't represent.
    """
    live, schedule = session._live, session._schedule
    strategy = schedule.strategy
    entries = session._journal.entries if journal else ()
    document = {
        "format": FORMAT,
        "counter": live.budget.counter.name,
        "budget": live.budget.snapshot(),
        "history": [message_to_dict(message) for message in live.messages],
        **_LiveState.of(live),
        **_BookingState.of(live.booking),
        "plugin": strategy.name if strategy else None,
        "plugin_options": _options(strategy.plugin) if strategy else {},
        "uses_summarizer": bool(strategy and _uses_summarizer(strategy.plugin)),
        "config": _config(strategy.config, strategy.plugin) if strategy else {},
        "disabled": strategy.disabled if strategy else None,
        **_ScheduleState.of(schedule),
        **_JournalState.of(session._journal),
        "journal": [entry_to_dict(entry) for entry in entries],
    }
    try:
        return json.dumps(document, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise SavedSessionError(
            f"the session can't be saved as JSON: {_culprit(session)}: {error}"
        ) from error


def restored(
    saved: str,
    make: "Callable[..., GCSession]",
    plugin: str | GCPlugin | None,
    options: GCSessionOptions,
) -> "GCSession":
    """Returns the session that `dump` described.

    Args:
        saved: What `dump` returned.
        make: Returns a session with some options.
        plugin: The strategy, or its name; ``None``: created from its saved name and options.
        options: The options that are given.

    Raises:
        SavedSessionError: The text is not a saved session, or the counter is another one.
    """
    document = _parse(saved)
    # A plugin's stash belongs to the agent, and observers know a session by its ids.
    options.setdefault("agent_id", document.budget.agent_id)
    options.setdefault("session_id", document.budget.session_id)
    saved_window = document.budget.context_limit  # the saved reserve refers to it
    context_limit = options.get("context_limit")
    if context_limit is None:
        options["context_limit"] = context_limit = saved_window
    session = make(**options)
    try:
        _load(session, document, plugin)
        if context_limit != saved_window:  # the model may be another one
            session.set_context_limit(context_limit)
    except BaseException:
        session.close()
        raise
    return session


def _parse(saved: str) -> _Document:
    with _restoring():
        document = json.loads(saved)
        found = document["format"]
        if type(found) is not int or found != FORMAT:
            raise GCError(
                f"it has format {found!r:.80}, and this version reads format {FORMAT}: restore it "
                "with the version of jaato-gc that saved it"
            )
        read = _Document.model_validate(document)
        window(read.budget.context_limit)  # a budget without a session may have none
        return read


def _load(session: "GCSession", document: _Document, plugin: str | GCPlugin | None) -> None:
    with _restoring():
        counter = session.budget.counter
        if document.counter != counter.name:
            raise GCError(
                f"it was counted with {document.counter!r}: give that counter, not {counter.name!r}"
            )
        if plugin is None:
            plugin = _strategy(document, session.registry)
            if document.uses_summarizer and session._summarizer is None:
                raise GCError("its strategy used a summarizer: give it to restore(summarizer=…)")
        if plugin is not None:
            session.set_gc_plugin(plugin, GCConfig(**document.config))
        _fill(session, document)


@contextmanager
def _restoring() -> Iterator[None]:
    try:
        yield
    except GCError as error:
        raise SavedSessionError(f"the saved session can't be restored: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
        if isinstance(error, ValidationError):
            problem = explain(error, _Document)
        raise SavedSessionError(
            f"the saved session can't be restored, it is damaged or not a saved session: {problem}"
        ) from error


def _fill(session: "GCSession", document: _Document) -> None:
    live, schedule = session._live, session._schedule
    budget = InstructionBudget.from_snapshot(document.budget, session.budget.counter)
    # What can be dropped depends on the host of the new session.
    budget.collectable_sources = session.budget.collectable_sources
    budget.has_stash = session.budget.has_stash
    live.begin_with([read_out(message) for message in document.history], budget)
    if not live.booking.holds(message.message_id for message in live.messages):
        raise SavedSessionError("its history and its budget do not match")
    entries = [entry.read_out() for entry in document.journal]
    if document.recorded < len(entries):
        raise SavedSessionError("its journal has more collections than there were")
    _BookingState.set_on(live.booking, document)
    _LiveState.set_on(live, document)
    live.pinned_turns = frozenset(document.pinned_turns)
    live.samples = [Report(*sample) for sample in document.samples]
    _ScheduleState.set_on(schedule, document)
    _JournalState.set_on(session._journal, document)
    session._journal.fill(entries)
    schedule.update_limits()
    if schedule.strategy:
        schedule.strategy.disabled = document.disabled


def _options(plugin: GCPlugin) -> dict[str, Any] | None:
    """Returns the options of a strategy; ``None`` if they are unknown or not JSON."""
    try:
        return _jsonable(getattr(plugin, "options", None), plugin)
    except (TypeError, ValueError):
        return None


def _config(config: GCConfig, plugin: GCPlugin) -> dict[str, Any]:
    """Returns the settings that were given."""
    given = config.given()
    if "plugin_config" in given:
        given["plugin_config"] = _jsonable(config.plugin_config, plugin)
    return given


def _jsonable(options: Any, plugin: GCPlugin) -> dict[str, Any]:
    """Returns options as JSON data, without a summarizer: it is given to the session again."""
    if options and _uses_summarizer(plugin):
        options = {key: value for key, value in options.items() if key != "summarizer"}
    return {key: to_jsonable_python(_ordered(value)) for key, value in dict(options).items()}


def _ordered(value: Any) -> Any:
    """Returns a set as a list, so that saving a session twice gives the same text."""
    return sorted(value, key=repr) if isinstance(value, Set) else value


def _uses_summarizer(plugin: GCPlugin) -> bool:
    settings = getattr(plugin, "settings", None)
    if not isinstance(settings, SummarySettings):
        return False
    return settings.summarizer is not None and not settings.extractive


def _strategy(document: _Document, registry: PluginRegistry) -> GCPlugin | None:
    name, options = document.plugin, document.plugin_options
    if name is None:
        return None
    if options is None:
        raise SavedSessionError(
            f"the options of {name!r} could not be saved: give the strategy to restore(strategy=…)"
        )
    return registry.create(name, options, from_json=True)


def _culprit(session: "GCSession") -> str:
    """Returns what has a value that JSON can't represent."""
    journal = session._journal.entries
    removed = [message for entry in journal if entry.applied for message in entry.applied.removed]
    for message in [*session._live.messages, *removed]:
        try:
            json.dumps(message_to_dict(message))
        except (TypeError, ValueError, RecursionError):
            return f"message {message.message_id!r} has a value that JSON can't represent"
    return "the budget or the configuration has a value that JSON can't represent"
