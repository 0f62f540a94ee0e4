"""A draft: what core works on while a collection is planned.

A strategy must not be able to remove what is protected, and core must be able to if a request would
not fit otherwise. So there are two faces of one collection: strategies get a
`jaato_gc.collecting.Collection`, which offers what protection allows, and core keeps the draft
behind it. No plugin is ever handed a draft.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from jaato_gc.collecting.host_entries import has_host_entries, host_entry, join_host_entries
from jaato_gc.collecting.plan_request import PlanRequest
from jaato_gc.collecting.protection import movable_tokens, protect, recent_turns
from jaato_gc.collecting.results import GCTriggerReason
from jaato_gc.collecting.shortening import Shortening, shortened
from jaato_gc.collecting.triggers import goal_of
from jaato_gc.errors import ReadOnlyError
from jaato_gc.history import Edit, EditAction, Group, Hold, SourceRemoval, Turn, lay_out
from jaato_gc.messages import Message, stash_key
from jaato_gc.policies import InstructionSource
from jaato_gc.tokens import DEFAULT_COUNTER, count_tokens, message_tokens, recount

Change = Edit | SourceRemoval
"""A change of the history, or of what is sent beside it."""


class RemovalSoFar(NamedTuple):
    """One entry of the removal list so far.

    Args:
        key: The key in the removal list.
        reason: The reason in it.
        action: What happens to the content.
    """

    key: str | None
    reason: str
    action: EditAction


class RemovalUnit(NamedTuple):
    """Groups that are removed together, with their key in the removal list.

    Args:
        key: The key in the removal list.
        groups: The groups.
    """

    key: str
    groups: list[Group]


def include_request(groups: Iterable[Group]) -> bool:
    """Returns whether the request of a turn is among groups: without it, the turn is gone."""
    return any(group.opens_turn for group in groups)


class Draft:
    """A collection that is being planned: layout, protection, goal, and the edits so far.

    The history itself is never changed.

    Args:
        request: What the collection is planned from.
    """

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.history = tuple(request.history)
        self.config, self.reason, self.budget = request.config, request.reason, request.budget
        self.counter = self.budget.counter if self.budget else DEFAULT_COUNTER
        self.positions = {message.message_id: at for at, message in enumerate(self.history)}
        """The position of each message in the history, by id."""
        layout, limits = lay_out(self.history), request.limits
        self.has_host_entries = has_host_entries(self.budget)
        """Whether a host follows the collection by the entries of its own budget."""
        if self.budget and self.has_host_entries:
            layout = join_host_entries(layout, self.budget, self.positions)
        goal = goal_of(
            self.reason, request.usage, limits, self.budget, self.history, len(layout.turns)
        )
        whole_turns = goal.tokens_to_free is None or self.reason is GCTriggerReason.TURN_LIMIT
        window = None if whole_turns else limits.request_limit
        self.recent_turns = recent_turns(
            protect(layout, self.config, self.budget, recent=1),
            self.config,
            window,
            self._room_in(goal.target_tokens or 0),
            self.counter,
        )
        layout = protect(
            layout, self.config, self.budget, recent=self.recent_turns, whole_turns=whole_turns
        )
        self.groups, self.turns = layout.groups, layout.turns
        total = self.budget.total_tokens() if self.budget else 0
        self.under_pressure = limits.is_under_pressure(self.reason, total)
        """Whether PRESERVABLE content may be removed: a refused request, or a full window."""
        self.can_fit = True
        """Whether the request fits if everything is removed that is not fixed."""
        if goal.worst_overflow:
            movable = movable_tokens(self.groups, self.budget, self.counter)
            counted = self.budget.counted_tokens() if self.budget else total
            most = limits.request_limit or 0
            if movable < goal.overflow and counted < total and total > most:
                # Without the correction it may fit. A report may be wrong, so it alone is no reason
                # to give up recent content, or to refuse the request.
                overflow = max(0, counted - most)
                goal = replace(goal, overflow=overflow, worst_overflow=overflow)
            self.can_fit = movable >= goal.overflow
            if movable < goal.worst_overflow:
                # Fixed content near the size of the window leaves no room for the tolerance of the
                # counter. The request is sent if it fits as counted.
                goal = replace(goal, worst_overflow=goal.overflow)
        self.goal = goal
        self.details: dict[str, Any] = {}
        """Figures for the result."""
        self.is_open = False
        """Whether a strategy may make its requests."""
        self.held_by_strategy: set[int] = set()
        """The groups that the strategy or a repeated line holds, by identity."""
        self.copies: dict[str, Group] = {}
        """The group with the newest copy of a shortened result, by id of the shortened message."""
        self.copied: set[int] = set()
        """Those groups, by identity: their results stay as they are."""
        self.relaxed: set[str] = set()
        """The messages whose protection core had to give up, by id."""
        self.notice_reserve = 0
        """Tokens to free beyond the goal, for the notice."""
        self.ledger_tokens = 0
        """The largest size of the ledger that is added at the end; 0: none."""
        self.ledger_reserve = 0
        """Tokens to free beyond the goal, for what the ledger grows by."""
        self.notification: str | None = None
        """The notice that is added."""
        self.notice_edits: list[Edit] = []
        """The edits that add it."""
        self.freed = 0
        """The tokens freed so far, less those of inserted messages."""
        self.turns_removed = 0
        self.turns_summarized = 0
        # Only the newest change of a message is kept, in the order in which they were made.
        # An insertion has a key of its own: a returned history may have moved a message.
        self._changes: dict[str | tuple[InstructionSource | None, str | None], Change] = {}
        self._removed_groups: set[int] = set()
        self._reasons: dict[str | None, str] = {}
        self._recall_keys: dict[str, str] = {}

    def _room_in(self, target_tokens: int) -> int:
        """Returns the counted tokens that a target leaves to the history."""
        budget = self.budget
        if budget is None:
            return target_tokens
        return int((target_tokens - budget.unbooked_tokens) / budget.ratio) - self.tokens_beside

    # --- reading ---

    @cached_property
    def tokens_beside(self) -> int:
        """The counted tokens that are sent beside the history, if there is a budget."""
        counted = self.budget.counted_tokens() if self.budget else 0
        return max(0, counted - count_tokens(self.history, self.counter))

    @cached_property
    def last_calls(self) -> Sequence[Group]:
        """The last ``preserve_recent_groups`` calls, oldest first."""
        calls = [group for group in self.groups if group.is_call]
        return calls[len(calls) - min(len(calls), self.config.preserve_recent_groups) :]

    @cached_property
    def group_of(self) -> dict[str, Group]:
        """The group of each message, by message id."""
        return {message.message_id: group for group in self.groups for message in group.messages}

    def is_recent(self, turn: Turn) -> bool:
        """Returns whether a turn is recent: the running turn always is."""
        return turn.index >= len(self.turns) - self.recent_turns

    def has(self, group: Group) -> bool:
        """Returns whether a group is one of this draft."""
        return id(group) in self._group_ids

    @cached_property
    def _group_ids(self) -> set[int]:
        return set(map(id, self.groups))

    def is_removed(self, group: Group) -> bool:
        """Returns whether a group was removed."""
        return id(group) in self._removed_groups

    def is_free(self, group: Group) -> bool:
        """Returns whether a group is still there and nothing holds it."""
        return not (group.hold or id(group) in self.held_by_strategy or self.is_removed(group))

    def key_of(self, group: Group) -> str:
        """Returns the budget's key of a group, for the removal list."""
        message_id = group.messages[0].message_id
        entry = self.budget.entry_of(message_id) if self.budget else None
        return (entry and entry.key) or message_id

    def position_before(self, groups: Iterable[Group]) -> int:
        """Returns where to insert a message that replaces groups.

        That is never inside a group, or beside a message that keeps its place.
        """
        position = min(self.positions[group.messages[0].message_id] for group in groups)
        while (earlier := self._insertable(position)) < position:
            position = earlier
        return position

    def _insertable(self, position: int) -> int:
        """Returns the position, or an earlier one if nothing may be inserted there."""
        for at in range(max(1, position - 1), min(position + 1, len(self.history))):
            group = self.group_of[self.history[at].message_id]
            if group.neighbours and not self.is_removed(group):
                return at - 1
        return next((start for start, end in self._spans if start < position <= end), position)

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """The positions of the first and the last message of each group that has several.

        The group of an open call ends with the history, because nothing may follow it.
        """
        return [
            (
                self.positions[group.messages[0].message_id],
                len(self.history)
                if group.is_open
                else self.positions[group.messages[-1].message_id],
            )
            for group in self.groups
            if group.is_open or len(group.messages) > 1
        ]

    def current(self, message: Message) -> Message:
        """Returns the current form of a message."""
        edit = self._changes.get(message.message_id)
        return edit.after if isinstance(edit, Edit) and edit.after else message

    # --- figures ---

    @property
    def fits(self) -> bool:
        """Whether the request fits with the edits so far, even if it is undercounted."""
        return self.freed >= self.goal.worst_overflow

    @property
    def needs_more(self) -> bool:
        """Whether the goal is not reached yet."""
        if self.goal.tokens_to_free is None:
            return True
        if self.reason is GCTriggerReason.TURN_LIMIT:
            return self.turns_removed < self.goal.turns_to_remove
        return self.tokens_missing > 0

    @property
    def tokens_missing(self) -> int:
        """Tokens still to free, with the room for notice and ledger; 0 without such a goal."""
        wanted = self.goal.tokens_to_free
        if not wanted:
            return 0
        return wanted + self.notice_reserve + self.ledger_reserve - self.freed

    @property
    def changes(self) -> list[Change]:
        """All changes, in the order in which they were made; those of the notice come first."""
        return [*self.notice_edits, *self._changes.values()]

    @property
    def edits(self) -> list[Edit]:
        """The changes of the history, in the order in which they were made."""
        return [change for change in self.changes if isinstance(change, Edit)]

    @property
    def source_removals(self) -> list[SourceRemoval]:
        """What is removed beside the history."""
        return [change for change in self._changes.values() if isinstance(change, SourceRemoval)]

    @property
    def removals(self) -> list[RemovalSoFar]:
        """The removal list so far, one entry per key."""
        found: dict[object, RemovalSoFar] = {}
        for change in self._changes.values():
            if isinstance(change, SourceRemoval):
                key: object = (change.source, change.child_key)
                found.setdefault(key, RemovalSoFar(change.child_key, change.reason, "remove"))
            elif change.before is not None:
                removal = RemovalSoFar(change.key, change.reason, change.action)
                found.setdefault(change.key, removal)
        return list(found.values())

    @property
    def must_stay(self) -> dict[str, Hold]:
        """Why messages must stay, by message id, without those that core had to remove."""
        return {
            message.message_id: group.hold
            for group in self.groups
            if group.hold
            for message in group.messages
            if group.hold.is_fixed or message.message_id not in self.relaxed
        }

    # --- editing ---

    def remove(self, group: Group, key: str, reason: str, action: EditAction, stash: bool) -> None:
        """Removes a group, and what keeps its place beside it."""
        if self.is_removed(group):
            return
        self._removed_groups.add(id(group))
        for message in group.messages:
            position = self.positions[message.message_id]
            self._record(Edit(position, message, None, key, reason, action, stash))
        for message in group.messages:
            for beside in self._beside.get(message.message_id, ()):
                self.remove(beside, key, reason, action, stash)

    @cached_property
    def _beside(self) -> dict[str, list[Group]]:
        """The groups that keep their place beside each message, by message id."""
        beside: dict[str, list[Group]] = {}
        for group in self.groups:
            for message_id in group.neighbours:
                beside.setdefault(message_id, []).append(group)
        return beside

    def shorten(
        self, message: Message, shorter: Message, key: str, reason: str, stash: bool
    ) -> None:
        """Replaces a message by a shorter form, if that has fewer tokens.

        One that is in an entry of the host's budget stays: that entry would not follow.
        """
        budget = self.budget
        if budget and self.has_host_entries and host_entry(budget, message) is not None:
            return
        current = self.current(message)
        if recount(shorter, current, self.counter) < message_tokens(current, self.counter):
            position = self.positions[message.message_id]
            self._record(Edit(position, message, shorter, key, reason, "shorten", stash))

    def insert(self, message: Message, position: int) -> None:
        """Inserts a message before the one at a position."""
        self._record(Edit(position, None, message))

    def withdraw(self, inserted: Message) -> None:
        """Takes back the insertion of a message."""
        edit = self._changes.pop((None, inserted.message_id))
        if isinstance(edit, Edit) and edit.after:
            self.freed += message_tokens(edit.after, self.counter)

    def take_back(self, message_ids: Iterable[str]) -> None:
        """Takes back the changes of messages."""
        for message_id in message_ids:
            change = self._changes.pop(message_id, None)
            if isinstance(change, Edit) and change.before:
                self.freed -= message_tokens(change.before, self.counter)
                self.freed += message_tokens(change.after, self.counter) if change.after else 0

    def has_inserted(self, message: Message) -> bool:
        """Returns whether a message with this id was inserted."""
        return (None, message.message_id) in self._changes

    def replace_synthetic(self, earlier: Message, message: Message) -> None:
        """Replaces a message that core made by another one, in its place."""
        self._record(Edit(self.positions[earlier.message_id], earlier, message))

    def remove_source(self, removal: SourceRemoval) -> None:
        """Removes something that is not in the history, once."""
        if (removal.source, removal.child_key) not in self._changes:
            self._changes[removal.source, removal.child_key] = removal
            self.freed += removal.tokens

    def adopt(self, changes: Iterable[Change]) -> None:
        """Takes over the changes of a plugin that returned a history."""
        for change in changes:
            if isinstance(change, SourceRemoval):
                self.remove_source(change)
            else:
                self._record(change)
        removed = {edit.message_id for edit in self.edits if edit.after is None}
        self._removed_groups |= {
            id(group)
            for group in self.groups
            if any(message.message_id in removed for message in group.messages)
        }

    def _record(self, edit: Edit) -> None:
        """Adds an edit, and its figures. It replaces an earlier edit of the same message."""
        before, after = edit.before, edit.after
        if before:
            earlier = self._changes.pop(before.message_id, None)  # this one counts as the newest
            form = earlier.after if isinstance(earlier, Edit) else before
            self.freed += message_tokens(form, self.counter) if form else 0
            self._reasons.setdefault(edit.key, edit.reason)
            if not after and before.opens_turn:
                self.turns_removed += 1
                self.turns_summarized += edit.action == "summarize"
        if after:
            self.freed -= message_tokens(after, self.counter)
        self._changes[edit.message_id if before else (None, edit.message_id)] = edit

    # --- what protection forbids, if the request would not fit otherwise ---

    def force(self, group: Group, reason: str) -> None:
        """Removes a group that is recent or held by the strategy."""
        self._check_closed()
        if not self.is_removed(group):
            key = self.key_of(group)
            if self._reasons.get(key, reason) != reason:  # the rest of a turn that a
                key = group.messages[0].message_id  # strategy removed, for another reason
            self.remove(group, key, reason, "remove", True)
            self._relax(group)
            for message in group.messages:
                for beside in self._beside.get(message.message_id, ()):
                    self._relax(beside)

    def force_shorter(
        self, group: Group, message: Message, part: int, how: Shortening, reason: str
    ) -> None:
        """Shortens a part of a group that is recent or held by the strategy."""
        self._check_closed()
        if not self.is_removed(group):
            key = self.recall_key(message)
            shorter = shortened(self.current(message), how, parts=[part], key=key)
            self.shorten(message, shorter, message.message_id, reason, True)
            self._relax(group)

    def _relax(self, group: Group) -> None:
        self.relaxed.update(message.message_id for message in group.messages)

    def _check_closed(self) -> None:
        if self.is_open:
            raise ReadOnlyError("only core may change protected groups, without a strategy")

    def recall_key(self, message: Message) -> str | None:
        """Returns the key under which the stash will keep a message, if there is a stash."""
        if self.budget is None or not self.budget.has_stash:
            return None
        message_id = message.message_id
        if message_id not in self._recall_keys:  # making one takes long
            self._recall_keys[message_id] = stash_key(message)
        return self._recall_keys[message_id]
