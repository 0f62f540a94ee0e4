"""Cache marks: no part of what is said, never more than the host gave, and never lost."""

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import GCConfig, GCSession, Message, PluginRegistry, Role, UndoError
from jaato_gc.plugin import StrategyInfo, hookimpl
from jaato_gc_formats import ProviderSession, check_request, collect, counter_for, to_messages
from jaato_gc_testing import OldestFirst

Fields = dict[str, Any]
FORMATS = ["anthropic", "openai-chat", "openai-responses"]
FIELD = {
    "anthropic": "cache_control",
    "openai-chat": "prompt_cache_breakpoint",
    "openai-responses": "prompt_cache_breakpoint",
}
VALUE = {
    "anthropic": {"type": "ephemeral"},
    "openai-chat": {"mode": "explicit"},
    "openai-responses": {"mode": "explicit"},
}
ITEMS = {"anthropic": "messages", "openai-chat": "messages", "openai-responses": "input"}
LONG = "many words that fill the window " * 40


class Plugin:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo("gc_oldest", OldestFirst, "Removes the oldest turns.")]


def registry() -> PluginRegistry:
    made = PluginRegistry()
    made.register(Plugin(), "test-plugin")
    return made


def open_session(
    format: str, context_limit: int = 1_000, groups: int = 0, **call: Any
) -> ProviderSession:
    session = GCSession(
        context_limit=context_limit, counter=counter_for(format), registry=registry()
    )
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=groups)
    session.set_gc_plugin(OldestFirst(), config)
    return ProviderSession(format, session, call=call)


def mark(format: str) -> Fields:
    return {FIELD[format]: VALUE[format]}


def user(format: str, text: str, *, marked: bool = False) -> Fields:
    kind = "input_text" if format == "openai-responses" else "text"
    block = {"type": kind, "text": text, **(mark(format) if marked else {})}
    return {"role": "user", "content": [block] if marked else text}


def said(format: str, text: str) -> Fields:
    if format == "anthropic":
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"role": "assistant", "content": text}


def called(format: str, number: int, *, marked: bool = False) -> list[Fields]:
    """Returns a call and its result, which may have a mark."""
    name, text = f"call_{number}", f"{number} {LONG}"
    given = mark(format) if marked else {}
    if format == "anthropic":
        call = {"type": "tool_use", "id": name, "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": name, "content": text, **given}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    if format == "openai-chat":
        function = {"name": "read", "arguments": "{}"}
        calls = [{"id": name, "type": "function", "function": function}]
        content: Any = [{"type": "text", "text": text, **given}] if marked else text
        return [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": name, "content": content},
        ]
    content = [{"type": "input_text", "text": text, **given}] if marked else text
    return [
        {"type": "function_call", "call_id": name, "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": name, "output": content},
    ]


def marks(request: Fields, format: str) -> list[int]:
    """Returns the positions of the items with a mark; twice for two marks."""
    found: list[int] = []

    def look(value: Any, position: int) -> None:
        if isinstance(value, dict):
            found.extend([position] * (FIELD[format] in value))
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                look(each, position)

    for position, item in enumerate(request[ITEMS[format]]):
        look(item, position)
    return found


# --- removed content ---


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("calls", [True, False])
def test_a_mark_on_a_removed_message_moves_to_the_nearest_earlier_one(
    format: str, calls: bool
) -> None:
    agent = open_session(format)
    (first,) = agent.append(user(format, "Remember this."))
    agent.session.pin(first.message_id)
    if calls:
        agent.append(*called(format, 0, marked=True))
    agent.append(said(format, "Yes."), user(format, LONG, marked=not calls), said(format, LONG))
    agent.append(user(format, LONG), said(format, LONG), user(format, "Last."))

    request = agent.request()

    assert agent.session.collection_count == 1
    assert marks(request, format) == [0]
    assert check_request(request, format) == []
    assert marks(agent.request(), format) == [0]


@pytest.mark.parametrize("format", FORMATS)
def test_an_undo_brings_the_mark_back_to_its_message(format: str) -> None:
    agent = open_session(format)
    (first,) = agent.append(user(format, "Remember this."))
    agent.session.pin(first.message_id)
    agent.append(said(format, "Yes."), user(format, LONG, marked=True), said(format, LONG))
    agent.append(user(format, LONG), said(format, LONG), user(format, "Last."))
    assert marks(agent.request(), format) == [0]

    agent.session.undo()
    agent.session.set_context_limit(100_000)

    assert marks(agent.request(), format) == [2]


def test_a_mark_moves_past_content_that_can_not_have_one() -> None:
    agent = open_session("anthropic")
    agent.append(user("anthropic", "Remember this."))
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "signed"}
    agent.append({"role": "assistant", "content": [thought]})
    for message in agent.session.history:
        agent.session.pin(message.message_id)
    agent.append(user("anthropic", LONG, marked=True), said("anthropic", LONG))
    agent.append(user("anthropic", LONG), said("anthropic", LONG), user("anthropic", "Last."))

    request = agent.request()

    assert request["messages"][1]["content"] == [thought]
    assert marks(request, "anthropic") == [0]


