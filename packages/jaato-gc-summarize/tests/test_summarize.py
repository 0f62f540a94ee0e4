"""gc_summarize in a session: old turns become a summary, or stay if there is none."""

import asyncio
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from jaato_gc import (
    ContextUsage,
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCOutcome,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    Message,
    Part,
    Role,
    SourceEntry,
    StalePlanError,
    SyntheticKind,
    ToolResult,
    check_history,
    count_tokens,
)
from jaato_gc_summarize import SummarizeGCPlugin, create_plugin
from jaato_gc_testing import COUNTER, assert_in_step, message_ids, new_session, restarted

LONG = "and so on " * 30
LIMIT = 2000
"""A window that about 15 turns fill."""


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"question (\d+)", text)]


def summarizer(text: str) -> str:
    """Says which questions it was shown."""
    return "Said: " + " ".join(f"question {number}" for number in numbers_in(text))


class Recorder:
    """A summarizer that notes what it is shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, text: str) -> str:
        self.shown.append(text)
        return "They talked."


def plugin(**options: Any) -> SummarizeGCPlugin:
    strategy = create_plugin()
    strategy.initialize({"summary_tokens": 50, "summarizer": summarizer, **options})
    return strategy


def session_with(strategy: SummarizeGCPlugin, /, **options: Any) -> GCSession:
    options = {"provider": lambda _request: f"answer {LONG}", "context_limit": LIMIT, **options}
    return new_session(strategy, GCConfig(preserve_recent_turns=2), **options)


def talk(session: GCSession, turns: int, start: int = 0) -> None:
    for number in range(start, start + turns):
        session.append(
            Message.from_text(Role.USER, f"question {number}? {LONG}", message_id=f"u{number}")
        )
        session.append(
            Message.from_text(Role.MODEL, f"answer {number}. {LONG}", message_id=f"m{number}")
        )


def with_history(turns: int = 10, /, **options: Any) -> GCSession:
    session = session_with(plugin(**options))
    talk(session, turns)
    return session


def names(session: GCSession) -> list[str]:
    """The ids of the history, with the budget's keys for summaries."""
    return [
        entry.key or ""
        if message.synthetic and (entry := session.budget.entry_of(message.message_id))
        else message.message_id
        for message in session.history
    ]


def summaries(session: GCSession) -> list[Message]:
    return [each for each in session.history if each.synthetic is SyntheticKind.SUMMARY]


def booked(session: GCSession, key: str) -> SourceEntry:
    entry = session.budget.get_child(InstructionSource.CONVERSATION, key)
    assert entry
    return entry


def state(session: GCSession) -> tuple[Sequence[Message], dict[str, Any]]:
    return session.history, session.budget.snapshot()


def assert_sound(session: GCSession) -> None:
    assert_in_step(session)
    assert check_history(session.history) == []


# --- the place of a summary, and its budget entry ---


def test_a_summary_takes_the_place_of_its_turns() -> None:
    session = with_history(10)
    result = session.manual_gc(target_percent=30.0)

    assert result.outcome is GCOutcome.REACHED
    kept = [f"{who}{number}" for number in (7, 8, 9) for who in "um"]
    assert names(session) == ["u0", "gc_summary_1", *kept]
    assert numbers_in(summaries(session)[0].text) == [1, 2, 3, 4, 5, 6]
    assert_sound(session)


def test_recent_turns_above_a_fifth_of_the_window_are_summarized() -> None:
    session = new_session(plugin(), GCConfig(preserve_recent_turns=9), context_limit=LIMIT)
    talk(session, 10)
    recent = [
        n for n in range(1, 10) if 5 * count_tokens(session.history[-2 * n :], COUNTER) <= LIMIT
    ]
    result = session.manual_gc(target_percent=1.0)

    assert 1 < len(recent) < 9
    kept = [f"{who}{number}" for number in range(10 - len(recent), 10) for who in "um"]
    assert names(session) == ["u0", "gc_summary_1", *kept]
    assert {item.reason for item in result.removal_list} == {"summarized"}
    assert numbers_in(summaries(session)[0].text) == list(range(1, 10 - len(recent)))
    assert_sound(session)


