"""gc_hybrid: ancient turns are removed, middle ones summarized, recent ones kept."""

import re
from collections import Counter
from typing import Any

import pytest

from jaato_gc import (
    ContextUsage,
    GCConfig,
    GCOutcome,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    Message,
    Role,
    SyntheticKind,
    check_history,
    count_tokens,
)
from jaato_gc_hybrid import HybridGCPlugin, create_plugin
from jaato_gc_testing import COUNTER, assert_in_step, new_session

LONG = "and so on " * 30
RECENT, MIDDLE = 2, 4


def conversation(turns: int) -> list[Message]:
    return [
        Message.from_text(role, f"{said} {number:02}. {LONG}", message_id=f"{role[0]}{number}")
        for number in range(turns)
        for role, said in ((Role.USER, "question"), (Role.MODEL, "answer"))
    ]


HISTORY = conversation(12)
TURN_TOKENS = count_tokens(HISTORY[:2], COUNTER)
LIMIT = 12 * TURN_TOKENS
"""A window that twelve such turns just fill: six ancient, four middle, two recent ones."""


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"question (\d+)", text)]


def summarizer(text: str) -> str:
    """Says which questions it was shown."""
    return "Said: " + " ".join(f"question {number}" for number in numbers_in(text))


def plugin(**options: Any) -> HybridGCPlugin:
    strategy = create_plugin()
    strategy.initialize(
        {
            "summarizer": summarizer,
            "summary_tokens": 50,
            "preserve_recent_turns": RECENT,
            "summarize_middle_turns": MIDDLE,
            **options,
        }
    )
    return strategy


def collect(
    turns_to_free: float,
    history: list[Message] = HISTORY,
    reason: GCTriggerReason = GCTriggerReason.THRESHOLD,
    **options: Any,
) -> tuple[list[Message], GCResult]:
    """Collects down to a target that is this many turns away."""
    used = count_tokens(history, COUNTER)
    config = GCConfig(threshold_percent=100.0, target_percent=100 - 100 * turns_to_free / 12)
    usage: ContextUsage = {
        "context_limit": LIMIT,
        "total_tokens": used,
        "percent_used": 100 * used / LIMIT,
    }
    return plugin(**options).collect(history, usage, config, reason)


def reasons(result: GCResult) -> dict[str, str]:
    return {item.child_key or "": item.reason for item in result.removal_list}


def names(history: list[Message]) -> list[str]:
    return [message.synthetic or message.message_id for message in history]


def turns(*numbers: int) -> list[str]:
    return [f"{who}{number}" for number in numbers for who in "um"]


def summary_in(history: list[Message]) -> str:
    [summary] = [each.text for each in history if each.synthetic is SyntheticKind.SUMMARY]
    return summary


# --- generations ---


@pytest.mark.parametrize("count", [1, 3, 6])
def test_ancient_turns_are_removed_first_without_the_summarizer(count: int) -> None:
    after, result = collect(count, summarizer=lambda _text: pytest.fail("not needed"))

    assert reasons(result) == {f"turn_{n}": "ancient_truncated" for n in range(count)}
    assert names(after) == turns(*range(count, 12))
    assert result.outcome is GCOutcome.REACHED
    assert "summary_tokens" not in result.details


def test_middle_turns_are_summarized_only_as_far_as_needed() -> None:
    after, result = collect(7)

    assert reasons(result) == {
        **{f"turn_{n}": "ancient_truncated" for n in range(6)},
        "turn_6": "middle_summarized",
        "turn_7": "middle_summarized",
    }
    assert names(after) == ["summary", *turns(8, 9, 10, 11)]
    assert numbers_in(summary_in(after)) == [6, 7]
    assert result.outcome is GCOutcome.REACHED
    assert result.details["summary_tokens"] == count_tokens(after[:1], COUNTER)
    actions = Counter((item.reason, item.action) for item in result.removal_list)
    assert actions == {("ancient_truncated", "remove"): 6, ("middle_summarized", "summarize"): 2}


