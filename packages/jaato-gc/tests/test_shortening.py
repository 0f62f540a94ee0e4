"""Shortening: what a shorter form keeps, what its stub says, and what may be shortened."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCPolicy,
    GCRemovalItem,
    GCResult,
    GCSession,
    GCTriggerReason,
    InlineData,
    InstructionSource,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    count_tokens,
)
from jaato_gc.plugin import (
    Collection,
    Shortening,
    as_text,
    fenced,
    shortened,
    stash_key,
)
from jaato_gc_testing import (
    COUNTER,
    MemoryStash,
    ScriptedStrategy,
    assert_in_step,
    histories,
    new_session,
    restarted,
)

LONG = "lorem ipsum dolor sit amet " * 20
KEY = "0123456789abcdef"
WHOLE_STUB = Shortening()
ARGUMENTS = Shortening(what="arguments")
PROPERTY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def answer(result: Any, message_id: str = "r", **fields: Any) -> Message:
    part = Part(function_response=ToolResult("1", "look", result), **fields)
    return Message(Role.TOOL, [part], message_id)


def asks(args: dict[str, Any], message_id: str = "c", **fields: Any) -> Message:
    part = Part(function_call=FunctionCall("1", "write", args), **fields)
    return Message(Role.MODEL, [part], message_id)


def result_of(message: Message) -> Any:
    return message.function_responses[0].result


def args_of(message: Message) -> dict[str, Any]:
    return message.function_calls[0].args


def short(text: Any, how: Shortening = WHOLE_STUB, key: str | None = None) -> Any:
    return result_of(shortened(answer(text), how, key=key))


# --- the stub ---


def test_a_stub_says_how_much_went_and_why() -> None:
    assert short("x" * 500) == "[500 characters cleared: to free context space]"
    assert short("x" * 500, Shortening("read again later")) == (
        "[500 characters cleared: read again later]"
    )


def test_a_stub_names_the_key_to_ask_for() -> None:
    assert short("x" * 500, key=KEY) == (
        f"[500 characters cleared: to free context space; recall key {KEY}]"
    )


def test_a_value_that_is_not_text_is_measured_as_the_text_that_a_model_sees() -> None:
    value = {"stdout": "x" * 500, "code": 0}
    assert short(value) == f"[{len(as_text(value))} characters cleared: to free context space]"


@pytest.mark.parametrize("value", ["", "ok", None, 17, {"code": 0}, ["a"], "x" * 399])
def test_a_result_that_is_not_worth_it_is_unchanged(value: Any) -> None:
    message = answer(value)
    assert shortened(message) == message


def test_shortening_changes_only_the_content_of_a_result() -> None:
    before = ToolResult("1", "look", LONG, is_error=True)
    message = Message(Role.TOOL, [Part(function_response=before, extra={"cache": 1})], "r")
    after = shortened(message)
    assert after.message_id == "r"
    assert after.parts[0].extra == {"cache": 1}
    stub = result_of(after)
    assert after.function_responses == [replace(before, result=stub)]
    assert message.function_responses == [before]


# --- head and tail ---

LINES = "\n".join(f"line {number:03}" for number in range(100))


def test_head_and_tail_are_whole_lines() -> None:
    kept = short(LINES, Shortening(head=100, tail=100)).splitlines()
    at = next(number for number, line in enumerate(kept) if line.startswith("["))
    head, tail = kept[:at], kept[at + 1 :]
    assert head == LINES.splitlines()[: len(head)]
    assert tail == LINES.splitlines()[-len(tail) :]
    assert 90 < len("\n".join(head)) <= 100
    assert 80 < len("\n".join(tail)) <= 100


def test_the_first_line_of_a_tail_keeps_its_indentation() -> None:
    code = "\n".join(f"    return {number}" for number in range(100))
    assert short(code, Shortening(tail=60)).splitlines()[1].startswith("    return ")


def test_one_long_line_is_cut_anywhere() -> None:
    text = "0123456789" * 50
    stub = "[470 characters cleared: to free context space]"
    assert short(text, Shortening(head=20, tail=10)) == f"{text[:20]}\n{stub}\n{text[-10:]}"


@pytest.mark.parametrize(
    "how", [Shortening(head=550), Shortening(tail=550), Shortening(head=9, tail=490)]
)
def test_a_text_that_fits_into_head_and_tail_is_unchanged(how: Shortening) -> None:
    text = "0123456789" * 50
    assert short(text, how) == text


TEXT = st.one_of(
    st.text("ab \n\tü漢🎉", max_size=400),
    st.lists(st.sampled_from(["", "x", "    indented", "a longer line of text"]), max_size=60).map(
        "\n".join
    ),
    st.sampled_from(["0123456789" * 60, LINES, "\n" * 300, " " * 300]),
)
SIZES = st.sampled_from([0, 1, 7, 40, 100, 399, 1000])
SHORTENINGS = st.builds(
    Shortening, head=SIZES, tail=SIZES, note=st.sampled_from(["old", "see [1]\nor (2)"])
)
KEYS = st.sampled_from([None, KEY, "f" * 16])
STUB = re.compile(r"\[(\d+) characters cleared: [^\n]*?(?:; recall key (\w+))?\]")


@PROPERTY
@given(text=TEXT, steps=st.lists(st.tuples(SHORTENINGS, KEYS), min_size=1, max_size=4))
def test_repeated_shortening_counts_from_the_original_and_keeps_the_first_key(
    text: str, steps: list[tuple[Shortening, str | None]]
) -> None:
    now, first_key = text, None
    for how, key in steps:
        before, now = now, short(now, how, key)
        assert len(now) < len(before) or now == before
        assert short(now, how, key) == now
        first_key = first_key or (key if now != before else None)
        stub = STUB.search(now)
        if stub is None:
            assert now == text
            continue
        head, tail = now[: stub.start()], now[stub.end() :]
        assert "[" not in head + tail
        head, tail = head.removesuffix("\n"), tail.removeprefix("\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert int(stub[1]) == len(text) - len(head) - len(tail)
        assert stub[2] == first_key


def test_a_shortened_result_can_be_shortened_further() -> None:
    once = short(LINES, Shortening(head=200, tail=200), KEY)
    twice = short(once, Shortening(head=50), "f" * 16)
    assert twice.splitlines()[:5] == LINES.splitlines()[:5]
    assert f"[{len(LINES) - 44} characters cleared" in twice
    assert KEY in twice
    assert short(twice, key="f" * 16) == (
        f"[{len(LINES)} characters cleared: to free context space; recall key {KEY}]"
    )


@pytest.mark.parametrize("digits", ["9" * 5000, "٣" * 30, "0", ""])
def test_text_that_looks_like_a_stub_is_shortened_like_other_text(digits: str) -> None:
    text = f"{LONG}\n[{digits} characters cleared: by a tool]\n{LONG}"
    assert len(short(text)) < 200


JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text("ab", max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


@PROPERTY
@given(value=JSON, how=SHORTENINGS, key=KEYS)
def test_shortening_never_makes_a_result_longer(
    value: Any, how: Shortening, key: str | None
) -> None:
    before = answer(value)
    after = shortened(before, how, key=key)
    assert len(as_text(result_of(after))) <= len(as_text(value))
    assert shortened(before, how, key=key) == after
    assert shortened(after, how, key=key) == after


# --- arguments ---


def test_long_arguments_are_shortened_and_short_ones_stay() -> None:
    args = {"path": "a.py", "edits": [{"old": LONG, "new": "x"}, 3, None], "force": True}
    stub = f"[{len(LONG)} characters cleared: to free context space]"
    assert args_of(shortened(asks(args), ARGUMENTS)) == {
        "path": "a.py",
        "edits": [{"old": stub, "new": "x"}, 3, None],
        "force": True,
    }
    assert args["edits"][0]["old"] == LONG  # type: ignore[index]


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return str if isinstance(value, str) else (type(value), value)


@PROPERTY
@given(args=st.dictionaries(st.text("ab", max_size=3), JSON, max_size=4), how=SHORTENINGS)
def test_shortened_arguments_keep_their_shape_and_never_get_longer(
    args: dict[str, Any], how: Shortening
) -> None:
    how = replace(how, what="arguments")
    after = shortened(asks(args), how)
    assert shape(args_of(after)) == shape(args)
    assert len(as_text(args_of(after))) <= len(as_text(args))
    assert shortened(after, how) == after


def test_a_signed_call_is_unchanged() -> None:
    message = asks({"text": LONG}, extra={"signature": "c2ln"})
    assert shortened(message, ARGUMENTS) is message


def test_results_and_arguments_are_shortened_separately() -> None:
    asked, answered = asks({"text": LONG}), answer(LONG)
    assert shortened(asked) is asked
    assert shortened(answered, ARGUMENTS) is answered


# --- the rest of a message ---


def said(message: Message) -> list[Any]:
    return [
        (part.text, part.thought, part.extra, bool(part.function_call))
        for part in message.parts
        if not part.inline_data and "[attachment cleared" not in (part.text or "")
    ]


@PROPERTY
@given(history=histories(min_turns=1, max_turns=3), how=SHORTENINGS, calls=st.booleans())
def test_texts_thoughts_and_call_ids_are_unchanged(
    history: list[Message], how: Shortening, calls: bool
) -> None:
    how = replace(how, what="arguments" if calls else "results")
    for message in history:
        after = shortened(message, how)
        assert said(after) == said(message)
        if not message.function_responses and not message.function_calls:
            assert after is message
        assert [replace(each, result=None) for each in after.function_responses] == [
            replace(each, result=None) for each in message.function_responses
        ]
        assert [replace(each, args={}) for each in after.function_calls] == [
            replace(each, args={}) for each in message.function_calls
        ]


def parallel() -> Message:
    parts = [
        Part(function_response=ToolResult(f"{number}", "look", LONG + str(number)))
        for number in range(3)
    ]
    return Message(Role.TOOL, parts, "r")


def test_only_the_chosen_parts_are_shortened() -> None:
    message = parallel()
    after = shortened(message, parts={1})
    assert after.parts[0] is message.parts[0]
    assert after.parts[2] is message.parts[2]
    assert after.function_responses[1].result.startswith("[")
    assert shortened(message, parts=()) is message
    assert shortened(message, parts={7}) is message


def test_attachments_are_removed_only_when_no_result_stays_whole() -> None:
    picture = Part(inline_data=InlineData("image/png", b"png", width=800, height=600))
    message = Message(Role.TOOL, [*parallel().parts, picture], "r")
    assert shortened(message).parts[-1].inline_data is None
    assert "attachment cleared" in shortened(message).text
    assert shortened(shortened(message)) == shortened(message)
    assert shortened(message, Shortening(head=10)).parts[-1] == picture
    assert shortened(message, parts={0, 1}).parts[-1] == picture
    one_by_one = shortened(shortened(message, parts={0, 1}), parts={2})
    assert one_by_one == shortened(message)
    lonely = Message(Role.USER, [Part(text="look"), picture])
    assert shortened(lonely) is lonely


# --- in a collection ---

Script = Callable[[Collection], None]


def shorten_all(collection: Collection) -> None:
    for group in collection.groups:
        collection.shorten(group, "cleared_old", Shortening(head=30))
        collection.shorten(group, "cleared_old", ARGUMENTS)


def session_of(script: Script, /, **options: Any) -> GCSession:
    config = {"preserve_recent_turns": 1, "preserve_recent_groups": 1} | options.pop("config", {})
    return new_session(ScriptedStrategy(script), GCConfig(**config), **options)


def exchange(session: GCSession, name: str, **fields: Any) -> None:
    asked = FunctionCall(name, "write", {"path": name, "text": LONG})
    session.append(Message(Role.MODEL, [Part(function_call=asked)], f"c{name}", **fields))
    answered = ToolResult(name, "write", f"{name} {LONG}")
    session.append(Message(Role.TOOL, [Part(function_response=answered)], f"r{name}"))


def work(session: GCSession, *turns: int, exchanges: int = 2) -> None:
    for turn in turns:
        session.append(Message.from_text(Role.USER, f"{turn} {LONG}", message_id=f"u{turn}"))
        for number in range(exchanges):
            exchange(session, f"{turn}.{number}")
        session.append(Message.from_text(Role.MODEL, f"{turn} {LONG}", message_id=f"a{turn}"))


def by_id(session: GCSession) -> dict[str, Message]:
    return {message.message_id: message for message in session.history}


def altered(session: GCSession, before: dict[str, Message]) -> set[str]:
    return {name for name, message in by_id(session).items() if message != before[name]}


def test_protected_messages_are_not_shortened() -> None:
    session = session_of(shorten_all)
    work(session, 0, 1, 2, exchanges=3)
    session.append(Message.from_text(Role.USER, "go", message_id="u3"))
    for number in range(3):
        policy = GCPolicy.LOCKED if number == 0 else None
        exchange(session, f"3.{number}", policy=policy)
    session.pin("r1.1")
    before = by_id(session)
    assert session.manual_gc(target_percent=1).success
    everything = {name for name in before if name[0] in "cr"}
    kept = {"c1.1", "r1.1", "c3.0", "r3.0", "c3.2", "r3.2"}
    assert altered(session, before) == everything - kept
    assert_in_step(session)


def test_calls_that_wait_for_a_result_are_not_shortened() -> None:
    session = session_of(shorten_all, config={"preserve_recent_groups": 0})
    work(session, 0)
    session.append(Message.from_text(Role.USER, "go", message_id="u1"))
    session.append(asks({"text": LONG}, "open"))
    before = by_id(session)
    assert session.manual_gc().success
    assert altered(session, before) == {"c0.0", "r0.0", "c0.1", "r0.1"}


@PROPERTY
@given(
    history=histories(min_turns=1, max_turns=4),
    turns=st.integers(0, 3),
    groups=st.integers(0, 2),
    stash=st.booleans(),
)
def test_shortening_everything_keeps_all_texts_and_the_budget_exact(
    history: list[Message], turns: int, groups: int, stash: bool
) -> None:
    config = {"preserve_recent_turns": turns, "preserve_recent_groups": groups}
    session = session_of(shorten_all, config=config, stash=MemoryStash() if stash else None)
    for message in history:
        session.append(message)
    result = session.manual_gc()
    assert result.success, result.error
    assert list(map(said, session.history)) == list(map(said, history))
    assert_in_step(session)
    freed = sum(item.tokens_freed for item in result.removal_list)
    assert freed == count_tokens(history, COUNTER) - count_tokens(session.history, COUNTER)
    assert freed == result.tokens_freed
    again = session.history
    session.manual_gc()
    assert session.history == again


def stubs(session: GCSession) -> list[str]:
    return [
        as_text(each.result)
        for message in session.history
        for each in message.function_responses
        if "characters cleared" in as_text(each.result)
    ]


def test_a_stub_names_a_key_only_if_there_is_a_stash() -> None:
    session = session_of(shorten_all)
    work(session, 0, 1)
    session.manual_gc()
    assert stubs(session)
    assert not any("recall key" in stub for stub in stubs(session))

    stashing = session_of(shorten_all, stash=MemoryStash())
    work(stashing, 0, 1)
    expected = {stash_key(message) for message in stashing.history}
    stashing.manual_gc()
    named = {match[1] for stub in stubs(stashing) if (match := re.search(r"key (\w+)", stub))}
    assert len(named) == len(stubs(stashing)) == 2
    assert named < expected


def test_a_stub_names_no_key_for_content_that_is_not_kept() -> None:
    def script(collection: Collection) -> None:
        for group in collection.groups:
            collection.shorten(group, "cleared_old", stash=False)

    stash = MemoryStash()
    session = session_of(script, stash=stash)
    work(session, 0, 1)
    result = session.manual_gc()
    assert stubs(session)
    assert not any("recall key" in stub for stub in stubs(session))
    assert all(item.stash_keys == [] for item in result.removal_list)
    assert stash.stats().entries == 0


def test_a_message_shortened_twice_in_a_collection_is_one_item_with_one_key() -> None:
    def script(collection: Collection) -> None:
        group = collection.turns[0].groups[1]
        collection.shorten(group, "cleared_long", Shortening(head=200))
        collection.shorten(group, "cleared_old")
        collection.shorten(group, "cleared_old")

    stash = MemoryStash()
    session = session_of(script, stash=stash)
    work(session, 0, 1)
    whole = by_id(session)["r0.0"]
    result = session.manual_gc()
    (item,) = result.removal_list
    assert item.message_ids == ["r0.0"]
    assert item.stash_keys == [stash_key(whole)]
    assert item.tokens_freed == result.tokens_freed > 0
    assert result_of(by_id(session)["r0.0"]) == (
        f"[{len(LONG) + 4} characters cleared: to free context space; "
        f"recall key {stash_key(whole)}]"
    )
    assert_in_step(session)


def test_collect_reports_the_tokens_that_two_steps_of_shortening_freed() -> None:
    def script(collection: Collection) -> None:
        for how in (Shortening(head=200), WHOLE_STUB):
            collection.shorten(collection.turns[0].groups[1], "cleared_old", how)

    session = session_of(shorten_all)
    work(session, 0, 1)
    history = session.history
    config = GCConfig(preserve_recent_turns=1)
    usage = session.get_context_usage()
    after, result = ScriptedStrategy(script).collect(
        [*history], usage, config, GCTriggerReason.MANUAL
    )
    (item,) = result.removal_list
    freed = count_tokens(history, COUNTER) - count_tokens(after, COUNTER)
    assert item.tokens_freed == freed == result.tokens_freed


def test_a_stub_made_in_two_collections_names_the_key_of_the_original() -> None:
    hows = iter([Shortening(head=200), WHOLE_STUB])

    def script(collection: Collection) -> None:
        collection.shorten(collection.turns[0].groups[1], "cleared_old", next(hows))

    stash = MemoryStash()
    session = session_of(script, stash=stash)
    work(session, 0, 1)
    whole = by_id(session)["r0.0"]
    session.manual_gc()
    session.manual_gc()
    stub = result_of(by_id(session)["r0.0"])
    assert stub.startswith(f"[{len(LONG) + 4} characters cleared")
    assert stash_key(whole) in stub
    assert stash.restore([stash_key(whole)]) == [whole]


def test_a_message_that_is_shortened_and_then_removed_is_one_item() -> None:
    def script(collection: Collection) -> None:
        group = collection.turns[0].groups[1]
        collection.shorten(group, "cleared_old", Shortening(head=30))
        collection.shorten(group, "cleared_old", ARGUMENTS)
        collection.remove([group], "turn_0", "old")
        collection.shorten(group, "cleared_old")

    stash = MemoryStash()
    session = session_of(script, stash=stash)
    work(session, 0, 1)
    whole = by_id(session)
    result = session.manual_gc()
    (item,) = result.removal_list
    assert (item.action, item.message_ids) == ("remove", ["c0.0", "r0.0"])
    assert item.stash_keys == [stash_key(whole["c0.0"]), stash_key(whole["r0.0"])]
    gone = [whole["c0.0"], whole["r0.0"]]
    assert item.tokens_freed == result.tokens_freed == count_tokens(gone, COUNTER)
    assert stash.restore(item.stash_keys) == gone
    assert_in_step(session)


def test_a_message_is_stashed_if_any_part_of_its_item_is_worth_keeping() -> None:
    def script(collection: Collection) -> None:
        first, second = collection.turns[0].groups[1:3]
        collection.remove([first], "turn_0", "old", stash=False)
        collection.remove([second], "turn_0", "old")

    stash = MemoryStash()
    session = session_of(script, stash=stash)
    work(session, 0, 1)
    whole = by_id(session)
    session.manual_gc()
    assert stash.restore([stash_key(whole["r0.1"])]) == [whole["r0.1"]]


# --- recent turns ---


class Altering(ScriptedStrategy):
    """Replaces messages by other forms of them, and lists them as shortened."""

    def __init__(self, change: Callable[[Message], Message]) -> None:
        super().__init__(lambda _: None)
        self.change = change

    def collect(self, *arguments: Any) -> tuple[list[Message], GCResult]:
        before: list[Message] = arguments[0]
        _, result = super().collect(*arguments)
        after = [self.change(message) for message in before]
        result.removal_list = [
            GCRemovalItem(
                InstructionSource.CONVERSATION, old.message_id, 1, "c", [old.message_id], "shorten"
            )
            for old, new in zip(before, after, strict=True)
            if old != new
        ]
        return after, result


def alter_recent(
    change: Callable[[Message], Message], last_groups: int = 0, *, context_limit: int = 2_000
) -> tuple[GCResult, bool]:
    config = GCConfig(preserve_recent_turns=5, preserve_recent_groups=last_groups)
    session = new_session(Altering(change), config, context_limit=context_limit)
    parts = [Part(thought=LONG, extra={"signature": "c2ln"}), Part(text=LONG)]
    parts.append(Part(function_call=FunctionCall("1", "write", {"text": LONG})))
    picture = Part(inline_data=InlineData("image/png", width=800, height=600))
    answered = answer(LONG)
    answered = answered.with_parts([*answered.parts, picture])
    session.append(Message.from_text(Role.USER, "first"))
    session.append(Message.from_text(Role.USER, LONG))
    session.append(Message(Role.MODEL, parts))
    session.append(answered)
    session.append(Message.from_text(Role.MODEL, LONG))
    before = json.loads(session.save())
    result = session.manual_gc()
    after = json.loads(session.save())
    return result, all(after[name] == before[name] for name in ("history", "budget"))


@pytest.mark.parametrize("how", [WHOLE_STUB, ARGUMENTS, Shortening(head=50, tail=50)])
def test_a_plugin_may_shorten_results_and_arguments_of_recent_turns(how: Shortening) -> None:
    result, untouched = alter_recent(lambda message: shortened(message, how))
    assert result.success, result.error
    assert not untouched


@pytest.mark.parametrize("how", [WHOLE_STUB, ARGUMENTS, Shortening(head=50, tail=50)])
def test_below_the_target_a_plugin_may_not_shorten_anything_in_recent_turns(
    how: Shortening,
) -> None:
    result, untouched = alter_recent(lambda each: shortened(each, how), context_limit=100_000)
    assert result.outcome is GCOutcome.REJECTED
    assert "protected_unaltered" in (result.error or "")
    assert untouched


def test_a_plugin_that_shortens_the_last_calls_gets_them_back_whole() -> None:
    result, untouched = alter_recent(lambda message: shortened(message, WHOLE_STUB), last_groups=1)
    assert result.success, result.error
    assert untouched


def with_part(message: Message, position: int, **fields: Any) -> Message:
    if len(message.parts) <= position or message.text == "first":
        return message
    parts = list(message.parts)
    parts[position] = replace(parts[position], **fields)
    return message.with_parts(parts)


@pytest.mark.parametrize(
    "change",
    [
        lambda each: with_part(each, 0, text="x") if each.role is Role.USER else each,
        lambda each: with_part(each, 0, text="x") if len(each.parts) == 1 else each,
        lambda each: with_part(each, 1, text="x") if each.role is Role.MODEL else each,
        lambda each: with_part(each, 0, thought="x") if each.function_calls else each,
        lambda each: with_part(each, 0, extra=None) if each.function_calls else each,
        lambda each: each.with_parts(each.parts[1:]) if each.function_calls else each,
        lambda each: replace(each, extra={"x": 1}) if each.function_calls else each,
    ],
    ids=["user", "model", "before a call", "thought", "signature", "no thought", "extra"],
)
def test_a_plugin_may_not_change_texts_or_thoughts_of_recent_turns(
    change: Callable[[Message], Message],
) -> None:
    result, untouched = alter_recent(change)
    assert result.outcome is GCOutcome.REJECTED
    assert untouched


# --- survived collections ---


def test_every_collection_that_a_message_survives_is_counted() -> None:
    amounts = iter([1, 1, 1])

    def script(collection: Collection) -> None:
        for turn in collection.turns[1 : 1 + next(amounts)]:
            collection.remove(turn.groups, turn.key, "old")

    session = session_of(script)
    work(session, *range(6))

    def age(name: str) -> int:
        return session.budget.collections_survived(name)

    assert age("u5") == 0
    session.manual_gc()
    work(session, 6)
    session.manual_gc()
    assert (age("u0"), age("u5"), age("r5.1"), age("u6"), age("u1")) == (2, 2, 2, 1, 0)
    assert restarted(session).budget.collections_survived("u5") == 2
    session.undo()
    assert (age("u5"), age("u6"), age("u2")) == (1, 0, 1)
    session.undo()
    assert (age("u5"), age("u6"), age("u2")) == (0, 0, 0)


def test_a_collection_without_effect_is_not_counted_as_survived() -> None:
    session = session_of(lambda _: None)
    work(session, 0, 1)
    session.manual_gc()
    assert session.budget.collections_survived("u0") == 0


def test_an_unknown_message_has_survived_no_collection() -> None:
    summary = Message.from_text(
        Role.USER, fenced(SyntheticKind.SUMMARY, "s"), synthetic=SyntheticKind.SUMMARY
    )
    session = session_of(shorten_all)
    assert session.budget.collections_survived(summary.message_id) == 0


def test_head_and_tail_can_be_numbers_of_lines() -> None:
    lines = [f"line {number:03}" for number in range(100)]
    cleared = sum(map(len, lines[2:99])) + 98

    once = short("\n".join(lines), Shortening("see the file", 2, 1, unit="lines"))
    again = short(once, Shortening("see the file", 1, 0, unit="lines"))

    stub = f"[{cleared} characters cleared: see the file]"
    assert once.splitlines() == ["line 000", "line 001", stub, "line 099"]
    assert again.startswith("line 000\n[")
    assert again.count("\n") == 1
