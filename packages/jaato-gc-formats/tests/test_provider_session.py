"""ProviderSession: a session in a provider's format."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import (
    Confidence,
    ContextFloorError,
    EstimateCounter,
    GCConfig,
    GCConfigError,
    GCError,
    GCOutcome,
    GCPluginError,
    GCPolicy,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    InvalidHistoryError,
    Message,
    NotConfiguredError,
    PluginRegistry,
    Role,
    count_tokens,
)
from jaato_gc.plugin import StrategyInfo, hookimpl
from jaato_gc_formats import FormatError, ProviderCounter, ProviderSession, check_request, collect
from jaato_gc_formats import _plugin as formats_plugin
from jaato_gc_testing import MemoryStash, OldestFirst

Fields = dict[str, Any]


class Plugin:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo("gc_oldest", OldestFirst, "Removes the oldest turns.")]


RECENT = GCConfig(preserve_recent_turns=1)


def open_session(
    format: str, context_limit: int = 4_000, gc_config: GCConfig = RECENT, **call: Any
) -> ProviderSession:
    """Opens a session with the arguments of the client's call."""
    registry = PluginRegistry()
    registry.register(Plugin(), "test-plugin")
    return ProviderSession.open(
        format,
        context_limit=context_limit,
        call=call,
        strategy="gc_oldest",
        config=gc_config,
        registry=registry,
    )


def said(text: str, used: int = 0) -> Fields:
    """Returns a response of OpenAI Chat Completions as plain data."""
    message = {"role": "assistant", "content": text}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": used}}


CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CALLING = {
    "choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}],
    "usage": {"prompt_tokens": 3_900, "completion_tokens": 10},
}
LONG = "many words that fill the window " * 60


# --- appending and sending ---


def test_unchanged_messages_are_sent_as_the_original_objects() -> None:
    agent = open_session("openai-chat", model="m", temperature=0.5)
    items = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hello.", "name": "ann", "unknown": 1},
        {"role": "assistant", "content": "Hi."},
    ]

    added = agent.append(*items)
    request = agent.request()

    assert all(one is other for one, other in zip(request["messages"], items, strict=True))
    assert {**request, "messages": None} == {"model": "m", "temperature": 0.5, "messages": None}
    assert [message.role for message in added] == [Role.SYSTEM, Role.USER, Role.MODEL]
    agent.session.pin(added[1].message_id)


@pytest.mark.parametrize(
    ("format", "request_of_hello"),
    [
        ("openai-chat", {"messages": [{"role": "user", "content": "Hello."}]}),
        ("openai-responses", {"input": [{"role": "user", "content": "Hello."}]}),
        (
            "anthropic",
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}]},
        ),
        ("gemini", {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}),
    ],
)
def test_a_string_is_sent_as_a_user_message_in_the_providers_format(
    format: str, request_of_hello: Fields
) -> None:
    agent = open_session(format)
    agent.append("Hello.")

    assert agent.request() == request_of_hello


def test_changed_call_arguments_apply_to_the_next_request() -> None:
    agent = open_session("openai-chat", model="small")
    agent.append("Hello.")
    first = agent.request()
    agent.call["model"] = "large"

    assert (first["model"], agent.request()["model"]) == ("small", "large")


def test_changed_tools_are_counted_again() -> None:
    look = {"name": "look", "input_schema": {"type": "object"}}
    listen = {"name": "listen", "description": LONG, "input_schema": {"type": "object"}}
    agent = open_session("anthropic", tools=[look])
    agent.append("Hello.")
    agent.request()
    before = agent.session.budget.total_tokens()

    agent.call["tools"].append(listen)
    agent.request()
    assert agent.session.budget.total_tokens() > before + 100
    agent.call["tools"] = [look]
    agent.request()
    assert agent.session.budget.total_tokens() == before
    del agent.call["tools"]
    agent.request()
    assert agent.session.budget.total_tokens() < before


def test_a_tool_that_is_changed_in_place_is_counted_again() -> None:
    look = {"name": "look", "input_schema": {"type": "object"}}
    agent = open_session("anthropic", tools=[look])
    agent.append("Hello.")
    before = agent.session.budget.total_tokens()

    look["description"] = LONG
    agent.request()

    assert agent.session.budget.total_tokens() > before + 100


def test_an_invalid_item_leaves_the_history_unchanged() -> None:
    agent = open_session("anthropic")
    for garbage in (None, 5, {"role": "user", "content": 5}):
        with pytest.raises(FormatError, match="item 1 "):
            agent.append("Hello.", garbage)

    assert agent.session.history == []


class Miscounting(EstimateCounter):
    """Fails for one text."""

    name = "miscounting"

    def count_text(self, text: str) -> int:
        return -1 if text == "Uncountable." else super().count_text(text)


