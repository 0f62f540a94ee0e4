"""Plans that are held, applied and taken back."""

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    Collection,
    ContextUsage,
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCPolicy,
    GCRemovalItem,
    GCResult,
    GCSession,
    GCStrategy,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    InvalidHistoryError,
    Message,
    Part,
    PluginRegistry,
    Role,
    StalePlanError,
    StrategyInfo,
    StrategySettings,
    SyntheticKind,
    ToolResult,
    UndoError,
    check_history,
    count_tokens,
    fenced,
    hookimpl,
)
from jaato_gc_testing import histories

COUNTER = EstimateCounter()
LONG = "lorem ipsum dolor sit amet " * 10


class Oldest(GCStrategy[StrategySettings]):
    """Removes the oldest turns, clears old results, and leaves a notice if asked to."""

    name = "gc_oldest"

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        self.calls += 1
        notice = self.settings.notice_template
        collection = Collection(
            self.name, history, context_usage, config, reason, budget, notice=notice
        )
        collection.remove_oldest(collection.turns, "oldest")
        collection.clear_recent_results()
        return collection.finish()


class Digest(Oldest):
    """Puts a summary in place of all that `Oldest` would remove."""

    name = "gc_digest"

    def collect(self, *arguments: Any) -> tuple[list[Message], GCResult]:
        after, result = super().collect(*arguments)
        if result.removal_list:
            text = fenced(SyntheticKind.SUMMARY, f"{len(result.removal_list)} turns")
            summary = Message.from_text(Role.USER, text, synthetic=SyntheticKind.SUMMARY)
            position = next((i for i, each in enumerate(after) if each.opens_turn), 0)
            smaller = [*after[:position], summary, *after[position:]]
            if count_tokens(smaller, COUNTER) <= count_tokens(arguments[0], COUNTER):
                return smaller, result
        return after, result


class Strategies:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo(each.name, each) for each in (Oldest, Digest)]


def registry() -> PluginRegistry:
    plugins = PluginRegistry(load_installed=False)
    plugins.register(Strategies(), "mine")
    return plugins


def new_session(plugin: Oldest, /, **options: Any) -> GCSession:
    config = {"preserve_recent_turns": 1} | options.pop("config", {})
    session = GCSession(counter=COUNTER, registry=registry(), **options)
    session.set_gc_plugin(plugin, GCConfig(**config))
    return session


def say(session: GCSession, *turns: int) -> None:
    for turn in turns:
        session.append(Message.from_text(Role.USER, f"{turn} {LONG}", message_id=f"u{turn}"))
        session.append(Message.from_text(Role.MODEL, f"{turn} {LONG}", message_id=f"a{turn}"))


def talk(plugin: Oldest | None = None, /, **options: Any) -> GCSession:
    session = new_session(plugin or Oldest(), **options)
    say(session, *range(5))
    return session


def ids(session: GCSession) -> list[str]:
    return [message.message_id for message in session.history]


Picture = tuple[list[Message], dict[str, Any], dict[str, Any]]


def picture(session: GCSession) -> Picture:
    return session.history, session.budget.snapshot(), session.get_context_usage()


def state(session: GCSession) -> dict[str, Any]:
    saved: dict[str, Any] = json.loads(session.save())
    del saved["plans_made"]
    return saved


def restored(session: GCSession) -> GCSession:
    return GCSession.restore(session.save(), counter=COUNTER, registry=registry())


def assert_in_step(session: GCSession) -> None:
    assert session.budget.counted_tokens() == count_tokens(session.history, COUNTER)


# --- planning and applying ---


def test_a_plan_changes_nothing() -> None:
    session = talk()
    before = state(session)
    plan = session.plan_gc()
    assert plan.result.tokens_freed > 0
    assert not plan.changes_nothing
    assert state(session) == before


def test_applying_asks_nobody_again() -> None:
    plugin = Oldest()
    session = talk(plugin)
    plan = session.plan_gc()
    assert plugin.calls == 1
    result = session.apply(plan)
    assert plugin.calls == 1
    assert session.history == plan.after
    assert result.tokens_after == plan.result.tokens_after == session.budget.total_tokens()
    assert result.gc_id == plan.gc_id


