"""Saving a session as JSON, and restoring it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jaato_gc.budget import BookedEntry, InstructionBudget
from jaato_gc.config import GCConfig
from jaato_gc.errors import GCError, SavedSessionError
from jaato_gc.history import Edit
from jaato_gc.messages import Message, message_from_dict, message_to_dict, seal
from jaato_gc.plugins import GCPlugin, PluginRegistry
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.session.journal import AppliedEdits, JournalEntry
from jaato_gc.session.result_json import result_from_dict, result_to_dict
from jaato_gc.session.scheduling import Breaker

if TYPE_CHECKING:
    from jaato_gc.session.session import GCSession

FORMAT = 1


def dump(session: "GCSession") -> str:
    """Returns the state of a session as JSON text.

    Raises:
        SavedSessionError: A message has a value that JSON can't represent.
    """
    live, collections, schedule = session._live, session._collections, session._schedule
    planner = schedule.planner
    with live.lock:
        pool = _Pool()
        document = {
            "format": FORMAT,
            "budget": live.budget.snapshot(),
            "counter": live.budget.counter.name,
            "history": [pool.add(message) for message in live.messages],
            "turns": live.turns,
            "repairs": live.repairs,
            "pinned_turns": sorted(live.pinned_turns),
            "numbers": list(live.numbers),
            "anchor": [
                live.reports,
                live.uncertain_tokens,
                live.counted_at_request,
            ],
            "booking": {
                "turns_opened": live.booking.turns_opened,
                "exchanges_opened": live.booking.exchanges_opened,
                "summaries_made": live.booking.summaries_made,
            },
            "plugin": planner.plugin.name if planner else None,
            "plugin_options": _options(planner.plugin) if planner else {},
            "config": planner.config.given() if planner else {},
            "disabled": planner.disabled if planner else None,
            "breaker": asdict(schedule.breaker),
            "plans_made": collections.plans_made,
            "waits_for_message": schedule.waits_for_message,
            "threshold": [schedule.threshold_told, schedule.threshold_crossed],
            "results": [result_to_dict(result) for result in collections.results],
            "journal": [_entry_to_dict(entry, pool) for entry in collections.journal.entries],
            "messages": pool.messages,
        }
    try:
        return json.dumps(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise SavedSessionError(
            f"the session can't be saved as JSON: {_culprit(pool, error)}"
        ) from error


def parse(saved: str) -> dict[str, Any]:
    """Returns a saved session as data.

    Raises:
        SavedSessionError: The text is not a saved session.
    """
    with _restoring():
        document: dict[str, Any] = json.loads(saved)
        if document["format"] != FORMAT:
            raise GCError(f"it has format {document['format']}, and this version reads {FORMAT}")
        _texts([document["budget"]["agent_id"]])
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
        if plugin is None:
            plugin = _strategy(document, session.registry)
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
        raise SavedSessionError(
            "the saved session can't be restored, it is damaged or not a saved session: "
            f"{type(error).__name__}: {error}"
        ) from error


def _fill(session: "GCSession", document: Mapping[str, Any]) -> None:
    live, collections, schedule = session._live, session._collections, session._schedule
    messages = [message_from_dict(each) for each in document["messages"]]
    for message in messages:
        seal(message)
    budget = InstructionBudget.from_snapshot(document["budget"], session.budget.counter)
    _whole(budget.correction), _whole(budget.context_limit), _whole(budget.collections)
    # What can be dropped depends on the host of the new session.
    budget.collectable_sources = session.budget.collectable_sources
    budget.has_stash = session.budget.has_stash
    live.booking.budget = budget
    for name in ("turns_opened", "exchanges_opened", "summaries_made"):
        setattr(live.booking, name, _whole(document["booking"][name]))
    live.begin_with(_picked(messages, document["history"]))
    found = {message.message_id for message in live.messages}
    if len(found) < len(live.messages) or None in map(budget.entry_of, found):
        raise SavedSessionError("its history and its budget do not match")
    live.turns = _whole(document["turns"])
    live.repairs = _whole(document["repairs"])
    live.pinned_turns = set(map(_whole, document["pinned_turns"]))
    numbered = _texts(document["numbers"])
    if budget.has_stash and not numbered:  # the saved session had no stash
        numbered = [message.message_id for message in live.messages]
    live.numbers = {message_id: number for number, message_id in enumerate(numbered)}
    live.reports, live.uncertain_tokens = map(_whole, document["anchor"][:2])
    counted = document["anchor"][2]
    live.counted_at_request = None if counted is None else _whole(counted)
    schedule.breaker = _breaker(document["breaker"])
    collections.plans_made = _whole(document["plans_made"])
    schedule.waits_for_message = _flag(document["waits_for_message"])
    schedule.threshold_told, schedule.threshold_crossed = map(_flag, document["threshold"])
    collections.results = [result_from_dict(each) for each in document["results"]]
    by_id = {result.gc_id: result for result in collections.results}
    for each in document["journal"]:
        collections.journal.add(_entry_from_dict(each, messages, by_id))
    schedule.settle()
    if schedule.planner:
        schedule.planner.disabled = document["disabled"]


def _picked(messages: list[Message], indices: Iterable[Any]) -> list[Message]:
    numbers = list(map(_whole, indices))
    if any(number < 0 for number in numbers):
        raise IndexError("a message has a negative number")
    return [messages[number] for number in numbers]


def _breaker(data: Mapping[str, Any]) -> Breaker:
    breaker = Breaker(**data)
    _whole(breaker.fruitless), _flag(breaker.blocks)
    return breaker


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"expected an integer, got {value!r:.80}")
    return value


def _texts(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise TypeError(f"expected a list of texts, got {values!r:.80}")
    return values


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"expected true or false, got {value!r:.80}")
    return value


class _Pool:
    """Messages by number: one that is in several lists is written once."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Message] = []

    def add(self, message: Message) -> int:
        number = self._numbers.setdefault(id(message), len(self.messages))
        if number == len(self.messages):
            self.messages.append(message_to_dict(message))
            self._kept.append(message)
        return number