def test_a_pinned_turn_stays_in_its_place() -> None:
    session = with_history(10)
    for message_id in ("u3", "m3"):
        session.pin(message_id)
    session.manual_gc(target_percent=1.0)

    assert names(session) == ["u0", "gc_summary_1", "u3", "m3", "u8", "m8", "u9", "m9"]


def test_summaries_are_in_the_order_of_what_they_tell() -> None:
    session = session_with(plugin(max_summaries=50))
    for number in range(60):
        talk(session, 1, number)
        session.after_turn()

    told = [number for summary in summaries(session) for number in numbers_in(summary.text)]
    kept = [number for message in session.history[-20:] for number in numbers_in(message.text)]
    assert len(summaries(session)) > 1
    assert told == list(range(1, len(told) + 1))
    assert kept[-1] == 59
    numbered = [name for name in names(session) if name.startswith("gc_summary_")]
    assert len(set(numbered)) == len(numbered) == len(summaries(session))
    assert_sound(session)


def test_the_session_books_a_summary_as_preservable() -> None:
    session = with_history()
    session.manual_gc()
    entry = booked(session, "gc_summary_1")

    assert entry.gc_policy is GCPolicy.PRESERVABLE
    assert entry.label == "Context Summary"
    assert entry.metadata == {"created_by": "gc_summarize"}
    assert entry.tokens == count_tokens(summaries(session), COUNTER)


def test_numbers_of_summaries_are_never_reused() -> None:
    session = with_history(10)
    session.manual_gc()
    session.undo()
    session.manual_gc()
    assert names(session)[1] == "gc_summary_2"

    restored = restarted(session)
    restored.undo()
    restored.manual_gc()
    assert names(restored)[1] == "gc_summary_3"
    assert_sound(restored)


def test_the_result_has_the_figures_of_the_summary() -> None:
    session = with_history(10)
    session.append(Message.from_text(Role.USER, "See src/app.py.", message_id="path"))
    talk(session, 3, 10)
    result = session.manual_gc(target_percent=1.0)

    assert result.details["summary_tokens"] == count_tokens(summaries(session), COUNTER)
    assert result.details["written_by"] == "summarizer"
    assert result.details["facts_found"] >= result.details["facts_kept"] > 0
    assert result.details["turns_before"] == 14
    assert result.details["turns_removed"] == result.details["turns_summarized"] == 11
    assert result.details["turns_after"] == 3
    assert result.details["summary_length"] == sum(len(each.text) for each in summaries(session))
    assert "src/app.py" in summaries(session)[0].text
    assert {(item.reason, item.action) for item in result.removal_list} == {
        ("summarized", "summarize")
    }


# --- how much ---


@pytest.mark.parametrize("target", [80.0, 60.0, 40.0, 30.0])
def test_the_oldest_turns_are_summarized_until_the_target_is_reached(target: float) -> None:
    session = with_history(24)
    before = session.budget.total_tokens()
    result = session.manual_gc(target_percent=target)

    assert result.outcome is GCOutcome.REACHED
    assert session.budget.total_tokens() <= LIMIT * target / 100
    gone = [item.child_key for item in result.removal_list]
    assert gone == [f"turn_{number}" for number in range(len(gone))]
    assert result.tokens_freed == before - session.budget.total_tokens()
    one_turn = count_tokens(session.history[-2:], COUNTER)
    assert session.budget.total_tokens() > LIMIT * target / 100 - one_turn - 50


def test_the_summarizer_is_not_called_if_nothing_is_needed() -> None:
    recorder = Recorder()
    session = with_history(5, summarizer=recorder)

    assert session.plan_gc(GCTriggerReason.THRESHOLD).result.outcome is GCOutcome.NOT_NEEDED
    assert recorder.shown == []


def test_the_turn_limit_is_kept() -> None:
    session = session_with(plugin(max_turns=5))
    talk(session, 8)
    session.after_turn()

    assert sum(message.opens_turn for message in session.history) == 5
    assert numbers_in(summaries(session)[0].text) == [1, 2, 3]


def test_a_summary_that_does_not_pay_off_is_not_used() -> None:
    session = session_with(plugin(summarizer=lambda text: text[:-40]))
    for number in range(8):
        session.append(Message.from_text(Role.USER, f"question {number}?"))
    before = state(session)
    result = session.manual_gc()

    assert result.outcome in (GCOutcome.NO_GAIN, GCOutcome.FAILED)
    assert state(session) == before


