"""gc_hybrid: ancient turns are removed, middle ones summarized, recent ones kept."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from jaato_gc import (
    ContextUsage,
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    check_history,
    count_tokens,
)
from jaato_gc_hybrid import HybridGCPlugin, create_plugin
from jaato_gc_testing import COUNTER, assert_in_step, new_session, speak

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


def names(history: Sequence[Message]) -> list[str]:
    return [message.synthetic or message.message_id for message in history]


def turns(*numbers: int) -> list[str]:
    return [f"{who}{number}" for number in numbers for who in "um"]


def summary_in(history: list[Message]) -> str:
    [summary] = [each.text for each in history if each.synthetic is SyntheticKind.SUMMARY]
    return summary


# --- generations ---


@pytest.mark.parametrize(("turns_to_free", "count"), [(0.5, 1), (2.5, 3), (5.5, 6)])
def test_as_many_ancient_turns_are_removed_as_needed(turns_to_free: float, count: int) -> None:
    after, result = collect(turns_to_free)

    assert reasons(result) == {
        **{f"turn_{n}": "ancient_truncated" for n in range(count)},
        **{f"turn_{n}": "middle_summarized" for n in range(6, 10)},
    }
    assert names(after) == [*turns(*range(count, 6)), "summary", *turns(10, 11)]
    assert result.outcome is GCOutcome.REACHED


def test_the_middle_is_summarized_as_a_whole_even_if_ancient_turns_free_enough() -> None:
    after, result = collect(2)

    assert numbers_in(summary_in(after)) == [6, 7, 8, 9]
    assert result.details["summary_tokens"] == count_tokens(
        [each for each in after if each.synthetic], COUNTER
    )
    actions = Counter((item.reason, item.action) for item in result.removal_list)
    assert actions == {("ancient_truncated", "remove"): 2, ("middle_summarized", "summarize"): 4}
    assert (result.details["turns_truncated"], result.details["turns_summarized"]) == (2, 4)
    assert (result.details["preserve_recent"], result.details["summarize_middle"]) == (2, 4)
    assert result.details["had_summarizer"] is True


@pytest.mark.parametrize("options", [{}, {"summarize_middle_turns": 12}, {"summarizer": None}])
def test_nothing_changes_and_the_summarizer_is_not_called_at_the_target(
    options: dict[str, Any],
) -> None:
    given = {"summarizer": lambda _text: pytest.fail("not needed")} | options
    after, result = collect(0.5, HISTORY[:-4], **given)

    assert after == HISTORY[:-4]
    assert result.outcome is GCOutcome.NOT_NEEDED


def test_recent_turns_stay_even_if_the_target_is_missed() -> None:
    after, result = collect(11.5)

    assert names(after) == ["summary", *turns(10, 11)]
    assert numbers_in(summary_in(after)) == [6, 7, 8, 9]
    assert result.outcome is GCOutcome.SHORT
    assert result.shortfall


@pytest.mark.parametrize(("recent", "kept"), [(2, [10, 11]), (3, [9, 10, 11]), (12, [9, 10, 11])])
def test_recent_turns_beyond_what_the_target_leaves_are_middle_turns(
    recent: int, kept: list[int]
) -> None:
    """Three turns take half of what the target leaves."""
    after, result = collect(5.5, preserve_recent_turns=recent)

    assert names(after) == ["summary", *turns(*kept)]
    assert numbers_in(summary_in(after)) == list(range(kept[0] - 4, kept[0]))
    assert "relaxed" not in result.details


def test_a_manual_collection_below_the_target_keeps_all_recent_turns() -> None:
    after, _ = collect(0.5, HISTORY[:-2], GCTriggerReason.MANUAL, preserve_recent_turns=4)

    assert names(after) == ["summary", *turns(7, 8, 9, 10)]
    assert numbers_in(summary_in(after)) == [3, 4, 5, 6]


def test_a_manual_collection_below_the_target_keeps_only_recent_turns() -> None:
    after, _ = collect(0.5, HISTORY[:-2], GCTriggerReason.MANUAL)

    assert names(after) == ["summary", *turns(9, 10)]
    assert numbers_in(summary_in(after)) == [5, 6, 7, 8]


def test_generations_are_by_age_after_earlier_collections_too() -> None:
    once, _ = collect(7)
    longer = [*once, *conversation(18)[24:]]
    twice, result = collect(8, longer)

    taken = {key: why for key, why in reasons(result).items() if key.startswith("turn_")}
    assert taken == {
        **{f"turn_{n}": "ancient_truncated" for n in range(2)},
        **{f"turn_{n}": "middle_summarized" for n in range(2, 6)},
    }
    assert names(twice)[-4:] == turns(16, 17)
    told = [each for each in twice if each.synthetic is SyntheticKind.SUMMARY]
    assert numbers_in("".join(each.text for each in told))[-4:] == [12, 13, 14, 15]


def test_nothing_is_ancient_if_the_middle_is_long_enough() -> None:
    after, result = collect(3, summarize_middle_turns=12)

    assert reasons(result) == {f"turn_{n}": "middle_summarized" for n in range(10)}
    assert names(after) == ["summary", *turns(10, 11)]
    assert numbers_in(summary_in(after)) == list(range(10))


def test_all_summarized_turns_are_in_one_summary() -> None:
    after, _ = collect(9, summarize_middle_turns=12)

    assert numbers_in(summary_in(after)) == list(range(10))


def test_without_a_middle_every_turn_that_is_not_recent_is_ancient() -> None:
    after, result = collect(11.5, summarize_middle_turns=0)

    assert reasons(result) == {f"turn_{n}": "ancient_truncated" for n in range(10)}
    assert names(after) == turns(10, 11)


def test_with_a_huge_middle_nothing_is_ancient() -> None:
    after, result = collect(2, summarize_middle_turns=10**9)

    assert set(reasons(result).values()) == {"middle_summarized"}
    assert numbers_in(summary_in(after)) == list(range(10))


def test_the_turn_limit_removes_turns_and_ignores_tokens() -> None:
    after, result = collect(0.5, reason=GCTriggerReason.TURN_LIMIT, max_turns=9)

    # Three turns are too many. The middle is summarized in any case.
    assert names(after) == [*turns(3, 4, 5), "summary", *turns(10, 11)]
    assert Counter(reasons(result).values()) == {"ancient_truncated": 3, "middle_summarized": 4}


# --- calls: the ledger, and one turn that fills the window ---


def call(number: int) -> list[Message]:
    """Returns a call that reads a file, with its result."""
    reads = FunctionCall(f"call_{number}", "read_file", {"path": f"src/module_{number:02}.py"})
    body = f"question {number:02} is answered here: {LONG * 3}"
    return [
        Message(Role.MODEL, [Part(function_call=reads)], f"c{number}"),
        Message(
            Role.TOOL,
            [Part(function_response=ToolResult(reads.id, reads.name, body))],
            f"r{number}",
        ),
    ]


def coding(turns_with_calls: int) -> list[Message]:
    """Returns turns of a request, one call and an answer."""
    history = []
    for number in range(turns_with_calls):
        asked, answered = conversation(number + 1)[-2:]
        history += [asked, *call(number), answered]
    return history


def one_turn(calls: int) -> list[Message]:
    return [
        Message.from_text(Role.USER, "Do it.", message_id="u0"),
        *(message for number in range(calls) for message in call(number)),
    ]


def collect_calls(
    history: list[Message], percent: float, **options: Any
) -> tuple[list[Message], GCResult]:
    """Collects a window that the history just fills, down to a target."""
    used = count_tokens(history, COUNTER)
    usage: ContextUsage = {"context_limit": used, "total_tokens": used}
    config = GCConfig(threshold_percent=100.0, target_percent=percent)
    given = {"ledger_percent": 8.0, **options}
    after, result = plugin(**given).collect(history, usage, config, GCTriggerReason.THRESHOLD)
    assert check_history(after) == []
    return after, result


def ledger_in(history: list[Message]) -> str:
    [ledger] = [each.text for each in history if each.synthetic is SyntheticKind.LEDGER]
    return ledger


def test_ancient_calls_go_into_the_ledger_and_those_of_the_middle_into_the_summary() -> None:
    after, result = collect_calls(coding(12), 50.0, preserve_recent_groups=0, ledger_percent=25.0)

    assert Counter(reasons(result).values()) == {"ancient_truncated": 6, "middle_summarized": 4}
    ledger, summary = ledger_in(after), summary_in(after)
    assert [f"src/module_{n:02}.py" in ledger for n in range(12)] == [n < 6 for n in range(12)]
    assert [f"src/module_{n:02}.py" in summary for n in range(12)] == [
        6 <= n < 10 for n in range(12)
    ]
    assert names(after)[:2] == ["ledger", "summary"]
    assert result.outcome is GCOutcome.REACHED


def test_without_ancient_turns_there_is_no_ledger() -> None:
    after, _ = collect_calls(coding(6), 60.0, preserve_recent_groups=0)

    assert names(after)[0] == "summary"
    assert "ledger" not in names(after)


def test_in_one_long_turn_the_newer_half_of_the_calls_that_must_go_is_summarized() -> None:
    history = one_turn(12)
    after, result = collect_calls(history, 50.0, preserve_recent_groups=2)

    gone = [item.reason for item in result.removal_list]
    ancient, middle = gone.count("ancient_truncated"), gone.count("middle_summarized")
    assert gone == ["ancient_truncated"] * ancient + ["middle_summarized"] * middle
    assert middle - ancient in (0, 1)
    assert 6 <= len(gone) < 10
    assert numbers_in(summary_in(after)) == list(range(ancient, ancient + middle))
    assert f"src/module_{ancient - 1:02}.py" in ledger_in(after)
    assert f"src/module_{ancient:02}.py" not in ledger_in(after)
    kept = [message.message_id for message in after if not message.synthetic]
    assert kept == ["u0", *(f"{kind}{n}" for n in range(ancient + middle, 12) for kind in "cr")]
    assert result.outcome is GCOutcome.REACHED


def test_in_one_long_turn_without_a_summarizer_all_calls_that_must_go_are_removed() -> None:
    after, result = collect_calls(one_turn(12), 50.0, summarizer=None)

    assert set(reasons(result).values()) == {"ancient_truncated", "truncated_fallback"}
    assert {item.action for item in result.removal_list} == {"remove"}
    listed = [n for n in range(12) if f"src/module_{n:02}.py" in ledger_in(after)]
    gone = len(result.removal_list)
    assert listed  # the newest first, as far as there is room
    assert listed == list(range(gone - len(listed), gone))
    assert "truncated" in result.details["summarizer"]
    assert result.details["had_summarizer"] is False
    assert result.outcome is GCOutcome.REACHED


def test_the_last_calls_stay_even_if_the_target_is_missed() -> None:
    history = one_turn(12)
    used = count_tokens(history, COUNTER)
    usage: ContextUsage = {"context_limit": 2 * used, "total_tokens": used}
    config = GCConfig(target_percent=2.0, preserve_recent_groups=3)
    after, result = plugin().collect(history, usage, config, GCTriggerReason.THRESHOLD)

    assert [each for each in after if not each.synthetic] == [history[0], *history[-6:]]
    assert result.outcome is GCOutcome.SHORT
    assert check_history(after) == []


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


def test_without_a_summarizer_a_long_middle_is_truncated_as_far_as_needed() -> None:
    after, result = collect(1.5, summarizer=None, summarize_middle_turns=12)

    assert names(after) == turns(*range(2, 12))
    assert set(reasons(result).values()) == {"truncated_fallback"}
    assert "truncated" in result.details["summarizer"]


@pytest.mark.parametrize("options", [{}, {"summarize_middle_turns": 0}])
def test_a_summarizer_that_was_not_needed_is_not_reported_missing(options: dict[str, Any]) -> None:
    _, result = collect(3 if not options else 11.5, summarizer=None, **options)

    assert "summarizer" not in result.details


def test_it_extracts_a_summary_of_the_middle_if_asked() -> None:
    after, result = collect(8, summarizer=None, extractive=True)

    assert result.details["written_by"] == "extract"
    assert "summarizer" not in result.details
    assert [each for each in after if each.synthetic is SyntheticKind.SUMMARY]


def test_it_uses_the_summarizer_of_its_session() -> None:
    session = new_session(plugin(summarizer=None), context_limit=2_000, summarizer=summarizer)
    speak(session, *range(12))
    result = session.manual_gc(target_percent=30.0)

    assert result.details["written_by"] == "summarizer"


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


@pytest.mark.parametrize("options", [{}, {"summarizer": None}, {"summarize_middle_turns": 12}])
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
