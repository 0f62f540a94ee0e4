"""One collection in progress: the mechanism that strategies are written with."""

from collections.abc import Sequence

from jaato_gc._account import cache_impact, outcome_of, shortfall_of
from jaato_gc._budget import InstructionBudget
from jaato_gc._config import GCConfig
from jaato_gc._messages import Message
from jaato_gc._results import GCOutcome, GCResult, GCTriggerReason
from jaato_gc._summarizing import Summarizing
from jaato_gc._synthetic import fill_template, is_notice, notice_message, with_notice
from jaato_gc._takings import Takings
from jaato_gc._tokens import count_tokens
from jaato_gc._triggers import ContextUsage


class Collection(Summarizing):
    """What may go, what has gone so far, and whether that is enough.

    A strategy makes one at the start of ``collect`` (with `GCStrategy.begin`), takes turns and
    groups from it in the order it thinks best while `needs_more`, and returns
    `finish`:

        collection = self.begin(history, context_usage, config, reason, budget)
        collection.remove_oldest(collection.turns, "truncated")
        return collection.finish()

    Protected groups can't be taken: they are left where they are. The history that was given is
    never changed.

    Args:
        plugin_name: Who collects, for the result.
        history: The history as it is.
        context_usage: How full the window is.
        config: The effective configuration.
        reason: Why the collection runs; it decides how much has to go.
        budget: The budget, if there is one: its policies, pins, counter and totals are used.
        everything: Take all that may go, whatever the reason asks for.
        notice: Template of a message to the model, if it is to be told.
    """

    def __init__(
        self,
        plugin_name: str,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
        *,
        everything: bool = False,
        notice: str | None = None,
    ) -> None:
        super().__init__(history, context_usage, config, reason, budget, everything=everything)
        self._plugin_name = plugin_name
        self._notice = notice
        self._notice_cost = self._reserve_for_notice()
        if self._wanted:
            self._wanted += self._notice_cost

    def finish(self) -> tuple[list[Message], GCResult]:
        """The history that remains, and the account of what happened."""
        takings = self._takings
        notice, history = self._with_notice(takings.remaining())
        cache = cache_impact(self._history, history, self.counter)
        tokens_after = cache.prefix_tokens + cache.rewritten_tokens
        freed = self._tokens_before - tokens_after + takings.freed_elsewhere
        outcome = outcome_of(
            self.goal,
            freed=freed,
            turns_removed=takings.turns_removed,
            anything_taken=bool(takings.items),
        )
        shortfall = None
        if outcome in (GCOutcome.SHORT, GCOutcome.NO_GAIN):
            missing = max(0, (self.goal.tokens_to_free or 0) - freed)
            shortfall = shortfall_of(
                missing, self.groups, history, takings, self._budget, self.counter
            )
        # All else in the context stays as it is; without a budget nothing is known of it.
        rest = self._budget.total_tokens() - self._tokens_before if self._budget else 0
        return history, GCResult(
            success=True,
            items_collected=len(takings.items),
            tokens_before=self._tokens_before + rest,
            tokens_after=tokens_after + rest - takings.freed_elsewhere,
            plugin_name=self._plugin_name,
            trigger_reason=self.reason,
            notification=notice,
            details={
                "turns_before": len(self.turns),
                "turns_removed": takings.turns_removed,
                **self.details,
            },
            removal_list=takings.items,
            outcome=outcome,
            shortfall=shortfall,
            cache=cache,
            confidence=self.counter.confidence,
        )

    def fail(self, error: Exception) -> tuple[list[Message], GCResult]:
        """The account of a collection that could not be done: nothing has changed."""
        self._takings = Takings(self._history, self.counter)
        self.details.clear()
        history, result = self.finish()
        result.success, result.outcome, result.error = False, GCOutcome.FAILED, str(error)
        return history, result

    # --- the notice ---

    def _reserve_for_notice(self) -> int:
        """What the notice will cost at most, beyond the one it replaces."""
        if self._notice is None:
            return 0
        text = self._notice_text(len(self.turns), len(self.turns), self._tokens_before)
        old = count_tokens(filter(is_notice, self._history), self.counter)
        return max(0, count_tokens([notice_message(text)], self.counter) - old)

    def _with_notice(self, history: list[Message]) -> tuple[str | None, list[Message]]:
        """Text and history with the notice, if there is to be one and it does not cost too much."""
        takings, cost = self._takings, self._notice_cost
        spoils_goal = takings.freed - cost < (self.goal.tokens_to_free or 0) <= takings.freed
        if self._notice is None or takings.freed <= cost or spoils_goal:
            return None, history
        kept = len(self.turns) - takings.turns_removed
        text = self._notice_text(takings.turns_removed, kept, takings.freed)
        return text, with_notice(history, text)

    def _notice_text(self, removed: int, kept: int, freed: int) -> str:
        values = {
            "turns_removed": removed,
            "turns_kept": kept,
            "tokens_freed": freed,
            "plugin_name": self._plugin_name,
            "reason": self.reason.value,
        }
        return fill_template(self._notice or "", values)
