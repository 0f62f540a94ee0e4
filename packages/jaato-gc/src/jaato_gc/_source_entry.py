"""One line of the instruction budget."""

import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from jaato_gc._errors import GCError
from jaato_gc._policies import GC_POLICY_INDICATORS, LOCKED, GCPolicy, InstructionSource

MOVABLE_POLICIES = (GCPolicy.EPHEMERAL, GCPolicy.PARTIAL)
"""What a collection may take without pressure."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class SourceEntry:
    """One line of the budget: tokens of its own, and children.

    Entries are read by everyone and changed only through the budget that holds them, so that its
    totals are always right: ``tokens``, ``gc_policy`` and ``children`` can't be assigned.
    """

    __slots__ = (
        "_binding_policy",
        "_children",
        "_gc_policy",
        "_metadata",
        "_parent",
        "_tokens",
        "_total",
        "born",
        "created_at",
        "key",
        "label",
        "message_ids",
        "source",
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
        self.source = source
        self.key: str | None = None
        self.label = label
        # A long session has an entry for every exchange: most have no metadata and no children.
        self._metadata: dict[str, Any] | None = dict(metadata) if metadata else None
        self.created_at = time.time() if created_at is None else created_at
        self.message_ids: list[str] = list(message_ids)
        self.born = 0
        """How many collections its budget had seen before it."""
        self._tokens = tokens
        self._gc_policy = gc_policy if type(gc_policy) is GCPolicy else GCPolicy(gc_policy)
        self._binding_policy = self._gc_policy
        self._children: dict[str, SourceEntry] | None = None
        self._parent: SourceEntry | None = None
        self._total: int = tokens
        if children:
            for key, given in children.items():
                # One that stands elsewhere is copied: totals are right only with one parent each.
                child = SourceEntry.from_dict(given.to_dict()) if given._parent else given
                self._adopt(key, child)
                self._total += child._total

    def _adopt(self, key: str, child: "SourceEntry") -> None:
        if self._children is None:
            self._children = {}
        self._children[key] = child
        child.key, child._parent = key, self
        child._binding_policy = child._gc_policy
        if self._binding_policy is LOCKED or child._children:
            child._bind(self._binding_policy is LOCKED)

    def _bind(self, is_locked_above: bool) -> None:
        self._binding_policy = LOCKED if is_locked_above else self._gc_policy
        for child in self.children.values():
            child._bind(self._binding_policy is LOCKED)

    def _lose(self, key: str) -> None:
        if self._children is not None:
            del self._children[key]

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
        """The entry that this one stands below."""
        return self._parent

    @property
    def children(self) -> Mapping[str, "SourceEntry"]:
        """The children by key: a view to read."""
        return _NOTHING if self._children is None else MappingProxyType(self._children)

    @property
    def metadata(self) -> dict[str, Any]:
        """Whatever else is known about this entry."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def total_tokens(self) -> int:
        """Tokens of this entry and everything below it."""
        return self._total

    def effective_gc_policy(self) -> GCPolicy:
        """What this entry amounts to: its children's policy if they agree, PARTIAL if they differ.

        A LOCKED entry is LOCKED whatever is below it.
        """
        if self._gc_policy is LOCKED or not self._children:
            return self._gc_policy
        policies = {child.effective_gc_policy() for child in self._children.values()}
        return policies.pop() if len(policies) == 1 else GCPolicy.PARTIAL

    def binding_policy(self) -> GCPolicy:
        """The policy that a collection must respect here: LOCKED above locks everything below."""
        return self._binding_policy

    def indicator(self) -> str:
        """A sign for displays: 🔒 ◑ ◐ ○."""
        return GC_POLICY_INDICATORS[self.effective_gc_policy()]

    def walk(self) -> Iterator["SourceEntry"]:
        """This entry and everything below it, parents first."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def gc_eligible_tokens(self) -> int:
        """Tokens in here that a collection may take without pressure."""
        return self._tokens_under(*MOVABLE_POLICIES)

    def locked_tokens(self) -> int:
        """Tokens in here that no collection may take."""
        return self._tokens_under(LOCKED)

    def preservable_tokens(self) -> int:
        """Tokens in here that a collection may take only under pressure."""
        return self._tokens_under(GCPolicy.PRESERVABLE)

    def _tokens_under(self, *policies: GCPolicy) -> int:
        return sum(entry._tokens for entry in self.walk() if entry.binding_policy() in policies)

    def _add_to_totals(self, difference: int) -> None:
        """Add to the totals from here up."""
        entry: SourceEntry | None = self
        while entry is not None:
            entry._total += difference
            entry = entry._parent

    def to_dict(self) -> dict[str, Any]:
        """Everything about this entry as JSON data; `from_dict` gives the same entry back."""
        return {
            "source": self.source.value,
            "tokens": self._tokens,
            "total_tokens": self._total,
            "gc_policy": self._gc_policy.value,
            "effective_gc_policy": self.effective_gc_policy().value,
            "indicator": self.indicator(),
            "label": self.label,
            "metadata": dict(self._metadata or _NOTHING),
            "created_at": self.created_at,
            "born": self.born,
            "message_ids": list(self.message_ids),
            "children": {key: child.to_dict() for key, child in self.children.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SourceEntry":
        """The entry that `to_dict` described."""
        if type(data["tokens"]) is not int:
            raise TypeError(f"tokens={data['tokens']!r:.80} is no whole number")
        entry = cls(
            source=InstructionSource(data["source"]),
            tokens=data["tokens"],
            gc_policy=GCPolicy(data["gc_policy"]),
            label=data.get("label"),
            children={key: cls.from_dict(child) for key, child in data["children"].items()},
            metadata=data.get("metadata"),
            created_at=data.get("created_at"),
            message_ids=data.get("message_ids", ()),
        )
        entry.born = data.get("born", 0)
        return entry

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceEntry) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        name = self.key or self.source.value
        return f"<SourceEntry {name} {self.indicator()} {self._total} tokens>"
