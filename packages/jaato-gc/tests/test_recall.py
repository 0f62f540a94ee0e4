"""The tool with which a model recalls removed content."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    Message,
    NotConfiguredError,
    Part,
    Role,
    StashError,
    ToolResult,
)
from jaato_gc.plugin import StashEntry, StashHit, recall_tool
from jaato_gc_testing import MemoryStash, new_session

LONG = "".join(f"line {number}: nothing to see\n" for number in range(200))


def filled(*messages: Message) -> tuple[MemoryStash, list[str]]:
    stash = MemoryStash()
    return stash, stash.put("gc_1", messages)


def text(content: str) -> Message:
    return Message.from_text(Role.USER, content)


# --- the definition ---


def test_the_definition_is_json_and_its_parameters_a_schema() -> None:
    definition = recall_tool(MemoryStash()).definition
    assert json.loads(json.dumps(definition)) == definition
    assert definition.keys() == {"name", "description", "parameters"}
    parameters = definition["parameters"]
    assert parameters["type"] == "object"
    assert parameters["additionalProperties"] is False
    assert set(parameters.get("required", [])) <= parameters["properties"].keys()
    for schema in parameters["properties"].values():
        assert schema["type"] in ("string", "integer")
        assert schema["description"]


def test_the_name_fits_every_provider_and_may_be_another() -> None:
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", recall_tool(MemoryStash()).definition["name"])
    assert recall_tool(MemoryStash(), "remember").definition["name"] == "remember"


def test_each_tool_has_a_definition_of_its_own() -> None:
    recall_tool(MemoryStash()).definition["parameters"]["properties"].clear()
    assert recall_tool(MemoryStash()).definition["parameters"]["properties"]


# --- by key ---


def test_a_key_brings_back_the_whole_message() -> None:
    call = FunctionCall("1", "read_file", {"path": "a.py"})
    asked = Message(Role.MODEL, [Part(text="let me see"), Part(function_call=call)])
    answered = Message(Role.TOOL, [Part(function_response=ToolResult("1", "read_file", "x = 1\n"))])
    stash, keys = filled(asked, answered)
    _, handler = recall_tool(stash)
    assert handler({"key": keys[0]}) == ('[model]\nlet me see\n(calls read_file) {"path":"a.py"}')
    assert handler({"key": f" {keys[1]}\n"}) == "[tool]\n(result of read_file) x = 1\n"


def test_long_content_comes_in_pieces_that_make_up_the_whole() -> None:
    stash, (key,) = filled(text(LONG))
    _, handler = recall_tool(stash, max_characters=1000)
    whole, offset = "", 0
    for _ in range(20):
        answer = handler({"key": key, "offset": offset})
        more = re.search(r"\n\[(\d+) more characters: offset (\d+)\]$", answer)
        if more is None:
            whole += answer
            break
        assert len(answer) <= 1000 + len(more[0])
        whole += answer.removesuffix(more[0])
        offset = int(more[2])
        assert offset == len(whole)
        assert int(more[1]) == len("[user]\n" + LONG) - offset
    assert whole == "[user]\n" + LONG


@pytest.mark.parametrize("offset", [-5, 10**9, "1000", 3.5, None, [1]])
def test_an_invalid_offset_means_the_beginning(offset: Any) -> None:
    stash, (key,) = filled(text("hello"))
    assert recall_tool(stash).handler({"key": key, "offset": offset}) == "[user]\nhello"


def test_an_unknown_key_is_answered_with_a_hint() -> None:
    answer = recall_tool(MemoryStash()).handler({"key": "0123456789abcdef"})
    assert "0123456789abcdef" in answer
    assert "query" in answer


# --- by words ---


def test_a_query_lists_keys_and_what_is_under_them() -> None:
    call = Message(Role.TOOL, [Part(function_response=ToolResult("1", "bash", "port\n\n 8123"))])
    stash, keys = filled(text("the port is open"), call, text("nothing"))
    _, handler = recall_tool(stash)
    lines = handler({"query": "which port"}).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"key {keys[1]} (tool bash): ")
    assert lines[0].endswith("port 8123")
    assert lines[1].startswith(f"key {keys[0]} (user): ")
    for line in lines:
        assert "port" in handler({"key": line.split()[1]})


def test_a_query_without_findings_says_so() -> None:
    stash, _ = filled(text("hello"))
    assert "'zebra'" in recall_tool(stash).handler({"query": "zebra"})


def test_a_key_goes_before_a_query() -> None:
    stash, (key,) = filled(text("hello"))
    assert recall_tool(stash).handler({"key": key, "query": "zebra"}) == "[user]\nhello"
    assert recall_tool(stash).handler({"key": " ", "query": "hello"}).startswith(f"key {key}")


@pytest.mark.parametrize(
    "arguments", [{}, {"key": ""}, {"query": " \n"}, {"key": 7, "query": ["x"]}, {"other": "x"}]
)
def test_without_either_it_asks_for_one(arguments: dict[str, Any]) -> None:
    answer = recall_tool(MemoryStash()).handler(arguments)
    assert "key" in answer
    assert "query" in answer


# --- errors and odd arguments ---


class Broken(MemoryStash):
    """Can't be read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def get(self, _key: str) -> StashEntry | None:
        raise self.error

    def search(self, _query: str, _limit: int = 10) -> list[StashHit]:
        raise self.error


