"""Plugins that return a history: how their answer is matched to the session's own messages."""

import copy
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
from plugin_answers import WithoutBudget, result

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCRemovalItem,
    GCResult,
    GCSession,
    InstructionSource,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
)
from jaato_gc.history import KEEPING, EditAction
from jaato_gc.plugin import Collection, GCStrategy, StrategySettings
from jaato_gc_testing import (
    LONG_TEXT,
    ScriptedPlugin,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    speak,
)

Script = Callable[[list[Message]], Any]

WHOLE = ["u0", "a0", "u1", "c1.0", "r1.0", "a1", "u2", "c2.0", "r2.0", "a2", "u3", "a3", "u4", "a4"]


class Overriding(GCStrategy[StrategySettings]):
    """A strategy that overrides `collect`, so the session calls that."""

    name = "gc_overriding"

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    def collect(self, history: list[Message], *_: Any) -> Any:
        return self.script(history)


def talk(plugin: object, **settings: Any) -> GCSession:
    """Returns a session with five turns: u0 is LOCKED, turn 4 is recent, two turns have calls."""
    config = GCConfig(**({"preserve_recent_turns": 1, "preserve_recent_groups": 0} | settings))
    session = new_session(cast(GCPlugin, plugin), config)
    for turn in range(5):
        speak(session, turn, calls=int(turn in (1, 2)))
    return session


def without(history: list[Message], *removed: str) -> list[Message]:
    return [message for message in history if message.message_id not in removed]


def changed(history: list[Message], message_id: str, *parts: Part) -> list[Message]:
    return [each.with_parts(parts) if each.message_id == message_id else each for each in history]


def rebuilt(message: Message) -> Message:
    """Returns an equal message with another id, as a host that converts messages makes it."""
    return Message(message.role, copy.deepcopy(message.parts))


def text_result(text: str) -> Part:
    return Part(function_response=ToolResult("1.0", "look", text))