def test_items_are_all_added_or_none_if_they_can_not_be_counted() -> None:
    agent = ProviderSession.open(
        "openai-responses", context_limit=9_000, strategy=OldestFirst(), counter=Miscounting()
    )
    agent.append("Hello.")
    agent.request()
    before = agent.session.save()
    output = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        for text in ("Yes.", "Uncountable.")
    ]
    usage = {"input_tokens": 50, "output_tokens": 9}

    with pytest.raises(GCError, match="miscounting"):
        agent.append("Yes.", "Uncountable.")
    with pytest.raises(GCError, match="miscounting"):
        agent.answer({"output": output, "usage": usage, "status": "completed"})

    assert agent.session.save() == before


def test_a_request_with_an_unanswered_call_is_an_error() -> None:
    agent = open_session("openai-chat")
    agent.append("Read it.")
    agent.answer(CALLING)

    with pytest.raises(InvalidHistoryError, match="read"):
        agent.request()


def test_appended_results_have_the_name_of_their_tool() -> None:
    agent = open_session("openai-chat")
    agent.append("Read it.")
    agent.answer(CALLING)
    [added] = agent.append({"role": "tool", "tool_call_id": "call_1", "content": "text"})

    assert added.function_responses[0].name == "read"


# --- system prompt and tools ---


class Config:
    """Imitates the configuration object of Google's SDK: iterable pairs, many of them unset."""

    def __init__(self, **fields: Any) -> None:
        self.fields = {"temperature": None, "system_instruction": None, "tools": None, **fields}

    def __iter__(self) -> Any:
        return iter(self.fields.items())


PROMPT = "You are careful. " * 50
TOOL = {"name": "read", "description": "Reads a file. " * 50}
CALL_FIELDS: dict[str, Fields] = {
    "openai-responses": {"instructions": PROMPT, "tools": [TOOL]},
    "anthropic": {"system": [{"type": "text", "text": PROMPT}], "tools": [TOOL]},
    "gemini": {
        "config": {
            "system_instruction": PROMPT,
            "tools": [{"function_declarations": [TOOL]}],
        }
    },
    "gemini, as an object": {
        "config": Config(system_instruction=PROMPT, tools=[{"function_declarations": [TOOL]}])
    },
}


@pytest.mark.parametrize("case", CALL_FIELDS)
def test_system_prompt_and_tools_are_counted_and_sent_unchanged(case: str) -> None:
    agent = open_session(case.partition(",")[0], model="m", **CALL_FIELDS[case])
    agent.append("Hello.")
    request = agent.request()
    entries = agent.session.budget.entries

    for name, value in CALL_FIELDS[case].items():
        assert request[name] is value
    assert entries[InstructionSource.SYSTEM].total_tokens() > 100
    assert entries[InstructionSource.PLUGIN].total_tokens() > 100
    assert len(agent.session.history) == 1


@pytest.mark.parametrize("case", CALL_FIELDS)
def test_a_restored_session_sends_the_same_request(case: str) -> None:
    format = case.partition(",")[0]
    agent = open_session(format, model="m", **CALL_FIELDS[case])
    agent.append("Hello.")
    registry, saved = agent.session.registry, agent.session.save()

    restored = ProviderSession.restore(format, saved, registry=registry, call=agent.call)

    assert restored.request() == agent.request()
    assert restored.session.get_context_usage() == agent.session.get_context_usage()
    assert restored.session.strategy is not None


@pytest.mark.parametrize("case", CALL_FIELDS)
def test_the_budget_follows_a_changed_system_prompt(case: str) -> None:
    format = case.partition(",")[0]
    agent = open_session(format, model="m")
    agent.append("Hello.")
    agent.request()
    empty = agent.session.budget.total_tokens()

    agent.call |= CALL_FIELDS[case]
    agent.request()
    full = agent.session.budget.total_tokens()
    for name in CALL_FIELDS[case]:
        del agent.call[name]
    request = agent.request()

    assert full > empty + 200
    assert agent.session.budget.total_tokens() == empty
    assert request.keys().isdisjoint(CALL_FIELDS[case])
    assert agent.session.get_gc_history() == []  # it is no edit of the history


def placed(format: str, prompt: str | None, tools: list[Fields]) -> Fields:
    """Returns the arguments of a call with a system prompt and tools."""
    keys = {"openai-responses": "instructions", "anthropic": "system"}
    fields: Fields = {keys.get(format, "system_instruction"): prompt} if prompt else {}
    if tools:
        fields["tools"] = tools
    return {"config": fields} if format == "gemini" else fields


