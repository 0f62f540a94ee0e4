"""The tokens that no collection can be expected to remove, kept up to date."""

from collections.abc import Iterable, Mapping, Sequence

from jaato_gc.budget.entry import SourceEntry
from jaato_gc.commit import Commit
from jaato_gc.policies import GCPolicy, InstructionSource


class FixedTokens:
    """Counts entries that are LOCKED, have only pinned messages, or are sent beside the history.

    Percentages of the window leave room beside them, so the figure is needed before every request.
    """

    __slots__ = ("booked", "pinned")

    def __init__(self, pinned: Iterable[str] = (), booked: int = 0) -> None:
        self.pinned = dict.fromkeys(pinned)
        """The ids of pinned messages, in the order of pinning."""
        self.booked = booked
        """The tokens of all such entries."""

    def copy(self) -> "FixedTokens":
        """Returns the same figures, to be changed on their own."""
        return FixedTokens(self.pinned, self.booked)

    def part(self, entry: SourceEntry) -> int:
        """Returns the own tokens of an entry if it counts, else 0."""
        return _part(entry, self.pinned) if entry._tokens else 0

    def grow(self, commit: Commit, entry: SourceEntry, tokens: int) -> None:
        """Prepares more tokens of an entry, if it counts."""
        self._add(commit, tokens if _counts(entry, self.pinned) else 0)

    def add(self, commit: Commit, entries: Sequence[SourceEntry], pins: Sequence[str]) -> None:
        """Prepares new entries, and pins of their messages."""
        pinned = {**self.pinned, **dict.fromkeys(pins)} if pins else self.pinned
        self._add(commit, sum(_part(entry, pinned) for entry in entries), pins)

    def add_message(
        self, commit: Commit, entry: SourceEntry, message_id: str, tokens: int, pins: Sequence[str]
    ) -> None:
        """Prepares another message of an entry, which may be pinned."""
        is_pinned = bool(pins) or message_id in self.pinned
        is_held = _is_locked(entry) or (is_pinned and _is_pinned(entry._message_ids, self.pinned))
        part = entry._tokens + tokens if is_held else 0
        self._add(commit, part - self.part(entry), pins)

    def _add(self, commit: Commit, tokens: int, pins: Sequence[str] = ()) -> None:
        commit.assign(self, booked=self.booked + tokens)
        if pins:
            commit.then(lambda: self.pinned.update(dict.fromkeys(pins)))

    def replace_pins(
        self, commit: Commit, message_ids: Iterable[str], by_message: Mapping[str, SourceEntry]
    ) -> None:
        """Prepares other pins, for messages whose entries are given."""
        pinned = dict.fromkeys(message_ids)
        changed = map(by_message.get, pinned.keys() ^ self.pinned.keys())
        entries = {id(entry): entry for entry in changed if entry}.values()
        gain = sum(_part(entry, pinned) - self.part(entry) for entry in entries)
        commit.assign(self, pinned=pinned, booked=self.booked + gain)


def _is_locked(entry: SourceEntry) -> bool:
    return entry.binding_policy() is GCPolicy.LOCKED


def _is_pinned(message_ids: Sequence[str], pinned: dict[str, None]) -> bool:
    """Returns whether all messages are pinned: others may go, and the figure must not follow."""
    return all(message_id in pinned for message_id in message_ids)


def _counts(entry: SourceEntry, pinned: dict[str, None]) -> bool:
    if _is_locked(entry):
        return True
    if not entry._message_ids:
        return entry._source is not InstructionSource.CONVERSATION
    return bool(pinned) and _is_pinned(entry._message_ids, pinned)


def _part(entry: SourceEntry, pinned: dict[str, None]) -> int:
    return entry._tokens if _counts(entry, pinned) else 0
