"""The model that a log names."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import PluginRegistry
from jaato_gc_formats import (
    AnsweredBy,
    ApiFormat,
    Beside,
    Conversation,
    FormatError,
    LogFormat,
    Record,
    formats,
    iter_messages,
    load,
    to_messages,
)
from jaato_gc_formats._log_format import Dialogue

REGISTRY = PluginRegistry()
read = partial(load, registry=REGISTRY)

TRANSCRIPTS = Path(
    os.environ.get("JAATO_GC_TRANSCRIPTS") or Path(__file__).parents[4] / "shared" / "transcripts"
)
needs_transcripts = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason="no transcripts: set JAATO_GC_TRANSCRIPTS to their folder"
)

TIME = "2026-01-01T00:00:00Z"
CLAUDE_CALL = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
CLAUDE_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}
CHAT = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": "Seen."}]
CHAT_URI = "https://x.example/v1/chat/completions"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def conversations(path: Path, *records: Any) -> list[Conversation]:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return read(path)


def models(path: Path, *records: Any) -> list[str | None]:
    return [conversation.model for conversation in conversations(path, *records)]


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words}]


def claude(
    kind: str, uuid: str, parent: str | None, content: Any, model: str | None = None, **fields: Any
) -> dict[str, Any]:
    message = {"role": kind, "content": content, **({"model": model} if model else {})}
    line = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", **fields}
    return {**line, "timestamp": TIME, "message": message}


def chat(message_id: str, kind: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"id": message_id, "timestamp": TIME, "type": kind, "content": content, **fields}


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": TIME, "type": kind, "payload": payload}


def codex_message(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": words}]
    return codex("response_item", type="message", role=role, content=content)


def pi(entry: str, parent: str | None, **message: Any) -> dict[str, Any]:
    line = {"type": "message", "id": entry, "parentId": parent, "timestamp": TIME}
    return {**line, "message": message}


def qwen(
    kind: str, uuid: str, parent: str | None, words: str, model: str | None = None
) -> dict[str, Any]:
    line = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind, "timestamp": TIME}
    return {**line, "model": model, "message": {"parts": [{"text": words}]}}


def openhands_call(number: int, model: str | None) -> list[dict[str, Any]]:
    """Returns an action and its observation."""
    called = {"id": f"c{number}", "function": {"name": "ls", "arguments": "{}"}}
    response = {"id": f"r{number}", "choices": [{"message": {"tool_calls": [called]}}]}
    metadata = {"tool_call_id": called["id"], "model_response": {**response, "model": model}}
    line = {"source": "agent", "tool_call_metadata": metadata}
    return [
        {**line, "id": number, "action": "run", "args": {"command": "ls"}},
        {**line, "id": number + 1, "observation": "run", "cause": number, "content": "a"},
    ]


OPENHANDS_REQUEST = {"id": 0, "source": "user", "action": "message", "args": {"content": "Look."}}
SWE_AGENT = {
    "trajectory": [{"action": "ls", "observation": "a"}],
    "history": CHAT,
    "info": {"model_stats": {"api_calls": 1}},
}
SWE_AGENT_CONFIG = {"agent": {"model": {"name": "gpt-4o", "temperature": 0.0}}}

# --- every format that names a model ---

LOGS: dict[str, tuple[list[Any], str]] = {
    "claude-code": (
        [
            claude("user", "1", None, "Look."),
            claude("assistant", "2", "1", [CLAUDE_CALL], "claude-opus-4-5-20251101"),
            claude("user", "3", "2", [CLAUDE_RESULT]),
            claude("assistant", "4", "3", text("Seen."), "claude-opus-4-5-20251101"),
        ],
        "claude-opus-4-5-20251101",
    ),
    "cline": (
        [
            {"role": "user", "content": text("Look."), "ts": 1},
            {"role": "assistant", "content": text("Seen."), "ts": 2,
             "modelInfo": {"id": "anthropic/claude-opus-4.8", "provider": "cline"}},
        ],
        "anthropic/claude-opus-4.8",
    ),
    "codex-rollout": (
        [
            codex("session_meta", id="s", instructions="Be brief.", model_provider="openai"),
            codex("turn_context", cwd="/", model="gpt-5"),
            codex_message("user", "Look."),
            codex_message("assistant", "Seen."),
        ],
        "gpt-5",
    ),
    "cursor": (
        [
            {"role": "user", "message": {"content": text("Look.")}},
            {"role": "assistant", "message": {"content": text("Seen.")}, "model": "gpt-5"},
        ],
        "gpt-5",
    ),
    "gemini-cli": (
        [
            {
                "sessionId": "s",
                "projectHash": "p",
                "messages": [
                    chat("1", "user", "Look."),
                    chat("2", "gemini", "Seen.", model="gemini-2.5-flash"),
                ],
            }
        ],
        "gemini-2.5-flash",
    ),
    "http-exchange": (
        [{"uri": CHAT_URI, "status": 200, "request": {"model": "gpt-4o", "messages": CHAT[:1]},
          "response": {"model": "gpt-4o-2024-08-06", "choices": []}}],
        "gpt-4o-2024-08-06",
    ),
    "inspect": (
        [
            {
                "eval": {"model": "openai/gpt-4o"},
                "samples": [{"id": 1, "messages": [
                    {"role": "user", "content": "Look."},
                    {"role": "assistant", "content": "Seen.", "model": "gpt-4o-2024-08-06"},
                ]}],
            }
        ],
        "gpt-4o-2024-08-06",
    ),
    "litellm": (
        [{"messages": CHAT[:1], "response": {"id": "r", "choices": [],
                                             "model": "litellm_proxy/claude-sonnet-4-20250514"}}],
        "litellm_proxy/claude-sonnet-4-20250514",
    ),
    "openhands": (
        [OPENHANDS_REQUEST, *openhands_call(1, "meta-llama/llama-4-maverick")],
        "meta-llama/llama-4-maverick",
    ),
    "pi": (
        [
            {"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/"},
            pi("1", None, role="user", content=text("Look.")),
            pi("2", "1", role="assistant", content=text("Seen."), model="claude-sonnet-4-5"),
        ],
        "claude-sonnet-4-5",
    ),
    "qwen-code": (
        [
            qwen("user", "1", None, "Look."),
            qwen("assistant", "2", "1", "Seen.", "qwen3-coder-plus"),
        ],
        "qwen3-coder-plus",
    ),
    "role-lines": (
        [
            {"timestamp": TIME, "role": "user", "content": "Look.", "model": "gpt-5"},
            {"timestamp": TIME, "type": "tool_call", "name": "ls"},
            {"timestamp": TIME, "type": "tool_result", "name": "ls", "result": "a"},
            {"timestamp": TIME, "role": "assistant", "content": "Seen."},
        ],
        "gpt-5",
    ),
    "swe-agent": ([{**SWE_AGENT, "replay_config": SWE_AGENT_CONFIG}], "gpt-4o"),
    "tau2": (
        [
            {
                "info": {"user_info": {"llm": "gpt-4.1"}, "agent_info": {"llm": "gpt-5"}},
                "simulations": [{"task_id": "1", "messages": CHAT}],
            },
        ],
        "gpt-5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_conversation_has_the_model_that_its_log_names(name: str, path: Path) -> None:
    records, expected = LOGS[name]
    [conversation] = conversations(path, *records)
    assert conversation.format == name
    assert conversation.model == expected


@pytest.mark.parametrize("name", LOGS)
def test_names_of_models_do_not_change_the_messages_that_are_streamed(
    name: str, path: Path
) -> None:
    [conversation] = conversations(path, *LOGS[name][0])
    streamed = iter_messages(path, registry=REGISTRY)
    assert [message.parts for message in streamed] == [
        message.parts for message in conversation.messages
    ]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("value", [None, "", 7, ["gpt-5"], {"id": "gpt-5"}], ids=repr)
def test_model_that_is_not_a_name_is_ignored(name: str, value: Any, path: Path) -> None:
    records, _expected = LOGS[name]
    names = ("model", "llm", "id", "name")
    models_in_log = json.loads(
        json.dumps(records),
        object_hook=lambda fields: {
            key: value if key in names and "-" in str(each) else each
            for key, each in fields.items()
        },
    )
    [conversation] = conversations(path, *models_in_log)
    assert conversation.format == name
    assert conversation.model is None


@pytest.mark.parametrize("name", LOGS)
def test_repair_keeps_the_model(name: str, path: Path) -> None:
    records, expected = LOGS[name]
    conversations(path, *records)
    [repaired] = read(path, repair=True)
    assert repaired.model == expected


def test_requests_to_an_api_have_the_model_that_they_name(path: Path) -> None:
    assert models(path, {"model": "gpt-4o", "messages": CHAT}) == ["gpt-4o"]
    assert models(path, {"model": 7, "messages": CHAT}) == [None]
    assert models(path, *CHAT) == [None]


# --- several models in one log ---


@given(st.lists(st.sampled_from("abc"), min_size=1))
def test_model_that_gave_most_answers_counts_and_of_several_the_last(
    tmp_path_factory: pytest.TempPathFactory, answers: list[str]
) -> None:
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    records = []
    for number, model in enumerate(answers):
        parent = f"a{number - 1}" if number else None
        records.append(claude("user", f"u{number}", parent, "Go on."))
        records.append(claude("assistant", f"a{number}", f"u{number}", text("Yes."), model))
    most = max(map(answers.count, answers))
    last = next(model for model in reversed(answers) if answers.count(model) == most)
    assert models(path, *records) == [last]


def test_answer_in_several_lines_counts_once(path: Path) -> None:
    def piece(uuid: str, parent: str, answer: str, model: str) -> dict[str, Any]:
        line = claude("assistant", uuid, parent, text("Yes."), model)
        return {**line, "message": {**line["message"], "id": answer}}

    assert models(
        path,
        claude("user", "1", None, "Look."),
        piece("2", "1", "m1", "a"),
        piece("3", "2", "m1", "a"),
        piece("4", "3", "m1", "a"),
        claude("user", "5", "4", "And?"),
        piece("6", "5", "m2", "b"),
        claude("user", "7", "6", "And?"),
        piece("8", "7", "m3", "b"),
    ) == ["b"]


def test_answers_that_claude_code_writes_itself_name_no_model(path: Path) -> None:
    asked = claude("user", "1", None, "Look.")
    own = claude("assistant", "2", "1", text("No response requested."), "<synthetic>")
    again = claude("user", "3", "2", "Look.")
    seen = claude("assistant", "4", "3", text("Seen."), "claude-sonnet-4-5")
    assert models(path, asked, own) == [None]
    assert models(path, asked, own, again, seen) == ["claude-sonnet-4-5"]


def test_each_claude_code_subagent_has_its_own_model(path: Path) -> None:
    assert models(
        path,
        claude("user", "1", None, "Delegate."),
        claude("assistant", "2", "1", [CLAUDE_CALL], "opus"),
        claude("user", "s1", None, "Search.", isSidechain=True, agentId="a"),
        claude("assistant", "s2", "s1", text("Found."), "haiku", isSidechain=True, agentId="a"),
        claude("user", "3", "2", [CLAUDE_RESULT]),
        claude("assistant", "4", "3", text("Done."), "opus"),
    ) == ["opus", "haiku"]


def test_answers_outside_the_active_branch_do_not_count(path: Path) -> None:
    assert models(
        path,
        claude("user", "1", None, "Look."),
        claude("assistant", "2", "1", text("Discarded."), "a"),
        claude("user", "3", "2", "Go on."),
        claude("assistant", "4", "3", text("Discarded."), "a"),
        claude("user", "5", None, "Look here."),
        claude("assistant", "6", "5", text("Seen."), "b"),
    ) == ["b"]


def test_codex_answers_have_the_model_of_their_turn(path: Path) -> None:
    assert models(
        path,
        codex("session_meta", id="s"),
        codex("turn_context", model="a"),
        codex_message("user", "Look."),
        codex_message("assistant", "Seen."),
        codex("turn_context", model="b"),
        codex("turn_context", cwd="/"),  # names no model: the previous one stays
        codex_message("user", "And?"),
        codex_message("assistant", "Nothing."),
        codex_message("user", "Sure?"),
        codex_message("assistant", "Yes."),
        codex("turn_context", model="c"),
    ) == ["b"]


def test_codex_window_after_a_compaction_keeps_the_model_of_its_turn(path: Path) -> None:
    kept = {"type": "message", "role": "user", "content": "In short."}
    assert models(
        path,
        codex("session_meta", id="s"),
        codex("turn_context", model="a"),
        codex_message("user", "Look."),
        codex_message("assistant", "Seen."),
        codex("compacted", message="", replacement_history=[kept]),
        codex_message("assistant", "Right."),
        codex("turn_context", model="b"),
        codex("compacted", message="", replacement_history=[kept]),
        codex_message("assistant", "Done."),
    ) == ["a", "a", "b"]


def test_gemini_cli_answers_that_a_compaction_repeats_count_once(path: Path) -> None:
    first = chat("2", "gemini", "Seen.", model="a")
    assert models(
        path,
        {"sessionId": "s", "projectHash": "p"},
        chat("1", "user", "Look."),
        first,
        {"$set": {"messages": [chat("3", "user", "In short."), first]}},
        chat("4", "user", "Go on."),
        chat("5", "gemini", "Right.", model="b"),
    ) == ["b"]


def test_role_lines_name_the_model_of_the_following_answers(path: Path) -> None:
    def line(role: str, **fields: Any) -> dict[str, Any]:
        return {"timestamp": TIME, "role": role, "content": "Yes.", **fields}

    assert models(
        path,
        line("user", model="a"),
        line("assistant"),
        line("user"),
        line("assistant"),
        line("user", model="b"),
        line("assistant"),
    ) == ["a"]


def test_calls_without_a_text_are_answers_and_parallel_ones_are_one(path: Path) -> None:
    asked = {"timestamp": TIME, "role": "user", "content": "Look."}
    call = {"timestamp": TIME, "type": "tool_call", "name": "ls"}
    result = {"timestamp": TIME, "type": "tool_result", "name": "ls", "result": "a"}
    parallel = [{**asked, "model": "a"}, call, call, call, result, result, result]
    one_by_one = [{**asked, "model": "b"}, call, result, call, result]
    assert models(path, *parallel) == ["a"]
    assert models(path, *one_by_one, *parallel) == ["b"]


def test_openhands_responses_without_a_model_have_the_one_of_the_configuration(path: Path) -> None:
    def run(*responses: str | None, config: str) -> dict[str, Any]:
        calls = (openhands_call(number * 2 + 1, each) for number, each in enumerate(responses))
        history = [OPENHANDS_REQUEST, *(event for call in calls for event in call)]
        return {"history": history, "metadata": {"llm_config": {"model": config}}}

    assert models(path, run(None, config="configured")) == ["configured"]
    assert models(path, run("a", "a", config="configured")) == ["a"]


def test_swe_agent_configuration_may_be_json_text(path: Path) -> None:
    config = json.dumps(SWE_AGENT_CONFIG)
    assert models(path, {**SWE_AGENT, "replay_config": config}) == ["gpt-4o"]
    assert models(path, {**SWE_AGENT, "replay_config": "{"}) == [None]
    assert models(path, {**SWE_AGENT, "replay_config": "[" * 100_000}) == [None]


def test_inspect_messages_without_a_model_have_the_one_of_the_eval(path: Path) -> None:
    def log(model: str) -> dict[str, Any]:
        return {"eval": {"model": model}, "samples": [{"id": 1, "messages": CHAT}]}

    assert models(path, log("openai/gpt-4o")) == ["openai/gpt-4o"]
    assert models(path, log("none/none")) == [None]


def test_older_cline_conversations_have_a_model(path: Path) -> None:
    info = {"modelId": "claude-sonnet-4-5", "providerId": "anthropic", "mode": "act"}
    asked = {"role": "user", "content": text("Look."), "ts": 1}
    said = {"role": "assistant", "content": text("Seen."), "ts": 2, "modelInfo": info}
    assert models(path, asked, said) == ["claude-sonnet-4-5"]


def test_litellm_response_names_the_model_rather_than_the_request(path: Path) -> None:
    response = {"id": "r", "choices": []}
    requested: dict[str, Any] = {"messages": CHAT[:1], "model": "deployment", "response": response}
    answered = {**requested, "response": {**response, "model": "gpt-4o"}}
    assert models(path, requested, answered) == ["deployment", "gpt-4o"]


GEMINI_URI = "https://x.example/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
STREAM = 'data: {"modelVersion": "gemini-2.5-pro-preview-05-06"}\n\n'


@pytest.mark.parametrize(
    ("uri", "request_fields", "response", "expected"),
    [
        (CHAT_URI, {"model": "gpt-4o"}, {}, "gpt-4o"),
        (CHAT_URI, {"model": "gpt-4o"}, {"error": {"model": "x"}}, "gpt-4o"),
        (CHAT_URI, {}, {"string": 'data: {"model": "gpt-4o"}\n'}, "gpt-4o"),
        (CHAT_URI, {}, {}, None),
        (GEMINI_URI, {}, {}, "gemini-2.5-pro"),
        (GEMINI_URI, {}, {"string": STREAM}, "gemini-2.5-pro-preview-05-06"),
    ],
)
def test_http_exchanges_name_the_model_in_response_request_or_address(
    uri: str, request_fields: dict[str, Any], response: Any, expected: str | None, path: Path
) -> None:
    is_gemini = uri == GEMINI_URI
    items = [{"role": "user", "parts": [{"text": "Look."}]}] if is_gemini else CHAT[:1]
    body: dict[str, Any] = {**request_fields, "contents" if is_gemini else "messages": items}
    assert models(path, {"uri": uri, "request": body, "response": response}) == [expected]


# --- formats of plugins ---


class Talk(LogFormat):
    """A format that names the model before the system prompt."""

    name = "talk"
    summary = "Talk"

    def recognize(self, records: Sequence[Any]) -> float:
        return float(bool(records))

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        for _line, items in records:
            yield "", iter([AnsweredBy("m"), Beside({"system": "Be brief."}), *items])


def test_system_prompt_after_the_name_of_the_model_is_read_and_streamed() -> None:
    api = formats(REGISTRY)["anthropic"]
    assert isinstance(api, ApiFormat)
    talk, records = Talk(api), [Record(1, CHAT)]
    [conversation] = talk.conversations(records)
    streamed = [message.parts for message in talk.messages(records)]
    assert conversation.model == "m"
    assert len(streamed) == 3
    assert streamed == [message.parts for message in conversation.messages]


# --- conversations that are split ---


def test_segments_have_the_model_of_the_conversation() -> None:
    history = to_messages([*CHAT, *CHAT], registry=REGISTRY)
    whole = Conversation("talk", "x", history, compactions=[2], model="a")
    assert [each.model for each in whole.segments()] == ["a", "a"]


# --- real logs ---

FORMATS_WITHOUT_MODELS = {"antigravity", "tau-bench"}


@needs_transcripts
def test_real_logs_that_name_a_model_are_read_with_it() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(TRANSCRIPTS.rglob("*.*")):
        try:
            runs = read(path) if path.is_file() else []
        except FormatError:  # not every file contains a conversation
            continue
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            log = file.read()
        for run in runs:
            assert run.model is None or run.model in log, path
            found.setdefault(run.format, set()).update(filter(None, [run.model]))
    assert found.keys() & FORMATS_WITHOUT_MODELS == FORMATS_WITHOUT_MODELS
    assert {name for name in LOGS if name in found and not found[name]} == set()
    assert not any("<" in model for models in found.values() for model in models)
