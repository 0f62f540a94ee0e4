"""Booking: the budget follows every change of the history, message by message.

A new message is booked in O(1), as a part of the commit that appends it. Edits of a collection are
booked on a copy of the budget, which then replaces the entries of the budget at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from jaato_gc.budget.budget import InstructionBudget
from jaato_gc.budget.entry import SourceEntry
from jaato_gc.commit import AT_ONCE, Commit
from jaato_gc.errors import GCError
from jaato_gc.history import Edit, may_go
from jaato_gc.messages import LEDGER_ID, NOTICE_ID, SYSTEM, Message, SyntheticKind
from jaato_gc.policies import (
    DEFAULT_TURN_POLICIES,
    ConversationTurnType,
    GCPolicy,
    InstructionSource,
)
from jaato_gc.saved import Count, Seconds, SignedCount
from jaato_gc.tokens import message_tokens

PolicyOf = Callable[[Message], GCPolicy | None]
"""Returns the policy for a message, or ``None`` for the default."""

_CONVERSATION, _SYSTEM = InstructionSource.CONVERSATION, InstructionSource.SYSTEM
_ORIGINAL_REQUEST = DEFAULT_TURN_POLICIES[ConversationTurnType.ORIGINAL_REQUEST]
_WORKING = DEFAULT_TURN_POLICIES[ConversationTurnType.WORKING]
_NAMES = {
    SyntheticKind.NOTICE: (NOTICE_ID, "Notice"),
    SyntheticKind.LEDGER: (LEDGER_ID, "Ledger"),
}
"""The keys and labels of messages of which a collection leaves one at most."""


@dataclass(slots=True)
class BookedEntry:
    """The state of an entry before a change."""

    source: InstructionSource
    key: str
    tokens: Count
    gc_policy: GCPolicy
    created_at: Seconds
    born: SignedCount = 0
    message_ids: tuple[str, ...] = ()
    parent_key: str | None = None
    label: str | None = None
    """``None``: its key."""
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: SourceEntry) -> "BookedEntry":
        """Returns the current state of an entry."""
        return cls(
            entry._source,
            entry._key or "",
            entry._tokens,
            entry._gc_policy,
            entry._created_at,
            entry._born,
            tuple(entry._message_ids),
            entry._parent._key if entry._parent else None,
            None if entry._label == entry._key else entry._label,
            dict(entry._metadata),
        )


class Booking:
    """Books the messages of a history into a budget.

    LOCKED system messages are booked under SYSTEM. The first user message is ``original_request``.
    Every turn has an entry ``turn_N``, and each exchange of calls and results an entry below it.
    Numbers count over the whole session and are never reused.

    Args:
        budget: The budget.
        policy_of: Returns the host's policy for a message, or ``None`` for the default.
        tool_policies: The policies for calls and results of tools, by the tool's name.
    """

    def __init__(
        self,
        budget: InstructionBudget,
        policy_of: PolicyOf | None = None,
        tool_policies: Mapping[str, GCPolicy] | None = None,
    ) -> None:
        self.budget = budget
        budget.is_booked = True
        self._guard = budget._guard  # that of the session, for copies too
        self._policy_of = policy_of
        self._tool_policies = tool_policies or {}
        self.turns_opened = 0
        self.exchanges_opened = 0
        self.summaries_made = 0

    @property
    def turn(self) -> int:
        """The number of the current turn. Turn 0 includes messages before the first request."""
        return self.turns_opened - 1 if self.turns_opened else 0

    def holds(self, message_ids: Iterable[str]) -> bool:
        """Returns whether exactly these messages are booked, each under one entry."""
        entries = self.budget._tree.walk()
        booked = sorted(message_id for entry in entries for message_id in entry._message_ids)
        return booked == sorted(message_ids)

    def copy(self) -> Self:
        """Returns another booking, with a copy of the budget, to try changes on."""
        copied = copy(self)
        copied.budget = self.budget.copy()
        return copied

    def replace(self, commit: Commit, other: "Booking") -> None:
        """Prepares to continue with the entries and numbers of another booking."""
        self.budget.replace_entries(commit, other.budget)
        commit.assign(
            self,
            turns_opened=other.turns_opened,
            exchanges_opened=other.exchanges_opened,
            summaries_made=other.summaries_made,
        )

    def book(
        self,
        commit: Commit,
        message: Message,
        tokens: int,
        created_by: str | None = None,
        pinned_turns: Set[int] = frozenset(),
    ) -> int:
        """Prepares the entry of a new message. Returns the number of its turn.

        Args:
            commit: The change that adds the message.
            message: The message.
            tokens: Its tokens.
            created_by: The strategy that added it, if one did.
            pinned_turns: The turns whose messages are pinned.
        """
        if message.synthetic and message.synthetic is not SyntheticKind.RECALL:
            key, entry = self._synthetic(commit, message, tokens, created_by)
            turn, turn_key = self.turn, None
        elif message.role is SYSTEM and (not self.turns_opened or not may_go(message)):
            # Before the first request nothing removes it, whatever the host says.
            policy = (self.turns_opened and message.policy) or GCPolicy.LOCKED
            entry = _entry_of(message, tokens, policy, source=_SYSTEM)
            turn, key, turn_key = self.turn, message.message_id, None
        else:
            turn, key, turn_key, policy = self._place(commit, message)
            entry = _entry_of(message, tokens, policy)
        self._attach(commit, key, entry, turn_key, is_pinned=turn in pinned_turns)
        return turn

    def _place(self, commit: Commit, message: Message) -> tuple[int, str, str | None, GCPolicy]:
        """Returns the turn of a message of the conversation, the keys of its entry and of the one
        above, and its policy. Prepares the numbers of what it opens.
        """
        given = message.policy or self._policy_by_rule(message)  # first, because it may raise
        turns, exchanges = self.turns_opened, self.exchanges_opened
        has_calls, opens_turn = bool(message.function_calls), message.opens_turn
        if opens_turn and turns:  # what came before the first request belongs to its turn
            exchanges = 0
        turns += opens_turn
        exchanges += has_calls
        if opens_turn or has_calls:
            commit.assign(self, turns_opened=turns, exchanges_opened=exchanges)
        turn = max(0, turns - 1)
        turn_key = f"turn_{turn}"
        exchange_key = f"{turn_key}_call_{exchanges}"
        if opens_turn and not turn:
            return turn, "original_request", None, given or _ORIGINAL_REQUEST
        if given is not None:  # an id may look like "call_1"
            return turn, f"{turn_key}_message_{message.message_id}", turn_key, given
        if has_calls:
            return turn, exchange_key, turn_key, _WORKING
        answers = message.is_tool_output and self.budget.get_child(_CONVERSATION, exchange_key)
        return turn, exchange_key if answers else turn_key, None, GCPolicy.PARTIAL

    def with_policy(self, message: Message) -> Message:
        """Returns a system message in the middle with the policy that the host's rules give it.

        It is on the message itself, because it decides whether the message belongs to a turn.
        """
        if message.role is not SYSTEM or message.policy or not self.turns_opened:
            return message
        policy = self._policy_by_rule(message)
        return message if policy is None else replace(message, policy=policy)

    def _synthetic(
        self, commit: Commit, message: Message, tokens: int, created_by: str | None
    ) -> tuple[str, SourceEntry]:
        """Returns key and entry of a message that core or a strategy made."""
        metadata = None
        if message.synthetic in _NAMES:
            key, label = _NAMES[message.synthetic]
            if message.message_id != key:  # a host may append those of other systems
                key = f"{key}_{message.message_id}"
        else:
            number = self.summaries_made + 1
            commit.assign(self, summaries_made=number)
            key, label = f"gc_summary_{number}", "Context Summary"
            metadata = {"created_by": created_by}
        policy = message.policy or GCPolicy.PRESERVABLE
        return key, _entry_of(message, tokens, policy, label, metadata)

    def _attach(
        self,
        commit: Commit,
        key: str,
        entry: SourceEntry,
        turn_key: str | None = None,
        *,
        is_pinned: bool = False,
    ) -> None:
        """Prepares the entry of a message, or the message under the entry that has the key.

        Args:
            commit: The change that adds the message.
            key: The key of the entry.
            entry: The entry.
            turn_key: The key of the turn that it belongs to, whose entry may be new;
                ``None``: it is directly below its source.
            is_pinned: Pin the message.
        """
        budget, message_id = self.budget, entry._message_ids[0]
        pins = [message_id] if is_pinned else []
        if existing := budget.get_child(entry.source, key):
            budget._tree.attach_message(commit, existing, message_id, entry.tokens, pins)
            return
        entry._label = entry._label or key
        parent = budget.entry_under(entry.source, turn_key)
        if parent is None and turn_key is not None:
            entry = SourceEntry(_CONVERSATION, 0, GCPolicy.PARTIAL, turn_key, {key: entry})
            key, parent = turn_key, budget.entry_under(_CONVERSATION)
        if parent is None:
            raise GCError(f"the budget has no entry {entry.source.value!r}: add it with set_entry")
        budget._tree.attach(commit, entry, key, parent, budget.collections, pins)

    def _book_again(self, message: Message, tokens: int) -> None:
        """Books a message of an earlier turn that is restored, in an entry of its own."""
        policy = message.policy or self._policy_by_rule(message) or GCPolicy.PARTIAL
        entry = _entry_of(message, tokens, policy)
        self._attach(AT_ONCE, f"restored_{message.message_id}", entry)

    def apply(self, edits: Sequence[Edit], created_by: str | None) -> list[BookedEntry]:
        """Books some edits. Returns the entries they touched as they were, parents first.

        A message that is removed and added under one id stays in its entry.

        Args:
            edits: The edits.
            created_by: The strategy that made new messages; ``None``: they are restored.
        """
        budget = self.budget
        removed = {
            edit.before.message_id: message_tokens(edit.before, budget.counter)
            for edit in edits
            if edit.before
        }
        added = {edit.after.message_id: edit.after for edit in edits if edit.after}
        touched: dict[str, BookedEntry] = {}

        def note(entry: SourceEntry) -> None:
            key = entry._key
            if key is not None and key not in touched:
                touched[key] = BookedEntry.of(entry)

        for message_id, message in list(added.items()):
            entry = budget.entry_of(message_id)
            # A notice is booked as a new message: the strategy that wrote it may have changed.
            if message_id in removed and entry and not message.synthetic:
                note(entry)
                growth = message_tokens(message, budget.counter) - removed.pop(message_id)
                budget.update_tokens(entry.source, entry.tokens + growth, entry.key)
                del added[message_id]
        budget._tree.remove_messages(removed, note)
        for message in added.values():
            tokens = message_tokens(message, budget.counter)
            if created_by is None:
                self._book_again(message, tokens)
            else:
                self.book(AT_ONCE, message, tokens, created_by)
        return sorted(touched.values(), key=lambda booked: booked.parent_key is not None)

    def revert(
        self, touched: Iterable[BookedEntry], edits: Sequence[Edit], tokens: Mapping[str, int]
    ) -> None:
        """Undoes `apply`.

        Args:
            touched: The return value of `apply`.
            edits: The edits that were applied.
            tokens: The tokens of messages that were booked since, by id.
        """
        counter = self.budget.counter
        back = {edit.before.message_id for edit in edits if edit.before is not None}
        self.budget.remove_messages(
            {
                edit.after.message_id: message_tokens(edit.after, counter)
                for edit in edits
                if edit.after and (edit.after.synthetic or edit.after.message_id not in back)
            }
        )
        for old in touched:
            entry = self.budget.get_child(old.source, old.key)
            if entry is not None:
                since = [new_id for new_id in entry._message_ids if new_id not in old.message_ids]
                total = old.tokens + sum(tokens[message_id] for message_id in since)
                self.budget._tree.rebook(entry, total, [*old.message_ids, *since])
                continue
            entry = self.budget.add_child(
                old.source,
                old.key,
                old.tokens,
                old.gc_policy,
                old.label,
                old.metadata,
                old.created_at,
                old.message_ids,
                old.parent_key,
            )
            entry._born = old.born

    def _policy_by_rule(self, message: Message) -> GCPolicy | None:
        """Returns the host's policy for a message, by its tool or by the host's function."""
        if self._tool_policies:
            for part in message.parts:
                named = part.function_response or part.function_call
                if named and named.name in self._tool_policies:
                    return GCPolicy(self._tool_policies[named.name])
        if self._policy_of is None:
            return None
        policy = self._guard.ask(self._policy_of, message)
        return None if policy is None else GCPolicy(policy)


def _entry_of(
    message: Message,
    tokens: int,
    policy: GCPolicy,
    label: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    source: InstructionSource = _CONVERSATION,
) -> SourceEntry:
    return SourceEntry(
        source, tokens, policy, label, None, metadata, message_ids=[message.message_id]
    )
