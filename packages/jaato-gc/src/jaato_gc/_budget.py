"""The instruction budget: what fills the context window, by source, policy and age."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from jaato_gc._errors import GCError
from jaato_gc._policies import DEFAULT_SOURCE_POLICIES, LOCKED, GCPolicy, InstructionSource
from jaato_gc._source_entry import MOVABLE_POLICIES, SourceEntry
from jaato_gc._tokens import DEFAULT_COUNTER, TokenCounter


class InstructionBudget:
    """The tokens of a session's next request, by source, and the policy of each.

    Totals are kept up to date by the methods below and cost nothing to ask for. Keys are unique
    within a source at any depth. A message belongs to one entry.

    Args:
        context_limit: The model's window.
        counter: What its token figures were counted with; strategies count with the same.
    """

    def __init__(
        self,
        session_id: str = "",
        agent_id: str = "main",
        agent_type: str | None = None,
        context_limit: int = 128_000,
        counter: TokenCounter = DEFAULT_COUNTER,
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.agent_type = agent_type
        self.context_limit = context_limit
        self.counter = counter
        self.correction = 0
        """What the provider reports minus what was counted: one signed number in the total."""
        self.pinned_message_ids: set[str] = set()
        self.collectable_sources: set[InstructionSource] = {InstructionSource.CONVERSATION}
        """What a collection may take from: more than the conversation if the host can drop it."""
        self.has_stash = False
        """Whether what a collection removes is kept, so that stubs may name the key to it."""
        self.collections = 0
        """How many collections were applied: see `collections_survived`."""
        self.rebookings = 0
        """How often booked messages may have come under another policy."""
        self._entries: dict[InstructionSource, SourceEntry] = {}
        self._by_key: defaultdict[InstructionSource, dict[str, SourceEntry]] = defaultdict(dict)
        self._by_message: dict[str, SourceEntry] = {}
        self._by_policy: dict[GCPolicy, int] = dict.fromkeys(GCPolicy, 0)
        self._counted = 0

    @classmethod
    def create_default(
        cls,
        session_id: str = "",
        agent_id: str = "main",
        agent_type: str | None = None,
        context_limit: int = 128_000,
        counter: TokenCounter = DEFAULT_COUNTER,
    ) -> "InstructionBudget":
        """A budget with an empty entry for every source, under its default policy."""
        budget = cls(session_id, agent_id, agent_type, context_limit, counter)
        for source in InstructionSource:
            budget.set_entry(source, 0)
        return budget

    # --- totals, all O(1) ---

    def total_tokens(self) -> int:
        """Tokens of the next request, corrected by what the provider reported."""
        total = self._counted + self.correction
        return total if total > 0 else 0

    def counted_tokens(self) -> int:
        """Tokens of the next request as counted, before the correction."""
        return self._counted

    def gc_eligible_tokens(self) -> int:
        """Tokens that a collection may take without pressure."""
        return sum(self._by_policy[policy] for policy in MOVABLE_POLICIES)

    def locked_tokens(self) -> int:
        """Tokens that no collection may take."""
        return self._by_policy[LOCKED]

    def preservable_tokens(self) -> int:
        """Tokens that a collection may take only under pressure."""
        return self._by_policy[GCPolicy.PRESERVABLE]

    def utilization_percent(self) -> float:
        """How full the window is, in percent; 0 where the window is unknown."""
        return self._percent_of_window(self.total_tokens())

    def available_tokens(self) -> int:
        """Tokens left in the window, never negative."""
        return max(0, self.context_limit - self.total_tokens())

    def gc_headroom_percent(self) -> float:
        """How much of the window a collection could free without pressure, in percent."""
        return self._percent_of_window(self.gc_eligible_tokens())

    def _percent_of_window(self, tokens: int) -> float:
        return tokens / self.context_limit * 100 if self.context_limit > 0 else 0.0

    # --- reading ---

    @property
    def entries(self) -> Mapping[InstructionSource, SourceEntry]:
        """The entry of each source: a view to read."""
        return MappingProxyType(self._entries)

    def get_entry(self, source: InstructionSource) -> SourceEntry | None:
        """The entry of a source."""
        return self._entries.get(source)

    def get_child(self, source: InstructionSource, child_key: str | None) -> SourceEntry | None:
        """The entry under this key, at any depth below the source."""
        below = self._by_key.get(source)
        return below.get(child_key) if below and child_key is not None else None

    def entry_of(self, message_id: str) -> SourceEntry | None:
        """The entry that a message is booked under."""
        return self._by_message.get(message_id)

    def collections_survived(self, message_id: str) -> int:
        """How many collections left a message where it was, as far as its entry knows."""
        entry = self._by_message.get(message_id)
        return max(0, self.collections - entry.born) if entry else 0

    # --- changing ---

    def set_entry(
        self,
        source: InstructionSource,
        tokens: int,
        gc_policy: GCPolicy | None = None,
        label: str | None = None,
        children: Mapping[str, SourceEntry] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SourceEntry:
        """Set or replace the entry of a source, children included."""
        policy = gc_policy or DEFAULT_SOURCE_POLICIES[source]
        return self._put_source(SourceEntry(source, tokens, policy, label, children, metadata))

    def update_tokens(
        self, source: InstructionSource, tokens: int, child_key: str | None = None
    ) -> None:
        """Set the own tokens of a source, or of the child under a key."""
        entry = self._require(source, child_key)
        if tokens < 0:
            raise GCError(f"{entry!r} can't hold {tokens} tokens: give 0 or more")
        self._add_tokens(entry, tokens - entry._tokens)

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
        """Add an entry below a source, or below another child of it; replaces one of that key."""
        if source not in self._entries:
            self.set_entry(source, 0)
        parent = self._require(source, parent_key)
        above = parent
        while above._parent is not None:
            if above.key == child_key:
                raise GCError(f"{child_key!r} can't stand below itself: give another parent_key")
            above = above._parent
        child = SourceEntry(
            source, tokens, gc_policy, label or child_key, None, metadata, created_at, message_ids
        )
        if not self._by_message.keys().isdisjoint(child.message_ids):
            self.rebookings += 1
        self._put_below(parent, child_key, child)
        return child

    def open_entry(
        self,
        parent: SourceEntry,
        child_key: str,
        gc_policy: GCPolicy,
        tokens: int = 0,
        message_ids: Iterable[str] = (),
    ) -> SourceEntry:
        """Add an entry below another entry of this budget, which has another key.

        `add_child` for whoever has the parent at hand: every turn does this.
        """
        child = SourceEntry(
            parent.source, tokens, gc_policy, child_key, None, None, None, message_ids
        )
        self._put_below(parent, child_key, child)
        return child

    def remove_child(self, source: InstructionSource, child_key: str) -> bool:
        """Remove the entry under a key and everything below it. False: there was none."""
        entry = self.get_child(source, child_key)
        if entry is None or entry._parent is None:
            return False
        self._leave(entry)
        entry._parent._add_to_totals(-entry._total)
        self._detach(entry)
        return True

    def add_message(
        self, source: InstructionSource, child_key: str, message_id: str, tokens: int
    ) -> None:
        """Book a message under an entry that exists."""
        if message_id in self._by_message:
            self.rebookings += 1
        self.book_message(self._require(source, child_key), message_id, tokens)

    def book_message(self, entry: SourceEntry, message_id: str, tokens: int) -> None:
        """Book a message under an entry of this budget."""
        entry.message_ids.append(message_id)
        self._by_message[message_id] = entry
        self._by_policy[entry._binding_policy] += tokens
        self._counted += tokens
        entry._tokens += tokens
        entry._add_to_totals(tokens)

    def remove_messages(
        self,
        tokens: Mapping[str, int],
        note: Callable[[SourceEntry], object] = lambda _: None,
    ) -> None:
        """Take messages out of their entries, and entries that are empty then out of the budget.

        Args:
            tokens: What each message was booked with, by message id.
            note: Told each entry that loses messages or goes, before it is changed.
        """
        freed: dict[int, int] = {}
        entries: list[SourceEntry] = []
        for message_id, tokens_of_message in tokens.items():
            entry = self._by_message.pop(message_id, None)
            if entry is None:
                continue
            if id(entry) in freed:
                freed[id(entry)] += tokens_of_message
            else:
                note(entry)
                entries.append(entry)
                freed[id(entry)] = tokens_of_message
        for entry in entries:
            entry.message_ids = [each for each in entry.message_ids if each not in tokens]
            self._add_tokens(entry, -min(freed[id(entry)], entry._tokens))
            while entry.key and not (entry.message_ids or entry._children or entry._tokens):
                parent = entry._parent
                if parent is None:
                    break
                note(entry)
                self._detach(entry)
                entry = parent

    def rebook(self, entry: SourceEntry, tokens: int, message_ids: Iterable[str]) -> None:
        """Give an entry other tokens and messages; its children stay."""
        self.rebookings += 1
        for message_id in entry.message_ids:
            self._by_message.pop(message_id, None)
        entry.message_ids = list(message_ids)
        for message_id in entry.message_ids:
            self._by_message[message_id] = entry
        self.update_tokens(entry.source, tokens, entry.key)

    def clear_source(self, source: InstructionSource) -> None:
        """Empty a source: no tokens, no children. Its policy and label stay."""
        entry = self._entries.get(source)
        if entry is not None:
            self.set_entry(source, 0, entry.gc_policy, entry.label)

    def _detach(self, entry: SourceEntry) -> None:
        """Take out an entry that no total counts any more."""
        if entry._parent is not None and entry.key is not None:
            self._by_key[entry.source].pop(entry.key, None)
            entry._parent._lose(entry.key)
            entry._parent = None

    def _add_tokens(self, entry: SourceEntry, difference: int) -> None:
        entry._tokens += difference
        entry._add_to_totals(difference)
        self._by_policy[entry._binding_policy] += difference
        self._counted += difference

    def _put_below(self, parent: SourceEntry, child_key: str, child: SourceEntry) -> None:
        """Add an entry that has no children; it replaces one of that key."""
        by_key = self._by_key[child.source]
        if child_key in by_key:
            self.remove_child(child.source, child_key)
        by_key[child_key] = child
        child.born = self.collections
        parent._adopt(child_key, child)
        for message_id in child.message_ids:
            self._by_message[message_id] = child
        tokens = child._tokens
        parent._add_to_totals(tokens)
        self._by_policy[child._binding_policy] += tokens
        self._counted += tokens

    def _require(self, source: InstructionSource, child_key: str | None) -> SourceEntry:
        entry = self.get_entry(source) if child_key is None else self.get_child(source, child_key)
        if entry is None:
            what = source.value if child_key is None else f"{source.value}/{child_key}"
            raise GCError(f"the budget has no entry {what!r}: add it with set_entry or add_child")
        return entry

    def _put_source(self, entry: SourceEntry) -> SourceEntry:
        if old := self._entries.get(entry.source):
            self._leave(old)
        self._entries[entry.source] = entry
        self._enter(entry)
        return entry

    def _enter(self, entry: SourceEntry) -> None:
        self.rebookings += 1
        for each in entry.walk():
            self._by_policy[each._binding_policy] += each._tokens
            self._counted += each._tokens
            if each.key is not None:
                self._by_key[each.source][each.key] = each
            for message_id in each.message_ids:
                self._by_message[message_id] = each

    def _leave(self, entry: SourceEntry) -> None:
        self.rebookings += 1
        for each in entry.walk():
            self._by_policy[each._binding_policy] -= each._tokens
            self._counted -= each._tokens
            if each.key is not None:
                self._by_key[each.source].pop(each.key, None)
            for message_id in each.message_ids:
                if self._by_message.get(message_id) is each:
                    del self._by_message[message_id]

    # --- saving ---

    def snapshot(self) -> dict[str, Any]:
        """The whole budget as JSON data, for displays and for `from_snapshot`."""
        return {
            "session_id": self.session_id,
            "agent_id": self.agent_id,
            "agent_type": self.agent_type,
            "context_limit": self.context_limit,
            "total_tokens": self.total_tokens(),
            "correction": self.correction,
            "confidence": self.counter.confidence.value,
            "gc_eligible_tokens": self.gc_eligible_tokens(),
            "locked_tokens": self.locked_tokens(),
            "preservable_tokens": self.preservable_tokens(),
            "utilization_percent": self.utilization_percent(),
            "available_tokens": self.available_tokens(),
            "gc_headroom_percent": self.gc_headroom_percent(),
            "pinned_message_ids": sorted(self.pinned_message_ids),
            "collectable_sources": sorted(self.collectable_sources),
            "collections": self.collections,
            "entries": {source.value: entry.to_dict() for source, entry in self._entries.items()},
        }

    to_dict = snapshot

    @classmethod
    def from_snapshot(
        cls, snapshot: Mapping[str, Any], counter: TokenCounter = DEFAULT_COUNTER
    ) -> "InstructionBudget":
        """The budget that `snapshot` described. The counter is not in it: give the same one."""
        budget = cls(
            snapshot["session_id"],
            snapshot["agent_id"],
            snapshot["agent_type"],
            snapshot["context_limit"],
            counter,
        )
        budget.correction = snapshot["correction"]
        budget.pinned_message_ids = set(snapshot["pinned_message_ids"])
        budget.collectable_sources = {
            InstructionSource(source) for source in snapshot["collectable_sources"]
        }
        budget.collections = snapshot["collections"]
        for entry in snapshot["entries"].values():
            budget._put_source(SourceEntry.from_dict(entry))
        return budget

    def copy(self) -> "InstructionBudget":
        """Another budget with the same figures, for whoever must not see later changes."""
        copied = type(self).from_snapshot(self.snapshot(), self.counter)
        copied.has_stash = self.has_stash
        copied.rebookings = self.rebookings
        return copied

    def get_conversation_snapshot(self) -> dict[str, Any] | None:
        """The CONVERSATION entry and the pins, for hosts that rebuild the other sources."""
        entry = self._entries.get(InstructionSource.CONVERSATION)
        if entry is None:
            return None
        return entry.to_dict() | {"pinned_message_ids": sorted(self.pinned_message_ids)}

    def restore_conversation_from_snapshot(self, snapshot: Mapping[str, Any] | None) -> None:
        """Put back what `get_conversation_snapshot` gave; nothing happens for an empty one."""
        if not snapshot:
            return
        self._put_source(SourceEntry.from_dict(snapshot))
        self.pinned_message_ids = set(snapshot.get("pinned_message_ids", ()))
