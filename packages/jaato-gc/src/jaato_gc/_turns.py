"""How a history falls into turns, and turns into groups that stay or go together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import is_

from jaato_gc._messages import SYSTEM, USER, Message, SyntheticKind
from jaato_gc._pairing import Pairing, pair_calls
from jaato_gc._policies import GCPolicy

_IN_NO_TURN = frozenset((SyntheticKind.NOTICE, SyntheticKind.SUMMARY))


class Hold(StrEnum):
    """Why a group may not be removed."""

    LOCKED = "locked"
    PINNED = "pinned"
    OPEN_CALL = "open_call"
    RECENT = "recent"
    FIRST_USER = "first_user"


@dataclass(slots=True)
class Group:
    """Messages that stay or go together: a call with all its results, or a single message.

    Parallel calls and their results are one group. ``opens_turn`` says that this is a real user
    message, and ``is_open`` marks the last calls of a history that still wait for an answer. What
    ``stands_apart`` belongs to no turn. ``policy`` (the strongest of its messages') and ``hold``
    are set by `protect`.
    """

    messages: tuple[Message, ...]
    opens_turn: bool = False
    is_call: bool = False
    is_open: bool = False
    stands_apart: bool = False
    policy: GCPolicy = GCPolicy.PARTIAL
    hold: Hold | None = None


@dataclass(slots=True)
class Turn:
    """A real user message and everything up to the next one.

    ``index`` counts from 0 over real user messages. What stands before the first of them belongs to
    turn 0. System messages, notices and summaries belong to no turn; recalled content belongs to
    the one that it was recalled in.
    """

    index: int
    groups: tuple[Group, ...] = ()

    @property
    def key(self) -> str:
        """The turn's name in removal lists."""
        return f"turn_{self.index}"

    @property
    def messages(self) -> Iterator[Message]:
        return (message for group in self.groups for message in group.messages)


@dataclass(slots=True)
class Layout:
    """A history seen as groups and turns.

    ``is_settled`` says that no call in it lacks its result, and ``protected_under`` are the
    configuration and the budget that holds were set under, if any.
    """

    groups: list[Group]
    turns: list[Turn]
    is_settled: bool = True
    protected_under: tuple[object, object] | None = None


class LaidOutHistory(list[Message]):
    """A history with its layout, for somebody who will want to know: it takes long to work out."""

    def __init__(self, history: Sequence[Message], layout: Layout) -> None:
        super().__init__(history)
        self._history, self._layout = history, layout

    @property
    def layout(self) -> Layout | None:
        """The layout, in lists of your own, unless this list has been changed."""
        if len(self) != len(self._history) or not all(map(is_, self, self._history)):
            return None
        known = self._layout
        return replace(known, groups=list(known.groups), turns=list(known.turns))

    def __reduce__(self) -> tuple[type[list[Message]], tuple[list[Message]]]:
        return list, (list(self),)  # to another process goes a plain list


def split_into_turns(history: Sequence[Message]) -> list[Turn]:
    """The turns of a history, oldest first."""
    return lay_out(history).turns


def lay_out(history: Sequence[Message], known: Sequence[Group] = ()) -> Layout:
    """Find groups and turns in one pass. Linear, also for histories that are not valid.

    Args:
        history: The messages.
        known: Groups that stand before them, if no call in those waits for a result.
    """
    if not known and isinstance(history, LaidOutHistory) and (layout := history.layout):
        return layout
    pairing = pair_calls(history)
    groups = [*known, *_group(history, pairing)]
    return Layout(groups, _turns_of(groups), is_settled=not pairing.unanswered)


def groups_without(layout: Layout, gone: Iterable[Message]) -> list[Group] | None:
    """The groups of a layout less some messages. ``None``: these are no whole groups."""
    messages = set(map(id, gone))
    left: list[Group] = []
    whole = 0
    for group in layout.groups:
        if id(group.messages[0]) not in messages:
            left.append(group)
        elif messages.issuperset(map(id, group.messages)):
            whole += len(group.messages)
    return left if whole == len(messages) else None


def _turns_of(groups: Iterable[Group]) -> list[Turn]:
    """The turns of groups; the first has what comes before any user message, too."""
    turns: list[Turn] = []
    current: list[Group] = []
    user_has_spoken = False
    for group in groups:
        if group.opens_turn:
            if user_has_spoken:
                turns.append(Turn(len(turns), tuple(current)))
                current = []
            user_has_spoken = True
        elif group.stands_apart:
            continue
        current.append(group)
    if current:
        turns.append(Turn(len(turns), tuple(current)))
    return turns


def _group(history: Sequence[Message], pairing: Pairing) -> list[Group]:
    leader: dict[int, int] = {}
    """For messages that do not stand first in their group: one of it that stands before them."""

    def find(position: int) -> int:
        while (before := leader.get(position)) is not None:
            leader[position] = leader.get(before, before)  # halves the way for the next one
            position = before
        return position

    # Union-find, because one message may answer the calls of several where a history is not valid.
    for position, callers in pairing.callers.items():
        for caller in callers:
            if caller is not None:
                first = find(caller) if caller in leader else caller
                second = find(position) if position in leader else position
                if first > second:
                    first, second = second, first
                if first != second:
                    leader[second] = first

    followers: dict[int, list[Message]] = {}
    for position in sorted(leader):
        followers.setdefault(find(position), []).append(history[position])
    groups: dict[int, Group] = {}
    carry_results = pairing.exchange_starts
    for position, head in enumerate(history):
        if position not in leader:
            rest = followers.get(position)
            group = Group((head, *rest), is_call=True) if rest else Group((head,))
            if head.role is SYSTEM or (head.synthetic and head.synthetic in _IN_NO_TURN):
                group.stands_apart = True
            elif head.role is USER and not head.synthetic:
                group.opens_turn = position not in carry_results
            groups[position] = group
    for position in pairing.unanswered:
        group = groups[find(position)]
        group.is_call = True
        group.is_open |= position >= pairing.last_exchange
    return list(groups.values())
