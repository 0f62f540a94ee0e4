"""Summaries that stand for what a collection takes."""

from collections.abc import Sequence
from typing import Any

from jaato_gc._messages import Message
from jaato_gc._summaries import Summary
from jaato_gc._takings import Takings
from jaato_gc._tokens import TokenCounter, count_tokens


class StandIns:
    """The summaries of one collection, and what its result says about them."""

    def __init__(self, takings: Takings, counter: TokenCounter, details: dict[str, Any]) -> None:
        self._takings = takings
        self._counter = counter
        self._details = details
        self._summaries: dict[int, Summary] = {}

    def pays_off(self, summary: Summary, messages: Sequence[Message]) -> bool:
        """Whether a summary is shorter than what it stands for."""
        return self._tokens([summary.message]) < self._tokens(messages)

    def add(self, summary: Summary, position: int) -> None:
        """Let a summary stand where what it stands for began."""
        self._takings.insert(summary.message, position)
        self._summaries[position] = summary
        self._announce(summary, 1)
        self._count("facts_found", summary.facts_found)
        self._details["written_by"] = summary.written_by

    def withdraw(self, position: int) -> None:
        """Take one of them back: it becomes part of another."""
        summary = self._summaries.pop(position)
        self._takings.withdraw(position)
        self._announce(summary, -1)
        self._count("facts_found", -summary.facts_kept)  # found again in the one it becomes

    def surplus(self, chain: Sequence[Message], *, max_count: int, max_tokens: int) -> int:
        """How many summaries of a chain have to be folded, from the oldest on."""
        surplus = len(chain) - max_count + 1
        if self._tokens(chain) > max_tokens:
            surplus = max(surplus, 2)
            while self._tokens(chain[surplus:]) > max_tokens // 2:
                surplus += 1  # half of the room is for the one that they become
        return max(0, surplus)

    def _announce(self, summary: Summary, sign: int) -> None:
        self._count("summary_tokens", sign * self._tokens([summary.message]))
        self._count("facts_kept", sign * summary.facts_kept)

    def _count(self, name: str, figure: int) -> None:
        self._details[name] = self._details.get(name, 0) + figure

    def _tokens(self, messages: Sequence[Message]) -> int:
        return count_tokens(messages, self._counter)
