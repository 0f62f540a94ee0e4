"""Fitting: what core removes itself, so that only fixed content can make a request not fit."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    Confidence,
    ContextFloorError,
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    UndoError,
    check_history,
    count_tokens,
)
from jaato_gc.plugin import Collection, lay_out
from jaato_gc_testing import (
    COUNTER,
    LONG_TEXT,
    MemoryStash,
    NoGCPlugin,
    OldestFirst,
    ScriptedPlugin,
    ScriptedStrategy,
    assert_in_step,
    histories,
    message_ids,
    new_session,
    speak,
)

PARTIAL, PRESERVABLE, LOCKED = GCPolicy.PARTIAL, GCPolicy.PRESERVABLE, GCPolicy.LOCKED


class WordCounter:
    """Counts words, exactly."""

    name = "words"
    confidence = Confidence.EXACT
    tolerance = 0.0

    def count_text(self, text: str) -> int:
        return len(text.split())


WORDS = WordCounter()


def said(message_id: str, words: int = 10, **fields: Any) -> Message:
    role = {"s": Role.SYSTEM, "u": Role.USER}.get(message_id[0], Role.MODEL)
    fields.setdefault("policy", PARTIAL if role is Role.USER else None)
    return Message.from_text(role, "word " * words, message_id=message_id, **fields)


def called(name: str, words: int = 10, **fields: Any) -> list[Message]:
    call = Message(Role.MODEL, [Part(function_call=FunctionCall(name, "look"))], f"c{name}")
    result = Part(function_response=ToolResult(name, "look", "word " * words))
    return [call, Message(Role.TOOL, [result], f"r{name}", **fields)]


def session_of(
    history: Sequence[Message],
    window: int,
    plugin: GCPlugin | None = None,
    config: GCConfig | None = None,
    **options: Any,
) -> GCSession:
    options = {"counter": WORDS} | options
    session = new_session(
        plugin or NoGCPlugin(),
        config or GCConfig(preserve_recent_turns=2, preserve_recent_groups=1),
        context_limit=window,
        **options,
    )
    for message in history:
        session.append(message)
    return session


def reasons(session: GCSession) -> dict[str, str]:
    """Returns the reason of each message that a collection removed or shortened."""
    return {
        message_id: item.reason
        for result in session.get_gc_history()
        for item in result.removal_list
        for message_id in item.message_ids
    }


def order_of_removal(
    history: Sequence[Message], **options: Any
) -> tuple[list[tuple[str, set[str]]], int]:
    """Returns what goes at each smaller window, with its reason, and the smallest window."""
    order: list[tuple[str, set[str]]] = []
    gone: set[str] = set()
    window = count_tokens(history, WORDS)
    while True:
        session = session_of(history, window, **options)
        try:
            request = session.before_send()
        except ContextFloorError:
            assert session.history == list(history)
            return order, window + 1
        assert check_history(list(request)) == []
        assert_in_step(session)
        assert session.budget.total_tokens() <= window
        more = {each.message_id for each in history} - set(message_ids(session))
        assert gone <= more, "a smaller window keeps what a larger one removes"
        if more > gone:
            reason = {reasons(session)[each] for each in more - gone}
            assert len(reason) == 1
            order.append((reason.pop(), more - gone))
        gone, window = more, window - 1


# --- the steps ---

PROMPT = said("s", 1_000)
"""A long system prompt, so that the window is large and two turns are recent at any step."""

HISTORY = [
    said("s", 3),
    *(said("u0"), *called("0", 5), said("a0")),
    *(said("u1"), said("p1", policy=PRESERVABLE), said("a1")),
    *(said("u2"), *called("2"), said("a2")),
    *(said("u3"), *called("3"), said("a3"), *called("4")),
]
"""Two old turns, of which p1 is PRESERVABLE, and two recent ones; the last call is 4."""


def test_what_matters_least_goes_first_and_fixed_content_stays() -> None:
    order, smallest = order_of_removal([PROMPT, *HISTORY[1:]])

    assert order == [
        ("fit_old", {"u0", "c0", "r0", "a0"}),
        ("fit_old", {"a1"}),
        ("fit_calls", {"c2", "r2"}),
        ("fit_calls", {"c3", "r3"}),
        ("fit_messages", {"a2"}),
        ("fit_messages", {"u2"}),
        ("fit_preservable", {"p1"}),
        ("fit_messages", {"u1"}),  # until then the history would have begun with p1
        ("fit_newest_turn", {"a3"}),
        ("fit_last_calls", {"c4", "r4"}),
    ]
    fixed = [PROMPT, *(message for message in HISTORY if message.message_id == "u3")]
    assert smallest == count_tokens(fixed, WORDS)


def test_the_last_calls_go_last_and_the_newest_of_them_last() -> None:
    history = [PROMPT, said("u0"), *called("0"), *called("1"), said("u1"), *called("2"), said("a1")]

    order, _ = order_of_removal(history, config=GCConfig(preserve_recent_groups=2))

    assert order == [
        ("fit_calls", {"c0", "r0"}),
        ("fit_newest_turn", {"a1"}),
        ("fit_last_calls", {"c1", "r1"}),
        ("fit_messages", {"u0"}),  # until then the history would have begun with c1
        ("fit_last_calls", {"c2", "r2"}),
    ]


def test_locked_pinned_and_open_groups_stay_with_the_request_before_the_first() -> None:
    locked = called("1", policy=LOCKED)
    history = [said("u0"), said("a0"), said("u1"), *locked, said("a1"), said("u2"), said("a2")]

    order, smallest = order_of_removal(history)

    assert {each for _, ids in order for each in ids} == {"u0", "a0", "a1", "a2"}
    fixed = [each for each in history if each.message_id in ("u1", "c1", "r1", "u2")]
    assert smallest == count_tokens(fixed, WORDS)


def test_a_pinned_answer_keeps_its_request_only_if_nothing_precedes_it() -> None:
    history = [said("u0", policy=LOCKED), said("u1"), said("a1"), said("u2"), said("a2")]
    session = session_of(history, count_tokens([history[0], *history[2:4]], WORDS))
    session.pin("a1")

    session.before_send()

    assert message_ids(session) == ["u0", "a1", "u2"]


def test_a_summary_that_covers_an_open_beginning_goes_only_with_it() -> None:
    summary = said("u", 10, synthetic=SyntheticKind.SUMMARY, policy=PRESERVABLE)
    history = [summary, said("u0"), *called("0", policy=LOCKED), said("u1"), said("a1")]

    order, smallest = order_of_removal(history)

    assert ("fit_preservable", {"u"}) in order
    assert smallest == count_tokens([*history[1:4], history[4]], WORDS)


@pytest.mark.parametrize("continuous", [True, False])
def test_preservable_content_goes_without_pressure_if_nothing_else_is_left(
    continuous: bool,
) -> None:
    history = [said("u0", policy=PRESERVABLE), said("a0", policy=PRESERVABLE), said("u1")]
    config = GCConfig(pressure_percent=0.0 if continuous else 90.0)
    assert config.continuous_mode is continuous
    session = session_of(history, 20, config=config)

    session.before_send()

    assert message_ids(session) == ["u1"]
    assert set(reasons(session).values()) == {"fit_preservable"}


def test_an_old_turn_goes_whole() -> None:
    history = [said("u0", 50), said("a0", 50), said("u1"), said("a1")]
    config = GCConfig(preserve_recent_turns=1)
    session = session_of(history, count_tokens(history, WORDS) - 1, config=config)

    session.before_send()

    assert message_ids(session) == ["u1", "a1"]


def test_a_strategy_s_own_holds_count_in_no_step() -> None:
    def hold_all(collection: Collection) -> None:
        for group in collection.groups:
            collection.hold(group)

    session = session_of(HISTORY, 40, ScriptedStrategy(hold_all))

    session.before_send()

    assert session.budget.total_tokens() <= 40


def test_the_strategy_comes_first_and_core_adds_what_is_missing() -> None:
    def take_one(collection: Collection) -> None:
        collection.remove(collection.turns[0].groups, "turn_0", "mine")

    history = [PROMPT, *HISTORY[1:]]
    old = ("u0", "c0", "r0", "a0", "a1")
    recent = count_tokens([each for each in history if each.message_id not in old], WORDS)
    session = session_of(history, recent - 1, ScriptedStrategy(take_one), auto_less())
    before, budget = session.history, session.budget.snapshot()

    session.before_send()

    (result,) = session.get_gc_history()
    assert result.plugin_name == "gc_scripted"
    assert {reasons(session)[each] for each in ("u0", "c0", "r0", "a0")} == {"mine"}
    assert {item.reason for item in result.removal_list} == {"mine", "fit_old", "fit_calls"}
    assert result.details["relaxed"] == ["old", "calls"]
    assert result.tokens_after == session.budget.total_tokens()
    assert sum(item.tokens_freed for item in result.removal_list) == result.tokens_freed
    session.undo()  # one plan, so one undo
    assert session.history == before
    assert session.budget.snapshot() == budget
    with pytest.raises(UndoError):
        session.undo()


def auto_less(**settings: Any) -> GCConfig:
    """Returns a configuration with collections only for requests that do not fit."""
    defaults = {"auto_trigger": False, "preserve_recent_turns": 2, "preserve_recent_groups": 1}
    return GCConfig(**(defaults | settings))


def test_nothing_is_relaxed_if_the_strategy_frees_enough() -> None:
    config = auto_less(preserve_recent_turns=1)
    session = session_of(HISTORY, count_tokens(HISTORY, WORDS) - 1, OldestFirst(), config)

    session.before_send()

    (result,) = session.get_gc_history()
    assert "relaxed" not in result.details
    assert {item.reason for item in result.removal_list} == {"oldest"}


def test_the_derived_collect_fits_too() -> None:
    session = session_of(HISTORY, 60)

    after, result = OldestFirst().collect(
        [*session.history],
        session.get_context_usage(),
        session.config,
        GCTriggerReason.CONTEXT_LIMIT,
        session.budget,
    )

    assert count_tokens(after, WORDS) <= 60
    assert check_history(after) == []
    assert result.details["relaxed"]


def test_a_collection_below_the_target_fits_as_well() -> None:
    """A manual one protects whole turns, but a request has to fit in any case."""
    history = [said("u0"), *called("0", 200), *called("1", 200), said("a0")]
    window = int(count_tokens(history, COUNTER) / 0.96)
    config = GCConfig(preserve_recent_groups=1, target_percent=98, threshold_percent=99)
    session = session_of(history, window, OldestFirst(), config, counter=COUNTER)

    result = session.manual_gc()

    assert result.details["relaxed"] == ["calls"]
    assert message_ids(session) == ["u0", "c1", "r1", "a0"]


def test_a_collection_for_turns_fits_as_well() -> None:
    config = GCConfig(
        max_turns=1, preserve_recent_turns=1, preserve_recent_groups=1, threshold_percent=100
    )
    session = session_of(HISTORY, 60, OldestFirst(), config)

    result = session.apply(session.plan_gc(GCTriggerReason.TURN_LIMIT))

    assert result.tokens_after <= 60
    assert "calls" in result.details["relaxed"]


# --- the last calls: shortened before anything else of a recent turn goes ---


def big_call(name: str, words: int) -> list[Message]:
    """Returns a call with a result in lines."""
    lines = "\n".join(f"{name} line {number} of a listing" for number in range(words // 6))
    call = FunctionCall(name, "look", {"text": lines})
    answer = ToolResult(name, "look", lines)
    return [
        Message(Role.MODEL, [Part(function_call=call)], f"c{name}"),
        Message(Role.TOOL, [Part(function_response=answer)], f"r{name}"),
    ]


def shortened_by(session: GCSession, history: Sequence[Message]) -> set[str]:
    before = {message.message_id: message for message in history}
    return {each.message_id for each in session.history if before[each.message_id] != each}


def test_results_of_the_last_calls_are_shortened_before_recent_calls_go() -> None:
    others = [message for n in range(9) for message in big_call(f"{n}", 900)]
    history = [said("u0", 500), *others, *big_call("9", 6_000), said("a0", 400)]
    total = count_tokens(history, COUNTER)
    config = auto_less(preserve_recent_groups=1)
    window = math.ceil(total * (1 + COUNTER.tolerance)) - 5
    session = session_of(history, window, None, config, counter=COUNTER)

    session.before_send()

    assert message_ids(session) == [message.message_id for message in history]
    (result,) = session.get_gc_history()
    assert result.details["relaxed"] == ["long_results"]
    assert len(shortened_by(session, history)) == 1, "one is enough"
    assert shortened_by(session, history) < {"c9", "r9"}
    assert set(reasons(session).values()) == {"fit_long"}
    session.undo()
    assert session.history == history


def test_a_result_that_the_model_has_not_answered_yet_is_shortened_last() -> None:
    others = [message for n in range(9) for message in big_call(f"{n}", 900)]
    history = [said("u0", 500), *others, *big_call("x", 3_000), *big_call("y", 6_000)]
    total = count_tokens(history, COUNTER)
    config = auto_less(preserve_recent_groups=2)
    window = math.ceil(total * (1 + COUNTER.tolerance)) - 5
    session = session_of(history, window, None, config, counter=COUNTER)

    session.before_send()

    assert shortened_by(session, history) <= {"cx", "rx"}
    assert shortened_by(session, history)


def test_a_shortened_result_keeps_head_and_tail_and_says_why() -> None:
    history = [said("u0", 20), *big_call("0", 6_000)]
    session = session_of(history, 1_500, None, auto_less(), counter=COUNTER, stash=MemoryStash())

    session.before_send()

    text = session.history[-1].function_responses[0].result
    assert isinstance(text, str)
    assert text.startswith("0 line 0 of a listing\n")
    assert text.endswith("\n0 line 999 of a listing")
    assert "to fit the window; read it in parts; recall key" in text


def test_signed_arguments_are_never_shortened() -> None:
    call = FunctionCall("0", "write", {"text": "word " * 3_000})
    signed = Part(function_call=call, extra={"signature": "c2ln"})
    history = [said("u0"), Message(Role.MODEL, [signed], "c0"), *called("0", 5)[1:]]
    session = session_of(history, 1_000, None, auto_less())

    session.before_send()

    assert message_ids(session) == ["u0"]


def test_a_result_that_can_not_fit_does_not_cost_the_rest_of_the_history() -> None:
    """It has to be shortened in any case, so that happens before the strategy is asked."""
    history = [
        *(each for turn in range(4) for each in (said(f"u{turn}", 20), said(f"a{turn}", 20))),
        *(said("u4", 20), *big_call("4", 30_000)),
    ]
    session = session_of(history, 4_000, OldestFirst(), GCConfig(), counter=COUNTER)

    session.before_send()

    assert message_ids(session) == [message.message_id for message in history]
    assert shortened_by(session, history) == {"c4", "r4"}
    assert session.get_gc_history()[-1].details["relaxed"] == ["long_results"]


# --- content that core can not remove ---


def test_an_error_names_the_largest_fixed_messages_and_adds_up() -> None:
    history = [said("s", 40), *(said(f"u{each}", 10 * each, policy=LOCKED) for each in range(1, 8))]
    session = session_of(history, 100)
    session.budget.add_child(InstructionSource.PLUGIN, "schemas", 17, LOCKED)
    before = {**json.loads(session.save()), "threshold_told": True}

    with pytest.raises(ContextFloorError) as caught:
        session.before_send()

    total = session.budget.total_tokens()
    text = str(caught.value)
    assert (
        f"up to {total} tokens and only 100 fit. Fixed are {total}: 'u7' (user, locked, 7" in text
    )
    assert text.count("locked") == 5
    assert "3 more (" in text
    assert "plugin (17)" in text
    assert "Call session.replace('u7', a shorter message, force=True), or use" in text
    assert sum(caught.value.floor.values()) == total
    assert json.loads(session.save()) == before, "nothing was applied or tried"


def test_an_error_about_a_pinned_message_says_how_to_unpin_it() -> None:
    session = session_of([said("u0", 200), said("a0", 5), said("u1", 5)], 100)
    session.pin("u0")

    with pytest.raises(ContextFloorError, match=r"Call session\.unpin\('u0'\)"):
        session.before_send()
    session.unpin("u0")
    session.before_send()

    assert message_ids(session) == ["u1"] or message_ids(session) == ["a0", "u1"]
    assert check_history(session.history) == []


def test_an_error_names_what_is_not_in_the_history() -> None:
    session = session_of([said("u0", 5)], 100)
    session.budget.add_child(InstructionSource.PLUGIN, "schemas", 200, LOCKED)

    with pytest.raises(ContextFloorError, match=r"plugin \(200\).*shorten the system prompt"):
        session.before_send()


def test_a_strategy_is_not_asked_if_what_is_fixed_does_not_fit() -> None:
    def fail(_collection: Collection) -> None:
        pytest.fail("the strategy was asked")

    session = session_of([said("u0", 5), said("u1", 200)], 100, ScriptedStrategy(fail))

    with pytest.raises(ContextFloorError):
        session.before_send()
    assert not session.recover_from_refusal()
    assert session.manual_gc().details == {"fits": False}
    assert message_ids(session) == ["u0", "u1"]


def test_without_a_strategy_nothing_is_removed() -> None:
    session = new_session(context_limit=100, counter=WORDS)
    for message in HISTORY:
        session.append(message)

    with pytest.raises(ContextFloorError, match="set_gc_plugin"):
        session.before_send()
    assert session.history == HISTORY


# --- strategies that fail, and what they insert ---


def raises(_collection: Collection) -> None:
    raise RuntimeError("out of order")


def takes_and_raises(collection: Collection) -> None:
    collection.remove(collection.turns[2].groups, "turn_2", "mine")
    raise RuntimeError("out of order")


def grows(collection: Collection) -> None:
    """Makes room by removing a turn, and uses more than that for a summary."""
    collection.remove(collection.turns[0].groups, "turn_0", "mine")
    text = "word " * 500
    collection.insert(
        Message.from_text(Role.USER, text, message_id="mine", synthetic=SyntheticKind.SUMMARY), 1
    )


@pytest.mark.parametrize(
    ("plugin", "error"),
    [
        (ScriptedStrategy(raises), "out of order"),
        (ScriptedStrategy(takes_and_raises), "out of order"),
        (ScriptedStrategy(grows), "never_larger"),
        (ScriptedPlugin(lambda history: (history[::-1], None)), "result"),
        (ScriptedPlugin(lambda _: None), "expected"),
    ],
)
def test_core_makes_a_request_fit_alone_if_the_strategy_fails(plugin: GCPlugin, error: str) -> None:
    session = session_of(HISTORY, 90, plugin, auto_less())
    alone = session_of(HISTORY, 90, NoGCPlugin(), auto_less())

    session.before_send()
    alone.before_send()

    (result,) = session.get_gc_history()
    assert result.success
    assert result.plugin_name == "core"
    assert error in result.details["strategy_error"]
    assert session.history == alone.history
    assert_in_step(session)
    session.undo()
    assert session.history == HISTORY


def test_a_strategy_that_fails_changes_nothing_if_the_request_fits() -> None:
    session = session_of(HISTORY, 10_000, ScriptedStrategy(takes_and_raises))

    result = session.manual_gc()

    assert result.outcome is GCOutcome.FAILED
    assert result.plugin_name == "gc_scripted"
    assert session.history == HISTORY


def test_a_strategy_that_makes_a_history_larger_is_rejected_and_nothing_goes_for_it() -> None:
    session = session_of(HISTORY, 10_000, ScriptedStrategy(grows))

    result = session.manual_gc()

    assert result.outcome is GCOutcome.REJECTED
    assert "never_larger" in (result.error or "")
    assert session.history == HISTORY


def test_what_a_strategy_inserts_does_not_make_a_request_fail() -> None:
    def summarize(collection: Collection) -> None:
        collection.remove(collection.turns[0].groups, "turn_0", "mine", "summarize")
        text = "word " * 20
        collection.insert(
            Message.from_text(Role.USER, text, message_id="mine", synthetic=SyntheticKind.SUMMARY),
            0,
        )

    history = [said("u0", 30), said("a0", 30), said("u1", 30), said("a1", 30)]
    config = auto_less(preserve_recent_turns=1)
    fixed = count_tokens([said("u1", 30)], WORDS)
    roomy = session_of(history, fixed + 40, ScriptedStrategy(summarize), config)
    roomy.before_send()
    assert message_ids(roomy) == ["mine", "u1"]
    tight = session_of(history, fixed, ScriptedStrategy(summarize), config)
    tight.before_send()
    assert message_ids(tight) == ["u1"]


def test_an_old_notice_is_the_last_to_go() -> None:
    notice = Message.from_text(
        Role.USER, "word " * 10, message_id="gc_notice", synthetic=SyntheticKind.NOTICE
    )
    history = [said("u0"), notice, said("a0"), said("u1"), *called("1")]

    order, smallest = order_of_removal(history)

    assert order[-1][1] == {"gc_notice"}
    assert smallest == count_tokens([said("u1")], WORDS)


def test_a_notice_is_left_out_if_the_request_would_not_fit_with_it() -> None:
    for window in range(60, 130):
        plugin = OldestFirst()
        plugin.initialize({"notify_on_gc": True})
        session = session_of(HISTORY, window, plugin, auto_less())
        session.before_send()
        assert session.budget.total_tokens() <= window


@pytest.mark.parametrize("name", ["open", "close", "force", "force_shorter", "adopt"])
def test_a_strategy_has_no_method_that_ignores_protection(name: str) -> None:
    def ignore_protection(collection: Collection) -> None:
        for group in collection.groups:
            getattr(collection, name)(group, "mine")

    session = session_of(HISTORY, 10_000, ScriptedStrategy(ignore_protection))
    assert not session.manual_gc().success
    assert session.history == HISTORY


def test_a_strategy_that_reaches_behind_its_collection_can_not_force_anything_out() -> None:
    def force(collection: Collection) -> None:
        for group in collection.groups:
            collection._draft.force(group, "mine")

    session = session_of(HISTORY, 10_000, ScriptedStrategy(force))
    result = session.manual_gc()
    assert "only core" in (result.error or "")
    assert session.history == HISTORY


# --- on_overflow ---


def test_raise_removes_nothing_from_recent_turns() -> None:
    total = count_tokens(HISTORY, WORDS)
    config = auto_less()
    session = session_of(HISTORY, total - 40, None, config, on_overflow="raise")
    session.before_send()
    assert set(reasons(session).values()) == {"fit_old"}

    session = session_of(HISTORY, 60, None, config, on_overflow="raise")
    with pytest.raises(ContextFloorError):
        session.before_send()
    assert session.history == HISTORY
    assert session.get_gc_history()[-1].details["fits"] is False


def test_raise_shortens_none_of_the_last_results() -> None:
    history = [said("u0", 20), *big_call("0", 6_000)]
    session = session_of(history, 1_500, None, auto_less(), counter=COUNTER, on_overflow="raise")

    with pytest.raises(ContextFloorError):
        session.before_send()
    assert session.history == history


def test_send_makes_a_request_fit_if_that_is_possible() -> None:
    session = session_of(HISTORY, 60, None, auto_less(), on_overflow="send")
    session.before_send()
    assert session.budget.total_tokens() <= 60


def test_send_sends_an_unchanged_history_if_it_can_not_fit_and_says_so() -> None:
    session = session_of(HISTORY, 10, None, auto_less(), on_overflow="send")

    assert session.before_send() == HISTORY

    (result,) = session.get_gc_history()
    assert result.details["fits"] is False
    assert result.outcome is GCOutcome.NO_GAIN
    assert result.removal_list == []


def test_another_value_of_on_overflow_is_refused() -> None:
    with pytest.raises(GCConfigError, match=r"on_overflow='drop'.*'relax', 'raise', 'send'"):
        new_session(on_overflow="drop")  # type: ignore[arg-type]


# --- figures of the provider ---


def test_usage_that_the_provider_reported_is_certain() -> None:
    session = new_session(NoGCPlugin(), GCConfig(), context_limit=1_000)
    speak(session, 0, 1, 2, 3)
    before = message_ids(session)
    session.before_send()
    session.report_usage(990)

    session.after_turn()
    session.before_send()

    assert message_ids(session) == before


def test_what_was_appended_since_a_report_is_not_certain() -> None:
    session = new_session(OldestFirst(), GCConfig(), context_limit=1_000)
    speak(session, 0, 1, 2, 3)
    session.before_send()
    session.report_usage(880)
    speak(session, 4)
    total = session.budget.total_tokens()
    assert (
        total
        < 1_000
        < total + math.ceil(COUNTER.tolerance * count_tokens(session.history, COUNTER))
    )

    session.before_send()

    bound = session.budget.upper_bound()
    assert bound <= 1_000


# --- any history ---


def take_a_turn(collection: Collection) -> None:
    for turn in collection.turns[1:2]:
        collection.remove(turn.groups, turn.key, "mine")


def list_all(collection: Collection) -> None:
    collection.leave_ledger()
    collection.drop_repeated_lines()
    collection.remove_oldest(collection.turns, "listed")


PLUGINS: dict[str, Callable[[], GCPlugin]] = {
    "nothing": NoGCPlugin,
    "oldest": OldestFirst,
    "one turn": lambda: ScriptedStrategy(take_a_turn),
    "ledger": lambda: ScriptedStrategy(list_all),
    "fails": lambda: ScriptedStrategy(raises),
    "grows": lambda: ScriptedStrategy(grows),
}


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    history=histories(min_turns=1),
    name=st.sampled_from(sorted(PLUGINS)),
    notify=st.booleans(),
    percent=st.integers(3, 120),
    turns=st.integers(0, 3),
    groups=st.integers(0, 3),
    target=st.sampled_from([5.0, 30.0, 60.0]),
    pin=st.integers(0, 40),
)
def test_a_request_fits_unless_fixed_content_alone_is_too_large(
    history: list[Message],
    name: str,
    notify: bool,
    percent: int,
    turns: int,
    groups: int,
    target: float,
    pin: int,
) -> None:
    plugin = PLUGINS[name]()
    if notify and name != "nothing":
        plugin.initialize({"notify_on_gc": True})
    config = GCConfig(
        preserve_recent_turns=turns, preserve_recent_groups=groups, target_percent=target
    )
    window = max(1, count_tokens(history, COUNTER) * percent // 100)
    session = new_session(plugin, config, context_limit=window)
    for message in history:
        session.append(message)
    if any(group.is_open for group in lay_out(history).groups):
        return
    if pin < len(history):
        session.pin(history[pin].message_id)
    fixed = fixed_tokens(session)
    try:
        request = session.before_send()
    except ContextFloorError:
        assert fixed > window
        assert session.history == history
        return
    assert fixed <= window
    total = session.budget.total_tokens()
    if fixed + math.ceil(fixed * COUNTER.tolerance) <= window:
        assert total + math.ceil(total * COUNTER.tolerance) <= window
    assert total <= window
    assert check_history(list(request)) == []
    assert_in_step(session)
    while session.history != history:
        session.undo()
        assert_in_step(session)


def fixed_tokens(session: GCSession) -> int:
    """Returns the tokens of LOCKED, pinned and system messages, and of the newest user message."""
    groups = lay_out(session.history).groups
    budget = session.budget
    newest = max(at for at, group in enumerate(groups) if group.opens_turn)
    fixed: set[int] = {newest}
    for at, group in enumerate(groups):
        for message in group.messages:
            entry = budget.entry_of(message.message_id)
            assert entry is not None
            policy = message.policy or entry.binding_policy()
            is_prompt = message.role is Role.SYSTEM and group.is_outside_turns
            if is_prompt or policy is LOCKED or message.message_id in budget.pinned_message_ids:
                fixed.add(at)
    # What keeps its place holds what is beside it.
    beside = {message_id for at in fixed for message_id in groups[at].neighbours}
    for at, group in enumerate(groups):
        if any(message.message_id in beside for message in group.messages):
            fixed.add(at)
    first = min(at for at in fixed if groups[at].messages[0].role is not Role.SYSTEM)
    opening = groups[first].messages[0]
    if opening.role is not Role.USER or opening.is_tool_output:
        fixed.add(max(at for at in range(first) if groups[at].opens_turn))
    messages = [message for at in fixed for message in groups[at].messages]
    return count_tokens(messages, COUNTER)


def test_a_long_run_in_one_turn_never_ends() -> None:
    """One request, and a hundred steps in a window of ten."""
    session = new_session(OldestFirst(), GCConfig(), context_limit=1_500)
    session.append(Message.from_text(Role.USER, "Go on until it works.", message_id="u"))
    for step in range(100):
        call = FunctionCall(f"{step}", "run", {"step": step})
        session.append(Message(Role.MODEL, [Part(function_call=call)], f"c{step}"))
        result = ToolResult(f"{step}", "run", f"{step}: {LONG_TEXT * 2}")
        session.append(Message(Role.TOOL, [Part(function_response=result)], f"r{step}"))
        request = session.before_send()
        ids = [message.message_id for message in request]
        last = [f"{who}{each}" for each in range(max(0, step - 2), step + 1) for who in "cr"]
        assert ids[0] == "u"
        assert ids[-len(last) :] == last
    assert all("relaxed" not in result.details for result in session.get_gc_history())
