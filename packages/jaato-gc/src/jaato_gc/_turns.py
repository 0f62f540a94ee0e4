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
    message, and ``is_open`` marks the last calls of a history that still wait for an answer.
    ``policy`` (the strongest of its messages') and ``hold`` are set by `protect`.
    """

    messages: tuple[Message, ...]
    opens_turn: bool = False
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


def lay_out(history: Sequence[Message]) -> Layout:
    """Find groups and turns in one pass. Linear, also for histories that are not valid."""
    if isinstance(history, LaidOutHistory) and (known := history.layout):
        return known
    pairing = pair_calls(history)
    groups = _group(history, pairing)
    return Layout(groups, _with_turns_of(groups, []), is_settled=not pairing.unanswered)


def without(layout: Layout, gone: Iterable[Message]) -> Layout | None:
    """A layout less some messages; the old one is used up. ``None``: they are no whole groups."""
    messages = set(map(id, gone))
    torn_out = [group for group in layout.groups if id(group.messages[0]) in messages]
    if messages != {id(message) for group in torn_out for message in group.messages}:
        return None
    removed = set(map(id, torn_out))
    groups = [group for group in layout.groups if id(group) not in removed]
    turns: list[Turn] = []
    for turn in layout.turns:
        if not removed.isdisjoint(map(id, turn.groups)):
            turn.groups = tuple(group for group in turn.groups if id(group) not in removed)
            if not turn.groups:
                continue
            if not turn.groups[0].opens_turn:  # what is left of it belongs to another turn
                return Layout(groups, _with_turns_of(groups, []), layout.is_settled)
        turn.index = len(turns)
        turns.append(turn)
    return Layout(groups, turns, layout.is_settled)


def extended(layout: Layout, more: Sequence[Message]) -> Layout:
    """A settled layout and what came behind it; the old one is used up.

    Since no call waits for a result, nothing of that belongs to a group from before.
    """
    pairing = pair_calls(more)
    groups = _group(more, pairing)
    turns = _with_turns_of(groups, layout.turns)
    return Layout(layout.groups + groups, turns, is_settled=not pairing.unanswered)


def _with_turns_of(groups: Iterable[Group], turns: list[Turn]) -> list[Turn]:
    """Turns, and what follows them; the first has what comes before any user message, too."""
    user_has_spoken = bool(turns) and any(group.opens_turn for group in turns[0].groups)
    current = list(turns[-1].groups) if turns else []
    for group in groups:
        opens = group.opens_turn
        if not opens:
            first = group.messages[0]
            if first.role is SYSTEM or first.synthetic in _IN_NO_TURN:
                continue
        if not turns or (opens and user_has_spoken):
            if turns:
                turns[-1].groups = tuple(current)
            turns.append(Turn(len(turns)))
            current = []
        user_has_spoken = user_has_spoken or opens
        current.append(group)
    if turns:
        turns[-1].groups = tuple(current)
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
                first, second = sorted((find(position), find(caller)))
                if first != second:
                    leader[second] = first

    members: dict[int, list[Message]] = {}
    for position, message in enumerate(history):
        if position in leader:
            members[find(position)].append(message)
        else:
            members[position] = [message]
    groups: dict[int, Group] = {}
    for position, messages in members.items():
        head = messages[0]
        # What carries results has an exchange that it belongs to.
        opens_turn = (
            head.role is USER and head.synthetic is None and position not in pairing.exchange_starts
        )
        groups[position] = Group(tuple(messages), opens_turn, is_call=len(messages) > 1)
    for position in pairing.unanswered:
        group = groups[find(position)]
        group.is_call = True
        group.is_open |= position >= pairing.last_exchange
    return list(groups.values())
