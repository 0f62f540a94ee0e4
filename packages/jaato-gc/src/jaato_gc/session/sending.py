"""Builds requests: valid, and small enough for the window.

A refused request ends the run of an agent. So a request is checked under the lock at the very end,
and if another thread made it invalid or too large meanwhile, everything starts again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jaato_gc.collecting import CORE, Draft, Floor, GCTriggerReason, PlanRequest
from jaato_gc.commit import Guard, guarded
from jaato_gc.errors import ContextFloorError
from jaato_gc.session.collector import Collector
from jaato_gc.session.editing import Editor
from jaato_gc.session.journal import Journal
from jaato_gc.session.journal_entry import REPAIR
from jaato_gc.session.live_history import LiveHistory, Request
from jaato_gc.session.provider import window_in
from jaato_gc.session.repairing import edits_to_repair, invalid_history
from jaato_gc.session.scheduling import Schedule

OnOverflow = Literal["relax", "raise", "send"]
"""What to do with a request that does not fit after a strategy collected.

``"relax"``: core removes recent content too, and raises if only fixed content is left. ``"raise"``:
core removes nothing from recent turns. ``"send"``: as ``"relax"``, but a request that can't be made
to fit is sent unchanged.
"""

MAX_ATTEMPTS = 5
"""How often a request is built again because other threads changed the history meanwhile."""


class _Size(NamedTuple):
    """The size of the next request, and of the largest one that may be sent."""

    tokens: int
    limit: int

    @property
    def fits(self) -> bool:
        return self.tokens <= self.limit


@dataclass(slots=True)
class RequestBuilder:
    """Builds the requests of a session.

    Args:
        live: The history and its budget.
        journal: The last collections, for errors.
        schedule: When collections are due.
        collector: Runs them.
        editor: Repairs the history.
        repair: Repair an invalid history instead of raising.
        on_overflow: What to do with a request that does not fit.
        clock: Returns the time in seconds.
    """

    live: LiveHistory
    journal: Journal
    schedule: Schedule
    collector: Collector
    editor: Editor
    repair: bool
    on_overflow: OnOverflow
    clock: Callable[[], float]

    @property
    def _guard(self) -> Guard:
        return self.live.guard

    def request(self) -> Request:
        """Returns the next request, after a collection if one is due.

        Raises:
            InvalidHistoryError: A provider would refuse the history, and ``repair`` is off or
                can't help.
            StashError: The stash failed to store what a repair removes.
            ContextFloorError: The request does not fit, and nothing more can be removed.
        """
        now = self.clock()
        for _ in range(MAX_ATTEMPTS):
            self._make_valid()
            size = self._size()
            self._make_room(size.fits, now)
            # Other threads may have changed the history meanwhile.
            request, size_now = self._finished(size, now)
            if request is not None:
                return request
            if size_now == size:
                break  # another attempt would end the same way
        if faults := self.live.faults():
            raise invalid_history(faults)
        raise self.floor_error()

    @guarded
    def request_at_once(self) -> Request | None:
        """Returns the next request if it takes no time; ``None`` if something is due before it."""
        schedule, now = self.schedule, self.clock()
        if schedule.asks_strategy or self.live.faults() or not self._size().fits:
            return None
        if schedule.config.check_before_send and (schedule.is_cache_cold(now) or schedule.due()):
            return None
        schedule.request_made(now)
        return self.live.request()

    @guarded
    def _finished(self, size: _Size, now: float) -> tuple[Request | None, _Size | None]:
        """Returns the request if it can be sent now, and its size if it is valid."""
        if self.live.faults():
            return None, None
        size_now = self._size()
        was_collected = not size.fits and self.schedule.strategy is not None
        can_be_sent = size_now.fits or self._fits_as_counted(size_now.limit, was_collected)
        if not (can_be_sent or self.on_overflow == "send"):
            return None, size_now
        self.schedule.request_made(now)
        return self.live.request(), size_now

    def _fits_as_counted(self, limit: int, was_collected: bool) -> bool:
        """Returns whether a request may be sent although its upper bound does not fit.

        A report may be wrong, so the correction alone refuses no request: the provider decides. The
        tolerance of the counter is given up if a collection could not do more.
        """
        budget = self.live.budget
        counted = budget.counted_tokens()
        if was_collected:
            return min(counted, budget.total_tokens()) <= limit
        return counted * (1 + budget.counter.tolerance) <= limit

    def _make_valid(self) -> None:
        faults = self.live.faults()
        if not faults:
            return
        if not self.repair:
            raise invalid_history(faults)
        self.editor.edit(edits_to_repair, REPAIR, repaired=[str(fault) for fault in faults])

    def _make_room(self, fits: bool, now: float) -> None:
        """Collects if that is due, or if the request does not fit."""
        schedule = self.schedule
        if not fits and schedule.strategy is None:
            return
        # What is fixed alone may be too much: then no strategy is asked.
        can_fit = fits or self._floor().can_fit
        if can_fit and schedule.config.check_before_send and self._collect_if_due(now):
            fits = self._size().fits
        # The result of a collection that can't help says so, for a host that sends anyway.
        if not fits and (can_fit or self.on_overflow == "send"):
            self.collector.collect_if_configured(GCTriggerReason.CONTEXT_LIMIT)

    def _collect_if_due(self, now: float) -> bool:
        """Collects if that is due. Returns whether it was."""
        schedule = self.schedule
        if schedule.is_cache_cold(now):
            target = schedule.config.cold_target_percent
            self.collector.collect_automatically(GCTriggerReason.CACHE_COLD, target_percent=target)
            return True
        if due := schedule.due(GCTriggerReason.PRE_MESSAGE):
            self.collector.collect_automatically(due)
            return True
        return False

    def recover_from_refusal(self, error: Exception | None) -> bool:
        """Collects because the provider refused the request. Returns whether it is smaller now.

        Args:
            error: The provider's error, which may name the window.
        """
        window = window_in(error) if error else None
        if window is not None and window < self.live.budget.context_limit:
            self.schedule.set_window(window)
        result = self.collector.collect_if_configured(GCTriggerReason.CONTEXT_LIMIT)
        return result is not None and result.tokens_after < result.tokens_before

    @guarded
    def _size(self) -> _Size:
        return _Size(self.live.upper_bound(), self.schedule.request_limit)

    @guarded
    def _floor(self) -> Floor:
        live, config = self.live, self.schedule.config
        reason = GCTriggerReason.CONTEXT_LIMIT
        draft = Draft(PlanRequest(CORE, live.messages, live.usage(), config, reason, live.budget))
        return Floor.of(live.messages, draft.groups, live.budget, draft.can_fit)

    def floor_error(self) -> ContextFloorError:
        """Returns the error for a request that is too long even after a collection."""
        most, limit = self._size()
        what = f"the next request has up to {most:,} tokens and only {limit:,} fit"
        if most <= limit:
            what = f"the provider refused a request of up to {most:,} tokens, of {limit:,} that fit"
        if self.schedule.strategy is None:
            hint = "No strategy is set: call set_gc_plugin"
            floor = {
                source.value: entry.total_tokens()
                for source, entry in self.live.budget.entries.items()
                if entry.total_tokens()
            }
            parts = ", ".join(f"{source} {tokens:,}" for source, tokens in floor.items())
            return ContextFloorError(f"{what} ({parts}). {hint}", floor)
        found = self._floor()
        entries = self.journal.entries
        result = entries[-1].result if entries else None
        in_the_way = str(found)
        if found.can_fit and result is not None and not result.success:
            hint = "Send again as soon as that is corrected"
            in_the_way = f"The collection that makes room failed, {result.error}. {hint}"
        elif found.can_fit and self.on_overflow == "raise":
            in_the_way = found.recent_text
        return ContextFloorError(f"{what}. {in_the_way}", found.by_source, result)
