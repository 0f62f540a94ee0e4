"""A session that is spoken to in a provider's own shape."""

from typing import Any

import pytest

from jaato_gc import (
    Confidence,
    ContextUsage,
    GCConfig,
    GCResult,
    GCSession,
    GCStrategy,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    InvalidHistoryError,
    Message,
    PluginRegistry,
    Role,
    StrategyInfo,
    StrategySettings,
    hookimpl,
)
from jaato_gc_formats import FormatError, ProviderCounter, ProviderSession, check_request

Fields = dict[str, Any]


class DropOldest(GCStrategy[StrategySettings]):
    """The oldest turns go."""

    name = "gc_oldest"
    settings_model = StrategySettings

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        collection = self.begin(history, context_usage, config, reason, budget)
        collection.remove_oldest(collection.turns, "truncated")
        return collection.finish()


class Plugin:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo("gc_oldest", DropOldest, "The oldest turns go.")]


def open_session(format: str, limit: int = 4_000, **call: Any) -> ProviderSession:
    registry = PluginRegistry()
    registry.register(Plugin(), "test-plugin")
    call.setdefault("gc_config", GCConfig(preserve_recent_turns=1))
    return ProviderSession.open(
        format, limit=limit, strategy="gc_oldest", registry=registry, **call
    )


def said(text: str, used: int = 0) -> Fields:
    """An answer of OpenAI's, as plain data."""
    message = {"role": "assistant", "content": text}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": used}}


CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CALLING = {
    "choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}],
    "usage": {"prompt_tokens": 3_900, "completion_tokens": 10},
}
LONG = "many words that fill the window " * 60


# --- what goes in comes out ---


def test_the_same_objects_are_sent() -> None:
    agent = open_session("openai-chat", model="m", temperature=0.5)
    items = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hello.", "name": "ann", "unheard_of": 1},
        {"role": "assistant", "content": "Hi."},
    ]

    booked = agent.append(*items)
    request = agent.request()

    assert all(one is other for one, other in zip(request["messages"], items, strict=True))
    assert {**request, "messages": None} == {"model": "m", "temperature": 0.5, "messages": None}
    assert [message.role for message in booked] == [Role.SYSTEM, Role.USER, Role.MODEL]
    agent.session.pin(booked[1].message_id)


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
def test_a_text_is_a_users_message_in_the_providers_shape(
    format: str, request_of_hello: Fields
) -> None:
    agent = open_session(format)
    agent.append("Hello.")

    assert agent.request() == request_of_hello


def test_arguments_may_change_between_requests() -> None:
    agent = open_session("openai-chat", model="small")
    agent.append("Hello.")
    first = agent.request()
    agent.call["model"] = "large"

    assert (first["model"], agent.request()["model"]) == ("small", "large")


def test_tools_may_change_between_requests() -> None:
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


def test_nothing_is_appended_if_not_all_of_it_can_be_read() -> None:
    agent = open_session("anthropic")
    for garbage in (None, 5, {"role": "user", "content": 5}):
        with pytest.raises(FormatError, match="message 1"):
            agent.append("Hello.", garbage)

    assert agent.session.history == []


def test_an_open_call_is_not_sent() -> None:
    agent = open_session("openai-chat")
    agent.append("Read it.")
    agent.answer(CALLING)

    with pytest.raises(InvalidHistoryError, match="read"):
        agent.request()


def test_results_know_their_tool() -> None:
    agent = open_session("openai-chat")
    agent.append("Read it.")
    agent.answer(CALLING)
    [booked] = agent.append({"role": "tool", "tool_call_id": "call_1", "content": "text"})

    assert booked.function_responses[0].name == "read"


# --- what stands beside the messages ---


class Config:
    """Like the configuration object of Google's SDK: pairs of names and values, many unset."""

    def __init__(self, **fields: Any) -> None:
        self.fields = {"temperature": None, "system_instruction": None, "tools": None, **fields}

    def __iter__(self) -> Any:
        return iter(self.fields.items())


