"""The entries of the instruction budget."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from jaato_gc.budget.snapshots import SavedEntry
from jaato_gc.commit import Commit
from jaato_gc.errors import GCError, ReadOnlyError
from jaato_gc.frozen import ENTRIES_FOLLOW_THE_BUDGET, FrozenDict, FrozenEntries, FrozenList
from jaato_gc.policies import (
    GC_POLICY_INDICATORS,
    REMOVABLE_POLICIES,
    GCPolicy,
    InstructionSource,
)

_LOCKED = GCPolicy.LOCKED


class SourceEntry:
    """One entry of the budget: its own tokens, and children.

    Entries are read-only. Only the budget that holds them changes them, so that its totals are
    always right.
    """

    __slots__ = (
        "_born",
        "_children",
        "_created_at",
        "_gc_policy",
        "_key",
        "_label",
        "_message_ids",
        "_metadata",
        "_parent",
        "_source",
        "_tokens",
        "_total",
    )

    def __init__(
        self,
        source: InstructionSource,
        tokens: int,
        gc_policy: GCPolicy,
        label: str | None = None,
        children: Mapping[str, "SourceEntry"] | None = None,
        metadata: Mapping[str, Any] | None = None,
        created_at: float | None = None,
        message_ids: Iterable[str] = (),
    ) -> None:
        if tokens < 0:
            raise GCError(f"a budget entry can't hold {tokens} tokens: give 0 or more")
        self._source = source
        self._key: str | None = None
        self._label = label
        self._metadata = dict(metadata or {})
        self._created_at = time.time() if created_at is None else created_at
        self._message_ids = list(message_ids)
        self._born = 0
        self._tokens = tokens
        self._total = tokens
        self._gc_policy = GCPolicy(gc_policy)
        self._parent: SourceEntry | None = None
        self._children: dict[str, SourceEntry] = {}
        for key, child in (children or {}).items():
            # One that has a parent is copied: totals are right only with one parent.
            child = child.copy() if child._parent else child
            child._key, child._parent = key, self
            self._children[key] = child
            self._total += child._total

    @property
    def source(self) -> InstructionSource:
        """The source that this entry belongs to."""
        return self._source

    @property
    def key(self) -> str | None:
        """The key of this entry within its source; ``None`` for the source itself."""
        return self._key

    @property
    def label(self) -> str | None:
        """The name of this entry in displays."""
        return self._label

    @property
    def created_at(self) -> float:
        """When this entry was created, in seconds since the epoch."""
        return self._created_at

    @property
    def born(self) -> int:
        """The number of collections that its budget had seen before this entry."""
        return self._born

    @property
    def message_ids(self) -> Sequence[str]:
        """The ids of the messages that are booked under this entry, read-only."""
        return FrozenList(self._message_ids)

    @property
    def tokens(self) -> int:
        """Tokens of this entry alone, without its children."""
        return self._tokens

    @property
    def gc_policy(self) -> GCPolicy:
        """The policy this entry was given."""
        return self._gc_policy

    @property
    def parent(self) -> "SourceEntry | None":
        """The entry above this one."""
        return self._parent

    @property
    def children(self) -> Mapping[str, "SourceEntry"]:
        """The children by key at this moment, read-only."""
        return FrozenEntries(self._children)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Additional data about this entry, read-only."""
        return FrozenDict(self._metadata)

    @property
    def is_empty(self) -> bool:
        """Whether there are no tokens, messages and entries here."""
        return not (self._tokens or self._message_ids or self._children)

    def total_tokens(self) -> int:
        """Returns the tokens of this entry and everything below it."""
        return self._total

    def effective_gc_policy(self) -> GCPolicy:
        """Returns the policy of the children if they agree, PARTIAL if they differ.

        A LOCKED entry stays LOCKED, and an entry without children has its own policy.
        """
        if self._gc_policy is GCPolicy.LOCKED or not self._children:
            return self._gc_policy
        policies = {child.effective_gc_policy() for child in self._children_now()}
        return policies.pop() if len(policies) == 1 else GCPolicy.PARTIAL

    def binding_policy(self) -> GCPolicy:
        """Returns the policy that a collection must respect: LOCKED if an entry above is LOCKED."""
        entry: SourceEntry | None = self
        while entry is not None:
            if entry._gc_policy is _LOCKED:
                return _LOCKED
            entry = entry._parent
        return self._gc_policy

    def indicator(self) -> str:
        """Returns a sign for displays: 🔒 ◑ ◐ ○."""
        return GC_POLICY_INDICATORS[self.effective_gc_policy()]

    def walk(self) -> Iterator["SourceEntry"]:
        """Returns this entry and everything below it, parents first."""
        yield self
        for child in self._children_now():
            yield from child.walk()

    def _children_now(self) -> "tuple[SourceEntry, ...]":
        """Returns the children. Another thread may change them meanwhile."""
        return tuple(self._children.values())

    def contains(self, policy: GCPolicy) -> bool:
        """Returns whether this entry, or one below it, is under a policy."""
        return any(entry.binding_policy() is policy for entry in self.walk())

    def gc_eligible_tokens(self) -> int:
        """Returns the tokens here that a collection may remove without pressure."""
        return self._tokens_under(*REMOVABLE_POLICIES)

    def locked_tokens(self) -> int:
        """Returns the tokens here that no collection may remove."""
        return self._tokens_under(GCPolicy.LOCKED)

    def preservable_tokens(self) -> int:
        """Returns the tokens here that a collection may remove only under pressure."""
        return self._tokens_under(GCPolicy.PRESERVABLE)

    def _tokens_under(self, *policies: GCPolicy) -> int:
        return sum(entry._tokens for entry in self.walk() if entry.binding_policy() in policies)

    def _add_to_totals(self, commit: Commit, tokens: int) -> None:
        """Prepares the totals from here up."""
        entry: SourceEntry | None = self
        totals = []
        while entry is not None:
            totals.append((entry, entry._total + tokens))
            entry = entry._parent

        def write() -> None:
            for above, total in totals:
                above._total = total

        commit.then(write)

    def to_dict(self) -> dict[str, Any]:
        """Returns everything about this entry as JSON data, for `from_dict`."""
        return {
            "source": self._source.value,
            "tokens": self._tokens,
            "total_tokens": self._total,
            "gc_policy": self.effective_gc_policy().value,
            "own_gc_policy": self._gc_policy.value,
            "gc_eligible_tokens": self.gc_eligible_tokens(),
            "indicator": self.indicator(),
            "label": self._label,
            "metadata": dict(self._metadata),
            "created_at": self._created_at,
            "born": self._born,
            "message_ids": list(self._message_ids),
            "children": {key: child.to_dict() for key, child in self._children.copy().items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any] | SavedEntry) -> "SourceEntry":
        """Returns the entry that `to_dict` described, or one that jaato-server saved.

        Raises:
            GCError: A field is missing or has another type.
        """
        saved = SavedEntry.read(data, "the budget entry")
        entry = cls(
            saved.source,
            saved.tokens,
            saved.own_gc_policy or saved.gc_policy,
            saved.label,
            {key: cls.from_dict(child) for key, child in saved.children.items()},
            saved.metadata,
            saved.created_at,
            saved.message_ids,
        )
        entry._born = saved.born
        return entry

    def copy(self) -> "SourceEntry":
        """Returns another entry with the same values, and copies of everything below it."""
        copied = SourceEntry(
            self._source, self._tokens, self._gc_policy, self._label, created_at=self._created_at
        )
        copied._message_ids = self._message_ids.copy()
        copied._metadata, copied._total = self._metadata, self._total
        for key, child in self._children.items():
            copied._children[key] = below = child.copy()
            below._parent = copied
        copied._key, copied._born = self._key, self._born
        return copied

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceEntry) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        name = self._key or self._source.value
        return f"<SourceEntry {name} {self.indicator()} {self._total} tokens>"


def _refuse(entry: SourceEntry, _value: object) -> NoReturn:
    raise ReadOnlyError(f"{entry!r} is read-only, because {ENTRIES_FOLLOW_THE_BUDGET}")


for _name, _property in list(vars(SourceEntry).items()):
    if isinstance(_property, property):  # a setter costs nothing, unlike __setattr__
        setattr(SourceEntry, _name, _property.setter(_refuse))
