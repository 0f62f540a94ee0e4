"""The instruction budget: the tokens of a context by source, policy and age."""

import math
from collections.abc import Iterable, Mapping, Set
from contextlib import AbstractContextManager
from typing import Any

from jaato_gc.budget.entry import SourceEntry
from jaato_gc.budget.snapshots import SavedBudget, conversation_in, snapshot_of
from jaato_gc.budget.tree import EntryTree
from jaato_gc.commit import Commit, Guard, guarded
from jaato_gc.errors import GCError
from jaato_gc.frozen import FrozenEntries
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
        self._tree = EntryTree()

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
        return sum(self._tree.by_policy.values())

    def gc_eligible_tokens(self) -> int:
        """Returns the tokens that a collection may remove without pressure."""
        return sum(self._tree.by_policy[policy] for policy in REMOVABLE_POLICIES)

    def locked_tokens(self) -> int:
        """Returns the tokens that no collection may remove."""
        return self._tree.by_policy[GCPolicy.LOCKED]

    def fixed_tokens(self) -> int:
        """Returns the tokens that are LOCKED, pinned or sent beside the history, as reported."""
        return self.corrected(self._tree.fixed.booked)

    def preservable_tokens(self) -> int:
        """Returns the tokens that a collection may remove only under pressure."""
        return self._tree.by_policy[GCPolicy.PRESERVABLE]

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
        return self._tree.fixed.pinned.keys()

    @pinned_message_ids.setter
    @guarded
    def pinned_message_ids(self, message_ids: Iterable[str]) -> None:
        commit = Commit()
        self.replace_pins(commit, message_ids)
        self._guard.commit(commit)

    def replace_pins(self, commit: Commit, message_ids: Iterable[str]) -> None:
        """Prepares other pins."""
        self._tree.fixed.replace_pins(commit, message_ids, self._tree.by_message)

    # --- reading ---

    @property
    def entries(self) -> Mapping[InstructionSource, SourceEntry]:
        """The entry of each source at this moment, read-only."""
        return FrozenEntries(self._tree.sources)

    def get_entry(self, source: InstructionSource) -> SourceEntry | None:
        """Returns the entry of a source."""
        return self._tree.sources.get(source)

    def get_child(self, source: InstructionSource, child_key: str | None) -> SourceEntry | None:
        """Returns the entry under a key, at any depth below the source."""
        return None if child_key is None else self._tree.by_key.get((source, child_key))

    def entry_under(
        self, source: InstructionSource, child_key: str | None = None
    ) -> SourceEntry | None:
        """Returns the entry under a key of a source; without a key, of the source."""
        return self._tree.by_key.get((source, child_key))

    def entry_of(self, message_id: str) -> SourceEntry | None:
        """Returns the entry that a message is booked under."""
        return self._tree.by_message.get(message_id)

    def collections_survived(self, message_id: str) -> int:
        """Returns the number of collections since the entry of a message was created."""
        entry = self._tree.by_message.get(message_id)
        return max(0, self.collections - entry._born) if entry else 0

    # --- changing ---

    @guarded
    def forget_collection(self) -> None:
        """Follows the undo of a collection: messages that came after it have not survived it."""
        self.collections -= 1
        for entry in self._tree.walk():
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
        entry = SourceEntry(source, tokens, policy, label, children, metadata)
        self._tree.set_source(entry)
        return entry

    @guarded
    def update_tokens(
        self, source: InstructionSource, tokens: int, child_key: str | None = None
    ) -> None:
        """Sets the own tokens of a source, or of the child under a key."""
        commit = Commit()
        self._tree.update_tokens(commit, self._tree.required(source, child_key), tokens)
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
        if source not in self._tree.sources:
            self.set_entry(source, 0)
        parent = self._tree.required(source, parent_key)
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
        self._tree.attach(commit, child, child_key, parent, self.collections)
        self._guard.commit(commit)
        return child

    @guarded
    def remove_child(self, source: InstructionSource, child_key: str) -> bool:
        """Removes the entry under a key and everything below it. Returns whether there was one."""
        entry = self.get_child(source, child_key)
        if entry is None:
            return False
        self._tree.remove(entry)
        return True

    @guarded
    def remove_messages(self, tokens: Mapping[str, int]) -> None:
        """Removes messages from their entries, and entries that are empty then.

        Args:
            tokens: The booked tokens of each message, by message id.
        """
        self._tree.remove_messages(tokens)

    @guarded
    def clear_source(self, source: InstructionSource) -> None:
        """Removes the tokens and children of a source. Its policy and label stay."""
        entry = self._tree.sources.get(source)
        if entry is not None:
            self.set_entry(source, 0, entry.gc_policy, entry.label)

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
            budget._tree.set_source(SourceEntry.from_dict(entry))
        return budget

    @guarded
    def copy(self) -> "InstructionBudget":
        """Returns another budget with the same figures."""
        copied = InstructionBudget.__new__(InstructionBudget)
        copied.__dict__.update(
            vars(self),
            _guard=Guard(),
            _tree=self._tree.copy(),
            collectable_sources=set(self.collectable_sources),
        )
        return copied

    def replace_entries(self, commit: Commit, other: "InstructionBudget") -> None:
        """Prepares to continue with the entries of another budget. Pins and views of this one stay.

        The same commit may have replaced the pins before, so they are read when it is written.
        """

        def write() -> None:
            other._tree.fixed.pinned = self._tree.fixed.pinned
            self._tree, self.collections = other._tree, other.collections

        commit.then(write)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_guard"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, _guard=Guard())

    @guarded
    def get_conversation_snapshot(self) -> dict[str, Any] | None:
        """Returns the CONVERSATION entry and the pins, for hosts that rebuild the other sources."""
        entry = self._tree.sources.get(InstructionSource.CONVERSATION)
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
        self._tree.set_source(SourceEntry.from_dict(saved))
        self.pinned_message_ids = pinned
