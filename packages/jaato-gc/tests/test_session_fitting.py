"""Requests that would not fit: what core removes, in which order, and when it gives up."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from jaato_gc import (
    ContextFloorError,
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCOutcome,
    GCPolicy,
    GCSession,
    GCTriggerReason,
    Message,
    Part,
    Role,
    StashError,
    SyntheticKind,
    ToolResult,
    check_history,
)
from jaato_gc.collecting import Outcome
from jaato_gc.plugin import Collection, Violation
from jaato_gc_testing import (
    MemoryStash,
    NoGCPlugin,
    OldestFirst,
    ScriptedStrategy,
    assert_in_step,
    new_session,
)

WORDS = "all is well on board of the ship "


def text(tokens: int) -> str:
    return "\n".join([WORDS * 2] * (tokens // 16))


def user(content: str) -> Message:
    return Message.from_text(Role.USER, content)


def model(content: str) -> Message:
    return Message.from_text(Role.MODEL, content)


def call(number: int, tokens: int) -> list[Message]:
    call = FunctionCall(f"c{number}", "read", {"path": f"{number}.py"})
    result = ToolResult(call.id, call.name, f"{number}\n{text(tokens)}")
    return [
        Message(Role.MODEL, [Part(function_call=call)], message_id=f"call-{number}"),
        Message(Role.TOOL, [Part(function_response=result)], message_id=f"result-{number}"),
    ]


def filled(limit: int, *messages: Message, **options: Any) -> GCSession:
    session = new_session(context_limit=limit, **options)
    for message in messages:
        session.append(message)
    return session


def fitted(session: GCSession) -> list[str]:
    """Returns what core relaxed in the last collection, after checks of the request."""
    request = session.before_send()
    assert check_history(list(request)) == []
    assert session.get_context_usage()["total_tokens"] <= session.budget.context_limit
    assert_in_step(session)
    relaxed: list[str] = session.get_gc_history()[-1].details.get("relaxed", [])
    return relaxed


# --- the running turn ---


def test_one_huge_result_is_shortened_and_the_rest_stays() -> None:
    session = filled(4_000, user("go"), *call(1, 300), *call(2, 300), *call(3, 20_000))
    session.set_gc_plugin(OldestFirst())

    session.before_send()

    [result] = session.get_gc_history()
    assert [item.reason for item in result.removal_list] == ["fit_long"]
    assert len(session.history) == 7
    assert "cleared: to fit the window; read it in parts]" in str(
        session.history[-1].function_responses[0].result
    )
    session.undo()
    assert str(session.history[-1].function_responses[0].result).count("\n") > 1_000


def test_results_of_the_last_calls_are_shortened_largest_first() -> None:
    calls = [*call(1, 1_200), *call(2, 3_000), *call(3, 600)]
    session = filled(4_000, user("go"), *calls, model("I see."), user("on"))
    session.set_gc_plugin(NoGCPlugin())

    assert fitted(session) == ["long_results"]

    sizes = [len(str(each.result)) for m in session.history for each in m.function_responses]
    whole = [len(str(each.result)) for m in calls for each in m.function_responses]
    assert sizes[1] < whole[1]
    assert sizes[2] == whole[2]


def test_result_that_is_not_answered_yet_is_shortened_last() -> None:
    session = filled(5_000, user("go"), *call(1, 1_900), *call(2, 1_900), *call(3, 1_900))
    session.set_gc_plugin(NoGCPlugin(), GCConfig(threshold_percent=100.0, target_percent=95.0))

    fitted(session)

    first, *_, last = [
        len(str(each.result)) for m in session.history for each in m.function_responses
    ]
    assert first < last


def test_older_calls_of_the_running_turn_go_before_messages() -> None:
    calls = [message for number in range(12) for message in call(number, 200)]
    spoken = [message for n in range(4) for message in (user(f"{n}"), model(text(100)))]
    session = filled(3_000, user("hello"), model("hi"), *spoken, user("go"), *calls)
    session.set_gc_plugin(NoGCPlugin())

    assert "calls" in fitted(session)
    assert all(message in session.history for message in spoken)
    assert calls[-1] in session.history


def test_only_fixed_content_stays_if_it_must() -> None:
    spoken = [message for n in range(6) for message in (user(f"{n} {text(150)}"), model(text(150)))]
    session = filled(
        700, user("hello"), model("hi"), *spoken, user(f"newest {text(250)}"), *call(1, 2_000)
    )
    session.set_gc_plugin(NoGCPlugin())

    relaxed = fitted(session)

    assert relaxed == ["long_results", "old"]
    assert next(message.text for message in session.history if message.opens_turn) == "hello"
    assert any(message.text.startswith("newest") for message in session.history)


def test_a_pinned_call_is_never_shortened_or_removed() -> None:
    session = filled(3_000, user("go"), *call(1, 900), *call(2, 2_500), *call(3, 900))
    session.pin("result-1")
    session.set_gc_plugin(NoGCPlugin())
    pinned = session.history[2]

    fitted(session)

    assert session.history[2] is pinned


# --- giving up ---


def test_fixed_content_that_does_not_fit_is_named_and_nothing_changes() -> None:
    asked: list[Collection] = []
    old = [message for n in range(5) for message in (user(f"{n}"), model(text(100)))]
    session = filled(1_000, user("go"), *old, user(text(1_500)))
    session.set_gc_plugin(ScriptedStrategy(asked.append))
    before = {**json.loads(session.save()), "threshold_told": True}

    with pytest.raises(ContextFloorError) as caught:
        session.before_send()

    newest = session.history[-1]
    assert f"{newest.message_id!r} (user, newest user, " in str(caught.value)
    assert f"session.replace({newest.message_id!r}, a shorter message), or" in str(caught.value)
    assert sum(caught.value.floor.values()) > 1_000
    assert json.loads(session.save()) == before
    assert asked == []


def test_the_call_that_the_error_names_helps() -> None:
    session = filled(1_000, user("go"), model("yes"), user(text(1_500)))
    session.set_gc_plugin(OldestFirst())
    with pytest.raises(ContextFloorError):
        session.before_send()

    session.replace(session.history[-1].message_id, user("the same, in short"))

    assert session.before_send()[-1].text == "the same, in short"


def test_unpinning_is_named_for_a_pinned_message() -> None:
    session = filled(1_000, user("go"), *call(1, 1_500), model("yes"), user("on"))
    session.pin("result-1")
    session.set_gc_plugin(OldestFirst())

    with pytest.raises(ContextFloorError, match=r"Call session.unpin\('result-1'\)"):
        session.before_send()
    session.unpin("result-1")
    session.before_send()


def test_without_a_strategy_nothing_is_removed() -> None:
    session = filled(1_000, user("go"), *call(1, 2_000))

    with pytest.raises(ContextFloorError, match="No strategy is set: call set_gc_plugin"):
        session.before_send()
    assert len(session.history) == 3


def test_on_overflow_raise_leaves_recent_turns_alone() -> None:
    session = filled(2_000, user("go"), *call(1, 3_000), on_overflow="raise")
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=2)
    session.set_gc_plugin(NoGCPlugin(), config)
    whole = session.history

    with pytest.raises(ContextFloorError):
        session.before_send()
    assert session.history == whole


def test_on_overflow_send_sends_what_can_not_be_made_to_fit() -> None:
    session = filled(1_000, user("go"), model("yes"), user(text(1_500)), on_overflow="send")
    session.set_gc_plugin(OldestFirst())

    assert session.before_send() == session.history


def test_on_overflow_must_be_known() -> None:
    with pytest.raises(GCConfigError, match="expected one of 'relax', 'raise', 'send'"):
        new_session(on_overflow="explode")  # type: ignore[arg-type]


def test_core_fits_alone_if_the_strategy_fails() -> None:
    def fail(_: Collection) -> None:
        raise ValueError("no idea")

    session = filled(2_000, user("go"), *call(1, 400), *call(2, 3_000))
    session.set_gc_plugin(ScriptedStrategy(fail))

    session.before_send()

    result = session.get_gc_history()[-1]
    assert (result.plugin_name, result.success) == ("core", True)
    assert "ValueError: no idea" in result.details["strategy_error"]


# --- edits of the host ---


def test_remove_takes_the_whole_group_and_can_be_undone() -> None:
    session = filled(9_000, user("go"), *call(1, 100), *call(2, 100))
    before = session.history

    result = session.remove("result-1")

    assert [message.message_id for message in session.history[1:]] == ["call-2", "result-2"]
    assert result.plugin_name == "host"
    assert result.removal_list[0].message_ids == ["call-1", "result-1"]
    assert result.tokens_freed > 100
    assert_in_step(session)
    session.undo()
    assert session.history == before
    assert_in_step(session)


def test_replace_keeps_id_role_and_calls() -> None:
    session = filled(9_000, user("go"), *call(1, 500))
    short = Message(Role.TOOL, [Part(function_response=ToolResult("c1", "read", "short"))])

    session.replace("result-1", short)

    assert session.history[-1].message_id == "result-1"
    assert session.history[-1].function_responses[0].result == "short"
    assert_in_step(session)
    session.undo()
    assert len(str(session.history[-1].function_responses[0].result)) > 1_000


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (user("x"), "has role tool, not user"),
        (
            Message(Role.TOOL, [Part(function_response=ToolResult("c9", "read", "x"))]),
            "must keep the ids of its calls",
        ),
    ],
)
def test_replace_refuses_another_role_or_other_calls(message: Message, reason: str) -> None:
    session = filled(9_000, user("go"), *call(1, 100))

    with pytest.raises(Exception, match=reason):
        session.replace("result-1", message)
    assert session.get_gc_history() == []


def test_locked_and_pinned_messages_need_force() -> None:
    session = filled(9_000, user("go"), model("yes"), *call(1, 100))
    request = session.history[0].message_id
    session.pin("call-1")

    for message_id, why in ((request, "LOCKED"), ("result-1", "pinned")):
        with pytest.raises(Exception, match=why):
            session.remove(message_id)
    session.remove("result-1", force=True)
    session.replace(request, user("go on"), force=True)
    assert [message.text for message in session.history] == ["go on", "yes"]
    assert session.budget.pinned_message_ids == set()


def test_a_summary_that_is_the_only_user_message_is_fixed() -> None:
    summary = replace(user(text(400)), synthetic=SyntheticKind.SUMMARY)
    session = filled(300, summary, model(text(450)))
    session.set_gc_plugin(NoGCPlugin())

    with pytest.raises(ContextFloorError, match=summary.message_id):
        session.before_send()

    assert len(session.history) == 2


def test_the_only_message_of_a_session_can_be_removed() -> None:
    session = new_session()
    only = session.append(Message.from_text(Role.USER, "Hi"))

    session.remove(only.message_id, force=True)  # the first request is LOCKED

    assert session.history == []
    session.undo()
    assert session.history == [only]


def test_host_edits_go_to_the_stash() -> None:
    stash = MemoryStash()
    session = filled(9_000, user("go"), *call(1, 100), stash=stash, journal_bytes=0)

    result = session.remove("call-1")

    assert len(result.removal_list[0].stash_keys) == 2
    session.undo()
    assert len(session.history) == 3


# --- when ---


def test_next_collection_waits_after_one_that_missed_its_goal() -> None:
    session = filled(2_000, user("go"), model(text(1_700)), user("on"))
    session.set_gc_plugin(NoGCPlugin())

    for _ in range(3):
        session.before_send()
    assert len(session.get_gc_history()) == 1
    assert "waits until" in str(session.paused_because)
    counter = session.budget.counter
    assert GCSession.restore(session.save(), strategy=NoGCPlugin(), counter=counter).paused_because
    session.append(model(text(20)))
    session.before_send()
    assert len(session.get_gc_history()) == 1
    session.append(user(text(40)))
    session.before_send()
    assert len(session.get_gc_history()) == 2


def test_cold_cache_is_a_reason_to_collect() -> None:
    now = [1_000.0]
    session = new_session(context_limit=4_000, clock=lambda: now[0])
    config = GCConfig(cache_ttl_seconds=300, preserve_recent_turns=1)
    session.set_gc_plugin(OldestFirst(), config)
    for number in range(12):
        session.append(user(f"{number} {text(100)}"))
        session.append(model(text(100)))
    session.append(user("on"))
    assert 50 < session.get_context_usage()["percent_used"] < 80

    session.before_send()
    now[0] += 299
    session.before_send()
    assert session.get_gc_history() == []
    now[0] += 301
    session.before_send()

    [result] = session.get_gc_history()
    assert result.trigger_reason is GCTriggerReason.CACHE_COLD
    assert result.outcome is GCOutcome.REACHED
    assert session.get_context_usage()["percent_used"] <= 40


def test_a_cold_cache_is_judged_by_what_may_be_used_of_the_window() -> None:
    now = [1_000.0]
    session = new_session(context_limit=200_000, clock=lambda: now[0])
    config = GCConfig(cache_ttl_seconds=300, preserve_recent_turns=1, max_context_tokens=4_000)
    session.set_gc_plugin(OldestFirst(), config)
    for number in range(12):
        session.append(user(f"{number} {text(100)}"))
        session.append(model(text(100)))
    session.append(user("on"))

    session.before_send()
    now[0] += 301
    session.before_send()

    [result] = session.get_gc_history()
    assert result.trigger_reason is GCTriggerReason.CACHE_COLD
    assert session.budget.total_tokens() <= 1_600


def test_refusal_that_names_the_window_teaches_it() -> None:
    session = filled(100_000, user("go"), *call(1, 400), *call(2, 9_000))
    session.set_gc_plugin(OldestFirst())
    session.before_send()

    error = ValueError("prompt is too long: 9,912 tokens > 8,192 maximum")
    assert session.recover_from_refusal(error)

    assert session.budget.context_limit == 8_192
    assert session.get_context_usage()["total_tokens"] <= 8_192


def test_after_a_refusal_without_a_window_the_target_is_safe() -> None:
    session = filled(10_000, user("go"), *call(1, 3_000), *call(2, 3_000), *call(3, 3_000))
    session.set_gc_plugin(NoGCPlugin())
    session.before_send()

    assert session.recover_from_refusal(ValueError("maximum context length exceeded"))

    assert session.get_context_usage()["total_tokens"] <= 6_000


# --- the beginning of the history ---


def preservable_call(number: int, tokens: int) -> list[Message]:
    called, result = call(number, tokens)
    return [replace(called, policy=GCPolicy.PRESERVABLE), result]


def partial(content: str) -> Message:
    """Returns a first request that may be removed like any other: by default it is LOCKED."""
    return replace(user(content), policy=GCPolicy.PARTIAL)


def test_request_stays_while_a_preservable_call_of_its_turn_stays() -> None:
    """A history that begins with a call is refused by providers."""
    session = filled(
        3_400, partial(f"first {text(100)}"), *preservable_call(1, 600), model(text(1_500)),
        user("second"), *call(2, 800), user("third"), *call(3, 800),
    )  # fmt: skip
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=2)
    session.set_gc_plugin(NoGCPlugin(), config)

    assert fitted(session) == ["old"]

    assert [message.text[:5] for message in session.history if message.text] == [
        "first", "secon", "third",
    ]  # fmt: skip
    assert session.history[1].message_id == "call-1"


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("limit", range(400, 3_000, 200))
def test_history_begins_with_a_user_message_in_every_step(limit: int, groups: int) -> None:
    session = filled(
        limit, partial(text(300)), *preservable_call(1, 300), model(text(300)), user(text(300)),
        *call(2, 300), user(text(300)), *preservable_call(3, 300), model(text(300)),
        user(text(300)), *call(4, 300), *call(5, 300), user("go"),
    )  # fmt: skip
    config = GCConfig(preserve_recent_turns=3, preserve_recent_groups=groups)
    session.set_gc_plugin(NoGCPlugin(), config)
    before = session.history

    fitted(session)

    assert session.history[0].opens_turn
    assert session.history[-1] == before[-1]
    session.undo()
    assert session.history == before


# --- shares of the window ---


def spoken(turns: int, tokens: int) -> list[Message]:
    """Returns turns of a request and an answer, of this many tokens together."""
    half = text(tokens // 2)
    return [each for n in range(turns) for each in (user(f"{n} {half}"), model(half))]


def test_recent_turns_are_protected_as_far_as_they_take_a_fifth_of_the_window() -> None:
    history = [user("hello"), model("hi"), *spoken(8, 200), user("go")]
    session = filled(10_000, *history)
    session.set_gc_plugin(OldestFirst(), GCConfig(preserve_recent_turns=5))

    session.manual_gc(target_percent=0)
    assert session.history[1:] == history[-9:], "four turns and the running one"
    session.undo()
    session.set_context_limit(2_500)
    session.manual_gc(target_percent=0)
    assert session.history[1:] == history[-5:], "two turns take less than 500 tokens, not three"


def test_a_pasted_document_does_not_push_out_the_tool_output_of_newer_turns() -> None:
    document = [user(f"read this: {text(5_000)}"), model("done")]
    calls = [message for n in range(8) for message in call(n, 300)]
    session = filled(8_000, user("hello"), model("hi"), *document, user("go"), *calls, model("ok"))
    session.set_gc_plugin(OldestFirst())

    session.before_send()

    assert document[0] not in session.history
    assert all(message in session.history for message in calls)


def test_results_of_the_last_calls_take_half_of_the_window_at_most() -> None:
    old = [message for n in range(3) for message in call(n, 200)]
    session = filled(4_000, user("go"), *old, *call(7, 2_000), *call(8, 800), model("well"))
    session.set_gc_plugin(OldestFirst(), GCConfig(preserve_recent_groups=2))

    session.before_send()

    (result,) = session.get_gc_history()
    assert result.outcome is GCOutcome.REACHED
    assert result.details["relaxed"] == ["long_results"]
    assert all(message in session.history for message in old), "otherwise they had gone"


def test_a_request_that_fits_only_as_counted_is_sent() -> None:
    session = filled(1_000, user("old"), model("yes"), user(text(1_020)))
    session.set_gc_plugin(OldestFirst())
    total = session.budget.total_tokens()
    assert total * (1 + session.budget.counter.tolerance) > 1_000

    request = session.before_send()

    assert session.budget.total_tokens() <= 1_000
    assert request[-1].text == text(1_020)


def test_the_error_of_a_session_that_keeps_recent_content_names_that_content() -> None:
    session = filled(900, user("old"), *call(1, 500), model("hm"), user(text(300)), *call(2, 300))
    session = filled(900, *session.history, on_overflow="raise")
    session.set_gc_plugin(OldestFirst())

    with pytest.raises(ContextFloorError) as caught:
        session.before_send()

    assert "'result-1' (tool, recent, " in str(caught.value)
    assert "on_overflow='relax'" in str(caught.value)


# --- a stash that fails ---


class FullStash(MemoryStash):
    """Stores nothing."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:  # noqa: ARG002
        raise StashError("the disk is full")


