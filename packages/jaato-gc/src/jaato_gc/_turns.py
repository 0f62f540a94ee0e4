"""How a history falls into turns, and turns into groups that stay or go together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import compress
from operator import is_, not_
from typing import SupportsIndex, overload

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
    message; what ``stands_apart`` belongs to no turn. ``is_open`` marks the last calls of a history
    that still wait for an answer. ``policy`` (the strongest of its messages') and ``hold`` are set
    by `protect`.
    """

    messages: tuple[Message, ...]
    opens_turn: bool = False
    stands_apart: bool = False
    is_call: bool = False
    is_open: bool = False
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
    groups: Sequence[Group] = ()

    @property
    def key(self) -> str:
        """The turn's name in removal lists."""
        return f"turn_{self.index}"

    @property
    def messages(self) -> Iterator[Message]:
        return (message for group in self.groups for message in group.messages)


class Turns(Sequence[Turn]):
    """The turns of some groups, oldest first, each made when it is asked for: most never are.

    The first has what comes before any user message, too.
    """

    __slots__ = ("_groups", "_starts")

    def __init__(self, groups: Iterable[Group]) -> None:
        self._groups = tuple(groups)
        self._starts = [place for place, group in enumerate(self._groups) if group.opens_turn]
        if self._starts:
            self._starts[0] = 0
        elif not all(group.stands_apart for group in self._groups):
            self._starts.append(0)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Turn]:
        return map(self._make, range(len(self._starts)))

    @overload
    def __getitem__(self, index: SupportsIndex) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> list[Turn]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Turn | list[Turn]:
        chosen = range(len(self._starts))[index]
        if isinstance(chosen, range):
            return [self._make(each) for each in chosen]
        return self._make(chosen)

    def _make(self, index: int) -> Turn:
        end = self._starts[index + 1] if index + 1 < len(self._starts) else None
        groups = self._groups[self._starts[index] : end]
        return Turn(index, [group for group in groups if not group.stands_apart])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class Layout:
    """A history seen as groups and turns.

    ``is_settled`` says that no call in it lacks its result, and ``protected_under`` are the
    configuration and the budget that holds were set under, if any.
    """

    groups: list[Group]
    turns: Sequence[Turn]
    is_settled: bool = True
    protected_under: tuple[object, object] | None = None


class LaidOutHistory(list[Message]):
    """A history with its layout, for somebody who will want to know: it takes long to work out."""

    def __init__(self, history: Sequence[Message], layout: Layout) -> None:
        super().__init__(history)
        self._history, self._layout = history, layout

    @property
    def layout(self) -> Layout | None:
        """The layout, with a list of your own, unless this list has been changed."""
        if len(self) != len(self._history) or not all(map(is_, self, self._history)):
            return None
        known = self._layout
        return replace(known, groups=list(known.groups))

    def __reduce__(self) -> tuple[type[list[Message]], tuple[list[Message]]]:
        return list, (list(self),)  # to another process goes a plain list


def split_into_turns(history: Sequence[Message]) -> list[Turn]:
    """The turns of a history, oldest first."""
    return list(lay_out(history).turns)


def lay_out(history: Sequence[Message]) -> Layout:
    """Find groups and turns in one pass. Linear, also for histories that are not valid."""
    if isinstance(history, LaidOutHistory) and (known := history.layout):
        return known
    pairing = pair_calls(history)
    groups = _group(history, pairing)
    return Layout(groups, Turns(groups), is_settled=not pairing.unanswered)


def lay_out_more(known: Sequence[Group], more: Sequence[Message], carrying: bytes) -> Layout:
    """`lay_out` of a history that began with some groups, and goes on in plain order.

    Args:
        known: The groups; no call in them waits for a result.
        more: The messages behind them.
        carrying: For each of these, a 1 if it carries results of the last calls before it.
    """
    groups = [*known]
    results: list[Message] = []
    for message, carries_results in zip(more, carrying, strict=True):
        if carries_results:
            results.append(message)
            continue
        if results:
            _join(groups[-1], results)
            results = []
        groups.append(_alone(message, carries_results=False))
    if results:
        _join(groups[-1], results)
    return Layout(groups, Turns(groups))


def which_stay(groups: Sequence[Group], gone: Iterable[Message]) -> list[bool] | None:
    """For each group, whether it stays if some messages go. ``None``: they are no whole groups."""
    messages = set(map(id, gone))
    goes = [id(group.messages[0]) in messages for group in groups]
    going = {id(message) for group in compress(groups, goes) for message in group.messages}
    return list(map(not_, goes)) if going == messages else None


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
            groups[position] = group = _alone(head, position in carry_results)
            if position in followers:
                _join(group, followers[position])
    for position in pairing.unanswered:
        group = groups[find(position)]
        group.is_call = True
        group.is_open |= position >= pairing.last_exchange
    return list(groups.values())


def _alone(message: Message, carries_results: bool) -> Group:
    synthetic = message.synthetic
    opens_turn = message.role is USER and synthetic is None and not carries_results
    stands_apart = message.role is SYSTEM or (synthetic is not None and synthetic in _IN_NO_TURN)
    return Group((message,), opens_turn, stands_apart)


def _join(group: Group, results: Iterable[Message]) -> None:
    group.messages += tuple(results)
    group.is_call = True