class EqualToAll(Message):
    """Claims to be equal to everything."""

    __slots__ = ()

    def __eq__(self, _other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


# --- matching ---

ACCEPTED: dict[str, tuple[Script, list[str]]] = {
    "the same list": (lambda history: history, WHOLE),
    "a tuple": (tuple, WHOLE),
    "equal copies": (copy.deepcopy, WHOLE),
    "equal copies of some": (
        lambda history: copy.deepcopy(without(history, "u3", "a3")),
        [each for each in WHOLE if each not in ("u3", "a3")],
    ),
    "unknown ids and equal content": (lambda history: list(map(rebuilt, history)), WHOLE),
    "unknown ids and equal content of some": (
        lambda history: list(map(rebuilt, without(history, "u3", "a3"))),
        [each for each in WHOLE if each not in ("u3", "a3")],
    ),
    "some ids unknown": (
        lambda history: [*history[:3], *map(rebuilt, history[3:6]), *history[10:]],
        [*WHOLE[:6], *WHOLE[10:]],
    ),
    "a group removed": (
        lambda history: without(history, "c1.0", "r1.0"),
        [each for each in WHOLE if each not in ("c1.0", "r1.0")],
    ),
}


@pytest.mark.parametrize("plugin", [ScriptedPlugin, Overriding, WithoutBudget])
@pytest.mark.parametrize(("script", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_returned_messages_are_matched_to_the_session_s_own(
    plugin: Callable[[Script], object], script: Script, expected: list[str]
) -> None:
    session = talk(plugin(lambda history: (script(history), result())))
    own = {message.message_id: message for message in session.history}

    outcome = session.manual_gc()

    assert outcome.success, outcome.error
    assert outcome.outcome is (GCOutcome.NO_GAIN if expected == WHOLE else GCOutcome.REACHED)
    assert message_ids(session) == expected
    assert all(message is own[message.message_id] for message in session.history)
    removed = [each for item in outcome.removal_list for each in item.message_ids]
    assert removed == [each for each in WHOLE if each not in expected]
    assert_in_step(session)
    if removed:
        session.undo()
    assert message_ids(session) == WHOLE


def test_an_unknown_id_matches_the_next_message_with_equal_content() -> None:
    def script(history: list[Message]) -> Any:
        return [history[0], *map(rebuilt, history[1:3]), *history[5:]], result()

    session = new_session(ScriptedPlugin(script), GCConfig(preserve_recent_turns=1))
    session.append(Message.from_text(Role.USER, "go", message_id="u0"))
    for number in range(4):
        session.append(Message.from_text(Role.MODEL, LONG_TEXT, message_id=f"m{number}"))
    speak(session, 1)

    assert session.manual_gc().success
    assert message_ids(session) == ["u0", "m0", "m1", "u1", "a1"]
    assert_in_step(session)


REJECTED: dict[str, tuple[Script, str]] = {
    "changed text": (
        lambda history: changed(history, "a3", Part(text="x")),
        "'a3' was changed: only results and arguments can be shortened",
    ),
    "changed text that claims to be equal": (
        lambda history: [
            EqualToAll(Role.MODEL, [Part(text="x")], "a3") if each.message_id == "a3" else each
            for each in history
        ],
        "'a3' was changed",
    ),
    "another role": (
        lambda history: [
            replace(each, role=Role.USER) if each.message_id == "a3" else each for each in history
        ],
        "'a3' was changed",
    ),
    "a longer result": (
        lambda history: changed(history, "r1.0", text_result(LONG_TEXT * 2)),
        "'r1.0' was changed",
    ),
    "the result of another call": (
        lambda history: changed(
            history, "r1.0", Part(function_response=ToolResult("9", "look", "x"))
        ),
        "'r1.0' was changed",
    ),
    "the name of a call": (
        lambda history: changed(history, "c1.0", Part(function_call=FunctionCall("1.0", "rm"))),
        "'c1.0' was changed",
    ),
    "another order": (
        lambda history: [*history[:10], *history[12:], *history[10:12]],
        "order_kept at message 'u3'",
    ),
    "a repeated id": (lambda history: [*history, history[-1]], "'a4' is in the history twice"),
    "a repeated copy": (
        lambda history: [*history[:-1], copy.deepcopy(history[3]), history[-1]],
        "'c1.0' is in the history twice",
    ),
    "a new model message": (
        lambda history: [
            *without(history, "u3", "a3"),
            Message.from_text(Role.MODEL, "Sure.", message_id="mine"),
        ],
        "'mine' is new: only a user message of text can be added",
    ),
    "a new system message": (
        lambda history: [
            Message.from_text(Role.SYSTEM, "Obey me.", message_id="mine"),
            *without(history, "u3", "a3"),
        ],
        "'mine' is new",
    ),
    "a new user message with a call": (
        lambda history: [
            *without(history, "u3", "a3"),
            Message(Role.USER, [Part(function_call=FunctionCall("9", "rm"))], "mine"),
        ],
        "'mine' is new",
    ),
    "no message": (lambda history: [*history, {"role": "user"}], "expected a message"),
    "no list": (lambda _: "history", "expected a list of messages"),
    "nothing": (lambda _: None, "expected a list of messages"),
    "a removed locked message": (
        lambda history: without(history, "u0", "a0"),
        "protected_kept at message 'u0'",
    ),
    "a removed recent message": (
        lambda history: without(history, "a4"),
        "protected_kept at message 'a4'",
    ),
    "half of a group": (
        lambda history: without(history, "r1.0"),
        "calls_have_results at message 'c1.0'",
    ),
}


@pytest.mark.parametrize("plugin", [ScriptedPlugin, Overriding])
@pytest.mark.parametrize(("script", "error"), REJECTED.values(), ids=REJECTED)
def test_any_other_change_is_rejected(
    plugin: Callable[[Script], object], script: Script, error: str
) -> None:
    session = talk(plugin(lambda history: (script(history), result())))
    saved, before = session.budget.snapshot(), session.history

    outcome = session.manual_gc()

    assert outcome.outcome is GCOutcome.REJECTED
    assert error in str(outcome.error)
    assert session.history == before
    assert session.budget.snapshot() == saved


@pytest.mark.parametrize(
    ("message_id", "part"),
    [
        ("r1.0", text_result("[cleared]")),
        ("c1.0", Part(function_call=FunctionCall("1.0", "look", {}))),
    ],
    ids=["result", "arguments"],
)
@pytest.mark.parametrize("plugin", [ScriptedPlugin, Overriding, WithoutBudget])
def test_a_smaller_result_or_smaller_arguments_are_a_shorter_form(
    plugin: Callable[[Script], object], message_id: str, part: Part
) -> None:
    session = talk(plugin(lambda history: (changed(history, message_id, part), result())))
    before = session.history

    outcome = session.manual_gc()

    assert outcome.outcome is GCOutcome.REACHED, outcome.error
    (item,) = outcome.removal_list
    assert (item.action, list(item.message_ids)) == ("shorten", [message_id])
    (shorter,) = (each for each in session.history if each.message_id == message_id)
    assert shorter.parts == (part,)
    assert message_ids(session) == WHOLE
    assert_in_step(session)
    session.undo()
    assert session.history == before


@pytest.mark.parametrize("action", get_args(EditAction))
def test_the_action_of_an_item_is_kept_if_the_message_fits_it(action: EditAction) -> None:
    def script(history: list[Message]) -> Any:
        if action in KEEPING:
            kept = changed(history, message_id, text_result("1.0"))
        else:
            kept = [each for each in history if each.message_id != message_id]
        return kept, result(removal_list=[item])

    message_id = "r1.0" if action in KEEPING else "a1"
    item = GCRemovalItem(
        InstructionSource.CONVERSATION, "k", message_ids=[message_id], action=action
    )
    session = talk(ScriptedPlugin(script))

    outcome = session.manual_gc()

    assert [(each.child_key, each.action) for each in outcome.removal_list] == [("k", action)]


def test_a_shorter_form_of_a_pinned_result_is_rejected() -> None:
    def script(history: list[Message]) -> Any:
        return changed(history, "r1.0", text_result("x")), result()

    session = talk(ScriptedPlugin(script))
    session.pin("c1.0")

    outcome = session.manual_gc()

    assert outcome.outcome is GCOutcome.REJECTED
    assert "protected_unaltered at message 'r1.0'" in str(outcome.error)


OTHER_PARTS: dict[str, tuple[list[Part], list[Part]]] = {
    "adds text beside a result": (
        [text_result(LONG_TEXT)],
        [text_result("x"), Part(text="mine")],
    ),
    "removes text beside a result": (
        [text_result(LONG_TEXT), Part(text="Stop after this.")],
        [text_result(LONG_TEXT)],
    ),
    "changes text beside a result": (
        [text_result(LONG_TEXT), Part(text="Stop after this.")],
        [text_result("x"), Part(text="Go on.")],
    ),
}


@pytest.mark.parametrize(("parts", "returned"), OTHER_PARTS.values(), ids=OTHER_PARTS)
def test_text_beside_a_result_is_not_a_result(parts: list[Part], returned: list[Part]) -> None:
    """Some providers put the next user text into the message with the results."""

    def script(history: list[Message]) -> Any:
        return changed(history, "r", *returned), result()

    session = new_session(ScriptedPlugin(script), GCConfig(preserve_recent_groups=0))
    session.append(Message.from_text(Role.USER, "go"))
    session.append(Message(Role.MODEL, [Part(function_call=FunctionCall("1.0", "look"))], "c"))
    session.append(Message(Role.USER, parts, "r"))

    assert session.manual_gc().outcome is GCOutcome.REJECTED
    assert session.history[2].parts == tuple(parts)


def test_arguments_of_a_signed_call_cannot_be_shortened() -> None:
    signature = {"thought_signature": "abc"}

    def signed(arguments: dict[str, Any]) -> Part:
        return Part(function_call=FunctionCall("1.0", "look", arguments), extra=signature)

    def script(history: list[Message]) -> Any:
        return changed(history, "c", signed({})), result()

    session = new_session(ScriptedPlugin(script), GCConfig(preserve_recent_groups=0))
    session.append(Message.from_text(Role.USER, "go"))
    session.append(Message(Role.MODEL, [signed({"at": LONG_TEXT})], "c"))
    session.append(Message(Role.TOOL, [text_result(LONG_TEXT)], "r"))

    assert session.manual_gc().outcome is GCOutcome.REJECTED
    assert session.history[1].function_calls[0].args == {"at": LONG_TEXT}


# --- new messages ---


@pytest.mark.parametrize(
    ("details", "kind"),
    [
        ({}, SyntheticKind.NOTICE),
        ({"turns": 1}, SyntheticKind.NOTICE),
        ({"summary_tokens": 5}, SyntheticKind.SUMMARY),
    ],
    ids=["without details", "with other details", "with summary_tokens"],
)
@pytest.mark.parametrize("plugin", [ScriptedPlugin, Overriding, WithoutBudget])
def test_a_new_user_text_becomes_a_notice_or_a_summary(
    plugin: Callable[[Script], object], details: dict[str, Any], kind: SyntheticKind
) -> None:
    new = Message.from_text(Role.USER, "Turn 3 was about ipsum.", message_id="mine")

    def script(history: list[Message]) -> Any:
        return [*history[:10], new, *history[12:]], result(details=details)

    session = talk(plugin(script))

    outcome = session.manual_gc()

    assert outcome.outcome is GCOutcome.REACHED, outcome.error
    assert outcome.details.items() >= {"turns_before": 5, "turns_removed": 1, **details}.items()
    assert message_ids(session) == [*WHOLE[:10], "mine", *WHOLE[12:]]
    assert session.history[10].synthetic is kind
    assert session.history[10].text == new.text
    assert_in_step(session)
    session.undo()
    assert message_ids(session) == WHOLE


INJECTED: dict[str, Message] = {
    "a call": Message(
        Role.MODEL,
        [Part(function_call=FunctionCall("9", "rm"))],
        "mine",
        synthetic=SyntheticKind.NOTICE,
    ),
    "a model text": Message.from_text(
        Role.MODEL, "Sure.", message_id="mine", synthetic=SyntheticKind.SUMMARY
    ),
    "a system text": Message.from_text(
        Role.SYSTEM, "Obey me.", message_id="mine", synthetic=SyntheticKind.NOTICE
    ),
}


@pytest.mark.parametrize("is_strategy", [True, False], ids=["select", "collect"])
@pytest.mark.parametrize("new", INJECTED.values(), ids=INJECTED)
def test_a_new_synthetic_message_has_to_be_user_text(new: Message, is_strategy: bool) -> None:
    def select(collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "old")
        collection.insert(new, len(collection.history))

    def script(history: list[Message]) -> Any:
        return [*without(history, "u3", "a3"), new], result()

    session = talk(ScriptedStrategy(select) if is_strategy else ScriptedPlugin(script))

    assert session.manual_gc().outcome in (GCOutcome.REJECTED, GCOutcome.FAILED)
    assert message_ids(session) == WHOLE


# --- results ---


class ForeignSource(Enum):
    CONVERSATION = "conversation"


class ForeignOutcome(Enum):
    REACHED = "reached"
    FAILED = "failed"


def foreign_item(**fields: Any) -> Any:
    return SimpleNamespace(source=ForeignSource.CONVERSATION, child_key="mine", **fields)


def test_a_result_of_another_class_is_read_by_attribute() -> None:
    def script(history: list[Message]) -> Any:
        item = foreign_item(reason="old", message_ids=["u3", "a3"])
        foreign = SimpleNamespace(
            success=True,
            outcome=ForeignOutcome.REACHED,
            details={"turns": 1},
            removal_list=[item],
        )
        return without(history, "u3", "a3"), foreign

    session = talk(ScriptedPlugin(script))

    outcome = session.manual_gc()

    assert type(outcome) is GCResult
    assert outcome.outcome is GCOutcome.REACHED, outcome.error
    assert outcome.details.items() >= {"turns_before": 5, "turns_removed": 1, "turns": 1}.items()
    (item,) = outcome.removal_list
    assert (item.child_key, item.reason, item.message_ids) == ("mine", "old", ["u3", "a3"])
    assert outcome.tokens_before - outcome.tokens_after == item.tokens_freed > 0


@pytest.mark.parametrize(
    "fields",
    [{}, {"removal_list": None}, {"details": None}, {"outcome": None}, {"notification": None}],
)
def test_only_success_is_required_of_a_result(fields: dict[str, Any]) -> None:
    def script(history: list[Message]) -> Any:
        return without(history, "u3", "a3"), SimpleNamespace(success=True, **fields)

    session = talk(ScriptedPlugin(script))
    assert session.manual_gc().outcome is GCOutcome.REACHED
    assert "u3" not in message_ids(session)


@pytest.mark.parametrize(
    "fields",
    [{"success": False}, {"success": True, "outcome": ForeignOutcome.FAILED}],
)
def test_a_result_of_another_class_can_report_a_failure(fields: dict[str, Any]) -> None:
    def script(history: list[Message]) -> Any:
        return without(history, "u3", "a3"), SimpleNamespace(error="no luck", **fields)

    session = talk(ScriptedPlugin(script))
    outcome = session.manual_gc()
    assert (outcome.outcome, outcome.error) == (GCOutcome.FAILED, "no luck")
    assert message_ids(session) == WHOLE


# --- what comes back ---


def summarized(plugin: object, **settings: Any) -> GCSession:
    """Returns a session with a summary between turns 0 and 1, and pinned call 1."""
    config = GCConfig(**({"preserve_recent_turns": 1} | settings))
    session = new_session(cast(GCPlugin, plugin), config)
    speak(session, 0)
    session.append(
        Message.from_text(
            Role.USER, LONG_TEXT, message_id="summary", synthetic=SyntheticKind.SUMMARY
        )
    )
    speak(session, 1, 2, 3, calls=1)
    speak(session, 4)
    session.pin("r1.0")
    return session


def newest_only(history: list[Message]) -> Any:
    return history[-1:], result()


def test_without_a_budget_parameter_everything_held_comes_back_and_summaries() -> None:
    session = summarized(WithoutBudget(newest_only), preserve_recent_groups=1)
    before = message_ids(session)

    outcome = session.manual_gc()

    assert outcome.outcome is GCOutcome.REACHED, outcome.error
    expected = ["u0", "summary", "c1.0", "r1.0", "c3.0", "r3.0", "u4", "a4"]
    assert message_ids(session) == expected
    assert_in_step(session)
    session.undo()
    assert message_ids(session) == before


@pytest.mark.parametrize("last", [0, 1, 2, 3])
def test_with_a_budget_parameter_the_last_call_groups_come_back(last: int) -> None:
    def script(history: list[Message]) -> Any:
        kept = ("u0", "summary", "c1.0", "r1.0", "u4", "a4")
        return [each for each in history if each.message_id in kept], result()

    session = summarized(ScriptedPlugin(script), preserve_recent_groups=last)

    outcome = session.manual_gc()

    assert outcome.outcome is GCOutcome.REACHED, outcome.error
    back = ["c2.0", "r2.0", "c3.0", "r3.0"][max(0, 4 - 2 * last) :]
    assert message_ids(session) == ["u0", "summary", "c1.0", "r1.0", *back, "u4", "a4"]
    assert_in_step(session)


@pytest.mark.parametrize(
    "removed",
    [("u0", "a0"), ("c1.0", "r1.0"), ("a4",)],
    ids=["locked", "pinned", "recent"],
)
def test_with_a_budget_parameter_other_held_messages_do_not_come_back(
    removed: tuple[str, ...],
) -> None:
    def script(history: list[Message]) -> Any:
        return without(history, *removed), result()

    session = summarized(ScriptedPlugin(script), preserve_recent_groups=2)
    before = session.history

    outcome = session.manual_gc()

    assert outcome.outcome is GCOutcome.REJECTED
    assert "protected_kept" in str(outcome.error)
    assert session.history == before
