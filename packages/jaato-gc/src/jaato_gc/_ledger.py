"""Keeping the budget in step with the history: every message is booked once, under one entry."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaato_gc._budget import InstructionBudget
from jaato_gc._messages import SYSTEM, TOOL, USER, Message, SyntheticKind
from jaato_gc._policies import (
    DEFAULT_TURN_POLICIES,
    ConversationTurnType,
    GCPolicy,
    InstructionSource,
)
from jaato_gc._source_entry import SourceEntry
from jaato_gc._synthetic import NOTICE_ID
from jaato_gc._tokens import message_tokens

PolicyOf = Callable[[Message], GCPolicy | None]
"""A host's own word on how dear a message is; ``None`` leaves it to the defaults."""

_CONVERSATION = InstructionSource.CONVERSATION
_PARTIAL = GCPolicy.PARTIAL
_ORIGINAL_REQUEST = DEFAULT_TURN_POLICIES[ConversationTurnType.ORIGINAL_REQUEST]
_WORKING = DEFAULT_TURN_POLICIES[ConversationTurnType.WORKING]


@dataclass(slots=True)
class BookedEntry:
    """What an entry held before a change."""

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
        """What an entry holds now."""
        return cls(
            entry.source,
            entry.key or "",
            entry._parent.key if entry._parent else None,
            entry._tokens,
            entry._gc_policy,
            entry.label,
            dict(entry._metadata) if entry._metadata else {},
            entry.created_at,
            entry.born,
            tuple(entry.message_ids),
        )