@pytest.mark.parametrize("format", ["openai-responses", "anthropic", "gemini"])
@given(
    calls=st.lists(
        st.tuples(
            st.one_of(st.none(), st.text(max_size=30)),
            st.lists(st.sampled_from(["look", "listen", "read"]), max_size=3, unique=True),
            st.text(max_size=30),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_budget_counts_what_the_next_request_sends(
    format: str, calls: list[tuple[str | None, list[str], str]]
) -> None:
    def entries(agent: ProviderSession) -> list[Fields]:
        budget = agent.session.budget
        sources = (InstructionSource.SYSTEM, InstructionSource.PLUGIN)
        return [
            {key: child.tokens for key, child in budget.entries[source].children.items()}
            for source in sources
        ]

    session = GCSession()
    agent = ProviderSession(format, session)
    agent.append("Hello.")
    for prompt, names, description in calls:
        tools = [{"name": name, "description": description} for name in names]
        agent.call = placed(format, prompt, tools)
        request = agent.request()
        fresh = ProviderSession(format, GCSession(), call=agent.call)

        assert entries(agent) == entries(fresh)
        total = sum(sum(each.values()) for each in entries(agent))
        messages = count_tokens(session.history, session.budget.counter)
        assert session.budget.total_tokens() == total + messages
        assert {name: request[name] for name in agent.call} == agent.call


def test_a_longer_system_prompt_makes_a_collection_due() -> None:
    agent = open_session("anthropic", system="Be brief.")
    for number in range(3):
        agent.append(f"{number}: {LONG}")
        agent.request()
        agent.answer({"role": "assistant", "content": [{"type": "text", "text": "Fine."}]})
    agent.append("And now?")
    assert len(agent.request()["messages"]) == 7

    agent.call["system"] = PROMPT * 12

    assert len(agent.request()["messages"]) < 7
    [result] = agent.session.get_gc_history()
    assert result.outcome is GCOutcome.REACHED


def test_a_restored_session_counts_its_own_call_and_not_the_saved_one() -> None:
    agent = open_session("anthropic", system=PROMPT, tools=[TOOL])
    agent.append("Hello.")
    agent.session.budget.add_child(InstructionSource.PLUGIN, "own", 7, GCPolicy.LOCKED)
    registry, saved = agent.session.registry, agent.session.save()

    restored = ProviderSession.restore("anthropic", saved, registry=registry)

    entries = restored.session.budget.entries
    assert entries[InstructionSource.SYSTEM].total_tokens() == 0
    assert entries[InstructionSource.PLUGIN].total_tokens() == 7  # the host's own
    assert "system" not in restored.request()


@pytest.mark.parametrize("case", ["anthropic", "gemini", "gemini, as an object"])
def test_system_prompts_of_the_call_and_of_the_history_are_sent_and_counted(case: str) -> None:
    session = GCSession()
    session.append(Message.from_text(Role.SYSTEM, "Be brief."))
    session.append(Message.from_text(Role.USER, "Hello."))
    format = case.partition(",")[0]
    agent = ProviderSession(format, session, call={"model": "m", **CALL_FIELDS[case]})

    request = agent.request()
    sent = request.get("system") or request["config"]["systemInstruction"]

    assert PROMPT in str(sent)
    assert "Be brief." in str(sent)
    assert "system_instruction" not in request.get("config", {})
    assert "tools" in request or "tools" in request["config"]
    system = session.budget.entries[InstructionSource.SYSTEM]
    assert [entry.tokens > 0 for entry in system.children.values()] == [True, True]


def test_a_restored_session_fills_in_the_tool_names_of_results() -> None:
    agent = open_session("openai-chat")
    agent.append("Read it.")
    agent.answer(CALLING)
    registry, saved = agent.session.registry, agent.session.save()

    restored = ProviderSession.restore("openai-chat", saved, registry=registry)
    [added] = restored.append({"role": "tool", "tool_call_id": "call_1", "content": "text"})

    assert added.function_responses[0].name == "read"


@pytest.mark.parametrize("config", [None, {"temperature": 1}, Config(temperature=1)])
def test_a_system_prompt_in_the_sessions_history_is_sent(config: Any) -> None:
    def session() -> GCSession:
        made = GCSession()
        made.append(Message.from_text(Role.SYSTEM, "Be brief."))
        made.append(Message.from_text(Role.USER, "Hello."))
        return made

    claude = ProviderSession("anthropic", session(), call={"model": "m"}).request()
    gemini = ProviderSession("gemini", session(), call={"config": config}).request()

    assert claude["system"] == [{"type": "text", "text": "Be brief."}]
    assert gemini["config"].pop("systemInstruction") == {"parts": [{"text": "Be brief."}]}
    assert gemini["config"] == ({} if config is None else {"temperature": 1})
    assert gemini["contents"] == [{"role": "user", "parts": [{"text": "Hello."}]}]


# --- responses ---


def test_answer_adds_the_message_and_reports_the_usage() -> None:
    agent = open_session("openai-chat")
    agent.append("Hello.")
    agent.request()
    [added] = agent.answer(said("Hi.", used=1_000))
    usage = agent.session.get_context_usage()

    assert added.text == "Hi."
    assert usage["total_tokens"] > 1_000
    assert usage["confidence"] is Confidence.CALIBRATED


@pytest.mark.parametrize(
    ("format", "answer"),
    [
        ("openai-chat", {"choices": [{"message": {"role": "assistant", "content": ""}}]}),
        ("openai-responses", {"output": []}),
        ("anthropic", {"role": "assistant", "content": [], "stop_reason": "end_turn"}),
        ("gemini", {"candidates": [{"content": {"role": "model"}}]}),
        ("gemini", {"candidates": [{"finishReason": "SAFETY"}]}),
        ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}),
    ],
)
def test_an_empty_response_adds_no_message(format: str, answer: Fields) -> None:
    agent = open_session(format)
    agent.append("Hello.")
    agent.request()

    assert agent.answer(answer) == []
    assert len(agent.session.history) == 1
    agent.append("Are you there?")
    agent.request()


@pytest.mark.parametrize("format", ["openai-chat", "openai-responses", "anthropic", "gemini"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"choices": None},
        {"choices": [], "output": [], "status": "failed"},
        {"type": "error"},
        {"usage": {"input_tokens": 9}},
    ],
)
def test_an_error_in_place_of_a_response_is_a_format_error(format: str, fields: Fields) -> None:
    """Some servers return errors with a success status, so the SDK does not raise them."""
    agent = open_session(format)
    agent.append("Hello.")
    agent.request()

    with pytest.raises(FormatError, match=r"the provider returned an error: .*overloaded"):
        agent.answer({"error": {"message": "overloaded"}, **fields})
    assert len(agent.session.history) == 1
    assert agent.session.get_context_usage()["confidence"] is not Confidence.CALIBRATED


