"""The entries of a budget with everything that is known about them without a search.

Totals are read before every request, so each change keeps them up to date instead of counting
again. A change is prepared in a `Commit`, or made at once on a copy that no thread shares.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy

from jaato_gc.budget.entry import SourceEntry
from jaato_gc.budget.fixed import FixedTokens
from jaato_gc.commit import AT_ONCE, Commit
from jaato_gc.errors import GCError
from jaato_gc.policies import GCPolicy, InstructionSource


class EntryTree:
    """Entries by source, by key and by message, and their tokens by policy.

    Keys are unique within a source at any depth. A message belongs to one entry.
    """

    def __init__(self) -> None:
        self.sources: dict[InstructionSource, SourceEntry] = {}
        self.by_key: dict[tuple[InstructionSource, str | None], SourceEntry] = {}
        self.by_message: dict[str, SourceEntry] = {}
        self.by_policy: dict[GCPolicy, int] = dict.fromkeys(GCPolicy, 0)
        self.fixed = FixedTokens()

    def walk(self) -> Iterator[SourceEntry]:
        """Returns all entries, parents first."""
        for source in self.sources.values():
            yield from source.walk()

    def required(self, source: InstructionSource, key: str | None) -> SourceEntry:
        """Returns the entry under a key of a source; without a key, of the source.

        Raises:
            GCError: There is none.
        """
        entry = self.by_key.get((source, key))
        if entry is None:
            what = source.value if key is None else f"{source.value}/{key}"
            raise GCError(f"the budget has no entry {what!r}: add it with set_entry or add_child")
        return entry

    # --- prepared changes ---

    def attach(
        self,
        commit: Commit,
        entry: SourceEntry,
        key: str,
        parent: SourceEntry,
        born: int,
        pins: Sequence[str] = (),
    ) -> None:
        """Prepares a new entry with everything below it.

        Args:
            commit: The change that it belongs to.
            entry: The entry.
            key: Its key.
            parent: The entry above it.
            born: The number of collections before it.
            pins: Its messages that are pinned.
        """
        entry._key, entry._parent = key, parent
        for new in entry.walk():
            new._born = born
        commit.then(lambda: parent._children.update({key: entry}))
        self._enter(commit, entry, pins)
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
            self.by_message[message_id] = entry

        self.fixed.add_message(commit, entry, message_id, tokens, pins)
        commit.then(write)
        self._add_tokens(commit, entry, tokens)

    def update_tokens(self, commit: Commit, entry: SourceEntry, tokens: int) -> None:
        """Prepares other tokens of an entry.

        Raises:
            GCError: They are negative.
        """
        if tokens < 0:
            raise GCError(f"{entry!r} can't hold {tokens} tokens: give 0 or more")
        growth = tokens - entry._tokens
        self.fixed.grow(commit, entry, growth)
        self._add_tokens(commit, entry, growth)

    def _enter(self, commit: Commit, entry: SourceEntry, pins: Sequence[str] = ()) -> None:
        entries = list(entry.walk())
        by_policy = self.by_policy.copy()
        for new in entries:
            by_policy[new.binding_policy()] += new._tokens

        def write() -> None:
            for new in entries:
                self.by_key[new._source, new._key] = new
                self.by_message.update(dict.fromkeys(new._message_ids, new))
            self.by_policy.update(by_policy)

        commit.then(write)
        self.fixed.add(commit, entries, pins)

    def _add_tokens(self, commit: Commit, entry: SourceEntry, tokens: int) -> None:
        policy, own = entry.binding_policy(), entry._tokens + tokens
        under_policy = self.by_policy[policy] + tokens

        def write() -> None:
            entry._tokens, self.by_policy[policy] = own, under_policy

        commit.then(write)
        entry._add_to_totals(commit, tokens)

    # --- changes at once ---

    def set_source(self, entry: SourceEntry) -> None:
        """Sets or replaces the entry of a source, children included."""
        if old := self.sources.get(entry.source):
            self._leave(old)
        entry._key = entry._parent = None
        self.sources[entry.source] = entry
        self._enter(AT_ONCE, entry)

    def remove(self, entry: SourceEntry) -> None:
        """Removes an entry and everything below it. The entry of a source stays."""
        if entry._parent is None or entry._key is None:
            return
        self._leave(entry)
        del entry._parent._children[entry._key]
        entry._parent._add_to_totals(AT_ONCE, -entry._total)
        entry._parent = None

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
            entry = self.by_message.pop(message_id, None)
            if entry is None:
                continue
            note(entry)
            self.fixed.booked -= self.fixed.part(entry)
            entry._message_ids.remove(message_id)
            self._add_tokens(AT_ONCE, entry, -min(tokens_of_message, entry._tokens))
            self.fixed.booked += self.fixed.part(entry)
            while entry and entry._key and entry.is_empty:
                note(entry)
                parent = entry._parent
                self.remove(entry)
                entry = parent

    def rebook(self, entry: SourceEntry, tokens: int, message_ids: Iterable[str]) -> None:
        """Replaces the tokens and messages of an entry. Its children stay."""
        for message_id in entry._message_ids:
            self.by_message.pop(message_id, None)
        self.fixed.booked -= self.fixed.part(entry)
        entry._message_ids = list(message_ids)
        self.fixed.booked += self.fixed.part(entry)
        self.by_message.update(dict.fromkeys(entry._message_ids, entry))
        self.update_tokens(AT_ONCE, entry, tokens)

    def _leave(self, entry: SourceEntry) -> None:
        for old in entry.walk():
            self.by_policy[old.binding_policy()] -= old._tokens
            self.fixed.booked -= self.fixed.part(old)
            self.by_key.pop((old._source, old._key), None)
            for message_id in old._message_ids:
                if self.by_message.get(message_id) is old:
                    del self.by_message[message_id]

    # --- copies ---

    def copy(self) -> "EntryTree":
        """Returns another tree with copies of the entries."""
        copied = EntryTree()
        copied.sources = {source: entry.copy() for source, entry in self.sources.items()}
        for entry in copied.walk():
            copied.by_key[entry._source, entry._key] = entry
            copied.by_message.update(dict.fromkeys(entry._message_ids, entry))
        copied.by_policy, copied.fixed = self.by_policy.copy(), self.fixed.copy()
        return copied

    def view(self) -> "EntryTree":
        """Returns a tree with the same entries, and pins of its own."""
        view = copy(self)
        view.fixed = self.fixed.copy()
        return view
