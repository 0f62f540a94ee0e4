"""A history and its budget, always in step with each other."""

import logging
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from operator import is_
from typing import Any

from jaato_gc._budget import InstructionBudget
from jaato_gc._change import Change
from jaato_gc._errors import StalePlanError, UndoError
from jaato_gc._glance import Glance
from jaato_gc._invariants import HISTORY_INVARIANTS, Violation
from jaato_gc._ledger import BookedEntry, Ledger
from jaato_gc._messages import SYSTEM, Message, mint_message_id
from jaato_gc._pairing import pair_calls
from jaato_gc._policies import InstructionSource
from jaato_gc._request import Request
from jaato_gc._tokens import Confidence, message_tokens

logger = logging.getLogger("jaato_gc")

_CALIBRATED = Confidence.CALIBRATED


class Context:
    """What would be sent next, and what it costs.

    Every change is made under ``lock`` and either happens as a whole or not at all: whatever can
    fail (counting, mostly) is done before anything is changed.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.history: list[Message] = []
        """Only ever added to, since requests look into it: a collection puts another there."""
        self.turns = 0
        self.pinned_turns: set[int] = set()
        """Turns to pin as they come, by their number in the whole session."""
        self.numbers: dict[str, int] = {}
        """Where each message stood in the whole session, in that order, if they can come back."""
        self.lock = threading.RLock()
        self.repairs = 0
        """How often what a collection had left was mended, since it could not be sent."""
        self.reports = 0
        """How often the provider has reported its own figure."""
        self.uncertain_tokens = 0
        """Tokens that came or went since the provider last reported its own figure."""
        self.counted_at_request: int | None = None
        self._collected = 0
        """How many messages the last collection left."""
        self._look_from(0)
        self._lent: list[InstructionBudget] = []

    @property
    def budget(self) -> InstructionBudget:
        return self.ledger.budget

    # --- changing ---

    def begin_with(self, history: list[Message]) -> None:
        """Take over a history that the budget has already."""
        self.history = history
        self._look_from(0)

    def append(self, message: Message) -> Message:
        """Add a message at the end; it gets another id if its own is taken."""
        ledger = self.ledger
        tokens = message_tokens(message, ledger.budget.counter)
        # By hand, here and below: `with` takes twice as long, and every turn does this some times.
        self.lock.acquire()
        try:
            if self._lent:
                self._take_back()
            budget = ledger.budget
            if message.message_id in budget._by_message:
                taken, message = message.message_id, replace(message, message_id=mint_message_id())
                logger.warning("message id %r is taken: renamed %r", taken, message.message_id)
            turns_opened = ledger.turns_opened
            try:
                has_calls, has_results = self._glance.see(message)
                ledger.book(message, tokens, has_calls, has_results)
            except BaseException:
                self._look_from(self._seen_from)  # without what did not come
                raise
            self.turns += ledger.turns_opened - turns_opened
            self.history.append(message)
            if budget.has_stash or self.numbers:
                self.numbers.pop(message.message_id, None)  # an id that went may be used again
                last = next(reversed(self.numbers.values()), -1)
                self.numbers[message.message_id] = last + 1
            if self.pinned_turns and ledger.turn in self.pinned_turns:
                budget.pinned_message_ids.add(message.message_id)
            self.uncertain_tokens += tokens
        finally:
            self.lock.release()
        return message

    def exchange(
        self,
        before: Sequence[Message],
        after: Sequence[Message],
        created_by: str | None,
        examined: Change | None = None,
    ) -> tuple[Change, list[BookedEntry]]:
        """Put one beginning of the history in place of another; what follows it stays.

        Args:
            before: How the history begins.
            after: How it is to begin.
            created_by: Who made what is new in it; ``None``: nobody, it comes back.
            examined: What of the one is not in the other, if it was seen that this breaks nothing
                that was in order.

        Raises:
            StalePlanError: The history no longer begins like that.
        """
        with self.lock:
            self.check_beginning(before)
            change = replace(
                examined or Change.between(before, after),
                repairs=self.repairs,
                reports=self.reports,
            )
            replaced = {message.message_id for message in change.gone}
            for message in change.come:
                if message.message_id not in replaced and self.budget.entry_of(message.message_id):
                    raise StalePlanError(f"the id {message.message_id!r} is taken: make a new plan")
            moved = self._count(change)
            self._take_back()
            touched = self.ledger.change(change.gone, change.come, created_by)
            self.history = [*after, *self.history[len(before) :]]
            self._note(change, sign=1, moved=moved)
            # What was in order still is, but for what may stand further back than it seems.
            in_order = len(before) if self.is_in_order else self._seen_from
            unchecked = len(before) - in_order + len(change.come)
            self._look_from(max(0, len(after) - unchecked) if examined else 0)
            self._collected = len(after) if examined else 0
            return change, touched

    def check_beginning(self, before: Sequence[Message]) -> None:
        """See that the history begins like that.

        Raises:
            StalePlanError: It does not.
        """
        with self.lock:
            if len(before) > len(self.history) or not all(map(is_, before, self.history)):
                raise StalePlanError(
                    "the history has changed where the plan would change it: make a new plan"
                )

    def drop(self, source: InstructionSource, key: str | None) -> int:
        """Book out something that is not in the history; without a key, the whole source.

        Returns the tokens that it had.
        """
        with self.lock:
            self._take_back()
            before = self.budget.counted_tokens()
            if key is None:
                self.budget.clear_source(source)
            else:
                self.budget.remove_child(source, key)
            return before - self.budget.counted_tokens()

    def revert(self, change: Change, touched: Sequence[BookedEntry]) -> None:
        """Undo an `exchange`; what was appended since stays behind it.

        Raises:
            UndoError: A message that would come back has been appended again meanwhile, or the
                history was mended since.
        """
        with self.lock:
            if change.repairs != self.repairs:
                raise UndoError("the history was repaired since: there is no place to put it back")
            replaced = {message.message_id for message in change.come}
            for message in change.gone:
                taken = self.budget.entry_of(message.message_id) is not None
                if taken and message.message_id not in replaced:
                    raise UndoError(f"message {message.message_id!r} is in the history again")
            moved, uncertain = self._count(change), self.uncertain_tokens
            restored = change.revert(self.history)
            counted = {
                each.message_id: message_tokens(each, self.budget.counter) for each in restored
            }
            self._take_back()
            back = {message.message_id for message in change.gone}
            added = [
                message
                for message in change.come
                if message.synthetic or message.message_id not in back
            ]
            self.ledger.revert(touched, added, counted.__getitem__)
            self.history = restored
            self._note(change, sign=-1, moved=moved)
            self._look_from(0)
            self._collected = 0
            if change.reports != self.reports:
                self.uncertain_tokens = uncertain + moved  # the reports since know nothing of it

    def _count(self, change: Change) -> int:
        counter = self.budget.counter
        return sum(message_tokens(message, counter) for message in (*change.gone, *change.come))

    def _note(self, change: Change, *, sign: int, moved: int) -> None:
        opened = sum(message.opens_turn for message in change.come)
        closed = sum(message.opens_turn for message in change.gone)
        self.turns += sign * (opened - closed)
        self.uncertain_tokens = max(0, self.uncertain_tokens + sign * moved)

    # --- lending the budget to a strategy ---

    @contextmanager
    def lent(self) -> Iterator[tuple[list[Message], InstructionBudget, bytes | None]]:
        """History and budget for someone to read while messages may still arrive.

        The budget is copied only if one does. With them comes what is known of the messages since
        the last collection: a 1 for each that carries the results of the calls before it, a 0 for
        all others, if they are in such plain order.
        """
        with self.lock:
            history, budget = list(self.history), self.budget
            self._lent.append(budget)
            since = self._collected - self._seen_from
            is_known = since >= 0 and self.is_in_order
            carrying = bytes(self._glance.carrying[since:]) if is_known else None
        try:
            yield history, budget, carrying
        finally:
            with self.lock:
                self._lent.remove(budget)

    def _take_back(self) -> None:
        if self.budget in self._lent:
            self.ledger.budget = self.budget.copy()

    # --- figures ---

    def usage(self) -> dict[str, Any]:
        """How full the window is."""
        budget = self.ledger.budget
        # Not by the budget's methods: a strategy that has to be asked is asked in every turn.
        limit, total = budget.context_limit, budget._counted + budget.correction
        if total < 0:
            total = 0
        return {
            "context_limit": limit,
            "total_tokens": total,
            "percent_used": total / limit * 100.0 if limit > 0 else 0.0,
            "tokens_remaining": limit - total if total < limit else 0,
            "turns": self.turns,
            "confidence": _CALIBRATED if self.reports else budget.counter.confidence,
        }

    @property
    def confidence(self) -> Confidence:
        return _CALIBRATED if self.reports else self.budget.counter.confidence

    def upper_bound(self) -> int:
        """The most that the next request can have: decides where nothing may go wrong.

        What the provider has reported is certain; what came since is as good as the counter.
        """
        budget = self.ledger.budget
        uncertain = self.uncertain_tokens if self.reports else budget._counted
        total = budget._counted + budget.correction
        return (total if total > 0 else 0) + math.ceil(uncertain * budget.counter.tolerance)

    def anchor(self, input_tokens: int) -> bool:
        """Take the provider's figure for the last request as the truth.

        Returns whether that changed the total.
        """
        self.lock.acquire()
        try:
            counted, budget = self.counted_at_request, self.ledger.budget
            if input_tokens <= 0 or counted is None:
                return False
            before, budget.correction = budget.correction, input_tokens - counted
            self.uncertain_tokens = abs(budget._counted - counted)
            self.reports += 1
            return budget.correction != before
        finally:
            self.lock.release()

    def request(self) -> Request:
        """What is sent now."""
        self.lock.acquire()
        try:
            self.counted_at_request = self.ledger.budget._counted
            return Request(self.history)
        finally:
            self.lock.release()

    # --- validity ---

    @property
    def is_in_order(self) -> bool:
        """Whether the next request is in order, as far as a glance at each message tells."""
        return self._glance.is_in_order

    def find_faults(self) -> list[Violation]:
        """What a provider would refuse about the next request.

        Looks only at what came since it was last in order, with the exchange that it may belong to:
        a collection that breaks what was in order is not applied.
        """
        with self.lock:
            history = self.history
            start = self._seen_from
            while start > 0 and history[start - 1].is_tool_output:
                start -= 1
            start = max(0, start - 1)
            tail = history[start:]
            pairing = pair_calls(tail)
            faults = [
                fault
                for check in HISTORY_INVARIANTS
                for fault in check(tail, pairing)
                if start == 0 or fault.invariant != "user_first"
            ]
            for position, calls in pairing.unanswered.items():
                names = ", ".join(call.name for call in calls)
                detail = f"append the results of its open calls first: {names}"
                fault = Violation("calls_have_results", tail[position].message_id, detail)
                if all(each.message_id != fault.message_id for each in faults):
                    faults.append(fault)
            if not faults:
                self._look_from(len(history))
            return faults

    def _look_from(self, position: int) -> None:
        """See everything from a position on; all before it is in order."""
        history = self.history
        self._seen_from = position
        is_beginning = all(message.role is SYSTEM for message in islice(history, position))
        self._glance = Glance(history[position:], is_beginning=is_beginning)