@pytest.mark.parametrize(
    ("format", "answer"),
    [
        ("openai-chat", {}),
        ("openai-chat", {"choices": None}),
        ("openai-chat", {"choices": [{}]}),
        ("openai-chat", {"choices": [{"message": None}]}),
        ("openai-responses", {"choices": []}),
        ("anthropic", {"choices": []}),
        ("gemini", {"choices": []}),
        ("gemini", "Hello."),
    ],
)
def test_data_that_is_not_a_response_is_a_format_error(format: str, answer: Any) -> None:
    agent = open_session(format)
    agent.append("Hello.")

    with pytest.raises(FormatError, match=f"expected a response of {format}, got"):
        agent.answer(answer)
    assert len(agent.session.history) == 1


def test_answer_accepts_a_single_item() -> None:
    agent = open_session("openai-responses")
    agent.append("Hello.")
    agent.answer({"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "error": None})

    assert len(agent.session.history) == 2


def test_an_empty_list_of_calls_is_not_sent_back() -> None:
    """Some servers include one in every response; OpenAI refuses it in a request."""
    agent = open_session("openai-chat")
    agent.append("Hello.")
    answer = said("Hi.")
    answer["choices"][0]["message"]["tool_calls"] = []
    agent.answer(answer)
    agent.append("And?")

    assert check_request(agent.request(), "openai-chat") == []


def test_a_response_without_tool_calls_ends_the_turn() -> None:
    agent = open_session("openai-chat")
    for number in range(3):
        agent.append(f"{number}: {LONG}")
        agent.request()
        agent.answer(said("So it is.", used=300))
    agent.append("Read it.")
    agent.request()
    agent.answer(CALLING)
    assert agent.session.get_gc_history() == []

    agent.append({"role": "tool", "tool_call_id": "call_1", "content": "text"})
    agent.answer(said("Done."))
    [result] = agent.session.get_gc_history()
    assert result.trigger_reason is GCTriggerReason.THRESHOLD


# --- collecting ---


def test_request_collects_when_the_threshold_is_exceeded() -> None:
    agent = open_session("openai-chat", tools=[TOOL])
    system = {"role": "system", "content": "Be brief."}
    agent.append(system)
    sizes = []
    for number in range(30):
        agent.append(f"{number}: {LONG}")
        request = agent.request()
        sizes.append(len(request["messages"]))
        assert request["messages"][0] is system
        assert request["messages"][-1]["content"].startswith(f"{number}: ")
        agent.answer(said("So it is."))

    assert max(sizes) < 30
    assert agent.session.get_gc_history()
    agent.session.undo()


def test_recover_collects_only_after_a_request_that_was_too_long() -> None:
    agent = open_session("openai-chat", context_limit=100_000)
    for number in range(4):
        agent.append(f"{number}: {LONG}")
        agent.request()
        agent.answer(said("So it is."))
    before = len(agent.session.history)

    assert not agent.recover(ValueError("no such model"))
    assert len(agent.session.history) == before
    assert agent.recover(ValueError("prompt is too long: 9 tokens > 8 maximum"))
    assert len(agent.session.history) < before


# --- opening ---


def reserve_of(agent: ProviderSession) -> int:
    """Returns the part of the window that is kept free for the response."""
    return agent.session.config.reserve_output_tokens


def limited(format: str, name: str, tokens: Any) -> Fields:
    """Returns the arguments of a call that limit the length of the response."""
    return {"config": {name: tokens}} if format == "gemini" else {name: tokens}


LENGTHS = [
    ("openai-chat", "max_completion_tokens"),
    ("openai-chat", "max_tokens"),
    ("openai-responses", "max_output_tokens"),
    ("anthropic", "max_tokens"),
    ("gemini", "max_output_tokens"),
    ("gemini", "maxOutputTokens"),
]
"""The names of the maximum length of a response."""


@pytest.mark.parametrize(("format", "name"), LENGTHS)
def test_the_maximum_length_of_the_response_is_reserved(format: str, name: str) -> None:
    given = GCConfig(reserve_output_tokens=100)
    call = limited(format, name, 500)

    assert reserve_of(open_session(format)) == 0
    assert reserve_of(open_session(format, **call)) == 500
    assert reserve_of(open_session(format, gc_config=given, **call)) == 100
    assert reserve_of(ProviderSession(format, GCSession(), call=call)) == 500
    assert given.reserve_output_tokens == 100


@pytest.mark.parametrize(("format", "name"), LENGTHS)
def test_the_reserve_follows_a_changed_maximum_length_of_the_response(
    format: str, name: str
) -> None:
    agent = open_session(format, **limited(format, name, 500))
    agent.append("Hello.")

    for tokens in (900, 100, None):
        agent.call |= limited(format, name, tokens)
        agent.request()
        assert reserve_of(agent) == (tokens or 0)
    assert agent.session.get_gc_history() == []


def test_the_reserve_follows_a_configuration_object_of_google_s_sdk() -> None:
    agent = open_session("gemini", config=Config(max_output_tokens=500))
    agent.append("Hello.")
    agent.call["config"].fields["max_output_tokens"] = 900
    agent.request()

    assert reserve_of(agent) == 900


def test_the_larger_of_two_maximum_lengths_is_reserved() -> None:
    """Servers that are compatible with OpenAI's differ in which of the two names they read."""
    agent = open_session("openai-chat", max_tokens=300, max_completion_tokens=500)

    assert reserve_of(agent) == 500


@pytest.mark.parametrize("unlimited", [None, -1, "inf", object()])
def test_a_maximum_length_that_limits_nothing_reserves_nothing(unlimited: Any) -> None:
    """Local servers read -1 as "no limit", and SDKs have objects for unset arguments."""
    agent = open_session("openai-chat", max_tokens=unlimited)
    agent.append("Hello.")

    assert agent.request()["max_tokens"] is unlimited
    assert reserve_of(agent) == 0


def test_a_reserve_of_the_host_does_not_follow_the_call() -> None:
    own = GCConfig(preserve_recent_turns=1, reserve_output_tokens=500)
    agent = open_session("anthropic", gc_config=own, max_tokens=500)
    agent.append("Hello.")
    saved, registry = agent.session.save(), agent.session.registry

    agent.call["max_tokens"] = 900
    agent.request()
    restored = ProviderSession.restore("anthropic", saved, registry=registry, call=agent.call)

    assert [reserve_of(each) for each in (agent, agent.child(), restored)] == [500, 500, 500]


def test_a_restored_session_reserves_the_maximum_length_of_its_own_call() -> None:
    agent = open_session("anthropic", max_tokens=500)
    agent.append("Hello.")
    saved, registry = agent.session.save(), agent.session.registry

    def restored(**call: Any) -> int:
        return reserve_of(ProviderSession.restore("anthropic", saved, registry=registry, call=call))

    assert (restored(), restored(max_tokens=500), restored(max_tokens=900)) == (0, 500, 900)


def test_a_response_that_leaves_no_room_for_requests_is_refused() -> None:
    error = r"a reserve of 64,000 .* window of 60,000.*max_context_tokens"
    claude_code = {"max_tokens": 64_000, "system": PROMPT}
    with pytest.raises(GCConfigError, match=error):
        ProviderSession("anthropic", GCSession(context_limit=60_000), call=claude_code)
    agent = ProviderSession("anthropic", GCSession(context_limit=60_000))
    agent.append("Hello.")
    before = agent.session.save()

    agent.call |= claude_code
    with pytest.raises(GCConfigError, match=error):
        agent.request()
    assert agent.session.save() == before
    agent.call["max_tokens"] = 8_000
    assert agent.request()["messages"]


def test_a_part_of_a_large_window_leaves_the_response_its_room() -> None:
    session = GCSession(context_limit=200_000)
    session.set_gc_plugin(OldestFirst(), GCConfig(max_context_tokens=60_000))
    agent = ProviderSession("anthropic", session, call={"max_tokens": 64_000})
    agent.append("Hello.")

    assert agent.request()["messages"]


def test_a_restored_session_can_have_a_smaller_window_and_shorter_responses() -> None:
    agent = open_session("anthropic", max_tokens=3_000)
    agent.append("Hello.")

    restored = ProviderSession.restore(
        "anthropic",
        agent.session.save(),
        call={"max_tokens": 500},
        context_limit=2_000,
        registry=agent.session.registry,
    )

    assert reserve_of(restored) == 500


def test_another_strategy_keeps_the_reserve_for_the_response() -> None:
    agent = open_session("anthropic", max_tokens=500)

    agent.session.set_gc_plugin(OldestFirst(), GCConfig(target_percent=50))
    assert reserve_of(agent) == 500
    agent.session.set_gc_plugin(OldestFirst(), GCConfig(reserve_output_tokens=50))
    assert reserve_of(agent) == 50


def test_a_longer_response_makes_a_collection_due() -> None:
    agent = open_session("anthropic", max_tokens=100)
    for number in range(5):
        agent.append(f"{number}: {LONG}")
        agent.request()
        agent.answer({"role": "assistant", "content": [{"type": "text", "text": "Fine."}]})
    agent.append("And now?")
    assert len(agent.request()["messages"]) == 11

    agent.call["max_tokens"] = 3_000

    assert len(agent.request()["messages"]) < 11
    assert agent.session.budget.total_tokens() + 3_000 <= 4_000


@given(lengths=st.lists(st.integers(0, 3_600), min_size=1, max_size=8))
def test_a_request_and_its_response_never_exceed_the_window(lengths: list[int]) -> None:
    agent = open_session("anthropic")
    for number, length in enumerate(lengths):
        agent.append(f"{number}: {LONG}")
        agent.call["max_tokens"] = length
        try:
            agent.request()
        except ContextFloorError:
            assert length > 2_000
        else:
            assert agent.session.budget.total_tokens() + length <= 4_000
        agent.answer({"role": "assistant", "content": [{"type": "text", "text": "Fine."}]})


@pytest.mark.parametrize(
    ("format", "name", "remedy"),
    [
        ("openai-chat", "messages", r"add the messages with append\(\)"),
        ("openai-responses", "input", r"add the messages with append\(\)"),
        ("anthropic", "messages", r"add the messages with append\(\)"),
        ("gemini", "contents", r"add the messages with append\(\)"),
        ("openai-chat", "system", r"as a message; add it with append\(\)"),
        ("openai-chat", "instructions", r"as a message; add it with append\(\)"),
        ("openai-responses", "system", "as 'instructions'; rename it"),
        ("anthropic", "system_instruction", "as 'system'; rename it"),
        ("gemini", "system_instruction", "takes it in 'config'; move it there"),
        ("gemini", "tools", "takes it in 'config'; move it there"),
        ("anthropic", "stash", "pass stash=… instead"),
        ("anthropic", "strategy", "pass strategy=… instead"),
        ("openai-responses", "previous_response_id", "can't be collected; leave it out"),
        ("openai-responses", "conversation", "can't be collected; leave it out"),
    ],
)
def test_an_argument_that_does_not_belong_in_the_call_is_refused(
    format: str, name: str, remedy: str
) -> None:
    agent = open_session(format)
    agent.append("Hello.")
    refusal = pytest.raises(GCConfigError, match=rf"call\['{name}'\].*{remedy}")

    with refusal:
        ProviderSession.open(
            format, context_limit=4_000, call={name: "anything"}, strategy=OldestFirst()
        )
    agent.call[name] = "anything"
    with refusal:
        agent.request()
    with refusal:
        agent.child()
    with refusal:
        ProviderSession.restore(
            format, agent.session.save(), call=agent.call, strategy=OldestFirst()
        )


def test_an_unset_conversation_of_the_provider_is_accepted() -> None:
    agent = open_session("openai-responses", previous_response_id=None)
    agent.append("Hello.")

    assert agent.request()["previous_response_id"] is None


def test_unknown_keyword_arguments_are_refused() -> None:
    """Type checkers find them too: an unused "type: ignore" is an error."""
    agent = open_session("anthropic")
    saved, registry = agent.session.save(), agent.session.registry
    misspelled = pytest.raises(TypeError, match=r"'stahs': did you mean 'stash'\? ")

    with misspelled:
        ProviderSession.open("anthropic", context_limit=9, stahs=None)  # type: ignore[call-arg]
    with misspelled:
        ProviderSession.restore("anthropic", saved, registry=registry, stahs=None)  # type: ignore[call-arg]
    with misspelled:
        agent.child(stahs=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'tools': put .* the client's call into call=\{'tools'"):
        ProviderSession.open("anthropic", context_limit=9, tools=[TOOL])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'model'"):
        ProviderSession("anthropic", GCSession(), model="m")  # type: ignore[call-arg]


def test_the_configuration_of_google_s_call_is_not_taken_for_ours() -> None:
    with pytest.raises(
        GCConfigError, match=r"got dict: use GCConfig.*, or put .* into call=\{'config': …\}"
    ):
        ProviderSession.open(
            "gemini",
            context_limit=9,
            strategy=OldestFirst(),
            config={"tools": []},  # type: ignore[arg-type]
        )


def test_a_setting_among_the_arguments_names_the_configuration() -> None:
    agent = open_session("anthropic")
    saved, registry = agent.session.save(), agent.session.registry
    misplaced = pytest.raises(TypeError, match=r"config=GCConfig\(threshold_percent=…\)")

    with misplaced:
        ProviderSession.open("gemini", context_limit=9, threshold_percent=70)  # type: ignore[call-arg]
    with misplaced:
        ProviderSession.restore("anthropic", saved, registry=registry, threshold_percent=70)  # type: ignore[call-arg]
    with misplaced:
        agent.child(threshold_percent=70)  # type: ignore[call-arg]


def test_a_call_that_is_not_a_mapping_is_refused() -> None:
    expected = pytest.raises(GCConfigError, match=r"call='claude': expected a dict .*'model': …")
    strategy = OldestFirst()

    with expected:
        ProviderSession.open("anthropic", context_limit=9, strategy=strategy, call="claude")  # type: ignore[arg-type]
    with expected:
        ProviderSession("anthropic", GCSession(), call="claude")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ([{"role": "user", "content": "Hello."}], r"got a list: append\(\*messages\)"),
        (({"role": "user", "content": "Hello."},), r"got a tuple: append\(\*messages\)"),
        (Message.from_text(Role.USER, "Hello."), r"from_messages\(\[message\], 'anthropic'\)"),
    ],
    ids=["a list", "a tuple", "a message of core"],
)
def test_an_item_that_is_not_one_message_of_the_provider_names_the_remedy(
    item: object, error: str
) -> None:
    agent = open_session("anthropic")

    with pytest.raises(FormatError, match=error):
        agent.append("Hello.", item)
    assert not agent.session.history


def test_open_passes_the_options_of_the_session_on() -> None:
    stash, strategy = MemoryStash(), OldestFirst()

    agent = ProviderSession.open(
        "anthropic",
        context_limit=4_000,
        strategy=strategy,
        stash=stash,
        agent_id="main-agent",
        on_overflow="raise",
        tool_policies={"read": GCPolicy.PRESERVABLE},
    )

    assert agent.session.strategy is strategy
    assert agent.session.stash is stash
    assert agent.session.budget.agent_id == "main-agent"


class Several:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo(f"gc_{name}", OldestFirst, "") for name in ("second", "first")]


