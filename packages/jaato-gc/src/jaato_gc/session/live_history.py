"""The history of a session and its budget, which always change together."""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

from jaato_gc.budget import Booking, InstructionBudget, ReadOnlyBudget
from jaato_gc.budget.calibration import LEAST_RATIO, Report, correction_of, with_report
from jaato_gc.collecting import SessionUsage
from jaato_gc.commit import Commit, Guard, guarded
from jaato_gc.errors import GCError, MessageError
from jaato_gc.history import (
    FastCheck,
    Violation,
    check_history,
    pair_calls,
    proved_violations,
    split_into_turns,
    unproved_violations,
)
from jaato_gc.messages import Message, Role, mint_message_id, seal
from jaato_gc.policies import InstructionSource
from jaato_gc.tokens import Confidence, message_tokens

logger = logging.getLogger("jaato_gc")


class Request(list[Message]):
    """The messages of a request, and what was counted for it: a report belongs to its request."""

    __slots__ = ("counted_tokens",)

    def __init__(self, messages: Iterable[Message], counted_tokens: int) -> None:
        super().__init__(messages)
        self.counted_tokens = counted_tokens


class LiveHistory:
    """The messages that would be sent next, and their cost.

    Every change is prepared first and takes effect with one commit: see `jaato_gc.commit`.

    Args:
        booking: Books the messages into the budget.
    """

    def __init__(self, booking: Booking) -> None:
        self.booking = booking
        self._guard = booking.budget._guard  # so that snapshots of the budget show no half changes
        self.messages: list[Message] = []
        self.turns = 0
        self.pinned_turns: frozenset[int] = frozenset()
        """Turns to pin when they begin, by their number in the whole session."""
        self.appended = 0
        """How many messages were appended so far."""
        self.places: dict[str, int] = {}
        """How many messages were appended before each message: where it is in the whole session.

        Messages that a collection added have no place of their own.
        """
        self.reports = 0
        """How often the provider reported its usage."""
        self.samples: list[Report] = []
        """The reports that the correction follows from: see `jaato_gc.budget.calibration`."""
        self.doubts_report = False
        """Whether the last report of the provider was not believed."""
        self._has_warned = False
        self.uncertain_tokens = 0
        """Tokens that were added or removed since the provider last reported its usage."""
        self.counted_at_request: int | None = None
        self._lent: set[ReadOnlyBudget] = set()
        self._checked, self._fast_check = _checks(self.messages, 0)

    @property
    def budget(self) -> InstructionBudget:
        """The budget."""
        return self.booking.budget

    @property
    def guard(self) -> Guard:
        """The lock of all state of the session."""
        return self._guard

    @guarded
    def snapshot(self) -> tuple[Message, ...]:
        """Returns the messages."""
        return tuple(self.messages)

    # --- changing ---

    def begin_with(self, messages: list[Message], budget: InstructionBudget) -> None:
        """Sets messages, and a budget that they are booked in."""
        budget._guard = self._guard
        self.booking.budget = budget
        self.messages = messages
        self._checked, self._fast_check = _checks(messages, 0)

    def append(self, message: Message) -> Message:
        """Adds a message at the end and returns it as booked: a taken id is replaced.

        Raises:
            MessageError: It is not a message.
            GCError: The counter returned something else than an integer of 0 or more.
        """
        seal(message)
        return self._append(message, message_tokens(message, self.budget.counter))

    @guarded
    def _append(self, message: Message, tokens: int) -> Message:
        if self._lent:
            self._detach_views()
        booking, budget, turn = self.booking, self.budget, self.booking.turn
        if budget.entry_of(message.message_id) is not None:
            taken, message = message.message_id, replace(message, message_id=mint_message_id())
            logger.warning("message id %r is taken: renamed %r", taken, message.message_id)
        message = booking.with_policy(message)
        commit = Commit()
        own_turn = booking.book(commit, message, tokens, pinned_turns=self.pinned_turns)
        if own_turn != turn:  # the turn before has ended
            commit.assign(self, pinned_turns=self.pinned_turns - {turn})
        length, appended = len(self.messages), self.appended
        turns, uncertain = self.turns + message.opens_turn, self.uncertain_tokens + tokens
        check = self._fast_check.after(message)

        def write() -> None:
            self.messages[length:] = [message]
            self.places[message.message_id] = appended
            self.turns, self.appended, self.uncertain_tokens = turns, appended + 1, uncertain
            self._fast_check = check

        commit.then(write)
        self._guard.commit(commit)
        return message

    @guarded
    def pin_turns(self, indices: Iterable[int]) -> None:
        """Pins the messages of turns: of those that exist, and of those that begin later."""
        turns = split_into_turns(self.messages)
        pinned, later = set(self.budget.pinned_message_ids), set(self.pinned_turns)
        for index in indices:
            if index < len(turns):
                pinned.update(message.message_id for message in turns[index].messages)
            if index >= len(turns) - 1:  # the last turn may continue
                earlier = max(0, self.booking.turns_opened - len(turns))
                later.add(earlier + index)
        commit = Commit()
        commit.assign(self, pinned_turns=frozenset(later))
        self.budget.replace_pins(commit, pinned)
        self._guard.commit(commit)

    @guarded
    def pin(self, message_id: str) -> None:
        """Pins a message.

        Raises:
            MessageError: There is no message with this id.
        """
        if self.budget.entry_of(message_id) is None:
            raise MessageError(f"there is no message {message_id!r} to pin")
        self.budget.pinned_message_ids |= {message_id}

    @guarded
    def unpin(self, message_id: str) -> None:
        """Stops pinning a message."""
        self.budget.pinned_message_ids -= {message_id}

    def prepare_messages(
        self, commit: Commit, messages: list[Message], *, is_checked: bool
    ) -> None:
        """Prepares another list of messages: see `jaato_gc.session.applying`."""
        checked, fast_check = _checks(messages, len(messages) if is_checked else 0)
        commit.assign(
            self,
            messages=messages,
            _checked=checked,
            _fast_check=fast_check,
            _lent=set(),  # views keep the entries that were replaced
        )

    @guarded
    def drop(self, source: InstructionSource, key: str | None) -> int:
        """Removes something from the budget that is not in the history. Returns what it frees."""
        changed = self.budget.copy()
        if key is None:
            changed.clear_source(source)
        else:
            changed.remove_child(source, key)
        freed = self.budget.total_tokens() - changed.total_tokens()
        commit = Commit()
        self.budget.replace_entries(commit, changed)
        self._guard.commit(commit)
        return freed

    # --- lending the budget to a strategy ---

    @contextmanager
    def lent(self) -> Iterator[tuple[tuple[Message, ...], ReadOnlyBudget]]:
        """Returns history and budget to read while messages may still arrive.

        If one does, the budget continues with copies of its entries.
        """
        messages, view = self._lend()
        try:
            yield messages, view
        finally:
            self._lent.discard(view)

    @guarded
    def _lend(self) -> tuple[tuple[Message, ...], ReadOnlyBudget]:
        budget = self.budget
        budget.uncertain_tokens = self.uncertain_tokens if self.reports else None
        view = ReadOnlyBudget(budget)
        self._lent.add(view)
        return tuple(self.messages), view

    def _detach_views(self) -> None:
        commit = Commit()
        self.budget.replace_entries(commit, self.budget.copy())
        commit.assign(self, _lent=set())
        self._guard.commit(commit)

    # --- figures ---

    @guarded
    def usage(self) -> SessionUsage:
        """Returns how full the window is."""
        budget = self.budget
        return {
            "context_limit": budget.context_limit,
            "total_tokens": budget.total_tokens(),
            "percent_used": budget.utilization_percent(),
            "tokens_remaining": budget.available_tokens(),
            "turns": self.turns,
            "confidence": self.confidence,
            "fixed_tokens": budget.fixed_tokens(),
        }

    @property
    def confidence(self) -> Confidence:
        """How reliable the figures are."""
        if self.doubts_report:
            return Confidence.DOUBTED
        return Confidence.CALIBRATED if self.reports else self.budget.counter.confidence

    @guarded
    def upper_bound(self) -> int:
        """Returns the most tokens that the next request can have."""
        self.budget.uncertain_tokens = self.uncertain_tokens if self.reports else None
        return self.budget.upper_bound()

    @guarded
    def anchor(self, input_tokens: float, counted: int | None = None) -> bool:
        """Corrects the budget by the reported usage. Returns whether that changed the total.

        Args:
            input_tokens: What the provider reports.
            counted: What was counted for the request; ``None``: it was the newest one.
        """
        budget = self.budget
        counted = self.counted_at_request if counted is None else counted
        if counted is None:
            return False
        self.doubts_report = not counted * LEAST_RATIO <= input_tokens <= budget.context_limit
        if self.doubts_report:
            self._warn_of_report(input_tokens, counted)
            return False
        before = budget.total_tokens()
        samples = with_report(self.samples, Report(counted, math.ceil(input_tokens)))
        ratio, unbooked = correction_of(samples)
        uncertain = abs(budget.counted_tokens() - counted)
        commit = Commit()
        commit.assign(budget, ratio=ratio, unbooked_tokens=unbooked)
        commit.assign(self, samples=samples, uncertain_tokens=uncertain, reports=self.reports + 1)
        self._guard.commit(commit)
        return budget.total_tokens() != before

    def _warn_of_report(self, input_tokens: float, counted: int) -> None:
        """Logs once that a report is not believed, and what the cause may be."""
        if not self._has_warned:
            logger.warning(
                "a report of %s input tokens is not believed: %s were counted, and the window has "
                "%s. If it is too low, include the tokens that were read from the cache; if it is "
                "too high, correct context_limit. If it is that of another request, pass the list "
                "that before_send returned as report_usage(…, request=…)",
                input_tokens,
                counted,
                self.budget.context_limit,
            )
        self._has_warned = True

    @guarded
    def request(self) -> Request:
        """Returns the messages to send now."""
        self.counted_at_request = counted = self.budget.counted_tokens()
        return Request(self.messages, counted)

    # --- validity ---

    @property
    def is_certainly_valid(self) -> bool:
        """Whether all messages are ordinary, and no call waits for its result."""
        return self._fast_check.is_valid

    @guarded
    def faults(self) -> list[Violation]:
        """Returns everything that a provider would refuse about the next request.

        Ordinary messages were checked when they were appended. Of other histories, the part since
        the last valid request is checked, with the exchange that it belongs to.
        """
        if self._fast_check.is_valid:
            return unproved_violations(self.messages)
        start = self._checked
        while start > 0 and self.messages[start - 1].is_tool_output:
            start -= 1
        start = max(0, start - 1)
        tail = self.messages[start:]
        faults = proved_violations(tail, is_beginning=start == 0)
        faults += _open_calls(tail, faults)
        if not faults:
            checked, fast_check = _checks(self.messages, len(self.messages))
            commit = Commit()
            commit.assign(self, _checked=checked, _fast_check=fast_check)
            self._guard.commit(commit)
        return [*faults, *unproved_violations(self.messages)]


