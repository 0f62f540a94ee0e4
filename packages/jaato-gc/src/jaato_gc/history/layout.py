"""Groups and turns: which messages of a history stay or go together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from jaato_gc.history.pairing import Pairing, pair_calls
from jaato_gc.history.places import neighbours_by_id
from jaato_gc.messages import MODEL, SYSTEM, USER, Message, SyntheticKind
from jaato_gc.policies import GCPolicy
from jaato_gc.tokens import count_tokens

_PARTIAL = GCPolicy.PARTIAL
_IN_NO_TURN = (SyntheticKind.NOTICE, SyntheticKind.SUMMARY, SyntheticKind.LEDGER)


class Hold(StrEnum):
    """Why a group may not be removed."""

    LOCKED = "locked"
    """Its policy is LOCKED, which is that of system messages by default."""
    PINNED = "pinned"
    """The host pinned it, or its turn."""
    OPEN_CALL = "open_call"
    """It is a call that waits for its result."""
    NEWEST_USER = "newest_user"
    """It is the newest user message."""
    FIRST_USER = "first_user"
    """It is the request of the first turn of which anything stays."""
    RECENT = "recent"
    """It belongs to the recent turns or to the last calls."""

    @property
    def is_fixed(self) -> bool:
        """Whether the group stays even if the request does not fit otherwise.

        FIRST_USER is fixed only before a fixed group: see `fixed_groups`.
        """
        return self in (Hold.LOCKED, Hold.PINNED, Hold.OPEN_CALL, Hold.NEWEST_USER)


# Named tuples are as read-only as frozen dataclasses and made in a quarter of the time: every
# collection makes a group for almost every message.
class Group(NamedTuple):
    """Messages that stay or go together: a call with all its results, or a single message.

    Parallel calls and their results are one group. So are messages that share one of their
    `bonds`, and the messages of the model that follow its thoughts.

    Attributes:
        messages: The messages, in the order of the history.
        opens_turn: It is a real user message.
        is_outside_turns: It is a LOCKED system message, a notice, a summary or a ledger. They
            belong to no turn.
        is_call: It has a tool call or a result.
        is_open: It is the last call of the history and still waits for a result.
        neighbours: The ids of the messages before and after it, if it keeps its place.
        policy: The strictest policy of its messages, set by `protect`.
        hold: Why it may not be removed, set by `protect`; ``None`` if it may.
    """

    messages: tuple[Message, ...]
    opens_turn: bool = False
    is_outside_turns: bool = False
    is_call: bool = False
    is_open: bool = False
    neighbours: tuple[str, ...] = ()
    policy: GCPolicy = GCPolicy.PARTIAL
    hold: Hold | None = None

    @property
    def is_system(self) -> bool:
        """Whether it is a system message, without results of calls in it."""
        return self.messages[0].role is SYSTEM and len(self.messages) == 1

    @property
    def is_user(self) -> bool:
        """Whether it is a user message, of a person or of a collection."""
        return self.messages[0].role is USER and not self.messages[0].is_tool_output


@dataclass(frozen=True, slots=True)
class Turn:
    """A real user message and everything up to the next one.

    LOCKED system messages, notices, summaries and ledgers belong to no turn. Recalled content
    belongs to the turn in which it was recalled.

    Args:
        index: The number of the turn, from 0. Turn 0 includes messages before the first request.
        groups: The groups in this turn.
    """

    index: int
    groups: tuple[Group, ...] = ()

    @property
    def key(self) -> str:
        """The name of the turn in removal lists."""
        return f"turn_{self.index}"

    @property
    def messages(self) -> Iterator[Message]:
        """The messages of this turn, oldest first."""
        return (message for group in self.groups for message in group.messages)

    @property
    def estimated_tokens(self) -> int:
        """The tokens of this turn, by core's estimate."""
        return count_tokens(self.messages)


