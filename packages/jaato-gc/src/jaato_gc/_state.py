"""A session as JSON, and back: the restored one behaves as the saved one would have."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jaato_gc._breaker import Breaker
from jaato_gc._budget import InstructionBudget
from jaato_gc._codec import message_from_dict, message_to_dict, result_from_dict, result_to_dict
from jaato_gc._config import GCConfig
from jaato_gc._errors import GCError
from jaato_gc._journal import Change, JournalEntry
from jaato_gc._ledger import BookedEntry
from jaato_gc._messages import Message
from jaato_gc._policies import GCPolicy, InstructionSource
from jaato_gc._registry import PluginRegistry
from jaato_gc._strategy import GCPlugin

if TYPE_CHECKING:
    from jaato_gc._session import GCSession

FORMAT = 1


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
            "pinned_turns": sorted(context.pinned_turns),
            "anchor": [
                context.is_anchored,
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
            "results": [result_to_dict(result) for result in runner.results],
            "journal": [_entry_to_dict(entry, pool) for entry in runner.journal.entries],
            "messages": pool.messages,
        }
    try:
        return json.dumps(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise GCError(f"the session can't be saved as JSON: {_culprit(pool, error)}") from error


def load(session: "GCSession", saved: str, plugin: GCPlugin | None) -> None:
    """Put a saved state into a session that was just made.

    Args:
        session: The session.
        saved: What `dump` wrote.
        plugin: The strategy; ``None``: made anew from its saved name and options.

    Raises:
        GCError: It is not what `dump` wrote, or was counted with another counter.
    """
    try:
        document = json.loads(saved)
        if document["format"] != FORMAT:
            raise GCError(f"it has format {document['format']}, and this version reads {FORMAT}")
        counter = session.budget.counter
        if document["counter"] != counter.name:
            raise GCError(
                f"it was counted with {document['counter']!r}: give that counter, "
                f"not {counter.name!r}"
            )
        plugin = plugin or _strategy(document, session.registry)
        if plugin is not None:
            session.set_gc_plugin(plugin, GCConfig(**document["config"]))
        _fill(session, document)
    except GCError as error:
        raise GCError(f"the saved session can't be restored: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise GCError(
            "the saved session can't be restored, it is damaged or no saved session: "
            f"{type(error).__name__}: {error}"
        ) from error


def _fill(session: "GCSession", document: Mapping[str, Any]) -> None:
    context, runner = session._context, session._runner
    messages = [message_from_dict(each) for each in document["messages"]]
    context.ledger.budget = InstructionBudget.from_snapshot(
        document["budget"], session.budget.counter
    )
    for name, value in document["ledger"].items():
        setattr(context.ledger, name, int(value))
    context.history = [messages[index] for index in document["history"]]
    context.turns = document["turns"]
    context.pinned_turns = set(document["pinned_turns"])
    context.is_anchored, context.uncertain_tokens, context.counted_at_request = document["anchor"]
    runner.breaker = Breaker(**document["breaker"])
    runner.plans_made = document["plans_made"]
    runner.waits_for_message = document["waits_for_message"]
    runner.results = [result_from_dict(each) for each in document["results"]]
    by_id = {result.gc_id: result for result in runner.results}
    for each in document["journal"]:
        runner.journal.add(_entry_from_dict(each, messages, by_id))
    if runner.collector:
        runner.collector.disabled = document["disabled"]
        runner.settle()


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
            "come": [pool.add(message) for message in change.come],
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
            change["positions"],
            [messages[index] for index in change["gone"]],
            [messages[index] for index in change["come"]],
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
