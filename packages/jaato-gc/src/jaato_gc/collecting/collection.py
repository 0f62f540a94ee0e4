"""A collection as a strategy sees it: what it can read, and the requests it can make."""

import operator
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jaato_gc.budget import InstructionBudget, SourceEntry
from jaato_gc.collecting.draft import Draft, RemovalSoFar, RemovalUnit, include_request
from jaato_gc.collecting.identical_results import shorten_identical
from jaato_gc.collecting.ledger import reserve_ledger
from jaato_gc.collecting.plan_request import PlanRequest
from jaato_gc.collecting.repeated_lines import find_repetitions
from jaato_gc.collecting.results import GCTriggerReason
from jaato_gc.collecting.shortening import (
    STUB_ONLY,
    Shortening,
    shortened,
    with_shorter_values,
)
from jaato_gc.collecting.triggers import ContextUsage, Goal
from jaato_gc.config import GCConfig
from jaato_gc.errors import ReadOnlyError
from jaato_gc.history import ACTIONS, KEEPING, Group, RemovingAction, SourceRemoval, Turn
from jaato_gc.messages import Message, SyntheticKind, plain_id, plain_message, plain_text
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.tokens import TokenCounter, count_tokens


class Collection:
    """A collection in progress.

    `GCStrategy.select` gets one and asks for removals and shorter forms until `needs_more` is
    false:

        def select(self, collection):
            collection.remove_oldest(collection.turns, "truncated")

    Protected groups can't be removed: requests for them are ignored. Everything here is read-only
    except `details`. After ``select`` the collection is closed, and further requests raise.
    """

    __slots__ = ("__weakref__", "_draft")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    @classmethod
    def of(
        cls,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> "Collection":
        """Returns a collection of its own, to try `GCStrategy.select` on: nothing is applied."""
        draft = Draft(PlanRequest("", history, context_usage, config, reason, budget))
        draft.is_open = True
        return cls(draft)

    # --- reading ---

    @property
    def history(self) -> Sequence[Message]:
        """The history."""
        return self._draft.history

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns, oldest first."""
        return self._draft.turns

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, oldest first, including those outside of turns."""
        return self._draft.groups

    @property
    def config(self) -> GCConfig:
        """The effective configuration."""
        return self._draft.config

    @property
    def reason(self) -> GCTriggerReason:
        """Why the collection runs."""
        return self._draft.reason

    @property
    def goal(self) -> Goal:
        """How much the collection has to free."""
        return self._draft.goal

    @property
    def budget(self) -> InstructionBudget | None:
        """The budget, read-only; ``None`` if there is none."""
        return self._draft.budget

    @property
    def counter(self) -> TokenCounter:
        """The counter for all token figures."""
        return self._draft.counter

    @property
    def details(self) -> dict[str, Any]:
        """Figures that the strategy adds to the result."""
        return self._draft.details

    @property
    def items(self) -> list[RemovalSoFar]:
        """The removal list so far, one item per key."""
        return self._draft.removals

    @property
    def needs_more(self) -> bool:
        """Whether the goal is not reached yet."""
        return self._draft.needs_more

    @property
    def tokens_missing(self) -> int:
        """The tokens still to free; 0 or less if the goal is reached or not in tokens."""
        return self._draft.tokens_missing

    @property
    def tokens_freed(self) -> int:
        """The tokens freed so far, less those of inserted messages."""
        return self._draft.freed

    @property
    def turns_removed(self) -> int:
        """The number of turns whose user message was removed so far."""
        return self._draft.turns_removed

    @property
    def under_pressure(self) -> bool:
        """Whether PRESERVABLE content may be removed: a refused request, or a full window."""
        return self._draft.under_pressure

    def may_remove(self, group: Group) -> bool:
        """Returns whether a group may be removed and is still there."""
        if not self._draft.is_free(group):
            return False
        if not group.is_outside_turns:
            return True
        # A notice is never collected: the next one replaces it.
        kind = group.messages[0].synthetic
        is_kept = kind is SyntheticKind.LEDGER and not self.under_pressure
        return not is_kept and kind is not SyntheticKind.NOTICE

    def may_shorten(self, group: Group) -> bool:
        """Returns whether results and arguments of a group may be shortened."""
        return self._draft.is_free(group) and id(group) not in self._draft.copied

    def is_recent(self, turn: Turn) -> bool:
        """Returns whether a turn is recent: the running turn always is."""
        return self._draft.is_recent(turn)

    def key_of(self, group: Group) -> str:
        """Returns the budget's key of a group, for the removal list."""
        return self._draft.key_of(group)

    def current(self, message: Message) -> Message:
        """Returns the current form of a message: shortened, if that was asked for."""
        return self._draft.current(message)

    def tokens_of(self, group: Group) -> int:
        """Returns the tokens of a group, in its current form."""
        return count_tokens(map(self.current, group.messages), self.counter)

    def removal_units(
        self, turns: Iterable[Turn], policies: Container[GCPolicy] = tuple(GCPolicy)
    ) -> list[RemovalUnit]:
        """Returns what goes together in turns: old turns as a whole, recent ones call by call."""
        units: list[RemovalUnit] = []
        for turn in turns:
            groups = [group for group in turn.groups if group.policy in policies]
            if self.is_recent(turn):
                units += [
                    RemovalUnit(self.key_of(group), [group]) for group in groups if group.is_call
                ]
            else:
                units.append(RemovalUnit(turn.key, groups))
        return units

    # --- removing ---

    def remove_oldest(
        self,
        turns: Iterable[Turn],
        reason: str,
        policies: Container[GCPolicy] = tuple(GCPolicy),
        *,
        to_goal: bool = True,
    ) -> None:
        """Removes turns, oldest first, until the goal is reached.

        An old turn goes as a whole, a recent one call by call. Under TURN_LIMIT, a turn whose user
        message must stay is not touched, because it would remain a turn.

        Args:
            turns: The turns to remove.
            reason: The reason in the removal list.
            policies: Remove only groups under one of these policies.
            to_goal: False: remove all of them.
        """
        units: Iterable[RemovalUnit] = self.removal_units(turns, policies)
        if self.reason is GCTriggerReason.TURN_LIMIT:
            units = (
                unit for unit in units if include_request(filter(self.may_remove, unit.groups))
            )
        self.remove_in_order(units, reason, to_goal=to_goal)

    def remove_in_order(
        self,
        candidates: Iterable[RemovalUnit | Group | SourceEntry],
        reason: str,
        *,
        to_goal: bool = True,
    ) -> None:
        """Removes what is given, in this order, until the goal is reached.

        Args:
            candidates: Pieces, single groups, or entries of the budget outside of the history.
            reason: The reason in the removal list.
            to_goal: False: remove all of them.
        """
        self._check_open()
        for candidate in candidates:
            if to_goal and not self.needs_more:
                return
            if isinstance(candidate, RemovalUnit):
                self.remove(candidate.groups, candidate.key, reason)
            elif isinstance(candidate, Group):
                self.remove([candidate], self.key_of(candidate), reason)
            else:
                tokens = candidate.total_tokens()
                self.remove_source(candidate.source, candidate.key, tokens, reason)

    def remove(
        self,
        groups: Iterable[Group],
        key: str,
        reason: str,
        action: RemovingAction = "remove",
        *,
        stash: bool = True,
    ) -> None:
        """Removes groups, as far as they may be removed, as one item of the removal list.

        Args:
            groups: The groups.
            key: The key in the removal list.
            reason: The reason in the removal list.
            action: ``"remove"``, or ``"summarize"`` if a summary replaces them.
            stash: Whether the messages are stored in the stash, if there is one.
        """
        self._check_open()
        key, reason = plain_id(key), plain_text(reason)
        chosen = ACTIONS.get(plain_text(action))
        if chosen is None or chosen in KEEPING:
            raise ValueError(f"expected an action that removes, got {action!r:.80}")
        for group in groups:
            self._check_is_own(group)
            if self.may_remove(group):
                self._draft.remove(group, key, reason, chosen, bool(stash))
                if chosen != "summarize":
                    reserve_ledger(self._draft, group)

    def remove_source(
        self, source: InstructionSource, child_key: str | None, tokens: int, reason: str
    ) -> None:
        """Removes something that is not in the history, such as enrichment. The host drops it."""
        self._check_open()
        self._draft.remove_source(
            SourceRemoval(
                InstructionSource(source),
                None if child_key is None else plain_id(child_key),
                max(0, operator.index(tokens)),
                plain_text(reason),
            )
        )

    def hold(self, group: Group) -> None:
        """Keeps a group for the rest of this collection.

        Hold the request of its turn too, unless an earlier message stays: a history must begin with
        a user message.
        """
        self._check_open()
        self._check_is_own(group)
        self._draft.held_by_strategy.add(id(group))

    def leave_ledger(self) -> None:
        """Lists what whole groups that go were about in one message, which is added at the end.

        It takes at most ``ledger_percent`` of the target. What it takes of that is freed in
        addition to the goal. A host that books entries of its own gets no ledger, because it would
        have no entry for it.
        """
        self._check_open()
        if self._draft.has_host_entries:
            return
        percent, target = self.config.ledger_percent, self.goal.target_tokens
        self._draft.ledger_tokens = int((target or 0) * percent / 100)

    # --- shortening ---

    def shorten(
        self,
        group: Group,
        reason: str,
        how: Shortening = STUB_ONLY,
        *,
        parts: Mapping[str, Container[int]] | None = None,
        key: str | None = None,
        stash: bool = True,
    ) -> None:
        """Shortens the results or the arguments of a call, as far as `may_shorten` allows.

        Args:
            group: The call with its results.
            reason: The reason in the removal list.
            how: How to shorten them.
            parts: Shorten only these parts, by the ids of messages in the group; ``None``: all.
            key: The key in the removal list; by default every message has an item of its own.
            stash: Whether the whole messages are stored in the stash, if there is one.
        """
        self._check_open()
        self._check_is_own(group)
        reason = plain_text(reason)
        key = None if key is None else plain_id(key)
        if not self.may_shorten(group):
            return
        draft = self._draft
        for message in group.messages:
            if parts is None or message.message_id in parts:
                shorter = shortened(
                    draft.current(message),
                    how,
                    parts=None if parts is None else parts[message.message_id],
                    key=draft.recall_key(message) if stash else None,
                )
                draft.shorten(message, shorter, key or message.message_id, reason, bool(stash))

    def shorten_identical(self) -> None:
        """Shortens results that a later result repeats as a whole, until the goal is reached.

        Core does it before it asks the strategy: call it to see what that would free.
        """
        self._check_open()
        shorten_identical(self._draft)

    def drop_repeated_lines(
        self, reason: str = "repeated_lines", policies: Container[GCPolicy] = tuple(GCPolicy)
    ) -> None:
        """Drops lines of old results that occur again later, until the goal is reached.

        Nothing is lost by that. The later message stays unchanged for the rest of this collection:
        what an agent reads again is what it works with. PRESERVABLE results lose lines only under
        pressure, because the later message may go first.

        Args:
            reason: The reason in the removal list.
            policies: Only results under one of these policies lose lines.
        """
        self._check_open()
        reason = plain_text(reason)
        draft = self._draft
        kept = () if self.under_pressure else (GCPolicy.PRESERVABLE,)
        may_lose = [
            group
            for group in self.groups
            if group.is_call and group.policy in policies and group.policy not in kept
            if self.may_shorten(group)
        ]
        changed = {edit.message_id for edit in draft.edits}
        for message, shorter, copies in find_repetitions(self.history, may_lose, changed):
            if not self.needs_more:
                return
            draft.shorten(message, shorter, message.message_id, reason, True)
            draft.held_by_strategy.update(id(draft.group_of[copy]) for copy in copies)

    def replace(self, message: Message, shorter: Message, reason: str) -> None:
        """Replaces a message by a shorter form of the strategy's own making.

        Only results and arguments may differ, and every one that does must be smaller.

        Args:
            message: A message of a group that may be shortened.
            shorter: The same message with other results or arguments.
            reason: The reason in the removal list.

        Raises:
            MessageError: Anything else differs.
        """
        self._check_open()
        reason, message_id = plain_text(reason), plain_id(message.message_id)
        draft = self._draft
        own = draft.history[draft.positions[message_id]]
        shorter = with_shorter_values(own, plain_message(shorter), self.counter)
        if self.may_shorten(draft.group_of[message_id]):
            draft.shorten(own, shorter, message_id, reason, True)

    # --- inserting ---

    def insert(self, message: Message, position: int) -> None:
        """Inserts a synthetic message before the one at a position: see `position_before`."""
        self._check_open()
        message, position = plain_message(message), operator.index(position)
        if not 0 <= position <= len(self.history):
            raise ValueError(f"expected a position from 0 to {len(self.history)}, got {position}")
        if self._draft.has_inserted(message):
            raise ValueError(f"message {message.message_id!r} is inserted already")
        self._draft.insert(message, position)

    def withdraw(self, inserted: Message) -> None:
        """Takes back an inserted message."""
        self._check_open()
        self._draft.withdraw(inserted)

    def position_before(self, groups: Iterable[Group]) -> int:
        """Returns where to insert a message that replaces groups: never inside an exchange."""
        return self._draft.position_before(groups)

    # --- checks ---

    def _check_open(self) -> None:
        if not self._draft.is_open:
            raise ReadOnlyError("this collection is closed: it ends when select returns")

    def _check_is_own(self, group: Group) -> None:
        if not self._draft.has(group):
            raise ValueError(f"expected a group of this collection, got {group!r:.80}")


@contextmanager
def opened(draft: Draft) -> Iterator[Collection]:
    """Lets a strategy work on a draft. Afterwards its requests raise `ReadOnlyError`."""
    draft.is_open = True
    try:
        yield Collection(draft)
    finally:
        draft.is_open = False