@pytest.mark.parametrize("on_overflow", ["relax", "raise"])
def test_the_error_names_the_stash_if_nothing_could_be_removed_because_it_failed(
    on_overflow: str,
) -> None:
    old = [each for number in range(9) for each in (user(text(400)), model(text(400)))]
    session = filled(4_000, *old, user("on"), stash=FullStash(), on_overflow=on_overflow)
    session.set_gc_plugin(OldestFirst())
    before = session.history

    with pytest.raises(ContextFloorError) as raised:
        session.before_send()

    assert "StashError: the disk is full" in str(raised.value)
    assert "larger window" not in str(raised.value)
    assert "session.replace" not in str(raised.value)
    assert not raised.value.result.success
    assert session.history == before


def test_a_plan_of_core_that_breaks_a_rule_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(outcome: Outcome) -> Iterator[Violation]:
        if outcome.edits:
            yield Violation("no_change", None, "nothing may change")

    monkeypatch.setattr("jaato_gc.collecting.outcome.OUTCOME_INVARIANTS", (refuse,))
    calls = [message for n in range(9) for message in call(n, 300)]
    session = filled(2_000, user("go"), *calls)
    session.set_gc_plugin(OldestFirst())
    before = session.history

    with pytest.raises(ContextFloorError, match="nothing may change"):
        session.before_send()

    assert session.history == before
    assert "core's own plan breaks a rule" in caplog.text
