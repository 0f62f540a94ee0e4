"""Targets are met, not undershot: whatever is freed beyond them is lost for nothing."""

import pytest

from jaato_gc import (
    ContextUsage,
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCResult,
    GCSession,
    GCTriggerReason,
    InlineData,
    Message,
    Part,
    Role,
    ToolResult,
    count_tokens,
    load_gc_plugin,
    split_into_turns,
)

OLDEST_FIRST = ("gc_truncate", "gc_budget", "gc_marksweep")
STRATEGIES = (*OLDEST_FIRST, "gc_hybrid", "gc_summarize")


def turn(number: int) -> list[Message]:
    return [
        Message.from_text(Role.USER, f"question {number}: " + "what is that thing? " * 12),
        Message.from_text(Role.MODEL, "it is what it is. " * 16),
    ]


def use_tool(session: GCSession, number: int, text: str, result: object, *more: Part) -> None:
    """Appends a call with text beside it, and its result."""
    call = FunctionCall(f"c{number}", "read", {"path": f"{number}.py"})
    session.append(Message(Role.MODEL, [Part(text=text), Part(function_call=call)]))
    answer = ToolResult(call.id, call.name, result)
    session.append(Message(Role.TOOL, [Part(function_response=answer), *more]))


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


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_recent_turns_stay_if_the_target_has_room_for_them(strategy: str) -> None:
    options = {"extractive": True} if strategy in ("gc_hybrid", "gc_summarize") else {}
    history = [message for number in range(24) for message in turn(number)]
    usage: ContextUsage = {
        "context_limit": 24 * TURN,
        "total_tokens": 24 * TURN,
        "percent_used": 100.0,
    }
    config, reason = GCConfig(target_percent=50.0), GCTriggerReason.THRESHOLD

    after, result = load_gc_plugin(strategy, options).collect(history, usage, config, reason)

    assert result.success, result.error
    recent = split_into_turns(history)[-5:]
    assert [message for turn in recent for message in turn.messages] == after[-10:]


@pytest.mark.parametrize("strategy", STRATEGIES)
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


@pytest.mark.parametrize("result", [{"lines": [{"text": "a line"}] * 60}, ["a line"] * 60])
def test_copies_of_a_result_that_is_not_a_text_are_shortened_too(result: object) -> None:
    session = GCSession(context_limit=20_000, counter=EstimateCounter())
    session.set_gc_plugin(load_gc_plugin("gc_truncate"))
    session.append(Message.from_text(Role.USER, "Read it until it changes."))
    for number in range(6):
        use_tool(session, number, "Again.", result)

    used = session.get_context_usage()["percent_used"]
    collected = session.manual_gc(target_percent=0.7 * used)

    assert {item.reason for item in collected.removal_list} == {"identical"}
    assert session.history[-1].function_responses[0].result == result


def test_results_with_equal_texts_and_other_images_are_no_copies() -> None:
    session = GCSession(context_limit=20_000, counter=EstimateCounter())
    session.set_gc_plugin(load_gc_plugin("gc_truncate"))
    session.append(Message.from_text(Role.USER, "Watch the screen."))
    for number in range(12):
        image = Part(inline_data=InlineData("image/png", bytes([number]) * 90))
        use_tool(session, number, "Again.", "A screenshot. " * 60, image)

    collected = session.manual_gc()

    assert {item.action for item in collected.removal_list} == {"remove"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_text_beside_a_call_stays_with_the_call_and_goes_with_it(strategy: str) -> None:
    session = GCSession(
        context_limit=40_000,
        summarizer=lambda text: f"Said: {text[:80]}",
        counter=EstimateCounter(),
    )
    session.set_gc_plugin(load_gc_plugin(strategy))
    for number in range(24):
        if number % 4 == 0:
            session.append(Message.from_text(Role.USER, f"Task {number}."))
        lines = range(90) if number % 2 else range(number * 90, number * 90 + 90)
        result = "\n".join(f"line {line} is about {line * 7}" for line in lines)
        use_tool(session, number, f"Step {number}: I look at it.", result)

    shortened = removed = 0
    for target in (55.0, 25.0):
        collected = session.manual_gc(target_percent=target)
        shortened += sum(item.action == "shorten" for item in collected.removal_list)
        removed += sum(item.action != "shorten" for item in collected.removal_list)
        parts = [part for message in session.history for part in message.parts]
        calls = {part.function_call.id for part in parts if part.function_call}
        texts = {(part.text or "").split(":")[0] for part in parts}
        for number in range(24):
            assert (f"Step {number}" in texts) == (f"c{number}" in calls)

    assert shortened
    assert removed