def test_what_was_appended_since_the_plan_stays_behind_it() -> None:
    session = talk()
    plan = session.plan_gc()
    say(session, 5)
    result = session.apply(plan)
    assert ids(session) == ["u0", "u4", "a4", "u5", "a5"]
    assert result.tokens_freed == plan.result.tokens_freed
    assert_in_step(session)
    session.undo()
    assert ids(session) == [f"{who}{turn}" for turn in range(6) for who in "ua"]
    assert_in_step(session)


@pytest.mark.parametrize("change", ["collected", "undone", "pinned", "applied"])
def test_a_stale_plan_changes_nothing(change: str) -> None:
    session = talk()
    if change == "undone":
        session.manual_gc(preserve_recent_turns=3)
    plan = session.plan_gc()
    if change == "collected":
        session.manual_gc(preserve_recent_turns=3)
    elif change == "undone":
        session.undo()
    elif change == "pinned":
        session.pin("u3")
    else:
        session.apply(plan)
    before = state(session)
    with pytest.raises(StalePlanError, match="new plan"):
        session.apply(plan)
    assert state(session) == before


def test_a_plan_of_another_session_is_stale() -> None:
    plan = talk().plan_gc()
    with pytest.raises(StalePlanError):
        talk().apply(plan)


def test_a_plan_can_be_applied_again_after_its_undo() -> None:
    session = talk()
    plan = session.plan_gc()
    first = session.apply(plan)
    session.undo()
    second = session.apply(plan)
    assert session.history == plan.after
    assert first.details["undone"]
    assert "undone" not in second.details
    again = restored(session)
    again.undo()
    assert len(again.history) == 10


def test_a_plan_without_effect_leaves_nothing_to_undo() -> None:
    session = new_session(Oldest())
    say(session, 0)
    plan = session.plan_gc()
    assert plan.changes_nothing
    assert session.apply(plan).outcome is GCOutcome.NO_GAIN
    with pytest.raises(UndoError, match="no collection"):
        session.undo()


def test_a_summary_whose_id_was_taken_meanwhile_is_stale() -> None:
    session = talk(Digest())
    plan = session.plan_gc()
    (summary,) = (message for message in plan.after if message.synthetic)
    session.append(Message.from_text(Role.USER, LONG, message_id=summary.message_id))
    before = state(session)
    with pytest.raises(StalePlanError, match=summary.message_id):
        session.apply(plan)
    assert state(session) == before


# --- undoing ---


def test_undo_gives_everything_back() -> None:
    session = talk()
    before = picture(session)
    result = session.manual_gc()
    assert picture(session) != before
    session.undo(result.gc_id)
    assert picture(session) == before
    assert result.details["undone"] is True


def test_undo_is_newest_first() -> None:
    session = talk()
    first = session.manual_gc(preserve_recent_turns=3)
    between = picture(session)
    session.manual_gc()
    with pytest.raises(UndoError, match=f"'{first.gc_id}' is not the newest"):
        session.undo(first.gc_id)
    session.undo()
    assert picture(session) == between
    session.undo(first.gc_id)
    assert len(session.history) == 10


def test_there_must_be_something_to_undo() -> None:
    with pytest.raises(UndoError, match="no collection"):
        talk().undo()


def test_an_unknown_collection_can_not_be_undone() -> None:
    session = talk()
    session.manual_gc()
    before = state(session)
    with pytest.raises(UndoError, match="gc_99"):
        session.undo("gc_99")
    assert state(session) == before


def test_a_notice_goes_and_comes_with_its_collection() -> None:
    plugin = Oldest()
    plugin.initialize({"notify_on_gc": True, "notification_template": "{turns_removed} went"})
    session = talk(plugin)
    pictures = [picture(session)]
    for keep in (3, 2, 1):
        session.manual_gc(preserve_recent_turns=keep)
        assert sum(message.synthetic is not None for message in session.history) == 1
        pictures.append(picture(session))
        assert_in_step(session)
    for expected in reversed(pictures[:-1]):
        session.undo()
        assert picture(session) == expected


def test_summaries_go_and_numbers_are_not_used_again() -> None:
    session = talk(Digest())
    before = picture(session)
    session.manual_gc()
    entry = session.budget.get_child(InstructionSource.CONVERSATION, "gc_summary_1")
    assert entry is not None
    assert entry.metadata == {"created_by": "gc_digest"}
    session.undo()
    assert picture(session) == before
    session.manual_gc()
    assert session.budget.get_child(InstructionSource.CONVERSATION, "gc_summary_1") is None
    assert session.budget.get_child(InstructionSource.CONVERSATION, "gc_summary_2") is not None


