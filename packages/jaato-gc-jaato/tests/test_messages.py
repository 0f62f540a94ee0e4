"""Messages of jaato-server and back: nothing is lost."""

import copy
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaato_host import Attachment, FunctionCall, Message, Part, Role, ToolResult, user

from jaato_gc import MessageError, SyntheticKind
from jaato_gc.plugin import Shortening, fenced, shortened
from jaato_gc_jaato._messages import read_history, write_message

LONG = "A line of a long text.\n" * 60
texts = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | st.just(LONG),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
odd_values = json_values | st.sampled_from([b"bytes", 1.5, (1, 2), {3}, object()])
attachments = st.builds(
    Attachment, mime_type=st.sampled_from(["image/png", "audio/wav"]), data=st.binary(max_size=9)
)
calls = st.builds(
    FunctionCall,
    id=texts,
    name=texts,
    args=st.dictionaries(texts, json_values, max_size=3) | odd_values,
    unreadable_args=st.none() | texts | st.just(LONG),
)
answers = st.builds(
    ToolResult,
    call_id=texts,
    name=texts,
    result=odd_values,
    is_error=st.booleans(),
    attachments=st.none() | st.lists(attachments, max_size=2),
    enrichment_metadata=st.none() | st.dictionaries(texts, texts, max_size=2),
    model_suffix=st.none() | texts,
    untrusted=st.booleans(),
)
inline = st.fixed_dictionaries(
    {"mime_type": st.sampled_from(["image/png", None]), "data": st.binary(max_size=9) | texts},
    optional={"display_name": texts},
)
parts = st.builds(
    Part,
    text=st.none() | texts,
    function_call=st.none() | calls,
    function_response=st.none() | answers,
    inline_data=st.none() | inline,
    thought=st.none() | texts,
    executable_code=st.none() | texts,
    code_execution_result=st.none() | texts,
)
messages = st.builds(
    Message,
    role=st.sampled_from(list(Role)),
    parts=st.lists(parts, max_size=4),
    message_id=st.sampled_from(["", "a", "b"]) | texts,
    model=st.none() | texts,
)


def write_all(after: Any, before: Any, history: Any) -> list[Any]:
    known = {each.message_id: each for each in before}
    return [write_message(each, known.get(each.message_id), history[0]) for each in after]


@given(st.lists(messages, min_size=1, max_size=5))
def test_unchanged_messages_come_back_as_the_same_objects(history: list[Any]) -> None:
    ours = read_history(history, {})

    assert len({each.message_id for each in ours}) == len(history)
    written = write_all(ours, ours, history)
    assert all(new is old for new, old in zip(written, history, strict=True))


@given(st.lists(messages, min_size=1, max_size=5))
def test_equal_copies_come_back_as_the_same_objects(history: list[Any]) -> None:
    ours = read_history(history, {})
    copies = [replace(each, parts=tuple(replace(part) for part in each.parts)) for each in ours]

    written = write_all(copies, ours, history)

    assert all(new is old for new, old in zip(written, history, strict=True))


@given(messages, st.sampled_from(["results", "arguments"]))
def test_only_results_arguments_and_attachments_of_a_shortened_message_differ(
    message: Any, what: Any
) -> None:
    before = copy.deepcopy(message)
    [ours] = read_history([message], {})

    [written] = write_all([shortened(ours, Shortening(what=what))], [ours], [message])

    assert_same(written, message, {"parts"})
    assert len(written.parts) == len(message.parts)
    for new, old in zip(written.parts, message.parts, strict=True):
        assert_same(new, old, {"function_call", "function_response", "inline_data", "text"})
        assert_same(new.function_call, old.function_call, {"args", "unreadable_args"})
        may_differ = {"result", "attachments", "model_suffix"}
        assert_same(new.function_response, old.function_response, may_differ)
        if new.text != old.text:
            assert old.inline_data
            assert not new.inline_data
        if call := old.function_call:
            assert type(new.function_call.args) is type(call.args)
    if not any(isinstance(value, object) and type(value) is object for value in _values(message)):
        assert message == before


