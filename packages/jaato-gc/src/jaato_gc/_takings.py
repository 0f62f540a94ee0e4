"""What a collection has taken so far, and the history without it."""

from collections.abc import Sequence

from jaato_gc._messages import Message
from jaato_gc._policies import InstructionSource
from jaato_gc._results import GCRemovalItem, RemovalAction
from jaato_gc._tokens import TokenCounter, count_tokens, message_tokens, recount
from jaato_gc._turns import Group

_CONVERSATION = InstructionSource.CONVERSATION


class Takings:
    """A record of removals, clearings and additions; the history itself is never changed."""

    def __init__(self, history: Sequence[Message], counter: TokenCounter) -> None:
        self._history = history
        self._counter = counter
        # By identity: that way, what stays need not be looked at.
        self.removed_groups: set[int] = set()
        self._removed: set[int] = set()
        self._cleared: dict[str, tuple[Message, str]] = {}
        """The shorter form of a message, by its id, and the key that it is booked under."""
        self._items: dict[str | tuple[InstructionSource, str | None], GCRemovalItem] = {}
        """By their key in the conversation, or by another source and the key there."""
        self._ids: dict[str, list[str]] = {}
        """The messages of each item of the conversation, by its key."""
        self.inserted: dict[int, Message] = {}
        """Messages to stand before those at some positions."""
        self.freed = 0
        self.freed_elsewhere = 0
        """The part of it that was not in the history."""
        self.turns_removed = 0

    @property
    def items(self) -> list[GCRemovalItem]:
        """The removal list: one item per key."""
        return list(self._items.values())

    def includes(self, group: Group) -> bool:
        """Whether a group has been removed."""
        return id(group) in self.removed_groups

    def remove(
        self,
        groups: Sequence[Group],
        key: str,
        reason: str,
        action: RemovalAction,
        *,
        keep: bool = True,
    ) -> None:
        """Take groups away."""
        messages = [message for group in groups for message in group.messages]
        for group in groups:
            self.turns_removed += group.opens_turn
            self.removed_groups.add(id(group))
        if self._cleared:
            for message in messages:
                if message.message_id in self._cleared:
                    self._unclear(message)
        self._removed.update(map(id, messages))
        self._book(messages, key, count_tokens(messages, self._counter), reason, action, keep)

    def clear(
        self, message: Message, smaller: Message, key: str, reason: str, *, keep: bool = True
    ) -> bool:
        """Put a shorter form in the place of a message. False: it is no shorter."""
        gain = self.size(message) - recount(smaller, self.present(message), self._counter)
        if gain <= 0:
            return False
        if message.message_id in self._cleared:
            gain += self._unclear(message)
        self._cleared[message.message_id] = (smaller, key)
        self._book([message], key, gain, reason, "clear", keep)
        return True

    def _unclear(self, message: Message) -> int:
        """Take a shorter form back; returns what it had freed."""
        gain = message_tokens(message, self._counter) - self.size(message)
        key = self._cleared.pop(message.message_id)[1]
        self._ids[key].remove(message.message_id)
        self._items[key].tokens_freed -= gain
        self.freed -= gain
        if not self._ids[key]:
            del self._items[key]
        return gain

    def drop(self, source: InstructionSource, key: str | None, tokens: int, reason: str) -> None:
        """Take something that is not in the history."""
        self._items[source, key] = GCRemovalItem(source, key, tokens, reason)
        self.freed += tokens
        self.freed_elsewhere += tokens

    def insert(self, message: Message, position: int) -> None:
        """Add a message before the one at a position."""
        self.inserted[position] = message
        self.freed -= message_tokens(message, self._counter)

    def withdraw(self, position: int) -> None:
        """Take back the message that was added before a position."""
        self.freed += message_tokens(self.inserted.pop(position), self._counter)

    def size(self, message: Message) -> int:
        """Tokens of a message in its present form."""
        return message_tokens(self.present(message), self._counter)

    def present(self, message: Message) -> Message:
        """A message in its present form."""
        return self._cleared.get(message.message_id, (message,))[0]

    def remaining(self) -> list[Message]:
        """The history without what was taken, and with what was added."""
        removed = self._removed
        if not self._cleared and not self.inserted:
            return [message for message in self._history if id(message) not in removed]
        remaining: list[Message] = []
        for position, message in enumerate(self._history):
            if position in self.inserted:
                remaining.append(self.inserted[position])
            if id(message) not in removed:
                remaining.append(self.present(message))
        return remaining

    def _book(
        self,
        messages: Sequence[Message],
        key: str,
        freed: int,
        reason: str,
        action: RemovalAction,
        keep: bool,
    ) -> None:
        item = self._items.get(key)
        if item is None:
            ids = self._ids[key] = list[str]()
            self._items[key] = item = GCRemovalItem(
                _CONVERSATION, key, 0, reason, ids, action, keep
            )
        elif keep:  # what several share is kept if one of them is to be
            item.keep = True
        self._ids[key] += [message.message_id for message in messages]
        item.tokens_freed += freed
        self.freed += freed
