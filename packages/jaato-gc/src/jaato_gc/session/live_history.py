"""The live history of a session and its budget, always in step with each other."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from operator import is_
from types import MappingProxyType

from jaato_gc.budget import Booking, InstructionBudget, ReadOnlyBudget
from jaato_gc.collecting import SessionUsage
from jaato_gc.errors import StalePlanError, UndoError
from jaato_gc.history import (
    Edit,
    FastCheck,
    Violation,
    apply_edits,
    check_history,
    in_order,
    inverse,
    lay_out,
    moved_to,
    new_violations,
    pair_calls,
    proved_violations,
    split_into_turns,
    unproved_violations,
)
from jaato_gc.messages import Message, Role, mint_message_id, seal
from jaato_gc.policies import InstructionSource
from jaato_gc.session.journal import AppliedEdits
from jaato_gc.session.request import Request
from jaato_gc.tokens import Confidence, count_tokens, message_tokens

logger = logging.getLogger("jaato_gc")

_NO_PLACES: Mapping[str, int] = MappingProxyType({})

LEAST_CREDIBLE = 0.5
"""A report below this share of the counted tokens is false, or leaves out cached tokens."""


class LiveHistory:
    """The messages that would be sent next, and their cost.

    Every change is made under ``lock``, and happens as a whole or not at all: everything that can
    fail (counting, mostly) is done before anything is changed.

    Args:
        booking: Books the messages into the budget.
    """

    def __init__(self, booking: Booking) -> None:
        self.booking = booking
        self.lock = booking.budget.lock  # so that snapshots of the budget show no half changes
        self.messages: list[Message] = []
        """Only ever grows at its end, because requests refer to it; edits make another list."""
        self.turns = 0
        self.pinned_turns: set[int] = set()
        """Turns to pin when they begin, by their number in the whole session."""
        self.appended = 0
        """How many messages were appended so far."""
        self.places: dict[str, int] = {}
        """How many messages were appended before each message: where it is in the whole session.

        Messages that a collection added have no place of their own.
        """
        self.reports = 0
        """How often the provider reported its usage."""
        self.doubts_report = False
        """Whether the last report of the provider was not believed."""
        self._has_warned = False
        self.uncertain_tokens = 0
        """Tokens that were added or removed since the provider last reported its usage."""
        self.counted_at_request: int | None = None
        self._lent: set[ReadOnlyBudget] = set()
        self._check_from(0)

    @property
    def budget(self) -> InstructionBudget:
        """The budget."""
        return self.booking.budget

    # --- changing ---

    def begin_with(self, messages: list[Message], budget: InstructionBudget) -> None:
        """Sets messages, and a budget that they are booked in."""
        budget.lock = self.lock
        self.booking.budget = budget
        self.messages = messages
        self._check_from(0)

    def append(self, message: Message) -> Message:
        """Adds a message at the end and returns it as booked: a taken id is replaced.

        Raises:
            MessageError: It is not a message.
        """
        seal(message)
        booking = self.booking
        tokens = message_tokens(message, booking.budget.counter)
        with self.lock:
            if self._lent:
                self._take_back()
            budget = booking.budget
            if budget.entry_of(message.message_id) is not None:
                taken, message = message.message_id, replace(message, message_id=mint_message_id())
                logger.warning("message id %r is taken: renamed %r", taken, message.message_id)
            turn, turns_opened = booking.turn, booking.turns_opened
            try:
                self._fast_check.see(message)
                booking.book(message, tokens)
            except BaseException:
                self._check_from(self._checked)  # without the message that was not added
                raise
            self.turns += booking.turns_opened - turns_opened
            self.messages.append(message)
            self.places[message.message_id] = self.appended
            self.appended += 1
            if booking.turn != turn:
                self.pinned_turns.discard(turn)  # it has ended
            if booking.turn in self.pinned_turns:
                budget.pinned_message_ids.add(message.message_id)
            self.uncertain_tokens += tokens
        return message

    def pin_turns(self, indices: Iterable[int]) -> None:
        """Pins the messages of turns: of those that exist, and of those that begin later."""
        with self.lock:
            turns = split_into_turns(self.messages)
            for index in indices:
                if index < len(turns):
                    ids = (message.message_id for message in turns[index].messages)
                    self.budget.pinned_message_ids.update(ids)
                if index >= len(turns) - 1:  # the last turn may continue
                    earlier = max(0, self.booking.turns_opened - len(turns))
                    self.pinned_turns.add(earlier + index)

    def apply(
        self,
        edits: Sequence[Edit],
        base: Sequence[Message],
        created_by: str | None,
        places: Mapping[str, int] = _NO_PLACES,
    ) -> AppliedEdits:
        """Applies edits that were made for an earlier state of the history.

        Args:
            edits: The edits.
            base: The history that their positions refer to.
            created_by: The strategy that made new messages; ``None``: they are restored.
            places: The places of messages that are restored, by id.

        Raises:
            StalePlanError: A message that they change was changed or removed since.
        """
        with self.lock:
            edits, messages = self._edited(edits, base)
            moved = self._count(edits)
            stays_valid = self._fast_check.is_valid and created_by is not None
            self._take_back()
            touched = self.booking.apply(edits, created_by)
            # What was appended since the plan follows the edited part.
            before = len(self.messages)
            length = min(len(base), before) + len(messages) - before
            self._replace(messages, edits, uncertain_tokens=moved)
            # Edits of a plan were checked when it was made.
            self._check_from(len(messages) if stays_valid else 0)
            left = self._move_places(edits, places)
            return AppliedEdits(edits, touched, length, self.reports, left)

    def check_plan(self, edits: Sequence[Edit], base: Sequence[Message]) -> None:
        """Checks that edits could be applied now.

        Raises:
            StalePlanError: A message that they change was changed, pinned or removed since.
        """
        with self.lock:
            self._edited(edits, base)
            pinned = self.budget.pinned_message_ids
            if not pinned:
                return
            kept = {  # a pin keeps the whole group
                message.message_id
                for group in lay_out(self.messages).groups
                if any(message.message_id in pinned for message in group.messages)
                for message in group.messages
            }
            for edit in edits:
                if edit.before and edit.message_id in kept:
                    raise StalePlanError(
                        f"message {edit.message_id!r} was pinned since: make a new plan"
                    )

    def _edited(
        self, edits: Sequence[Edit], base: Sequence[Message]
    ) -> tuple[list[Edit], list[Message]]:
        """Returns edits with their positions in the current history, and the edited history."""
        has_moved = len(base) > len(self.messages) or not all(map(is_, base, self.messages))
        moved = moved_to(edits, base, self.messages) if has_moved else edits
        if moved is None:
            raise StalePlanError(
                "a message that the plan changes was changed or removed since: make a new plan"
            )
        edits = in_order(moved)
        replaced = {edit.before.message_id for edit in edits if edit.before}
        for edit in edits:
            new_id = edit.after.message_id if edit.after else None
            if new_id and new_id not in replaced and self.budget.entry_of(new_id):
                raise StalePlanError(f"the id {new_id!r} is taken: make a new plan")
        messages = apply_edits(self.messages, edits)
        if has_moved and (faults := new_violations(self.messages, messages)):
            raise StalePlanError(f"the history was changed since: {faults[0]}; make a new plan")
        return edits, messages

    def drop(self, source: InstructionSource, key: str | None) -> int:
        """Removes something from the budget that is not in the history. Returns its tokens."""
        with self.lock:
            self._take_back()
            before = self.budget.counted_tokens()
            if key is None:
                self.budget.clear_source(source)
            else:
                self.budget.remove_child(source, key)
            return before - self.budget.counted_tokens()

    def revert(self, applied: AppliedEdits) -> None:
        """Undoes edits. Messages that were appended since stay at the end.

        Raises:
            UndoError: A message that would come back was appended again meanwhile, or the history
                was changed since.
        """
        with self.lock:
            added = {message.message_id for message in applied.added}
            for message in applied.removed:
                taken = self.budget.entry_of(message.message_id) is not None
                if taken and message.message_id not in added:
                    raise UndoError(f"message {message.message_id!r} is in the history again")
            undoing = inverse(applied.edits)
            if any(
                edit.before is not None and not self._is_at(edit.position, edit.before.message_id)
                for edit in undoing
            ):
                raise UndoError("the history was changed since: positions no longer match")
            moved = self._count(undoing)
            restored = apply_edits(self.messages, undoing)
            counter = self.budget.counter
            counted = {each.message_id: message_tokens(each, counter) for each in restored}
            self._take_back()
            self.booking.revert(applied.touched, applied.edits, counted)
            is_uncertain = applied.reports != self.reports  # newer reports don't cover it
            self._replace(restored, undoing, uncertain_tokens=moved if is_uncertain else -moved)
            self._move_places(undoing, applied.places)
            self._check_from(0)

    def _move_places(self, edits: Sequence[Edit], returning: Mapping[str, int]) -> dict[str, int]:
        """Adds the places of messages that return. Returns those of the messages that left."""
        before = {edit.before.message_id for edit in edits if edit.before}
        after = {edit.after.message_id for edit in edits if edit.after}
        for message_id in (after - before) & returning.keys():
            self.places[message_id] = returning[message_id]
        return {each: self.places.pop(each) for each in (before - after) & self.places.keys()}

    def _is_at(self, position: int, message_id: str) -> bool:
        messages = self.messages
        return position < len(messages) and messages[position].message_id == message_id

    def _count(self, edits: Sequence[Edit]) -> int:
        messages = [edit.before for edit in edits if edit.before]
        messages += [edit.after for edit in edits if edit.after]
        return count_tokens(messages, self.budget.counter)

    def _replace(
        self, messages: list[Message], edits: Sequence[Edit], *, uncertain_tokens: int
    ) -> None:
        self.messages = messages
        opened = sum(edit.after.opens_turn for edit in edits if edit.after)
        closed = sum(edit.before.opens_turn for edit in edits if edit.before)
        self.turns += opened - closed
        self.uncertain_tokens = max(0, self.uncertain_tokens + uncertain_tokens)

    # --- lending the budget to a strategy ---

    @contextmanager
    def lent(self) -> Iterator[tuple[tuple[Message, ...], ReadOnlyBudget]]:
        """Returns history and budget to read while messages may still arrive.

        If one does, the budget continues with copies of its entries.
        """
        with self.lock:
            messages, budget = tuple(self.messages), self.budget
            budget.uncertain_tokens = self.uncertain_tokens if self.reports else None
            view = ReadOnlyBudget(budget)
            self._lent.add(view)
        try:
            yield messages, view
        finally:
            with self.lock:
                self._lent.discard(view)

    def _take_back(self) -> None:
        if self._lent:
            self.budget.detach_views()
            self._lent.clear()

    # --- figures ---

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
        }

    @property
    def confidence(self) -> Confidence:
        """How reliable the figures are."""
        if self.doubts_report:
            return Confidence.DOUBTED
        return Confidence.CALIBRATED if self.reports else self.budget.counter.confidence

    def upper_bound(self) -> int:
        """Returns the most tokens that the next request can have."""
        with self.lock:
            self.budget.uncertain_tokens = self.uncertain_tokens if self.reports else None
            return self.budget.upper_bound()

    def anchor(self, input_tokens: float) -> bool:
        """Corrects the budget by the reported usage. Returns whether that changed the total."""
        with self.lock:
            counted, budget = self.counted_at_request, self.budget
            if counted is None:
                return False
            self.doubts_report = input_tokens < counted * LEAST_CREDIBLE
            if self.doubts_report:
                if not self._has_warned:
                    logger.warning(
                        "a report of %s input tokens is not believed, because %s were counted: "
                        "include tokens that were read from the cache",
                        input_tokens,
                        counted,
                    )
                self._has_warned = True
                return False
            before, budget.correction = budget.correction, math.ceil(input_tokens) - counted
            self.uncertain_tokens = abs(budget.counted_tokens() - counted)
            self.reports += 1
            return budget.correction != before

    def request(self) -> Request:
        """Returns the request to send now."""
        with self.lock:
            self.counted_at_request = self.budget.counted_tokens()
            return Request(self.messages)

    # --- validity ---

    def faults(self) -> list[Violation]:
        """Returns everything that a provider would refuse about the next request.

        Ordinary messages were checked when they were appended. Of other histories, the part since
        the last valid request is checked, with the exchange that it belongs to.
        """
        with self.lock:
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
                self._check_from(len(self.messages))
            return [*faults, *unproved_violations(self.messages)]

    def _check_from(self, position: int) -> None:
        """Checks everything from a position on; all messages before it are valid."""
        self._checked = position
        before = islice(self.messages, position)
        is_beginning = all(message.role is Role.SYSTEM for message in before)
        self._fast_check = FastCheck(self.messages[position:], is_beginning=is_beginning)


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
