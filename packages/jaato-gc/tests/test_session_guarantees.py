"""The guarantees of a session, for any strategy."""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Any, cast

import pytest

from jaato_gc import (
    ContextFloorError,
    FunctionCall,
    GCConfig,
    GCError,
    GCOutcome,
    GCPlugin,
    GCPluginError,
    GCPolicy,
    GCRemovalItem,
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
    check_history,
    count_tokens,
)
from jaato_gc.plugin import Collection, fenced, hookimpl
from jaato_gc_testing import (
    COUNTER,
    LONG_TEXT,
    DummyModel,
    NoGCPlugin,
    OldestFirst,
    ScriptedPlugin,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    saved_state,
    speak,
)

SYSTEM, PLUGIN, ENRICHMENT, CONVERSATION = InstructionSource
LOCKED, PRESERVABLE = GCPolicy.LOCKED, GCPolicy.PRESERVABLE
PARTIAL, EPHEMERAL = GCPolicy.PARTIAL, GCPolicy.EPHEMERAL


class Oldest(OldestFirst):
    """Removes the oldest turns, and records why it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[GCTriggerReason] = []

    def select(self, collection: Collection) -> None:
        self.reasons.append(collection.reason)
        super().select(collection)


Deed = Callable[[list[Message]], Any]


class Rogue(ScriptedPlugin):
    """A plugin of this module that runs a function on the history."""

    name = "gc_rogue"


def said(message_id: str, text: str = LONG_TEXT, **fields: Any) -> Message:
    role = {"u": Role.USER, "a": Role.MODEL, "s": Role.SYSTEM}[message_id[0]]
    return Message.from_text(role, text, message_id=message_id, **fields)


def calls(message_id: str, *call_ids: str, name: str = "look") -> Message:
    parts = [Part(function_call=FunctionCall(each, name)) for each in call_ids]
    return Message(Role.MODEL, parts, message_id)


def answers(message_id: str, *call_ids: str, name: str = "look") -> Message:
    parts = [Part(function_response=ToolResult(each, name, LONG_TEXT)) for each in call_ids]
    return Message(Role.TOOL, parts, message_id)


def conversation() -> list[Message]:
    """Returns six turns: u0 is LOCKED, a2 gets pinned, u5 and a5 are recent."""
    thinking = Message(
        Role.MODEL, [Part(thought="hmm", extra={"sig": 1}), Part(text=LONG_TEXT)], "a1"
    )
    turns = [*map(said, ("s", "u0", "a0", "u1")), calls("c", "x", "y")]
    turns += [answers("rx", "x"), answers("ry", "y"), thinking]
    return turns + [said(f"{who}{turn}") for turn in range(2, 6) for who in "ua"]


def recent_only(plugin: GCPlugin | None = None, /, **options: Any) -> GCSession:
    """Returns a session that preserves one recent turn."""
    config = GCConfig(**({"preserve_recent_turns": 1} | options.pop("config", {})))
    return new_session(plugin, config, **({"context_limit": 10_000} | options))


def filled_session(plugin: GCPlugin, /, **options: Any) -> GCSession:
    session = recent_only(plugin, **options)
    for message in conversation():
        session.append(message)
    session.pin("a2")
    return session


# --- deeds ---


def result(*items: GCRemovalItem, **fields: Any) -> GCResult:
    success = fields.pop("success", True)
    reason = GCTriggerReason.THRESHOLD
    return GCResult(success, 0, 0, 0, "?", reason, removal_list=list(items), **fields)


def item(*message_ids: str, **fields: Any) -> GCRemovalItem:
    return GCRemovalItem(CONVERSATION, "some", message_ids=list(message_ids), **fields)


def left(history: list[Message], gone: tuple[str, ...]) -> list[Message]:
    return [message for message in history if message.message_id not in gone]


def remove(*gone: str) -> Deed:
    return lambda history: (left(history, gone), result(item(*gone)))


def remove_and_say(gone: tuple[str, ...], *items: GCRemovalItem) -> Deed:
    return lambda history: (left(history, gone), result(*items))


def alter(message_id: str, *items: GCRemovalItem, parts: list[Part] | None = None) -> Deed:
    def deed(history: list[Message]) -> Any:
        parts_now = parts if parts is not None else [Part(text="x")]
        after = [
            each.with_parts(parts_now) if each.message_id == message_id else each
            for each in history
        ]
        return after, result(*items)

    return deed


def add(message: Message) -> Deed:
    return lambda history: ([*history, message], result())


def swap(history: list[Message]) -> Any:
    history[-3], history[-4] = history[-4], history[-3]
    return history, result()


def grow(history: list[Message]) -> Any:
    summary = fenced(SyntheticKind.SUMMARY, LONG_TEXT * 20)
    message = Message.from_text(Role.USER, summary, synthetic=SyntheticKind.SUMMARY)
    return [*left(history, ("u3", "a3")), message], result(item("u3", "a3"))


def take_source(source: InstructionSource, key: str | None) -> Deed:
    return lambda history: (history, result(GCRemovalItem(source, key, 10)))


REJECTED: dict[str, tuple[Deed, str, str | None]] = {
    "removes a locked message": (remove("u0", "a0"), "protected_kept", "u0"),
    "removes a system message": (remove("s"), "protected_kept", "s"),
    "removes a pinned message": (remove("a2"), "protected_kept", "a2"),
    "removes a recent message": (remove("a5"), "protected_kept", "a5"),
    "orphans results": (remove("c"), "results_have_calls", "rx"),
    "splits a parallel batch": (remove("ry"), "calls_have_results", "c"),
    "reorders": (swap, "order_kept", "u4"),
    "changes text": (alter("a3"), "was changed", "a3"),
    "changes text and calls it shortened": (
        alter("a3", item("a3", action="shorten")),
        "was changed",
        "a3",
    ),
    "changes thoughts": (alter("a1", item("a1", action="shorten")), "was changed", "a1"),
    "changes a locked text": (alter("u0", item("u0", action="shorten")), "was changed", "u0"),
    "changes a pinned text": (alter("a2", item("a2", action="shorten")), "was changed", "a2"),
    "changes a recent text": (alter("a5", item("a5", action="shorten")), "was changed", "a5"),
    "empties a message": (
        alter("a3", item("a3", action="shorten"), parts=[]),
        "was changed",
        "a3",
    ),
    "conceals a removal": (
        remove_and_say(("u3", "a3"), item("u3")),
        "removal_list_is_true",
        "a3",
    ),
    "invents a removal": (
        remove_and_say(("u3",), item("u3", "a3")),
        "removal_list_is_true",
        "a3",
    ),
    "invents the removal of a turn": (
        remove_and_say((), GCRemovalItem(CONVERSATION, "turn_3")),
        "removal_list_is_true",
        "a3",
    ),
    "lists a removal twice": (
        remove_and_say(("u3", "a3"), item("u3"), item("a3")),
        "removal_list_is_true",
        None,
    ),
    "grows the history": (grow, "never_larger", None),
    "adds a user message": (add(said("u9", "buy!")), "never_larger", None),
    "adds a model message": (add(said("a9", "buy!")), "is new", "a9"),
    "repeats a message": (add(said("u4")), "twice", "u4"),
    "takes the system": (take_source(SYSTEM, None), "source_is_collectable", None),
    "takes tools": (take_source(PLUGIN, "search"), "source_is_collectable", None),
}


@pytest.mark.parametrize(("deed", "invariant", "message_id"), REJECTED.values(), ids=REJECTED)
def test_a_broken_invariant_is_rejected(deed: Deed, invariant: str, message_id: str | None) -> None:
    session = filled_session(Rogue(deed), config={"preserve_recent_groups": 0})
    before = saved_state(session)
    outcome = session.manual_gc()
    assert outcome.outcome is GCOutcome.REJECTED
    assert not outcome.success
    assert outcome.tokens_freed == outcome.items_collected == 0
    assert outcome.removal_list == []
    assert outcome.error is not None
    for named in ("gc_rogue", __name__, invariant, repr(message_id) if message_id else ""):
        assert named in outcome.error
    assert saved_state(session) == before
    assert session.get_gc_history() == [outcome]


def test_a_rejection_names_the_distribution_and_its_version() -> None:
    class Shipped(Rogue):
        __module__ = "pluggy.plugin"

    outcome = filled_session(Shipped(remove("u0", "a0"))).manual_gc()
    assert outcome.error is not None
    assert outcome.error.startswith(f"gc_rogue of pluggy {version('pluggy')}: protected_kept")


INVALID_ANSWERS: dict[str, Deed] = {
    "nothing": lambda _: None,
    "a history alone": lambda history: history,
    "three things": lambda history: (history, result(), 3),
    "no messages": lambda _: (["lorem"], result()),
    "a result of another type": lambda history: (history, {"success": True}),
    "a removal list of texts": lambda history: (
        history,
        replace(result(), removal_list=["turn_3"]),  # type: ignore[list-item]
    ),
    "a removal list of the wrong type": lambda history: (
        history,
        replace(result(), removal_list="turn_3"),  # type: ignore[arg-type]
    ),
    "details that are no dict": lambda history: (history, result(details=["turn_3"])),
    "an outcome of its own": lambda history: (history, result(outcome="great")),
    "a source of its own": lambda history: (
        history,
        result(GCRemovalItem("attic", "x")),  # type: ignore[arg-type]
    ),
    "ids that are no strings": lambda history: (
        history,
        result(GCRemovalItem(CONVERSATION, "x", message_ids=[["u3"]])),  # type: ignore[list-item]
    ),
}


@pytest.mark.parametrize("deed", INVALID_ANSWERS.values(), ids=INVALID_ANSWERS)
def test_an_invalid_answer_is_rejected(deed: Deed) -> None:
    session = filled_session(Rogue(deed))
    before = saved_state(session)
    outcome = session.manual_gc()
    assert outcome.outcome is GCOutcome.REJECTED
    assert "gc_rogue" in str(outcome.error)
    assert saved_state(session) == before


def test_a_strategy_that_raises_has_failed() -> None:
    session = filled_session(Rogue(lambda history: history[99]))
    before = saved_state(session)
    outcome = session.manual_gc()
    assert outcome.outcome is GCOutcome.FAILED
    assert "gc_rogue" in str(outcome.error)
    assert "IndexError" in str(outcome.error)
    assert saved_state(session) == before


@pytest.mark.parametrize(
    "fields",
    [{"success": False}, {"outcome": GCOutcome.FAILED}, {"success": False, "outcome": "reached"}],
)
def test_a_strategy_that_says_it_failed_changes_nothing(fields: dict[str, Any]) -> None:
    fields = fields | ({"outcome": GCOutcome(fields["outcome"])} if "outcome" in fields else {})
    session = filled_session(
        Rogue(lambda history: (left(history, ("u3", "a3")), result(item("u3", "a3"), **fields)))
    )
    before = saved_state(session)
    outcome = session.manual_gc()
    assert (outcome.success, outcome.outcome) == (False, GCOutcome.FAILED)
    assert outcome.tokens_freed == 0
    assert outcome.removal_list == []
    assert saved_state(session) == before


def test_a_strategy_that_empties_its_list_of_messages_changes_nothing() -> None:
    def deed(history: list[Message]) -> Any:
        history.clear()
        raise RuntimeError("oops")

    session = filled_session(Rogue(deed))
    before = saved_state(session)
    session.manual_gc()
    assert saved_state(session) == before


def test_a_strategy_cannot_change_a_plan_that_was_checked() -> None:
    returned: list[Any] = []

    def deed(history: list[Message]) -> Any:
        returned.append(remove("u3", "a3")(history))
        return returned[0]

    session = filled_session(Rogue(deed))
    plan = session.plan_gc()
    returned[0][0].clear()
    returned[0][1].removal_list.clear()
    outcome = session.apply(plan)
    assert set(message_ids(session)) == {each.message_id for each in conversation()} - {"u3", "a3"}
    assert [each.message_ids for each in outcome.removal_list] == [["u3", "a3"]]


@pytest.mark.parametrize("removed", [("u3", "a3"), ("u3", "a3", "u4", "a4")])
def test_messages_since_the_last_request_are_checked_after_a_collection(
    removed: tuple[str, ...],
) -> None:
    session = filled_session(Rogue(remove(*removed)))
    session.append(said("u6"))
    session.before_send()
    session.append(calls("dangling", "z"))
    session.append(said("u7"))

    assert session.manual_gc().success
    with pytest.raises(InvalidHistoryError, match="dangling"):
        session.before_send()


def test_figures_are_recounted() -> None:
    lie = item("u3", "a3", tokens_freed=10**9)
    deed = remove_and_say(("u3", "a3"), lie)
    session = filled_session(Rogue(deed))
    before = session.budget.total_tokens()
    freed = count_tokens([said("u3"), said("a3")], COUNTER)
    outcome = session.manual_gc()
    assert (outcome.tokens_before, outcome.tokens_after) == (before, before - freed)
    assert outcome.removal_list[0].tokens_freed == freed
    assert (outcome.plugin_name, outcome.trigger_reason) == ("gc_rogue", GCTriggerReason.MANUAL)
    assert_in_step(session)


def test_the_session_decides_the_outcome() -> None:
    def boast(history: list[Message]) -> Any:
        return history, result(outcome=GCOutcome.REACHED)

    session = filled_session(Rogue(boast))
    assert session.manual_gc().outcome is GCOutcome.NO_GAIN


def test_a_removal_list_may_name_turns_only() -> None:
    turn = GCRemovalItem(CONVERSATION, "turn_3", 5, "old")
    session = filled_session(Rogue(remove_and_say(("u3", "a3"), turn)))
    outcome = session.manual_gc()
    assert outcome.outcome is GCOutcome.REACHED, outcome.error
    assert outcome.removal_list[0].message_ids == ["u3", "a3"]
    assert_in_step(session)


# --- deadlines, questions, shutting down ---


def test_a_strategy_that_hangs_is_disabled() -> None:
    release = threading.Event()

    def hang(history: list[Message]) -> Any:
        release.wait(60)
        return remove("u3", "a3")(history)

    plugin = Rogue(hang)
    session = filled_session(plugin, deadline_seconds=0.02)
    before = saved_state(session)
    outcome = session.manual_gc()
    release.set()
    assert outcome.outcome is GCOutcome.FAILED
    assert "gc_rogue" in str(outcome.error)
    assert "0.02 s" in str(session.paused_because)
    again = session.manual_gc()
    assert again.outcome is GCOutcome.FAILED
    assert plugin.calls == 1
    assert saved_state(session) == before


def test_another_strategy_can_replace_a_disabled_one() -> None:
    release = threading.Event()
    session = filled_session(Rogue(lambda _: release.wait(60)), deadline_seconds=0.02)
    session.manual_gc()
    release.set()
    session.set_gc_plugin(Oldest(), GCConfig(preserve_recent_turns=1))
    assert session.paused_because is None


def test_a_strategy_within_its_deadline_works_as_usual() -> None:
    session = filled_session(Oldest(), deadline_seconds=60.0)
    assert session.manual_gc().outcome is GCOutcome.REACHED


@pytest.mark.parametrize("is_base_class", [True, False])
def test_a_strategy_that_hangs_in_should_collect_is_disabled(is_base_class: bool) -> None:
    release = threading.Event()
    asked: list[str] = []

    def hang() -> Any:
        asked.append("again")
        release.wait(60)
        return False, None

    class Undecided(Oldest):
        def should_collect(self, *_: Any) -> Any:
            return hang()

    class UndecidedRogue(Rogue):
        def should_collect(self, *_: Any) -> Any:
            return hang()

    plugin = Undecided() if is_base_class else UndecidedRogue(remove("u3", "a3"))
    session = filled_session(plugin, deadline_seconds=0.02)
    before = saved_state(session)
    assert session.before_send() == session.history
    session.after_turn()
    release.set()
    assert asked == ["again"]
    assert "should_collect took more than 0.02 s" in str(session.paused_because)
    assert saved_state(session)["history"] == before["history"]
    assert "should_collect" in str(session.manual_gc().error)


class Exit(BaseException):
    """An exit of a framework that is not an ``Exception``."""


@pytest.mark.parametrize("error", [SystemExit(3), Exit("out")], ids=["SystemExit", "Exit"])
@pytest.mark.parametrize("deadline", [None, 60.0])
@pytest.mark.parametrize("is_base_class", [True, False])
def test_a_strategy_can_not_end_the_process(
    is_base_class: bool, deadline: float | None, error: BaseException
) -> None:
    def leave(*_: Any) -> Any:
        raise error

    plugin = ScriptedStrategy(leave) if is_base_class else Rogue(leave)
    session = filled_session(plugin, deadline_seconds=deadline)
    before = saved_state(session)
    outcome = session.manual_gc()
    assert outcome.outcome is GCOutcome.FAILED
    assert f"{type(error).__name__}: {error}" in str(outcome.error)
    assert saved_state(session) == before


@pytest.mark.parametrize("deadline", [None, 60.0])
def test_a_strategy_can_not_collect_while_it_collects(deadline: float | None) -> None:
    plugin = ScriptedStrategy(lambda _: session.manual_gc())
    session = filled_session(plugin, deadline_seconds=deadline)
    before = saved_state(session)
    outcome = session.manual_gc()
    assert outcome.outcome is GCOutcome.FAILED
    assert "can't start another collection" in str(outcome.error)
    assert saved_state(session) == before
    assert len(session.get_gc_history()) == 1


@pytest.mark.parametrize("deadline", [None, 60.0])
def test_an_interrupt_during_a_collection_reaches_the_host(deadline: float | None) -> None:
    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    session = filled_session(Rogue(interrupted), deadline_seconds=deadline)
    before = saved_state(session)
    with pytest.raises(KeyboardInterrupt):
        session.manual_gc()
    assert saved_state(session) == before
    session.set_gc_plugin(Oldest(), GCConfig(preserve_recent_turns=1))
    assert session.manual_gc().outcome is GCOutcome.REACHED


def test_a_strategy_can_not_end_the_process_in_should_collect_or_shutdown() -> None:
    class Leaving(Oldest):
        def should_collect(self, *_: Any) -> Any:
            raise SystemExit(3)

        def shutdown(self) -> None:
            raise SystemExit(3)

    plugin = Leaving()
    session = filled_session(plugin, context_limit=count_tokens(conversation(), COUNTER))
    session.after_turn()
    assert plugin.reasons == [GCTriggerReason.THRESHOLD]  # core decided
    session.close()
    assert session.strategy is None


def test_an_observer_can_not_end_the_process() -> None:
    class Leaving:
        @hookimpl
        def jaato_gc_after_collect(self) -> None:
            raise SystemExit(3)

    def leave(_: Any) -> None:
        raise SystemExit(3)

    registry = PluginRegistry(load_installed=False)
    registry.register(Leaving(), "leaving")
    session = filled_session(Oldest(), registry=registry, on_instruction_budget_updated=leave)
    assert session.manual_gc().outcome is GCOutcome.REACHED


class Unnamed(Rogue):
    """A plugin whose name fails when it is read the second time."""

    def __init__(self, *names: Any) -> None:
        super().__init__(remove("u3", "a3"))
        self.names = list(names)

    @property
    def name(self) -> str:  # type: ignore[override]
        name = self.names.pop(0)
        if isinstance(name, BaseException):
            raise name
        return name  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [RuntimeError("no name"), SystemExit(3), None, 7, ""])
def test_a_strategy_without_a_usable_name_is_refused(name: Any) -> None:
    session = filled_session(Oldest())
    plugin, before = session.strategy, saved_state(session)
    with pytest.raises(GCPluginError, match=r"Unnamed can.t be used: .*name"):
        session.set_gc_plugin(Unnamed(name))
    assert session.strategy is plugin
    assert saved_state(session) == before


def test_the_name_of_a_strategy_is_read_once() -> None:
    session = filled_session(Unnamed("gc_once"))
    assert session.manual_gc().plugin_name == "gc_once"
    assert session.manual_gc().plugin_name == "gc_once"
    assert json.loads(session.save())["plugin"] == "gc_once"


@pytest.mark.parametrize("plugin", [42, object(), GCConfig()])
def test_something_that_is_not_a_strategy_is_refused(plugin: Any) -> None:
    session = filled_session(Oldest())
    before = session.strategy
    expected = f"expected a strategy or the name of one, got {type(plugin).__name__}"
    with pytest.raises(GCPluginError, match=expected):
        session.set_gc_plugin(plugin)
    assert session.strategy is before


def test_core_decides_if_should_collect_fails() -> None:
    class Mute(Oldest):
        def should_collect(self, *_: Any) -> Any:
            raise RuntimeError("no idea")

    plugin = Mute()
    session = filled_session(plugin, context_limit=count_tokens(conversation(), COUNTER))
    session.after_turn()
    assert plugin.reasons == [GCTriggerReason.THRESHOLD]


def test_pre_message_is_the_reason_if_the_strategy_names_none() -> None:
    class Terse(Oldest):
        def should_collect(self, *_: Any) -> Any:
            return True, None

    plugin = Terse()
    session = filled_session(plugin)
    session.before_send()
    session.after_turn()
    assert plugin.reasons == [GCTriggerReason.PRE_MESSAGE, GCTriggerReason.THRESHOLD]


@pytest.mark.parametrize("replace_it", [True, False])
def test_a_failing_shutdown_is_logged(replace_it: bool, caplog: pytest.LogCaptureFixture) -> None:
    class Clinging(Oldest):
        def shutdown(self) -> None:
            raise RuntimeError("never")

    session = filled_session(Clinging())
    if replace_it:
        session.set_gc_plugin(Oldest())
        assert isinstance(session.strategy, Oldest)
    else:
        session.close()
        assert session.strategy is None
    assert "never" in caplog.text


# --- the plugin of the seeds' README: no budget, no removal list ---


class MyCustomGCPlugin:
    @property
    def name(self) -> str:
        return "gc_custom"

    def initialize(self, config: Any = None) -> None:
        self._config = config or {}

    def shutdown(self) -> None:
        pass

    def should_collect(self, context_usage: Any, config: Any) -> Any:
        percent = context_usage.get("percent_used", 0)
        if percent >= config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(
        self,
        history: Any,
        context_usage: Any,  # noqa: ARG002
        config: Any,  # noqa: ARG002
        reason: Any,
    ) -> Any:
        new_history = history[-2:]
        outcome = GCResult(
            success=True,
            items_collected=len(history) - 2,
            tokens_before=0,
            tokens_after=0,
            plugin_name=self.name,
            trigger_reason=reason,
        )
        return new_history, outcome


def test_protected_groups_come_back_after_a_plugin_without_budget() -> None:
    session = recent_only(config={"preserve_recent_turns": 2})
    for message in conversation():
        session.append(message)
    session.set_gc_plugin(MyCustomGCPlugin(), GCConfig(preserve_recent_turns=2))  # type: ignore[arg-type]
    session.pin("rx")
    outcome = session.manual_gc()
    assert outcome.outcome is GCOutcome.REACHED, outcome.error
    assert message_ids(session) == ["s", "u0", "c", "rx", "ry", "u4", "a4", "u5", "a5"]
    removed = [each for one in outcome.removal_list for each in one.message_ids]
    assert removed == ["a0", "u1", "a1", "u2", "a2", "u3", "a3"]
    assert_in_step(session)
    session.undo()
    assert message_ids(session) == [message.message_id for message in conversation()]


def test_a_plugin_without_budget_keeps_the_window_from_overflowing() -> None:
    model = DummyModel(4000)
    session = recent_only(provider=model, tools=model.run_tool, context_limit=4000)
    session.set_gc_plugin(MyCustomGCPlugin(), GCConfig(preserve_recent_turns=1))  # type: ignore[arg-type]
    for turn in range(30):
        session.send_message(f"request {turn}")
        assert_in_step(session)
    assert model.refusals == 0
    assert any(each.success for each in session.get_gc_history())


# --- waiting after a collection that missed its goal ---


def full_session(plugin: GCPlugin, share: float = 0.85, **config: Any) -> GCSession:
    """Returns a session whose history takes this share of the window."""
    limit = int(count_tokens(conversation(), COUNTER) / share)
    return filled_session(plugin, context_limit=limit, config=config)


def removes_one_turn(collection: Collection) -> None:
    collection.remove(collection.turns[1].groups, "turn_1", "one_turn")


def raises(_collection: Collection) -> None:
    raise IndexError("no such turn")


@pytest.mark.parametrize(
    ("plugin", "outcome"),
    [
        (NoGCPlugin(), GCOutcome.NO_GAIN),
        (ScriptedStrategy(removes_one_turn), GCOutcome.SHORT),
        (ScriptedStrategy(raises), GCOutcome.FAILED),
        (Rogue(lambda history: (history[::-1], None)), GCOutcome.REJECTED),
        (Rogue(lambda history: (history, result(outcome=GCOutcome.REACHED))), GCOutcome.NO_GAIN),
    ],
    ids=lambda each: str(getattr(each, "name", each)),
)
def test_after_a_missed_goal_the_next_collection_waits_for_enough_tokens(
    plugin: GCPlugin, outcome: GCOutcome
) -> None:
    session = full_session(plugin, threshold_percent=40.0, target_percent=10.0)
    enough = int(session.budget.context_limit * 0.02)
    collected = session.after_turn()
    assert collected is not None
    assert collected.outcome is outcome
    total = session.budget.total_tokens()
    assert f"{total + enough} tokens" in (session.paused_because or "")

    session.budget.update_tokens(ENRICHMENT, enough - 1)
    assert session.after_turn() is None
    session.before_send()
    assert session.get_gc_history() == [collected]
    assert session.paused_because is not None

    session.budget.update_tokens(ENRICHMENT, enough)
    assert session.paused_because is None
    assert session.after_turn() is not None


def test_after_a_reached_goal_no_collection_waits() -> None:
    session = full_session(Oldest())
    collected = session.after_turn()
    assert collected is not None
    assert collected.outcome is GCOutcome.REACHED
    assert session.paused_because is None
    session.append(said("a9", "well " * 300))
    assert session.after_turn() is not None


def test_another_window_or_strategy_ends_the_waiting() -> None:
    session = full_session(NoGCPlugin())
    session.after_turn()
    assert session.set_context_limit(session.budget.context_limit - 1) is not None
    assert session.paused_because is not None
    session.set_gc_plugin(NoGCPlugin(), session.config)
    assert session.paused_because is None
    assert session.after_turn() is not None


def test_only_automatic_collections_wait() -> None:
    plugin = Rogue(lambda history: (history, result()))
    session = full_session(plugin)
    session.after_turn()
    assert session.paused_because is not None
    session.manual_gc()
    assert plugin.calls == 2
    session.recover_from_refusal()
    assert plugin.calls == 3


def test_a_request_that_does_not_fit_does_not_wait() -> None:
    plugin = Rogue(lambda history: (history, result()))
    session = full_session(plugin, share=0.99 / (1 + COUNTER.tolerance))
    session.after_turn()
    plugin.script = remove("u3", "a3", "u4", "a4")
    limit, total = session.budget.context_limit, session.budget.total_tokens()
    session.budget.update_tokens(ENRICHMENT, int(limit / (1 + COUNTER.tolerance)) - total + 2)
    assert session.paused_because is not None
    session.before_send()
    assert plugin.calls == 2
    assert not {"u3", "a3", "u4", "a4"} & set(message_ids(session))


# --- the window ---


def test_a_request_that_does_not_fit_is_not_sent() -> None:
    model = DummyModel(10_000)
    session = recent_only(Oldest(), provider=model, context_limit=300)
    session.append(said("s", "be kind"))
    session.budget.add_child(PLUGIN, "search", 40, LOCKED)
    with pytest.raises(ContextFloorError, match=r"Fixed are \d+") as caught:
        session.send_message(LONG_TEXT * 10)
    floor = caught.value.floor
    assert floor["system"] == count_tokens([said("s", "be kind")], COUNTER)
    assert floor["plugin"] == 40
    assert floor["conversation"] > 300
    assert sum(floor.values()) == session.budget.total_tokens()
    assert caught.value.result is None, "no strategy was asked"
    assert model.requests == model.refusals == 0


def test_without_a_strategy_a_request_that_does_not_fit_is_not_sent() -> None:
    model = DummyModel(10_000)
    session = recent_only(provider=model, context_limit=100)
    with pytest.raises(ContextFloorError, match="set_gc_plugin"):
        session.send_message(LONG_TEXT * 10)
    assert model.requests == 0


def test_auto_trigger_off_leaves_manual_and_context_limit() -> None:
    plugin = Oldest()
    session = full_session(plugin, auto_trigger=False, max_turns=1)
    session.before_send()
    assert session.after_turn() is None
    assert session.set_context_limit(session.budget.context_limit - 1) is None
    assert plugin.reasons == []
    session.set_context_limit(session.budget.total_tokens() - 1)
    session.before_send()
    assert plugin.reasons == [GCTriggerReason.CONTEXT_LIMIT]
    session.manual_gc()
    assert plugin.reasons[1:] == [GCTriggerReason.MANUAL]


def test_a_smaller_window_leads_to_a_collection_at_once() -> None:
    session = filled_session(Oldest())
    limit = int(session.budget.total_tokens() * 0.9)
    outcome = session.set_context_limit(limit)
    assert outcome is not None
    assert outcome.outcome is GCOutcome.REACHED
    assert session.budget.total_tokens() <= limit * 0.6
    assert session.set_context_limit(limit * 2) is None


def test_max_context_tokens_caps_the_window() -> None:
    total = count_tokens(conversation(), COUNTER)
    session = filled_session(Oldest(), config={"max_context_tokens": total})
    assert session.after_turn() is not None
    assert session.budget.total_tokens() <= total * 0.6


def test_room_for_the_answer_is_kept_free() -> None:
    total = count_tokens(conversation(), COUNTER)
    session = filled_session(NoGCPlugin(), context_limit=2 * total)
    session.before_send()
    session.set_gc_plugin(NoGCPlugin(), GCConfig(reserve_output_tokens=total))
    session.before_send()
    assert session.budget.total_tokens() * (1 + COUNTER.tolerance) <= total
    session.set_gc_plugin(NoGCPlugin(), GCConfig(reserve_output_tokens=int(1.8 * total)))
    with pytest.raises(ContextFloorError, match=f"only {2 * total - int(1.8 * total)} fit"):
        session.before_send()


def test_an_estimate_is_not_trusted_to_the_last_token() -> None:
    total = count_tokens(conversation(), COUNTER)
    session = filled_session(NoGCPlugin(), context_limit=total + 1)
    session.before_send()
    assert session.budget.total_tokens() * (1 + COUNTER.tolerance) <= total + 1


def test_restored_messages_are_as_uncertain_as_before_the_collection() -> None:
    """A report on the smaller request does not cover them."""
    total = count_tokens(conversation(), COUNTER)
    session = recent_only(Oldest(), context_limit=int(total * 1.02))
    for message in conversation()[:8]:
        session.append(message)
    session.report_usage(count_tokens(session.before_send(), COUNTER))
    for message in conversation()[8:]:
        session.append(message)
    session.manual_gc(target_percent=1.0)
    session.report_usage(count_tokens(session.before_send(), COUNTER))
    session.undo()
    session.close()
    with pytest.raises(ContextFloorError):
        session.before_send()


# --- pins ---


def test_pinned_turns_are_resolved_once_and_stay_through_collections() -> None:
    session = recent_only()
    for message in conversation()[:8]:  # turns 0 and 1
        session.append(message)
    config = GCConfig(preserve_recent_turns=1, pinned_turn_indices=[1, 3])
    session.set_gc_plugin(Oldest(), config)
    for message in conversation()[8:]:
        session.append(message)
    pinned = {"u1", "c", "rx", "ry", "a1", "u3", "a3"}
    assert session.budget.pinned_message_ids == pinned
    for turn in range(6, 9):
        assert session.manual_gc().success
        session.append(said(f"u{turn}"))
        session.append(said(f"a{turn}"))
    session.manual_gc()
    assert pinned <= set(message_ids(session))
    assert session.budget.pinned_message_ids == pinned
    assert not {"u2", "a2", "u4", "a4"} & set(message_ids(session))


def test_a_pinned_turn_that_continues_is_pinned_to_its_end() -> None:
    session = recent_only()
    session.append(said("u0"))
    session.set_gc_plugin(Oldest(), GCConfig(pinned_turn_indices=[0]))
    for message_id in ("a0", "u1"):
        session.append(said(message_id))
    assert session.budget.pinned_message_ids == {"u0", "a0"}


@pytest.mark.parametrize("greeted_before", [True, False])
def test_a_greeting_belongs_to_the_first_pinned_turn(greeted_before: bool) -> None:
    session = recent_only()
    config = GCConfig(pinned_turn_indices=[0])
    if greeted_before:
        session.append(said("a"))
        session.set_gc_plugin(Oldest(), config)
    else:
        session.set_gc_plugin(Oldest(), config)
        session.append(said("a"))
    for message_id in ("u0", "a0", "u1"):
        session.append(said(message_id))
    assert session.budget.pinned_message_ids == {"a", "u0", "a0"}


def test_pin_and_unpin() -> None:
    session = filled_session(Oldest(), config={"preserve_recent_groups": 0})
    session.pin("ry")
    session.manual_gc()
    assert {"a2", "c", "rx", "ry"} <= set(message_ids(session))
    session.unpin("ry")
    session.unpin("never pinned")
    session.manual_gc()
    assert not {"c", "rx", "ry"} & set(message_ids(session))
    with pytest.raises(GCError, match="'ry'"):
        session.pin("ry")


def test_a_message_that_the_host_locks_between_collections_stays() -> None:
    session = recent_only(Oldest())
    speak(session, *range(20), calls=1)
    assert session.manual_gc(preserve_recent_turns=10).success
    session.budget.add_child(CONVERSATION, "kept", 0, LOCKED, message_ids=["r12.0"])

    session.manual_gc(target_percent=0, preserve_recent_groups=0)

    assert message_ids(session) == ["u0", "c12.0", "r12.0", "u19", "a19"]


def test_turns_can_be_pinned_for_one_collection() -> None:
    session = filled_session(Oldest())
    session.manual_gc(pinned_turn_indices=[3])
    assert {"u3", "a3"} <= set(message_ids(session))
    assert session.budget.pinned_message_ids == {"a2"}
    session.manual_gc()
    assert not {"u3", "a3"} & set(message_ids(session))


# --- ids and policies ---


def test_a_taken_id_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    session = recent_only()
    first, second = session.append(said("u0")), session.append(said("u0"))
    assert first.message_id == "u0" != second.message_id
    assert second.text == LONG_TEXT
    assert "u0" in caplog.text
    assert_in_step(session)


def policy(session: GCSession, message_id: str) -> GCPolicy:
    entry = session.budget.entry_of(message_id)
    assert entry is not None
    return entry.binding_policy()


def test_default_policies() -> None:
    session = filled_session(Oldest())
    found = {each: policy(session, each) for each in ("s", "u0", "a0", "u1", "c", "ry")}
    assert list(found.values()) == [LOCKED, LOCKED, PARTIAL, PARTIAL, EPHEMERAL, EPHEMERAL]


def test_policies_per_message_tool_and_callable() -> None:
    session = recent_only(
        Oldest(),
        policy_of=lambda message: PRESERVABLE if "important" in message.text else None,
        tool_policies={"plan": LOCKED},
    )
    for message in (
        said("u0", LONG_TEXT, policy=EPHEMERAL),
        said("a0", "important", policy=LOCKED),
        said("u1", "important too"),
        calls("c1", "x", name="plan"),
        answers("r1", "x", name="plan"),
        calls("c2", "y"),
        answers("r2", "y"),
        said("a1"),
        said("u2"),
    ):
        session.append(message)
    found = [policy(session, message_id) for message_id in message_ids(session)]
    assert found[:5] == [EPHEMERAL, LOCKED, PRESERVABLE, LOCKED, LOCKED]
    assert found[5:] == [EPHEMERAL, EPHEMERAL, PARTIAL, PARTIAL]
    session.manual_gc()
    assert {"a0", "c1", "r1", "u2"} <= set(message_ids(session))
    assert_in_step(session)


def test_a_result_is_never_booked_with_the_exchange_before() -> None:
    session = recent_only()
    locked = replace(calls("c2", "y"), policy=LOCKED)
    for message in (said("u0"), calls("c1", "x"), answers("r1", "x"), locked, answers("r2", "y")):
        session.append(message)
    entry = session.budget.entry_of("r1")
    assert entry is not None
    assert entry.message_ids == ["c1", "r1"]


# --- what is not in the history ---


def test_tools_are_never_removed_without_on_source_removed() -> None:
    session = filled_session(Rogue(take_source(PLUGIN, "search")))
    session.budget.add_child(PLUGIN, "search", 40, EPHEMERAL)
    assert "source_is_collectable" in str(session.manual_gc().error)
    assert session.budget.get_child(PLUGIN, "search") is not None


def test_the_host_drops_what_a_collection_removes_outside_the_history() -> None:
    dropped: list[tuple[InstructionSource, str | None]] = []

    def both(history: list[Message]) -> Any:
        items = (GCRemovalItem(PLUGIN, "search", 0), GCRemovalItem(ENRICHMENT, None, 10**6))
        return left(history, ("u3", "a3")), result(*items, item("u3", "a3"))

    session = filled_session(
        Rogue(both), on_source_removed=lambda source, key: dropped.append((source, key))
    )
    session.budget.add_child(PLUGIN, "search", 40, EPHEMERAL)
    session.budget.update_tokens(ENRICHMENT, 30)
    before = session.budget.total_tokens()
    freed = 70 + count_tokens([said("u3"), said("a3")], COUNTER)
    plan = session.plan_gc()
    assert plan.result.tokens_freed == freed
    assert dropped == []
    outcome = session.apply(plan)
    assert outcome.tokens_freed == freed
    by_source = {each.source: each.tokens_freed for each in outcome.removal_list}
    assert by_source == {CONVERSATION: freed - 70, PLUGIN: 40, ENRICHMENT: 30}
    assert dropped == [(PLUGIN, "search"), (ENRICHMENT, None)]
    assert session.budget.total_tokens() == before - freed
    assert_in_step(session)


@pytest.mark.parametrize(
    ("key", "invariant"),
    [("core", "protected_kept"), (None, "protected_kept"), ("other", "removal_list_is_true")],
)
def test_locked_and_unknown_tools_cannot_be_removed(key: str | None, invariant: str) -> None:
    dropped: list[object] = []
    session = filled_session(
        Rogue(take_source(PLUGIN, key)), on_source_removed=lambda *each: dropped.append(each)
    )
    session.budget.add_child(PLUGIN, "core", 40, LOCKED)
    session.budget.add_child(PLUGIN, "search", 40, EPHEMERAL)
    before = saved_state(session)
    assert invariant in str(session.manual_gc().error)
    assert saved_state(session) == before
    assert dropped == []


# --- observers ---


class Watcher:
    """Implements every observer hook."""

    def __init__(self, fails: bool = False) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.fails = fails

    def note(self, what: str, value: Any) -> None:
        self.seen.append((what, value))
        if self.fails:
            raise RuntimeError(f"{what} went wrong")

    @hookimpl
    def jaato_gc_before_collect(
        self, strategy: str, history: tuple[Message, ...], reason: GCTriggerReason
    ) -> None:
        self.note("before", (strategy, len(history), reason))

    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult, history: tuple[Message, ...]) -> None:
        self.note("after", (result, len(history)))

    @hookimpl
    def jaato_gc_threshold_crossed(self, percent_used: float, threshold: float) -> None:
        self.note("threshold", (percent_used, threshold))

    @hookimpl
    def jaato_gc_budget_updated(self, agent_id: str, snapshot: dict[str, Any]) -> None:
        self.note("hook", (agent_id, snapshot["total_tokens"]))

    def on_agent_instruction_budget_updated(self, agent_id: str, snapshot: dict[str, Any]) -> None:
        self.note("ui", (agent_id, snapshot["total_tokens"]))

    def on_budget(self, snapshot: dict[str, Any]) -> None:
        self.note("callback", snapshot["total_tokens"])

    def on_threshold(self, percent_used: float, threshold: float) -> None:
        self.note("on_gc_threshold", (percent_used, threshold))

    def on_output(self, text: str) -> None:
        self.note("output", text)


def watched_session(watcher: Watcher, **options: Any) -> GCSession:
    registry = PluginRegistry(load_installed=False)
    registry.register(watcher, "watcher")
    return recent_only(
        Oldest(),
        registry=registry,
        agent_id="agent",
        on_instruction_budget_updated=watcher.on_budget,
        ui_hooks=watcher,
        **options,
    )


def test_observers_are_told_of_a_collection() -> None:
    watcher = Watcher()
    session = watched_session(watcher)
    for message in conversation():
        session.append(message)
    watcher.seen.clear()
    length = len(session.history)
    outcome = session.manual_gc()
    total = session.budget.total_tokens()
    assert watcher.seen == [
        ("before", ("gc_oldest", length, GCTriggerReason.MANUAL)),
        ("callback", total),
        ("ui", ("agent", total)),
        ("hook", ("agent", total)),
        ("after", (outcome, len(session.history))),
    ]


def test_observers_are_told_of_a_failed_collection() -> None:
    watcher = Watcher()
    session = watched_session(watcher)
    session.set_gc_plugin(Rogue(lambda _: None))
    outcome = session.manual_gc()
    assert [what for what, _ in watcher.seen] == ["before", "after"]
    assert watcher.seen[1] == ("after", (outcome, 0))


@pytest.mark.parametrize("continuous", [False, True])
def test_the_threshold_is_told_once_per_turn(continuous: bool) -> None:
    watcher = Watcher()
    config: dict[str, Any] = {"pressure_percent": None, "target_percent": 50.0}
    session = watched_session(watcher, context_limit=1000, config=config if continuous else {})
    session.on_gc_threshold = watcher.on_threshold
    line = 50.0 if continuous else 80.0
    for _ in range(2):
        watcher.seen.clear()
        session.report_usage(100, 10)
        session.report_usage(900, 10)
        session.report_usage(900, 20)
        assert watcher.seen == [("on_gc_threshold", (91.0, line)), ("threshold", (91.0, line))]
        session.after_turn()


def test_no_observer_can_break_a_turn(caplog: pytest.LogCaptureFixture) -> None:
    watcher = Watcher(fails=True)
    model = DummyModel(2000)
    session = watched_session(watcher, provider=model, tools=model.run_tool, context_limit=2000)
    with caplog.at_level(logging.ERROR):
        for turn in range(8):
            session.send_message(f"request {turn}", watcher.on_output, watcher.on_threshold)
            assert_in_step(session)
    told = {what for what, _ in watcher.seen}
    expected = {"before", "after", "hook", "ui", "callback", "threshold", "on_gc_threshold"}
    assert told >= expected
    assert "plugin 'watcher' of this process" in caplog.text


# --- the seeds' integration tests ---


def test_session_applies_removal_list() -> None:
    """The session updates the budget after a collection."""
    session = filled_session(Oldest(), config={"preserve_recent_groups": 0})
    outcome = session.manual_gc()
    removed = {each for one in outcome.removal_list for each in one.message_ids}
    assert removed == {"a0", "u1", "c", "rx", "ry", "a1", "u2", "u3", "a3", "u4", "a4"}
    assert all(session.budget.entry_of(message_id) is None for message_id in removed)
    assert all(session.budget.entry_of(message_id) for message_id in message_ids(session))
    assert session.budget.get_child(CONVERSATION, "turn_3") is None
    assert session.budget.total_tokens() == outcome.tokens_after


def test_budget_consistent_after_gc() -> None:
    """The tokens of the budget match the history."""
    model = DummyModel(3000, hidden_tokens=100)
    session = recent_only(Oldest(), provider=model, tools=model.run_tool, context_limit=3000)
    for turn in range(40):
        session.send_message(f"request {turn}")
        assert_in_step(session)
    assert len(session.get_gc_history()) > 3
    assert model.refusals == 0


def test_notices_that_a_host_appends_are_booked_one_by_one() -> None:
    """An imported conversation may contain some."""
    session = recent_only(Oldest())
    for message_id in ("gc_notice", "n1", "n2"):
        notice = Message.from_text(Role.USER, LONG_TEXT, message_id=message_id)
        session.append(replace(notice, synthetic=SyntheticKind.NOTICE))
        assert_in_step(session)


def test_a_plugin_without_budget_may_remove_the_user_message_before_a_pinned_answer() -> None:
    class TakesAll(MyCustomGCPlugin):
        def collect(self, history: Any, context_usage: Any, config: Any, reason: Any) -> Any:
            return [], super().collect(history, context_usage, config, reason)[1]

    session = new_session(context_limit=1000)
    text = "earlier parts are gone"
    session.append(
        Message.from_text(Role.USER, text, message_id="n", synthetic=SyntheticKind.NOTICE)
    )
    session.append(Message.from_text(Role.MODEL, "an answer", message_id="m"))
    session.append(Message.from_text(Role.USER, "a request", message_id="u"))
    session.set_gc_plugin(cast(GCPlugin, TakesAll()), GCConfig(preserve_recent_turns=0))
    session.pin("m")
    result = session.manual_gc()

    assert result.success, result.error
    assert check_history(session.history) == []
    assert [message.message_id for message in session.history][:2] == ["n", "m"]


def test_no_notice_is_added_when_only_enrichment_is_removed() -> None:
    def select(collection: Collection) -> None:
        collection.remove_source(InstructionSource.ENRICHMENT, None, 5_000, "enrichment_bulk_clear")

    plugin = ScriptedStrategy(select)
    plugin.initialize({"notify_on_gc": True})
    session = new_session(plugin, on_source_removed=lambda _source, _key: None)
    session.append(Message.from_text(Role.USER, "hello"))
    session.budget.update_tokens(InstructionSource.ENRICHMENT, 5_000)

    result = session.manual_gc()

    assert result.success, result.error
    assert result.notification is None
    assert message_ids(session) == [session.history[0].message_id]
    assert_in_step(session)


@pytest.mark.parametrize("role", [Role.TOOL, Role.SYSTEM, Role.USER])
def test_a_notice_never_follows_an_open_call(role: Role) -> None:
    plugin = OldestFirst()
    plugin.initialize({"notify_on_gc": True})
    session = new_session(plugin, GCConfig(preserve_recent_turns=0), context_limit=2_000)
    call = Part(function_call=FunctionCall("1", "bash", {}))
    session.append(Message(Role.MODEL, [Part(text=LONG_TEXT * 50)]))
    session.append(Message(role, [call], "open"))
    session.pin("open")

    result = session.apply(session.plan_gc(GCTriggerReason.THRESHOLD))

    assert "strategy_error" not in result.details
    assert message_ids(session) == ["gc_notice", "open"]


def test_a_ledger_never_follows_an_open_call() -> None:
    plugin = ScriptedStrategy(lambda collection: collection.leave_ledger())
    config = GCConfig(preserve_recent_groups=0, ledger_percent=50)
    session = new_session(plugin, config, context_limit=2_000)
    call = Part(function_call=FunctionCall("1", "bash", {}))
    other = Part(function_response=ToolResult("2", "bash", "see src/app/main.py " * 800))
    session.append(Message.from_text(Role.SYSTEM, "Be brief.", message_id="rules"))
    session.append(Message(Role.TOOL, [call], "open"))
    session.append(Message(Role.TOOL, [other]))

    result = session.apply(session.plan_gc(GCTriggerReason.THRESHOLD))

    assert "strategy_error" not in result.details
    assert message_ids(session) == ["rules", "gc_ledger", "open"]


def test_a_plugin_whose_budget_is_a_keyword_gets_it() -> None:
    class Plugin(ScriptedPlugin):
        def collect(self, history: Any, *_others: Any, budget: Any) -> Any:  # type: ignore[override]
            assert budget is not None
            return super().collect(history, {}, GCConfig(), GCTriggerReason.MANUAL)

    plugin = Plugin(lambda history: (history, GCResult(True, 0, 0, 0, "x", GCTriggerReason.MANUAL)))
    session = new_session(plugin)  # type: ignore[arg-type]
    session.append(Message.from_text(Role.USER, "hello"))

    result = session.manual_gc()

    assert result.success, result.error


def test_a_stale_plan_drops_nothing_outside_the_history() -> None:
    dropped: list[str | None] = []

    def select(collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "old")
        collection.remove_source(InstructionSource.PLUGIN, "schema", 10, "old")

    plugin = ScriptedStrategy(select)
    plugin.initialize({"notify_on_gc": True})
    session = new_session(
        plugin,
        GCConfig(preserve_recent_turns=1),
        on_source_removed=lambda _source, key: dropped.append(key),
    )
    speak(session, *range(4))
    session.budget.add_child(InstructionSource.PLUGIN, "schema", 10, GCPolicy.EPHEMERAL)
    plan = session.plan_gc()
    session.apply(session.plan_gc(preserve_recent_turns=2))
    session.budget.add_child(InstructionSource.PLUGIN, "schema", 10, GCPolicy.EPHEMERAL)
    dropped.clear()

    with pytest.raises(StalePlanError):
        session.apply(plan)

    assert dropped == []


def test_a_pin_of_a_call_makes_a_plan_stale_that_shortens_its_result() -> None:
    def select(collection: Collection) -> None:
        for group in collection.groups:
            collection.shorten(group, "cleared_old")

    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=1)
    session = new_session(ScriptedStrategy(select), config)
    speak(session, 0, 1, 2, calls=1, text=LONG_TEXT * 2)
    plan = session.plan_gc()
    session.pin("c0.0")

    with pytest.raises(StalePlanError, match=r"'r0\.0' was pinned since"):
        session.apply(plan)


def test_a_plugin_that_swaps_two_summaries_is_rejected() -> None:
    def swap(history: list[Message]) -> Any:
        first, one, other, *rest = history
        return [first, other, one, *rest[2:]], result()

    session = new_session(ScriptedPlugin(swap), GCConfig(preserve_recent_turns=0))
    session.append(Message.from_text(Role.USER, LONG_TEXT, message_id="u0"))
    for name in ("s1", "s2"):
        session.append(
            Message.from_text(
                Role.USER, LONG_TEXT, message_id=name, synthetic=SyntheticKind.SUMMARY
            )
        )
    speak(session, 1, 2)
    before = session.history

    outcome = session.manual_gc()

    assert outcome.outcome is GCOutcome.REJECTED
    assert "order_kept" in (outcome.error or "")
    assert session.history == before
