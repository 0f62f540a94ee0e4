"""A collection in progress: what a strategy sees, and the methods it is written with."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting.edit_log import EditLog
from jaato_gc.collecting.goal import Goal, goal_of
from jaato_gc.collecting.protection import protect
from jaato_gc.collecting.results import GCTriggerReason
from jaato_gc.collecting.shortening import STUB_ONLY, Shortening, shortened
from jaato_gc.collecting.triggers import ContextUsage, is_under_pressure
from jaato_gc.config import GCConfig
from jaato_gc.errors import ReadOnlyError
from jaato_gc.history import Edit, EditAction, Group, Hold, Layout, SourceRemoval, Turn, lay_out
from jaato_gc.messages import Message, SyntheticKind, is_notice, message_to_dict, seal, stash_key
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.tokens import DEFAULT_COUNTER, TokenCounter


class Item(NamedTuple):
    """One entry of the removal list so far."""

    key: str | None
    reason: str
    action: EditAction


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
        budget: The budget, read-only; ``None`` if there is none.
        reserve: Tokens to free beyond the goal, for a notice that is added at the end.
    """

    history: Sequence[Message]
    layout: Layout
    config: GCConfig
    reason: GCTriggerReason
    goal: Goal
    budget: InstructionBudget | None = None
    reserve: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    """Figures that the strategy adds to the result."""
    _held: set[int] = field(default_factory=set, init=False, repr=False)

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
        layout = protect(lay_out(history), config, budget)
        goal = goal_of(reason, context_usage, config, budget, history, len(layout.turns))
        return cls(tuple(history), layout, config, reason, goal, budget)

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

    @cached_property
    def tokens_wanted(self) -> int:
        """The tokens to free, including the reserve; 0 if the goal is not a number of tokens."""
        wanted = self.goal.tokens_to_free
        return wanted + self.reserve if wanted else 0

    @property
    def tokens_freed(self) -> int:
        """The tokens freed so far, less those of inserted messages."""
        return self._log.freed

    @property
    def turns_removed(self) -> int:
        """The number of turns whose user message was removed so far."""
        return self._log.turns_removed

    @property
    def under_pressure(self) -> bool:
        """Whether PRESERVABLE content may be removed: a refused request, or a full window."""
        total = self.budget.total_tokens() if self.budget else 0
        limit = self.budget.context_limit if self.budget else None
        return is_under_pressure(self.config, self.reason, total, limit)

    @property
    def items(self) -> list[Item]:
        """The removal list so far, one item per key."""
        found: dict[object, Item] = {}
        for change in self._log.changes:
            if isinstance(change, SourceRemoval):
                key: object = (change.source, change.child_key)
                found.setdefault(key, Item(change.child_key, change.reason, "remove"))
            elif change.before is not None:
                found.setdefault(change.key, Item(change.key, change.reason, change.action))
        return list(found.values())

    def may_remove(self, group: Group) -> bool:
        """Returns whether a group may be removed and is still there."""
        if group.hold or id(group) in self._held or self._log.is_removed(group):
            return False
        # A notice is never collected: the next one replaces it.
        return not (group.is_outside_turns and is_notice(group.messages[0]))

    def may_shorten(self, group: Group) -> bool:
        """Returns whether results and arguments of a group may be shortened.

        Those of recent turns may, except in the last ``preserve_recent_groups`` calls.
        """
        if self._log.is_removed(group) or id(group) in self._held:
            return False
        return not group.hold or (group.hold is Hold.RECENT and id(group) in self._old_calls)

    def key_of(self, group: Group) -> str:
        """Returns the budget's key of a group, for the removal list."""
        message_id = group.messages[0].message_id
        entry = self.budget.entry_of(message_id) if self.budget else None
        return (entry and entry.key) or message_id

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

        A turn whose user message must stay remains a turn, so TURN_LIMIT does not touch it.

        Args:
            turns: The turns to remove.
            reason: The reason in the removal list.
            policies: Remove only groups under one of these policies.
            to_goal: False: remove all of them.
        """
        self._check_open()
        for turn in turns:
            if to_goal and not self.needs_more:
                return
            groups = [group for group in turn.groups if group.policy in policies]
            by_turns = self.reason is GCTriggerReason.TURN_LIMIT
            if not by_turns or include_request(filter(self.may_remove, groups)):
                self.take(groups, turn.key, reason)

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
        _check_labels(key, reason)
        if action not in ("remove", "summarize"):
            raise ValueError(f"expected action 'remove' or 'summarize', got {action!r:.80}")
        for group in groups:
            if self.may_remove(group):
                self._log.remove(group, key, reason, action, keep)

    def take_source(
        self, source: InstructionSource, child_key: str | None, tokens: int, reason: str
    ) -> None:
        """Removes something that is not in the history, such as enrichment. The host drops it."""
        self._check_open()
        _check_labels(child_key or "", reason)
        self._log.remove_source(SourceRemoval(source, child_key, tokens, reason))

    def hold(self, group: Group) -> None:
        """Keeps a group for the rest of this collection."""
        self._check_open()
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
        _check_labels(key or "", reason)
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
                self._log.shorten(message, shorter, key or message.message_id, reason, keep)

    def shorten_recent_results(self) -> None:
        """Shortens old tool results in the turns that are too recent to be removed.

        This is the last resort: one turn of an agent can fill the window. User and model text and
        the results of the last ``preserve_recent_groups`` calls stay. If a request was refused or
        does not fit and that is not enough, earlier summaries are removed too, oldest first.
        """
        self._check_open()
        for turn in self._recent_turns:
            for group in turn.groups:
                if group.hold is Hold.RECENT and id(group) in self._old_calls:
                    if not self._needs_tokens:
                        return
                    self.shorten(group, "cleared_recent", key=turn.key)
        if self.reason is GCTriggerReason.CONTEXT_LIMIT and self.under_pressure:
            for group in self.groups:
                if not self._needs_tokens:
                    return
                if group.messages[0].synthetic is SyntheticKind.SUMMARY:
                    self.take([group], self.key_of(group), "preservable_under_pressure")

    # --- inserting ---

    def insert(self, message: Message, position: int) -> None:
        """Inserts a synthetic message before the one at a position: see `position_before`."""
        self._check_open()
        seal(message)
        json.dumps(message_to_dict(message))  # raises if the session could not be saved with it
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

    # --- ending ---

    def close(self) -> list[Edit | SourceRemoval]:
        """Ends the collection and returns its changes. Further requests raise `ReadOnlyError`."""
        self._log.is_closed = True
        return self._log.changes

    def _check_open(self) -> None:
        if self._log.is_closed:
            raise ReadOnlyError("this collection is closed: it ends when select returns")

    # --- helpers ---

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

    @property
    def _recent_turns(self) -> Sequence[Turn]:
        """The recent turns, and at least the last one, which has the open calls."""
        return self.turns[-max(1, self.config.preserve_recent_turns) :]

    @cached_property
    def _old_calls(self) -> set[int]:
        """The calls in recent turns that are not among the last ones."""
        calls = [
            group
            for turn in self._recent_turns
            for group in turn.groups
            if group.is_call and group.hold in (Hold.RECENT, Hold.OPEN_CALL)
        ]
        return set(map(id, calls[: max(0, len(calls) - self.config.preserve_recent_groups)]))


def _check_labels(*labels: object) -> None:
    for label in labels:
        if not isinstance(label, str):
            raise TypeError(f"expected a string as key and reason, got {label!r:.80}")


def include_request(groups: Iterable[Group]) -> bool:
    """Returns whether the request of a turn is among groups: without it, the turn is gone."""
    return any(group.opens_turn for group in groups)