def test_recent_turns_stay_even_if_the_target_is_missed() -> None:
    after, result = collect(11.5)

    assert names(after) == ["summary", *turns(10, 11)]
    assert numbers_in(summary_in(after)) == [6, 7, 8, 9]
    assert result.outcome is GCOutcome.SHORT
    assert result.shortfall


def test_a_manual_collection_below_the_target_keeps_only_recent_turns() -> None:
    after, _ = collect(0.5, HISTORY[:-2], GCTriggerReason.MANUAL)

    assert names(after) == ["summary", *turns(9, 10)]
    assert numbers_in(summary_in(after)) == [5, 6, 7, 8]


def test_generations_are_by_age_after_earlier_collections_too() -> None:
    once, _ = collect(7)
    twice, result = collect(10.5, once)

    taken = {key: why for key, why in reasons(result).items() if key.startswith("turn_")}
    assert taken == {"turn_0": "middle_summarized", "turn_1": "middle_summarized"}
    assert names(twice) == ["summary", *turns(10, 11)]  # both would crowd so small a window


def test_ancient_turns_can_be_summarized_too() -> None:
    after, result = collect(3, summarize_ancient=True)
    gone = len(result.removal_list)

    assert reasons(result) == {f"turn_{n}": "middle_summarized" for n in range(gone)}
    assert names(after) == ["summary", *turns(*range(gone, 12))]
    assert numbers_in(summary_in(after)) == list(range(gone))
    assert gone == 4


def test_all_summarized_turns_are_in_one_summary() -> None:
    after, _ = collect(9, summarize_ancient=True)

    assert numbers_in(summary_in(after)) == list(range(10))


def test_without_a_middle_every_turn_that_is_not_recent_is_ancient() -> None:
    after, result = collect(11.5, summarize_middle_turns=0)

    assert reasons(result) == {f"turn_{n}": "ancient_truncated" for n in range(10)}
    assert names(after) == turns(10, 11)


def test_with_a_huge_middle_nothing_is_ancient() -> None:
    after, result = collect(2, summarize_middle_turns=10**9)

    assert set(reasons(result).values()) == {"middle_summarized"}
    assert numbers_in(summary_in(after)) == [0, 1, 2]


def test_the_turn_limit_removes_turns_and_ignores_tokens() -> None:
    after, result = collect(0.5, reason=GCTriggerReason.TURN_LIMIT, max_turns=4)

    assert names(after) == ["summary", *turns(8, 9, 10, 11)]
    assert Counter(reasons(result).values()) == {"ancient_truncated": 6, "middle_summarized": 2}


# --- without a summary ---


def test_without_a_summarizer_it_truncates_and_says_so() -> None:
    after, result = collect(7.5, summarizer=None)

    assert names(after) == turns(8, 9, 10, 11)
    assert reasons(result) == {
        **{f"turn_{n}": "ancient_truncated" for n in range(6)},
        "turn_6": "truncated_fallback",
        "turn_7": "truncated_fallback",
    }
    assert "truncated" in result.details["summarizer"]
    assert {item.action for item in result.removal_list} == {"remove"}


def test_without_a_summarizer_ancient_turns_that_should_be_summarized_are_truncated() -> None:
    after, result = collect(2, summarizer=None, summarize_ancient=True)

    assert names(after) == turns(*range(2, 12))
    assert set(reasons(result).values()) == {"truncated_fallback"}
    assert "truncated" in result.details["summarizer"]


@pytest.mark.parametrize("options", [{}, {"summarize_middle_turns": 0}])
def test_a_summarizer_that_was_not_needed_is_not_reported_missing(options: dict[str, Any]) -> None:
    _, result = collect(3 if not options else 11.5, summarizer=None, **options)

    assert "summarizer" not in result.details


def test_a_failing_summarizer_changes_nothing_not_even_ancient_turns() -> None:
    after, result = collect(8, summarizer=lambda _text: "Error: no quota")

    assert after == HISTORY
    assert result.outcome is GCOutcome.FAILED
    assert "Error: no quota" in (result.error or "")
    assert result.removal_list == []


