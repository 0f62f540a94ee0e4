"""The edits of one collection so far, and what they free."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jaato_gc.history import Edit, EditAction, Group, SourceRemoval
from jaato_gc.messages import Message
from jaato_gc.policies import InstructionSource
from jaato_gc.tokens import TokenCounter, message_tokens, recount


class Item(NamedTuple):
    """One entry of the removal list so far.

    Args:
        key: The key in the removal list.
        reason: The reason in it.
        action: What happens to the content.
    """

    key: str | None
    reason: str
    action: EditAction


class EditLog:
    """Records removals, shortened forms and insertions. The history itself is never changed.

    Args:
        history: The history.
        counter: Counts the tokens.
    """

    def __init__(self, history: Sequence[Message], counter: TokenCounter) -> None:
        self._counter = counter
        self._positions = {message.message_id: at for at, message in enumerate(history)}
        # Only the newest change of a message is kept, in the order in which they were made.
        # An insertion has a key of its own: a returned history may have moved a message.
        self._changes: dict[
            str | tuple[InstructionSource | None, str | None], Edit | SourceRemoval
        ] = {}
        self.removed_groups: set[int] = set()
        self.reasons: dict[str | None, str] = {}
        """The reasons of removals, by key."""
        self.ledger_tokens = 0
        """The size of the ledger that is left at the end; 0: none."""
        self.freed = 0
        self.turns_removed = 0
        self.turns_summarized = 0
        self.is_closed = False
        self.recall_keys: dict[str, str] = {}
        """The stash keys of shortened messages, by message id: making one takes long."""

    @property
    def changes(self) -> list[Edit | SourceRemoval]:
        """All changes, in the order in which they were made."""
        return list(self._changes.values())

    @property
    def items(self) -> list[Item]:
        """The removal list so far, one item per key."""
        found: dict[object, Item] = {}
        for change in self._changes.values():
            if isinstance(change, SourceRemoval):
                key: object = (change.source, change.child_key)
                found.setdefault(key, Item(change.child_key, change.reason, "remove"))
            elif change.before is not None:
                found.setdefault(change.key, Item(change.key, change.reason, change.action))
        return list(found.values())

    def position(self, message: Message) -> int:
        """Returns the position of a message in the history."""
        return self._positions[message.message_id]

    def is_removed(self, group: Group) -> bool:
        """Returns whether a group was removed."""
        return id(group) in self.removed_groups

    def current(self, message: Message) -> Message:
        """Returns the current form of a message."""
        edit = self._changes.get(message.message_id)
        return edit.after if isinstance(edit, Edit) and edit.after else message

    def remove(self, group: Group, key: str, reason: str, action: EditAction, keep: bool) -> None:
        """Removes a group."""
        self.removed_groups.add(id(group))
        self.reasons.setdefault(key, reason)
        self.turns_removed += group.opens_turn
        self.turns_summarized += group.opens_turn and action == "summarize"
        for message in group.messages:
            message_id = message.message_id
            earlier = self._changes.pop(message_id, None)  # the removal counts as the newest change
            current = earlier.after if isinstance(earlier, Edit) else None
            self.freed += message_tokens(current or message, self._counter)
            position = self._positions[message_id]
            self._changes[message_id] = Edit(position, message, None, key, reason, action, keep)

    def shorten(
        self, message: Message, shorter: Message, key: str, reason: str, keep: bool
    ) -> None:
        """Replaces a message by a shorter form, if that has fewer tokens."""
        current, counter = self.current(message), self._counter
        gain = message_tokens(current, counter) - recount(shorter, current, counter)
        if gain > 0:
            self.freed += gain
            self._put(Edit(self.position(message), message, shorter, key, reason, "shorten", keep))

    def adopt(self, changes: Iterable[Edit | SourceRemoval], groups: Iterable[Group]) -> None:
        """Records changes that were made elsewhere."""
        for change in changes:
            if isinstance(change, SourceRemoval):
                self.remove_source(change)
                continue
            before, after = change.before, change.after
            self.freed += message_tokens(self.current(before), self._counter) if before else 0
            self.freed -= message_tokens(after, self._counter) if after else 0
            self._put(change)
            self.reasons.setdefault(change.key, change.reason)
        gone = {
            key: change.action
            for key, change in self._changes.items()
            if isinstance(change, Edit) and change.after is None
        }
        for group in groups:
            actions = [gone[each.message_id] for each in group.messages if each.message_id in gone]
            if actions:
                self.removed_groups.add(id(group))
                self.turns_removed += group.opens_turn
                self.turns_summarized += group.opens_turn and "summarize" in actions

    def insert(self, message: Message, position: int) -> None:
        """Inserts a message before the one at a position."""
        self.freed -= message_tokens(message, self._counter)
        self._put(Edit(position, None, message))

    def withdraw(self, inserted: Message) -> None:
        """Takes back the insertion of a message."""
        edit = self._changes.pop((None, inserted.message_id))
        if isinstance(edit, Edit) and edit.after:
            self.freed += message_tokens(edit.after, self._counter)

    def ledger_cost(self, earlier: Message | None, ledger: Message) -> int:
        """Returns the tokens of a ledger beyond those of the earlier one that it replaces."""
        cost = message_tokens(ledger, self._counter)
        if earlier and earlier.message_id not in self._changes:  # else the strategy removed it
            cost -= message_tokens(earlier, self._counter)
        return cost

    def put_ledger(self, earlier: Message | None, ledger: Message, position: int) -> None:
        """Inserts a ledger, or replaces the earlier one where it stands."""
        if earlier is None:
            self.insert(ledger, position)
            return
        self.freed -= self.ledger_cost(earlier, ledger)
        self._put(Edit(self.position(earlier), earlier, ledger))

    def remove_source(self, removal: SourceRemoval) -> None:
        """Removes something that is not in the history, once."""
        if (removal.source, removal.child_key) not in self._changes:
            self._changes[removal.source, removal.child_key] = removal
            self.freed += removal.tokens

    def _put(self, edit: Edit) -> None:
        key = edit.message_id if edit.before else (None, edit.message_id)
        self._changes.pop(key, None)  # so that it counts as the newest change
        self._changes[key] = edit

    @property
    def insertions(self) -> Mapping[int, Message]:
        """The inserted messages by position."""
        return {
            each.position: each.after
            for each in self._changes.values()
            if isinstance(each, Edit) and each.before is None and each.after is not None
        }
