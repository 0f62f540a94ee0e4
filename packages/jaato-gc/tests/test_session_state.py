"""A restored session behaves as the saved one would have."""

import copy
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCError,
    GCOutcome,
    GCPolicy,
    GCSession,
    GCTriggerReason,
    InlineData,
    InstructionSource,
    InvalidHistoryError,
    Message,
    Part,
    PluginRegistry,
    Role,
    SavedSessionError,
    SyntheticKind,
    ToolResult,
)
from jaato_gc.plugin import Collection, GCStrategy, StrategyInfo, StrategySettings, fenced, hookimpl
from jaato_gc_testing import (
    COUNTER,
    DummyModel,
    NoGCPlugin,
    assert_in_step,
    histories,
    message_ids,
    new_session,
    speak,
)


class OldestSettings(StrategySettings):
    """Options of the strategy below."""

    summary: str = ""
    """The text of a summary that replaces what was removed."""


class Oldest(GCStrategy[OldestSettings]):
    """Removes the oldest turns."""

    name = "gc_oldest"
    settings_model = OldestSettings

    def select(self, collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "oldest")
        if self.settings.summary and any(each.action == "remove" for each in collection.items):
            text = fenced(SyntheticKind.SUMMARY, self.settings.summary)
            summary = Message.from_text(Role.USER, text, synthetic=SyntheticKind.SUMMARY)
            collection.insert(summary, 1)


class Strategies:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [
            StrategyInfo("gc_oldest", Oldest, config_model=OldestSettings),
            StrategyInfo("gc_none", NoGCPlugin),
        ]


def registry() -> PluginRegistry:
    plugins = PluginRegistry(load_installed=False)
    plugins.register(Strategies(), "mine")
    return plugins


def session_with(plugin: Any = None, config: GCConfig | None = None, **options: Any) -> GCSession:
    config = config or GCConfig(preserve_recent_turns=1)
    return new_session(plugin, config, registry=registry(), **options)


def restore(saved: str, provider: Any = None, **options: Any) -> GCSession:
    options.setdefault("counter", COUNTER)
    options.setdefault("registry", registry())
    return GCSession.restore(saved, provider, **options)


# --- the same future ---


def content(session: GCSession) -> list[Any]:
    """Returns the history without ids: those of new messages differ between processes."""
    return [(each.role, each.parts, each.synthetic, each.policy) for each in session.history]


def account(session: GCSession) -> list[Any]:
    return [
        (
            *(each.gc_id, each.outcome, each.trigger_reason, each.error, each.confidence),
            *(each.tokens_before, each.tokens_after, each.cache, each.details, each.notification),
            [
                (one.child_key, one.tokens_freed, one.reason, one.action)
                for one in each.removal_list
            ],
        )
        for each in session.get_gc_history()
    ]


CONFIGS = st.sampled_from(
    [
        GCConfig(preserve_recent_turns=1),
        GCConfig(preserve_recent_turns=2, max_turns=4),
        GCConfig(preserve_recent_turns=1, pressure_percent=0, target_percent=50.0),
        GCConfig(preserve_recent_turns=1, pinned_turn_indices=[0, 3], reserve_output_tokens=500),
    ]
)
OPTIONS = st.sampled_from(
    [{}, {"notify_on_gc": True}, {"summary": "much was said"}, {"target_percent": 30.0}]
)


