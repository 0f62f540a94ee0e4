"""The helpers for tests with sessions."""

import pytest

from jaato_gc import (
    GCConfig,
    GCOutcome,
    GCPolicy,
    GCResult,
    GCTriggerReason,
    InstructionSource,
    Message,
    check_history,
)
from jaato_gc_testing import (
    COUNTER,
    OldestFirst,
    ScriptedPlugin,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    speak,
    turn_messages,
)


def test_the_messages_of_a_turn_have_ids_with_its_number() -> None:
    messages = turn_messages(3, calls=2, text="hello")

    ids = [message.message_id for message in messages]
    assert ids == ["u3", "c3.0", "r3.0", "c3.1", "r3.1", "a3"]
    assert messages[0].text == "3 hello"
    assert check_history(messages) == []


def test_speak_appends_turns_in_the_given_order() -> None:
    session = new_session()

    speak(session, 5, 2, text="hello")
    speak(session, 7, calls=1)

    assert message_ids(session) == ["u5", "a5", "u2", "a2", "u7", "c7.0", "r7.0", "a7"]
    assert session.history[0].text == "5 hello"


def test_a_new_session_has_no_installed_plugins_and_uses_the_estimate() -> None:
    session = new_session()

    assert session.registry.plugins() == []
    assert session.budget.counter is COUNTER
    assert session.strategy is None


def test_a_new_session_takes_a_strategy_its_configuration_and_options() -> None:
    plugin = OldestFirst()

    session = new_session(plugin, GCConfig(preserve_recent_turns=1), context_limit=500)

    assert session.strategy is plugin
    assert session.config.preserve_recent_turns == 1
    assert session.budget.context_limit == 500


def test_oldest_first_removes_the_oldest_turns() -> None:
    session = new_session(OldestFirst(), GCConfig(preserve_recent_turns=1))
    speak(session, 0, 1, 2)

    result = session.manual_gc(target_percent=0)

    assert [item.reason for item in result.removal_list] == ["oldest", "oldest"]
    assert message_ids(session) == ["u0", "u2", "a2"]


def test_a_scripted_strategy_runs_its_function_on_the_collection() -> None:
    strategy = ScriptedStrategy(lambda each: each.remove(each.turns[1].groups, "mine", "scripted"))
    session = new_session(strategy, GCConfig(preserve_recent_turns=1))
    speak(session, 0, 1, 2)

    session.manual_gc()

    assert message_ids(session) == ["u0", "a0", "u2", "a2"]


def test_a_scripted_plugin_runs_its_function_on_the_history() -> None:
    def without_turn_1(history: list[Message]) -> tuple[list[Message], GCResult]:
        result = GCResult(True, 1, 0, 0, "gc_scripted_plugin", GCTriggerReason.MANUAL)
        return [each for each in history if each.message_id not in ("u1", "a1")], result

    plugin = ScriptedPlugin(without_turn_1)
    session = new_session(plugin, GCConfig(preserve_recent_turns=1))
    speak(session, 0, 1, 2)

    assert session.manual_gc().outcome is GCOutcome.REACHED
    assert message_ids(session) == ["u0", "a0", "u2", "a2"]
    assert plugin.calls == 1


def test_assert_in_step_accepts_tokens_that_belong_to_no_message() -> None:
    session = new_session()
    speak(session, 0, calls=1)
    session.budget.add_child(InstructionSource.PLUGIN, "schemas", 30, GCPolicy.LOCKED)

    assert_in_step(session)


def test_assert_in_step_fails_if_the_budget_has_other_tokens() -> None:
    session = new_session()
    speak(session, 0)
    entry = session.budget.entry_of("u0")
    assert entry is not None
    session.budget.update_tokens(entry.source, entry.tokens + 1, entry.key)

    with pytest.raises(AssertionError, match="the budget has"):
        assert_in_step(session)


def test_assert_in_step_fails_if_a_message_is_not_booked() -> None:
    session = new_session()
    speak(session, 0)
    session.budget.remove_messages({"u0": 1})

    with pytest.raises(AssertionError, match="u0"):
        assert_in_step(session)
