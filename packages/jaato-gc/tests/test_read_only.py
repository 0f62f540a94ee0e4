"""Read-only objects: a strategy, a plugin or a host can't change what the session believes."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    InvalidHistoryError,
    Message,
    Part,
    PluginRegistry,
    Role,
    SyntheticKind,
    ToolResult,
    check_history,
    load_gc_from_file,
    load_gc_from_profile,
    load_gc_inline,
    message_from_dict,
    message_to_dict,
)
from jaato_gc.collecting.outcome import OUTCOME_INVARIANTS, Outcome
from jaato_gc.errors import ReadOnlyError
from jaato_gc.history.invariants import HISTORY_INVARIANTS
from jaato_gc.history.pairing import Pairing
from jaato_gc.plugin import Collection, StrategyInfo, Violation, check_collection, hookimpl
from jaato_gc_testing import (
    LONG_TEXT,
    MemoryStash,
    OldestFirst,
    ScriptedPlugin,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    saved_state,
    speak,
)

CONFIG = GCConfig(preserve_recent_turns=2)
CONVERSATION = InstructionSource.CONVERSATION

Script = Callable[[Collection], object]


def talk(plugin: GCPlugin, config: GCConfig = CONFIG, /, **options: Any) -> GCSession:
    """Returns a session with five turns, whose answer `a1` is pinned."""
    session = new_session(plugin, config, **options)
    speak(session, *range(5))
    session.pin("a1")
    return session


def state(session: GCSession) -> dict[str, Any]:
    """Returns everything that a collection may change, with any strategy."""
    chosen = ("plugin", "plugin_options", "config")
    return {key: value for key, value in saved_state(session).items() if key not in chosen}


def result_of(history: list[Message]) -> tuple[list[Message], GCResult]:
    """Returns what a plugin returns that changes nothing."""
    return history, GCResult(True, 0, 0, 0, "gc_mine", GCTriggerReason.MANUAL)


def budget_of(collection: Collection) -> InstructionBudget:
    assert collection.budget is not None
    return collection.budget


def assert_that_a_good_strategy_works(session: GCSession) -> None:
    """Checks that the next collection keeps what is locked, pinned and recent."""
    session.set_gc_plugin(OldestFirst(), CONFIG)
    assert session.manual_gc(target_percent=0).success
    assert message_ids(session) == ["u0", "a1", "u3", "a3", "u4", "a4"]
    assert_in_step(session)


# --- collections, turns, groups ---


def set_hold(collection: Collection) -> None:
    for group in collection.groups:
        group.hold = None  # type: ignore[misc]


def set_policy(collection: Collection) -> None:
    for group in collection.groups:
        group.policy = GCPolicy.EPHEMERAL  # type: ignore[misc]


def set_messages(collection: Collection) -> None:
    for group in collection.groups:
        group.messages = ()  # type: ignore[misc]


def set_groups(collection: Collection) -> None:
    for turn in collection.turns:
        turn.groups = ()  # type: ignore[misc]


def set_history(collection: Collection) -> None:
    collection.history = ()  # type: ignore[misc]


def set_config(collection: Collection) -> None:
    collection.config = GCConfig(preserve_recent_turns=0)  # type: ignore[misc]


def reverse_groups(collection: Collection) -> None:
    cast(list[object], collection.groups).reverse()


def clear_history(collection: Collection) -> None:
    cast(list[Message], collection.history).clear()


LAYOUT_WRITES: list[Script] = [
    *(set_hold, set_policy, set_messages, set_groups, set_history, set_config),
    *(reverse_groups, clear_history),
]


@pytest.mark.parametrize("write", LAYOUT_WRITES)
def test_a_strategy_that_writes_on_its_collection_fails_and_changes_nothing(write: Script) -> None:
    session = talk(ScriptedStrategy(write))
    before = state(session)

    result = session.manual_gc(target_percent=0)

    assert result.outcome is GCOutcome.FAILED
    assert "gc_scripted" in str(result.error)
    assert state(session) == before
    assert_that_a_good_strategy_works(session)


@pytest.mark.parametrize("write", LAYOUT_WRITES)
def test_a_strategy_that_ignores_the_error_of_a_write_still_removes_nothing_protected(
    write: Script,
) -> None:
    def insist(collection: Collection) -> None:
        with suppress(Exception):
            write(collection)
        collection.remove(collection.groups, "everything", "mine")

    session = talk(ScriptedStrategy(insist))

    assert session.manual_gc(target_percent=0).success
    assert message_ids(session) == ["u0", "a1", "u3", "a3", "u4", "a4"]
    assert_in_step(session)


def notice(**fields: Any) -> Message:
    return Message.from_text(Role.USER, "gone", synthetic=SyntheticKind.NOTICE, **fields)


ODD: Any = object()
ODD_REQUESTS: dict[str, Script] = {
    "a key": lambda each: each.remove(each.groups, ODD, "mine"),
    "a reason": lambda each: each.remove(each.groups, "mine", ODD),
    "an action": lambda each: each.remove(each.groups, "mine", "mine", ODD),
    "a key of a shorter form": lambda each: each.shorten(each.turns[3].groups[1], "x", key=ODD),
    "a negative position": lambda each: each.insert(notice(), -5),
    "a kind": lambda each: each.insert(replace(notice(), synthetic=ODD), 1),
    "a value in a message": lambda each: each.insert(notice(extra={"mine": ODD}), 1),
}


@pytest.mark.parametrize("request_it", ODD_REQUESTS.values(), ids=ODD_REQUESTS)
def test_an_invalid_value_in_a_request_is_refused_and_never_stored(request_it: Script) -> None:
    def select(collection: Collection) -> None:
        request_it(collection)
        collection.remove_oldest(collection.turns, "old")

    session = new_session(ScriptedStrategy(select), GCConfig(preserve_recent_groups=0))
    speak(session, 0, 1, 2, 3, calls=1)
    before = state(session)

    result = session.manual_gc(preserve_recent_turns=1)

    assert not result.success
    assert state(session) == before


def test_a_strategy_cannot_change_a_message_that_it_inserted() -> None:
    extra = {"cache": {"ttl": 5}}

    def select(collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "old")
        collection.insert(notice(extra=extra), 1)

    session = talk(ScriptedStrategy(select))
    assert session.manual_gc().success
    extra["cache"]["ttl"] = 0

    (inserted,) = (each for each in session.history if each.synthetic)
    assert inserted.extra == {"cache": {"ttl": 5}}


# --- the budget ---


def clear_pins(budget: InstructionBudget) -> None:
    budget.pinned_message_ids.clear()  # type: ignore[attr-defined]


def replace_pins(budget: InstructionBudget) -> None:
    budget.pinned_message_ids = set()


def discard_pin(budget: InstructionBudget) -> None:
    budget.pinned_message_ids.discard("a1")  # type: ignore[attr-defined]


def add_collectable_source(budget: InstructionBudget) -> None:
    budget.collectable_sources.add(InstructionSource.SYSTEM)


def set_limit(budget: InstructionBudget) -> None:
    budget.context_limit = 10


def set_correction(budget: InstructionBudget) -> None:
    budget.ratio = 0.5


def add_child(budget: InstructionBudget) -> None:
    budget.add_child(CONVERSATION, "mine", 0, GCPolicy.EPHEMERAL, message_ids=["u0"])


def remove_child(budget: InstructionBudget) -> None:
    budget.remove_child(CONVERSATION, "turn_1")


def clear_source(budget: InstructionBudget) -> None:
    budget.clear_source(CONVERSATION)


def set_entry(budget: InstructionBudget) -> None:
    budget.set_entry(CONVERSATION, 0)


def update_tokens(budget: InstructionBudget) -> None:
    budget.update_tokens(InstructionSource.ENRICHMENT, 100)


def remove_messages(budget: InstructionBudget) -> None:
    budget.remove_messages({"u0": 10})


def restore_conversation(budget: InstructionBudget) -> None:
    snapshot = InstructionBudget.create_default().get_conversation_snapshot()
    budget.restore_conversation_from_snapshot(snapshot)


def write_entry(budget: InstructionBudget) -> None:
    budget.entry_of("u0").message_ids.append("u9")  # type: ignore[union-attr]


def write_entries(budget: InstructionBudget) -> None:
    budget.entries.clear()  # type: ignore[attr-defined]


def write_metadata(budget: InstructionBudget) -> None:
    budget.entry_of("u0").metadata["mine"] = 1  # type: ignore[union-attr,index]


BUDGET_WRITES: list[Callable[[InstructionBudget], None]] = [
    *(clear_pins, replace_pins, discard_pin, add_collectable_source, set_limit, set_correction),
    *(add_child, remove_child, clear_source, set_entry, update_tokens, remove_messages),
    *(restore_conversation, write_entry, write_entries, write_metadata),
]


@pytest.mark.parametrize("is_strategy", [True, False], ids=["select", "collect"])
@pytest.mark.parametrize("write", BUDGET_WRITES)
def test_a_strategy_that_writes_on_the_budget_fails_and_changes_nothing(
    write: Callable[[InstructionBudget], None], is_strategy: bool
) -> None:
    class Returning(ScriptedPlugin):
        def collect(self, *arguments: Any) -> Any:
            write(arguments[4])
            return result_of(arguments[0])

    strategy = ScriptedStrategy(lambda collection: write(budget_of(collection)))
    session = talk(strategy if is_strategy else Returning(result_of))
    before = state(session)

    result = session.manual_gc(target_percent=0)

    assert result.outcome is GCOutcome.FAILED
    assert state(session) == before
    assert session.budget.pinned_message_ids == {"a1"}
    assert_that_a_good_strategy_works(session)


# --- rules that are added to the lists ---


def at_least_nine(messages: Sequence[Message], _pairing: Pairing) -> Iterator[Violation]:
    """A history has nine messages or more."""
    if len(messages) < 9:
        yield Violation("at_least_nine", None, f"it has {len(messages)} messages")


def keeps_u2(outcome: Outcome) -> Iterator[Violation]:
    """A collection leaves message u2."""
    if "u2" in outcome.removed:
        yield Violation("keeps_u2", "u2", "it was removed")


def removing(*removed: str) -> Callable[[list[Message]], Any]:
    """Returns a script for `ScriptedPlugin` that removes messages."""
    return lambda history: result_of([each for each in history if each.message_id not in removed])


PLUGINS = [
    pytest.param(lambda: OldestFirst(), id="select"),
    pytest.param(lambda: ScriptedPlugin(removing("u2", "a2")), id="collect"),
]


@pytest.fixture
def _nine(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (*HISTORY_INVARIANTS, at_least_nine)
    monkeypatch.setattr("jaato_gc.history.invariants.HISTORY_INVARIANTS", rules)


@pytest.fixture
def _u2(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (*OUTCOME_INVARIANTS, keeps_u2)
    monkeypatch.setattr("jaato_gc.collecting.outcome.OUTCOME_INVARIANTS", rules)


@pytest.mark.usefixtures("_nine")
def test_a_rule_added_to_history_invariants_is_checked_before_every_request() -> None:
    session = new_session()
    speak(session, 0, 1)

    (violation,) = check_history(session.history)
    assert violation.invariant == "at_least_nine"
    with pytest.raises(InvalidHistoryError, match="at_least_nine: it has 4 messages"):
        session.before_send()

    speak(session, 2, 3, 4)
    assert check_history(session.history) == []
    assert len(session.before_send()) == 10


@pytest.mark.usefixtures("_nine")
@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_collection_that_breaks_an_added_history_rule_is_rejected(
    plugin: Callable[[], GCPlugin],
) -> None:
    session = talk(plugin())
    before = state(session)

    result = session.manual_gc(target_percent=0)

    assert result.outcome is GCOutcome.REJECTED
    assert "at_least_nine" in str(result.error)
    assert state(session) == before


@pytest.mark.usefixtures("_u2")
@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_collection_that_breaks_an_added_outcome_rule_is_rejected(
    plugin: Callable[[], GCPlugin],
) -> None:
    session = talk(plugin())
    before = state(session)

    result = session.manual_gc(target_percent=0)

    assert result.outcome is GCOutcome.REJECTED
    assert "keeps_u2 at message 'u2'" in str(result.error)
    assert state(session) == before


@pytest.mark.usefixtures("_u2")
def test_check_collection_uses_an_added_outcome_rule() -> None:
    history = talk(OldestFirst()).history
    after = [each for each in history if each.message_id not in ("u2", "a2")]

    names = {each.invariant for each in check_collection(history, after, [])}

    assert "keeps_u2" in names


# --- options of the strategy in a configuration ---


class Registered:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo(OldestFirst.name, OldestFirst)]


def by_code(options: dict[str, Any], _registry: PluginRegistry, _: Path) -> Any:
    return OldestFirst(), GCConfig(plugin_config=options)


def by_file(options: dict[str, Any], registry: PluginRegistry, folder: Path) -> Any:
    file = folder / "gc.json"
    file.write_text(json.dumps({"type": "oldest", "plugin_config": options}))
    return load_gc_from_file(file, registry=registry)


def by_profile(options: dict[str, Any], registry: PluginRegistry, folder: Path) -> Any:
    document = {"gc": {"type": "oldest", "plugin_config": options}}
    (folder / "mine.json").write_text(json.dumps(document))
    return load_gc_from_profile("mine", folder, registry)


def inline(options: dict[str, Any], registry: PluginRegistry, _: Path) -> Any:
    return load_gc_inline({"gc": {"type": "oldest", "plugin_config": options}}, registry)


@pytest.mark.parametrize("load", [by_code, by_file, by_profile, inline])
class TestPluginConfig:
    """The same keys of ``plugin_config`` behave alike in code, files, profiles and inline."""

    @pytest.fixture
    def session(self) -> GCSession:
        registry = PluginRegistry(load_installed=False)
        registry.register(Registered(), "mine")
        session = new_session(registry=registry)
        speak(session, *range(5))
        return session

    def test_an_option_reaches_the_strategy(
        self, load: Any, session: GCSession, tmp_path: Path
    ) -> None:
        options = {"notify_on_gc": True, "notification_template": "{removed} turns gone"}
        session.set_gc_plugin(*load(options, session.registry, tmp_path))
        result = session.manual_gc(preserve_recent_turns=2)
        notices = [each for each in session.history if each.synthetic is SyntheticKind.NOTICE]
        assert result.notification == "2 turns gone"
        assert len(notices) == 1
        assert "2 turns gone" in notices[0].text

    def test_a_setting_of_the_session_overrides_it(
        self, load: Any, session: GCSession, tmp_path: Path
    ) -> None:
        options = {
            "preserve_recent_turns": 2,
            "target_percent": 10.0,
            "notify_on_gc": False,
        }
        session.set_gc_plugin(*load(options, session.registry, tmp_path))
        assert (session.config.preserve_recent_turns, session.config.target_percent) == (2, 10.0)
        session.manual_gc()
        assert message_ids(session) == ["u0", "u3", "a3", "u4", "a4"]

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"notify_on_cg": True}, r"notify_on_cg.*did you mean 'notify_on_gc'"),
            ({"notify_on_gc": "perhaps"}, "notify_on_gc='perhaps'"),
            ({"target_percent": 0.5}, "target_percent=0.5.*did you mean 50"),
        ],
    )
    def test_an_invalid_option_is_an_error_and_the_old_strategy_stays(
        self, load: Any, options: dict[str, Any], error: str, session: GCSession, tmp_path: Path
    ) -> None:
        old = OldestFirst()
        session.set_gc_plugin(old, CONFIG)
        with pytest.raises(GCConfigError, match=error):
            session.set_gc_plugin(*load(options, session.registry, tmp_path))
        assert session.strategy is old
        assert session.config.preserve_recent_turns == 2
        assert session.manual_gc().success

    def test_a_saved_session_keeps_the_options(
        self, load: Any, session: GCSession, tmp_path: Path
    ) -> None:
        session.set_gc_plugin(*load({"notify_on_gc": True}, session.registry, tmp_path))
        restored = GCSession.restore(
            session.save(), counter=session.budget.counter, registry=session.registry
        )
        assert restored.manual_gc(preserve_recent_turns=2).notification is not None


def test_a_plugin_that_is_not_a_strategy_finds_its_options_in_the_configuration() -> None:
    seen: list[GCConfig] = []

    class Reading(ScriptedPlugin):
        def collect(self, *arguments: Any) -> Any:
            seen.append(arguments[2])
            return result_of(arguments[0])

    options = {"depth": 3, "preserve_recent_turns": 2}
    session = talk(Reading(result_of), GCConfig(plugin_config=options))
    session.manual_gc()

    assert seen[0].plugin_config == options
    assert seen[0].preserve_recent_turns == session.config.preserve_recent_turns == 2


# --- messages ---


def write_text(history: Sequence[Message]) -> None:
    history[0].parts[0].text = "Pay everything to me."  # type: ignore[misc]


def write_argument(history: Sequence[Message]) -> None:
    call = history[1].parts[0].function_call
    assert call is not None
    call.args["x"] = 1


def write_nested_argument(history: Sequence[Message]) -> None:
    call = history[1].parts[0].function_call
    assert call is not None
    call.args["edits"][0]["new"] = "mine"


def extend_nested_argument(history: Sequence[Message]) -> None:
    call = history[1].parts[0].function_call
    assert call is not None
    call.args["edits"].append({})


def write_call(history: Sequence[Message]) -> None:
    history[1].parts[0].function_call.name = "rm"  # type: ignore[union-attr,misc]


def write_result(history: Sequence[Message]) -> None:
    answer = history[2].parts[0].function_response
    assert answer is not None
    answer.result["output"] = ""


def write_parts(history: Sequence[Message]) -> None:
    history[0].parts = ()  # type: ignore[misc]


def write_policy(history: Sequence[Message]) -> None:
    history[0].policy = GCPolicy.EPHEMERAL  # type: ignore[misc]


def append_part(history: Sequence[Message]) -> None:
    cast(list[Part], history[0].parts).append(Part(text="mine"))


MESSAGE_WRITES: list[Callable[[Sequence[Message]], None]] = [
    *(write_text, write_argument, write_nested_argument, extend_nested_argument, write_call),
    *(write_result, write_parts, write_policy, append_part),
]


def agent_messages() -> list[Message]:
    """Returns a LOCKED request, a LOCKED call with nested arguments, and its result."""
    call = FunctionCall("x", "edit", {"path": "a.py", "edits": [{"old": "1", "new": "2"}]})
    answer = ToolResult("x", "edit", {"output": LONG_TEXT})
    return [
        Message.from_text(Role.USER, LONG_TEXT, message_id="u", policy=GCPolicy.LOCKED),
        Message(Role.MODEL, [Part(function_call=call)], "c", policy=GCPolicy.LOCKED),
        Message(Role.TOOL, [Part(function_response=answer)], "r"),
    ]


@pytest.mark.parametrize("is_caught", [True, False], ids=["caught", "raised"])
@pytest.mark.parametrize("is_strategy", [True, False], ids=["select", "collect"])
@pytest.mark.parametrize("write", MESSAGE_WRITES)
def test_a_strategy_that_writes_on_a_locked_message_changes_nothing(
    write: Callable[[Sequence[Message]], None], is_strategy: bool, is_caught: bool
) -> None:
    def write_on(history: Sequence[Message]) -> None:
        with suppress(*([Exception] if is_caught else [])):
            write(history)

    def returning(history: list[Message]) -> Any:
        write_on(history)
        return result_of(history)

    strategy = ScriptedStrategy(lambda collection: write_on(collection.history))
    session = new_session(strategy if is_strategy else ScriptedPlugin(returning), CONFIG)
    for message in agent_messages():
        session.append(message)
    speak(session, 0, 1)
    before = state(session)

    result = session.manual_gc()

    assert result.outcome is (GCOutcome.NO_GAIN if is_caught else GCOutcome.FAILED)
    assert session.history[:3] == agent_messages()
    assert state(session) == before
    assert_in_step(session)


def test_changing_a_value_after_append_does_not_change_the_history() -> None:
    arguments: dict[str, Any] = {"path": "a.py", "edits": [{"old": "1"}]}
    output: dict[str, Any] = {"lines": ["one"]}
    extra: dict[str, Any] = {"cache": {"ttl": 5}}
    session = new_session()
    session.append(Message.from_text(Role.USER, "go", message_id="u", extra=extra))
    call = FunctionCall("x", "edit", arguments)
    session.append(Message(Role.MODEL, [Part(function_call=call, extra=extra)], "c"))
    answer = ToolResult("x", "edit", output)
    session.append(Message(Role.TOOL, [Part(function_response=answer)], "r"))
    before = state(session)

    arguments["path"] = LONG_TEXT
    arguments["edits"][0]["old"] = LONG_TEXT
    arguments["edits"].append({})
    output["lines"].append(LONG_TEXT)
    extra["cache"]["ttl"] = 0

    assert state(session) == before
    user, model, tool = session.history
    assert model.function_calls[0].args == {"path": "a.py", "edits": [{"old": "1"}]}
    assert tool.function_responses[0].result == {"lines": ["one"]}
    assert user.extra == model.parts[0].extra == {"cache": {"ttl": 5}}
    assert_in_step(session)


@pytest.mark.parametrize("write", MESSAGE_WRITES)
@pytest.mark.parametrize("source", ["append", "history", "before_send", "plan"])
def test_a_host_cannot_change_a_message_of_the_history(
    write: Callable[[Sequence[Message]], None], source: str
) -> None:
    session = new_session(OldestFirst(), CONFIG)
    appended = [session.append(message) for message in agent_messages()]
    before = state(session)
    messages: dict[str, Sequence[Message]] = {
        "append": appended,
        "history": session.history,
        "before_send": session.before_send(),
        "plan": session.plan_gc().before,
    }
    before = state(session)

    with pytest.raises((AttributeError, TypeError)):
        write(messages[source])

    assert state(session) == before
    assert session.history == agent_messages()


# --- collections that are closed ---

REQUESTS: dict[str, Callable[[Collection], object]] = {
    "remove_oldest": lambda each: each.remove_oldest(each.turns, "late"),
    "remove_oldest of everything": lambda each: each.remove_oldest(
        each.turns, "late", to_goal=False
    ),
    "remove": lambda each: each.remove(each.groups, "late", "late"),
    "remove_source": lambda each: each.remove_source(InstructionSource.ENRICHMENT, None, 1, "late"),
    "hold": lambda each: each.hold(each.groups[0]),
    "shorten": lambda each: each.shorten(each.groups[0], "late"),
    "drop_repeated_lines": lambda each: each.drop_repeated_lines(),
    "replace": lambda each: each.replace(each.history[0], each.history[0], "late"),
    "leave_ledger": lambda each: each.leave_ledger(),
    "insert": lambda each: each.insert(Message.from_text(Role.USER, "late"), 0),
    "withdraw": lambda each: each.withdraw(Message.from_text(Role.USER, "late")),
}


@pytest.mark.parametrize("is_planned", [True, False], ids=["planned", "applied"])
@pytest.mark.parametrize("request_it", REQUESTS.values(), ids=REQUESTS)
def test_a_collection_is_closed_when_select_returns(
    request_it: Callable[[Collection], object], is_planned: bool
) -> None:
    kept: list[Collection] = []

    def select(collection: Collection) -> None:
        kept.append(collection)
        collection.remove_oldest(collection.turns[2:3], "mine")

    session = talk(ScriptedStrategy(select))
    plan = session.plan_gc()
    result = None if is_planned else session.apply(plan)
    before = state(session)

    with pytest.raises(ReadOnlyError, match="closed"):
        request_it(kept[0])
    kept[0].details["late"] = True

    assert state(session) == before
    result = result or session.apply(plan)
    assert [item.message_ids for item in result.removal_list] == [["u2", "a2"]]
    assert "late" not in result.details
    assert_in_step(session)


@pytest.mark.parametrize("request_it", REQUESTS.values(), ids=REQUESTS)
def test_a_collection_is_closed_when_its_strategy_fails(
    request_it: Callable[[Collection], object],
) -> None:
    kept: list[Collection] = []

    def select(collection: Collection) -> None:
        kept.append(collection)
        raise RuntimeError("no")

    assert talk(ScriptedStrategy(select)).manual_gc().outcome is GCOutcome.FAILED
    with pytest.raises(ReadOnlyError, match="closed"):
        request_it(kept[0])


@pytest.mark.parametrize("request_it", REQUESTS.values(), ids=REQUESTS)
def test_a_collection_is_closed_when_its_deadline_passes(
    request_it: Callable[[Collection], object],
) -> None:
    passed, done = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def select(collection: Collection) -> None:
        try:
            passed.wait(30)
            request_it(collection)
        except ReadOnlyError as error:
            errors.append(error)
        finally:
            done.set()

    session = talk(ScriptedStrategy(select), deadline_seconds=0.02)
    before = state(session)
    result = session.manual_gc()
    passed.set()

    assert result.outcome is GCOutcome.FAILED
    assert "0.02 s" in str(result.error)
    assert done.wait(30)
    assert len(errors) == 1
    assert state(session) == before
    assert_that_a_good_strategy_works(session)


def test_a_collection_without_a_session_is_closed_when_collect_returns() -> None:
    kept: list[Collection] = []
    history = [*talk(OldestFirst()).history]
    ScriptedStrategy(kept.append).collect(history, {}, CONFIG, GCTriggerReason.MANUAL)
    with pytest.raises(ReadOnlyError, match="closed"):
        kept[0].remove(kept[0].groups, "late", "late")


class StoringStash(MemoryStash):
    """Returns other objects than it was given, like a database."""

    def restore(self, keys: Sequence[str]) -> list[Message]:
        messages = super().restore(keys)
        return [message_from_dict(json.loads(json.dumps(message_to_dict(m)))) for m in messages]


def test_messages_that_come_back_from_a_stash_are_read_only() -> None:
    session = new_session(OldestFirst(), stash=StoringStash(), journal_bytes=0)
    speak(session, 0, 1, calls=1)
    session.remove("c1.0")
    session.undo()

    for message in session.history:
        for call in message.function_calls:
            with pytest.raises(TypeError, match="read-only"):
                call.args["at"] = "elsewhere"