@dataclass(frozen=True)
class Layout:
    """The groups and turns of a history.

    Args:
        groups: The groups, oldest first.
    """

    groups: tuple[Group, ...]

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The turns, oldest first."""
        groups = tuple([group for group in self.groups if not group.is_outside_turns])
        starts = turn_starts(groups) if groups else []
        ends = [*starts[1:], len(groups)]
        return tuple(
            [Turn(index, groups[start : ends[index]]) for index, start in enumerate(starts)]
        )


def turn_starts(groups: Sequence[Group]) -> list[int]:
    """Returns the place where each turn starts. Turn 0 includes what precedes its request."""
    requests = [place for place, group in enumerate(groups) if group.opens_turn]
    return [0, *requests[1:]]


def split_into_turns(history: Sequence[Message]) -> list[Turn]:
    """Returns the turns of a history, oldest first."""
    return list(lay_out(history).turns)


def flatten_turns(turns: Iterable[Turn]) -> list[Message]:
    """Returns the messages of some turns. Messages that belong to no turn are not among them."""
    return [message for turn in turns for message in turn.messages]


def get_preserved_indices(
    total_turns: int, preserve_recent: int, pinned_indices: Iterable[int] | None = None
) -> set[int]:
    """Returns the numbers of the turns that stay: the newest ones, and pinned ones."""
    recent = range(max(0, total_turns - max(0, preserve_recent)), total_turns)
    return {*recent, *(index for index in pinned_indices or () if 0 <= index < total_turns)}


def lay_out(history: Sequence[Message]) -> Layout:
    """Finds the groups and turns of a history in one pass. Works for invalid histories too."""
    return Layout(tuple(_group(history, pair_calls(history))))


def _group(history: Sequence[Message], pairing: Pairing) -> list[Group]:
    leaders = _leaders(history, pairing)
    members = {position: [position] for position in pairing.unanswered if position not in leaders}
    for position in sorted(leaders):
        first = leader_of(leaders, position)
        members.setdefault(first, [first]).append(position)
    unanswered, tool_outputs = pairing.unanswered, pairing.expected_callers
    neighbours = neighbours_by_id(history)
    groups: list[Group] = []
    has_begun = False  # the user has spoken
    for position, message in enumerate(history):
        role, synthetic = message.role, message.synthetic
        has_begun = has_begun or role is USER
        if position in leaders:
            continue
        opens_turn = role is USER and synthetic is None and position not in tool_outputs
        together = members.get(position)
        if together is None:
            is_outside = synthetic in _IN_NO_TURN if synthetic else role is SYSTEM
            if is_outside and has_begun and may_go(message):
                is_outside = False
            around = neighbours.get(message.message_id, ()) if message.keeps_place else ()
            groups.append(Group((message,), opens_turn, is_outside, neighbours=around))
            continue
        is_open = any(at in unanswered and at >= pairing.last_exchange for at in together)
        messages = tuple([history[at] for at in together])
        is_call = any(at in pairing.calls or at in pairing.callers for at in together)
        # Calls are in a turn, even those of a system message in an invalid history.
        groups.append(Group(messages, opens_turn, False, is_call, is_open))
    return groups


def may_go(message: Message) -> bool:
    """Returns whether a system message in the middle may be removed: by default it is LOCKED."""
    if message.policy is not None:
        return message.policy is not GCPolicy.LOCKED
    return message.keeps_place


def _leaders(history: Sequence[Message], pairing: Pairing) -> dict[int, int]:
    """Returns an earlier message of its group for every message that is not the first of one.

    This is a union-find: a message may be bound to several others.
    """
    leaders: dict[int, int] = {}
    for position, callers in pairing.callers.items():
        for caller in callers:
            if caller is not None:
                join(leaders, caller, position)
    for earlier, later in _bound(history):
        join(leaders, earlier, later)
    return leaders


def _bound(history: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """Yields the positions of messages that belong together, beside calls and their results."""
    last_with: dict[str, int] = {}
    thoughts: int | None = None  # where the thoughts are that this answer of the model began with
    before = None
    for position, message in enumerate(history):
        for bond in message.bonds:
            if bond in last_with:
                yield last_with[bond], position
            last_with[bond] = position
        role = message.role
        if role is not MODEL:
            thoughts = None
        elif before is not MODEL:
            thoughts = position if any(part.thought is not None for part in message.parts) else None
        elif thoughts is not None:
            yield thoughts, position
        before = role


def join(leaders: dict[int, int], one: int, other: int) -> None:
    """Joins two groups in a union-find. The leader of a group is its first member."""
    one, other = leader_of(leaders, one), leader_of(leaders, other)
    if one != other:
        leaders[max(one, other)] = min(one, other)


def leader_of(leaders: dict[int, int], position: int) -> int:
    """Returns the first member of the group that a place belongs to."""
    while (before := leaders.get(position)) is not None:
        leaders[position] = leaders.get(before, before)  # shortens the path for the next lookup
        position = before
    return position