def registry_of(*plugins: object) -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    registry.register(formats_plugin, "formats")
    for plugin in plugins:
        registry.register(plugin, type(plugin).__name__)
    return registry


def test_the_only_installed_strategy_is_the_default() -> None:
    registry = registry_of(Plugin())
    agent = ProviderSession.open("anthropic", context_limit=4_000, registry=registry)
    data = [{"role": "user", "content": "Hello."}]

    collected = collect(data, context_limit=4_000, format="anthropic", registry=registry)

    assert isinstance(agent.session.strategy, OldestFirst)
    assert collected.result.plugin_name == "gc_oldest"


@pytest.mark.parametrize(
    ("plugins", "error"),
    [
        ([], r"no usable strategy is installed: .*pass a strategy as strategy=…"),
        ([Several()], r"2 strategies are installed: .*strategy='gc_first' .*gc_first, gc_second"),
    ],
)
def test_without_exactly_one_strategy_the_error_says_how_to_choose(
    plugins: list[object], error: str
) -> None:
    registry = registry_of(*plugins)

    with pytest.raises(GCPluginError, match=error):
        ProviderSession.open("anthropic", context_limit=4_000, registry=registry)
    with pytest.raises(GCPluginError, match=error):
        collect([], context_limit=4_000, format="anthropic", registry=registry)


