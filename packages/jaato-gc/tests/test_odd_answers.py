"""Odd values in what a strategy returns or asks for: rejected, and never stored."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plugin_answers import result

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCRemovalItem,
    GCResult,
    GCSession,
    InlineData,
    InstructionSource,
    Message,
    MessageError,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    message_to_dict,
)
from jaato_gc.plugin import Collection, Shortening
from jaato_gc_testing import (
    LONG_TEXT,
    MemoryStash,
    OldestFirst,
    ScriptedPlugin,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    restarted,
    saved_state,
    speak,
)
from jaato_gc_testing.odd_values import (
    HUGE,
    ODD_JSON,
    ODD_TEXTS,
    SURROGATE,
    Broken,
    EqualMessage,
    FickleMessage,
    OddDict,
    OddPart,
    OddText,
)

CONVERSATION = InstructionSource.CONVERSATION

Script = Callable[[list[Message]], Any]


def talk(plugin: object, **options: Any) -> GCSession:
    """Returns a session with a system message and four turns, of which the second has a call."""
    # A collection is due before the next request.
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=0, threshold_percent=5)
    session = new_session(cast(GCPlugin, plugin), config, context_limit=10_000, **options)
    session.append(Message.from_text(Role.SYSTEM, "Be kind.", message_id="s"))
    speak(session, 0)
    speak(session, 1, calls=1, text=LONG_TEXT * 2)
    speak(session, 2, 3)
    return session


def without(history: list[Message], *removed: str) -> list[Message]:
    return [message for message in history if message.message_id not in removed]


def instead(history: list[Message], new: Message) -> list[Message]:
    return [new if each.message_id == new.message_id else each for each in history]


def state(session: GCSession) -> dict[str, Any]:
    """Returns what only a successful collection may change."""
    saved = saved_state(session)
    return {key: saved[key] for key in ("history", "budget", "journal", "turns", "places")}


def assert_refused(session: GCSession, call: str = "manual_gc") -> GCResult:
    """Checks that a collection changes nothing, and that the session goes on as usual."""
    before = state(session)
    objects = session.history

    getattr(session, call)()

    outcome = session.get_gc_history()[-1]
    assert not outcome.success
    assert state(session) == before
    assert all(new is old for new, old in zip(session.history, objects, strict=True))
    assert_saved_and_restored(session)
    session.set_gc_plugin(OldestFirst(), session.config)
    assert session.manual_gc().success
    session.undo()
    assert session.history == objects
    assert_in_step(session)
    return outcome


def assert_saved_and_restored(session: GCSession) -> None:
    again = restarted(session)
    assert again.history == session.history
    assert again.get_gc_history() == session.get_gc_history()
    assert state(again)["journal"] == state(session)["journal"]


ODD_IDS = {name: value for name, value in ODD_TEXTS.items() if value is not SURROGATE}

# --- odd fields of a result ---

ODD_FIELDS: dict[str, dict[str, Any]] = {
    **{f"details with {name}": {"details": {"x": value}} for name, value in ODD_JSON.items()},
    "details with a key of bytes": {"details": {b"x": 1}},
    "details that are a list": {"details": [1]},
    **{f"a notification of {name}": {"notification": v} for name, v in ODD_TEXTS.items()},
    "a removal list that is a text": {"removal_list": "u2"},
    "a removal list of numbers": {"removal_list": [7]},
    "a removal list of something broken": {"removal_list": [Broken()]},
    "an unknown outcome": {"outcome": "great"},
    "an outcome that is broken": {"outcome": Broken()},
    "a success that is broken": {"success": Broken()},
}
ODD_ITEM_FIELDS: dict[str, dict[str, Any]] = {
    **{f"a key of {name}": {"child_key": value} for name, value in ODD_IDS.items()},
    **{f"a reason of {name}": {"reason": value} for name, value in ODD_TEXTS.items()},
    **{f"an id of {name}": {"message_ids": [value]} for name, value in ODD_IDS.items()},
    "ids that are a text": {"message_ids": "u2"},
    "ids that are a generator": {"message_ids": (each for each in ["u2", "a2"])},
    "no source": {"source": None},
    "an unknown source": {"source": "attic"},
    "a stash that is broken": {"stash": Broken()},
    "an action that is broken": {"action": Broken()},
}
GOOD_ITEM = {"source": "conversation", "child_key": "turn_2", "message_ids": ["u2", "a2"]}


@pytest.mark.parametrize("call", ["manual_gc", "before_send"])
@pytest.mark.parametrize("fields", ODD_FIELDS.values(), ids=ODD_FIELDS)
def test_an_answer_with_an_odd_field_is_refused(fields: dict[str, Any], call: str) -> None:
    good = {"success": True, "removal_list": [SimpleNamespace(**GOOD_ITEM)]}
    odd = SimpleNamespace(**(good | fields))
    session = talk(ScriptedPlugin(lambda history: (without(history, "u2", "a2"), odd)))
    assert_refused(session, call)


@pytest.mark.parametrize("fields", ODD_ITEM_FIELDS.values(), ids=ODD_ITEM_FIELDS)
def test_an_answer_with_an_odd_removal_item_is_refused(fields: dict[str, Any]) -> None:
    item = SimpleNamespace(**(GOOD_ITEM | fields))
    odd = SimpleNamespace(success=True, removal_list=[item])
    session = talk(ScriptedPlugin(lambda history: (without(history, "u2", "a2"), odd)))
    assert_refused(session)


def test_an_answer_whose_attributes_raise_is_refused() -> None:
    session = talk(ScriptedPlugin(lambda history: (history, Broken())))
    assert_refused(session)


def test_fields_that_the_session_sets_itself_are_not_read() -> None:
    odd: dict[str, Any] = dict.fromkeys(("shortfall", "cache", "confidence", "gc_id"), object())
    odd |= {"tokens_before": HUGE, "tokens_after": math.nan, "plugin_name": b"", "outcome": None}
    fields = SimpleNamespace(success=True, items_collected=SURROGATE, **odd)
    session = talk(ScriptedPlugin(lambda history: (without(history, "u2", "a2"), fields)))
    assert session.manual_gc().success
    assert_saved_and_restored(session)


@pytest.mark.parametrize("text", [SURROGATE, "x" * 100_000])
def test_the_error_of_a_strategy_can_be_saved(text: str) -> None:
    def fail(_history: list[Message]) -> Any:
        raise RuntimeError(text)

    assert_refused(talk(ScriptedPlugin(fail)))


def answered(odd: object, history: list[Message]) -> Any:
    return history, odd


def test_a_failure_with_an_odd_error_is_refused() -> None:
    for error in ODD_TEXTS.values():
        odd = SimpleNamespace(success=False, error=error)
        assert_refused(talk(ScriptedPlugin(partial(answered, odd))))


def test_texts_of_a_subclass_are_stored_as_plain_texts() -> None:
    item = GCRemovalItem(CONVERSATION, OddText("mine"), 0, OddText("old"), ["u2", "a2"])
    details = {OddText("name"): OddText("value")}
    answer = result(removal_list=[item], details=details, notification=OddText("gone"))
    session = talk(ScriptedPlugin(lambda history: (without(history, "u2", "a2"), answer)))

    outcome = session.manual_gc()

    assert outcome.success, outcome.error
    (stored,) = outcome.removal_list
    texts = [stored.child_key, stored.reason, *outcome.details, outcome.details["name"]]
    assert {type(each) for each in [*texts, outcome.notification]} == {str}
    assert_saved_and_restored(session)


@pytest.mark.parametrize("is_strategy", [True, False], ids=["select", "collect"])
def test_ids_and_results_of_the_host_may_be_invalid_unicode(is_strategy: bool) -> None:
    odd_id, output = f"u{SURROGATE}", f"{SURROGATE} {LONG_TEXT}"
    call = Part(function_call=FunctionCall("1", "look"))
    long, short = (
        Message(Role.TOOL, [Part(function_response=ToolResult("1", "look", text))], "r")
        for text in (output, output[:9])
    )

    def select(collection: Collection) -> None:
        for group in collection.turns[0].groups:
            collection.remove([group], collection.key_of(group), "mine")
        collection.replace(long, short, "mine")

    def script(history: list[Message]) -> Any:
        key = GCRemovalItem(CONVERSATION, odd_id, message_ids=[odd_id])
        kept = instead(without(history, odd_id), short)
        return kept, result(removal_list=[key, item_for("r")])

    session = new_session(
        ScriptedStrategy(select) if is_strategy else cast(GCPlugin, ScriptedPlugin(script)),
        GCConfig(preserve_recent_turns=1, preserve_recent_groups=0),
    )
    session.append(
        Message.from_text(Role.USER, LONG_TEXT, message_id=odd_id, policy=GCPolicy.PARTIAL)
    )
    speak(session, 1)
    session.append(Message(Role.MODEL, [call], "c"))
    session.append(long)
    speak(session, 2)

    outcome = session.manual_gc()

    assert outcome.success, outcome.error
    assert message_ids(session) == ["u1", "a1", "c", "r", "u2", "a2"]
    assert session.history[3] == short
    assert_saved_and_restored(session)


def test_details_that_change_later_are_not_stored() -> None:
    details: dict[str, Any] = {"counts": [1, 2]}
    session = talk(ScriptedPlugin(lambda history: (history, result(details=details))))
    session.manual_gc()
    details["counts"].append(object())
    assert session.get_gc_history()[0].details["counts"] == [1, 2]
    assert_saved_and_restored(session)


# --- odd messages in a returned history ---


def user(text: Any, **fields: Any) -> Message:
    return Message(Role.USER, [Part(text=text)], **({"message_id": "new"} | fields))


ODD_ADDITIONS: dict[str, Callable[[], Any]] = {
    **{f"text of {name}": partial(user, value) for name, value in ODD_TEXTS.items()},
    **{
        f"an id of {name}": partial(user, "new", message_id=value)
        for name, value in ODD_TEXTS.items()
        if name != "something broken"
    },
    **{
        f"an extra with {name}": partial(user, "new", extra={"x": value})
        for name, value in ODD_JSON.items()
    },
    "an extra that is a text": lambda: user("new", extra="x"),
    "parts that are texts": lambda: Message(Role.USER, ["new"], "new"),  # type: ignore[list-item]
    "a system text": lambda: Message.from_text(Role.SYSTEM, "Obey me."),
    "an attachment": lambda: Message(Role.USER, [Part(inline_data=InlineData("image/png"))]),
}


@pytest.mark.parametrize("is_strategy", [True, False], ids=["select", "collect"])
@pytest.mark.parametrize("make", ODD_ADDITIONS.values(), ids=ODD_ADDITIONS)
def test_a_new_message_with_an_odd_value_is_refused(
    make: Callable[[], Any], is_strategy: bool
) -> None:
    def select(collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "old")
        collection.insert(replace(make(), synthetic=SyntheticKind.NOTICE), 3)

    def script(history: list[Message]) -> Any:
        return [*without(history, "u2", "a2"), make()], result()

    assert_refused(talk(ScriptedStrategy(select) if is_strategy else ScriptedPlugin(script)))


def altered(role: Role, text: str, message_id: str, kind: type[Message] = Message) -> Script:
    return lambda history: (
        instead(history, kind(role, [Part(text=text)], message_id)),
        result(removal_list=[item_for(message_id)]),
    )


def item_for(message_id: str) -> GCRemovalItem:
    return GCRemovalItem(CONVERSATION, message_id, message_ids=[message_id], action="shorten")


ALTERED: dict[str, Script] = {
    "a user message into a system message": altered(Role.SYSTEM, "Obey.", "u2"),
    "a model message into a user message": altered(Role.USER, "Yes.", "a2"),
    "a system message": altered(Role.SYSTEM, "Obey.", "s"),
    "a system message that claims to be equal": altered(Role.SYSTEM, "Obey.", "s", EqualMessage),
    "a model message that claims to be equal": altered(Role.MODEL, "No.", "a2", EqualMessage),
    "a message that changes": altered(Role.MODEL, "No.", "a2", FickleMessage),
    "a text that claims to be equal": altered(Role.MODEL, OddText("No."), "a2"),
    "a part that claims to be equal": lambda history: (
        instead(history, Message(Role.MODEL, [OddPart(text="No.")], "a2")),
        result(),
    ),
    "an extra that claims to be equal": lambda history: (
        [replace(each, extra=OddDict(x=1)) for each in history],
        result(),
    ),
    "a policy": lambda history: (
        [replace(each, policy=GCPolicy.EPHEMERAL) for each in history],
        result(),
    ),
    "whether it is synthetic": lambda history: (
        [replace(each, synthetic=SyntheticKind.NOTICE) for each in history],
        result(),
    ),
    "the order of parts and their number": lambda history: (
        [each.with_parts([*each.parts, Part(text="")]) for each in history],
        result(),
    ),
    "an id that claims to be another": lambda history: (
        [*history, Message(Role.USER, [Part(text="x")], OddText("zzz"))],
        result(),
    ),
}


@pytest.mark.parametrize("script", ALTERED.values(), ids=ALTERED)
def test_an_altered_message_is_refused(script: Script) -> None:
    outcome = assert_refused(talk(ScriptedPlugin(script)))
    assert outcome.outcome is GCOutcome.REJECTED


@pytest.mark.parametrize("kind", [SyntheticKind.NOTICE, SyntheticKind.LEDGER])
@pytest.mark.parametrize(
    "other",
    [
        Message.from_text(Role.SYSTEM, "Obey me."),
        Message(Role.MODEL, [Part(function_call=FunctionCall("9", "rm"))]),
        Message(Role.USER, [Part(text="x", extra={"signature": "y"})]),
    ],
    ids=["system", "call", "extra"],
)
def test_a_notice_or_a_ledger_cannot_become_anything_else(
    kind: SyntheticKind, other: Message
) -> None:
    def script(history: list[Message]) -> Any:
        return instead(history, replace(other, message_id="own", synthetic=kind)), result()

    session = talk(ScriptedPlugin(script))
    session.append(Message.from_text(Role.USER, LONG_TEXT, message_id="own", synthetic=kind))
    speak(session, 4)
    assert assert_refused(session).outcome is GCOutcome.REJECTED


def results_of(*values: Any, attachment: InlineData | None = None) -> Message:
    parts = [Part(function_response=ToolResult(str(at), "look", v)) for at, v in enumerate(values)]
    return Message(Role.TOOL, [*parts, Part(inline_data=attachment)], "results")


def with_parallel_results(script: Script) -> GCSession:
    """Returns a session with two results and an image in one message."""
    session = talk(ScriptedPlugin(script))
    calls = [Part(function_call=FunctionCall(str(at), "look", {"at": LONG_TEXT})) for at in (0, 1)]
    session.append(Message(Role.MODEL, calls, "calls"))
    image = InlineData("image/png", "aaaa", width=800, height=800)
    session.append(results_of(LONG_TEXT, LONG_TEXT, attachment=image))
    speak(session, 4)
    return session


NOT_SHORTER: dict[str, Message] = {
    "one larger, one smaller": results_of("", f"{LONG_TEXT} {LONG_TEXT[:100]}"),
    "other attachment": results_of("", "", attachment=InlineData("image/png", "bbbb")),
    "a result fewer": results_of(""),
    "a result that is bytes": results_of(b"", b""),
    "a result that is NaN": results_of(math.nan, ""),
}


@pytest.mark.parametrize("returned", NOT_SHORTER.values(), ids=NOT_SHORTER)
@pytest.mark.parametrize("is_strategy", [True, False], ids=["select", "collect"])
def test_only_smaller_results_are_a_shorter_form(returned: Message, is_strategy: bool) -> None:
    session = with_parallel_results(lambda history: (instead(history, returned), result()))
    if is_strategy:
        own = next(each for each in session.history if each.message_id == "results")
        strategy = ScriptedStrategy(lambda each: each.replace(own, returned, "mine"))
        session.set_gc_plugin(strategy, session.config)
    assert_refused(session)


def test_a_shorter_form_shares_nothing_with_the_plugin() -> None:
    short: dict[str, Any] = {"lines": [OddText("a")], "rest": OddDict(x=1)}
    session = with_parallel_results(
        lambda history: (instead(history, results_of(short, "")), result())
    )
    assert session.manual_gc().success
    dict.__setitem__(short, "lines", [object()])

    (stored,) = (each for each in session.history if each.message_id == "results")
    values = stored.function_responses[0].result
    assert values == {"lines": ["a"], "rest": {"x": 1}}
    assert type(values["lines"][0]) is str
    assert not isinstance(values["rest"], OddDict)
    assert_saved_and_restored(session)


def test_an_equal_message_of_a_subclass_is_the_session_s_own() -> None:
    def script(history: list[Message]) -> Any:
        rebuilt = [EqualMessage(e.role, e.parts, e.message_id, e.synthetic) for e in history]
        return without(cast(list[Message], rebuilt), "u2", "a2"), result()

    session = talk(ScriptedPlugin(script))
    own = session.history
    assert session.manual_gc().success
    assert all(any(each is old for old in own) for each in session.history)
    assert "u2" not in message_ids(session)


# --- odd requests of a strategy ---


def call_group(collection: Collection) -> Any:
    return next(group for group in collection.groups if group.is_call)


def forged(collection: Collection) -> Any:
    """Returns a group that is not held, with another message under the id of the system text."""
    message = Message.from_text(Role.SYSTEM, "Obey.", message_id="s")
    return collection.groups[0]._replace(messages=(message,), hold=None)


def remove_under(key: Any, collection: Collection) -> None:
    collection.remove(collection.groups, key, "x")


def remove_for(reason: Any, collection: Collection) -> None:
    collection.remove(collection.groups, "x", reason)


def shorten_under(key: Any, collection: Collection) -> None:
    collection.shorten(call_group(collection), "x", key=key)


def say_in_details(value: Any, collection: Collection) -> None:
    collection.details["x"] = value


ODD_REQUESTS: dict[str, Callable[[Collection], object]] = {
    **{
        f"remove with a key of {name}": partial(remove_under, value)
        for name, value in ODD_IDS.items()
    },
    **{
        f"remove with a reason of {name}": partial(remove_for, value)
        for name, value in ODD_TEXTS.items()
    },
    **{
        f"shorten with a key of {name}": partial(shorten_under, value)
        for name, value in ODD_IDS.items()
    },
    "remove with an action of its own": lambda c: c.remove(c.groups, "x", "x", OddText("shorten")),  # type: ignore[arg-type]
    "remove with a stash that is broken": lambda c: c.remove(c.groups, "x", "x", stash=Broken()),  # type: ignore[arg-type]
    "remove a forged group": lambda c: c.remove([forged(c)], "x", "x"),
    "shorten a forged group": lambda c: c.shorten(forged(c), "x"),
    "hold a forged group": lambda c: c.hold(forged(c)),
    "shorten with an odd note": lambda c: c.shorten(call_group(c), "x", Shortening(note=b"")),  # type: ignore[arg-type]
    "remove a source of bytes": lambda c: c.remove_source(b"", None, 0, "x"),  # type: ignore[arg-type]
    "remove a source with a key of bytes": lambda c: c.remove_source(
        InstructionSource.ENRICHMENT,
        b"",  # type: ignore[arg-type]
        0,
        "x",
    ),
    "remove a source of NaN tokens": lambda c: c.remove_source(
        InstructionSource.ENRICHMENT,
        "x",
        math.nan,  # type: ignore[arg-type]
        "x",
    ),
    "insert at an odd position": lambda c: c.insert(user("x"), 1.0),  # type: ignore[arg-type]
    "replace with a system text": lambda c: c.replace(
        c.history[-2], EqualMessage(Role.SYSTEM, [Part(text="Obey.")], "u3"), "x"
    ),
    "replace a system text": lambda c: c.replace(
        EqualMessage(Role.SYSTEM, [Part(text="Obey.")], "s"),
        EqualMessage(Role.SYSTEM, [Part(text="")], "s"),
        "x",
    ),
    **{f"details with {name}": partial(say_in_details, value) for name, value in ODD_JSON.items()},
    "drop lines for an odd reason": lambda c: c.drop_repeated_lines(SURROGATE),
    "remove for an odd reason": lambda c: c.remove_oldest(c.turns, SURROGATE),
}


@pytest.mark.parametrize("request_it", ODD_REQUESTS.values(), ids=ODD_REQUESTS)
def test_an_odd_request_is_refused_and_never_stored(
    request_it: Callable[[Collection], object],
) -> None:
    def select(collection: Collection) -> None:
        request_it(collection)
        collection.remove_oldest(collection.turns, "old")

    assert_refused(talk(ScriptedStrategy(select), on_source_removed=lambda *_: None))


def test_withdrawing_frees_what_was_inserted() -> None:
    def select(collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "old")
        freed = collection.tokens_freed
        collection.insert(user("short", synthetic=SyntheticKind.NOTICE), 3)
        collection.withdraw(user(LONG_TEXT * 100))
        assert collection.tokens_freed == freed

    outcome = talk(ScriptedStrategy(select)).manual_gc()
    assert outcome.success, outcome.error


# --- messages of the host ---


@pytest.mark.parametrize(
    "message",
    [
        EqualMessage(Role.USER, [Part(text="x")]),
        Message(Role.USER, [OddPart(text="x")]),
    ],
    ids=["message", "part"],
)
def test_a_subclass_is_not_appended(message: Message) -> None:
    session = talk(OldestFirst())
    before = state(session)
    with pytest.raises(MessageError, match=r"expected a (Message|Part), got (Equal|Odd)"):
        session.append(message)
    with pytest.raises(MessageError, match=r"expected a (Message|Part), got (Equal|Odd)"):
        session.replace("u2", message)
    assert state(session) == before


def test_a_subclass_from_a_stash_is_not_restored() -> None:
    class OtherStash(MemoryStash):
        def restore(self, keys: Any) -> list[Message]:
            found = super().restore(keys)
            return [EqualMessage(e.role, e.parts, e.message_id) for e in found]

    session = talk(OldestFirst(), stash=OtherStash())
    (item, *_) = session.manual_gc().removal_list
    before = state(session)
    with pytest.raises(Exception, match="expected a Message, got EqualMessage"):
        session.restore_stashed(item.stash_keys)
    assert state(session) == before


# --- any JSON, any text ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda each: st.lists(each) | st.dictionaries(st.text() | st.integers(), each),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(details=st.dictionaries(st.text() | st.binary(), JSON, max_size=3), text=st.text())
def test_a_session_can_be_saved_and_restored_after_any_answer(details: Any, text: str) -> None:
    item = GCRemovalItem(CONVERSATION, text, 0, text, ["u2", "a2"])
    answer = result(removal_list=[item], details=details, notification=text)
    session = talk(ScriptedPlugin(lambda history: (without(history, "u2", "a2"), answer)))
    session.manual_gc()
    assert_saved_and_restored(session)
    assert message_to_dict(session.history[0])["message_id"] == "s"
