"""Getting back what collections took, from the journal and the stash."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from jaato_gc._change import Change
from jaato_gc._clearing import never_cleared
from jaato_gc._context import Context
from jaato_gc._errors import GCError, StashError, UndoError
from jaato_gc._invariants import check_history
from jaato_gc._journal import Journal
from jaato_gc._messages import Message, Role, SyntheticKind
from jaato_gc._rendering import render
from jaato_gc._stash import Stash, stash_key
from jaato_gc._synthetic import fenced
from jaato_gc._tokens import message_tokens
from jaato_gc._turns import lay_out

Place = Literal["place", "tail"]
"""Where content comes back: where it stood, or behind everything else."""


class Recovery:
    """What was taken from a history, and how it would be with it again."""

    def __init__(self, context: Context, journal: Journal, stash: Stash | None) -> None:
        self._context = context
        self._journal = journal
        self._stash = stash

    def complete(self, change: Change) -> Change:
        """A change with the messages that went, wherever they are kept.

        Raises:
            UndoError: They are not kept, or not as they were.
        """
        if not change.is_stashed:
            return change
        if self._stash is None:
            raise UndoError("its content is in a stash: give that one to the session")
        try:
            gone = self._stash.restore(change.keys)
        except StashError as error:
            raise UndoError(f"its content can't be had from the stash: {error}") from error
        for key, message in zip(change.keys, gone, strict=True):
            if stash_key(message) != key:
                raise UndoError(f"the stash does not hold {key!r} as it was: it was redacted")
        return replace(change, gone=gone)

    def with_restored(
        self, keys: Sequence[str], at: Place
    ) -> tuple[list[Message], list[Message], list[str]]:
        """The history as it is, as it would be with stashed messages, and their ids.

        Raises:
            GCError: There is no stash, or no place for them.
            StashError: The stash does not hold them.
        """
        if self._stash is None:
            raise GCError("there is no stash to restore from: give one to GCSession(stash=…)")
        if not keys:
            raise GCError("there is nothing to restore: name at least one key")
        wanted: dict[str, Message] = {}
        for message in self._stash.restore(keys):
            known = wanted.get(message.message_id, message)
            wanted[message.message_id] = self._fuller(known, message)
        before = list(self._context.history)
        if at == "tail":
            after = [*before, _recalled(wanted.values())]
        else:
            after = self._in_place(before, wanted)
        faults = set(check_history(before))
        for fault in check_history(after):
            if fault not in faults:
                raise GCError(f"it can't be put there: {fault}")
        return before, after, list(wanted)

    def _in_place(self, before: list[Message], wanted: dict[str, Message]) -> list[Message]:
        alive = {message.message_id for message in before}
        numbers = self._context.numbers
        queue: list[tuple[int, Message]] = []
        for exchange in self._exchanges(wanted.keys() - alive):
            number = None
            for mate in exchange:
                number = numbers.get(mate.message_id, number)
                if number is None:
                    raise _no_place(mate.message_id)
                if mate.message_id not in alive:
                    queue.append((number, wanted.get(mate.message_id, mate)))
        queue.sort(key=lambda each: each[0])
        queue.reverse()
        after: list[Message] = []
        for message in before:
            number = numbers.get(message.message_id, -1)  # what a collection added has none
            while queue and queue[-1][0] < number:
                after.append(queue.pop()[1])
            back = wanted.get(message.message_id, message)
            if back is not message and never_cleared(back) != never_cleared(message):
                raise _no_place(message.message_id)  # another one has its id
            after.append(self._fuller(message, back))
        return after + [message for _, message in reversed(queue)]

    def _fuller(self, message: Message, other: Message) -> Message:
        """The larger one of two forms of a message."""
        counter = self._context.budget.counter
        is_larger = message_tokens(other, counter) > message_tokens(message, counter)
        return other if is_larger else message

    def _exchanges(self, message_ids: set[str]) -> Iterator[Sequence[Message]]:
        """Messages that were removed, each with the call or the results that it belongs to."""
        missing = set(message_ids)
        for entry in reversed(self._journal.entries):
            change = entry.change
            if change is None:
                continue
            removed = set(change.ids) - {message.message_id for message in change.come}
            if missing.isdisjoint(removed):
                continue
            gone = [each for each in self.complete(change).gone if each.message_id in removed]
            for group in lay_out(gone).groups:
                names = {message.message_id for message in group.messages}
                if not missing.isdisjoint(names):
                    missing -= names
                    yield group.messages
        if missing:
            raise _no_place(min(missing))


def _no_place(message_id: str) -> GCError:
    return GCError(
        f"message {message_id!r} has no place in this session: restore it with at='tail'"
    )


def _recalled(messages: Iterable[Message]) -> Message:
    return Message.from_text(
        Role.USER,
        fenced(SyntheticKind.RECALL, render(messages)),
        synthetic=SyntheticKind.RECALL,
    )