def test_a_restored_session_can_have_another_window_and_stash() -> None:
    agent = open_session("anthropic")
    agent.append("Hello.")
    stash = MemoryStash()

    restored = ProviderSession.restore(
        "anthropic",
        agent.session.save(),
        context_limit=9_000,
        strategy=OldestFirst(),
        stash=stash,
        registry=agent.session.registry,
    )

    assert restored.session.budget.context_limit == 9_000
    assert restored.session.stash is stash


@pytest.mark.parametrize("strategy", ["gc_oldest", OldestFirst(), None])
def test_a_restored_session_can_have_another_strategy(strategy: Any) -> None:
    agent = open_session("anthropic")
    agent.append("Hello.")

    restored = ProviderSession.restore(
        "anthropic", agent.session.save(), strategy=strategy, registry=agent.session.registry
    )

    assert isinstance(restored.session.strategy, OldestFirst)


# --- sub-agents and recall ---


def test_a_child_has_its_own_history_and_call() -> None:
    agent = open_session("anthropic", model="m", system=PROMPT, max_tokens=900, tools=[TOOL])
    agent.append("Hello.")

    child = agent.child(call={"model": "m", "system": "Search.", "max_tokens": 100})
    child.append("Find it.")

    assert child.request() == {
        "model": "m",
        "system": "Search.",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Find it."}]}],
    }
    assert len(agent.session.history) == len(child.session.history) == 1
    assert child.session.budget.entries[InstructionSource.PLUGIN].total_tokens() == 0
    assert (
        agent.session.config.reserve_output_tokens,
        child.session.config.reserve_output_tokens,
    ) == (900, 100)


