"""The instruction budget: the tokens of a context by source, policy and age."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

from jaato_gc.budget.entry import SourceEntry
from jaato_gc.budget.fixed import FixedTokens
from jaato_gc.budget.snapshots import SavedBudget, conversation_in, snapshot_of
from jaato_gc.commit import AT_ONCE, Commit, Guard, guarded
from jaato_gc.errors import GCError
from jaato_gc.policies import (
    DEFAULT_SOURCE_POLICIES,
    REMOVABLE_POLICIES,
    GCPolicy,
    InstructionSource,
)
from jaato_gc.tokens import DEFAULT_COUNTER, TokenCounter


class InstructionBudget:
    """The tokens of a session's next request, by source, with the policy of each.

    The methods keep all totals up to date, so reading one is O(1). Keys are unique within a source
    at any depth. A message belongs to one entry. Threads may share a budget: a snapshot never shows
    half of a change.

    Args:
        session_id: The session that it belongs to, for displays.
        agent_id: The agent in that session.
        agent_type: What kind of agent that is; the same as ``agent_id`` if not given.
        context_limit: The model's window.
        counter: Counts the tokens; strategies use the same counter.
    """

    def __init__(
        self,
        session_id: str = "",
        agent_id: str = "main",
        agent_type: str | None = None,
        context_limit: int = 128_000,
        counter: TokenCounter = DEFAULT_COUNTER,
    ) -> None:
        self._guard = Guard()
        self.session_id = session_id
        self.agent_id = agent_id
        self.agent_type = agent_type or agent_id
        self.context_limit = context_limit
        self.counter = counter
        self.ratio = 1.0
        """Reported tokens per counted token: see `jaato_gc.budget.calibration`."""
        self.unbooked_tokens = 0
        """Tokens that the provider reports beside what is booked: a prompt, say, or tools."""
        self.collectable_sources: set[InstructionSource] = set(InstructionSource)
        """The sources that a collection may remove from, as far as the host can drop content."""
        self.is_booked = False
        """Whether a session books its messages here, as counted. Else a host's figures stand."""
        self.is_recounted = False
        """Whether a host counts its history again after a collection. Otherwise, the entries that
        it books itself are removed as a whole, and their messages are not shortened."""
        self.has_stash = False
        """Whether removed content goes to a stash, so that notes may name the key of it."""
        self.uncertain_tokens: int | None = None
        """Tokens that the provider has not reported on; ``None``: all."""
        self.collections = 0
        """The number of applied collections: see `collections_survived`."""
        self._entries: dict[InstructionSource, SourceEntry] = {}
        self._by_key: dict[tuple[InstructionSource, str | None], SourceEntry] = {}
        self._by_message: dict[str, SourceEntry] = {}
        self._by_policy: dict[GCPolicy, int] = dict.fromkeys(GCPolicy, 0)
        self._fixed = FixedTokens()

    @classmethod
    def create_default(
        cls,
        session_id: str = "",
        agent_id: str = "main",
        agent_type: str | None = None,
        context_limit: int = 128_000,
        counter: TokenCounter = DEFAULT_COUNTER,
    ) -> "InstructionBudget":
        """Returns a budget with an empty entry for every source, under its default policy."""
        budget = cls(session_id, agent_id, agent_type, context_limit, counter)
        for source in InstructionSource:
            budget.set_entry(source, 0)
        return budget

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held during every change. Take it for several changes that belong together."""
        return self._guard.lock

    # --- totals, all O(1) ---

    def total_tokens(self) -> int:
        """Returns the tokens of the next request, corrected by reported usage."""
        return self.corrected(self.counted_tokens())

    def corrected(self, counted: int) -> int:
        """Returns what the provider would report for a request with so many counted tokens."""
        return int(self.ratio * counted) + self.unbooked_tokens

    def upper_bound(self) -> int:
        """Returns the most tokens that the next request can have.

        Reported usage is certain; what changed since is as reliable as the counter.
        """
        counted = self.counted_tokens()
        uncertain = counted if self.uncertain_tokens is None else self.uncertain_tokens
        margin = self.ratio * min(uncertain, counted) * self.counter.tolerance
        return self.total_tokens() + math.ceil(margin)

    def counted_tokens(self) -> int:
        """Returns the counted tokens of the next request, before the correction."""
        return sum(self._by_policy.values())

    def gc_eligible_tokens(self) -> int:
        """Returns the tokens that a collection may remove without pressure."""
        return sum(self._by_policy[policy] for policy in REMOVABLE_POLICIES)

    def locked_tokens(self) -> int:
        """Returns the tokens that no collection may remove."""
        return self._by_policy[GCPolicy.LOCKED]

    def fixed_tokens(self) -> int:
        """Returns the tokens that are LOCKED, pinned or sent beside the history, as reported."""
        return self.corrected(self._fixed.booked)

    def preservable_tokens(self) -> int:
        """Returns the tokens that a collection may remove only under pressure."""
        return self._by_policy[GCPolicy.PRESERVABLE]

    def utilization_percent(self) -> float:
        """Returns how full the window is, in percent; 0 if the window is unknown."""
        return self._percent_of_window(self.total_tokens())

    def available_tokens(self) -> int:
        """Returns the tokens left in the window, never negative."""
        return max(0, self.context_limit - self.total_tokens())

    def gc_headroom_percent(self) -> float:
        """Returns the percentage of the window that a collection could free without pressure."""
        return self._percent_of_window(self.gc_eligible_tokens())

    def _percent_of_window(self, tokens: int) -> float:
        return tokens / self.context_limit * 100 if self.context_limit > 0 else 0.0

    # --- pins ---

    @property
    def pinned_message_ids(self) -> Set[str]:
        """The messages that no collection may remove, read-only. Assign others to change them."""
        return self._fixed.pinned.keys()

    @pinned_message_ids.setter
    @guarded
    def pinned_message_ids(self, message_ids: Iterable[str]) -> None:
        commit = Commit()
        self.replace_pins(commit, message_ids)
        self._guard.commit(commit)

    def replace_pins(self, commit: Commit, message_ids: Iterable[str]) -> None:
        """Prepares other pins."""
        self._fixed.replace_pins(commit, message_ids, self._by_message)

    # --- reading ---

    @property
    def entries(self) -> Mapping[InstructionSource, SourceEntry]:
        """The entry of each source, read-only."""
        return MappingProxyType(self._entries)

    def get_entry(self, source: InstructionSource) -> SourceEntry | None:
        """Returns the entry of a source."""
        return self._entries.get(source)

    def get_child(self, source: InstructionSource, child_key: str | None) -> SourceEntry | None:
        """Returns the entry under a key, at any depth below the source."""
        return None if child_key is None else self._by_key.get((source, child_key))

    def entry_under(
        self, source: InstructionSource, child_key: str | None = None
    ) -> SourceEntry | None:
        """Returns the entry under a key of a source; without a key, of the source."""
        return self._by_key.get((source, child_key))

    def entry_of(self, message_id: str) -> SourceEntry | None:
        """Returns the entry that a message is booked under."""
        return self._by_message.get(message_id)

    def collections_survived(self, message_id: str) -> int:
        """Returns the number of collections since the entry of a message was created."""
        entry = self._by_message.get(message_id)
        return max(0, self.collections - entry._born) if entry else 0

    # --- changing ---

    @guarded
    def forget_collection(self) -> None:
        """Follows the undo of a collection: messages that came after it have not survived it."""
        self.collections -= 1
        for source in self._entries.values():
            for entry in source.walk():
                entry._born = min(entry._born, self.collections)

    @guarded
    def set_entry(
        self,
        source: InstructionSource,
        tokens: int,
        gc_policy: GCPolicy | None = None,
        label: str | None = None,
        children: Mapping[str, SourceEntry] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SourceEntry:
        """Sets or replaces the entry of a source, children included."""
        policy = gc_policy or DEFAULT_SOURCE_POLICIES[source]
        return self._put_source(SourceEntry(source, tokens, policy, label, children, metadata))

    @guarded
    def update_tokens(
        self, source: InstructionSource, tokens: int, child_key: str | None = None
    ) -> None:
        """Sets the own tokens of a source, or of the child under a key."""
        entry = self._require(source, child_key)
        if tokens < 0:
            raise GCError(f"{entry!r} can't hold {tokens} tokens: give 0 or more")
        commit, growth = Commit(), tokens - entry._tokens
        self._add_tokens(commit, entry, growth)
        self._fixed.grow(commit, growth if self._fixed.counts(entry) else 0)
        self._guard.commit(commit)

    @guarded
    def add_child(
        self,
        source: InstructionSource,
        child_key: str,
        tokens: int,
        gc_policy: GCPolicy,
        label: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        created_at: float | None = None,
        message_ids: Iterable[str] = (),
        parent_key: str | None = None,
    ) -> SourceEntry:
        """Adds an entry below a source, or below another child of it. Replaces one of that key."""
        if source not in self._entries:
            self.set_entry(source, 0)
        parent = self._require(source, parent_key)
        above = parent
        while above._parent is not None:
            if above._key == child_key:
                raise GCError(f"{child_key!r} can't be below itself: give another parent_key")
            above = above._parent
        child = SourceEntry(
            source, tokens, gc_policy, label or child_key, None, metadata, created_at, message_ids
        )
        self.remove_child(source, child_key)
        commit = Commit()
        self.attach(commit, child, child_key, parent)
        self._guard.commit(commit)
        return child

    def attach(
        self,
        commit: Commit,
        entry: SourceEntry,
        key: str | None,
        parent: SourceEntry | None,
        pins: Sequence[str] = (),
    ) -> None:
        """Prepares a new entry with everything below it. A source has neither key nor parent."""
        entry._key, entry._parent = key, parent
        siblings: dict[Any, SourceEntry] = parent._children if parent else self._entries
        entries = list(entry.walk())
        by_policy = self._by_policy.copy()
        for new in entries:
            by_policy[new.binding_policy()] += new._tokens
            new._born = self.collections if parent else new._born

        def write() -> None:
            siblings[entry._source if key is None else key] = entry
            for new in entries:
                self._by_key[new._source, new._key] = new
                self._by_message.update(dict.fromkeys(new._message_ids, new))
            self._by_policy.update(by_policy)

        commit.then(write)
        self._fixed.add(commit, entries, pins)
        if parent:
            parent._add_to_totals(commit, entry._total)

    def attach_message(
        self,
        commit: Commit,
        entry: SourceEntry,
        message_id: str,
        tokens: int,
        pins: Sequence[str] = (),
    ) -> None:
        """Prepares another message under an existing entry, which may be pinned."""
        place = len(entry._message_ids)

        def write() -> None:
            entry._message_ids[place:] = [message_id]
            self._by_message[message_id] = entry

        self._fixed.add_message(commit, entry, message_id, tokens, pins)
        commit.then(write)
        self._add_tokens(commit, entry, tokens)

    def _add_tokens(self, commit: Commit, entry: SourceEntry, tokens: int) -> None:
        policy, own = entry.binding_policy(), entry._tokens + tokens
        under_policy = self._by_policy[policy] + tokens

        def write() -> None:
            entry._tokens, self._by_policy[policy] = own, under_policy

        commit.then(write)
        entry._add_to_totals(commit, tokens)

    @guarded
    def remove_child(self, source: InstructionSource, child_key: str) -> bool:
        """Removes the entry under a key and everything below it. Returns whether there was one."""
        entry = self.get_child(source, child_key)
        if entry is None or entry._parent is None:
            return False
        self._leave(entry)
        del entry._parent._children[child_key]
        entry._parent._add_to_totals(AT_ONCE, -entry._total)
        entry._parent = None
        return True

    @guarded
    def remove_messages(
        self,
        tokens: Mapping[str, int],
        note: Callable[[SourceEntry], object] = lambda _: None,
    ) -> None:
        """Removes messages from their entries, and entries that are empty then.

        Args:
            tokens: The booked tokens of each message, by message id.
            note: Called with an entry before it loses a message or is removed.
        """
        for message_id, tokens_of_message in tokens.items():
            entry = self._by_message.pop(message_id, None)
            if entry is None:
                continue
            note(entry)
            self._fixed.booked -= self._fixed.part(entry)
            entry._message_ids.remove(message_id)
            self._add_tokens(AT_ONCE, entry, -min(tokens_of_message, entry._tokens))
            self._fixed.booked += self._fixed.part(entry)
            while entry and entry._key and entry.is_empty:
                note(entry)
                parent = entry._parent
                self.remove_child(entry._source, entry._key)
                entry = parent

    @guarded
    def rebook(self, entry: SourceEntry, tokens: int, message_ids: Iterable[str]) -> None:
        """Replaces the tokens and messages of an entry. Its children stay."""
        for message_id in entry._message_ids:
            self._by_message.pop(message_id, None)
        self._fixed.booked -= self._fixed.part(entry)
        entry._message_ids = list(message_ids)
        self._fixed.booked += self._fixed.part(entry)
        self._by_message.update(dict.fromkeys(entry._message_ids, entry))
        self.update_tokens(entry.source, tokens, entry.key)

    @guarded
    def clear_source(self, source: InstructionSource) -> None:
        """Removes the tokens and children of a source. Its policy and label stay."""
        entry = self._entries.get(source)
        if entry is not None:
            self.set_entry(source, 0, entry.gc_policy, entry.label)

    def _require(self, source: InstructionSource, child_key: str | None) -> SourceEntry:
        entry = self.entry_under(source, child_key)
        if entry is None:
            what = source.value if child_key is None else f"{source.value}/{child_key}"
            raise GCError(f"the budget has no entry {what!r}: add it with set_entry or add_child")
        return entry

    def _put_source(self, entry: SourceEntry) -> SourceEntry:
        if old := self._entries.get(entry.source):
            self._leave(old)
        self.attach(AT_ONCE, entry, None, None)
        return entry

    def _leave(self, entry: SourceEntry) -> None:
        for old in entry.walk():
            self._by_policy[old.binding_policy()] -= old._tokens
            self._fixed.booked -= self._fixed.part(old)
            self._by_key.pop((old._source, old._key), None)
            for message_id in old._message_ids:
                if self._by_message.get(message_id) is old:
                    del self._by_message[message_id]

    # --- saving ---

    @guarded
    def snapshot(self) -> dict[str, Any]:
        """Returns the whole budget as JSON data, for displays and for `from_snapshot`."""
        return snapshot_of(self)

    to_dict = snapshot

    @classmethod
    def from_snapshot(
        cls, snapshot: Mapping[str, Any] | SavedBudget, counter: TokenCounter = DEFAULT_COUNTER
    ) -> "InstructionBudget":
        """Returns the budget that `snapshot` described. Give the same counter."""
        saved = SavedBudget.read(snapshot, "the snapshot of the budget")
        budget = cls(
            saved.session_id, saved.agent_id, saved.agent_type, saved.context_limit, counter
        )
        budget.ratio, budget.unbooked_tokens = saved.ratio, saved.unbooked_tokens
        budget.pinned_message_ids = saved.pinned_message_ids
        budget.collectable_sources = set(saved.collectable_sources)
        budget.is_booked, budget.is_recounted = saved.is_booked, saved.is_recounted
        budget.collections = saved.collections
        for entry in saved.entries.values():
            budget._put_source(SourceEntry.from_dict(entry))
        return budget

    @guarded
    def copy(self) -> "InstructionBudget":
        """Returns another budget with the same figures."""
        copied = InstructionBudget.__new__(InstructionBudget)
        copied.__dict__.update(
            vars(self),
            _fixed=self._fixed.copy(),
            collectable_sources=set(self.collectable_sources),
            _guard=Guard(),
            _entries={source: entry.copy() for source, entry in self._entries.items()},
            _by_policy=dict(self._by_policy),
        )
        entries = [entry for root in copied._entries.values() for entry in root.walk()]
        copied._by_key = {(entry._source, entry._key): entry for entry in entries}
        copied._by_message = {
            message_id: entry for entry in entries for message_id in entry._message_ids
        }
        return copied

    def replace_entries(self, commit: Commit, other: "InstructionBudget") -> None:
        """Prepares to continue with the entries of another budget. Views of this one stay."""
        commit.assign(
            self,
            _entries=other._entries,
            _by_key=other._by_key,
            _by_message=other._by_message,
            _by_policy=other._by_policy,
            collections=other.collections,
        )
        commit.assign(self._fixed, booked=other._fixed.booked)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_guard"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, _guard=Guard())

    @guarded
    def get_conversation_snapshot(self) -> dict[str, Any] | None:
        """Returns the CONVERSATION entry and the pins, for hosts that rebuild the other sources."""
        entry = self._entries.get(InstructionSource.CONVERSATION)
        if entry is None:
            return None
        return entry.to_dict() | {"pinned_message_ids": sorted(self.pinned_message_ids)}

    @guarded
    def restore_conversation_from_snapshot(self, snapshot: Mapping[str, Any] | None) -> None:
        """Restores the conversation from `get_conversation_snapshot` or from a whole `snapshot`.

        An empty snapshot changes nothing.

        Raises:
            GCError: It is no snapshot of a conversation.
        """
        if not snapshot:
            return
        saved, pinned = conversation_in(snapshot)
        self._put_source(SourceEntry.from_dict(saved))
        self.pinned_message_ids = pinned