def test_the_text_of_a_summarizer_is_not_streamed_to_the_user() -> None:
    heard: list[str] = []
    session = session_with(plugin(summarizer=lambda _text: "Secret."))
    for number in range(20):
        session.send_message(f"question {number}? {LONG}", on_output=heard.append)

    assert summaries(session)
    assert heard
    assert not any("Secret" in text for text in heard)


# --- the chain ---


def longish(text: str) -> str:
    """A summary of 200 words, or of a third of what is shown if that is less."""
    return "They talked. " * min(100, len(text) // 36)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_chain_is_bounded_by_count(most: int) -> None:
    session = session_with(plugin(summarizer=longish, max_summaries=most, summary_tokens=400))
    for number in range(200):
        talk(session, 1, number)
        session.after_turn()
        assert len(summaries(session)) <= most

    assert len(session.get_gc_history()) > 20
    assert all(result.success for result in session.get_gc_history())
    assert session.budget.total_tokens() < LIMIT
    assert_sound(session)


def test_the_chain_is_bounded_by_a_quarter_of_the_target() -> None:
    session = session_with(plugin(summarizer=longish, max_summaries=50, summary_tokens=400))
    for number in range(200):
        talk(session, 1, number)
        session.after_turn()
        chain = summaries(session)
        assert len(chain) == 1 or count_tokens(chain, COUNTER) <= LIMIT * 0.6 / 4
        assert count_tokens(chain, COUNTER) < 800

    assert len(session.get_gc_history()) > 20
    assert_sound(session)


def test_the_chain_is_bounded_by_6000_tokens_in_a_large_window() -> None:
    strategy = plugin(summarizer=lambda _text: "They talked. " * 500, max_summaries=50)
    session = session_with(strategy, context_limit=200_000)
    lengths = []
    for number in range(12):
        session.append(Message.from_text(Role.USER, f"question {number}? {LONG * 10}"))
        session.append(Message.from_text(Role.MODEL, LONG * 10))
        session.manual_gc(target_percent=30.0)
        lengths.append(count_tokens(summaries(session), COUNTER))

    assert 5_000 < max(lengths) <= 6_000


def test_the_oldest_summaries_are_folded_and_keep_their_place() -> None:
    session = session_with(plugin(max_summaries=2))
    for number in range(3):
        talk(session, 4, number * 4)
        result = session.manual_gc()

    assert names(session)[:3] == ["u0", "gc_summary_3", "gc_summary_4"]
    folded, newest = summaries(session)
    assert numbers_in(folded.text) == [1, *range(2, 6)]
    assert numbers_in(newest.text) == [6, 7, 8, 9]
    assert result.details["summary_tokens"] == count_tokens([folded, newest], COUNTER)


def test_all_summaries_but_the_newest_are_folded_so_that_the_next_ones_have_room() -> None:
    session = session_with(plugin(max_summaries=4))
    lengths = []
    for number in range(8):
        talk(session, 4, number * 4)
        assert session.manual_gc().success
        lengths.append(len(summaries(session)))

    assert lengths == [1, 2, 3, 4, 2, 3, 4, 2]
    folded, newest = summaries(session)
    assert numbers_in(newest.text) == [26, 27, 28, 29]
    assert set(numbers_in(folded.text)) >= {1, 25}
    assert_sound(session)


def test_summaries_that_are_too_long_together_are_folded_except_the_newest() -> None:
    strategy = plugin(max_summaries=50, summarizer=lambda _text: "They talked. " * 5)
    session = session_with(strategy)
    lengths = []
    for number in range(9):
        talk(session, 4, number * 4)
        assert session.manual_gc().success
        lengths.append(len(summaries(session)))

    folded = [after for before, after in itertools.pairwise(lengths) if after <= before]
    assert folded
    assert set(folded) == {2}


def test_a_newest_summary_that_leaves_no_room_is_folded_too() -> None:
    session = session_with(plugin(summarizer=longish, max_summaries=50, summary_tokens=250))
    for number in range(4):
        talk(session, 4, number * 4)
        assert session.manual_gc().success

    assert len(summaries(session)) == 1


# --- without a summary ---


async def cancelled(_text: str) -> str:
    task = asyncio.current_task()
    assert task
    task.cancel()
    await asyncio.sleep(0)
    return "They talked."


def raising(error: BaseException) -> Callable[[str], str]:
    def fails(_text: str) -> str:
        raise error

    return fails


def returning(value: Any) -> Callable[[str], Any]:
    return lambda _text: value


FAILURES = [
    (raising(ValueError("no quota")), "ValueError: no quota"),
    (raising(asyncio.CancelledError()), "CancelledError"),
    (cancelled, "CancelledError"),
    (returning(None), "not text"),
    (returning(b"They talked."), "not text"),
    (returning(""), "returned nothing"),
    (returning(" \n "), "returned nothing"),
    (returning("Error code: 429 - too many requests"), "an error text"),
    (returning("I'm sorry, but I can't help with that."), "refused"),
    (returning("They talked. " * 5000), "not shorter"),
    (lambda text: text, "not shorter"),
    (returning("They talked \ud800"), "not valid Unicode"),
]


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """What a function that never returns waits for, until its test is over."""
    event = threading.Event()
    yield event
    event.set()


def assert_nothing_changed(
    session: GCSession, collect: Callable[[], GCResult | None], error: str
) -> None:
    before = state(session)
    result = collect()

    assert result
    assert result.outcome is GCOutcome.FAILED
    assert not result.success
    assert error in (result.error or "")
    assert result.removal_list == []
    assert result.tokens_freed == 0
    assert "summary_tokens" not in result.details
    assert state(session) == before


@pytest.mark.parametrize(("function", "error"), FAILURES)
def test_without_a_summary_nothing_changes_and_the_result_says_why(
    function: Callable[..., Any], error: str
) -> None:
    session = with_history(10, summarizer=function)

    assert_nothing_changed(session, session.manual_gc, error)


def test_a_summarizer_that_takes_too_long_changes_nothing(released: threading.Event) -> None:
    session = with_history(
        10, summarizer=lambda _text: released.wait(), summarizer_timeout_seconds=0.05
    )

    assert_nothing_changed(session, session.manual_gc, "took too long: more than 0.05 s")


def test_a_summary_that_fails_after_others_succeeded_changes_nothing_either() -> None:
    answers = iter(["They talked. " * 20, ""])  # longer than expected, so that one is not enough
    strategy = plugin(summarizer=lambda _text: next(answers), summary_tokens=1)
    session = session_with(strategy, context_limit=2 * LIMIT)
    talk(session, 20)

    assert_nothing_changed(
        session, lambda: session.manual_gc(target_percent=25.0), "returned nothing"
    )
    assert next(answers, None) is None


@pytest.mark.parametrize(("function", "error"), FAILURES)
def test_a_request_that_does_not_fit_is_made_to_fit_without_a_summary(
    function: Callable[..., Any], error: str
) -> None:
    session = with_history(20, summarizer=function)  # more than the window holds
    session.append(Message.from_text(Role.USER, "and now?", message_id="now"))
    before = state(session)

    request = session.before_send()

    [result] = session.get_gc_history()
    assert (result.plugin_name, result.success) == ("core", True)
    assert error in result.details["strategy_error"]
    assert {item.reason for item in result.removal_list} == {"fit_old"}
    assert count_tokens(request, COUNTER) <= LIMIT
    assert request[-1].message_id == "now"
    assert message_ids(session)[-5:-1] == ["u18", "m18", "u19", "m19"]
    assert_sound(session)

    session.undo()
    assert state(session) == before


def test_a_chain_that_cannot_be_folded_changes_nothing() -> None:
    def folds_nothing(text: str) -> str:
        return "" if "They talked" in text else "They talked."

    session = session_with(plugin(summarizer=folds_nothing, max_summaries=2))
    for number in range(3):
        talk(session, 3, number * 10)
        if number < 2:
            assert session.manual_gc().success

    assert_nothing_changed(session, session.manual_gc, "returned nothing")


@pytest.mark.parametrize(("function", "error"), FAILURES)
def test_extract_writes_the_summary_without_a_model(
    function: Callable[..., Any], error: str
) -> None:
    session = with_history(20, summarizer=function, on_summarizer_error="extract")
    result = session.manual_gc(target_percent=60.0)

    assert result.outcome is GCOutcome.REACHED, error
    assert result.details["written_by"] == "extract"
    assert "- asked: question" in summaries(session)[0].text
    assert_sound(session)


@pytest.mark.parametrize(("function", "error"), FAILURES)
def test_truncate_removes_turns_without_a_summary_and_says_so(
    function: Callable[..., Any], error: str
) -> None:
    session = with_history(20, summarizer=function, on_summarizer_error="truncate")
    result = session.manual_gc(target_percent=30.0)

    assert result.outcome is GCOutcome.REACHED
    assert error in result.details["summarizer_error"]
    assert summaries(session) == []
    assert {(item.reason, item.action) for item in result.removal_list} == {
        ("truncated_fallback", "remove")
    }
    assert "summary_tokens" not in result.details
    assert_sound(session)


def test_truncate_drops_no_more_of_a_chain_that_cannot_be_folded_than_it_must() -> None:
    def folds_nothing(text: str) -> str:
        return "" if "They talked" in text else "They talked."

    options = {"summarizer": folds_nothing, "max_summaries": 3, "on_summarizer_error": "truncate"}
    session = session_with(plugin(**options))
    for number in range(4):
        talk(session, 3, number * 10)
        result = session.manual_gc()

    assert result.success
    assert "returned nothing" in result.details["summarizer_error"]
    assert [name for name in names(session) if "summary" in name] == [
        "gc_summary_2",
        "gc_summary_3",
        "gc_summary_4",
    ]
    assert_sound(session)


def test_without_a_summarizer_it_is_refused_unless_it_extracts() -> None:
    with pytest.raises(GCConfigError, match=r"^gc_summarize needs a summarizer: .*extractive=True"):
        session_with(create_plugin())

    session = session_with(plugin(summarizer=None, extractive=True))
    talk(session, 20)
    result = session.manual_gc(target_percent=60.0)
    assert result.outcome is GCOutcome.REACHED
    assert result.details["written_by"] == "extract"


def test_it_uses_the_summarizer_of_its_session() -> None:
    session = session_with(plugin(summarizer=None), summarizer=summarizer)
    talk(session, 20)
    result = session.manual_gc(target_percent=60.0)

    assert result.outcome is GCOutcome.REACHED
    assert "Said: question" in summaries(session)[0].text


@pytest.mark.parametrize("turns", [1, 20])
@pytest.mark.parametrize("on_error", ["fail", "extract", "truncate"])
def test_without_a_session_and_a_summarizer_it_fails_and_leaves_the_history(
    turns: int, on_error: str
) -> None:
    history = with_history(turns).history
    strategy = plugin(summarizer=None, on_summarizer_error=on_error)
    usage: ContextUsage = {"context_limit": LIMIT, "total_tokens": LIMIT, "percent_used": 100.0}
    after, result = strategy.collect(list(history), usage, GCConfig(), GCTriggerReason.THRESHOLD)

    assert after == history
    assert not result.success
    assert result.outcome is GCOutcome.FAILED
    assert "there is no summarizer" in (result.error or "")
    assert result.removal_list == []


def test_a_chat_of_short_messages_can_be_collected_without_a_summarizer() -> None:
    session = session_with(plugin(summarizer=None, extractive=True))
    session.provider = lambda _request: "Fine, let us do that tomorrow then."
    for number in range(300):
        session.send_message(f"What about plan number {number} for the garden?")

    assert len(session.get_gc_history()) > 3
    assert all(result.tokens_freed for result in session.get_gc_history())


# --- plans, and changes before they are applied ---


def test_a_plan_is_stale_once_its_range_has_changed() -> None:
    session = with_history(10)
    session.manual_gc(target_percent=60.0)
    talk(session, 4, 10)
    plan = session.plan_gc(target_percent=20.0)
    session.undo()
    before = state(session)

    with pytest.raises(StalePlanError):
        session.apply(plan)
    assert state(session) == before


def test_a_plan_is_stale_once_something_in_it_was_pinned() -> None:
    session = with_history(10)
    plan = session.plan_gc(target_percent=1.0)
    session.pin("m4")
    before = state(session)

    with pytest.raises(StalePlanError, match="'m4' was pinned"):
        session.apply(plan)
    assert state(session) == before


def test_a_plan_applied_later_calls_no_summarizer_and_keeps_newer_messages() -> None:
    recorder = Recorder()
    session = with_history(10, summarizer=recorder)
    plan = session.plan_gc()
    talk(session, 2, 10)
    session.apply(plan)

    assert len(recorder.shown) == 1
    assert names(session)[:2] == ["u0", "gc_summary_1"]
    assert names(session)[-4:] == ["u10", "m10", "u11", "m11"]
    assert_sound(session)


def test_a_message_that_is_pinned_while_the_summarizer_writes_stays() -> None:
    calls: list[str] = []

    def pins(text: str) -> str:
        calls.append(text)
        session.pin("u4")
        return "They talked."

    session = with_history(10, summarizer=pins)
    result = session.manual_gc(target_percent=1.0)

    assert result.success
    assert "question 4?" in calls[0]
    assert "question 4?" not in calls[-1]
    assert "u4" in names(session)
    assert_sound(session)


def test_a_message_that_arrives_while_the_summarizer_writes_is_kept() -> None:
    def interrupted(_text: str) -> str:
        session.append(Message.from_text(Role.USER, "Wait!", message_id="late"))
        return "They talked."

    session = with_history(10, summarizer=interrupted)
    session.manual_gc(target_percent=1.0)

    assert names(session) == ["u0", "gc_summary_1", "u8", "m8", "u9", "m9", "late"]
    assert_sound(session)


def test_a_summary_can_be_undone() -> None:
    session = with_history(10)
    before = state(session)
    session.manual_gc()
    assert state(session) != before
    session.undo()

    assert state(session) == before


def test_a_fold_can_be_undone() -> None:
    session = session_with(plugin(max_summaries=1))
    talk(session, 5)
    session.manual_gc()
    talk(session, 5, 5)
    before = state(session)
    session.manual_gc()
    assert names(session)[:2] == ["u0", "gc_summary_2"]
    session.undo()

    assert state(session) == before


# --- async hosts, deadlines ---


def test_an_async_summarizer_runs_on_the_loop_of_an_async_host() -> None:
    threads: set[int] = set()

    async def on_the_loop(_text: str) -> str:
        await asyncio.sleep(0)
        threads.add(threading.get_ident())
        return "They talked."

    async def host() -> GCSession:
        session = session_with(plugin(summarizer=on_the_loop))
        for number in range(20):
            await session.send_message_async(f"question {number}? {LONG}")
        return session

    session = asyncio.run(host())

    assert threads == {threading.get_ident()}
    assert summaries(session)
    assert_sound(session)


async def async_summarizer(_text: str) -> str:
    await asyncio.sleep(0)
    return "They talked."


def test_an_async_summarizer_works_in_a_plain_host_too() -> None:
    session = session_with(plugin(summarizer=async_summarizer))
    for number in range(20):
        session.send_message(f"question {number}? {LONG}")

    assert summaries(session)


@pytest.mark.parametrize(
    "options", [{}, {"summarizer_timeout_seconds": 60.0}, {"deadline_seconds": 60.0}]
)
def test_an_async_host_may_collect_on_the_loop_itself(options: dict[str, Any]) -> None:
    async def host() -> GCResult:
        deadline = options.pop("deadline_seconds", None)
        session = session_with(
            plugin(summarizer=async_summarizer, **options), deadline_seconds=deadline
        )
        for number in range(4):
            await session.send_message_async(f"question {number}? {LONG}")
        return session.manual_gc()

    assert asyncio.run(host()).details["written_by"] == "summarizer"


def test_an_async_summarizer_that_takes_too_long_is_cancelled() -> None:
    ends: list[str] = []

    async def never(_text: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return "They talked."

    async def host() -> GCSession:
        session = session_with(plugin(summarizer=never, summarizer_timeout_seconds=0.05))
        talk(session, 13)
        await session.send_message_async("And now?")
        return session

    session = asyncio.run(host())

    assert ends
    assert set(ends) == {"cancelled"}
    first = session.get_gc_history()[0]
    assert first.outcome is GCOutcome.FAILED
    assert "took too long" in (first.error or "")


def test_a_collection_past_its_deadline_changes_nothing(released: threading.Event) -> None:
    session = session_with(
        plugin(summarizer=lambda _text: released.wait() and "They talked."), deadline_seconds=0.05
    )
    talk(session, 10)

    assert_nothing_changed(session, session.manual_gc, "more than 0.05 s")
    assert session.paused_because


# --- as the seed documents use it ---


def test_the_seeds_example() -> None:
    def my_summarizer(conversation: str) -> str:
        return f"Summary of {len(numbers_in(conversation))} questions."

    plugin = create_plugin()
    plugin.initialize(
        {
            "preserve_recent_turns": 10,
            "summarizer": my_summarizer,  # Required
            "notify_on_gc": True,
        }
    )
    client = new_session(provider=lambda _request: f"answer {LONG}", context_limit=8000)
    client.set_gc_plugin(plugin, GCConfig(threshold_percent=75.0))
    for number in range(60):
        client.send_message(f"question {number}? {LONG}")

    assert [each.synthetic for each in client.history[:3]] == [
        None,
        SyntheticKind.NOTICE,
        SyntheticKind.SUMMARY,
    ]
    assert client.get_gc_history()[0].notification
    assert sum(message.opens_turn for message in client.history) >= 10
    assert client.get_context_usage()["percent_used"] < 80


def reads_pages(session: GCSession, calls: int, start: int = 0) -> None:
    """Appends calls with long results: c0, r0, c1 and so on."""
    for number in range(start, start + calls):
        call = FunctionCall(f"call_{number}", "read", {"path": f"book/page_{number}.txt"})
        answer = ToolResult(call.id, call.name, f"question {number} of a book\n" * 60)
        session.append(Message(Role.MODEL, [Part(function_call=call)], f"c{number}"))
        session.append(Message(Role.TOOL, [Part(function_response=answer)], f"r{number}"))


def test_content_too_short_to_summarize_is_not_a_failure() -> None:
    plugin = create_plugin()
    plugin.initialize({"summarizer": lambda text: text})
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=6)
    session = new_session(plugin, config, context_limit=8_000)
    for said in ("Hello.", "Go on."):
        session.append(Message.from_text(Role.USER, said))
        session.append(Message.from_text(Role.MODEL, "Fine."))
    session.append(Message.from_text(Role.USER, "Read all of it."))
    reads_pages(session, 6)
    before = state(session)

    result = session.manual_gc(target_percent=20.0)

    assert result.success
    assert result.outcome is GCOutcome.NO_GAIN
    assert state(session) == before


# --- one turn that fills the window ---


def one_long_turn(calls: int, **options: Any) -> GCSession:
    config = GCConfig(preserve_recent_turns=2, preserve_recent_groups=2)
    session = new_session(plugin(**options), config, context_limit=8_000)
    session.append(Message.from_text(Role.USER, "Read the book.", message_id="u"))
    reads_pages(session, calls)
    return session


def test_the_oldest_calls_of_a_long_turn_are_summarized_as_far_as_needed() -> None:
    recorder = Recorder()
    session = one_long_turn(12, summarizer=recorder)
    used = session.budget.total_tokens()
    before = state(session)
    result = session.manual_gc(target_percent=50.0)

    gone = [item.message_ids for item in result.removal_list]
    assert gone == [[f"c{number}", f"r{number}"] for number in range(len(gone))]
    assert {(item.reason, item.action) for item in result.removal_list} == {
        ("summarized", "summarize")
    }
    assert numbers_in("".join(recorder.shown))[::60] == list(range(len(gone)))
    kept = [f"{kind}{number}" for number in range(len(gone), 12) for kind in "cr"]
    assert names(session) == ["u", "gc_summary_1", *kept]
    assert result.outcome is GCOutcome.REACHED
    assert used - 4_000 <= result.tokens_freed < used - 4_000 + 2 * used // 12
    assert_sound(session)

    session.undo()
    assert state(session) == before


def test_the_summary_of_a_long_turn_has_its_facts_and_needs_no_ledger() -> None:
    session = one_long_turn(12, summarizer=Recorder())
    session.manual_gc(target_percent=50.0)

    [summary] = [message for message in session.history if message.synthetic]
    assert summary.synthetic is SyntheticKind.SUMMARY
    assert "book/page_0.txt" in summary.text


def test_the_last_calls_and_the_request_of_a_long_turn_stay() -> None:
    session = one_long_turn(12)
    result = session.manual_gc(target_percent=1.0)

    assert names(session) == ["u", "gc_summary_1", "c10", "r10", "c11", "r11"]
    assert result.outcome is GCOutcome.SHORT
    assert_sound(session)


def test_old_turns_are_summarized_before_calls_of_recent_turns() -> None:
    session = new_session(plugin(), GCConfig(preserve_recent_turns=1), context_limit=8_000)
    talk(session, 6)
    reads_pages(session, 6)
    total = session.budget.total_tokens()
    old_turns = count_tokens(session.history[:10], COUNTER)
    session.manual_gc(target_percent=(total - old_turns / 2) / 80)

    assert [name for name in names(session) if name[0] in "cr"] == [
        f"{kind}{number}" for number in range(6) for kind in "cr"
    ]
    assert "u2" not in names(session)


def test_a_manual_collection_below_the_target_summarizes_no_calls_of_recent_turns() -> None:
    session = one_long_turn(4)
    before = state(session)
    result = session.manual_gc(target_percent=99.0)

    assert result.outcome is GCOutcome.NO_GAIN
    assert state(session) == before


def test_thoughts_and_text_beside_a_call_go_with_it() -> None:
    session = one_long_turn(3)
    call = FunctionCall("call_t", "read", {"path": "book/index.txt"})
    parts = [Part(thought="Hm."), Part(text="Let me look."), Part(function_call=call)]
    session.append(Message(Role.MODEL, parts, "ct"))
    answer = ToolResult("call_t", "read", "index " * 500)
    session.append(Message(Role.TOOL, [Part(function_response=answer)], "rt"))
    reads_pages(session, 4, start=3)
    session.manual_gc(target_percent=1.0)

    assert names(session) == ["u", "gc_summary_1", "c5", "r5", "c6", "r6"]
    assert_sound(session)


# --- summaries in fitting, and odd histories ---


def with_a_summary_and_a_long_question(words: int) -> GCSession:
    session = new_session(
        plugin(summarizer=lambda text: text[: len(text) // 3], summary_tokens=400),
        GCConfig(preserve_recent_turns=1, preserve_recent_groups=1),
        context_limit=4_000,
    )
    talk(session, 12)
    session.manual_gc(target_percent=20.0)
    assert "gc_summary_1" in names(session)
    session.append(
        Message.from_text(Role.USER, "question 12 " + "and so on " * words, message_id="u12")
    )
    return session


def test_old_summaries_are_removed_if_a_request_does_not_fit_otherwise() -> None:
    session = with_a_summary_and_a_long_question(1_900)
    before = state(session)
    session.before_send()

    assert names(session) == ["u0", "gc_summary_2", "u12"]
    last = session.get_gc_history()[-1]
    assert last.plugin_name == "gc_summarize"
    assert last.details["relaxed"] == ["preservable"]
    assert {item.child_key for item in last.removal_list if item.reason == "fit_preservable"} == {
        "gc_summary_1"
    }
    assert_sound(session)

    session.undo()
    assert state(session) == before


def test_a_new_summary_is_left_out_if_a_request_does_not_fit_otherwise() -> None:
    session = with_a_summary_and_a_long_question(2_000)
    request = session.before_send()

    assert [message.message_id for message in request] == ["u0", "u12"]
    last = session.get_gc_history()[-1]
    assert last.details["insertions_dropped"] is True
    assert last.details["relaxed"] == ["old", "preservable"]
    assert {item.action for item in last.removal_list} == {"remove"}
    assert_sound(session)


def test_a_summary_of_a_stray_result_does_not_separate_a_call_from_its_result() -> None:
    def call(message_id: str, call_id: str) -> Message:
        part = Part(function_call=FunctionCall(call_id, "read"))
        return Message(Role.MODEL, [part], message_id)

    def answer(message_id: str, call_id: str) -> Message:
        part = Part(function_response=ToolResult(call_id, "read", LONG))
        return Message(Role.TOOL, [part], message_id)

    session = new_session(context_limit=1_000)
    session.append(Message.from_text(Role.USER, "question 1", message_id="u"))
    for message in (call("c", "a"), answer("stray", "b"), answer("r", "a")):
        session.append(message)
    session.append(Message.from_text(Role.USER, "question 2"))
    session.pin("c")
    config = GCConfig(target_percent=5.0, preserve_recent_turns=0, preserve_recent_groups=0)
    session.set_gc_plugin(plugin(), config)

    result = session.manual_gc()

    assert result.success, result.error
    ids = message_ids(session)
    assert "stray" not in ids
    assert ids.index("r") == ids.index("c") + 1
