"""The fake model: as strict as a provider, and deterministic."""

import pytest

from jaato_gc import (
    ContextLimitError,
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCSession,
    GCTriggerReason,
    InvalidHistoryError,
    Message,
    Part,
    Role,
    UsageReport,
    check_history,
    count_tokens,
)
from jaato_gc_testing import DummyModel, NoGCPlugin, new_session

HELLO = Message.from_text(Role.USER, "hello")


def session_with(model: DummyModel) -> GCSession:
    return new_session(
        provider=model,
        tools=model.run_tool,
        context_limit=model.context_limit,
        counter=model.counter,
    )


def talk(session: GCSession, turns: int) -> list[str]:
    return [session.send_message(f"request {turn}").text for turn in range(turns)]


def test_the_model_answers_and_reports_its_usage() -> None:
    model = DummyModel(1000, tool_rounds=0, hidden_tokens=30)

    answer, usage = model([HELLO])

    assert answer.role is Role.MODEL
    assert answer.text
    assert usage == UsageReport(count_tokens([HELLO]) + 30, count_tokens([answer]))
    assert (model.requests, model.refusals, model.largest_request) == (1, 0, usage.input_tokens)


def test_the_model_refuses_a_request_that_is_too_long() -> None:
    tokens = count_tokens([HELLO])
    DummyModel(tokens)([HELLO])
    model = DummyModel(tokens - 1)

    with pytest.raises(ContextLimitError, match=f"{tokens} tokens exceed the window"):
        model([HELLO])
    assert (model.requests, model.refusals) == (0, 1)


def test_the_model_counts_its_hidden_tokens() -> None:
    with pytest.raises(ContextLimitError):
        DummyModel(count_tokens([HELLO]), hidden_tokens=1)([HELLO])


@pytest.mark.parametrize(
    "request_",
    [
        [Message.from_text(Role.MODEL, "hello")],
        [HELLO, Message.from_text(Role.MODEL, "")],
        [HELLO, HELLO],
        [
            HELLO,
            Message(Role.MODEL, [Part(function_call=FunctionCall("c", "look"))]),
            Message.from_text(Role.USER, "never mind"),
        ],
    ],
    ids=["model first", "empty message", "same id twice", "dangling call"],
)
def test_the_model_refuses_an_invalid_request(request_: list[Message]) -> None:
    with pytest.raises(InvalidHistoryError, match="a provider would refuse this request") as caught:
        DummyModel(1000)(request_)
    assert caught.value.violations == check_history(request_)


def test_the_same_seed_gives_the_same_conversation() -> None:
    first, second, other = (
        talk(session_with(DummyModel(50_000, seed=seed)), 12) for seed in (7, 7, 8)
    )

    assert first == second
    assert first != other


def test_the_model_calls_tools_in_parallel_and_repeats_ids() -> None:
    session = session_with(DummyModel(100_000))
    talk(session, 30)
    calls = [message.function_calls for message in session.history if message.function_calls]
    ids = [call.id for batch in calls for call in batch]

    assert any(len(batch) > 1 for batch in calls)
    assert len(set(ids)) < len(ids)
    assert check_history(session.history) == []


def test_a_session_with_no_gc_loses_nothing_until_the_window_is_full() -> None:
    model = DummyModel(2_000)
    session = session_with(model)
    session.set_gc_plugin(NoGCPlugin(), GCConfig())

    talk(session, 100)

    assert model.refusals == 0
    results = session.get_gc_history()
    assert results[0].outcome is GCOutcome.NO_GAIN
    removed = [result for result in results if result.removal_list]
    assert removed
    for result in removed:
        assert result.details["relaxed"]
        assert all(item.reason.startswith("fit_") for item in result.removal_list)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (GCTriggerReason.THRESHOLD, GCOutcome.NOT_NEEDED),
        (GCTriggerReason.MANUAL, GCOutcome.NO_GAIN),
    ],
)
def test_the_outcome_of_no_gc_depends_on_the_goal(
    reason: GCTriggerReason, outcome: GCOutcome
) -> None:
    session = session_with(DummyModel(2_000))
    session.append(HELLO)
    session.set_gc_plugin(NoGCPlugin(), GCConfig())

    plan = session.plan_gc(reason)

    assert plan.changes_nothing
    assert plan.result.outcome is outcome