@settings(max_examples=40, deadline=None)
@given(
    config=CONFIGS,
    options=OPTIONS,
    turns=st.integers(0, 12),
    more=st.integers(1, 8),
    seed=st.integers(0, 999),
    hidden=st.sampled_from([0, 150]),
    undo=st.booleans(),
    room=st.sampled_from([0, 900]),
)
def test_a_restored_session_continues_like_the_saved_one(
    config: GCConfig,
    options: dict[str, Any],
    turns: int,
    more: int,
    seed: int,
    hidden: int,
    undo: bool,
    room: int,
) -> None:
    model = DummyModel(4000, hidden_tokens=hidden, seed=seed)
    plugin = Oldest()
    plugin.initialize(options)
    saved = session_with(plugin, config, provider=model, tools=model.run_tool, context_limit=4000)
    saved.set_output_reserve(room)
    for turn in range(turns):
        saved.send_message(f"request {turn}")
    if undo and any(each.items_collected for each in saved.get_gc_history()):
        saved.undo()
    twin = copy.deepcopy(model)
    restored = restore(saved.save(), twin, tools=twin.run_tool)
    assert restored.history == saved.history
    assert restored.get_gc_history() == saved.get_gc_history()
    assert restored.budget.snapshot() == saved.budget.snapshot()
    for turn in range(more):
        for session in (saved, restored):
            session.send_message(f"request {turns + turn}")
    assert content(restored) == content(saved)
    assert account(restored) == account(saved)
    assert restored.get_context_usage() == saved.get_context_usage()
    assert restored.config == saved.config
    assert restored.paused_because == saved.paused_because
    assert_in_step(restored)


@settings(max_examples=60, deadline=None)
@given(histories(min_turns=0))
def test_messages_are_restored_unchanged(history: list[Message]) -> None:
    session = session_with()
    for message in history:
        session.append(message)
    saved = session.save()
    again = restore(saved)
    assert again.history == session.history == history
    assert json.loads(again.save()) == json.loads(saved)


def test_attachments_and_provider_fields_survive() -> None:
    message = Message(
        Role.USER,
        [
            Part(inline_data=InlineData("image/png", bytes(range(256)), width=8, height=8)),
            Part(inline_data=InlineData("image/png", "aGFsbG8=")),
            Part(inline_data=InlineData("image/png", uri="https://example.org/x.png")),
            Part(inline_data=InlineData("image/png", b"")),
            Part(thought="hm", extra={"signature": "c2ln"}),
            Part(text=""),
        ],
        extra={"cache_control": {"type": "ephemeral"}},
        policy=GCPolicy.PRESERVABLE,
    )
    session = session_with()
    session.append(message)
    assert restore(session.save()).history == [message]


def test_odd_text_survives() -> None:
    session = session_with()
    session.append(Message.from_text(Role.USER, "\ud800 \x00 </context-summary> 👩‍👩‍👧‍👦"))
    assert restore(session.save()).history == session.history


# --- what survives ---


def test_pins_survive_and_later_turns_are_pinned_too() -> None:
    session = session_with(Oldest(), GCConfig(preserve_recent_turns=1, pinned_turn_indices=[1, 3]))
    speak(session, 0, 1, 2)
    session.pin("a2")
    again = restore(session.save())
    speak(again, 3, 4, 5)
    again.manual_gc()
    assert message_ids(again) == ["u0", "u1", "a1", "a2", "u3", "a3", "u5", "a5"]


def test_an_invalid_history_is_still_refused_after_a_restore() -> None:
    session = session_with(Oldest())
    speak(session, 0)
    session.append(Message(Role.MODEL, [Part(function_call=FunctionCall("c", "look"))]))
    speak(session, 1)
    for each in (session, restore(session.save())):
        with pytest.raises(InvalidHistoryError, match="look"):
            each.before_send()


def test_the_journal_survives() -> None:
    session = session_with(Oldest())
    speak(session, *range(5))
    session.manual_gc(preserve_recent_turns=3)
    session.manual_gc()
    again = restore(session.save())
    again.undo()
    again.undo("gc_1")
    assert message_ids(again) == [f"{who}{turn}" for turn in range(5) for who in "ua"]
    assert [again.was_undone(each.gc_id or "") for each in again.get_gc_history()] == [True, True]


def test_content_that_the_journal_no_longer_keeps_stays_lost() -> None:
    session = session_with(Oldest(), journal_bytes=10)
    speak(session, *range(5))
    session.manual_gc(preserve_recent_turns=3)
    session.manual_gc()
    again = restore(session.save())
    again.undo()
    with pytest.raises(GCError, match="journal_bytes"):
        again.undo()