def assert_same(new: Any, old: Any, but: set[str]) -> None:
    if old is None:
        assert new is None
        return
    assert type(new) is type(old)
    for field in fields(old):
        if field.name not in but:
            assert getattr(new, field.name) is getattr(old, field.name)


def _values(message: Any) -> list[Any]:
    found = []
    for part in message.parts:
        found += [part.function_call and part.function_call.args]
        found += [part.function_response and part.function_response.result]
    return found


def test_a_shortened_result_keeps_everything_else() -> None:
    picture = Attachment("image/png", b"...", "shot.png")
    answer = ToolResult(
        "1", "shot", LONG, True, [picture], {"lsp": {"errors": 1}}, "suffix", True, "web"
    )
    message = Message(Role.TOOL, [Part(function_response=answer), Part(text="and")], "id-1", "m")
    [ours] = read_history([message], {})

    [written] = write_all([shortened(ours, Shortening(head=100))], [ours], [message])

    new = written.parts[0].function_response
    assert new.result.startswith("A line of a long text.")
    assert len(new.result) < 400
    assert new.attachments == [picture]
    assert new == replace(answer, result=new.result)
    assert written.parts[1] is message.parts[1]
    assert answer.result is LONG


def test_attachments_of_a_cleared_result_go_with_a_note() -> None:
    pictures = [Attachment("image/png", b"1"), Attachment("image/png", b"2")]
    answer = ToolResult("1", "shot", LONG, attachments=pictures, model_suffix="Go on.")
    message = Message(Role.TOOL, [Part(function_response=answer)])
    [ours] = read_history([message], {})

    [written] = write_all([shortened(ours)], [ours], [message])

    new = written.parts[0].function_response
    assert new.attachments is None
    assert new.model_suffix.splitlines()[0] == "Go on."
    assert new.model_suffix.count("attachment cleared") == 2
    assert answer.attachments is pictures


def test_arguments_that_could_not_be_read_can_be_shortened() -> None:
    call = FunctionCall("1", "write", {}, LONG)
    message = Message(Role.MODEL, [Part(function_call=call)])
    [ours] = read_history([message], {})

    [written] = write_all([shortened(ours, Shortening(what="arguments"))], [ours], [message])

    new = written.parts[0].function_call
    assert new.args == {}
    assert "characters cleared" in new.unreadable_args


def test_a_part_with_a_signature_is_never_changed() -> None:
    from dataclasses import dataclass

    @dataclass
    class SignedPart(Part):  # type: ignore[misc]
        thought_signature: str | None = None

    call = FunctionCall("1", "write", {"content": LONG})
    signed = SignedPart(function_call=call, thought_signature="c2lnbmVk")
    message = Message(Role.MODEL, [signed])
    [ours] = read_history([message], {})

    [written] = write_all([shortened(ours, Shortening(what="arguments"))], [ours], [message])

    assert ours.parts[0].is_signed
    assert written is message


def test_a_message_with_other_parts_is_refused() -> None:
    message = user("Hello.")
    [ours] = read_history([message], {})

    with pytest.raises(MessageError, match="other parts than before"):
        write_message(ours.with_parts([*ours.parts, *ours.parts]), ours, message)


@pytest.mark.parametrize(
    ("kind", "read_as"),
    [
        (SyntheticKind.NOTICE, SyntheticKind.NOTICE),
        (SyntheticKind.SUMMARY, SyntheticKind.SUMMARY),
        (SyntheticKind.LEDGER, SyntheticKind.SUMMARY),
    ],
)
def test_what_was_written_before_a_restart_is_recognized(
    kind: SyntheticKind, read_as: SyntheticKind
) -> None:
    quoted, written = read_history([user(f"See: {fenced(kind, 'x')}"), user(fenced(kind, "x"))], {})

    assert quoted.synthetic is None
    assert written.synthetic is read_as
