"""Percentages of a window that is mostly taken by fixed content, such as prompt and tools."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCPolicy,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    Message,
    Part,
    Role,
    ToolResult,
)
from jaato_gc.plugin import Limits, should_collect
from jaato_gc_testing import OldestFirst, new_session, speak

WINDOW = 64_000
TOOLS = 50_000
"""Current coding agents send 20k to 50k tokens of prompt and tools."""

PERCENTAGES = st.tuples(st.integers(0, 98), st.integers(1, 100), st.integers(1, 100)).map(sorted)


@st.composite
def configurations(draw: st.DrawFn) -> GCConfig:
    """Returns percentages in order, with room for the answer."""
    target, threshold, pressure = draw(PERCENTAGES.filter(lambda three: three[0] < three[1]))
    return GCConfig(
        target_percent=target,
        threshold_percent=threshold,
        pressure_percent=draw(st.sampled_from([pressure, None])),
        reserve_output_tokens=draw(st.integers(0, WINDOW // 2)),
        max_context_tokens=draw(st.none() | st.integers(WINDOW * 3 // 4, 2 * WINDOW)),
    )


def figures(config: GCConfig, fixed_tokens: int) -> list[int]:
    """Returns target, trigger and pressure in tokens; in continuous mode there is no pressure."""
    limits = Limits.of(config, WINDOW, fixed_tokens)
    found = (limits.target_tokens, limits.trigger_tokens, limits.pressure_tokens)
    return [each for each in found if each is not None]


# --- the rule ---


@given(configurations())
def test_the_percentages_hold_if_nothing_is_fixed(config: GCConfig) -> None:
    config = config.merged({"reserve_output_tokens": 0})
    limits = Limits.of(config, WINDOW)

    assert limits.target_percent == config.target_percent
    if not config.continuous_mode:
        assert limits.threshold_percent == config.threshold_percent
        assert limits.pressure_percent == config.pressure_percent


@given(configurations(), st.integers(0, 2 * WINDOW))
def test_target_threshold_and_pressure_stay_in_order_below_the_largest_request(
    config: GCConfig, fixed_tokens: int
) -> None:
    most = config.request_limit(WINDOW)
    assert most

    target, trigger, *pressure = figures(config, fixed_tokens)

    assert 0 <= target < trigger
    assert sorted([trigger, *pressure]) == [trigger, *pressure]
    assert all(each <= most for each in (target, *pressure))
    assert trigger <= most + config.continuous_mode


@given(configurations(), st.integers(0, WINDOW), st.integers(0, 100))
def test_figures_follow_fixed_content_without_jumps(
    config: GCConfig, fixed_tokens: int, more: int
) -> None:
    before, after = figures(config, fixed_tokens), figures(config, fixed_tokens + more)

    for earlier, later in zip(before, after, strict=True):
        assert earlier <= later <= earlier + more + 1


@pytest.mark.parametrize(
    ("fixed_tokens", "target"),
    [(0, 38_400), (22_400, 38_400), (30_000, 46_000), (40_000, 56_000), (60_000, 56_000)],
)
def test_the_target_leaves_a_quarter_of_the_window_beside_fixed_content(
    fixed_tokens: int, target: int
) -> None:
    assert Limits.of(GCConfig(), WINDOW, fixed_tokens).target_tokens == target


def test_the_window_that_may_be_used_counts() -> None:
    config = GCConfig(max_context_tokens=WINDOW)

    assert Limits.of(config, 200_000, 30_000) == Limits.of(GCConfig(), WINDOW, 30_000)


@pytest.mark.parametrize(("percent", "target"), [(0, 30_000), (10, 36_400), (25, 46_000)])
def test_a_low_target_counts_beside_fixed_content(percent: int, target: int) -> None:
    limits = Limits.of(GCConfig(target_percent=percent), WINDOW, 30_000)

    assert limits.target_tokens == target


def test_without_a_session_the_percentages_hold() -> None:
    usage: Any = {"context_limit": WINDOW, "total_tokens": 52_000}

    assert should_collect(usage, GCConfig()) == (True, GCTriggerReason.THRESHOLD)
    assert should_collect(usage | {"fixed_tokens": TOOLS}, GCConfig()) == (False, None)


# --- sessions ---


def send_tools(session: GCSession, tokens: int = TOOLS) -> None:
    session.budget.add_child(InstructionSource.PLUGIN, "tools", tokens, GCPolicy.LOCKED)


def work(session: GCSession, requests: int, hidden_tokens: int = 0) -> None:
    """Lets a model make calls, with reported usage."""
    for number in range(requests):
        total = session.get_context_usage()["total_tokens"] if number else 0
        session.before_send()
        counted = session.budget.counted_tokens()
        assert counted + hidden_tokens <= WINDOW, total
        session.report_usage(counted + hidden_tokens)
        call = FunctionCall(f"call-{number}", "read", {"path": f"{number}.py"})
        result = ToolResult(call.id, call.name, f"{number} {'all is well ' * 150}")
        session.append(Message(Role.MODEL, [Part(function_call=call)]))
        session.append(Message(Role.TOOL, [Part(function_response=result)]))


def agent(**config: Any) -> GCSession:
    session = new_session(OldestFirst(), GCConfig(**config), context_limit=WINDOW)
    session.append(Message.from_text(Role.USER, "Repair the engine"))
    return session


@pytest.mark.parametrize("booked", [TOOLS, TOOLS // 2, 0])
def test_large_tools_do_not_start_a_collection_with_each_request(booked: int) -> None:
    session = agent()
    if booked:
        send_tools(session, booked)

    work(session, 100, hidden_tokens=TOOLS - booked)

    results = session.get_gc_history()
    assert 0 < len(results) <= 100 / 8
    assert {result.outcome for result in results} == {GCOutcome.REACHED}


def test_large_tools_do_not_start_a_collection_with_each_turn_in_continuous_mode() -> None:
    session = agent(pressure_percent=None)
    send_tools(session)

    work(session, 100)

    results = session.get_gc_history()
    assert 0 < len(results) <= 100 / 3
    assert {result.outcome for result in results} == {GCOutcome.REACHED}


def test_large_tools_do_not_start_a_collection_whenever_the_prompt_cache_is_cold() -> None:
    now = [0.0]
    session = new_session(
        OldestFirst(), GCConfig(cache_ttl_seconds=300), context_limit=WINDOW, clock=lambda: now[0]
    )
    send_tools(session)
    for number in range(8):
        speak(session, number)
        session.before_send()
        now[0] += 1_000

    assert session.get_context_usage()["percent_used"] > 75
    assert session.get_gc_history() == []


def test_the_threshold_callback_gets_the_threshold_that_is_used() -> None:
    session = agent()
    send_tools(session)
    crossed: list[tuple[float, float]] = []
    session.on_gc_threshold = lambda *figures: crossed.append(figures)
    session.before_send()
    limits = Limits.of(session.config, WINDOW, session.budget.fixed_tokens())

    session.report_usage(TOOLS + 3_000)
    assert crossed == []
    session.report_usage(session.budget.counted_tokens(), WINDOW - TOOLS - 100)
    assert [threshold for _, threshold in crossed] == pytest.approx([limits.threshold_percent])


@pytest.mark.parametrize(
    ("change", "gain"),
    [
        (lambda session: send_tools(session, 1_000), 1_000),
        (lambda session: session.budget.update_tokens(InstructionSource.ENRICHMENT, 300), 300),
        (lambda session: session.pin("answer"), 100),
        (lambda session: session.append(Message.from_text(Role.SYSTEM, "word " * 100)), 100),
        (lambda session: session.append(Message.from_text(Role.MODEL, "word " * 100)), 0),
    ],
)
def test_what_a_session_counts_as_fixed(change: Callable[[GCSession], object], gain: int) -> None:
    session = agent()
    session.append(Message.from_text(Role.MODEL, "word " * 100, message_id="answer"))
    before = session.get_context_usage()["fixed_tokens"]

    change(session)

    assert session.get_context_usage()["fixed_tokens"] - before == pytest.approx(gain, abs=20)


def test_the_system_prompt_is_fixed_whatever_policy_it_has() -> None:
    session = new_session(context_limit=WINDOW)
    text = [Part(text="word " * 1_000)]

    session.append(Message(Role.SYSTEM, text, policy=GCPolicy.EPHEMERAL))

    assert session.budget.fixed_tokens() == session.budget.total_tokens()


def test_a_target_for_one_collection_is_used_as_it_is() -> None:
    session = agent(preserve_recent_turns=0, preserve_recent_groups=0)
    send_tools(session)
    work(session, 5)
    session.manual_gc(target_percent=30)

    assert len(session.history) == 1
