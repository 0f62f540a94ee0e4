"""Messages: their parts and ids, immutability, and errors for wrong types."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from jaato_gc import (
    FunctionCall,
    GCPolicy,
    InlineData,
    Message,
    MessageError,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    count_tokens,
)
from jaato_gc.plugin import mint_message_id
from jaato_gc_testing import new_session

CALL = FunctionCall("call_1", "read_file", {"path": "a.txt"})
RESULT = ToolResult("call_1", "read_file", "content")


def test_a_missing_id_is_minted() -> None:
    assert Message(role=Role.USER, parts=[Part(text="hi")]).message_id
    assert Message(Role.USER, [], message_id="").message_id


def test_a_given_id_is_kept() -> None:
    assert Message(Role.USER, [], message_id="host-7").message_id == "host-7"


def test_minted_ids_are_unique_across_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        batches = pool.map(lambda _: [mint_message_id() for _ in range(500)], range(16))
        ids = [message_id for batch in batches for message_id in batch]

    assert len(set(ids)) == len(ids)


FORKING_SCRIPT = """
import os
from jaato_gc.plugin import mint_message_id
from jaato_gc_testing import new_session

mint_message_id()
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, "\\n".join(mint_message_id() for _ in range(50)).encode())
    os._exit(0)
os.wait()
print(os.read(reader, 100_000).decode())
print("\\n".join(mint_message_id() for _ in range(50)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_mints_other_ids_than_its_parent() -> None:
    ids = subprocess.check_output([sys.executable, "-c", FORKING_SCRIPT], text=True).split()

    assert len(ids) == 100
    assert len(set(ids)) == 100


@pytest.mark.parametrize("role", list(Role))
def test_roles_may_be_given_as_strings(role: Role) -> None:
    message = Message(role.value, [])  # type: ignore[arg-type]

    assert message.role is role


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match="narrator"):
        Message("narrator", [])  # type: ignore[arg-type]


def test_text_joins_the_text_parts_and_nothing_else() -> None:
    parts = [Part(text="a"), Part(thought="hidden"), Part(function_call=CALL), Part(text="b")]

    assert Message(Role.MODEL, parts).text == "ab"


def test_calls_and_results_are_listed_in_order() -> None:
    other = FunctionCall("call_2", "bash")
    model = Message(Role.MODEL, [Part(function_call=CALL), Part(function_call=other)])
    tool = Message(Role.TOOL, [Part(function_response=RESULT)])

    assert model.function_calls == [CALL, other]
    assert model.function_responses == []
    assert tool.function_responses == [RESULT]


def test_from_text_makes_one_text_part() -> None:
    message = Message.from_text(Role.USER, "hi", policy=GCPolicy.LOCKED)

    assert message.parts == (Part(text="hi"),)
    assert message.policy is GCPolicy.LOCKED


def test_messages_of_the_same_content_and_id_are_equal() -> None:
    left, right = (Message.from_text(Role.USER, "hi", message_id="m") for _ in range(2))

    assert left == right
    assert left != Message.from_text(Role.USER, "hi", message_id="n")
    assert left != Message.from_text(Role.USER, "ho", message_id="m")
    assert left != Message.from_text(Role.MODEL, "hi", message_id="m")


def test_with_parts_changes_only_the_parts() -> None:
    before = Message(
        Role.TOOL,
        [Part(text="long")],
        "m",
        policy=GCPolicy.EPHEMERAL,
        extra={"cache_control": "ephemeral"},
    )
    after = before.with_parts([Part(text="short")])

    assert after.text == "short"
    assert before.text == "long"
    assert after.with_parts(before.parts) == before


@pytest.mark.parametrize(
    ("message", "opens"),
    [
        (Message.from_text(Role.USER, "hi"), True),
        (Message(Role.USER, [Part(inline_data=InlineData("image/png"))]), True),
        (Message.from_text(Role.USER, "hi", synthetic=SyntheticKind.NOTICE), False),
        (Message(Role.USER, [Part(function_response=RESULT)]), False),
        (Message.from_text(Role.MODEL, "hi"), False),
        (Message.from_text(Role.SYSTEM, "hi"), False),
        (Message.from_text(Role.TOOL, "hi"), False),
    ],
    ids=["text", "image", "synthetic", "result", "model", "system", "tool"],
)
def test_only_a_real_user_message_opens_a_turn(message: Message, opens: bool) -> None:
    assert message.opens_turn is opens


@pytest.mark.parametrize(
    ("part", "empty"),
    [
        (Part(), True),
        (Part(text=""), True),
        (Part(text=" \n"), True),
        (Part(text="a"), False),
        (Part(thought="hm"), False),
        (Part(function_call=CALL), False),
        (Part(function_response=ToolResult("call_1", "bash", "")), False),
        (Part(inline_data=InlineData("image/png")), False),
        (Part(extra={"signature": "c2ln"}), False),
    ],
)
def test_a_message_is_empty_when_a_provider_would_find_nothing_in_it(
    part: Part, empty: bool
) -> None:
    assert Message(Role.MODEL, [part]).is_empty is empty
    assert Message(Role.MODEL, [part, Part(text="a")]).is_empty is False


def test_a_message_without_parts_is_empty() -> None:
    assert Message(Role.MODEL, []).is_empty


@pytest.mark.parametrize("policy", GCPolicy)
def test_policies_may_be_given_as_strings(policy: GCPolicy) -> None:
    message = Message(Role.USER, [Part(text="hi")], policy=policy.value)  # type: ignore[arg-type]

    assert message.policy is policy


# --- mistakes ---


@pytest.mark.parametrize("value", [{"role": "user", "content": "hi"}, "hi", None])
def test_appending_something_else_is_an_error_that_names_the_remedy(value: Any) -> None:
    session = new_session()

    with pytest.raises(MessageError, match=f"got {type(value).__name__}") as caught:
        session.append(value)

    assert "convert it with jaato_gc_formats, or use Message.from_text(role, text)" in str(
        caught.value
    )
    assert session.history == []


@pytest.mark.parametrize("method", ["pin", "unpin"])
def test_pinning_a_message_instead_of_its_id_is_an_error_that_names_the_remedy(method: str) -> None:
    session = new_session()
    message = session.append(Message.from_text(Role.USER, "hi"))

    with pytest.raises(MessageError, match=r"give message\.message_id"):
        getattr(session, method)(message)
    with pytest.raises(MessageError, match="expected a message id, got 7"):
        getattr(session, method)(7)

    assert session.budget.pinned_message_ids == set()


def test_pinning_an_unknown_id_is_an_error_that_names_it() -> None:
    with pytest.raises(MessageError, match="there is no message 'unknown' to pin"):
        new_session().pin("unknown")


def test_text_instead_of_parts_is_an_error_that_names_the_remedy() -> None:
    with pytest.raises(MessageError, match=r"use Message\.from_text\(role, text\)"):
        Message(Role.USER, "hi")  # type: ignore[arg-type]


def test_a_part_that_is_not_a_part_is_an_error_when_it_is_appended() -> None:
    message = Message(Role.USER, ["hi"])  # type: ignore[list-item]

    with pytest.raises(MessageError, match="expected a Part, got str 'hi'"):
        new_session().append(message)


# --- immutability ---


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (Message.from_text(Role.USER, "hi"), "parts"),
        (Message.from_text(Role.USER, "hi"), "policy"),
        (Part(text="hi"), "text"),
        (FunctionCall("c", "bash"), "args"),
        (ToolResult("c", "bash"), "result"),
        (InlineData("image/png"), "data"),
    ],
)
def test_messages_and_their_parts_can_not_be_changed(value: object, field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, field, None)


