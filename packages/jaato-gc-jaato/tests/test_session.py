"""Our strategies in a real session of jaato-server. Only the model is replaced."""

import re
from typing import Any

import pytest
from jaato_host import (
    STRATEGIES,
    VERSION,
    Model,
    a_file,
    call,
    conversation,
    gc,
    invariant,
    model,
    new_session,
    recounted,
    result,
    use,
    user,
)

OPTIONS: dict[str, dict[str, Any]] = {
    "gc_jg_summarize": {"extractive": True, "summary_tokens": 200},
    "gc_jg_hybrid": {"extractive": True, "summarize_middle_turns": 2},
}
LAST_UNIT = {"gc_jg_hybrid": 0.12}
"""The share of the window that the last removal may take: for gc_jg_hybrid the whole middle."""
ONE_TURN = 0.06
"""The share of the window that a turn of `conversation` takes, with room for a summary."""


def full_session(turns: int = 30) -> Any:
    """Returns a session whose history takes 95 % of the window."""
    history = conversation(turns)
    sizing = new_session(Model(1_000_000), history)
    return new_session(Model(int(recounted(sizing) / 0.95)), history)


def total(session: Any) -> int:
    tokens: int = session._instruction_budget.total_tokens()
    return tokens


def assert_lands_at_target(session: Any, collected: Any) -> None:
    """The history and the budget fell together, to the target and not far below it."""
    window = session._instruction_budget.context_limit
    assert collected.success, collected.error
    assert collected.tokens_freed > 0
    assert collected.details["outcome"] == "reached"
    assert total(session) == collected.tokens_after
    last_unit = LAST_UNIT.get(collected.plugin_name, ONE_TURN)
    assert (0.60 - last_unit) * window <= total(session) <= 0.60 * window
    assert recounted(session) == pytest.approx(collected.tokens_after, abs=0.01 * window)
    assert invariant.validate_history(session.get_history()) == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_manual_collection_lands_at_the_target(name: str) -> None:
    session = full_session()
    use(session, name, OPTIONS.get(name))

    collected = session.manual_gc()

    assert collected.plugin_name == name
    assert collected.trigger_reason is gc.GCTriggerReason.MANUAL
    assert_lands_at_target(session, collected)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_collection_before_a_request_lands_at_the_target(name: str) -> None:
    session = full_session()
    use(session, name, OPTIONS.get(name))

    collected = session._maybe_collect_before_send()

    assert collected.trigger_reason is gc.GCTriggerReason.THRESHOLD
    assert_lands_at_target(session, collected)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_collection_after_a_turn_lands_at_the_target(name: str) -> None:
    session = full_session()
    use(session, name, OPTIONS.get(name), check_before_send=False)
    session._provider.reported_tokens = total(session)

    session.send_message("And now?", on_output=lambda *_: None)

    [collected] = session.get_gc_history()
    assert_lands_at_target(session, collected)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_request_goes_out_with_the_collected_history(name: str) -> None:
    session = full_session()
    use(session, name, OPTIONS.get(name))
    before = session.get_history()

    session.send_message("And now?", on_output=lambda *_: None)

    [request] = session._provider.requests
    assert len(request) < len(before)
    assert request[-1].text == "And now?"
    assert invariant.validate_history(request) == []
    assert [each.success for each in session.get_gc_history()] == [True]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_refused_request_is_collected_below_the_target(name: str) -> None:
    session = full_session()
    use(session, name, OPTIONS.get(name))

    assert session._try_gc_for_context_recovery(None)

    [collected] = session.get_gc_history()
    assert collected.trigger_reason is gc.GCTriggerReason.CONTEXT_LIMIT
    assert total(session) <= 0.60 * session._instruction_budget.context_limit