def test_an_undo_is_respected_after_a_restore() -> None:
    session = session_with(Oldest(), context_limit=650)
    speak(session, *range(5))
    session.manual_gc()
    session.undo()
    again = restore(session.save())
    assert again.after_turn() is None
    speak(again, 5)
    assert again.after_turn() is not None


def test_a_restored_session_waits_after_a_missed_goal_too() -> None:
    session = session_with(NoGCPlugin(), context_limit=650)
    speak(session, *range(5))
    assert session.after_turn() is not None
    again = restore(session.save())
    assert again.paused_because == session.paused_because is not None
    assert again.after_turn() is None
    again.budget.update_tokens(InstructionSource.ENRICHMENT, 13)
    assert restore(again.save()).after_turn() is not None


def test_numbers_of_collections_and_summaries_are_never_reused() -> None:
    plugin = Oldest()
    plugin.initialize({"summary": "much was said"})
    session = session_with(plugin)
    speak(session, *range(3))
    session.manual_gc()
    again = restore(session.save())
    speak(again, 3, 4)
    assert again.manual_gc().gc_id == "gc_2"
    entries = again.budget.entries[InstructionSource.CONVERSATION].children
    assert {"gc_summary_1", "gc_summary_2", "turn_4"} <= set(entries)


def test_a_disabled_strategy_stays_disabled() -> None:
    class Stuck(Oldest):
        def select(self, _collection: Collection) -> None:
            release.wait(60)

    release = threading.Event()
    session = session_with(Stuck(), deadline_seconds=0.02)
    speak(session, 0, 1)
    session.manual_gc()
    release.set()
    again = restore(session.save())
    assert again.paused_because == session.paused_because is not None
    assert again.manual_gc().outcome is GCOutcome.FAILED


def test_anchoring_survives() -> None:
    session = session_with(Oldest())
    speak(session, 0)
    session.before_send()
    session.report_usage(500, 10)
    again = restore(session.save())
    assert again.get_context_usage() == session.get_context_usage()
    assert again.get_context_usage()["total_tokens"] == 500
    for each in (session, again):
        each.report_usage(600)
    assert again.get_context_usage() == session.get_context_usage()


def test_a_crossed_threshold_is_collected_for_after_a_restore() -> None:
    session = session_with(Oldest(), context_limit=1000)
    speak(session, *range(4))
    session.report_usage(100, 800)
    again = restore(session.save())
    told: list[float] = []
    again.on_gc_threshold = lambda percent, _: told.append(percent)
    again.report_usage(100, 800)
    assert told == []
    result = again.after_turn()
    assert result is not None
    assert result.trigger_reason is GCTriggerReason.THRESHOLD


def test_a_strategy_is_restored_with_its_options() -> None:
    plugin = Oldest()
    plugin.initialize({"summary": "much was said", "preserve_recent_turns": 2})
    session = session_with(plugin, GCConfig(threshold_percent=70.0))
    again = restore(session.save())
    assert isinstance(again.strategy, Oldest)
    assert again.strategy.settings.summary == "much was said"
    assert again.config.preserve_recent_turns == 2
    assert again.config.threshold_percent == 70.0
    assert again.config.target_percent == session.config.target_percent


def test_a_session_without_a_strategy_is_restored_without_one() -> None:
    assert restore(session_with().save()).strategy is None


def test_a_strategy_whose_options_can_not_be_saved_must_be_given_to_restore() -> None:
    class Talking(Oldest):
        def initialize(self, config: dict[str, Any] | None = None) -> None:
            super().initialize(config)
            self.options = {"summarizer": print}

    session = session_with(Talking())
    speak(session, *range(3))
    saved = session.save()
    with pytest.raises(GCError, match=r"'gc_oldest'.*strategy="):
        restore(saved)
    plugin = Talking()
    assert restore(saved, strategy=plugin).strategy is plugin


def test_an_unknown_strategy_is_named() -> None:
    saved = session_with(Oldest()).save()
    with pytest.raises(GCError, match="gc_oldest"):
        restore(saved, registry=PluginRegistry(load_installed=False))


