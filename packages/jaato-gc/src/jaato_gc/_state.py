"""A session as JSON, and back: the restored one behaves as the saved one would have."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jaato_gc._breaker import Breaker
from jaato_gc._budget import InstructionBudget
from jaato_gc._change import Change
from jaato_gc._config import GCConfig
from jaato_gc._errors import GCError
from jaato_gc._journal import JournalEntry
from jaato_gc._ledger import BookedEntry
from jaato_gc._message_codec import message_from_dict, message_to_dict
from jaato_gc._messages import Message
from jaato_gc._policies import GCPolicy, InstructionSource
from jaato_gc._registry import PluginRegistry
from jaato_gc._result_codec import result_from_dict, result_to_dict
from jaato_gc._strategy import GCPlugin

if TYPE_CHECKING:
    from jaato_gc._session import GCSession

FORMAT = 2


def dump(session: "GCSession") -> str:
    """Everything that makes up a session's state, as JSON text.

    Raises:
        GCError: A message holds something that JSON can't.
    """
    context, runner = session._context, session._runner
    collector = runner.collector
    with context.lock:
        pool = _Pool()
        document = {
            "format": FORMAT,
            "budget": context.budget.snapshot(),
            "counter": context.budget.counter.name,
            "history": [pool.add(message) for message in context.history],
            "turns": context.turns,
            "repairs": context.repairs,
            "pinned_turns": sorted(context.pinned_turns),
            "numbers": list(context.numbers),
            "anchor": [
                context.reports,
                context.uncertain_tokens,
                context.counted_at_request,
            ],
            "ledger": {
                "turns_opened": context.ledger.turns_opened,
                "exchanges_opened": context.ledger.exchanges_opened,
                "summaries_made": context.ledger.summaries_made,
            },
            "plugin": collector.plugin.name if collector else None,
            "plugin_options": _options(collector.plugin) if collector else {},
            "config": collector.config.given() if collector else {},
            "disabled": collector.disabled if collector else None,
            "breaker": asdict(runner.breaker),
            "plans_made": runner.plans_made,
            "waits_for_message": runner.waits_for_message,
            "threshold": [session._threshold_told, session._threshold_crossed],
            "results": [result_to_dict(result) for result in runner.results],
            "journal": [_entry_to_dict(entry, pool) for entry in runner.journal.entries],
            "messages": pool.messages,
        }
    try:
        return json.dumps(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise GCError(f"the session can't be saved as JSON: {_culprit(pool, error)}") from error


def parse(saved: str) -> dict[str, Any]:
    """What `dump` wrote, as data.

    Raises:
        GCError: It is not what `dump` wrote.
    """
    with _restoring():
        document: dict[str, Any] = json.loads(saved)
        if document["format"] != FORMAT:
            raise GCError(f"it has format {document['format']}, and this version reads {FORMAT}")
        _texts([document["budget"]["agent_id"]])
        return document


def load(session: "GCSession", document: Mapping[str, Any], plugin: GCPlugin | None) -> None:
    """Put a saved state into a session that was just made.

    Args:
        session: The session.
        document: What `parse` read.
        plugin: The strategy; ``None``: made anew from its saved name and options.

    Raises:
        GCError: It is not what `dump` wrote, or was counted with another counter.
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
        raise GCError(f"the saved session can't be restored: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise GCError(
            "the saved session can't be restored, it is damaged or no saved session: "
            f"{type(error).__name__}: {error}"
        ) from error


def _fill(session: "GCSession", document: Mapping[str, Any]) -> None:
    context, runner = session._context, session._runner
    messages = [message_from_dict(each) for each in document["messages"]]
    budget = InstructionBudget.from_snapshot(document["budget"], session.budget.counter)
    _whole(budget.correction), _whole(budget.context_limit), _whole(budget.collections)
    # What the host can drop depends on the host as it is now.
    budget.collectable_sources = session.budget.collectable_sources
    budget.has_stash = session.budget.has_stash
    context.ledger.budget = budget
    for name in ("turns_opened", "exchanges_opened", "summaries_made"):
        setattr(context.ledger, name, _whole(document["ledger"][name]))
    context.begin_with(_picked(messages, document["history"]))
    found = {message.message_id for message in context.history}
    if len(found) < len(context.history) or None in map(budget.entry_of, found):
        raise GCError("its history and its budget do not agree")
    context.turns = _whole(document["turns"])
    context.repairs = _whole(document["repairs"])
    context.pinned_turns = set(map(_whole, document["pinned_turns"]))
    numbered = _texts(document["numbers"])
    if budget.has_stash and not numbered:  # there was no stash so far
        numbered = [message.message_id for message in context.history]
    context.numbers = {message_id: number for number, message_id in enumerate(numbered)}
    context.reports, context.uncertain_tokens = map(_whole, document["anchor"][:2])
    counted = document["anchor"][2]
    context.counted_at_request = None if counted is None else _whole(counted)
    runner.breaker = _breaker(document["breaker"])
    runner.plans_made = _whole(document["plans_made"])
    runner.waits_for_message = _flag(document["waits_for_message"])
    session._threshold_told, session._threshold_crossed = map(_flag, document["threshold"])
    runner.results = [result_from_dict(each) for each in document["results"]]
    by_id = {result.gc_id: result for result in runner.results}
    for each in document["journal"]:
        runner.journal.add(_entry_from_dict(each, messages, by_id))
    if runner.collector:
        runner.collector.disabled = document["disabled"]
        runner.settle()


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
        raise TypeError(f"{value!r:.80} is no whole number")
    return value


def _texts(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise TypeError(f"{values!r:.80} is no list of texts")
    return values


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{value!r:.80} is neither true nor false")
    return value


class _Pool:
    """Messages by number: one that several lists hold is written once and is one again after."""

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
    change = entry.change
    return {
        "gc_id": entry.gc_id,
        "tokens": entry.tokens,
        "touched": [asdict(booked) for booked in entry.touched],
        "change": change
        and {
            "positions": change.positions,
            "gone": [pool.add(message) for message in change.gone],
            "ids": change.ids,
            "keys": change.keys,
            "come": [pool.add(message) for message in change.come],
            "length": change.length,
            "repairs": change.repairs,
            "reports": change.reports,
        },
    }


def _entry_from_dict(
    data: Mapping[str, Any], messages: list[Message], results: Mapping[str | None, Any]
) -> JournalEntry:
    change = data["change"]
    touched = [
        BookedEntry(
            **{
                **booked,
                "source": InstructionSource(booked["source"]),
                "gc_policy": GCPolicy(booked["gc_policy"]),
            }
        )
        for booked in data["touched"]
    ]
    return JournalEntry(
        results[data["gc_id"]],
        change
        and Change(
            positions=list(map(_whole, change["positions"])),
            gone=_picked(messages, change["gone"]),
            ids=_texts(change["ids"]),
            come=_picked(messages, change["come"]),
            length=_whole(change["length"]),
            repairs=_whole(change["repairs"]),
            reports=_whole(change["reports"]),
            keys=_texts(change["keys"]),
        ),
        touched,
        data["tokens"],
    )


def _options(plugin: GCPlugin) -> dict[str, Any] | None:
    """A strategy's options; ``None`` if they are not known or can't be written down."""
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
        raise GCError(f"the options of {name!r} could not be saved: give it to restore(plugin=…)")
    return registry.create(name, options)


def _culprit(pool: _Pool, error: Exception) -> str:
    for message in pool.messages:
        try:
            json.dumps(message)
        except (TypeError, ValueError, RecursionError):
            return f"message {message['message_id']!r} holds what JSON can't: {error}"
    return str(error)
