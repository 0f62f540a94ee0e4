"""Saves a session as JSON, and restores it.

A restored session must behave as the saved one would have. So every attribute of a session's parts
is in one of the models below, and they are strict: a damaged document is an error here, and not
somewhere in a later turn.
"""

import json
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError
from pydantic_core import to_jsonable_python

from jaato_gc.budget import GREATEST_RATIO, LEAST_RATIO, InstructionBudget, Report
from jaato_gc.config import GCConfig
from jaato_gc.errors import GCError, SavedSessionError
from jaato_gc.messages import message_to_dict
from jaato_gc.plugins import GCPlugin, PluginRegistry
from jaato_gc.session.journal_entry import entries_from_list, entry_to_dict, read_message
from jaato_gc.settings import explain
from jaato_gc.summaries import SummarySettings

if TYPE_CHECKING:
    from jaato_gc.session.session import GCSession

FORMAT = 1


class _State(BaseModel, strict=True, from_attributes=True, defer_build=True):
    """The attributes of an object that are saved."""

    @classmethod
    def of(cls, owner: object) -> dict[str, Any]:
        """Returns the attributes of an object."""
        return cls.model_validate(owner).model_dump()

    @classmethod
    def set_on(cls, owner: object, document: Mapping[str, Any]) -> None:
        """Sets the attributes of an object from a saved session."""
        for name, value in cls.model_validate(document):
            setattr(owner, name, value)


_Samples = list[Annotated[tuple[NonNegativeInt, PositiveInt], Field(strict=False)]]


class _BudgetState(_State):
    agent_id: str
    session_id: str
    context_limit: int
    ratio: Annotated[float, Field(ge=LEAST_RATIO, le=GREATEST_RATIO)]
    unbooked_tokens: NonNegativeInt
    collections: int


class _BookingState(_State):
    turns_opened: int
    exchanges_opened: int
    summaries_made: int


class _LiveState(_State):
    turns: int
    pinned_turns: list[int] = Field(strict=False)  # a set in the session
    appended: int
    places: dict[str, int]
    reports: int
    samples: _Samples
    doubts_report: bool
    uncertain_tokens: int
    counted_at_request: int | None


class _ScheduleState(_State):
    paused_at: int | None
    threshold_told: bool
    threshold_crossed: bool
    waits_until: int
    requested_at: float | None
    output_reserve: int


class _StrategyState(_State):
    uses_summarizer: bool


class _JournalState(_State):
    recorded: int
    plans_made: int
    stashed_ledgers: list[str]


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


def parse(saved: str) -> dict[str, Any]:
    """Returns a saved session as data.

    Raises:
        SavedSessionError: The text is not a saved session.
    """
    with _restoring():
        document: dict[str, Any] = json.loads(saved)
        found = document["format"]
        if type(found) is not int or found != FORMAT:
            raise GCError(
                f"it has format {found!r:.80}, and this version reads format {FORMAT}: restore it "
                "with the version of jaato-gc that saved it"
            )
        _BudgetState.model_validate(document["budget"])
        return document


def load(session: "GCSession", document: Mapping[str, Any], plugin: GCPlugin | None) -> None:
    """Sets the state of a new session.

    Args:
        session: The session.
        document: What `parse` returned.
        plugin: The strategy; ``None``: created from its saved name and options.

    Raises:
        SavedSessionError: The document is not a saved session, or the counter is another one.
    """
    with _restoring():
        counter = session.budget.counter
        if document["counter"] != counter.name:
            raise GCError(
                f"it was counted with {document['counter']!r}: give that counter, "
                f"not {counter.name!r}"
            )
        needs_summarizer = _StrategyState.model_validate(document).uses_summarizer
        if plugin is None:
            plugin = _strategy(document, session.registry)
            if needs_summarizer and session._summarizer is None:
                raise GCError("its strategy used a summarizer: give it to restore(summarizer=…)")
        if plugin is not None:
            session.set_gc_plugin(plugin, GCConfig(**document["config"]))
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
            problem = explain(error)
        raise SavedSessionError(
            f"the saved session can't be restored, it is damaged or not a saved session: {problem}"
        ) from error


def _fill(session: "GCSession", document: Mapping[str, Any]) -> None:
    live, schedule = session._live, session._schedule
    budget = InstructionBudget.from_snapshot(document["budget"], session.budget.counter)
    # What can be dropped depends on the host of the new session.
    budget.collectable_sources = session.budget.collectable_sources
    budget.has_stash = session.budget.has_stash
    live.begin_with([read_message(data) for data in document["history"]], budget)
    _BookingState.set_on(live.booking, document)
    found = {message.message_id for message in live.messages}
    if len(found) < len(live.messages) or None in map(budget.entry_of, found):
        raise SavedSessionError("its history and its budget do not match")
    _LiveState.set_on(live, document)
    live.pinned_turns = frozenset(live.pinned_turns)
    live.samples = [Report(*sample) for sample in live.samples]
    _ScheduleState.set_on(schedule, document)
    entries = entries_from_list(document["journal"])
    _JournalState.set_on(session._journal, document)
    if session._journal.recorded < len(entries):
        raise SavedSessionError("its journal has more collections than there were")
    session._journal.fill(entries)
    schedule.update_limits()
    if schedule.strategy:
        schedule.strategy.disabled = document["disabled"]


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


def _strategy(document: Mapping[str, Any], registry: PluginRegistry) -> GCPlugin | None:
    name, options = document["plugin"], document["plugin_options"]
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
