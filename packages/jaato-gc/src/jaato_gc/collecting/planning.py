"""Planning a collection, on one page.

A strategy is never trusted: whatever it asks for, the plan keeps what is protected, leaves a
history that can be sent, and fits the window. `make_plan` has the order of the steps, and each step
is a module of its own.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jaato_gc.collecting.account import failed_result, result_of
from jaato_gc.collecting.draft import Draft
from jaato_gc.collecting.fitting import CORE, fit, shorten_oversized
from jaato_gc.collecting.identical_results import restore_last_copies, shorten_identical
from jaato_gc.collecting.ledger import add_ledger
from jaato_gc.collecting.notice import add_notice, reserve_notice
from jaato_gc.collecting.outcome import Outcome, broken_outcome_rules
from jaato_gc.collecting.plan_request import PlanRequest
from jaato_gc.collecting.results import GCOutcome, GCResult
from jaato_gc.history import Edit, apply_edits
from jaato_gc.messages import Message, plain_json

logger = logging.getLogger("jaato_gc")


class Failure(NamedTuple):
    """Why nothing counts of what a strategy asked for.

    Args:
        outcome: FAILED or REJECTED.
        error: The cause.
    """

    outcome: GCOutcome
    error: str


Ask = Callable[[Draft], Failure | None]
"""Lets a strategy work on a draft. Returns why that failed, or ``None``."""


@dataclass(frozen=True, slots=True)
class GCPlan:
    """A collection that is worked out but not applied.

    Apply it with `GCSession.apply` at any time. Messages that were appended since stay at the end.

    Args:
        gc_id: Its id in the journal, once applied.
        before: The history that it was made for.
        edits: What it changes.
        result: What its result would be.
        seconds: The time that planning took.
    """

    gc_id: str
    before: tuple[Message, ...]
    edits: tuple[Edit, ...]
    result: GCResult
    seconds: float = field(default=0.0, compare=False)

    @property
    def after(self) -> list[Message]:
        """The history that would remain."""
        return apply_edits(self.before, self.edits)

    @property
    def changes_nothing(self) -> bool:
        """Whether the history would stay as it is."""
        return not self.edits


def make_plan(request: PlanRequest, ask: Ask) -> GCPlan:
    """Returns a plan that is safe to apply, even if the strategy fails.

    Args:
        request: What the collection is planned from.
        ask: Lets the strategy work on the draft.
    """
    draft = Draft(request)
    if not draft.can_fit:  # fixed content alone is too large: the strategy can't help
        draft = _unchanged(draft)
        return _plan(draft, Outcome.of(draft))
    reserve_notice(draft)
    shorten_oversized(draft)
    shorten_identical(draft)
    failure = ask(draft)
    if failure is None and not draft.fits:  # what core adds must not hide what the strategy broke
        failure = _broken_rule(draft, Outcome.of(draft))
    if failure is None:
        draft = _finish(draft)
        outcome = Outcome.of(draft)
        failure = _broken_rule(draft, outcome)
        if failure is None:
            return _plan(draft, outcome)
    if request.must_fit and draft.goal.worst_overflow:  # core alone
        alone = Draft(replace(request, plugin_name=CORE, notice=None))
        alone.details["strategy_error"] = failure.error
        shorten_oversized(alone)
        shorten_identical(alone)
        alone = _finish(alone)
        outcome = Outcome.of(alone)
        if (fault := _broken_rule(alone, outcome)) is None:
            return _plan(alone, outcome)
        logger.error("core's own plan breaks a rule, so nothing is changed: %s", fault.error)
    return GCPlan(request.gc_id or "", draft.history, (), failed_result(draft, *failure))


def _finish(draft: Draft) -> Draft:
    """Makes the request fit, then adds ledger and notice. Returns the draft to apply.

    If the request can't be made to fit, that draft changes nothing.
    """
    restore_last_copies(draft)
    fit(draft)
    if not draft.fits:  # what the strategy inserted may be in the way
        bare = Draft(replace(draft.request, notice=None))
        bare.details["insertions_dropped"] = True
        fit(bare)
        if not bare.fits:
            return _unchanged(draft)
        draft = bare
    add_ledger(draft)
    add_notice(draft)
    return draft


def _unchanged(draft: Draft) -> Draft:
    """Returns a draft without edits, whose result says that the request can't be made to fit."""
    unchanged = Draft(replace(draft.request, notice=None))
    unchanged.details = {**draft.details, "fits": False}
    return unchanged


def _broken_rule(draft: Draft, outcome: Outcome) -> Failure | None:
    """Returns the first rule that the outcome of a draft breaks, as a failure."""
    if violations := broken_outcome_rules(outcome):
        return rejection(draft, str(violations[0]))
    try:
        draft.details = dict(plain_json(draft.details))  # a session keeps and saves them
    except ValueError as error:
        return rejection(draft, f"the result has invalid details: {error}")
    return None


def rejection(draft: Draft, cause: str) -> Failure:
    """Returns the failure of a strategy that asked for something invalid."""
    return Failure(GCOutcome.REJECTED, f"{draft.request.origin()}: {cause}")


def _plan(draft: Draft, outcome: Outcome) -> GCPlan:
    result = result_of(draft, outcome)
    return GCPlan(draft.request.gc_id or "", draft.history, tuple(draft.edits), result)
