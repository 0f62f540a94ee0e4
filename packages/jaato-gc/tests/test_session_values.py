"""Numbers that a host gives to a session: valid ones work, others are one clear error."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from jaato_gc import (
    Confidence,
    FunctionCall,
    GCConfigError,
    GCError,
    GCSession,
    Message,
    Part,
    Role,
    ToolResult,
)
from jaato_gc.plugin import FrameCosts, SummarySettings
from jaato_gc_testing import OldestFirst, new_session, speak


class Index:
    """A whole number of another library, such as one of numpy's."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


NO_WHOLE_NUMBERS = [math.nan, math.inf, -math.inf, 1.5, 1000.0, True, False, "1000", None, [1], -1]


def talking_session(**options: Any) -> GCSession:
    session = new_session(OldestFirst(), **options)
    speak(session, 0)
    session.before_send()
    return session


@pytest.mark.parametrize("value", [*NO_WHOLE_NUMBERS, 0])
def test_a_window_that_is_not_a_positive_integer_is_refused(value: Any) -> None:
    expected = f"context_limit={value!r}: expected a positive integer"
    if value is not None:  # a new session finds out its window then
        with pytest.raises(GCConfigError, match=re.escape(expected)):
            new_session(context_limit=value)
    session = talking_session(context_limit=5_000)
    before = session.save()
    with pytest.raises(GCConfigError, match=re.escape(expected)):
        session.set_context_limit(value)
    assert session.save() == before


@pytest.mark.parametrize("value", [1, 1_000_000, 10**30, Index(5_000)])
def test_a_window_may_be_any_positive_integer(value: Any) -> None:
    session = new_session(context_limit=value)
    assert session.budget.context_limit == (value if isinstance(value, int) else 5_000)
    session.set_context_limit(Index(7_000))  # type: ignore[arg-type]
    assert json.loads(session.save())["budget"]["context_limit"] == 7_000


@pytest.mark.parametrize("value", NO_WHOLE_NUMBERS)
def test_a_room_for_the_answer_that_is_not_a_number_of_tokens_is_refused(value: Any) -> None:
    session = talking_session()
    before = session.save()
    with pytest.raises(GCConfigError, match=r"tokens=.*: expected an integer of 0 or more"):
        session.set_output_reserve(value)
    assert session.save() == before


class OddCounter:
    """Counts something else than tokens."""

    name = "odd"
    confidence = Confidence.ESTIMATED

    def __init__(self, answer: Callable[[str], Any] = len, tolerance: Any = 0.0) -> None:
        self.count_text = answer
        self.tolerance = tolerance


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda text: len(text) / 4, id="float"),
        pytest.param(lambda _: math.nan, id="nan"),
        pytest.param(lambda _: None, id="None"),
        pytest.param(lambda _: -1, id="negative"),
        pytest.param(lambda _: True, id="bool"),
        pytest.param(str, id="text"),
    ],
)
@pytest.mark.parametrize(
    "message",
    [
        Message.from_text(Role.USER, "Hello there"),
        Message(Role.MODEL, [Part(thought="Hm.")]),
        Message(Role.MODEL, [Part(function_call=FunctionCall("c", "look", {}))]),
        Message(Role.TOOL, [Part(function_response=ToolResult("c", "look", "a"))]),
    ],
)
def test_an_answer_of_a_counter_that_is_no_number_of_tokens_is_refused(
    answer: Callable[[str], Any], message: Message
) -> None:
    counter = OddCounter(lambda text: len(text) if text == "Hi" else answer(text))
    session = new_session(counter=counter)
    session.append(Message.from_text(Role.USER, "Hi"))
    before = session.save()
    with pytest.raises(GCError, match=r"token counter 'odd' returned .* expected an integer of 0"):
        session.append(replace(message, message_id=""))
    assert session.save() == before
    assert session.before_send()


def test_costs_of_a_format_that_are_no_number_of_tokens_are_refused() -> None:
    counter = OddCounter()
    counter.costs = FrameCosts(message=0.5)  # type: ignore[attr-defined, arg-type]
    session = new_session(counter=counter)
    before = session.save()
    with pytest.raises(GCError, match=r"token counter 'odd' returned 2.5 for the parts"):
        session.append(Message.from_text(Role.USER, "Hi"))
    assert session.save() == before


def test_an_integer_of_another_library_is_a_number_of_tokens() -> None:
    session = new_session(counter=OddCounter(lambda text: Index(len(text))))
    session.append(Message.from_text(Role.USER, "Hi"))
    assert json.loads(session.save())["budget"]["total_tokens"] == 6


@pytest.mark.parametrize("tolerance", [math.nan, math.inf, -0.1, None, "5 %", True])
def test_a_counter_with_a_tolerance_that_is_not_a_share_is_refused(tolerance: Any) -> None:
    with pytest.raises(GCConfigError, match=r"token counter 'odd' has tolerance=.*: expected"):
        new_session(counter=OddCounter(tolerance=tolerance))


@pytest.mark.parametrize("value", NO_WHOLE_NUMBERS)
def test_a_journal_that_has_no_size_is_refused(value: Any) -> None:
    with pytest.raises(GCConfigError, match=r"journal_bytes=.*: expected an integer of 0 or more"):
        new_session(journal_bytes=value)


def test_a_journal_may_be_empty() -> None:
    session = talking_session(journal_bytes=0)
    assert session.history


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 0, 0.0, -1, True, "1", [1], 1e300]
)
def test_a_deadline_that_is_not_a_time_is_refused(value: Any) -> None:
    with pytest.raises(GCConfigError, match=r"deadline_seconds=.*: expected a positive number"):
        new_session(deadline_seconds=value)


@pytest.mark.parametrize("value", [None, 1, 0.5, 1e6])
def test_a_deadline_may_be_any_time(value: Any) -> None:
    session = talking_session(deadline_seconds=value)
    assert session.manual_gc().success


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300, 0.0, -1.0])
def test_a_time_limit_of_a_summarizer_that_is_not_a_time_is_refused(value: float) -> None:
    with pytest.raises(GCConfigError, match="summarizer_timeout_seconds="):
        SummarySettings(summarizer_timeout_seconds=value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0, -5, True, "100", None, [1]])
def test_a_report_that_is_not_a_positive_number_is_refused(value: Any) -> None:
    session = talking_session()
    before = session.save()
    with pytest.raises(GCError, match=r"input_tokens=.*: expected a positive number"):
        session.report_usage(value)
    assert session.save() == before


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -5, True, "100", None, [1]])
def test_a_report_of_an_answer_that_has_no_size_is_refused(value: Any) -> None:
    session = talking_session()
    before = session.save()
    with pytest.raises(GCError, match=r"output_tokens=.*: expected a number of 0 or more"):
        session.report_usage(500, value)
    assert session.save() == before


@pytest.mark.parametrize("value", [300, 300.0, Index(300)])
def test_a_report_may_be_any_positive_number(value: Any) -> None:
    session = talking_session()
    session.report_usage(value, Index(7))  # type: ignore[arg-type]
    assert session.budget.total_tokens() == 300
