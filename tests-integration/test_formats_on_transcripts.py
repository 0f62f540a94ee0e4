"""Every recorded transcript is read, is written unchanged, and agrees with its description.

The transcripts are not part of this repository. They are read from the folder that the environment
variable JAATO_GC_TRANSCRIPTS names, or from ``shared/transcripts`` beside the repository.
"""

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import Message, PluginRegistry
from jaato_gc_formats import (
    ApiFormat,
    Conversation,
    FormatError,
    check_request,
    formats,
    from_messages,
    iter_messages,
    load,
    to_messages,
)

REGISTRY = PluginRegistry()

NO_CONVERSATION = {
    "manifest.json": "about the transcripts",
    "edge/api_errors.json": "a collection of error messages",
    "claude-code/obra-episodic-memory/medium-conversation.jsonl": "snapshots of files only",
    "edge/agent-sessions/codex_050_legacy.jsonl": "events only",
    "edge/agent-sessions/codex_051_usage.jsonl": "events only",
    "edge/agent-sessions/codex_052_raw.jsonl": "events only",
    "edge/agent-sessions/codex_053_rate_limit.jsonl": "events only",
    "edge/agent-sessions/qwen/system_telemetry.jsonl": "telemetry; ids and texts are cut out",
    "edge/agent-sessions/opencode/": "a session is a folder of parts, and can't be read",
    ".meta.json": "about a subagent",
    "TestGoogle.test_embed_error.exchange.json": "a request for embeddings",
    "TestOpenAI.test_embed_error.exchange.json": "a request for embeddings",
    "TestOpenAI.test_embed_error.request.json": "a request for embeddings",
    "test_anthropic_bedrock_count_tokens_error.exchange.json": "refused",
    "test_anthropic_count_tokens_error.exchange.json": "refused",
    "test_anthropic_explicit_effort_xhigh_unsupported_model_errors.exchange.json": "refused",
    "test_bedrock_streaming_error.exchange.json": "refused",
    "test_openai_responses_model_http_error.exchange.json": "refused",
    "test_openrouter_errors_raised.exchange.json": "refused",
    "test_deepseek_responses_rejects_interleaved_function_calls.exchange.json": "refused",
}
"""Files without a conversation, by path or part of a path, and the reason."""

OTHER_VALIDITY = {
    "test_deepseek_responses_rejects_interleaved_function_calls.request.json": (
        "DeepSeek refused it, as the rules say; the manifest knows nothing of DeepSeek"
    ),
    "edge/agent-sessions/claude/large.jsonl": "redacted: calls without ids, thoughts unsigned",
    "edge/agent-sessions/claude/small.jsonl": "redacted: calls without ids, thoughts unsigned",
    "swe-agent/7__function_calling": "ids of calls repeat, which the API takes one after the other",
    "tau-bench/gpt-4o-airline": "ids of calls repeat, which the API takes one after the other",
}
"""Where a provider's rules and the manifest's ``valid`` differ, and why."""

OTHER_CALLS = {
    "openhands-events/": "the manifest does not count thinking as a call, which it was",
    "test_live_tool_search_handoff_anthropic_openai_anthropic.request.json": "one is the server's",
    "test_openai_native_tool_search_with_deferred_capability.request.json": "one is the server's",
    "edge/agent-sessions/claude/small.jsonl": "a subagent's call is in the file too",
}
"""Where other calls are counted than the manifest counts, and why."""

ONE_MESSAGE_PER_RECORD = ("openai-chat", "swe-agent", "tau-bench", "tau2", "inspect", "litellm")
"""Formats whose messages are counted as the manifest counts them.

In the others, messages are put together as they were sent (lines of one answer, results of parallel
calls, items of one response), or taken apart (results that are noted in their calls).
"""


def folder() -> Path:
    beside = Path(__file__).parents[2] / "shared" / "transcripts"
    return Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or beside)


def found() -> list[str]:
    if not folder().is_dir():
        return []
    paths = (path for path in folder().rglob("*") if path.is_file())
    return sorted(path.relative_to(folder()).as_posix() for path in paths)


@cache
def manifest() -> dict[str, dict[str, Any]]:
    files = json.loads((folder() / "manifest.json").read_text())["files"]
    return {entry["path"]: entry for entry in files}


def reason(table: dict[str, str], path: str) -> str | None:
    return next((why for part, why in table.items() if part in path), None)


FILES = found()
SPOKEN = [path for path in FILES if reason(NO_CONVERSATION, path) is None]


def known(figure: str) -> list[str]:
    """Returns the files for which the manifest has a figure."""
    entries = manifest() if FILES else {}
    return [path for path in SPOKEN if entries.get(path, {}).get(figure) is not None]


pytestmark = pytest.mark.skipif(not FILES, reason=f"no transcripts in {folder()}")


@cache
def conversations(path: str, *, repair: bool = False) -> list[Conversation]:
    return load(folder() / path, repair=repair, registry=REGISTRY)


def data(conversation: Conversation) -> Any:
    return from_messages(conversation.messages, registry=REGISTRY)