def _entry_to_dict(entry: JournalEntry, pool: _Pool) -> dict[str, Any]:
    applied = entry.applied
    return {
        "gc_id": entry.gc_id,
        "tokens": entry.tokens,
        "applied": applied
        and {
            "edits": [_edit_to_list(edit, pool) for edit in applied.edits],
            "touched": [asdict(booked) for booked in applied.touched],
            "length": applied.length,
            "repairs": applied.repairs,
            "reports": applied.reports,
            "stash_keys": applied.stash_keys,
        },
    }


def _edit_to_list(edit: Edit, pool: _Pool) -> list[Any]:
    numbers = [None if each is None else pool.add(each) for each in (edit.before, edit.after)]
    return [edit.position, *numbers, edit.key, edit.reason, edit.action, edit.keep]


def _edit_from_list(data: list[Any], messages: list[Message]) -> Edit:
    position, before, after, key, reason, action, keep = data
    _texts([key, reason, action])
    [old, new] = [
        None if each is None else _picked(messages, [each])[0] for each in (before, after)
    ]
    return Edit(_whole(position), old, new, key, reason, action, _flag(keep))


def _entry_from_dict(
    data: Mapping[str, Any], messages: list[Message], results: Mapping[str | None, Any]
) -> JournalEntry:
    saved = data["applied"]
    applied = None
    if saved is not None:
        applied = AppliedEdits(
            edits=[_edit_from_list(each, messages) for each in saved["edits"]],
            touched=[_booked(each) for each in saved["touched"]],
            length=_whole(saved["length"]),
            repairs=_whole(saved["repairs"]),
            reports=_whole(saved["reports"]),
            stash_keys=dict(saved["stash_keys"]),
        )
    return JournalEntry(results[data["gc_id"]], applied, _whole(data["tokens"]))


def _booked(data: Mapping[str, Any]) -> BookedEntry:
    source, policy = InstructionSource(data["source"]), GCPolicy(data["gc_policy"])
    ids = tuple(_texts(data["message_ids"]))
    return BookedEntry(**{**data, "source": source, "gc_policy": policy, "message_ids": ids})


def _options(plugin: GCPlugin) -> dict[str, Any] | None:
    """Returns the options of a strategy; ``None`` if they are unknown or not JSON."""
    options = getattr(plugin, "options", None)
    try:
        return dict(json.loads(json.dumps(options)))
    except (TypeError, ValueError):
        return None


def _strategy(document: Mapping[str, Any], registry: PluginRegistry) -> GCPlugin | None:
    name, options = document["plugin"], document["plugin_options"]
    if name is None:
        return None
    if options is None:
        raise SavedSessionError(
            f"the options of {name!r} could not be saved: give the strategy to restore(plugin=…)"
        )
    return registry.create(name, options)


def _culprit(pool: _Pool, error: Exception) -> str:
    for message in pool.messages:
        try:
            json.dumps(message)
        except (TypeError, ValueError, RecursionError):
            return (
                f"message {message['message_id']!r} has a value that JSON can't represent: {error}"
            )
    return str(error)
