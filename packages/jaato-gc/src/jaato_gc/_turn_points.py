"""The points of a turn at which a session acts: before a request, while it is answered, after."""

from collections.abc import Callable
from typing import Any

from jaato_gc._budget import InstructionBudget
from jaato_gc._config import GCConfig
from jaato_gc._context import Context
from jaato_gc._errors import ContextFloorError, InvalidHistoryError
from jaato_gc._invariants import Violation
from jaato_gc._messages import Message
from jaato_gc._observers import Observers
from jaato_gc._repair import repair_history
from jaato_gc._request import Request
from jaato_gc._results import GCResult, GCTriggerReason
from jaato_gc._runner import Runner
from jaato_gc._strategy import GCPlugin

ThresholdCallback = Callable[[float, float], None]
"""Told the percentage used and the threshold that it crossed."""


class TurnPoints:
    """A session as a host with a loop of its own uses it.

    Args:
        context: History and budget.
        runner: The collections.
        observers: Who is told.
        repair: Mend a broken history before sending it, instead of raising.
    """

    def __init__(
        self, context: Context, runner: Runner, observers: Observers, *, repair: bool
    ) -> None:
        self.repair = repair
        self.on_gc_threshold: ThresholdCallback | None = None
        """Called in every turn that is not given a callback of its own."""
        self._context = context
        self._runner = runner
        self._observers = observers
        self._on_threshold: ThresholdCallback | None = None
        self._threshold_told = False
        self._threshold_crossed = False

    @property
    def budget(self) -> InstructionBudget:
        """The budget. Book tool schemas and enrichment here; the conversation is the session's."""
        return self._context.budget

    @property
    def config(self) -> GCConfig:
        """The effective configuration."""
        return self._runner.config

    @property
    def plugin(self) -> GCPlugin | None:
        """The strategy."""
        return self._runner.collector.plugin if self._runner.collector else None

    def append(self, message: Message) -> Message:
        """Add what was said. Returns the message as it was booked: a taken id is replaced."""
        context = self._context
        booked = context.append(message)
        self._runner.history_changed()
        self._observers.budget_changed(context.ledger.budget)
        return booked

    def before_send(self) -> Request:
        """Collect if it is due, and give back the request to send.

        Raises:
            InvalidHistoryError: A provider would refuse the history, and ``repair`` is off.
            ContextFloorError: The request does not fit, and nothing more can go.
        """
        context, runner = self._context, self._runner
        if not context.is_in_order and (faults := context.find_faults()):
            self._mend_or_raise(faults)
        if not runner.is_idle() and self.config.check_before_send:
            due = runner.due(GCTriggerReason.PRE_MESSAGE)
            if due:
                runner.collect_automatically(due, self._in_turn())
                self._threshold_crossed = False
        if not self._fits():
            if self.plugin:
                runner.collect(GCTriggerReason.CONTEXT_LIMIT, self._in_turn())
            if not self._fits():
                raise self.floor_error()
        return context.request()

    def report_usage(self, input_tokens: int, output_tokens: int = 0) -> None:
        """Tell what the provider says the request cost, while the answer streams or after it.

        The budget is set right by it, and ``on_gc_threshold`` called if the threshold is crossed,
        once per turn.
        """
        if self._context.anchor(input_tokens):
            self._observers.budget_changed(self.budget)
        runner = self._runner
        if input_tokens + output_tokens < runner.line_tokens or self._threshold_told:
            return
        config = runner.config
        percent = (input_tokens + output_tokens) / runner.window * 100
        line = config.target_percent if config.continuous_mode else config.threshold_percent
        if percent > line if config.continuous_mode else percent >= line:
            self._threshold_told = self._threshold_crossed = True
            host = self._on_threshold or self.on_gc_threshold
            self._observers.threshold_crossed(host, percent, line, self.budget.agent_id)

    def after_turn(self) -> GCResult | None:
        """Collect if it has become due during the turn."""
        self._threshold_told = False
        runner, context = self._runner, self._context
        budget = context.ledger.budget
        if (  # `runner.is_idle()`, written out: most turns end here, and calls cost more than this
            budget._counted + budget.correction < runner.idle_below
            and context.turns <= runner.idle_turns
            and not self._threshold_crossed
        ):
            return None
        reason = runner.due(was_crossed=self._threshold_crossed)
        self._threshold_crossed = False
        return runner.collect_automatically(reason) if reason else None

    def recover_from_refusal(self) -> bool:
        """Collect because the provider refused the request as too long.

        Returns whether the request is a smaller one now: only then is it worth another try.
        """
        if self.plugin is None:
            return False
        before = self.budget.total_tokens()
        self._runner.collect(GCTriggerReason.CONTEXT_LIMIT, self._in_turn())
        return self.budget.total_tokens() < before

    def _in_turn(self) -> dict[str, Any]:
        """Within a turn, that turn stays, whatever the configuration says: it is being answered."""
        return {"preserve_recent_turns": max(1, self.config.preserve_recent_turns)}

    def _fits(self) -> bool:
        return self._context.upper_bound() <= self._runner.request_limit

    def floor_error(self) -> ContextFloorError:
        """The error for a request that is too long after the last collection, too."""
        result = self._runner.results[-1] if self.plugin and self._runner.results else None
        floor = {
            source.value: entry.total_tokens()
            for source, entry in self.budget.entries.items()
            if entry.total_tokens()
        }
        if self.budget.correction:
            floor["correction"] = self.budget.correction
        parts = ", ".join(f"{source} {tokens}" for source, tokens in floor.items())
        most, limit = self._context.upper_bound(), self._runner.request_limit
        what = f"the next request has up to {most} tokens and only {limit} fit"
        if most <= limit:
            what = f"the provider refused a request of at most {most} tokens, of {limit} that fit"
        hint = "no strategy is set: call set_gc_plugin"
        if result is not None:
            hint = result.error or "lower preserve_recent_turns, unpin something or shorten it"
        return ContextFloorError(
            f"{what}, and nothing more can go ({parts}): {hint}", floor, result
        )

    def _mend_or_raise(self, faults: list[Violation]) -> None:
        if self.repair:
            with self._context.lock:
                history = list(self._context.history)
                mended = repair_history(history)
                self._context.exchange(history, mended, "repair")
                self._runner.history_mended(history, mended)
            self._observers.budget_changed(self.budget)
            faults = self._context.find_faults()
        if faults:
            listed = "; ".join(map(str, faults[:3]))
            raise InvalidHistoryError(f"the history can't be sent: {listed}", faults)