def test_appended_values_are_read_only_copies() -> None:
    args: dict[str, Any] = {"path": "a.py", "edits": [{"old": "x"}]}
    given = Message(Role.MODEL, [Part(function_call=FunctionCall("c", "edit", args))])
    session = new_session()
    session.append(Message.from_text(Role.USER, "hi"))
    session.append(given)
    args["edits"][0]["old"] = "changed"

    kept = session.history[1].function_calls[0].args
    assert kept == {"path": "a.py", "edits": [{"old": "x"}]}
    with pytest.raises(TypeError, match="read-only"):
        kept["path"] = "b.py"
    with pytest.raises(TypeError, match="read-only"):
        kept["edits"].append({})
    with pytest.raises(TypeError, match="read-only"):
        kept["edits"][0]["old"] = "changed"


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    "make", [copy, deepcopy, replace, lambda each: pickle.loads(pickle.dumps(each))]
)
def test_messages_can_be_copied_replaced_and_pickled(
    make: Callable[[Message], Message], counted: bool
) -> None:
    message = Message(Role.MODEL, [Part(function_call=CALL)], "m", policy=GCPolicy.LOCKED)
    if counted:
        count_tokens([message])

    assert make(message) == message
    assert make(make(message)) == message
    assert count_tokens([make(message)]) == count_tokens([message])
