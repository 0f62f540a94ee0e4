"""Targets are met, not undershot: whatever is freed beyond them is lost for nothing."""

import pytest

from jaato_gc import (
    ContextUsage,
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCResult,
    GCSession,
    GCTriggerReason,
    Message,
    Part,
    Role,
    ToolResult,
    count_tokens,
    load_gc_plugin,
    split_into_turns,
)

OLDEST_FIRST = ("gc_truncate", "gc_budget", "gc_marksweep")


def turn(number: int) -> list[Message]:
    return [
        Message.from_text(Role.USER, f"question {number}: " + "what is that thing? " * 12),
        Message.from_text(Role.MODEL, "it is what it is. " * 16),
    ]


TURN = count_tokens(turn(9_999))


def first_collection(strategy: str, context_limit: int) -> GCResult:
    """Returns the result of the first collection of a dialogue without reported usage."""
    session = GCSession(context_limit=context_limit, summarizer=lambda text: f"Said: {text[:80]}")
    session.set_gc_plugin(load_gc_plugin(strategy))
    for number in range(context_limit):
        for message in turn(number):
            session.append(message)
        session.before_send()
        if results := session.get_gc_history():
            return results[0]
    raise AssertionError("nothing was collected")


@pytest.mark.parametrize("context_limit", [2_000, 32_000, 128_000])
@pytest.mark.parametrize("strategy", OLDEST_FIRST)
def test_a_collection_frees_at_most_one_turn_more_than_its_goal(
    strategy: str, context_limit: int
) -> None:
    result = first_collection(strategy, context_limit)

    target = 0.6 * context_limit
    assert result.outcome is GCOutcome.REACHED
    assert target - TURN < result.tokens_after <= target


@pytest.mark.parametrize("context_limit", [2_000, 32_000, 128_000])
def test_a_summary_is_expected_to_take_a_tenth_of_the_target_at_most(context_limit: int) -> None:
    result = first_collection("gc_summarize", context_limit)

    target = 0.6 * context_limit
    assert result.outcome is GCOutcome.REACHED
    assert target - min(800, target / 10) - TURN < result.tokens_after <= target


@pytest.mark.parametrize("strategy", [*OLDEST_FIRST, "gc_hybrid", "gc_summarize"])
def test_all_recent_turns_stay_if_the_target_has_room_for_them(strategy: str) -> None:
    options = {"extractive": True} if strategy in ("gc_hybrid", "gc_summarize") else {}
    history = [message for number in range(12) for message in turn(number)]
    usage: ContextUsage = {
        "context_limit": 16 * TURN,
        "total_tokens": 12 * TURN,
        "percent_used": 90.0,
    }
    config, reason = GCConfig(target_percent=50.0), GCTriggerReason.THRESHOLD

    after, result = load_gc_plugin(strategy, options).collect(history, usage, config, reason)

    assert result.success, result.error
    recent = split_into_turns(history)[-5:]
    assert [message for turn in recent for message in turn.messages] == after[-10:]


@pytest.mark.parametrize("strategy", [*OLDEST_FIRST, "gc_hybrid", "gc_summarize"])
def test_no_call_is_given_up_for_copies_of_one_result(strategy: str) -> None:
    session = GCSession(context_limit=20_000, summarizer=lambda text: f"Said: {text[:80]}")
    session.set_gc_plugin(load_gc_plugin(strategy))
    file = "\n".join(f"line {number} is about {number * 7}" for number in range(180))
    session.append(Message.from_text(Role.USER, "Read it until it changes."))
    for number in range(9):
        call = FunctionCall(f"c{number}", "read", {"path": "a.py"})
        session.append(Message(Role.MODEL, [Part(text="Again.", function_call=call)]))
        answer = ToolResult(f"c{number}", "read", file)
        session.append(Message(Role.TOOL, [Part(function_response=answer)]))

    result = session.manual_gc()

    assert result.outcome is GCOutcome.REACHED
    assert {(item.reason, item.action) for item in result.removal_list} == {
        ("identical", "shorten")
    }
    assert len(session.history) == 19
    assert session.history[-1].parts[0].function_response == answer
    session.undo()
    assert session.history[2].parts[0].function_response == ToolResult("c0", "read", file)
