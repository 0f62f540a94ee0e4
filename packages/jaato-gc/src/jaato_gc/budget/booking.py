"""Booking: the budget follows every change of the history, message by message."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaato_gc.budget.budget import InstructionBudget
from jaato_gc.budget.entry import SourceEntry
from jaato_gc.history import Edit
from jaato_gc.messages import NOTICE_ID, SYSTEM, TOOL, Message, SyntheticKind
from jaato_gc.policies import (
    DEFAULT_TURN_POLICIES,
    ConversationTurnType,
    GCPolicy,
    InstructionSource,
)
from jaato_gc.tokens import message_tokens

PolicyOf = Callable[[Message], GCPolicy | None]
"""Returns the policy for a message, or ``None`` for the default."""

_CONVERSATION = InstructionSource.CONVERSATION
_PARTIAL = GCPolicy.PARTIAL
_ORIGINAL_REQUEST = DEFAULT_TURN_POLICIES[ConversationTurnType.ORIGINAL_REQUEST]
_WORKING = DEFAULT_TURN_POLICIES[ConversationTurnType.WORKING]


@dataclass(slots=True)
class BookedEntry:
    """The state of an entry before a change."""

    source: InstructionSource
    key: str
    parent_key: str | None
    tokens: int
    gc_policy: GCPolicy
    label: str | None
    metadata: dict[str, Any]
    created_at: float
    born: int
    message_ids: Sequence[str]

    @classmethod
    def of(cls, entry: SourceEntry) -> "BookedEntry":
        """Returns the current state of an entry."""
        return cls(
            entry._source,
            entry._key or "",
            entry._parent._key if entry._parent else None,
            entry._tokens,
            entry._gc_policy,
            entry._label,
            dict(entry._metadata or ()),
            entry._created_at,
            entry._born,
            tuple(entry._message_ids),
        )


class Booking:
    """Books the messages of a history into a budget.

    System messages are booked under SYSTEM. The first user message is ``original_request``. Every
    turn has an entry ``turn_N``, and each exchange of calls and results an entry below it. Numbers
    count over the whole session and are never reused.

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
        self._policy_of = policy_of
        self._tool_policies = tool_policies or {}
        self._has_rules = bool(policy_of or tool_policies)
        self.turns_opened = 0
        self.exchanges_opened = 0
        self.summaries_made = 0

    @property
    def turn(self) -> int:
        """The number of the current turn. Turn 0 includes messages before the first request."""
        return self.turns_opened - 1 if self.turns_opened else 0

    def book(
        self,
        message: Message,
        tokens: int,
        has_calls: bool,
        has_results: bool,
        created_by: str | None = None,
    ) -> None:
        """Books a new message.

        Args:
            message: The message.
            tokens: Its tokens.
            has_calls: Whether it has tool calls.
            has_results: Whether it has tool results.
            created_by: The strategy that added it, if one did.
        """
        synthetic = message.synthetic
        if synthetic is not None and synthetic is not SyntheticKind.RECALL:
            self._book_synthetic(message, tokens, created_by)
            return
        if message.role is SYSTEM:
            policy = message.policy or GCPolicy.LOCKED
            self._add(InstructionSource.SYSTEM, message.message_id, policy, message, tokens)
            return
        policy_given = message.policy
        if policy_given is None and self._has_rules:
            policy_given = self._policy_by_rule(message)  # first, because host code may raise
        opens_turn = message.opens_turn
        is_first_request = opens_turn and self.turns_opened == 0
        if opens_turn:
            if not is_first_request:  # what came before the first request belongs to its turn
                self.exchanges_opened = 0
            self.turns_opened += 1
        self.exchanges_opened += has_calls
        if is_first_request:
            policy = policy_given or _ORIGINAL_REQUEST
            self._add(_CONVERSATION, "original_request", policy, message, tokens)
            return
        turn_key = key = f"turn_{self.turn}"
        if self.budget.get_child(_CONVERSATION, turn_key) is None:
            self.budget.add_child(_CONVERSATION, turn_key, 0, _PARTIAL)
        if policy_given is not None:
            key = f"{turn_key}_message_{message.message_id}"  # an id may look like "call_1"
            self._add(_CONVERSATION, key, policy_given, message, tokens, parent_key=turn_key)
            return
        if has_calls or has_results or message.role is TOOL:
            exchange_key = f"{turn_key}_call_{self.exchanges_opened}"
            if has_calls:
                key = exchange_key
                self._add(_CONVERSATION, key, _WORKING, message, tokens, parent_key=turn_key)
                return
            if self.budget.get_child(_CONVERSATION, exchange_key) is not None:
                key = exchange_key
        self.budget.add_message(_CONVERSATION, key, message.message_id, tokens)

    def _book_synthetic(self, message: Message, tokens: int, created_by: str | None) -> None:
        policy = GCPolicy.PRESERVABLE
        if message.synthetic is SyntheticKind.NOTICE:
            # A collection leaves one at most; a host may append notices of other systems.
            is_own = message.message_id == NOTICE_ID
            key = NOTICE_ID if is_own else f"{NOTICE_ID}_{message.message_id}"
            self._add(_CONVERSATION, key, policy, message, tokens, label="Notice")
            return
        self.summaries_made += 1
        key = f"gc_summary_{self.summaries_made}"
        metadata = {"created_by": created_by}
        self._add(
            _CONVERSATION, key, policy, message, tokens, label="Context Summary", metadata=metadata
        )

    def _book_again(self, message: Message, tokens: int) -> None:
        """Books a message of an earlier turn that is restored, in an entry of its own."""
        policy = message.policy or self._policy_by_rule(message) or GCPolicy.PARTIAL
        self._add(_CONVERSATION, f"restored_{message.message_id}", policy, message, tokens)

    def apply(self, edits: Iterable[Edit], created_by: str | None) -> list[BookedEntry]:
        """Follows some edits. Returns the entries they touched as they were, parents first.

        A message that is removed and added under one id stays in its entry.

        Args:
            edits: The edits.
            created_by: The strategy that made new messages; ``None``: they are restored.
        """
        counter = self.budget.counter
        removed: dict[str, int] = {}
        added: dict[str, Message] = {}
        for edit in edits:
            if edit.before is not None:
                removed[edit.before.message_id] = message_tokens(edit.before, counter)
            if edit.after is not None:
                added[edit.after.message_id] = edit.after
        touched: dict[str, BookedEntry] = {}

        def note(entry: SourceEntry) -> None:
            key = entry._key
            if key is not None and key not in touched:
                touched[key] = BookedEntry.of(entry)

        # A notice is booked as a new message, because the strategy that wrote it may have changed.
        stay = {
            message_id: entry
            for message_id, message in added.items()
            if message_id in removed
            and not message.synthetic
            and (entry := self.budget.entry_of(message_id))
        }
        for entry in stay.values():
            note(entry)
        self.budget.remove_messages(
            {each: tokens for each, tokens in removed.items() if each not in stay}, note
        )
        for message_id, message in added.items():
            tokens = message_tokens(message, counter)
            if message_id in stay:
                entry = stay[message_id]
                freed = removed[message_id] - tokens
                self.budget.update_tokens(entry.source, entry.tokens - freed, entry.key)
            elif created_by is None:
                self._book_again(message, tokens)
            else:
                has_calls = bool(message.function_calls)
                has_results = bool(message.function_responses)
                self.book(message, tokens, has_calls, has_results, created_by)
        return sorted(touched.values(), key=lambda booked: booked.parent_key is not None)

    def revert(
        self,
        touched: Iterable[BookedEntry],
        edits: Iterable[Edit],
        tokens_of: Callable[[str], int],
    ) -> None:
        """Undoes `apply`.

        Args:
            touched: The return value of `apply`.
            edits: The edits that were applied.
            tokens_of: Returns the tokens of a message that was booked since, by id.
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
            known = set(old.message_ids)
            since = [each for each in (entry.message_ids if entry else ()) if each not in known]
            ids = [*old.message_ids, *since]
            tokens = old.tokens + sum(map(tokens_of, since))
            if entry is not None:
                self.budget.rebook(entry, tokens, ids)
            else:
                entry = self.budget.add_child(
                    old.source,
                    old.key,
                    tokens,
                    old.gc_policy,
                    old.label,
                    old.metadata,
                    old.created_at,
                    ids,
                    old.parent_key,
                )
                entry._born = old.born

    def _policy_by_rule(self, message: Message) -> GCPolicy | None:
        """Returns the host's policy for a message, by its tool or by the host's function."""
        if self._tool_policies:
            for part in message.parts:
                named = part.function_response or part.function_call
                if named and named.name in self._tool_policies:
                    return self._tool_policies[named.name]
        policy = self._policy_of(message) if self._policy_of else None
        return None if policy is None else GCPolicy(policy)

    def _add(
        self,
        source: InstructionSource,
        key: str,
        policy: GCPolicy,
        message: Message,
        tokens: int,
        *,
        label: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        parent_key: str | None = None,
    ) -> None:
        self.budget.add_child(
            source,
            key,
            tokens,
            policy,
            label,
            metadata,
            message_ids=(message.message_id,),
            parent_key=parent_key,
        )
