"""Long runs: no overflow, no invalid request, and no turn that costs more than the one before.

`DummyModel` refuses every request that a provider would refuse, so a run that ends had no fault.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from jaato_gc import (
    ContextFloorError,
    ContextUsage,
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCSession,
    GCTriggerReason,
    Message,
    Part,
    Role,
    SourceEntry,
    ToolResult,
    count_tokens,
)
from jaato_gc.plugin import Provider
from jaato_gc_testing import DummyModel, OldestFirst, count_operations, long_history, new_session

WINDOW = 8_000
# A few long results fill the window as well as many short ones, and the model, which looks through
# every request whole, has less to look at.
RESULT_WORDS = 400


def session_with(
    provider: Provider | None, config: GCConfig | None = None, *, context_limit: int = WINDOW
) -> GCSession:
    """Returns a session that keeps all of its collections, so that tests can look at each."""
    tools = provider.run_tool if isinstance(provider, DummyModel) else None
    return new_session(
        OldestFirst(),
        config,
        provider,
        tools=tools,
        context_limit=context_limit,
        keep_collections=10_000,
    )


def assert_budget_is_a_recount(session: GCSession) -> None:
    """Checks the total, which is cheap: every message remembers its tokens."""
    assert session.budget.counted_tokens() == count_tokens(session.history, session.budget.counter)


def assert_every_message_is_booked_once(session: GCSession) -> None:
    """Checks the budget entry by entry."""
    budget = session.budget
    booked: dict[str, int] = {}
    for source in budget.entries.values():
        for entry in source.walk():
            assert entry.key is None or budget.get_child(entry.source, entry.key) is entry
            for message_id in entry.message_ids:
                assert budget.entry_of(message_id) is entry
                booked[message_id] = booked.get(message_id, 0) + 1
            if entry.message_ids:
                own = [each for each in session.history if each.message_id in entry.message_ids]
                assert entry.tokens == count_tokens(own, budget.counter), entry
    assert booked == {message.message_id: 1 for message in session.history}


def run(
    session: GCSession,
    turns: int,
    text: str = "what does the file hold?",
    after_each: Callable[[int], None] | None = None,
) -> None:
    for number in range(turns):
        answer = session.send_message(f"Question {number}: {text}")
        assert answer.text
        assert_budget_is_a_recount(session)
        if number % 500 == 0:
            assert_every_message_is_booked_once(session)
        if after_each:
            after_each(number)


def reasons(session: GCSession) -> set[GCTriggerReason]:
    return {result.trigger_reason for result in session.get_gc_history()}


def assert_all_applied(session: GCSession) -> None:
    """Checks that no collection was rejected or failed."""
    assert all(result.success for result in session.get_gc_history())


# --- ten thousand turns ---


def test_ten_thousand_turns_in_threshold_mode() -> None:
    model = DummyModel(WINDOW, result_words=RESULT_WORDS)
    session = session_with(model)
    run(session, 10_000)
    assert_every_message_is_booked_once(session)
    assert_all_applied(session)
    assert model.requests > 15_000  # tool calls in between
    assert model.refusals == 0
    assert model.largest_request <= WINDOW
    assert reasons(session) == {GCTriggerReason.THRESHOLD}
    # Not one per turn: a collection makes room for several.
    assert 100 < len(session.get_gc_history()) < 5_000
    assert session.history[0].text.startswith("Question 0:")  # the original request is locked


def test_ten_thousand_turns_in_continuous_mode() -> None:
    model = DummyModel(WINDOW, result_words=RESULT_WORDS)
    session = session_with(model, GCConfig(pressure_percent=0, target_percent=60.0))
    trimmed_to = 0.62 * WINDOW  # the target, and what is not worth a collection

    def assert_trimmed(_number: int) -> None:
        if session.budget.total_tokens() > trimmed_to:
            last = session.get_gc_history()[-1]
            assert last.outcome in (GCOutcome.SHORT, GCOutcome.NO_GAIN)

    run(session, 10_000, after_each=assert_trimmed)
    assert_every_message_is_booked_once(session)
    assert_all_applied(session)
    assert model.refusals == 0
    assert model.largest_request <= WINDOW


def test_two_thousand_turns_with_a_limit_of_turns() -> None:
    model = DummyModel(WINDOW, tool_rounds=1, result_words=50)
    session = session_with(model, GCConfig(max_turns=12, preserve_recent_turns=3))

    def assert_few(_number: int) -> None:
        assert session.get_context_usage()["turns"] <= 12

    run(session, 2_000, after_each=assert_few)
    assert_all_applied(session)
    assert model.refusals == 0
    assert reasons(session) == {GCTriggerReason.TURN_LIMIT}


def test_two_thousand_turns_with_collections_by_hand_and_some_taken_back() -> None:
    model = DummyModel(WINDOW, result_words=RESULT_WORDS)
    session = session_with(model)

    def interfere(number: int) -> None:
        if number % 40 == 17:
            session.manual_gc()
        elif number % 40 == 29:
            session.manual_gc(target_percent=20.0, preserve_recent_turns=1)
        elif number % 40 == 37 and session.manual_gc().items_collected:
            session.undo()
        else:
            return
        assert_budget_is_a_recount(session)
        assert_every_message_is_booked_once(session)

    run(session, 2_000, after_each=interfere)
    assert_all_applied(session)
    assert model.refusals == 0
    assert reasons(session) == {GCTriggerReason.THRESHOLD, GCTriggerReason.MANUAL}


@dataclass
class SilentAtFirst:
    """A model that adds a long prompt of its own and does not report it at first."""

    model: DummyModel
    reports: bool = False

    def __call__(self, request: list[Message]) -> object:
        answer, report = self.model(request)
        return (answer, report) if self.reports else answer


def test_two_thousand_turns_with_tokens_that_the_host_can_not_see() -> None:
    model = DummyModel(WINDOW, result_words=RESULT_WORDS, hidden_tokens=2_500)
    provider = SilentAtFirst(model)
    session = session_with(provider)
    session.tools = model.run_tool
    refused: list[int] = []

    def begin_to_report(number: int) -> None:
        if number == 1_000:
            provider.reports = True
            refused.append(model.refusals)

    run(session, 2_000, after_each=begin_to_report)
    assert_all_applied(session)
    assert refused[0] > 10  # each was answered by a collection and one more try
    # The turn after the switch may be refused once more, before the first report is in.
    assert model.refusals <= refused[0] + 1
    assert reasons(session) == {GCTriggerReason.THRESHOLD, GCTriggerReason.CONTEXT_LIMIT}
    assert (session.budget.ratio, session.budget.unbooked_tokens) == (1.0, 2_500)
    assert model.largest_request <= WINDOW


# --- runs that can't fit ---


def test_a_system_prompt_that_fills_the_window_ends_in_the_floor() -> None:
    model = DummyModel(WINDOW, tool_rounds=0)
    session = session_with(model, GCConfig(preserve_recent_turns=2))
    prompt = session.append(Message.from_text(Role.SYSTEM, "Mind the rules. " * 2_300))
    system = count_tokens([prompt], session.budget.counter)
    assert 0.8 * WINDOW < system < 0.95 * WINDOW
    with pytest.raises(ContextFloorError) as caught:
        run(session, 10, "how so? " * 400)
    assert caught.value.floor["system"] == system
    assert f"{prompt.message_id!r} (system, locked, {system:,})" in str(caught.value)
    assert "shorten the system prompt" in str(caught.value)
    assert model.refusals == 0  # it was never sent
    assert_budget_is_a_recount(session)


def test_recent_turns_that_do_not_fit_do_not_end_the_run() -> None:
    model = DummyModel(WINDOW, tool_rounds=0)
    session = session_with(model)
    run(session, 10, "here is the file. " * 800)
    assert model.refusals == 0
    assert session.get_gc_history()
    assert not any(result.details.get("relaxed") for result in session.get_gc_history())
    assert_budget_is_a_recount(session)


def test_one_huge_request_ends_in_the_floor_and_goes_on_in_a_larger_window() -> None:
    model = DummyModel(WINDOW, tool_rounds=0)
    session = session_with(model)
    run(session, 3)
    before = session.history
    with pytest.raises(ContextFloorError, match=r"newest user, \d\d,\d+") as caught:
        session.send_message("here is the file. " * 8_000)
    assert session.history[:-1] == before
    first = next(message for message in before if message.opens_turn)
    fixed = count_tokens([first, session.history[-1]], session.budget.counter)
    assert caught.value.floor["conversation"] == fixed > WINDOW
    assert model.refusals == 0
    said = len(session.history)

    model.context_limit = 8 * WINDOW
    assert session.set_context_limit(8 * WINDOW) is None
    assert session.send_message(None).text
    assert len(session.history) == said + 1


# --- growth ---


def session_of(messages: int) -> GCSession:
    """Returns a session with this many messages, far from every trigger."""
    session = session_with(None, GCConfig(max_turns=10**6), context_limit=10**12)
    history = long_history(messages // 4 + 2)
    for message in history[:messages]:
        session.append(message)
    session.before_send()
    return session


def new_turn() -> list[Message]:
    """Returns the messages of a turn with one tool call, under new ids."""
    return [replace(message, message_id="") for message in long_history(1)]


def one_turn(session: GCSession, turn: list[Message] | None = None) -> None:
    """Does what a host with its own loop does, tool call included."""
    opening = session.budget.counted_tokens()
    user, call, result, answer = turn or new_turn()
    session.append(user)
    session.before_send()
    session.report_usage(opening + 100, 10)
    session.append(call)
    session.append(result)
    session.before_send()
    session.report_usage(opening + 200, 10)
    session.append(answer)
    session.after_turn()


def test_the_work_of_a_turn_does_not_depend_on_the_history() -> None:
    few, many = session_of(1_000), session_of(30_000)
    for session in (few, many):
        one_turn(session)  # work that is done only once
    parts_of_a_turn: tuple[Callable[[GCSession, list[Message]], object], ...] = (
        one_turn,
        lambda session, _: session.before_send(),
        lambda session, _: session.after_turn(),
        lambda session, _: session.get_context_usage(),
    )
    for work in parts_of_a_turn:
        at_start, at_end = (
            count_operations(lambda: work(session, messages))  # noqa: B023  called at once
            for session, messages in ((few, new_turn()), (many, new_turn()))
        )
        assert at_end == pytest.approx(at_start, rel=0.05), work
        assert at_end < 3_700, work
    assert not few.get_gc_history()
    assert not many.get_gc_history()


def test_the_check_before_a_request_does_not_repeat_checks_of_messages() -> None:
    session = session_of(10_000)
    checked_again = count_operations(session.before_send)
    for message in long_history(250):
        session.append(replace(message, message_id=f"new-{message.message_id}"))
    assert count_operations(session.before_send) == pytest.approx(checked_again, rel=0.05)


def test_only_new_messages_get_the_full_check() -> None:
    session = session_of(10_000)
    session.append(Message.from_text(Role.USER, "go on"))

    def call_without_id() -> None:
        session.append(Message(Role.MODEL, [Part(function_call=FunctionCall(None, "ls"))]))
        session.append(Message(Role.TOOL, [Part(function_response=ToolResult(None, "ls", "a"))]))
        session.before_send()

    call_without_id()
    second = count_operations(call_without_id)
    for _ in range(100):
        call_without_id()
    assert count_operations(call_without_id) == pytest.approx(second, rel=0.05)


class CountingCounter(EstimateCounter):
    """Counts how often it is asked."""

    name = "counting"

    def __init__(self) -> None:
        self.texts = 0

    def count_text(self, text: str) -> int:
        self.texts += 1
        return super().count_text(text)


def collecting_session(counter: EstimateCounter) -> GCSession:
    return new_session(OldestFirst(), context_limit=2_000, counter=counter)


def some_turns(session: GCSession, turns: int) -> None:
    for _ in range(turns):
        one_turn(session)


def test_every_text_is_counted_once_in_a_session_that_collects() -> None:
    counter = CountingCounter()
    session = collecting_session(counter)

    some_turns(session, 400)

    assert len(session.get_gc_history()) > 10
    assert counter.texts == 4 * 400


def test_a_session_that_collects_does_the_same_work_in_every_turn() -> None:
    session = collecting_session(EstimateCounter())
    some_turns(session, 200)

    early = count_operations(lambda: some_turns(session, 200))
    collections = session.collection_count
    some_turns(session, 1_600)
    late = count_operations(lambda: some_turns(session, 200))

    assert session.collection_count > 5 * collections
    assert late == pytest.approx(early, rel=0.1)


def test_the_work_of_a_collection_is_linear_in_the_history() -> None:
    def operations(turns: int) -> int:
        session = session_with(None, context_limit=10**6)
        for message in long_history(turns):
            session.append(message)
        return count_operations(lambda: session.manual_gc(target_percent=0))

    small, large = operations(250), operations(1_000)

    assert large <= 4 * small * 1.1
    assert large < 4 * 1_000 * 800


def test_an_appended_message_touches_its_entry_and_those_above_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = session_of(4_000)
    touched: list[str] = []
    real = SourceEntry.__setattr__

    def noted(entry: SourceEntry, name: str, value: object) -> None:
        if name == "_total" and entry.key:
            touched.append(entry.key)
        real(entry, name, value)

    monkeypatch.setattr(SourceEntry, "__setattr__", noted)
    one_turn(session)

    assert 0 < len(touched) <= 4 * 2  # four messages: at most a turn and an exchange each


def test_a_strategy_with_its_own_should_collect_is_asked_in_every_turn() -> None:
    asked: list[int] = []

    class Asked(OldestFirst):
        def should_collect(
            self,
            context_usage: ContextUsage,
            config: GCConfig,  # noqa: ARG002
        ) -> tuple[bool, GCTriggerReason | None]:
            asked.append(context_usage["total_tokens"])
            return False, None

    session = new_session(Asked())
    session.append(Message.from_text(Role.USER, "a question of some length"))
    session.budget.unbooked_tokens = 10_000  # what the provider reported was that much more

    session.after_turn()

    assert asked == [10_000 + session.budget.counted_tokens()]