def test_a_child_inherits_the_call_unless_it_has_its_own() -> None:
    agent = open_session("gemini", model="m", config={"tools": [TOOL]})
    child = agent.child()
    child.append("Find it.")

    assert {**child.request(), "contents": None} == {**agent.call, "contents": None}
    child.call["model"] = "other"
    assert agent.call["model"] == "m"


def test_a_child_counts_with_a_counter_for_its_own_model() -> None:
    agent = open_session("openai-chat", model="gpt-4o")
    counter = agent.session.budget.counter

    assert agent.child().session.budget.counter is counter
    other = agent.child(call={"model": "deepseek-chat"}, context_limit=2_000).session.budget
    assert (other.counter.name != counter.name, other.context_limit) == (True, 2_000)


def test_a_child_with_its_own_reserve_keeps_it() -> None:
    agent = open_session("anthropic", max_tokens=900)
    profile = {"gc": {"type": "oldest", "reserve_output_tokens": 50}}

    assert agent.child(profile).session.config.reserve_output_tokens == 50
    assert agent.child({"gc": {"type": "oldest"}}).session.config.reserve_output_tokens == 900
    assert agent.child(call={}).session.config.reserve_output_tokens == 0


@pytest.mark.parametrize(
    ("format", "where"),
    [
        ("openai-chat", ("function", "parameters")),
        ("openai-responses", ("parameters",)),
        ("anthropic", ("input_schema",)),
        ("gemini", ("parameters_json_schema",)),
    ],
)
def test_the_recall_tool_has_the_shape_of_the_provider(format: str, where: tuple[str, ...]) -> None:
    stash = MemoryStash()
    agent = ProviderSession.open(
        format, context_limit=4_000, strategy=OldestFirst(), stash=stash, config=RECENT
    )
    [key] = stash.put("gc_1", [Message.from_text(Role.USER, "the code is 4711")])

    definition, recall = agent.recall_tool("look_up")

    schema: Any = definition
    for name in where:
        schema = schema[name]
    assert set(schema["properties"]) == {"key", "query", "offset"}
    assert "look_up" in (definition.get("name"), definition.get("function", {}).get("name"))
    assert "4711" in recall({"key": key})
    assert "4711" in recall(json.dumps({"query": "code"}))
    for mistake in (None, "", "{", "[1]", 5, {"key": 5}):
        assert recall(mistake) == "Give a key, or a query to search for."