PROMPT = "You are careful. " * 50
TOOL = {"name": "read", "description": "Reads a file. " * 50}
BESIDE: dict[str, Fields] = {
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


@pytest.mark.parametrize("case", BESIDE)
def test_what_stands_beside_the_messages_is_counted_and_sent_as_it_is(case: str) -> None:
    agent = open_session(case.partition(",")[0], model="m", **BESIDE[case])
    agent.append("Hello.")
    request = agent.request()
    entries = agent.session.budget.entries

    for name, value in BESIDE[case].items():
        assert request[name] is value
    assert entries[InstructionSource.SYSTEM].total_tokens() > 100
    assert entries[InstructionSource.PLUGIN].total_tokens() > 100
    assert len(agent.session.history) == 2


@pytest.mark.parametrize("case", BESIDE)
def test_a_restored_session_goes_on_where_it_was(case: str) -> None:
    format = case.partition(",")[0]
    agent = open_session(format, model="m", **BESIDE[case])
    agent.append("Hello.")
    registry, saved = agent.session.registry, agent.session.save()

    restored = ProviderSession.restore(format, saved, registry=registry, **agent.call)

    assert restored.request() == agent.request()
    assert restored.session.get_context_usage() == agent.session.get_context_usage()
    assert restored.session.plugin is not None


def test_a_restored_session_still_knows_the_tool_of_a_call() -> None:
    agent = open_session("openai-chat")
    agent.append("Read it.")
    agent.answer(CALLING)
    registry, saved = agent.session.registry, agent.session.save()

    restored = ProviderSession.restore("openai-chat", saved, registry=registry)
    [booked] = restored.append({"role": "tool", "tool_call_id": "call_1", "content": "text"})

    assert booked.function_responses[0].name == "read"


@pytest.mark.parametrize("config", [None, {"temperature": 1}, Config(temperature=1)])
def test_a_system_prompt_that_the_session_has_is_sent_too(config: Any) -> None:
    def session() -> GCSession:
        made = GCSession()
        made.append(Message.from_text(Role.SYSTEM, "Be brief."))
        made.append(Message.from_text(Role.USER, "Hello."))
        return made

    claude = ProviderSession("anthropic", session(), model="m").request()
    gemini = ProviderSession("gemini", session(), config=config).request()

    assert claude["system"] == [{"type": "text", "text": "Be brief."}]
    assert gemini["config"].pop("systemInstruction") == {"parts": [{"text": "Be brief."}]}
    assert gemini["config"] == ({} if config is None else {"temperature": 1})
    assert gemini["contents"] == [{"role": "user", "parts": [{"text": "Hello."}]}]


# --- answers ---


def test_an_answer_brings_what_was_said_and_what_it_cost() -> None:
    agent = open_session("openai-chat")
    agent.append("Hello.")
    agent.request()
    [booked] = agent.answer(said("Hi.", used=1_000))
    usage = agent.session.get_context_usage()

    assert booked.text == "Hi."
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
def test_an_answer_with_nothing_in_it_is_left_out(format: str, answer: Fields) -> None:
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
def test_an_error_is_no_answer(format: str, fields: Fields) -> None:
    """Some servers report one as if all had gone well."""
    agent = open_session(format)
    agent.append("Hello.")
    agent.request()

    with pytest.raises(FormatError, match=r"answered with an error: .*overloaded"):
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
def test_what_is_no_answer_is_refused(format: str, answer: Any) -> None:
    agent = open_session(format)
    agent.append("Hello.")

    with pytest.raises(FormatError, match=f"no answer of {format}"):
        agent.answer(answer)
    assert len(agent.session.history) == 1


def test_one_item_is_an_answer_too() -> None:
    agent = open_session("openai-responses")
    agent.append("Hello.")
    agent.answer({"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "error": None})

    assert len(agent.session.history) == 2


def test_an_empty_list_of_calls_is_not_sent_back() -> None:
    """Some servers give one with every answer; OpenAI refuses to see it again."""
    agent = open_session("openai-chat")
    agent.append("Hello.")
    answer = said("Hi.")
    answer["choices"][0]["message"]["tool_calls"] = []
    agent.answer(answer)
    agent.append("And?")

    assert check_request(agent.request(), "openai-chat") == []


def test_an_answer_that_calls_no_tool_ends_the_turn() -> None:
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


def test_what_is_due_is_collected_before_a_request() -> None:
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


def test_recovery_is_for_requests_that_were_too_long() -> None:
    agent = open_session("openai-chat", limit=100_000)
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


def test_room_is_kept_for_the_answer() -> None:
    def reserved(**call: Any) -> int:
        return open_session("anthropic", **call).session.config.reserve_output_tokens

    assert reserved() == 0
    assert reserved(max_tokens=500) == 500
    assert reserved(max_completion_tokens=300) == 300
    given = GCConfig(reserve_output_tokens=100)
    assert reserved(max_tokens=500, gc_config=given) == 100
    assert given.reserve_output_tokens == 100


def test_the_provider_s_way_of_counting_is_chosen() -> None:
    assert isinstance(open_session("gemini").session.budget.counter, ProviderCounter)


def test_unknown_formats_are_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(FormatError, match="openai-chat"):
        open_session("openai")
