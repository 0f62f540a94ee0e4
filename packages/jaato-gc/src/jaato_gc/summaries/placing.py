"""Replacing turns by summaries in a collection."""

from collections.abc import Iterable, Sequence
from itertools import chain

from jaato_gc.collecting import Collection, GCTriggerReason, RemovalUnit, include_request
from jaato_gc.errors import SummaryError
from jaato_gc.history import Group, RemovingAction, Turn
from jaato_gc.messages import Message, SyntheticKind
from jaato_gc.summaries.validation import NotShorterError
from jaato_gc.summaries.writer import Summary, SummarySettings, SummaryWriter
from jaato_gc.tokens import count_tokens

FEW_TOKENS = 100
"""Content up to this size may have no shorter summary."""
MAX_SUMMARIES_TOKENS = 6_000
"""If summaries are longer than this together, all but the newest are folded into one."""
SUMMARIES_SHARE = 0.25
"""The same limit as a share of the target, for small windows."""


class TurnSummarizer:
    """Replaces turns of a collection by summaries.

    Args:
        collection: The collection.
        settings: The options of the strategy.

    Raises:
        GCConfigError: There is no summarizer, and ``extractive`` is off.
    """

    def __init__(self, collection: Collection, settings: SummarySettings) -> None:
        self._collection = collection
        self._settings = settings
        present = [message.message_id for message in collection.history if message.synthetic]
        self._writer = SummaryWriter(settings, collection.counter, present)
        self._written: dict[int, Summary] = {}
        """The summaries of this collection, by position."""

    def summarize_oldest(self, turns: Sequence[Turn], reason: str) -> None:
        """Replaces turns by summaries, oldest first, until the goal is reached.

        Old turns go as a whole, recent ones call by call. With ``on_summarizer_error="truncate"``,
        what can't be summarized is removed.

        Args:
            turns: The turns to summarize.
            reason: The reason in the removal list.

        Raises:
            SummaryError: The summarizer failed or returned no usable summary.
        """
        collection = self._collection
        units = collection.removal_units(turns)
        while collection.needs_more and self._replace(self._choose_oldest(units), reason):
            pass
        self._fold_summaries()

    def summarize(self, units: Sequence[RemovalUnit], reason: str) -> None:
        """Replaces all of these units by one summary, even if the goal is reached.

        Raises:
            SummaryError: The summarizer failed or returned no usable summary.
        """
        self._replace(units, reason)
        self._fold_summaries()

    def _replace(self, units: Sequence[RemovalUnit], reason: str) -> bool:
        """Replaces units by a summary, or removes them. Returns whether anything was removed."""
        try:
            return self._summarize(units, reason)
        except SummaryError as error:
            self._accept_failure(error)
        # Content without a summary is lost, so only what the goal requires is removed.
        self._collection.remove_in_order(units, "truncated_fallback")
        return True

    def _accept_failure(self, error: SummaryError) -> None:
        if self._settings.on_summarizer_error != "truncate":
            raise error
        # A model's answer in it may be invalid Unicode, which details must not be.
        text = str(error).encode(errors="replace").decode()
        self._collection.details["summarizer_error"] = text

    def _removable(self, groups: Iterable[Group]) -> list[Group]:
        return [group for group in groups if self._collection.may_remove(group)]

    def _choose_oldest(self, units: Iterable[RemovalUnit]) -> list[RemovalUnit]:
        """Returns the oldest units that free enough, including room for their summary."""
        collection = self._collection
        goal = collection.goal
        wanted = collection.tokens_missing + self._settings.expected_size(goal.target_tokens)
        chosen: list[RemovalUnit] = []
        freed, ended = 0, collection.turns_removed
        for unit in units:
            groups = self._removable(unit.groups)
            if collection.reason is GCTriggerReason.TURN_LIMIT:
                if ended >= goal.turns_to_remove:
                    break
                if not include_request(groups):
                    continue
            elif goal.tokens_to_free is not None and freed >= wanted:
                break
            if groups:
                chosen.append(unit)
                freed += sum(self._tokens(group.messages) for group in groups)
                ended += include_request(groups)
        return chosen

    def _summarize(self, units: Sequence[RemovalUnit], reason: str) -> bool:
        """Replaces units by one summary. Returns whether that makes the history smaller."""
        collection = self._collection
        removable = [self._removable(unit.groups) for unit in units]
        turns = [
            [message for group in groups for message in group.messages] for groups in removable
        ]
        everything = list(chain.from_iterable(turns))
        if not everything:
            return False
        try:
            summary = self._writer.write(turns)
        except NotShorterError:
            if self._tokens(everything) > FEW_TOKENS:
                raise
            return False  # too little content for any shorter summary: not a failure
        if not self._pays_off(summary, everything):
            return False
        self._insert(summary, collection.position_before(chain.from_iterable(removable)))
        for unit, groups in zip(units, removable, strict=True):
            collection.remove(groups, unit.key, reason, "summarize")
        return True

    def _fold_summaries(self) -> None:
        while self._fold_once():
            pass  # a folded summary may be too long beside the newest

    def _fold_once(self) -> bool:
        """Folds all summaries but the newest into one if there are too many or they are too long.

        Each folding loses details, and folding fewer would fold again in every collection. If
        folding fails, the oldest summaries that are too many are removed. Returns whether any
        summary was folded or removed.

        Raises:
            SummaryError: The summarizer failed or returned no usable summary.
        """
        collection = self._collection
        old = {
            collection.position_before([group]): group
            for group in self._removable(collection.groups)
            if group.messages[0].synthetic is SyntheticKind.SUMMARY
        }
        summaries = {position: group.messages[0] for position, group in old.items()}
        summaries |= {position: summary.message for position, summary in self._written.items()}
        summaries = dict(sorted(summaries.items()))
        excess = self._excess(list(summaries.values()))
        if not excess:
            return False
        oldest = list(summaries)[: self._foldable(list(summaries.values()))]
        messages = [summaries[position] for position in oldest]
        reason, summary = "summarized", None
        try:
            summary = self._writer.write([[message] for message in messages])
            if not self._pays_off(summary, messages):
                raise SummaryError("the summarizer returned a text that is not shorter")
        except SummaryError as error:
            self._accept_failure(error)
            if not (collection.under_pressure or self._written):
                return False  # below pressure, a summary goes only if another one comes
            reason, summary = "truncated_fallback", None
            oldest = list(summaries)[:excess]
        action: RemovingAction = "summarize" if summary else "remove"
        for position in oldest:
            if position in old:
                collection.remove([old[position]], collection.key_of(old[position]), reason, action)
            else:
                self._withdraw(position)
        if summary:
            self._insert(summary, oldest[0])
        return True

    def _excess(self, summaries: Sequence[Message]) -> int:
        """Returns how many of the oldest summaries are too many; the newest may have any size."""
        excess = max(0, len(summaries) - self._settings.max_summaries)
        while excess < len(summaries) - 1 and self._tokens(summaries[excess:]) > self._max_tokens:
            excess += 1
        return excess

    def _foldable(self, summaries: Sequence[Message]) -> int:
        """Returns how many summaries to fold: all but the newest if that is short, else all."""
        newest_stays = (
            self._settings.max_summaries > 1
            and len(summaries) > 2
            and self._tokens(summaries[-1:]) <= self._max_tokens // 2
        )
        return len(summaries) - newest_stays

    @property
    def _max_tokens(self) -> int:
        """The size of all summaries together."""
        target = self._collection.goal.target_tokens
        if target is None:
            return MAX_SUMMARIES_TOKENS
        return min(MAX_SUMMARIES_TOKENS, int(target * SUMMARIES_SHARE))

    # --- insertions, and their figures in the result ---

    def _insert(self, summary: Summary, position: int) -> None:
        self._collection.insert(summary.message, position)
        self._written[position] = summary
        self._count(summary, 1)
        self._add("facts_found", summary.facts_found)
        self._collection.details["written_by"] = summary.written_by

    def _withdraw(self, position: int) -> None:
        """Takes back a summary of this collection that becomes part of another."""
        summary = self._written.pop(position)
        self._collection.withdraw(summary.message)
        self._count(summary, -1)
        self._add("facts_found", -summary.facts_kept)  # the folded summary finds them again

    def _count(self, summary: Summary, sign: int) -> None:
        self._add("summary_tokens", sign * self._tokens([summary.message]))
        self._add("summary_length", sign * len(summary.message.text))
        self._add("facts_kept", sign * summary.facts_kept)

    def _add(self, name: str, figure: int) -> None:
        details = self._collection.details
        details[name] = details.get(name, 0) + figure

    def _pays_off(self, summary: Summary, messages: Sequence[Message]) -> bool:
        return self._tokens([summary.message]) < self._tokens(messages)

    def _tokens(self, messages: Sequence[Message]) -> int:
        return count_tokens(messages, self._collection.counter)