@pytest.mark.parametrize("format", FORMATS)
def test_a_message_that_gets_a_mark_sends_no_fields_of_the_host(format: str) -> None:
    agent = open_session(format)
    agent.session.append(Message.from_text(Role.USER, "A record.", extra={"entries": ["a.py"]}))
    agent.append(said(format, "Yes."))
    question, _ = agent.append(user(format, "Why?", marked=True), said(format, "So."))
    agent.append(user(format, "Last."))
    agent.request()
    agent.session.remove(agent.session.history[1].message_id)

    agent.session.remove(question.message_id)
    request = agent.request()

    assert marks(request, format) == [0]
    assert "entries" not in json.dumps(request)


@pytest.mark.parametrize("format", FORMATS)
def test_a_mark_inside_a_result_survives_its_shortening(format: str) -> None:
    agent = open_session(format, groups=3)
    call, result = called(format, 0)
    if format == "anthropic":
        block = {"type": "text", "text": LONG * 10, **mark(format)}
        result["content"][0]["content"] = [block]
    else:
        kind = "text" if format == "openai-chat" else "input_text"
        field = "content" if format == "openai-chat" else "output"
        result[field] = [{"type": kind, "text": LONG * 10, **mark(format)}]
    agent.append(user(format, "Look."), call, result)

    request = agent.request()

    assert agent.session.collection_count == 1
    assert marks(request, format) == [2]
    assert check_request(request, format) == []


@pytest.mark.parametrize("format", FORMATS)
def test_one_request_that_is_collected_keeps_its_marks(format: str) -> None:
    items = []
    for number in range(8):
        items += [user(format, f"{number} {LONG}", marked=number == 6), said(format, LONG)]
    request: Fields = {"model": "m", ITEMS[format]: [*items, user(format, "Last.")]}
    if format == "anthropic":
        request["system"] = "Be brief."
    else:
        request[ITEMS[format]].insert(0, {"role": "system", "content": "Be brief."})
    before = copy.deepcopy(request)

    collected = collect(
        request, context_limit=1_000, strategy="gc_oldest", format=format, registry=registry()
    ).request

    assert len(collected[ITEMS[format]]) < 8
    assert json.dumps(collected).count(FIELD[format]) == 1
    assert request == before


# --- the limit ---


def test_anthropics_limit_keeps_the_last_marks() -> None:
    tool = {"name": "read", "input_schema": {"type": "object"}, **mark("anthropic")}
    agent = open_session("anthropic", context_limit=100_000, model="claude-opus-4-5", tools=[tool])
    for number in range(6):
        agent.append(user("anthropic", f"Number {number}.", marked=True), said("anthropic", "Yes."))

    agent.append(user("anthropic", "Last.", marked=True))
    request = agent.request()

    assert marks(request, "anthropic") == [8, 10, 12]
    assert check_request(request, "anthropic") == []


# --- what is said ---


@pytest.mark.parametrize("format", FORMATS)
def test_marks_cost_no_tokens(format: str) -> None:
    def tokens(given: Fields) -> int:
        tool = {"name": "read", "input_schema": {"type": "object"}, **given}
        agent = open_session(format, tools=[tool])
        agent.append(user(format, "Hello.", marked=bool(given)))
        agent.request()
        return agent.session.budget.total_tokens()

    assert tokens(mark(format)) == tokens({})


def test_marks_are_no_part_of_results_that_only_the_provider_understands() -> None:
    def read(given: Fields) -> Any:
        found = {"type": "search_result", "title": "a", "content": [], **given}
        result = {"type": "tool_result", "tool_use_id": "x", "content": [found]}
        (message,) = to_messages([{"role": "user", "content": [result]}], "anthropic")
        return message.function_responses

    assert read(mark("anthropic")) == read({})


# --- all together ---


@given(st.data(), st.sampled_from(FORMATS))
def test_there_are_never_more_marks_than_the_host_gave(data: st.DataObject, format: str) -> None:
    agent = open_session(format, model="m", tools=[{"name": "read"}])
    was_marked = [0]
    for number in range(data.draw(st.integers(2, 12))):
        marked = data.draw(st.booleans())
        agent.append(user(format, f"{number} {LONG}", marked=marked))
        was_marked.append(was_marked[-1] + marked)
        if data.draw(st.booleans()):
            marked = data.draw(st.booleans())
            agent.append(*called(format, number, marked=marked))
            was_marked[-1] += marked
        if agent.session.collection_count and data.draw(st.booleans()):
            with suppress(UndoError):
                agent.session.undo()
        request = agent.request()
        found = marks(request, format)
        assert len(found) <= was_marked[-1]
        assert len(set(found)) == len(found)
        assert [each.rule for each in check_request(request, format)] == []
        agent.append(said(format, LONG))