def test_a_recall_tool_needs_a_stash() -> None:
    with pytest.raises(NotConfiguredError, match="stash"):
        open_session("anthropic").recall_tool()


def test_agents_do_not_recall_each_other_s_content() -> None:
    agent = ProviderSession.open(
        "anthropic", context_limit=4_000, strategy=OldestFirst(), stash=MemoryStash()
    )
    child = agent.child()
    for each, word in ((agent, "parental"), (child, "childish")):
        assert each.session.stash
        each.session.stash.put("gc_1", [Message.from_text(Role.USER, f"a {word} secret")])

    def found(each: ProviderSession) -> set[str]:
        text = each.recall_tool().handler({"query": "secret"})
        return {word for word in ("parental", "childish") if word in text}

    assert (found(agent), found(child)) == ({"parental"}, {"childish"})


def test_open_uses_a_counter_for_the_provider() -> None:
    assert isinstance(open_session("gemini").session.budget.counter, ProviderCounter)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("openai", "unknown format 'openai': did you mean 'openai-chat'?"),
        ("Anthropic", "unknown format 'Anthropic': did you mean 'anthropic'?"),
        ("claude", "unknown format 'claude':"),
        ("codex-rollout", "read-only format 'codex-rollout':"),
    ],
)
def test_a_wrong_format_lists_the_formats_of_apis_and_suggests_one(name: str, problem: str) -> None:
    with pytest.raises(FormatError) as refused:
        ProviderSession.open(name, context_limit=4_000)  # also if there is no strategy

    formats = "anthropic, gemini, openai-chat, openai-responses"
    assert str(refused.value) == f"{problem} expected one of {formats}"