def test_a_failing_summarizer_can_be_replaced_by_truncation() -> None:
    after, result = collect(7.5, summarizer=lambda _text: "", on_summarizer_error="truncate")

    assert names(after) == turns(8, 9, 10, 11)
    assert Counter(reasons(result).values()) == {"ancient_truncated": 6, "truncated_fallback": 2}
    assert "returned nothing" in result.details["summarizer_error"]


def test_a_failing_summarizer_can_be_replaced_by_an_extract() -> None:
    after, result = collect(8, summarizer=lambda _text: "", on_summarizer_error="extract")

    assert "- asked: question 06." in summary_in(after)
    assert result.details["written_by"] == "extract"


# --- in a session ---


def session_with(**options: Any) -> GCSession:
    return new_session(
        plugin(**options), provider=lambda _request: f"answer {LONG}", context_limit=LIMIT
    )


def assert_sound(session: GCSession) -> None:
    assert_in_step(session)
    assert check_history(session.history) == []


@pytest.mark.parametrize("options", [{}, {"summarizer": None}, {"summarize_ancient": True}])
def test_pinned_turns_survive_in_place_in_each_generation(options: dict[str, Any]) -> None:
    session = session_with(**options)
    for message in HISTORY:
        session.append(message)
    pinned = turns(2, 8, 11)
    for message_id in pinned:
        session.pin(message_id)
    session.manual_gc(target_percent=1.0)

    kept = [message for message in session.history if not message.synthetic]
    assert names(kept) == ["u0", *turns(2, 8, 10, 11)]
    assert [message for message in HISTORY if message.message_id in pinned] == [
        message for message in kept if message.message_id in pinned
    ]
    assert_sound(session)


def test_pinned_turn_indices_survive_in_place() -> None:
    session = session_with(pinned_turn_indices=[1, 7])
    for message in HISTORY:
        session.append(message)
    session.manual_gc(target_percent=1.0)

    assert names(session.history) == ["u0", *turns(1), "summary", *turns(7, 10, 11)]


def test_the_session_books_the_summary() -> None:
    session = session_with()
    for message in HISTORY:
        session.append(message)
    result = session.manual_gc(target_percent=1.0)
    entry = session.budget.get_child(InstructionSource.CONVERSATION, "gc_summary_1")

    assert entry
    assert (entry.gc_policy, entry.label) == (GCPolicy.PRESERVABLE, "Context Summary")
    assert entry.metadata == {"created_by": "gc_hybrid"}
    assert entry.tokens == result.details["summary_tokens"]


def test_a_long_conversation_stays_within_the_window_and_the_chain_within_its_bounds() -> None:
    session = session_with(
        summarizer=lambda _text: "They talked.", max_summaries=2, summarize_middle_turns=8
    )
    for number in range(150):
        session.send_message(f"question {number:03}. {LONG}")
        chain = [each for each in session.history if each.synthetic is SyntheticKind.SUMMARY]
        assert len(chain) <= 2

    assert len(session.get_gc_history()) > 10
    assert chain
    assert all(result.outcome is GCOutcome.REACHED for result in session.get_gc_history())
    assert session.get_context_usage()["percent_used"] < 100
    assert_sound(session)


def test_the_seeds_example() -> None:
    plugin = create_plugin()
    plugin.initialize(
        {
            "preserve_recent_turns": 5,  # Keep last 5 intact
            "summarize_middle_turns": 15,  # Summarize next 15
            "summarizer": summarizer,  # Optional
        }
    )
    client = new_session(provider=lambda _request: f"answer {LONG}", context_limit=3800)
    client.set_gc_plugin(plugin, GCConfig(threshold_percent=75.0))
    for number in range(80):
        client.send_message(f"question {number:02}. {LONG}")

    done = {item.reason for result in client.get_gc_history() for item in result.removal_list}
    assert {"ancient_truncated", "middle_summarized"} <= done
    assert client.get_context_usage()["percent_used"] < 80