class Ledger:
    """Books messages into a budget.

    System messages go under SYSTEM. The first user message is ``original_request``; every turn has
    an entry ``turn_N``, each exchange of calls and results in it one of its own below that. Numbers
    count on over the whole session and are never used again.
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

    def book(
        self,
        message: Message,
        tokens: int,
        has_calls: bool,
        has_results: bool,
        created_by: str | None = None,
    ) -> None:
        """Book a message, with the tokens that it has.

        Args:
            message: The message.
            tokens: Its tokens.
            has_calls: Whether there are calls in it.
            has_results: Whether there are results in it.
            created_by: Who made it, if a collection did.
        """
        synthetic = message.synthetic
        if synthetic is not None and synthetic is not SyntheticKind.RECALL:
            self._book_synthetic(message, tokens, created_by)
            return
        if message.role is SYSTEM:
            self._book_system(message, tokens)
            return
        policy = message.policy
        if policy is None and self._has_rules:
            policy = self._policy_by_rule(message)  # the host's code: before anything is changed
        opens_turn = message.role is USER and message.synthetic is None and not has_results
        first_request = opens_turn and self.turns_opened == 0
        if opens_turn:
            if not first_request:  # what came before the first request belongs to its turn
                self.exchanges_opened = 0
            self.turns_opened += 1
        self.exchanges_opened += has_calls
        if first_request:
            self._open("original_request", policy or _ORIGINAL_REQUEST, message, tokens)
            return
        # In the entry of the current turn, or in one below that.
        budget, message_id = self.budget, message.message_id
        below = budget._by_key[_CONVERSATION]
        turn_key = f"turn_{self.turns_opened - 1 if self.turns_opened else 0}"
        turn = below.get(turn_key)
        in_exchange = has_calls or has_results or message.role is TOOL
        if turn is None:
            root = budget.get_entry(_CONVERSATION) or budget.set_entry(_CONVERSATION, 0)
            if policy is None and not in_exchange:
                budget.open_entry(root, turn_key, _PARTIAL, tokens, (message_id,))
                return
            turn = budget.open_entry(root, turn_key, _PARTIAL)
        if policy is not None:
            key = f"{turn_key}_message_{message_id}"  # an id may look like "call_1"
            budget.open_entry(turn, key, policy, tokens, (message_id,))
        elif not in_exchange:
            budget.book_message(turn, message_id, tokens)
        else:
            exchange_key = f"{turn_key}_call_{self.exchanges_opened}"
            if has_calls:
                budget.open_entry(turn, exchange_key, _WORKING, tokens, (message_id,))
            else:
                budget.book_message(below.get(exchange_key) or turn, message_id, tokens)

    def _book_system(self, message: Message, tokens: int) -> None:
        policy = message.policy or GCPolicy.LOCKED
        ids = [message.message_id]
        self.budget.add_child(
            InstructionSource.SYSTEM, message.message_id, tokens, policy, message_ids=ids
        )

    def _book_synthetic(self, message: Message, tokens: int, created_by: str | None) -> None:
        if message.synthetic is SyntheticKind.NOTICE:
            # A collection leaves one at most; a host may append what others left.
            own = message.message_id == NOTICE_ID
            key = NOTICE_ID if own else f"{NOTICE_ID}_{message.message_id}"
            self._open(key, GCPolicy.PRESERVABLE, message, tokens, label="Notice")
            return
        self.summaries_made += 1
        self._open(
            f"gc_summary_{self.summaries_made}",
            GCPolicy.PRESERVABLE,
            message,
            tokens,
            label="Context Summary",
            metadata={"created_by": created_by},
        )

    def book_again(self, message: Message) -> None:
        """Book a message of an earlier turn that comes back: in an entry of its own."""
        policy = message.policy or self._policy_by_rule(message) or GCPolicy.PARTIAL
        tokens = message_tokens(message, self.budget.counter)
        self._open(f"restored_{message.message_id}", policy, message, tokens)

    def change(
        self, gone: Iterable[Message], come: Iterable[Message], created_by: str | None
    ) -> list[BookedEntry]:
        """Book a collection; returns what the entries it touched held before, parents first.

        A message that is in both under one id was cleared: it stays in its entry.

        Args:
            gone: What stood there before and does not now.
            come: What stands there now and did not before.
            created_by: Who made what is new; ``None``: nobody, it comes back.
        """
        gone_by_id = {message.message_id: message for message in gone}
        come = list(come)
        counted = {each.message_id: message_tokens(each, self.budget.counter) for each in come}
        touched: dict[str, BookedEntry] = {}

        def note(entry: SourceEntry) -> None:
            if entry.key is not None and entry.key not in touched:
                touched[entry.key] = BookedEntry.of(entry)

        cleared = {
            each.message_id for each in come if each.message_id in gone_by_id and not each.synthetic
        }
        for message_id in cleared:
            if entry := self.budget.entry_of(message_id):
                note(entry)
        self.budget.remove_messages(
            {
                message_id: message_tokens(message, self.budget.counter)
                for message_id, message in gone_by_id.items()
                if message_id not in cleared
            },
            note,
        )
        for message in come:
            entry = self.budget.entry_of(message.message_id)
            if message.message_id in cleared and entry is not None:
                before = message_tokens(gone_by_id[message.message_id], self.budget.counter)
                freed = before - counted[message.message_id]
                self.budget.update_tokens(entry.source, entry.tokens - freed, entry.key)
            elif created_by is None:
                self.book_again(message)
            else:
                has_calls = bool(message.function_calls)
                has_results = bool(message.function_responses)
                tokens = counted[message.message_id]
                self.book(message, tokens, has_calls, has_results, created_by)
        return sorted(touched.values(), key=lambda booked: booked.parent_key is not None)

    def revert(
        self,
        touched: Iterable[BookedEntry],
        added: Iterable[Message],
        tokens_of: Callable[[str], int],
    ) -> None:
        """Undo a `change`.

        Args:
            touched: What it returned.
            added: The synthetic messages that came with it.
            tokens_of: Tokens of a message that was booked since, by id.
        """
        counter = self.budget.counter
        self.budget.remove_messages(
            {message.message_id: message_tokens(message, counter) for message in added}
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
                entry.born = old.born

    @property
    def turn(self) -> int:
        """The number of the current turn; what comes before the first request belongs to it."""
        return self.turns_opened - 1 if self.turns_opened else 0

    def _policy_by_rule(self, message: Message) -> GCPolicy | None:
        """What the host said about the tool of a message, or about its like."""
        for part in message.parts:
            named = part.function_response or part.function_call
            if named and named.name in self._tool_policies:
                return self._tool_policies[named.name]
        policy = self._policy_of(message) if self._policy_of else None
        return None if policy is None else GCPolicy(policy)

    def _open(
        self,
        key: str,
        policy: GCPolicy,
        message: Message,
        tokens: int,
        label: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.budget.add_child(
            _CONVERSATION,
            key,
            tokens,
            policy,
            label,
            metadata,
            message_ids=[message.message_id],
        )