@pytest.mark.parametrize("name", STRATEGIES)
def test_messages_that_stay_are_the_very_same_objects(name: str) -> None:
    session = full_session()
    use(session, name, OPTIONS.get(name))
    before = {id(message): message for message in session.get_history()}
    texts = {message.text for message in before.values() if message.text}

    session.manual_gc()

    new = [each for each in session.get_history() if id(each) not in before]
    assert all(each.text is None or each.text not in texts for each in new)
    assert len(new) < 5


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_session_that_goes_on_for_long_stays_within_its_window(name: str) -> None:
    session = new_session(Model(6_000))
    use(session, name, OPTIONS.get(name))

    for turn in range(120):
        session.send_message(f"Request {turn}: {a_file(turn, 12)}", on_output=lambda *_: None)
        assert recounted(session) < 6_000

    results = session.get_gc_history()
    assert len(results) > 2
    assert all(each.success for each in results)
    # A collection has an effect that lasts for some turns.
    assert len(results) < 40


@pytest.mark.parametrize("name", STRATEGIES)
def test_one_turn_of_many_calls_stays_within_the_window(name: str) -> None:
    session = new_session(Model(6_000))
    session._executor.register("look", lambda args: {"content": a_file(args["number"], 20)})
    session._provider.steps = 60
    use(session, name, OPTIONS.get(name))

    session.send_message("Look at everything.", on_output=lambda *_: None)

    requests = session._provider.requests
    assert len(requests) == 61
    assert [request for request in requests if invariant.validate_history(request)] == []
    assert len(session.get_gc_history()) > 2
    for collected in session.get_gc_history():
        assert collected.details["outcome"] == "reached"
        # A step takes 6 % of this window, and summaries replace several.
        assert 0.38 * 6_000 < collected.tokens_after <= 0.6 * 6_000
    if name in ("gc_jg_budget", "gc_jg_marksweep", "gc_jg_hybrid"):
        assert any("<context-ledger>" in (each.text or "") for each in session.get_history())


def test_a_second_collection_finds_what_the_first_one_wrote() -> None:
    session = full_session()
    use(session, "gc_jg_summarize", OPTIONS["gc_jg_summarize"])
    first = session.manual_gc()
    session._gc_config.target_percent = 40.0

    second = session.manual_gc()

    assert second.success
    assert second.tokens_before == first.tokens_after
    assert total(session) == second.tokens_after
    window = session._instruction_budget.context_limit
    assert recounted(session) == pytest.approx(second.tokens_after, abs=0.01 * window)


def test_the_ledger_keeps_what_earlier_collections_listed() -> None:
    session = full_session()
    use(session, "gc_jg_budget", {"ledger_percent": 20.0})
    session.manual_gc()
    first = files_in_ledger(session)
    session._update_conversation_budget()
    session._gc_config.target_percent = 40.0

    session.manual_gc()

    assert "src/file_1.py" in first
    assert first < files_in_ledger(session)


def files_in_ledger(session: Any) -> set[str]:
    """Returns the files that the only ledger of a history lists."""
    [text] = [
        each.text for each in session.get_history() if "<context-ledger>" in (each.text or "")
    ]
    return set(re.findall(r"src/\w+\.py", text))


def test_a_summary_outlives_the_turns_that_came_after_it() -> None:
    session = full_session()
    use(session, "gc_jg_summarize", OPTIONS["gc_jg_summarize"])
    session.manual_gc()
    session.reset_session([*session.get_history(), *conversation(12)])
    session._update_conversation_budget()
    use(session, "gc_jg_budget")  # knows nothing of what was written before

    session.manual_gc()

    assert any("<context-summary>" in (each.text or "") for each in session.get_history())


def test_long_results_are_shortened_in_copies_of_their_messages() -> None:
    history = [user("Start."), *conversation(2, lines=700), *conversation(6, lines=5)]
    sizing = new_session(Model(1_000_000), history)
    session = new_session(Model(int(recounted(sizing) / 0.85)), history)
    use(session, "gc_jg_budget", {"max_result_tokens": 500}, target_percent=70.0)
    before = {id(message) for message in session.get_history()}

    collected = session.manual_gc()

    changed = [each for each in session.get_history() if id(each) not in before]
    answers = [part.function_response for each in changed for part in each.parts]
    assert [answer.name for answer in answers if answer] == ["readFile"] * len(changed)
    assert all("characters cleared" in answer.result for answer in answers)
    assert recounted(session) == pytest.approx(collected.tokens_after, rel=0.02)


