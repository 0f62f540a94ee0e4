"""What a `ProviderSession` takes and sends passes the check of its format."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from jaato_gc import (
    GCConfigError,
    GCError,
    GCPolicy,
    InvalidHistoryError,
    Role,
)
from jaato_gc_formats import FormatError, ProviderSession, check_request
from jaato_gc_testing import OldestFirst

Fields = dict[str, Any]
FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini")
ITEMS = {
    "openai-chat": "messages", "openai-responses": "input", "anthropic": "messages",
    "gemini": "contents",
}  # fmt: skip


def opened(
    format: str, *, repair: bool = False, policy: GCPolicy | None = None, **call: Any
) -> ProviderSession:
    return ProviderSession.open(
        format,
        context_limit=20_000,
        strategy=OldestFirst(),
        repair=repair,
        call=call,
        policy_of=lambda _: policy,
    )


def sent(agent: ProviderSession, format: str) -> list[Any]:
    """Returns the items of the next request, which passes the check."""
    request = agent.request()
    assert check_request(request, format) == []
    items: list[Any] = request[ITEMS[format]]
    return items


# --- items, by format ---


def user(format: str, content: Any = "Hi") -> Fields:
    if format == "gemini":
        content = [{"text": content}] if isinstance(content, str) else content
        return {"role": "user", "parts": content}
    return {"role": "user", "content": content}


def chat_call(call_id: Any = "a", name: str = "look") -> Fields:
    function = {"name": name, "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_result(call_id: str = "a", content: Any = "seen") -> Fields:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def tool_use(call_id: Any = "a", name: str = "look") -> Fields:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return {"role": "assistant", "content": [block]}


def tool_result(call_id: str = "a", *before: Fields) -> Fields:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": "seen"}
    return {"role": "user", "content": [*before, block]}


def function_call(call_id: str = "a", **fields: Any) -> Fields:
    call = {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}"}
    return {**call, **fields}


def function_output(call_id: str = "a", **fields: Any) -> Fields:
    return {"type": "function_call_output", "call_id": call_id, "output": "seen", **fields}


def said(item_id: str = "msg_1") -> Fields:
    content = [{"type": "output_text", "text": "Hello."}]
    return {"type": "message", "id": item_id, "role": "assistant", "content": content}


def gemini_call(name: str = "look") -> Fields:
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}


def gemini_response(name: str = "look") -> Fields:
    response = {"functionResponse": {"name": name, "response": {"output": "seen"}}}
    return {"role": "user", "parts": [response]}


TEXT = {"type": "text", "text": "Now?"}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}

BAD_ITEMS: dict[str, tuple[str, Fields, str]] = {
    "chat: unknown role": ("openai-chat", {"role": "usr", "content": "Hi"}, "unknown_role"),
    "chat: no role": ("openai-chat", {"content": "Hi"}, "unknown_role"),
    "chat: number as content": ("openai-chat", user("openai-chat", 5), "invalid_type"),
    "chat: object as content": ("openai-chat", user("openai-chat", TEXT), "invalid_type"),
    "chat: string as block": ("openai-chat", user("openai-chat", ["Hi"]), "invalid_type"),
    "chat: text block without text": (
        "openai-chat", user("openai-chat", [{"type": "text"}]), "invalid_type",
    ),
    "chat: block of Anthropic": (
        "openai-chat", user("openai-chat", [{"type": "image", "source": {}}]), "foreign_block",
    ),
    "chat: block without type": (
        "openai-chat", user("openai-chat", [{"text": "Hi"}]), "foreign_block",
    ),
    "chat: number as id": ("openai-chat", chat_call(5), "invalid_type"),
    "chat: call without name": ("openai-chat", chat_call(name=""), "missing_name"),
    "chat: empty result": ("openai-chat", chat_result(content=[]), "empty_content"),
    "chat: no result": ("openai-chat", chat_result(content=None), "empty_content"),
    "chat: reasoning alone": (
        "openai-chat", {"role": "assistant", "reasoning_content": "Hm."}, "empty_content",
    ),
    "chat: audio without id": ("openai-chat", {"role": "assistant", "audio": {}}, "invalid_type"),
    "responses: unknown role": (
        "openai-responses", {"role": "usr", "content": "Hi"}, "unknown_role",
    ),
    "responses: no role": ("openai-responses", {"content": "Hi"}, "missing_type"),
    "responses: number as content": (
        "openai-responses", user("openai-responses", 5), "invalid_type",
    ),
    "responses: string as block": (
        "openai-responses", user("openai-responses", ["Hi"]), "invalid_type",
    ),
    "responses: block of chat": (
        "openai-responses", user("openai-responses", [TEXT]), "wrong_content",
    ),
    "responses: block as item": ("openai-responses", tool_use()["content"][0], "foreign_item"),
    "responses: tool message": ("openai-responses", chat_result(), "unknown_role"),
    "responses: id of another shape": ("openai-responses", said("abc"), "invalid_id"),
    "responses: long call id": ("openai-responses", function_call("a" * 65), "invalid_id"),
    "responses: no call id": ("openai-responses", function_call(""), "missing_call_id"),
    "responses: no output": ("openai-responses", function_output(output=None), "missing_output"),
    "anthropic: unknown role": ("anthropic", {"role": "usr", "content": "Hi"}, "unknown_role"),
    "anthropic: no role": ("anthropic", {"content": "Hi"}, "unknown_role"),
    "anthropic: number as content": ("anthropic", user("anthropic", 5), "invalid_type"),
    "anthropic: object as content": ("anthropic", user("anthropic", TEXT), "invalid_type"),
    "anthropic: string as block": ("anthropic", user("anthropic", ["Hi"]), "invalid_type"),
    "anthropic: block of OpenAI": ("anthropic", user("anthropic", [IMAGE]), "foreign_block"),
    "anthropic: block of OpenAI in a result": (
        "anthropic",
        user("anthropic", [{"type": "tool_result", "tool_use_id": "a", "content": [IMAGE]}]),
        "foreign_block",
    ),
    "anthropic: message of OpenAI": ("anthropic", chat_call(), "unknown_parameter"),
    "anthropic: id of another shape": ("anthropic", tool_use("a:1"), "invalid_id"),
    "anthropic: call without name": ("anthropic", tool_use(name=""), "missing_name"),
    "anthropic: blank text": (
        "anthropic", user("anthropic", [{"type": "text", "text": ""}, TEXT]), "empty_text",
    ),
    "anthropic: unsigned thought": (
        "anthropic",
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]},
        "unsigned_thought",
    ),
    "gemini: unknown role": ("gemini", {"role": "usr", "parts": [{"text": "Hi"}]}, "unknown_role"),
    "gemini: role of OpenAI": (
        "gemini", {"role": "assistant", "parts": [{"text": "Hi"}]}, "unknown_role",
    ),
    "gemini: number as parts": ("gemini", user("gemini", 5), "invalid_type"),
    "gemini: string as parts": ("gemini", {"role": "user", "parts": "Hi"}, "invalid_type"),
    "gemini: string as part": ("gemini", user("gemini", ["Hi"]), "invalid_type"),
    "gemini: number as text": ("gemini", user("gemini", [{"text": 5}]), "invalid_type"),
    "gemini: no parts": ("gemini", user("gemini", []), "empty_parts"),
    "gemini: message of OpenAI": ("gemini", {"role": "user", "content": "Hi"}, "unknown_field"),
    "gemini: block of Anthropic": ("gemini", user("gemini", [TEXT]), "unknown_field"),
    "gemini: call without name": ("gemini", gemini_call(""), "missing_name"),
    "gemini: response without name": ("gemini", gemini_response(""), "missing_name"),
}  # fmt: skip
"""Items that the provider refuses whatever is around them, and the rule that they break."""


@pytest.mark.parametrize("name", BAD_ITEMS)
def test_an_item_that_the_provider_refuses_is_refused_when_it_is_appended(name: str) -> None:
    format, item, rule = BAD_ITEMS[name]
    agent = opened(format)
    agent.append("Hello.")
    before = agent.session.save()

    with pytest.raises(FormatError) as caught:
        agent.append(user(format), item)

    text = str(caught.value)
    assert text.startswith("item 1 (dict ")
    assert f"[{rule}]" in text
    assert "Nothing was appended" in text
    assert agent.session.save() == before
    assert len(sent(agent, format)) == 1


SEARCH: Fields = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
SEARCH_RESULT: Fields = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
TOGETHER: dict[str, tuple[str, list[Fields], str, int]] = {
    "anthropic: one id twice": (
        "anthropic",
        [tool_use(), tool_result(), tool_use(), tool_result()],
        "duplicate_ids", 3,
    ),
    "anthropic: one id of a server tool twice": (
        "anthropic",
        [{"role": "assistant", "content": [SEARCH, SEARCH_RESULT]}, user("anthropic"),
         {"role": "assistant", "content": [SEARCH, SEARCH_RESULT]}],
        "duplicate_ids", 3,
    ),
    "anthropic: text before a result": (
        "anthropic", [tool_use(), tool_result("a", TEXT)], "results_not_first", 1,
    ),
    "responses: one id twice": (
        "openai-responses",
        [said(), user("openai-responses"), said()],
        "duplicate_ids", 3,
    ),
    "responses: reasoning alone": (
        "openai-responses", [REASONING, user("openai-responses")], "reasoning_alone", 1,
    ),
    "gemini: a call after an answer": (
        "gemini",
        [{"role": "model", "parts": [{"text": "Well"}]}, gemini_response()],
        "orphaned_response", 2,
    ),
    "chat: a call without a result": (
        "openai-chat", [chat_call(), user("openai-chat")], "dangling_call", 1,
    ),
}  # fmt: skip
"""Items that the provider refuses together: the rule, and the position of the item at fault."""


BEYOND_REPAIR = ("responses: one id twice", "anthropic: one id of a server tool twice")


@pytest.mark.parametrize("name", TOGETHER)
def test_items_that_the_provider_refuses_together_are_refused_before_they_are_sent(
    name: str,
) -> None:
    format, items, rule, position = TOGETHER[name]
    agent = opened(format, **tools(format))
    agent.append("Hello.")
    agent.append(*items)
    before = agent.session.history

    with pytest.raises(InvalidHistoryError) as caught:
        agent.request()

    assert agent.session.history == before
    text = str(caught.value)
    assert f"item {position} (dict " in text
    assert "repair=True" in text
    assert [refusal.rule for refusal in caught.value.violations] == [rule]


@pytest.mark.parametrize("name", TOGETHER)
def test_a_history_that_the_provider_refuses_is_not_collected(name: str) -> None:
    format, items, _, _ = TOGETHER[name]
    agent = opened(format, **tools(format))
    agent.append(*["Hello. " * 1_000] * 9)
    assert agent.session.get_context_usage()["percent_used"] > 80
    agent.append(*items)
    before = agent.session.save()

    with pytest.raises(InvalidHistoryError):
        agent.request()

    assert agent.session.save() == before


def tools(format: str) -> Fields:
    return {"tools": [{"name": "look", "input_schema": {}}]} if format == "anthropic" else {}


# --- repair ---


@pytest.mark.parametrize("name", [name for name in TOGETHER if name not in BEYOND_REPAIR])
def test_a_session_that_repairs_sends_what_the_provider_accepts(name: str) -> None:
    format, items, _, _ = TOGETHER[name]
    agent = opened(format, repair=True, **tools(format))
    agent.append("Hello.")
    agent.append(*items)
    before = agent.session.history

    sent(agent, format)

    [result] = agent.session.get_gc_history()
    assert result.plugin_name == "repair"
    assert result.details["repaired"]
    agent.session.undo()
    assert agent.session.history == before


def test_calls_with_one_id_get_different_ones_and_so_do_their_results() -> None:
    agent = opened("anthropic", repair=True, **tools("anthropic"))
    items = [user("anthropic"), tool_use(), tool_result(), tool_use(), tool_result()]
    agent.append(*items)

    first = sent(agent, "anthropic")

    assert first[:3] == items[:3]
    assert all(one is other for one, other in zip(first[:3], items[:3], strict=True))
    assert first[3]["content"][0]["id"] == first[4]["content"][0]["tool_use_id"] != "a"
    assert sent(agent, "anthropic") == first


def test_what_no_repair_helps_stays_refused_and_nothing_changes() -> None:
    agent = opened("openai-responses", repair=True)
    agent.append("Hello.", said(), user("openai-responses"), said())
    agent.append(*["Hello. " * 1_000] * 9)
    before = agent.session.save()

    with pytest.raises(InvalidHistoryError, match="Duplicate item found with id msg_1"):
        agent.request()

    assert agent.session.save() == before


@pytest.mark.parametrize("hold", ["pinned", "LOCKED"])
def test_a_repair_changes_nothing_that_is_held(hold: str) -> None:
    policy = GCPolicy.LOCKED if hold == "LOCKED" else None
    agent = opened("anthropic", repair=True, policy=policy, **tools("anthropic"))
    messages = agent.append(user("anthropic"), tool_use(), tool_result(), tool_use(), tool_result())
    if hold == "pinned":
        agent.session.pin(messages[3].message_id)
    before = agent.session.history

    with pytest.raises(InvalidHistoryError, match=hold):
        agent.request()

    assert agent.session.history == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("anthropic: blank text", [TEXT]),
        (
            "anthropic: id of another shape",
            [{"type": "tool_use", "id": "a_1", "name": "look", "input": {}}],
        ),
    ],
)
def test_a_session_that_repairs_converts_an_item_when_it_is_appended(
    name: str, content: list[Fields]
) -> None:
    format, item, _ = BAD_ITEMS[name]
    agent = opened(format, repair=True, **tools(format))
    agent.append("Hello.", item)
    if "id" in name:
        agent.append(tool_result("a:1"))

    assert sent(agent, format)[1]["content"] == content
    assert agent.session.get_gc_history() == []


@pytest.mark.parametrize(
    "name",
    [name for name in BAD_ITEMS if name.endswith(("role", "block of OpenAI", "as block"))],
)
def test_an_item_that_no_repair_helps_is_refused_by_a_session_that_repairs(name: str) -> None:
    format, item, rule = BAD_ITEMS[name]
    agent = opened(format, repair=True)

    with pytest.raises(FormatError, match=rf"\[{rule}\]"):
        agent.append(item)

    assert agent.session.history == []


# --- what is valid ---


def test_a_spoken_answer_is_sent_back_as_its_id() -> None:
    item = {"role": "assistant", "audio": {"id": "audio_1"}}
    agent = opened("openai-chat")
    agent.append("Hello.", item, "And?")

    assert sent(agent, "openai-chat")[1] is item


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_spoken_answer_is_its_transcript_and_its_sound_is_not_sent(is_restored: bool) -> None:
    audio = {"id": "audio_1", "data": "UklGR" * 9_000, "transcript": "Four.", "expires_at": 1}
    message = {"role": "assistant", "content": None, "audio": audio}
    agent = opened("openai-chat")
    agent.append("Two and two?")

    [answer] = agent.answer({"choices": [{"message": message}]})
    agent.append("And?")
    if is_restored:
        saved = agent.session.save()
        agent = ProviderSession.restore("openai-chat", saved, strategy=OldestFirst())

    assert answer.text == "Four."
    assert "UklGR" not in agent.session.save()
    assert sent(agent, "openai-chat")[1] == {
        "role": "assistant", "content": None, "audio": {"id": "audio_1"},
    }  # fmt: skip


def test_objects_of_an_sdk_inside_plain_data_are_accepted() -> None:
    message = ChatCompletionMessage.model_validate(chat_call())
    agent = opened("openai-chat")
    agent.append("Hello.", {"role": "assistant", "tool_calls": message.tool_calls}, chat_result())

    assert len(sent(agent, "openai-chat")) == 3


def test_an_object_in_place_of_the_parts_is_accepted_as_by_google() -> None:
    agent = opened("gemini")
    item = {"role": "user", "parts": {"text": "Hi"}}
    agent.append(item)

    assert sent(agent, "gemini") == [item]
    assert agent.session.history[0].text == "Hi"


# --- answers ---


def test_blank_texts_of_an_answer_are_not_sent_back() -> None:
    agent = opened("anthropic", **tools("anthropic"))
    agent.append("Look.")
    blank = {"type": "text", "text": ""}
    agent.answer({"role": "assistant", "content": [blank, *tool_use()["content"]]})
    agent.append(tool_result())

    assert sent(agent, "anthropic")[1] == tool_use()


def test_a_result_follows_the_id_of_its_call_in_an_answer_of_a_compatible_server() -> None:
    agent = opened("anthropic", **tools("anthropic"))
    agent.append("Look.")
    agent.answer(tool_use("functions.look:0"))
    agent.append(tool_result("functions.look:0"))

    _, call, result = sent(agent, "anthropic")
    assert call["content"][0]["id"] == "functions_look_0"
    assert result["content"][0]["tool_use_id"] == "functions_look_0"


@pytest.mark.parametrize(
    ("format", "answer", "is_accepted"),
    [
        (
            "openai-chat",
            {"choices": [{"message": {"role": "assistant", "reasoning_content": "Hm."}}]},
            False,
        ),
        ("openai-responses", {"status": "incomplete", "output": [REASONING]}, False),
        (
            "anthropic",
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}],
            },
            True,
        ),
        (
            "gemini",
            {
                "candidates": [
                    {"content": {"role": "model", "parts": [{"text": "Hm.", "thought": True}]}}
                ]
            },
            True,
        ),
    ],
)
def test_an_answer_that_is_reasoning_alone_is_left_out_if_the_provider_would_refuse_it(
    format: str, answer: Fields, is_accepted: bool
) -> None:
    agent = opened(format)
    agent.append("Hello.")

    assert len(agent.answer(answer)) == is_accepted
    agent.append("And?")
    assert len(sent(agent, format)) == 2 + is_accepted


def test_a_call_in_an_answer_that_can_not_be_sent_back_is_an_error_and_nothing_changes() -> None:
    agent = opened("openai-chat")
    agent.append("Hello.")
    agent.request()
    before = agent.session.save()

    reply = {"choices": [{"message": chat_call(name="")}], "usage": {"prompt_tokens": 500}}
    with pytest.raises(FormatError, match="missing_name"):
        agent.answer(reply)
    with pytest.raises(FormatError, match="missing_name"):
        list(agent.stream([chunk_of(chat_call(name=""))]))

    assert agent.session.save() == before


def chunk_of(message: Fields) -> Fields:
    calls = [{"index": 0, **call} for call in message["tool_calls"]]
    delta = {"role": "assistant", "tool_calls": calls}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}


# --- restored sessions, and arguments of the call ---


def test_a_restored_session_is_checked_too() -> None:
    agent = opened("openai-responses")
    agent.append("Hello.", REASONING, user("openai-responses"))
    saved = agent.session.save()
    options: Fields = {"strategy": OldestFirst()}

    restored = ProviderSession.restore("openai-responses", saved, **options)
    with pytest.raises(InvalidHistoryError, match="reasoning_alone"):
        restored.request()
    repaired = ProviderSession.restore("openai-responses", saved, repair=True, **options)
    assert len(sent(repaired, "openai-responses")) == 2


def test_arguments_that_do_not_fit_the_history_are_named() -> None:
    agent = opened("anthropic", model="claude-haiku-4-5")
    agent.append("Hello.", tool_use(), tool_result())

    with pytest.raises(GCConfigError, match=r"arguments of the call.*must define tools"):
        agent.request()

    agent.call["tools"] = tools("anthropic")["tools"]
    assert len(sent(agent, "anthropic")) == 3


# --- any mix ---

VALID: dict[str, list[list[Fields]]] = {
    "openai-chat": [
        [user("openai-chat")],
        [user("openai-chat", [TEXT, IMAGE])],
        [{"role": "assistant", "content": "Hello."}],
        [{"role": "assistant", "audio": {"id": "audio_1"}}],
        [{"role": "system", "content": "Be brief."}],
        [chat_call(), chat_result()],
    ],
    "openai-responses": [
        [user("openai-responses")],
        [said("msg_1")],
        [said("msg_2")],
        [REASONING, said("msg_3")],
        [function_call(), function_output()],
        [{"role": "developer", "content": "Be brief."}],
    ],
    "anthropic": [
        [user("anthropic")],
        [user("anthropic", [TEXT])],
        [{"role": "assistant", "content": "Hello. "}],
        [tool_use(), tool_result()],
        [tool_use("b"), tool_result("b", TEXT)],
    ],
    "gemini": [
        [user("gemini")],
        [{"role": "model", "parts": [{"text": "Hello."}]}],
        [gemini_call(), gemini_response()],
        [{"parts": {"text": "Hi"}}],
    ],
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["", " ", "a", "user", "text"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "parts", "type", "text", "id", "call_id", "tool_calls", "audio"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)


@st.composite
def broken(draw: st.DrawFn, format: str) -> list[Fields]:
    """Returns items of which one has a field of any type, or lacks it, or that are incomplete."""
    items = deepcopy(draw(st.sampled_from(VALID[format])))
    item = draw(st.sampled_from(items))
    holders = [item, *(each for value in item.values() for each in _objects(value))]
    holder = draw(st.sampled_from(holders))
    name = draw(st.sampled_from([*holder, "role", "id"]))
    if draw(st.booleans()):
        holder[name] = draw(JSON)
    else:
        holder.pop(name, None)
    return items[: draw(st.integers(1, len(items)))]


def _objects(value: Any) -> list[Fields]:
    if isinstance(value, dict):
        return [value, *(each for inner in value.values() for each in _objects(inner))]
    return [each for inner in value for each in _objects(inner)] if isinstance(value, list) else []


def mixes(format: str) -> st.SearchStrategy[list[list[Fields]]]:
    bad = [[item] for bad_format, item, _ in BAD_ITEMS.values() if bad_format == format]
    chosen = st.sampled_from([*VALID[format], *bad]).map(deepcopy)
    return st.lists(chosen | broken(format), min_size=1, max_size=6)


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_whatever_is_appended_what_is_sent_passes_the_check(
    format: str, repair: bool, data: st.DataObject
) -> None:
    agent = opened(format, repair=repair, **tools(format))
    for items in data.draw(mixes(format)):
        before = agent.session.history
        try:
            agent.append(*items)
        except FormatError:
            assert agent.session.history == before
    before, usage = agent.session.history, agent.session.get_context_usage()
    try:
        request = agent.request()
    except (InvalidHistoryError, GCConfigError):
        # What core repaired first counts for itself.
        if not agent.session.get_gc_history():
            assert agent.session.history == before
            assert agent.session.get_context_usage() == usage
    else:
        assert check_request(request, format) == []
        json.dumps(request)
        assert agent.request() == request


@given(format=st.sampled_from(FORMATS), data=st.data())
def test_whatever_an_answer_is_it_can_be_sent_back_or_is_an_error(
    format: str, data: st.DataObject
) -> None:
    agent = opened(format, **tools(format))
    agent.append("Hello.")
    agent.request()
    items = data.draw(broken(format))
    answer: Any = items[0]
    if format == "openai-chat":
        answer = {"choices": [{"message": answer}]}
    before = agent.session.history
    try:
        agent.answer(answer)
    except GCError:
        assert agent.session.history == before
        return
    if (
        agent.session.history[-1].role is Role.MODEL
        and not agent.session.history[-1].function_calls
    ):
        agent.append("And?")
        sent(agent, format)