def counted_for(request: Sequence[Message]) -> int:
    """Returns what was counted for a request.

    Raises:
        GCError: It is not what `GCSession.before_send` returned.
    """
    if not isinstance(request, Request):
        raise GCError(
            f"request={request!r:.80}: expected the list that before_send returned, not a copy"
        )
    return request.counted_tokens


def _checks(messages: Sequence[Message], position: int) -> tuple[int, FastCheck]:
    """Returns a position, before which all messages are valid, and a check of those after it."""
    before = islice(messages, position)
    is_beginning = all(message.role is Role.SYSTEM for message in before)
    return position, FastCheck(messages[position:], is_beginning=is_beginning)


def faults_of(messages: Sequence[Message]) -> list[Violation]:
    """Returns everything that a provider would refuse about a request with these messages."""
    faults = check_history(messages)
    return [*faults, *_open_calls(messages, faults)]


def _open_calls(messages: Sequence[Message], faults: Sequence[Violation]) -> Iterator[Violation]:
    """Yields the calls at the end that wait for results, except in messages with other faults."""
    at_fault = {fault.message_id for fault in faults}
    for position, calls in pair_calls(messages).unanswered.items():
        message_id = messages[position].message_id
        if message_id not in at_fault:
            names = ", ".join(call.name for call in calls)
            detail = f"append the results of its open calls first: {names}"
            yield Violation("calls_have_results", message_id, detail)