@pytest.mark.parametrize("able_then", [True, False])
def test_the_host_of_the_restored_session_decides_what_can_be_dropped(able_then: bool) -> None:
    class Enrichment(Oldest):
        def select(self, collection: Collection) -> None:
            super().select(collection)
            collection.remove_source(InstructionSource.ENRICHMENT, None, 0, "enrichment")

    able: dict[str, Any] = {"on_source_removed": lambda *_: None}
    session = session_with(Enrichment(), **(able if able_then else {}))
    speak(session, *range(3))
    again = restore(session.save(), strategy=Enrichment(), **({} if able_then else able))
    assert again.manual_gc().success is not able_then


def test_a_session_can_be_saved_while_an_observer_is_told() -> None:
    saved: list[str] = []
    session: GCSession = session_with(
        Oldest(), on_instruction_budget_updated=lambda _: saved.append(session.save())
    )
    speak(session, *range(3))
    session.manual_gc()
    session.undo()
    lengths = [len(restore(each).history) for each in saved]
    assert lengths == [1, 2, 3, 4, 5, 6, 3, 6]


def test_details_of_a_strategy_survive() -> None:
    class Chatty(Oldest):
        def select(self, collection: Collection) -> None:
            super().select(collection)
            collection.details.update({"number": 7, "names": ("a", "b"), "shares": {1: 0.5}})

    session = session_with(Chatty())
    speak(session, *range(3))
    result = session.manual_gc()
    assert result.details["names"] == ["a", "b"]
    assert result.details["shares"] == {"1": 0.5}
    assert restore(session.save()).get_gc_history() == [result]


# --- what can't be saved, and what can't be restored ---


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"raw", [lambda: None]], ids=["object", "set", "bytes", "function"]
)
def test_a_result_that_json_can_not_hold_is_named(value: Any) -> None:
    session = session_with()
    speak(session, 0)
    call = FunctionCall("x", "look")
    session.append(Message(Role.MODEL, [Part(function_call=call)]))
    answer = [Part(function_response=ToolResult("x", "look", value))]
    session.append(Message(Role.TOOL, answer, "the-culprit"))
    with pytest.raises(GCError, match="the-culprit"):
        session.save()


def test_a_result_that_contains_itself_is_named() -> None:
    endless: list[Any] = []
    endless.append(endless)
    session = session_with()
    call = FunctionCall("x", "look", {"at": endless})
    session.append(Message(Role.MODEL, [Part(function_call=call)], "the-culprit"))
    with pytest.raises(GCError, match="the-culprit"):
        session.save()


def example() -> dict[str, Any]:
    session = session_with(Oldest())
    speak(session, *range(4))
    session.manual_gc()
    saved: dict[str, Any] = json.loads(session.save())
    return saved


def places_in(data: Any) -> Iterator[tuple[Any, Any]]:
    """Returns all containers in JSON data, each with its keys."""
    keys = data if isinstance(data, dict) else range(len(data))
    for key in keys:
        yield data, key
        if isinstance(data[key], dict | list):
            yield from places_in(data[key])


@settings(max_examples=300, deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from([None, -1, 10**9, 1.5, "x", "", [], [[]], {}, {"x": 1}, True]),
)
def test_a_damaged_session_is_restored_or_refused_with_one_error(
    chance: random.Random, value: Any
) -> None:
    saved = example()
    container, key = chance.choice(list(places_in(saved)))
    if chance.random() < 0.2:
        del container[key]
    else:
        container[key] = value
    restored = session_or_refusal(json.dumps(saved))
    if isinstance(restored, str):
        assert restored.startswith("the saved session can't be restored")
    else:
        use(restored)
        assert restore(restored.save()).history == restored.history


def session_or_refusal(saved: str) -> GCSession | str:
    try:
        return restore(saved)
    except SavedSessionError as error:
        return str(error)


def use(session: GCSession) -> None:
    """Uses all that a saved session contains."""
    session.append(Message.from_text(Role.USER, "go on"))
    with suppress(GCError):
        session.before_send()
        session.manual_gc()
        session.undo()
        session.undo()


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "7", '"x"', "{}", "[" * 100_000])
def test_text_that_is_not_a_saved_session_is_refused(text: str) -> None:
    with pytest.raises(GCError, match="can't be restored"):
        restore(text)