def test_a_shortened_message_is_counted_again_at_the_next_turn() -> None:
    """jaato-server before 1.0 counts the tokens of a message once, by its id."""
    history = [user("Start."), *conversation(2, lines=700), *conversation(6, lines=5)]
    session = new_session(Model(20_000), history)
    use(session, "gc_jg_budget", {"max_result_tokens": 500}, target_percent=30.0)
    full = recounted(session)

    session.manual_gc()

    assert recounted(session) < 0.5 * full


def test_figures_of_jaato_server_decide_even_if_ours_differ() -> None:
    """Versions before 1.0 do not count arguments of calls: removing them frees nothing."""
    history = [user("Start.")]
    for turn in range(40):
        history += [
            user(f"Request {turn}: {a_file(turn, 10)}"),
            call(f"call-{turn}", "writeFile", path=f"src/{turn}.py", content=a_file(turn, 40)),
            result(f"call-{turn}", "written", "writeFile"),
            model(f"Answer {turn}: done."),
        ]
    sizing = new_session(Model(1_000_000), history)
    session = new_session(Model(int(recounted(sizing) / 0.95)), history)
    use(session, "gc_jg_truncate")

    collected = session.manual_gc()

    assert_lands_at_target(session, collected)


@pytest.mark.skipif(VERSION.startswith("0."), reason="versions before 1.0 ignore what is reported")
def test_a_collection_follows_what_the_provider_reported_and_what_the_answer_reserves() -> None:
    history = conversation(30)
    sizing = new_session(Model(1_000_000), history)
    session = new_session(Model(int(recounted(sizing) / 0.5)), history)
    session._provider.get_max_output_tokens = lambda: session._provider.context_limit // 5
    use(session, "gc_jg_truncate", check_before_send=False)
    session._provider.reported_tokens = int(total(session) * 1.4)

    session.send_message("And now?", on_output=lambda *_: None)

    [collected] = session.get_gc_history()
    assert collected.success
    assert 60 - 100 * ONE_TURN <= session._instruction_budget.utilization_percent() <= 60.0


def test_the_first_request_stays() -> None:
    session = full_session()
    use(session, "gc_jg_truncate", target_percent=5.0)
    first = session.get_history()[0]

    session.manual_gc()

    assert session.get_history()[0] is first


def test_enrichment_is_removed_and_tool_schemas_stay() -> None:
    session = full_session()
    budget = session._instruction_budget
    source = type(next(iter(budget.entries)))
    budget.update_tokens(source.ENRICHMENT, 500)
    budget.get_entry(source.PLUGIN).children.clear()
    child = next(iter(budget.get_entry(source.CONVERSATION).children.values()))
    policy = type(child.gc_policy).EPHEMERAL
    budget.add_child(source.PLUGIN, "a_tool", 800, policy)
    use(session, "gc_jg_budget")

    collected = session.manual_gc()

    assert budget.get_entry(source.ENRICHMENT).total_tokens() == 0
    assert budget.get_entry(source.PLUGIN).total_tokens() == 800
    assert total(session) == collected.tokens_after


def test_nothing_is_removed_below_the_threshold() -> None:
    session = new_session(Model(1_000_000), conversation(5))
    use(session, "gc_jg_budget")

    assert session._maybe_collect_before_send() is None


def test_a_notice_tells_the_model_once() -> None:
    session = full_session()
    use(session, "gc_jg_truncate", {"notify_on_gc": True})

    collected = session.manual_gc()
    session._gc_config.target_percent = 40.0
    session.manual_gc()

    notices = [each for each in session.get_history() if "<context-notice>" in (each.text or "")]
    assert len(notices) == 1
    assert collected.notification in notices[0].text
