"""Booking: the budget follows every change of the history, message by message."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaato_gc.budget.budget import InstructionBudget
from jaato_gc.budget.entry import SourceEntry
from jaato_gc.history import Edit
from jaato_gc.messages import LEDGER_ID, NOTICE_ID, SYSTEM, Message, SyntheticKind
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
_ORIGINAL_REQUEST = DEFAULT_TURN_POLICIES[ConversationTurnType.ORIGINAL_REQUEST]
_WORKING = DEFAULT_TURN_POLICIES[ConversationTurnType.WORKING]


@dataclass(slots=True)
class BookedEntry:
    """The state of an entry before a change."""

    source: InstructionSource
    key: str
    tokens: int
    gc_policy: GCPolicy
    created_at: float
    born: int = 0
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
        budget.is_booked = True
        self._policy_of = policy_of
        self._tool_policies = tool_policies or {}
        self.turns_opened = 0
        self.exchanges_opened = 0
        self.summaries_made = 0

    @property
    def turn(self) -> int:
        """The number of the current turn. Turn 0 includes messages before the first request."""
        return self.turns_opened - 1 if self.turns_opened else 0

    def book(self, message: Message, tokens: int, created_by: str | None = None) -> None:
        """Books a new message.

        Args:
            message: The message.
            tokens: Its tokens.
            created_by: The strategy that added it, if one did.
        """
        if message.synthetic and message.synthetic is not SyntheticKind.RECALL:
            self._book_synthetic(message, tokens, created_by)
            return
        if message.role is SYSTEM:
            policy = message.policy or GCPolicy.LOCKED
            self._add_entry(
                message.message_id, policy, message, tokens, source=InstructionSource.SYSTEM
            )
            return
        given = message.policy or self._policy_by_rule(message)  # first, because it may raise
        has_calls = bool(message.function_calls)
        is_first_request = False
        if message.opens_turn:
            is_first_request = self.turns_opened == 0
            if not is_first_request:  # what came before the first request belongs to its turn
                self.exchanges_opened = 0
            self.turns_opened += 1
        self.exchanges_opened += has_calls
        if is_first_request:
            self._add_entry("original_request", given or _ORIGINAL_REQUEST, message, tokens)
            return
        turn_key = f"turn_{self.turn}"
        exchange_key = f"{turn_key}_call_{self.exchanges_opened}"
        if self.budget.get_child(_CONVERSATION, turn_key) is None:
            self.budget.add_child(_CONVERSATION, turn_key, 0, GCPolicy.PARTIAL)
        if given is not None:
            key = f"{turn_key}_message_{message.message_id}"  # an id may look like "call_1"
            self._add_entry(key, given, message, tokens, turn_key)
        elif has_calls:
            self._add_entry(exchange_key, _WORKING, message, tokens, turn_key)
        else:
            answers = message.is_tool_output and self.budget.get_child(_CONVERSATION, exchange_key)
            key = exchange_key if answers else turn_key
            self.budget.add_message(_CONVERSATION, key, message.message_id, tokens)

    def _book_synthetic(self, message: Message, tokens: int, created_by: str | None) -> None:
        message_id, metadata = message.message_id, None
        if message.synthetic is SyntheticKind.NOTICE:
            # A collection leaves one at most; a host may append notices of other systems.
            key = NOTICE_ID if message_id == NOTICE_ID else f"{NOTICE_ID}_{message_id}"
            label = "Notice"
        elif message.synthetic is SyntheticKind.LEDGER:
            key = LEDGER_ID if message_id == LEDGER_ID else f"{LEDGER_ID}_{message_id}"
            label = "Ledger"
        else:
            self.summaries_made += 1
            key, label = f"gc_summary_{self.summaries_made}", "Context Summary"
            metadata = {"created_by": created_by}
        policy = message.policy or GCPolicy.PRESERVABLE
        self.budget.add_child(
            _CONVERSATION, key, tokens, policy, label, metadata, message_ids=[message_id]
        )

    def _book_again(self, message: Message, tokens: int) -> None:
        """Books a message of an earlier turn that is restored, in an entry of its own."""
        policy = message.policy or self._policy_by_rule(message) or GCPolicy.PARTIAL
        self._add_entry(f"restored_{message.message_id}", policy, message, tokens)

    def apply(self, edits: Sequence[Edit], created_by: str | None) -> list[BookedEntry]:
        """Follows some edits. Returns the entries they touched as they were, parents first.

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
        budget.remove_messages(removed, note)
        for message in added.values():
            tokens = message_tokens(message, budget.counter)
            if created_by is None:
                self._book_again(message, tokens)
            else:
                self.book(message, tokens, created_by)
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
                since = [each for each in entry.message_ids if each not in old.message_ids]
                total = old.tokens + sum(tokens[message_id] for message_id in since)
                self.budget.rebook(entry, total, [*old.message_ids, *since])
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
                    return self._tool_policies[named.name]
        policy = self._policy_of(message) if self._policy_of else None
        return None if policy is None else GCPolicy(policy)

    def _add_entry(
        self,
        key: str,
        policy: GCPolicy,
        message: Message,
        tokens: int,
        parent_key: str | None = None,
        source: InstructionSource = _CONVERSATION,
    ) -> None:
        ids = [message.message_id]
        self.budget.add_child(source, key, tokens, policy, message_ids=ids, parent_key=parent_key)