def test_a_truncated_text_is_refused() -> None:
    text = json.dumps(example())
    for end in range(0, len(text), 97):
        with pytest.raises(GCError, match="can't be restored"):
            restore(text[:end])


@pytest.mark.parametrize("format", [99, 0, "1", None, [1], True])
def test_another_format_is_refused(format: object) -> None:
    with pytest.raises(SavedSessionError, match=r"has format .*: restore it with the version"):
        restore(json.dumps(example() | {"format": format}))


def test_another_counter_is_refused() -> None:
    class Other(EstimateCounter):
        name = "other"

    with pytest.raises(GCError, match=r"'estimate'.*'other'"):
        restore(json.dumps(example()), counter=Other())


@pytest.mark.parametrize("key", sorted(example().keys() - {"plugin", "disabled"}))
def test_a_missing_or_wrong_field_is_refused(key: str) -> None:
    saved = example()
    values: tuple[Any, ...] = ("x", None, [[None]], {"x": {}}, 1.5)
    for wrong in values:
        if key in ("counter", "plugin_options") and wrong in (None, "x"):
            continue
        if key in ("counted_at_request", "requested_at", "paused_at") and wrong is None:
            continue
        if key == "requested_at" and wrong == 1.5:  # a time
            continue
        with pytest.raises(GCError, match=r"can't be restored|could not be saved"):
            restore(json.dumps(saved | {key: wrong}))
    del saved[key]
    with pytest.raises(GCError, match="can't be restored"):
        restore(json.dumps(saved))


Spoil = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda saved: saved["history"].append(99),
        lambda saved: saved["history"].append({}),
        lambda saved: saved["history"][0].update(role="narrator"),
        lambda saved: saved["history"][0]["parts"].append("text"),
        lambda saved: saved["history"][0].update(parts=[{"text": 7}]),
        lambda saved: saved["history"][0].pop("message_id"),
        lambda saved: saved["budget"].pop("entries"),
        lambda saved: saved["budget"].update(context_limit="large"),
        lambda saved: saved["budget"].update(unbooked_tokens=None),
        lambda saved: saved["budget"]["entries"]["conversation"].update(tokens=-5),
        lambda saved: saved["config"].update(threshold=80),
        lambda saved: saved.pop("recorded"),
        lambda saved: saved.update(recorded="many"),
        lambda saved: saved["journal"].append(saved["journal"][0]),
        lambda saved: saved["journal"][0].update(state="lost"),
        lambda saved: saved["journal"][0].pop("applied"),
        lambda saved: saved["journal"][0]["applied"]["edits"][0].pop("position"),
        lambda saved: saved["journal"][0]["applied"]["edits"][0].update(position="x"),
        lambda saved: saved["journal"][0]["applied"]["edits"][0].update(before=99),
        lambda saved: saved["journal"][0]["applied"]["edits"][0]["before"].pop("role"),
        lambda saved: saved["journal"][0]["applied"].update(length="x"),
        lambda saved: saved["journal"][0]["applied"]["touched"][0].update(gc_policy="kept"),
        lambda saved: saved["journal"][0]["result"].update(outcome="great"),
        lambda saved: saved["places"].update(u0="first"),
        lambda saved: saved.update(waits_until="soon"),
        lambda saved: saved.update(turns_opened="3"),
    ],
)
def test_a_damaged_field_is_refused(spoil: Spoil) -> None:
    saved = example()
    spoil(saved)
    with pytest.raises(GCError, match="can't be restored"):
        restore(json.dumps(saved))


def test_a_session_may_be_restored_into_another_window() -> None:
    session = session_with(Oldest())
    speak(session, *range(30))
    smaller = session.get_context_usage()["total_tokens"]

    restored = restore(session.save(), context_limit=smaller)

    assert restored.get_context_usage()["context_limit"] == smaller
    assert restored.get_context_usage()["total_tokens"] < smaller
    assert len(restored.history) < len(session.history)