def agent_turn(session: GCSession, exchanges: int) -> None:
    session.append(Message.from_text(Role.USER, "go"))
    for number in range(exchanges):
        call = FunctionCall(f"call_{number}", "look", {})
        session.append(Message(Role.MODEL, [Part(function_call=call)]))
        answer = ToolResult(call.id, "look", LONG * 5)
        session.append(Message(Role.TOOL, [Part(function_response=answer)]))


def test_cleared_results_come_back() -> None:
    session = new_session(Oldest(), context_limit=2000)
    agent_turn(session, 6)
    before = picture(session)
    result = session.manual_gc(target_percent=1.0)
    assert {item.action for item in result.removal_list} == {"clear"}
    assert ids(session) == [message.message_id for message in before[0]]
    assert_in_step(session)
    session.undo()
    assert picture(session) == before


def test_content_beyond_the_limit_of_the_journal_is_not_kept() -> None:
    session = talk(journal_tokens=300)
    session.manual_gc(preserve_recent_turns=3)
    session.manual_gc(preserve_recent_turns=2)
    session.manual_gc(preserve_recent_turns=1)
    session.undo()
    session.undo()
    before = state(session)
    with pytest.raises(UndoError, match="journal_tokens"):
        session.undo()
    assert state(session) == before


def test_the_journal_counts_for_itself() -> None:
    """What a strategy says about tokens does not make its collections undoable for ever."""

    class Modest(Oldest):
        def collect(self, *arguments: Any) -> tuple[list[Message], GCResult]:
            after, result = super().collect(*arguments)
            for item in result.removal_list:
                item.tokens_freed = 0
            return after, result

    session = talk(Modest(), journal_tokens=10)
    session.manual_gc()
    with pytest.raises(UndoError, match="journal_tokens"):
        session.undo()


def test_after_an_undo_nothing_is_collected_until_the_next_message() -> None:
    session = talk(context_limit=700)
    assert session.after_turn() is not None
    session.undo()
    assert session.after_turn() is None
    assert session.before_send() == session.history
    assert len(session.history) == 10
    assert session.manual_gc().tokens_freed > 0
    session.undo()
    say(session, 5)
    assert session.after_turn() is not None


def test_an_id_that_came_back_stops_an_undo() -> None:
    session = talk()
    session.manual_gc()
    session.append(Message.from_text(Role.USER, "again", message_id="u2"))
    before = state(session)
    with pytest.raises(UndoError, match="'u2'"):
        session.undo()
    assert state(session) == before


def test_a_repair_in_between_stops_an_undo() -> None:
    """Where removed messages stood is no longer known; a guess could part a call and its result."""
    session = new_session(Oldest(), repair=True)
    session.append(Message.from_text(Role.USER, "go", message_id="u"))
    dangling = [Part(function_call=FunctionCall("x", "look"))]
    session.append(Message(Role.MODEL, dangling, "c"))
    session.pin("c")
    say(session, 1, 2)
    session.manual_gc()
    assert ids(session) == ["u", "c", "u2", "a2"]
    session.before_send()
    before = state(session)
    with pytest.raises(UndoError, match="repaired"):
        session.undo()
    assert state(session) == before
    assert check_history(session.history) == []


def test_a_repair_behind_a_collection_does_not() -> None:
    session = talk(repair=True)
    session.manual_gc()
    session.append(Message.from_text(Role.USER, "go"))
    session.append(Message(Role.MODEL, [Part(function_call=FunctionCall("x", "look"))]))
    say(session, 6)
    session.before_send()
    session.undo()
    assert len(session.history) == 10 + 3 + 2
    assert check_history(session.history) == []
    assert_in_step(session)


def test_what_was_dropped_elsewhere_is_the_host_s_to_bring_back() -> None:
    class Tools(Oldest):
        def collect(self, *arguments: Any) -> tuple[list[Message], GCResult]:
            after, result = super().collect(*arguments)
            result.removal_list.append(GCRemovalItem(InstructionSource.ENRICHMENT))
            return after, result

    session = talk(Tools(), on_source_removed=lambda *_: None)
    session.budget.update_tokens(InstructionSource.ENRICHMENT, 50)
    history = session.history
    session.manual_gc()
    session.undo()
    assert session.history == history
    assert session.budget.entries[InstructionSource.ENRICHMENT].total_tokens() == 0
    assert_in_step(session)


