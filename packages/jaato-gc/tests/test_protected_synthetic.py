"""Synthetic messages that have to stay: notices, summaries, ledgers and recalled content."""

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest
from plugin_answers import WithoutBudget, result

from jaato_gc import (
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCSession,
    Message,
    Role,
    StalePlanError,
    SyntheticKind,
    message_from_dict,
    message_to_dict,
)
from jaato_gc.plugin import Collection
from jaato_gc_testing import (
    LONG_TEXT,
    OldestFirst,
    ScriptedPlugin,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    restarted,
    speak,
)

NOTICE, SUMMARY, LEDGER, RECALL = SyntheticKind
IDS = {NOTICE: "gc_notice", SUMMARY: "summary", LEDGER: "gc_ledger", RECALL: "recall"}

LOW = {"threshold_percent": 1}
"""Makes a collection due before the next request."""

Returned = Callable[[list[Message]], list[Message]]


def synthetic(kind: SyntheticKind, **fields: Any) -> Message:
    fields = {"message_id": IDS[kind], "synthetic": kind} | fields
    return Message.from_text(Role.USER, f"{kind} {LONG_TEXT}", **fields)


def session_with(plugin: object, message: Message, /, **settings: Any) -> GCSession:
    """Returns a session of six turns, with a synthetic message between the first two."""
    config = GCConfig(**({"preserve_recent_turns": 1, "preserve_recent_groups": 0} | settings))
    session = new_session(cast(GCPlugin, plugin), config, context_limit=10_000)
    speak(session, 0)
    session.append(message)
    speak(session, 1, 2, 3, 4, 5)
    return session


# --- how a plugin returns what it keeps ---

COPIES: dict[str, Returned] = {
    "the same objects": list,
    "equal copies": copy.deepcopy,
    "copies by way of JSON": lambda kept: [message_from_dict(message_to_dict(m)) for m in kept],
    "copies with other ids": lambda kept: [
        Message(each.role, each.parts, f"other-{each.message_id}", each.synthetic) for each in kept
    ],
}


def drop_from(removed: set[str], returned: Returned) -> Callable[[list[Message]], Any]:
    return lambda history: (
        returned([each for each in history if each.message_id not in removed]),
        result(),
    )


def take_from(removed: set[str]) -> Callable[[Collection], None]:
    def select(collection: Collection) -> None:
        for group in collection.groups:
            if group.messages[0].message_id in removed:
                collection.remove([group], collection.key_of(group), "mine")

    return select


def plugins(*removed: str) -> dict[str, object]:
    """Returns plugins of all forms that remove some messages."""
    ids = set(removed)
    made: dict[str, object] = {"select": ScriptedStrategy(take_from(ids))}
    for name, returned in COPIES.items():
        made[f"with budget, {name}"] = ScriptedPlugin(drop_from(ids, returned))
        made[f"without budget, {name}"] = WithoutBudget(drop_from(ids, returned))
    return made


FORMS = list(plugins())


def is_kept(session: GCSession, message: Message) -> bool:
    """Returns whether a message is in the history, as it was, and the session is consistent."""
    assert_in_step(session)
    assert message_ids(restarted(session)) == message_ids(session)
    found = [each for each in session.history if each.message_id == message.message_id]
    return [message_to_dict(each) for each in found] == [message_to_dict(message)]


# --- LOCKED, pinned and recent ---


def locked(_session: GCSession, _kind: SyntheticKind) -> None:
    """The message is LOCKED since it was appended."""


def pinned(session: GCSession, kind: SyntheticKind) -> None:
    session.pin(IDS[kind])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protect", [locked, pinned])
@pytest.mark.parametrize("kind", SyntheticKind)
def test_a_fixed_synthetic_message_stays(
    kind: SyntheticKind, protect: Callable[[GCSession, SyntheticKind], None], form: str
) -> None:
    policy = GCPolicy.LOCKED if protect is locked else None
    message = synthetic(kind, policy=policy)
    plugin = plugins("u2", "a2", IDS[kind])[form]
    session = session_with(plugin, message)
    protect(session, kind)
    before = message_ids(session)

    outcome = session.manual_gc()

    assert is_kept(session, message)
    if form.startswith("with budget"):
        assert outcome.outcome is GCOutcome.REJECTED
        assert f"protected_kept at message '{IDS[kind]}'" in str(outcome.error)
        assert message_ids(session) == before
    else:
        assert outcome.success, outcome.error
        assert message_ids(session) == [each for each in before if each not in ("u2", "a2")]
    session.before_send()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", SyntheticKind)
def test_a_pinned_message_may_be_returned_as_a_copy(kind: SyntheticKind, form: str) -> None:
    message = synthetic(kind)
    session = session_with(plugins("u2", "a2")[form], message, **LOW)
    session.pin(IDS[kind])
    session.pin("a3")
    before = session.history

    session.before_send()

    assert session.get_gc_history()[0].success, session.get_gc_history()[0].error
    assert is_kept(session, message)
    assert session.history == [each for each in before if each.message_id not in ("u2", "a2")]


