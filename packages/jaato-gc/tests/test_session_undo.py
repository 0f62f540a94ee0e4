"""Plans, applying them, and undoing collections."""

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaato_gc_testing as kit
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
    InvalidHistoryError,
    Message,
    Part,
    PluginRegistry,
    Role,
    StalePlanError,
    SyntheticKind,
    ToolResult,
    UndoError,
    check_history,
    count_tokens,
)
from jaato_gc.plugin import Collection, GCConfigOverrides, StrategyInfo, fenced, hookimpl
from jaato_gc_testing import (
    COUNTER,
    LONG_TEXT,
    MemoryStash,
    OldestFirst,
    ScriptedStrategy,
    assert_in_step,
    histories,
    message_ids,
    new_session,
    speak,
)


class Oldest(OldestFirst):
    """Counts how often it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def select(self, collection: Collection) -> None:
        self.calls += 1
        super().select(collection)


class Digest(Oldest):
    """Replaces everything that `Oldest` would remove by a summary, if that is smaller."""

    name = "gc_digest"

    def select(self, collection: Collection) -> None:
        removable = [group for group in collection.groups if collection.may_remove(group)]
        super().select(collection)
        removed = [group for group in removable if not collection.may_remove(group)]
        text = fenced(SyntheticKind.SUMMARY, f"{len(collection.items)} turns")
        summary = Message.from_text(Role.USER, text, synthetic=SyntheticKind.SUMMARY)
        if removed and count_tokens([summary], COUNTER) <= collection.tokens_freed:
            collection.insert(summary, collection.position_before(removed))


class Strategies:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo(each.name, each) for each in (Oldest, Digest)]


def registry() -> PluginRegistry:
    plugins = PluginRegistry(load_installed=False)
    plugins.register(Strategies(), "mine")
    return plugins


def recent_only(plugin: Oldest | None = None, /, **options: Any) -> GCSession:
    """Returns a session that preserves one recent turn."""
    config = GCConfig(**({"preserve_recent_turns": 1} | options.pop("config", {})))
    return new_session(plugin or Oldest(), config, registry=registry(), **options)


def talk(plugin: Oldest | None = None, /, **options: Any) -> GCSession:
    """Returns a session with five turns."""
    session = recent_only(plugin, **options)
    speak(session, *range(5))
    return session


Picture = tuple[Sequence[Message], dict[str, Any], ContextUsage]


def picture(session: GCSession) -> Picture:
    return session.history, session.budget.snapshot(), session.get_context_usage()


def state(session: GCSession) -> dict[str, Any]:
    saved: dict[str, Any] = json.loads(session.save())
    del saved["plans_made"]
    return saved


def restored(session: GCSession) -> GCSession:
    return GCSession.restore(session.save(), counter=COUNTER, registry=registry())


# --- planning and applying ---


def test_a_plan_changes_nothing() -> None:
    session = talk()
    before = state(session)
    plan = session.plan_gc()
    assert plan.result.tokens_freed > 0
    assert not plan.changes_nothing
    assert state(session) == before


def test_applying_a_plan_does_not_call_the_strategy_again() -> None:
    plugin = Oldest()
    session = talk(plugin)
    plan = session.plan_gc()
    assert plugin.calls == 1
    result = session.apply(plan)
    assert plugin.calls == 1
    assert session.history == plan.after
    assert result.tokens_after == plan.result.tokens_after == session.budget.total_tokens()
    assert result.gc_id == plan.gc_id


def test_messages_appended_since_the_plan_follow_what_it_leaves() -> None:
    session = talk()
    plan = session.plan_gc()
    speak(session, 5)
    result = session.apply(plan)
    assert message_ids(session) == ["u0", "u4", "a4", "u5", "a5"]
    assert result.tokens_freed == plan.result.tokens_freed
    assert_in_step(session)
    session.undo()
    assert message_ids(session) == [f"{who}{turn}" for turn in range(6) for who in "ua"]
    assert_in_step(session)


@pytest.mark.parametrize("change", ["collected", "pinned", "applied"])
def test_a_stale_plan_changes_nothing(change: str) -> None:
    session = talk()
    plan = session.plan_gc()
    if change == "collected":
        session.manual_gc(preserve_recent_turns=3)
    elif change == "pinned":
        session.pin("u3")
    else:
        session.apply(plan)
    before = state(session)
    with pytest.raises(StalePlanError, match="new plan"):
        session.apply(plan)
    assert state(session) == before


def test_a_plan_whose_messages_are_unchanged_applies_after_an_undo() -> None:
    session = talk()
    session.manual_gc(preserve_recent_turns=3)
    assert message_ids(session) == ["u0", "u2", "a2", "u3", "a3", "u4", "a4"]
    plan = session.plan_gc(preserve_recent_turns=2)
    session.undo()
    session.apply(plan)
    assert message_ids(session) == ["u0", "a0", "u1", "a1", "u3", "a3", "u4", "a4"]
    assert_in_step(session)
    session.undo()
    assert message_ids(session) == message_ids(talk())


def test_a_plan_whose_messages_are_unchanged_applies_after_another_collection() -> None:
    session = talk()
    plan = session.plan_gc(preserve_recent_turns=3)
    session.set_gc_plugin(ScriptedStrategy(lambda each: each.remove_oldest(each.turns[2:], "new")))
    session.manual_gc(preserve_recent_turns=1)
    session.apply(plan)
    assert message_ids(session) == ["u0", "u4", "a4"]
    assert_in_step(session)
    session.undo()
    session.undo()
    assert message_ids(session) == message_ids(talk())


def test_a_plan_that_would_make_the_restored_history_invalid_is_stale() -> None:
    config = {"preserve_recent_groups": 0}
    session = recent_only(policy_of=lambda _: GCPolicy.PARTIAL, config=config)
    speak(session, 0, calls=1)
    speak(session, 1, 2)
    whole = message_ids(session)
    calls_only = ScriptedStrategy(
        lambda each: each.remove([group for group in each.groups if group.is_call], "calls", "old")
    )
    session.set_gc_plugin(calls_only, session.config)
    session.manual_gc()
    session.set_gc_plugin(Oldest(), session.config)
    plan = session.plan_gc()
    session.undo()
    with pytest.raises(StalePlanError, match="new plan"):
        session.apply(plan)
    assert message_ids(session) == whole
    assert check_history(session.history) == []


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
    assert first == second
    assert not session.was_undone(plan.gc_id)
    again = restored(session)
    again.undo()
    assert len(again.history) == 10


def test_a_plan_without_effect_leaves_nothing_to_undo() -> None:
    session = recent_only(Oldest())
    speak(session, 0)
    plan = session.plan_gc()
    assert plan.changes_nothing
    assert session.apply(plan).outcome is GCOutcome.NO_GAIN
    with pytest.raises(UndoError, match="no collection"):
        session.undo()


def test_a_summary_whose_id_was_taken_meanwhile_is_stale() -> None:
    session = talk(Digest())
    plan = session.plan_gc()
    (summary,) = (message for message in plan.after if message.synthetic)
    session.append(Message.from_text(Role.USER, LONG_TEXT, message_id=summary.message_id))
    before = state(session)
    with pytest.raises(StalePlanError, match=summary.message_id):
        session.apply(plan)
    assert state(session) == before


# --- undoing ---


def test_undo_restores_history_budget_and_usage() -> None:
    session = talk()
    before = picture(session)
    result = session.manual_gc()
    assert picture(session) != before
    assert not session.was_undone(result.gc_id or "")
    session.undo(result.gc_id)
    assert picture(session) == before
    assert session.was_undone(result.gc_id or "")


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


def test_undo_without_a_collection_is_an_error() -> None:
    with pytest.raises(UndoError, match="no collection"):
        talk().undo()


def test_an_unknown_collection_can_not_be_undone() -> None:
    session = talk()
    session.manual_gc()
    before = state(session)
    with pytest.raises(UndoError, match="gc_99"):
        session.undo("gc_99")
    assert state(session) == before


def test_undo_restores_the_notice_of_the_collection_before() -> None:
    plugin = Oldest()
    plugin.initialize({"notify_on_gc": True, "notification_template": "{removed} went"})
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


def test_undo_removes_a_summary_and_its_number_is_not_used_again() -> None:
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
        answer = ToolResult(call.id, "look", LONG_TEXT * 5)
        session.append(Message(Role.TOOL, [Part(function_response=answer)]))


def test_undo_restores_shortened_results() -> None:
    def shorten(collection: Collection) -> None:
        for group in collection.groups:
            collection.shorten(group, "shorter")

    session = new_session(ScriptedStrategy(shorten), GCConfig(), context_limit=3000)
    agent_turn(session, 6)
    before = picture(session)
    result = session.manual_gc(target_percent=1.0)
    assert [item.action for item in result.removal_list] == ["shorten"] * 3
    assert message_ids(session) == [message.message_id for message in before[0]]
    assert_in_step(session)
    session.undo()
    assert picture(session) == before


def test_content_beyond_the_limit_of_the_journal_is_not_kept() -> None:
    session = talk(journal_bytes=300)
    session.manual_gc(preserve_recent_turns=3)
    session.manual_gc(preserve_recent_turns=2)
    session.manual_gc(preserve_recent_turns=1)
    session.undo()
    before = state(session)
    with pytest.raises(UndoError, match="journal_bytes"):
        session.undo()
    assert state(session) == before


def test_the_journal_measures_content_itself() -> None:
    """The figures of a strategy do not decide how long its collections can be undone."""

    class Modest(Oldest):
        def collect(self, *arguments: Any) -> tuple[list[Message], GCResult]:
            after, result = super().collect(*arguments)
            result.removal_list = [replace(item, tokens_freed=0) for item in result.removal_list]
            return after, result

    session = talk(Modest(), journal_bytes=10)
    session.manual_gc(preserve_recent_turns=3)
    session.manual_gc()
    session.undo()
    with pytest.raises(UndoError, match="journal_bytes"):
        session.undo()


def test_the_messages_that_a_collection_removed_can_be_read() -> None:
    session = talk(stash=MemoryStash(), journal_bytes=0)
    before = {message.message_id: message for message in session.history}
    first = session.manual_gc()
    speak(session, 5, 6)
    second = session.manual_gc()

    before |= {message.message_id: message for message in session.get_removed()}
    for result in (first, second):
        listed = [each for item in result.removal_list for each in item.message_ids]
        assert listed
        assert session.get_removed(result.gc_id) == [before[each] for each in listed]
    assert session.get_removed() == session.get_removed(second.gc_id)


def test_a_collection_that_removed_nothing_has_no_removed_messages() -> None:
    session = talk()
    session.set_gc_plugin(ScriptedStrategy(lambda _: None))
    assert session.get_removed(session.manual_gc().gc_id) == []


def test_shortened_messages_can_be_read_in_full() -> None:
    def shorten(collection: Collection) -> None:
        for group in collection.groups:
            collection.shorten(group, "shorter")

    session = new_session(ScriptedStrategy(shorten), GCConfig(), context_limit=3000)
    agent_turn(session, 6)
    before = session.history
    session.manual_gc(target_percent=1.0)

    removed = session.get_removed()
    assert len(removed) == 3
    assert all(message in before and message not in session.history for message in removed)


def test_messages_that_are_no_longer_kept_can_not_be_read() -> None:
    session = talk(journal_bytes=0)
    before = state(session)
    with pytest.raises(UndoError, match="there is no collection"):
        session.get_removed()
    with pytest.raises(UndoError, match="there is no collection 'gc_9'"):
        session.get_removed("gc_9")
    assert state(session) == before
    session.manual_gc(preserve_recent_turns=3)
    session.manual_gc()
    assert session.get_removed()
    with pytest.raises(UndoError, match=r"there is no collection 'gc_1': .* journal_bytes"):
        session.get_removed("gc_1")


def test_after_an_undo_no_automatic_collection_runs_until_the_next_message() -> None:
    session = talk(context_limit=700)
    assert session.after_turn() is not None
    session.undo()
    assert session.after_turn() is None
    assert session.before_send() == session.history
    assert len(session.history) == 10
    assert session.manual_gc().tokens_freed > 0
    session.undo()
    speak(session, 5)
    assert session.after_turn() is not None


def test_undo_is_refused_if_a_removed_id_was_used_again() -> None:
    session = talk()
    session.manual_gc()
    session.append(Message.from_text(Role.USER, "again", message_id="u2"))
    before = state(session)
    with pytest.raises(UndoError, match="'u2'"):
        session.undo()
    assert state(session) == before


def test_a_repair_is_undone_before_the_collection_whose_messages_it_repaired() -> None:
    session = recent_only(Oldest(), repair=True)
    session.append(Message.from_text(Role.USER, "go", message_id="u"))
    dangling = [Part(function_call=FunctionCall("x", "look"))]
    session.append(Message(Role.MODEL, dangling, "c"))
    session.pin("c")
    speak(session, 1, 2)
    session.manual_gc()
    assert message_ids(session) == ["u", "c", "u2", "a2"]
    session.before_send()
    assert message_ids(session) == ["u", "c", "repair-c", "u2", "a2"]
    session.undo()
    assert message_ids(session) == ["u", "c", "u2", "a2"]
    session.undo()
    assert message_ids(session) == ["u", "c", "u1", "a1", "u2", "a2"]
    assert_in_step(session)


def test_a_repair_of_later_messages_is_undone_first_too() -> None:
    session = talk(repair=True)
    session.manual_gc()
    session.append(Message.from_text(Role.USER, "go"))
    session.append(Message(Role.MODEL, [Part(function_call=FunctionCall("x", "look"))]))
    speak(session, 6)
    session.before_send()
    session.undo()
    session.undo()
    assert len(session.history) == 10 + 2 + 2
    assert_in_step(session)


def test_undo_does_not_restore_what_the_host_dropped() -> None:
    class Tools(Oldest):
        def select(self, collection: Collection) -> None:
            super().select(collection)
            collection.remove_source(InstructionSource.ENRICHMENT, None, 50, "enrichment")

    session = talk(Tools(), on_source_removed=lambda *_: None)
    session.budget.update_tokens(InstructionSource.ENRICHMENT, 50)
    history = session.history
    session.manual_gc()
    session.undo()
    assert session.history == history
    assert session.budget.entries[InstructionSource.ENRICHMENT].total_tokens() == 0
    assert_in_step(session)


def test_a_fault_that_undo_restores_is_found_again() -> None:
    session = recent_only(Oldest(), config={"preserve_recent_groups": 0})
    speak(session, 0)
    session.append(Message(Role.MODEL, [Part(function_call=FunctionCall("c", "look"))], "dangling"))
    speak(session, 1, 2)
    with pytest.raises(InvalidHistoryError, match="look"):
        session.before_send()
    session.manual_gc(target_percent=0)
    assert "dangling" not in [message.message_id for message in session.before_send()]

    session.undo()

    with pytest.raises(InvalidHistoryError, match="look"):
        session.before_send()


# --- the same for every history ---


def test_a_notice_that_comes_first_stays_first() -> None:
    plugin = ScriptedStrategy(lambda each: each.remove(each.groups, "all", "old"))
    plugin.initialize({"notify_on_gc": True})
    config = GCConfig(preserve_recent_groups=0, pressure_percent=1)
    session = new_session(plugin, config, context_limit=8_000)

    def collect(*messages: Message, keep: int = 0) -> list[str]:
        for message in messages:
            session.append(message)
        result = session.manual_gc(target_percent=1, preserve_recent_turns=keep)
        assert result.success, result.error
        return message_ids(session)

    call, answer = FunctionCall("c", "read_file"), ToolResult("c", "read_file", "all there is")
    locked = Message(Role.TOOL, [Part(function_response=answer)], "result", policy=GCPolicy.LOCKED)
    notice = Message.from_text(
        Role.USER, LONG_TEXT, message_id="gc_notice", synthetic=SyntheticKind.NOTICE
    )
    held = ["gc_notice", "call", "result"]
    asked = Message(Role.MODEL, [Part(function_call=call)], "call")
    assert collect(notice, asked, locked) == held
    speak(session, 1, 2)
    assert collect(keep=1) == [*held, "u1", "u2", "a2"]


STEPS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 2), st.booleans()), min_size=2, max_size=6
)
"""How many messages to append, how many turns to preserve, whether to save and restore then."""
PROPERTY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def comparable(value: Any) -> Any:
    """Returns a snapshot without creation times and without the numbers of summaries."""
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
def test_undoing_every_collection_restores_the_state_without_collections(
    history: list[Message],
    steps: list[tuple[int, int, bool]],
    plugin: type[Oldest],
    notify: bool,
    target: float,
) -> None:
    strategy = plugin()
    strategy.initialize({"notify_on_gc": notify})
    limit = max(10, count_tokens(history, COUNTER))
    session = recent_only(strategy, context_limit=limit, config={"pressure_percent": 90.0})
    untouched = recent_only(Oldest(), context_limit=limit)
    expected = copy.deepcopy(history)
    coming, undoable = list(history), 0
    for amount, keep, restart in steps:
        for message in coming[:amount]:
            session.append(message)
            untouched.append(message)
        coming = coming[amount:]
        before = picture(session)
        settings: GCConfigOverrides = {
            "target_percent": target,
            "preserve_recent_turns": keep,
            "preserve_recent_groups": 0,
        }
        result = session.manual_gc(**settings)
        assert result.success, result.error
        assert_in_step(session)
        if session.history != before[0]:
            session.undo()
            assert picture(session) == before
            session.manual_gc(**settings)
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


def test_a_collection_of_sources_only_can_be_undone_when_the_journal_is_full() -> None:
    enrichment = InstructionSource.ENRICHMENT

    def select(collection: Collection) -> None:
        if collection.reason is GCTriggerReason.THRESHOLD:
            collection.remove_source(enrichment, None, 500, "enrichment_bulk_clear")
        else:
            collection.remove_oldest(collection.turns, "old")

    session = kit.new_session(
        kit.ScriptedStrategy(select),
        GCConfig(preserve_recent_turns=1),
        on_source_removed=lambda _source, _key: None,
        stash=kit.MemoryStash(),
        journal_bytes=0,
    )
    kit.speak(session, *range(4))
    session.budget.update_tokens(enrichment, 500)
    session.apply(session.plan_gc(GCTriggerReason.THRESHOLD))
    before = session.history
    assert session.manual_gc().tokens_freed > 0

    session.undo()
    session.undo()

    assert session.history == before


def test_after_an_undo_only_a_new_message_or_a_host_edit_allows_automatic_collections() -> None:
    session = talk()
    assert session.set_context_limit(session.budget.total_tokens()) is not None
    session.undo()
    session.manual_gc(target_percent=95)  # asked for, so it ends no pause
    assert session.after_turn() is None

    session.undo()
    assert session.after_turn() is None
    session.append(Message.from_text(Role.USER, "go on"))
    assert session.after_turn() is not None

    session.undo()
    session.replace("u1", Message.from_text(Role.USER, "shorter", message_id="u1"))
    assert session.after_turn() is not None
