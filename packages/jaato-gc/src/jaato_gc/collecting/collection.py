"""A collection in progress: what a strategy sees, and the methods it is written with."""

import operator
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jaato_gc.budget import InstructionBudget, SourceEntry
from jaato_gc.collecting.edit_log import EditLog, Item
from jaato_gc.collecting.goal import Goal, goal_of
from jaato_gc.collecting.pieces import Piece, include_request
from jaato_gc.collecting.protection import protect, recent_turns
from jaato_gc.collecting.repeated_lines import find_repetitions
from jaato_gc.collecting.results import GCTriggerReason
from jaato_gc.collecting.shortening import (
    STUB_ONLY,
    Shortening,
    shortened,
    with_shorter_values,
)
from jaato_gc.collecting.triggers import ContextUsage, is_under_pressure
from jaato_gc.config import GCConfig
from jaato_gc.errors import ReadOnlyError
from jaato_gc.history import (
    Edit,
    EditAction,
    Group,
    Hold,
    Layout,
    SourceRemoval,
    Turn,
    lay_out,
)
from jaato_gc.messages import (
    Message,
    SyntheticKind,
    plain_id,
    plain_message,
    plain_text,
    stash_key,
)
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.tokens import DEFAULT_COUNTER, TokenCounter, count_tokens

_REMOVALS: dict[str, EditAction] = {"remove": "remove", "summarize": "summarize"}
_NOTICE, _LEDGER = SyntheticKind.NOTICE, SyntheticKind.LEDGER