@pytest.mark.parametrize("error", [StashError("the disk is on fire"), OSError("disk on fire")])
@pytest.mark.parametrize("arguments", [{"key": "x"}, {"query": "x"}])
def test_an_error_of_the_stash_is_answered_and_not_raised(
    error: Exception, arguments: dict[str, Any]
) -> None:
    assert "on fire" in recall_tool(Broken(error)).handler(arguments)


def test_no_answer_is_much_longer_than_allowed() -> None:
    huge = "word " * 200_000
    many = [text(f"word {number} {LONG}") for number in range(50)]
    stash, keys = filled(text(huge), *many)
    _, handler = recall_tool(stash, max_characters=500)
    for arguments in (
        {"key": keys[0]},
        {"query": "word"},
        {"query": huge},
        {"query": "x" * 100_000},
        {"key": huge},
    ):
        assert len(handler(arguments)) < 600


JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner)),
    max_leaves=5,
)
STASH, KEYS = filled(text("hello"), text(LONG), text("\ud800 half a character"))


@settings(max_examples=150, deadline=None)
@given(
    arguments=st.one_of(
        JSON,
        st.fixed_dictionaries(
            {},
            optional={
                "key": st.one_of(st.sampled_from(KEYS), JSON),
                "query": JSON,
                "offset": st.one_of(st.integers(-10, 6000), JSON),
            },
        ),
    )
)
def test_any_arguments_are_answered(arguments: Any) -> None:
    answer = recall_tool(STASH, max_characters=300).handler(arguments)
    assert isinstance(answer, str)
    assert 0 < len(answer) < 400


# --- of a session ---


def test_a_session_gives_a_tool_for_its_stash() -> None:
    stash, (key,) = filled(text("hello"))
    session = new_session(stash=stash)
    definition, handler = session.recall_tool("remember")
    assert definition["name"] == "remember"
    assert handler({"key": key}) == "[user]\nhello"


def test_without_a_stash_there_is_no_tool() -> None:
    with pytest.raises(NotConfiguredError, match="stash="):
        new_session().recall_tool()


class Scripted:
    """A model that recalls something, then says what it got."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments

    def __call__(self, request: Sequence[Message]) -> Message:
        results = request[-1].function_responses
        if results:
            return Message.from_text(Role.MODEL, f"got {results[0].result}")
        call = FunctionCall("1", "recall", self.arguments)
        return Message(Role.MODEL, [Part(function_call=call)])


def test_a_model_can_use_it() -> None:
    stash, (key,) = filled(text("the port is 8123"))

    def run(call: FunctionCall) -> str:
        definition, handler = session.recall_tool()
        assert call.name == definition["name"]
        return handler(call.args)

    session = new_session(provider=Scripted({"key": key}), tools=run, stash=stash)
    assert session.send_message("which port?").text == "got [user]\nthe port is 8123"