@pytest.mark.parametrize("form", FORMS)
def test_recalled_content_of_a_recent_turn_stays(form: str) -> None:
    message = synthetic(RECALL)
    session = new_session(
        cast(GCPlugin, plugins("u2", "a2", "recall")[form]), GCConfig(preserve_recent_turns=1)
    )
    speak(session, *range(6))
    session.append(message)

    outcome = session.manual_gc()

    assert is_kept(session, message)
    assert outcome.success is not form.startswith("with budget"), outcome.error


# --- PRESERVABLE ---


@pytest.mark.parametrize("pressure", [None, 90.0], ids=["continuous mode", "below pressure"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [SUMMARY, LEDGER])
def test_summaries_and_ledgers_stay_below_pressure(
    kind: SyntheticKind, form: str, pressure: float | None
) -> None:
    message = synthetic(kind)
    plugin = plugins("u2", "a2", IDS[kind])[form]
    session = session_with(plugin, message, pressure_percent=pressure)

    outcome = session.manual_gc()

    assert is_kept(session, message)
    is_ignored = form.startswith("without") or (form, kind) == ("select", LEDGER)
    assert outcome.outcome is (GCOutcome.REACHED if is_ignored else GCOutcome.REJECTED)
    assert is_ignored or "summaries_kept" in str(outcome.error)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [SUMMARY, LEDGER])
def test_summaries_and_ledgers_may_go_under_pressure(kind: SyntheticKind, form: str) -> None:
    message = synthetic(kind)
    plugin = plugins("u2", "a2", IDS[kind])[form]
    session = session_with(plugin, message, pressure_percent=1)

    outcome = session.manual_gc()

    assert outcome.success, outcome.error
    # A plugin without a budget can't know of pressure.
    assert is_kept(session, message) is form.startswith("without")


@pytest.mark.parametrize("form", ["select", "with budget"])
def test_a_summary_may_be_replaced_by_another_below_pressure(form: str) -> None:
    new = Message.from_text(Role.USER, "shorter", message_id="new", synthetic=SUMMARY)

    def select(collection: Collection) -> None:
        collection.insert(new, 2)
        take_from({"summary"})(collection)

    def script(history: list[Message]) -> Any:
        return [*history[:2], new, *history[3:]], result()

    plugin = ScriptedStrategy(select) if form == "select" else ScriptedPlugin(script)
    session = session_with(plugin, synthetic(SUMMARY))

    assert session.manual_gc().success
    assert message_ids(session)[2] == "new"


# --- what core writes itself ---


@pytest.mark.parametrize("protect", [locked, pinned])
def test_a_fixed_notice_is_not_replaced(
    protect: Callable[[GCSession, SyntheticKind], None],
) -> None:
    message = synthetic(NOTICE, policy=GCPolicy.LOCKED if protect is locked else None)
    plugin = OldestFirst()
    plugin.initialize({"notify_on_gc": True})
    session = session_with(plugin, message)
    protect(session, NOTICE)

    outcome = session.manual_gc()

    assert outcome.success, outcome.error
    assert outcome.notification is None
    assert is_kept(session, message)


def test_a_fixed_notice_of_the_host_stays_beside_the_notice_of_a_collection() -> None:
    message = synthetic(NOTICE, message_id="hosts", policy=GCPolicy.LOCKED)
    plugin = OldestFirst()
    plugin.initialize({"notify_on_gc": True})
    session = session_with(plugin, message)

    outcome = session.manual_gc()

    assert outcome.success, outcome.error
    assert outcome.notification
    assert is_kept(session, message)
    assert "gc_notice" in message_ids(session)


@pytest.mark.parametrize("protect", [locked, pinned])
def test_a_fixed_ledger_is_not_rewritten(
    protect: Callable[[GCSession, SyntheticKind], None],
) -> None:
    def select(collection: Collection) -> None:
        collection.leave_ledger()
        collection.remove_oldest(collection.turns, "old")

    message = synthetic(LEDGER, policy=GCPolicy.LOCKED if protect is locked else None)
    session = session_with(ScriptedStrategy(select), message)
    speak(session, 6, 7, calls=1, text="src/module.py")
    speak(session, 8)
    protect(session, LEDGER)

    outcome = session.manual_gc()

    assert outcome.success, outcome.error
    assert is_kept(session, message)


# --- plans that are stale each time ---


@pytest.mark.parametrize("call", ["manual_gc", "before_send"])
def test_a_collection_whose_plans_are_always_stale_has_failed(call: str) -> None:
    def remove_and_pin(collection: Collection) -> None:
        (group, *_) = (each for each in collection.groups if collection.may_remove(each))
        collection.remove([group], "mine", "mine")
        session.pin(group.messages[0].message_id)

    session = session_with(ScriptedStrategy(remove_and_pin), synthetic(RECALL), **LOW)
    before = session.history

    getattr(session, call)()

    (outcome,) = session.get_gc_history()
    assert outcome.outcome is GCOutcome.FAILED
    assert "pinned since" in str(outcome.error)
    assert outcome.removal_list == []
    assert session.history == before
    assert_in_step(session)


def test_applying_a_stale_plan_still_raises() -> None:
    session = session_with(OldestFirst(), synthetic(SUMMARY))
    plan = session.plan_gc()
    session.pin("u2")
    with pytest.raises(StalePlanError, match="pinned since"):
        session.apply(plan)