@dataclass(frozen=True)
class Collection:
    """A collection in progress.

    `GCStrategy.select` gets one and asks for removals and shorter forms until `needs_more` is
    false:

        def select(self, collection):
            collection.remove_oldest(collection.turns, "truncated")

    Protected groups can't be removed: requests for them are ignored. Everything here is read-only
    except `details`. After ``select`` the collection is closed, and further requests raise.

    Args:
        history: The history.
        layout: Its groups and turns, with policies and holds.
        config: The effective configuration.
        reason: Why the collection runs.
        goal: How much it has to free.
        recent_turns: How many of the newest turns are recent.
        budget: The budget, read-only; ``None`` if there is none.
        reserve: Tokens to free beyond the goal, for a notice that is added at the end.
    """

    history: Sequence[Message]
    layout: Layout
    config: GCConfig
    reason: GCTriggerReason
    goal: Goal
    recent_turns: int = 1
    budget: InstructionBudget | None = None
    reserve: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    """Figures that the strategy adds to the result."""
    _held: set[int] = field(default_factory=set, init=False, repr=False)
    _relaxed: set[str] = field(default_factory=set, init=False, repr=False)

    @classmethod
    def of(
        cls,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> "Collection":
        """Returns a collection for a history: layout, protection and goal are worked out here."""
        found = lay_out(history)
        goal = goal_of(reason, context_usage, config, budget, history, len(found.turns))
        by_turns = goal.tokens_to_free is None or reason is GCTriggerReason.TURN_LIMIT
        counter = budget.counter if budget else DEFAULT_COUNTER
        limit = budget.context_limit if budget else context_usage.get("context_limit")
        window = None if by_turns else config.request_limit(limit)
        recent = recent_turns(found, config, window, counter)
        layout = protect(found, config, budget, recent=recent, whole_turns=by_turns)
        return cls(tuple(history), layout, config, reason, goal, recent, budget)

    # --- reading ---

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns, oldest first."""
        return self.layout.turns

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, oldest first, including those outside of turns."""
        return self.layout.groups

    @property
    def counter(self) -> TokenCounter:
        """The counter for all token figures."""
        return self.budget.counter if self.budget else DEFAULT_COUNTER

    @property
    def needs_more(self) -> bool:
        """Whether the goal is not reached yet."""
        if self.goal.tokens_to_free is None:
            return True
        if self.reason is GCTriggerReason.TURN_LIMIT:
            return self._log.turns_removed < self.goal.turns_to_remove
        return self._needs_tokens

    @property
    def _needs_tokens(self) -> bool:
        return self.tokens_wanted > 0 and self._log.freed < self.tokens_wanted

    @property
    def tokens_wanted(self) -> int:
        """The tokens to free, including the reserve; 0 if the goal is not a number of tokens."""
        wanted = self.goal.tokens_to_free
        if not wanted:
            return 0
        ledger = self._log.ledger_tokens if self._log.removed_groups else 0
        return wanted + self.reserve + ledger

    @property
    def tokens_freed(self) -> int:
        """The tokens freed so far, less those of inserted messages."""
        return self._log.freed

    @property
    def turns_removed(self) -> int:
        """The number of turns whose user message was removed so far."""
        return self._log.turns_removed

    @property
    def turns_summarized(self) -> int:
        """The number of those turns that a summary replaces."""
        return self._log.turns_summarized

    @property
    def under_pressure(self) -> bool:
        """Whether PRESERVABLE content may be removed: a refused request, or a full window."""
        total = self.budget.total_tokens() if self.budget else 0
        limit = self.budget.context_limit if self.budget else None
        return is_under_pressure(self.config, self.reason, total, limit)

    @property
    def items(self) -> list[Item]:
        """The removal list so far, one item per key."""
        return self._log.items

    def may_remove(self, group: Group) -> bool:
        """Returns whether a group may be removed and is still there."""
        if group.hold or id(group) in self._held or self._log.is_removed(group):
            return False
        if not group.is_outside_turns:
            return True
        # A notice is never collected: the next one replaces it.
        kind = group.messages[0].synthetic
        return kind is not _NOTICE and (kind is not _LEDGER or self.under_pressure)

    def may_shorten(self, group: Group) -> bool:
        """Returns whether results and arguments of a group may be shortened."""
        return not (group.hold or self._log.is_removed(group) or id(group) in self._held)

    @cached_property
    def last_calls(self) -> Sequence[Group]:
        """The last ``preserve_recent_groups`` calls, oldest first."""
        calls = [group for group in self.groups if group.is_call]
        return calls[len(calls) - min(len(calls), self.config.preserve_recent_groups) :]

    def is_recent(self, turn: Turn) -> bool:
        """Returns whether a turn is recent: the running turn always is."""
        return turn.index >= len(self.turns) - self.recent_turns

    def key_of(self, group: Group) -> str:
        """Returns the budget's key of a group, for the removal list."""
        message_id = group.messages[0].message_id
        entry = self.budget.entry_of(message_id) if self.budget else None
        return (entry and entry.key) or message_id

    def tokens_of(self, group: Group) -> int:
        """Returns the tokens of a group, in its current form."""
        return count_tokens(map(self._log.current, group.messages), self.counter)

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
        pieces: Iterable[Piece] = self.pieces(turns, policies)
        if self.reason is GCTriggerReason.TURN_LIMIT:
            pieces = (
                each for each in pieces if include_request(filter(self.may_remove, each.groups))
            )
        self.remove_in_order(pieces, reason, to_goal=to_goal)

    def remove_in_order(
        self,
        candidates: Iterable[Piece | Group | SourceEntry],
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
        for each in candidates:
            if to_goal and not self.needs_more:
                return
            if isinstance(each, Piece):
                self.take(each.groups, each.key, reason)
            elif isinstance(each, Group):
                self.take([each], self.key_of(each), reason)
            else:
                self.take_source(each.source, each.key, each.total_tokens(), reason)

    def pieces(
        self, turns: Iterable[Turn], policies: Container[GCPolicy] = tuple(GCPolicy)
    ) -> list[Piece]:
        """Returns what goes together in turns: old turns as a whole, recent ones call by call."""
        pieces: list[Piece] = []
        for turn in turns:
            groups = [group for group in turn.groups if group.policy in policies]
            if self.is_recent(turn):
                pieces += [Piece(self.key_of(group), [group]) for group in groups if group.is_call]
            else:
                pieces.append(Piece(turn.key, groups))
        return pieces

    def take(
        self,
        groups: Iterable[Group],
        key: str,
        reason: str,
        action: EditAction = "remove",
        *,
        keep: bool = True,
    ) -> None:
        """Removes groups, as far as they may be removed, as one item of the removal list.

        Args:
            groups: The groups.
            key: The key in the removal list.
            reason: The reason in the removal list.
            action: ``"remove"``, or ``"summarize"`` if a summary replaces them.
            keep: False: not worth a place in the stash.
        """
        self._check_open()
        key, reason = plain_id(key), plain_text(reason)
        chosen = _REMOVALS.get(plain_text(action))
        if chosen is None:
            raise ValueError(f"expected action 'remove' or 'summarize', got {action!r:.80}")
        for group in groups:
            self._check_is_own(group)
            if self.may_remove(group):
                self._log.remove(group, key, reason, chosen, bool(keep))

    def take_source(
        self, source: InstructionSource, child_key: str | None, tokens: int, reason: str
    ) -> None:
        """Removes something that is not in the history, such as enrichment. The host drops it."""
        self._check_open()
        self._log.remove_source(
            SourceRemoval(
                InstructionSource(source),
                None if child_key is None else plain_id(child_key),
                max(0, operator.index(tokens)),
                plain_text(reason),
            )
        )

    def hold(self, group: Group) -> None:
        """Keeps a group for the rest of this collection."""
        self._check_open()
        self._check_is_own(group)
        self._held.add(id(group))

    def holds(self, group: Group) -> bool:
        """Returns whether the strategy holds a group that nothing else protects."""
        return id(group) in self._held and not group.hold

    # --- shortening ---

    def shorten(
        self,
        group: Group,
        reason: str,
        how: Shortening = STUB_ONLY,
        *,
        parts: Mapping[str, Container[int]] | None = None,
        key: str | None = None,
        keep: bool = True,
    ) -> None:
        """Shortens the results or the arguments of a call, as far as `may_shorten` allows.

        Args:
            group: The call with its results.
            reason: The reason in the removal list.
            how: How to shorten them.
            parts: Shorten only these parts, by the ids of messages in the group; ``None``: all.
            key: The key in the removal list; by default every message has an item of its own.
            keep: False: not worth a place in the stash.
        """
        self._check_open()
        self._check_is_own(group)
        reason = plain_text(reason)
        key = None if key is None else plain_id(key)
        if not self.may_shorten(group):
            return
        for message in group.messages:
            if parts is None or message.message_id in parts:
                shorter = shortened(
                    self._log.current(message),
                    how,
                    parts=None if parts is None else parts[message.message_id],
                    key=self._recall_key(message) if keep else None,
                )
                self._log.shorten(message, shorter, key or message.message_id, reason, bool(keep))

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
        kept = () if self.under_pressure else (GCPolicy.PRESERVABLE,)
        may_lose = [
            group
            for group in self.groups
            if group.is_call and group.policy in policies and group.policy not in kept
            if self.may_shorten(group)
        ]
        changed = {change.message_id for change in self._log.changes if isinstance(change, Edit)}
        for message, shorter, copies in find_repetitions(self.history, may_lose, changed):
            if not self.needs_more:
                return
            self._log.shorten(message, shorter, message.message_id, reason, True)
            for copy in copies:
                self._held.add(id(self._group_of[copy]))

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
        group = self._group_of[message_id]
        own = next(each for each in group.messages if each.message_id == message_id)
        shorter = with_shorter_values(own, plain_message(shorter), self.counter)
        if self.may_shorten(group):
            self._log.shorten(own, shorter, message_id, reason, True)

    def leave_ledger(self) -> None:
        """Lists what whole groups that go were about in one message, which is added at the end.

        Its size is ``ledger_percent`` of the target, and is freed in addition to the goal.
        """
        self._check_open()
        percent, target = self.config.ledger_percent, self.goal.target_tokens
        self._log.ledger_tokens = int((target or 0) * percent / 100)

    # --- inserting ---

    def insert(self, message: Message, position: int) -> None:
        """Inserts a synthetic message before the one at a position: see `position_before`."""
        self._check_open()
        message, position = plain_message(message), operator.index(position)
        if not 0 <= position <= len(self.history):
            raise ValueError(f"expected a position from 0 to {len(self.history)}, got {position}")
        if any(each.message_id == message.message_id for each in self.insertions.values()):
            raise ValueError(f"message {message.message_id!r} is inserted already")
        self._log.insert(message, position)

    def withdraw(self, inserted: Message) -> None:
        """Takes back an inserted message."""
        self._check_open()
        self._log.withdraw(inserted)

    @property
    def insertions(self) -> Mapping[int, Message]:
        """The inserted messages, by position."""
        return self._log.insertions

    def position_of(self, group: Group) -> int:
        """Returns the position of the first message of a group."""
        return self._log.position(group.messages[0])

    def position_before(self, groups: Iterable[Group]) -> int:
        """Returns where to insert a message that replaces groups: never inside an exchange."""
        position = start = min(map(self.position_of, groups))
        while start > 0 and self.history[start].is_tool_output:
            start -= 1
        return start if self.history[start].function_calls else position

    def is_removed(self, group: Group) -> bool:
        """Returns whether a group was removed."""
        return self._log.is_removed(group)

    # --- for core: what protection forbids, if the request would not fit otherwise ---

    def force(self, group: Group, reason: str) -> None:
        """Removes a group that is recent or held by the strategy. The collection must be closed."""
        self._check_closed()
        if not self._log.is_removed(group):
            key = self.key_of(group)
            if self._log.reasons.get(key, reason) != reason:  # the rest of a turn that a
                key = group.messages[0].message_id  # strategy removed, for another reason
            self._log.remove(group, key, reason, "remove", True)
            self._relax(group)

    def force_shorter(
        self, group: Group, message: Message, part: int, how: Shortening, reason: str
    ) -> None:
        """Shortens a part of a group that is recent or held. The collection must be closed."""
        self._check_closed()
        if not self._log.is_removed(group):
            key = self._recall_key(message)
            shorter = shortened(self._log.current(message), how, parts=[part], key=key)
            self._log.shorten(message, shorter, message.message_id, reason, True)
            self._relax(group)

    def _relax(self, group: Group) -> None:
        self._relaxed.update(message.message_id for message in group.messages)

    @property
    def held(self) -> dict[str, Hold]:
        """Why messages must stay, by message id, without those that core had to remove."""
        return {
            message.message_id: group.hold
            for group in self.groups
            if group.hold
            for message in group.messages
            if group.hold.is_fixed or message.message_id not in self._relaxed
        }

    def adopt(self, changes: Iterable[Edit | SourceRemoval]) -> None:
        """Takes over the changes of a strategy that returned a history."""
        self._log.adopt(changes, self.groups)

    # --- ending ---

    @property
    def changes(self) -> list[Edit | SourceRemoval]:
        """The changes so far."""
        return self._log.changes

    def close(self) -> None:
        """Ends the collection. Further requests of the strategy raise `ReadOnlyError`."""
        self._log.is_closed = True

    def open(self) -> None:
        """Lets a strategy make its requests."""
        self._log.is_closed = False

    def _check_closed(self) -> None:
        if not self._log.is_closed:
            raise ReadOnlyError("only core may change protected groups, without a strategy")

    def _check_open(self) -> None:
        if self._log.is_closed:
            raise ReadOnlyError("this collection is closed: it ends when select returns")

    # --- helpers ---

    def _check_is_own(self, group: Group) -> None:
        if id(group) not in self._own_groups:
            raise ValueError(f"expected a group of this collection, got {group!r:.80}")

    @cached_property
    def _own_groups(self) -> set[int]:
        return set(map(id, self.groups))

    @cached_property
    def _group_of(self) -> dict[str, Group]:
        return {message.message_id: group for group in self.groups for message in group.messages}

    @cached_property
    def _log(self) -> EditLog:
        return EditLog(self.history, self.counter)

    def _recall_key(self, message: Message) -> str | None:
        """Returns the key under which the stash will keep a message, if there is a stash."""
        if self.budget is None or not self.budget.has_stash:
            return None
        keys = self._log.recall_keys
        if message.message_id not in keys:
            keys[message.message_id] = stash_key(message)
        return keys[message.message_id]
