"""What of one history is not in another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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
        only_removes: Whether there are none, and what is left stands in its old order.
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
    only_removes: bool = False
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
        come: list[Message] = []
        positions = _left_out(before, after)
        only_removes = positions is not None
        if positions is None:
            kept, had = set(map(id, after)), set(map(id, before))
            positions = [place for place, message in enumerate(before) if id(message) not in kept]
            come = [message for message in after if id(message) not in had]
        gone = [before[position] for position in positions]
        ids = [message.message_id for message in gone]
        return cls(positions, gone, ids, come, only_removes, len(after))

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


def _left_out(before: Sequence[Message], after: Sequence[Message]) -> list[int] | None:
    """Where the messages stand that are left out; ``None``: there is more to it than that."""
    positions: list[int] = []
    place = 0
    try:
        for message in after:
            while before[place] is not message:
                positions.append(place)
                place += 1
            place += 1
    except IndexError:  # one that is new, or not where it was
        return None
    positions.extend(range(place, len(before)))
    return positions


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
