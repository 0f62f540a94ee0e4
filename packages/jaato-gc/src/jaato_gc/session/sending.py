"""Sending: the checks between a history and a request."""

from jaato_gc.collecting import GCResult, GCTriggerReason
from jaato_gc.config import GCConfigOverrides
from jaato_gc.errors import ContextFloorError, InvalidHistoryError
from jaato_gc.history import Violation, edits_between, repair_history
from jaato_gc.session.applying import Collections
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.request import Request
from jaato_gc.session.scheduling import Schedule


class Sender:
    """Makes requests that are valid and fit the window.

    Args:
        live: The history and its budget.
        schedule: When collections are due.
        collections: Runs them.
        repair: Repair an invalid history instead of raising.
    """

    def __init__(
        self, live: LiveHistory, schedule: Schedule, collections: Collections, *, repair: bool
    ) -> None:
        self._live = live
        self._schedule = schedule
        self._collections = collections
        self.repair = repair

    def request(self) -> Request:
        """Returns the next request, after a collection if one is due.

        Raises:
            InvalidHistoryError: A provider would refuse the history, and ``repair`` is off.
            ContextFloorError: The request does not fit, and nothing more can be removed.
        """
        if faults := self._live.faults():
            self._repair_or_raise(faults)
        schedule = self._schedule
        if schedule.config.check_before_send and (due := schedule.due(GCTriggerReason.PRE_MESSAGE)):
            self._collections.collect_automatically(due, self._within_turn())
            schedule.threshold_crossed = False
        if not self._fits():
            if schedule.planner:
                self._collect_because_too_long()
            if not self._fits():
                raise self.floor_error()
        return self._live.request()

    def recover_from_refusal(self) -> bool:
        """Collects because the provider refused the request. Returns whether it is smaller now."""
        if self._schedule.planner is None:
            return False
        before = self._live.budget.total_tokens()
        self._collect_because_too_long()
        return self._live.budget.total_tokens() < before

    def _collect_because_too_long(self) -> GCResult:
        return self._collections.collect(GCTriggerReason.CONTEXT_LIMIT, self._within_turn())

    def _within_turn(self) -> GCConfigOverrides:
        """Returns overrides that keep the current turn, because it is being answered."""
        return {} if self._schedule.config.preserve_recent_turns else {"preserve_recent_turns": 1}

    def _fits(self) -> bool:
        return self._live.upper_bound() <= self._schedule.request_limit

    def floor_error(self) -> ContextFloorError:
        """Returns the error for a request that is too long even after a collection."""
        results, budget = self._collections.results, self._live.budget
        result = results[-1] if self._schedule.planner and results else None
        floor = {
            source.value: entry.total_tokens()
            for source, entry in budget.entries.items()
            if entry.total_tokens()
        }
        if budget.correction:
            floor["correction"] = budget.correction
        parts = ", ".join(f"{source} {tokens}" for source, tokens in floor.items())
        most, limit = self._live.upper_bound(), self._schedule.request_limit
        what = f"the next request has up to {most} tokens and only {limit} fit"
        if most <= limit:
            what = f"the provider refused a request of at most {most} tokens, of {limit} that fit"
        hint = "no strategy is set: call set_gc_plugin"
        if result is not None:
            hint = result.error or "lower preserve_recent_turns, unpin something or shorten it"
        return ContextFloorError(
            f"{what}, and nothing more can be removed ({parts}): {hint}", floor, result
        )

    def _repair_or_raise(self, faults: list[Violation]) -> None:
        if self.repair:
            with self._live.lock:
                history = list(self._live.messages)
                edits = edits_between(history, repair_history(history))
                self._live.apply(edits, history, "repair")
                self._collections.repaired(edits)
            self._collections.budget_changed()
            faults = self._live.faults()
        if faults:
            listed = "; ".join(map(str, faults[:3]))
            raise InvalidHistoryError(f"the history can't be sent: {listed}", faults)
