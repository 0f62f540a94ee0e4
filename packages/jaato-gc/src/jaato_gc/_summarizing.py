"""Putting summaries in the place of turns."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from jaato_gc._errors import SummaryError
from jaato_gc._messages import SyntheticKind
from jaato_gc._results import GCTriggerReason, RemovalAction
from jaato_gc._stand_ins import StandIns
from jaato_gc._summaries import SUMMARIES_SHARE, SummaryWriter
from jaato_gc._summary_checks import NotShorterError
from jaato_gc._taking import Taking, ends_turn
from jaato_gc._tokens import count_tokens
from jaato_gc._turns import Turn

FEW_TOKENS = 100
"""What is no longer than this may well have no shorter summary."""


class Summarizing(Taking):
    """Removes, clears and summarizes what may go."""

    @cached_property
    def _stand_ins(self) -> StandIns:
        return StandIns(self._takings, self.counter, self.details)

    def summarize_oldest(self, turns: Sequence[Turn], writer: SummaryWriter, reason: str) -> None:
        """Put summaries in the place of turns, oldest first, until the goal is reached.

        What the writer's settings say of errors holds: with ``"truncate"``, turns that can't be
        summarized are removed.

        Raises:
            SummaryError: There is no summary.
        """
        while self.needs_more:
            chosen = self._choose_oldest(turns, writer.settings.summary_tokens)
            try:
                if not self._summarize(chosen, writer, reason):
                    break
            except SummaryError as error:
                if writer.settings.on_summarizer_error != "truncate":
                    raise
                self.details["summarizer_error"] = str(error)
                self.remove_oldest(chosen, "truncated_fallback")
        self._fold_summaries(writer)

    def _choose_oldest(self, turns: Iterable[Turn], room: int) -> list[Turn]:
        """The oldest turns that would do, and leave so much room for their summary."""
        chosen: list[Turn] = []
        freed, ended = self._takings.freed, self._takings.turns_removed
        for turn in turns:
            groups = self._takable(turn.groups)
            if self.reason is GCTriggerReason.TURN_LIMIT:
                if ended >= self.goal.turns_to_remove:
                    break
                if not ends_turn(groups):
                    continue
            elif not self._everything and freed >= self._wanted + room:
                break
            if groups:
                chosen.append(turn)
                freed += sum(count_tokens(group.messages, self.counter) for group in groups)
                ended += ends_turn(groups)
        return chosen

    def _summarize(self, turns: Sequence[Turn], writer: SummaryWriter, reason: str) -> bool:
        groups = [self._takable(turn.groups) for turn in turns]
        told = [[message for group in each for message in group.messages] for each in groups]
        if not told:
            return False
        try:
            summary = writer.write(told)
        except NotShorterError:
            if sum(count_tokens(messages, self.counter) for messages in told) > FEW_TOKENS:
                raise
            return False  # so little that no summary can be shorter: that is nobody's failure
        if not self._stand_ins.pays_off(summary, [message for each in told for message in each]):
            return False
        first = min(self._position(group) for each in groups for group in each)
        self._stand_ins.add(summary, self._outside_exchanges(first))
        for turn, takable in zip(turns, groups, strict=True):
            self.take(takable, turn.key, reason, "summarize")
        return True

    def _outside_exchanges(self, position: int) -> int:
        """Where a message can be put: not among results, where a stray one may have stood."""
        start = position
        while start > 0 and self._history[start].is_tool_output:
            start -= 1
        return start if self._history[start].function_calls else position

    def _fold_summaries(self, writer: SummaryWriter) -> None:
        """Fold the oldest summaries into one, if there are too many or they are too long.

        Raises:
            SummaryError: There is no summary of them.
        """
        old = {
            self._position(group): group
            for group in self._takable(self.groups)
            if group.messages[0].synthetic is SyntheticKind.SUMMARY
        }
        chain = {position: group.messages[0] for position, group in old.items()}
        chain = dict(sorted((chain | self._takings.inserted).items()))
        most = writer.settings.max_summaries_tokens
        if self.goal.target_tokens is not None:
            most = min(most, int(self.goal.target_tokens * SUMMARIES_SHARE))
        surplus = self._stand_ins.surplus(
            list(chain.values()), max_count=writer.settings.max_summaries, max_tokens=most
        )
        oldest = list(chain)[:surplus]
        if len(oldest) < 2:
            return
        messages = [chain[position] for position in oldest]
        reason, summary = "summarized", None
        try:
            summary = writer.write([[message] for message in messages])
            if not self._stand_ins.pays_off(summary, messages):
                raise SummaryError("the summarizer returned something no shorter than it folds")
        except SummaryError as error:
            if writer.settings.on_summarizer_error != "truncate":
                raise
            self.details["summarizer_error"] = str(error)
            reason, summary = "truncated_fallback", None
            oldest.pop()
        for position in oldest:
            if position in old:
                action: RemovalAction = "summarize" if summary else "remove"
                self.take([old[position]], self.key_of(old[position]), reason, action)
            else:
                self._stand_ins.withdraw(position)
        if summary:
            self._stand_ins.add(summary, oldest[0])
