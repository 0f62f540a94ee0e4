"""Reads a budget snapshot for display: from core, from JSON, or from jaato-server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from jaato_gc import GCConfigError, GCError
from jaato_gc.plugin import Settings

Tokens = Annotated[int, Field(ge=0, le=10**12)]
"""A number of tokens. The limit is far above any window."""

CORRECTION = "correction"
"""Name of the difference between the reported total and what was counted."""


@dataclass(frozen=True, slots=True)
class Row:
    """One source, or a child of one.

    Args:
        name: Its name.
        tokens: Its tokens, including those below it. Only a correction can be negative.
        policy: Name of its policy; empty if it has none.
        children: What is below it, largest first.
    """

    name: str
    tokens: int
    policy: str = ""
    children: "tuple[Row, ...]" = ()

    def largest(self, most: int) -> "list[Row]":
        """Returns the largest children, and one row for all that is left."""
        shown = [child for child in self.children[: max(0, most)] if child.tokens]
        left = self.tokens - sum(child.tokens for child in shown)
        if not shown or left <= 0:
            return shown
        more = len(self.children) - len(shown)
        return [*shown, Row(f"{more:,} more" if more else "other", left)]


class _Child(Settings):
    model_config = ConfigDict(extra="ignore")

    tokens: Tokens = 0
    total_tokens: Tokens | None = None
    gc_policy: str = ""
    label: str | None = None

    def row(self, key: str, children: tuple[Row, ...] = ()) -> Row:
        tokens = self.tokens if self.total_tokens is None else self.total_tokens
        return Row(self.label or key, tokens, self.gc_policy, children)


class _Source(_Child):
    children: dict[str, _Child] = Field(default_factory=dict)

    def with_children(self, key: str) -> Row:
        rows = [child.row(key) for key, child in self.children.items()]
        return self.row(key, tuple(sorted(rows, key=lambda row: -row.tokens)))


class BudgetSnapshot(Settings):
    """The figures of a budget at one moment. Keys that a display does not need are ignored."""

    model_config = ConfigDict(extra="ignore")

    agent_id: str = ""
    """The agent."""
    context_limit: int | None = None
    """The window; ``None`` or 0 if it is unknown."""
    total_tokens: Tokens
    """The tokens of the next request."""
    fixed_tokens: Tokens = 0
    """The tokens that no collection removes, if the snapshot says so."""
    entries: dict[str, _Source] = Field(default_factory=dict)
    """The sources, by name."""

    @classmethod
    def read(cls, snapshot: Mapping[str, Any]) -> "BudgetSnapshot":
        """Returns a snapshot, validated.

        Raises:
            GCError: It is not a snapshot.
        """
        if not isinstance(snapshot, Mapping):
            kind = type(snapshot).__name__
            raise GCError(f"expected a budget snapshot, got {kind}: pass budget.snapshot()")
        try:
            return cls.model_validate(dict(snapshot))
        except GCConfigError as error:
            raise GCError(
                f"invalid budget snapshot: {error}: pass budget.snapshot(), or the same from JSON"
            ) from None

    @property
    def window(self) -> int:
        """The window; 0 if it is unknown."""
        return max(0, self.context_limit or 0)

    @property
    def rows(self) -> list[Row]:
        """The sources that have tokens, and a correction if they do not add up to the total."""
        rows = [source.with_children(key) for key, source in self.entries.items()]
        correction = self.total_tokens - sum(row.tokens for row in rows)
        if rows and correction:
            rows.append(Row(CORRECTION, correction))
        return [row for row in rows if row.tokens]
