"""What of one history is not in another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import is_

from jaato_gc._errors import UndoError
from jaato_gc._messages import Message


@dataclass(slots=True)
class Change:
    """The difference between two histories, enough to go back.

    Args:
        positions: Where, in the history before, each message stood that went or was replaced.
        gone: Those messages.
        ids: Their ids.
        come: Messages that stand in the history after and not in the one before.
        length: How long the history after is.
        repairs: How often that part of the history had been mended until then.
        reports: How often the provider had reported its own figure until then.
        keys: What the messages that went are kept under in a stash, if all of them are: then they
            need not be held here.
    """

    positions: list[int] = field(default_factory=list)
    gone: list[Message] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    come: list[Message] = field(default_factory=list)
    length: int = 0
    repairs: int = 0
    reports: int = 0
    keys: list[str] = field(default_factory=list)

    @property
    def is_stashed(self) -> bool:
        """Whether the messages that went are only in the stash any more."""
        return bool(self.keys) and not self.gone

    @classmethod
    def between(cls, before: Sequence[Message], after: Sequence[Message]) -> "Change":
        kept, had = set(map(id, after)), set(map(id, before))
        positions = [place for place, message in enumerate(before) if id(message) not in kept]
        gone = [before[position] for position in positions]
        return cls(
            positions,
            gone,
            [message.message_id for message in gone],
            [message for message in after if id(message) not in had],
            len(after),
        )

    def only_removes(self, before: Sequence[Message], after: Sequence[Message]) -> bool:
        """Whether nothing came, and what is left stands in its old order."""
        left: list[Message] = []
        start = 0
        for position in self.positions:
            left += before[start:position]
            start = position + 1
        left += before[start:]
        return len(left) == len(after) and all(map(is_, left, after))

    def revert(self, history: Sequence[Message]) -> list[Message]:
        """The history before, from the one after and whatever was appended to it.

        Raises:
            UndoError: They do not belong together.
        """
        came = {message.message_id for message in self.come}
        kept = [message for message in history if message.message_id not in came]
        gone = dict(zip(self.positions, self.gone, strict=True))
        restored = list(_merge(iter(kept), gone))
        if len(restored) != len(kept) + len(gone):
            raise UndoError("what it took does not fit into the history")
        return restored


def _merge(kept: Iterator[Message], gone: dict[int, Message]) -> Iterator[Message]:
    position = 0
    for message in kept:
        while position in gone:
            yield gone[position]
            position += 1
        yield message
        position += 1
    while position in gone:
        yield gone[position]
        position += 1