def without_origin(message: Message) -> tuple[Any, ...]:
    return message.role, message.parts, message.extra


def unpaired(messages: list[Message]) -> tuple[int, int]:
    """Returns the number of calls without a result, and of results without an earlier call."""
    waiting: list[tuple[str | None, str]] = []
    orphans = 0
    for message in messages:
        for part in message.parts:
            if call := part.function_call:
                waiting.append((call.id, "" if call.id else call.name))
            elif answer := part.function_response:
                key = (answer.call_id, "" if answer.call_id else answer.name)
                if key in waiting:
                    waiting.remove(key)
                else:
                    orphans += 1
    return len(waiting), orphans


def test_every_file_has_a_conversation_or_a_reason_why_not() -> None:
    assert set(manifest()) <= set(FILES)
    assert all(any(part in path for path in FILES) for part in NO_CONVERSATION)
    for table in (OTHER_VALIDITY, OTHER_CALLS):
        assert all(any(part in path for path in SPOKEN) for part in table)


@pytest.mark.parametrize("path", [path for path in FILES if path not in SPOKEN])
def test_a_file_without_a_conversation_raises_format_error(path: str) -> None:
    with pytest.raises(FormatError, match="no conversation found"):
        conversations(path)


@pytest.mark.parametrize("path", SPOKEN)
def test_conversations_are_written_unchanged(path: str) -> None:
    for conversation in conversations(path):
        history = conversation.messages
        written = data(conversation)
        again = to_messages(written, history.format, registry=REGISTRY)
        assert list(map(without_origin, again)) == list(map(without_origin, history))
        if conversation.problems:
            continue  # writing it without origins would repair it
        without_origins = [replace(message, origin=None) for message in history]
        rewritten = from_messages(without_origins, history.format, like=history, registry=REGISTRY)
        assert rewritten == written


@pytest.mark.parametrize("path", [path for path in SPOKEN if path.endswith(".request.json")])
def test_requests_of_an_api_are_written_unchanged(path: str) -> None:
    [conversation] = conversations(path)
    assert isinstance(formats(REGISTRY)[conversation.format], ApiFormat)
    assert data(conversation) == json.loads((folder() / path).read_text())


@pytest.mark.parametrize("path", known("messages"))
def test_messages_and_calls_are_those_of_the_manifest(path: str) -> None:
    figures = manifest()[path]
    histories = [conversation.messages for conversation in conversations(path)]
    if len(histories) != figures["transcripts"]:
        assert "edge/" in path  # subagents, and windows of a session
    calls = sum(len(message.function_calls) for history in histories for message in history)
    if reason(OTHER_CALLS, path) is None:
        assert calls == figures["tool_calls"]
    else:
        assert calls != figures["tool_calls"]
    if conversations(path)[0].format in ONE_MESSAGE_PER_RECORD:
        assert sum(map(len, histories)) == figures["messages"]


@pytest.mark.parametrize("path", known("valid"))
def test_validity_is_that_of_the_manifest(path: str) -> None:
    figures = manifest()[path]
    problems = [problem for each in conversations(path) for problem in each.problems]
    agrees = (not problems) == figures["valid"]
    assert agrees is (reason(OTHER_VALIDITY, path) is None), problems


@pytest.mark.parametrize("path", [path for path in known("dangling") if "edge/" not in path])
def test_calls_without_results_are_those_of_the_manifest(path: str) -> None:
    figures = manifest()[path]
    waiting, orphans = 0, 0
    for conversation in conversations(path):
        unanswered, unasked = unpaired(conversation.messages)
        waiting += unanswered
        orphans += unasked
    assert (waiting, orphans) == (figures["dangling"], figures["orphans"])


@pytest.mark.parametrize("path", SPOKEN)
def test_repaired_conversations_can_be_sent(path: str) -> None:
    for conversation in conversations(path, repair=True):
        format = conversation.messages.format
        assert conversation.problems == []
        assert check_request(data(conversation), format, registry=REGISTRY) == []


@pytest.mark.parametrize("path", SPOKEN)
def test_iter_messages_returns_the_same_messages_as_load(path: str) -> None:
    loaded = [message for each in conversations(path) for message in each.messages]
    streamed = list(iter_messages(folder() / path, registry=REGISTRY))
    assert list(map(without_origin, streamed)) == list(map(without_origin, loaded))


@pytest.mark.parametrize("path", SPOKEN)
def test_usage_belongs_to_a_request(path: str) -> None:
    for conversation in conversations(path):
        positions = [usage.position for usage in conversation.usage]
        assert positions == sorted(positions)
        assert all(0 <= position <= len(conversation.messages) for position in positions)
        assert all(usage.input_tokens > 0 for usage in conversation.usage)


@pytest.mark.parametrize("path", [path for path in SPOKEN if path.endswith(".exchange.json")])
def test_an_exchange_has_the_messages_of_its_request_file(path: str) -> None:
    beside = path.replace(".exchange.", ".request.")
    request = json.loads((folder() / beside).read_text())
    assert request in [data(conversation) for conversation in conversations(path)]