def test_a_fault_that_comes_back_is_found_again() -> None:
    session = new_session(Oldest())
    say(session, 0)
    session.append(Message(Role.MODEL, [Part(function_call=FunctionCall("c", "look"))], "dangling"))
    say(session, 1, 2)
    with pytest.raises(InvalidHistoryError, match="look"):
        session.before_send()
    session.manual_gc(target_percent=0.1)
    assert "dangling" not in [message.message_id for message in session.before_send()]

    session.undo()

    with pytest.raises(InvalidHistoryError, match="look"):
        session.before_send()


# --- the same for every history ---


def test_a_notice_that_comes_first_goes_on_doing_so() -> None:
    plugin = Oldest()
    plugin.initialize({"notify_on_gc": True})
    session = new_session(plugin)

    def collect(*messages: Message, keep: int = 0) -> list[str]:
        for message in messages:
            session.append(message)
        result = session.manual_gc(target_percent=0.1, preserve_recent_turns=keep)
        assert result.success, result.error
        return ids(session)

    call, answer = FunctionCall("c", "read_file"), ToolResult("c", "read_file", "all there is")
    dear = Message(Role.TOOL, [Part(function_response=answer)], "result", policy=GCPolicy.LOCKED)
    request = Message.from_text(Role.USER, LONG, message_id="u0", policy=GCPolicy.PARTIAL)
    assert collect(request) == ["gc_notice"]
    held = ["gc_notice", "call", "result"]
    assert collect(Message(Role.MODEL, [Part(function_call=call)], "call"), dear) == held
    say(session, 1, 2)
    assert collect(keep=1) == [*held, "u2", "a2"]


STEPS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 2), st.booleans()), min_size=2, max_size=6
)
"""How many messages come, how many turns the collection after them keeps, whether to restore."""
PROPERTY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def comparable(value: Any) -> Any:
    """Without when entries were made, and the numbers that summaries have used up."""
    if not isinstance(value, dict):
        return value
    return {
        f"summary {each['message_ids']}" if key.startswith("gc_summary") else key: comparable(each)
        for key, each in value.items()
        if key not in ("created_at", "born")
    }


@PROPERTY
@given(
    history=histories(min_turns=2, max_turns=6),
    steps=STEPS,
    plugin=st.sampled_from([Oldest, Digest]),
    notify=st.booleans(),
    target=st.sampled_from([1.0, 50.0]),
)
def test_undoing_all_is_as_if_nothing_had_been_collected(
    history: list[Message],
    steps: list[tuple[int, int, bool]],
    plugin: type[Oldest],
    notify: bool,
    target: float,
) -> None:
    strategy = plugin()
    strategy.initialize({"notify_on_gc": notify})
    limit = max(10, count_tokens(history, COUNTER))
    session = new_session(strategy, context_limit=limit, config={"pressure_percent": 90.0})
    untouched = new_session(Oldest(), context_limit=limit)
    expected = copy.deepcopy(history)
    coming, undoable = list(history), 0
    for amount, keep, restart in steps:
        for message in coming[:amount]:
            session.append(message)
            untouched.append(message)
        coming = coming[amount:]
        before = picture(session)
        settings = {"preserve_recent_turns": keep, "preserve_recent_groups": 0}
        result = session.manual_gc(target_percent=target, **settings)
        assert result.success, result.error
        assert_in_step(session)
        if session.history != before[0]:
            session.undo()
            assert picture(session) == before
            session.manual_gc(target_percent=target, **settings)
            undoable += 1
        if restart:
            seen = picture(session)
            session = restored(session)
            assert picture(session) == seen
    for _ in range(undoable):
        session.undo()
        assert_in_step(session)
    assert session.history == expected[: len(history) - len(coming)]
    assert comparable(session.budget.snapshot()) == comparable(untouched.budget.snapshot())
    assert session.get_context_usage() == untouched.get_context_usage()
    with pytest.raises(UndoError, match="no collection"):
        session.undo()
