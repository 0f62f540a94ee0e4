"""What strategies see of a budget: a session's, or a host's own."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from jaato_gc.budget.budget import InstructionBudget
from jaato_gc.budget.entry import SourceEntry
from jaato_gc.errors import ReadOnlyError
from jaato_gc.history import split_into_turns
from jaato_gc.messages import Message, SyntheticKind
from jaato_gc.policies import InstructionSource
from jaato_gc.tokens import FrameCosts, TokenCounter, count_tokens, message_tokens

SUMMARY_KEY = "gc_summary"
"""How the keys begin under which hosts book summaries."""

_number = itertools.count(1)


class ReadOnlyBudget(InstructionBudget):
    """A view of a budget for strategies: all figures, and methods that change it raise.

    It shares the entries of the budget, so making one is O(pins).
    """

    def __init__(self, budget: InstructionBudget) -> None:
        self.__dict__.update(
            vars(budget),
            _tree=budget._tree.view(),
            collectable_sources=frozenset(budget.collectable_sources),
        )

    def __setattr__(self, name: str, _value: Any) -> NoReturn:
        raise ReadOnlyError(f"a strategy can't set {name}: the session changes the budget")

    def __delattr__(self, name: str) -> NoReturn:
        raise ReadOnlyError(f"a strategy can't delete {name}: the session changes the budget")

    def _refuse(self, *_arguments: Any, **_named: Any) -> NoReturn:
        raise ReadOnlyError("a strategy can't change the budget: the session does")

    set_entry = update_tokens = add_child = remove_child = _refuse
    remove_messages = clear_source = forget_collection = _refuse
    restore_conversation_from_snapshot = replace_entries = replace_pins = _refuse


class HostBudget(ReadOnlyBudget):
    """A view of a host's own budget for strategies. What it says is believed.

    Messages count what their entries say, not what a counter would. A message that no entry names
    belongs to the entry of its turn (``turn_3``) or, as a summary, to one that was booked for
    summaries (``gc_summary_2``), if that names no messages, and else to CONVERSATION itself.

    Args:
        budget: The host's budget.
        history: The history that it describes.
    """

    def __init__(self, budget: InstructionBudget, history: Sequence[Message]) -> None:
        super().__init__(budget)
        entries = dict(_entries_of_messages(budget, history))
        named = {message_id: entry for message_id, entry in entries.items() if entry}
        counter = HostCounter(budget.counter, _rates(history, entries, budget.counter))
        self.__dict__.update(counter=counter)
        self._tree.by_message = budget._tree.by_message | named


def view_of(budget: InstructionBudget, history: Sequence[Message]) -> ReadOnlyBudget:
    """Returns the view of a budget for a strategy that is called without a session."""
    return ReadOnlyBudget(budget) if budget.is_booked else HostBudget(budget, history)


class HostCounter:
    """Counts messages as the host's budget does, and everything else as another counter does.

    Args:
        counter: The other counter.
        rates: The host's figures, relative to those of that counter, by message id.
    """

    tolerance = 0.0

    def __init__(self, counter: TokenCounter, rates: dict[str, float]) -> None:
        self.name = f"{counter.name} by host {next(_number)}"
        self.confidence = counter.confidence
        self.count_text = counter.count_text
        self.costs = replace(getattr(counter, "costs", FrameCosts()), rates=rates)


def _entries_of_messages(
    budget: InstructionBudget, history: Sequence[Message]
) -> Iterable[tuple[str, SourceEntry | None]]:
    conversation = budget.get_entry(InstructionSource.CONVERSATION)
    for message in history:
        yield message.message_id, budget.entry_of(message.message_id) or conversation
    for turn in split_into_turns(history):
        entry = budget.get_child(InstructionSource.CONVERSATION, turn.key)
        if entry is not None and not any(below.message_ids for below in entry.walk()):
            for message in turn.messages:
                if budget.entry_of(message.message_id) is None:
                    yield message.message_id, entry
    yield from _entries_of_summaries(budget, history)


def _entries_of_summaries(
    budget: InstructionBudget, history: Sequence[Message]
) -> Iterable[tuple[str, SourceEntry]]:
    """Yields the entries of summaries. A host books all summaries of one collection as one."""
    conversation = budget.get_entry(InstructionSource.CONVERSATION)
    summaries = (
        message
        for message in history
        if message.synthetic is SyntheticKind.SUMMARY
        if budget.entry_of(message.message_id) is None
    )
    for key, entry in conversation.children.items() if conversation else ():
        left = entry.tokens if key.startswith(SUMMARY_KEY) and not entry.message_ids else 0
        while left > 0 and (summary := next(summaries, None)):
            yield summary.message_id, entry
            left -= message_tokens(summary, budget.counter)


def _rates(
    history: Sequence[Message], entries: dict[str, SourceEntry | None], counter: TokenCounter
) -> dict[str, float]:
    """Returns the factors that make the messages of an entry add up to its tokens.

    If CONVERSATION has no tokens for messages that no entry names, the counter decides.
    """
    messages: dict[int, list[Message]] = {}
    by_id = {id(entry): entry for entry in entries.values() if entry}
    for message in history:
        messages.setdefault(id(entries[message.message_id]), []).append(message)
    rates: dict[str, float] = {}
    for number, entry in by_id.items():
        counted = count_tokens(messages[number], counter)
        given, done, total = 0, 0, _tokens(entry)
        is_counted = total or entry.key is not None
        for message in messages[number] if is_counted and counted else ():
            tokens = message_tokens(message, counter)
            done += tokens
            share = total * done // counted - given  # so that all shares add up
            given += share
            rates[message.message_id] = share / tokens if tokens else 1.0
    return rates


def _tokens(entry: SourceEntry) -> int:
    """Returns the tokens of the messages that are directly under an entry."""
    return entry.tokens if entry.message_ids or entry.key is None else entry.total_tokens()
