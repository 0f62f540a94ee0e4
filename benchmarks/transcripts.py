"""Recorded agent runs, read into messages for the benchmarks.

The recordings are not part of this repository. They are read where they lie: in the folder that
the environment variable JAATO_GC_TRANSCRIPTS names, or beside the repository.
"""

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaato_gc import FunctionCall, InlineData, Message, Part, Role, ToolResult, repair_history

Raw = dict[str, Any]

SOURCES = ("claude-code", "pi", "openhands", "codex", "service", "other")
"""Who was recorded; "service" are dialogues with customers, all others write code."""

ROLES = {
    "assistant": Role.MODEL, "model": Role.MODEL,
    "system": Role.SYSTEM, "developer": Role.SYSTEM,
    "tool": Role.TOOL, "toolResult": Role.TOOL,
}  # fmt: skip
IMAGES = ("image", "image_url", "input_image", "document")
OPENHANDS_WORDS = ("message", "system", "finish", "think")
OPENHANDS_NOISE = ("recall", "change_agent_state", "agent_state_changed", "null")


@dataclass
class Transcript:
    """A recorded run, mended where calls have no results or results stand elsewhere."""

    name: str
    source: str
    messages: list[Message]


def folder() -> Path:
    """Where the recordings should be."""
    beside = Path(__file__).parents[2] / "shared" / "transcripts"
    return Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or beside)


def read_transcripts() -> Iterator[Transcript]:
    """Every run that the readers below understand."""
    for path in sorted(folder().rglob("*")):
        if not path.is_file() or "edge" in path.parts or path.name == "manifest.json":
            continue
        for number, (source, dialogue) in enumerate(_dialogues(path)):
            messages = _from_the_first_request(map(_read, dialogue))
            if any(message.role is Role.MODEL for message in messages):
                name = f"{path.name.partition('.')[0]}#{number}"
                yield Transcript(name, source, repair_history(messages))


def _from_the_first_request(messages: Iterable[Message]) -> list[Message]:
    """Without empty messages, and without a greeting before anybody spoke."""
    kept: list[Message] = []
    has_begun = False
    for message in messages:
        has_begun = has_begun or (message.opens_turn and not message.is_empty)
        if not message.is_empty and (has_begun or message.role is Role.SYSTEM):
            kept.append(message)
    return kept


# --- files: who was recorded, and the messages ---


def _dialogues(path: Path) -> Iterator[tuple[str, list[Raw]]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")
    try:
        content = json.loads(text)
    except ValueError:
        yield from _from_lines(list(_lines(text)))
        return
    if isinstance(content, list):  # tau-bench
        yield from (("service", run["traj"]) for run in content if "traj" in run)
    elif not isinstance(content, dict):
        return
    elif "simulations" in content:  # tau2
        yield from (("service", run["messages"]) for run in content["simulations"])
    elif "samples" in content:  # Inspect
        yield from (("other", run["messages"]) for run in content["samples"])
    elif "contents" in content:  # Gemini
        system = content.get("systemInstruction")
        first = [system | {"role": "system"}] if system else []
        yield "other", [*first, *content["contents"]]
    elif "instance_id" in content and "history" in content:
        yield "openhands", list(_openhands(content["history"]))
    else:  # OpenAI, Anthropic and SWE-agent
        messages = content.get("messages") or content.get("history") or []
        system = content.get("system") or content.get("system_prompt")
        first = [{"role": "system", "content": system}] if system else []
        if messages and all("role" in message for message in messages):
            yield ("openhands" if "openhands" in str(path) else "other"), [*first, *messages]


def _lines(text: str) -> Iterator[Raw]:
    for line in text.splitlines():
        try:
            content = json.loads(line)
        except ValueError:
            continue
        if isinstance(content, dict):
            yield content


def _from_lines(lines: list[Raw]) -> Iterator[tuple[str, list[Raw]]]:
    kinds = {line.get("type") for line in lines}
    if "response_item" in kinds:
        items = (line["payload"] for line in lines if line.get("type") == "response_item")
        yield "codex", list(_responses(items))
    elif any("history" in line for line in lines):
        yield from (
            ("openhands", list(_openhands(line["history"]))) for line in lines if "history" in line
        )
    else:
        yield ("pi" if "session" in kinds else "claude-code"), _session(lines)


def _session(lines: Iterable[Raw]) -> list[Raw]:
    """The messages of Claude Code and pi, one of which may be spread over several lines."""
    messages: list[Raw] = []
    by_id: dict[str, Raw] = {}
    seen: set[str] = set()
    for line in lines:
        message, uuid = line.get("message"), line.get("uuid", "")
        if not isinstance(message, dict) or "role" not in message or line.get("isSidechain"):
            continue
        if uuid in seen:
            continue
        if uuid:
            seen.add(uuid)
        if whole := by_id.get(message.get("id", "")):
            whole["content"] = [*_blocks(whole["content"]), *_blocks(message["content"])]
            continue
        messages.append(message)
        if "id" in message:
            by_id[message["id"]] = message
    return messages


def _openhands(history: list[Any]) -> Iterator[Raw]:
    """The events of OpenHands, or the pairs of them that it used to write, as chat messages."""
    if history and isinstance(history[0], list):
        history = [event for pair in history for event in pair]
    called: set[Any] = set()
    for event in history:
        kind, args = event.get("action"), event.get("args") or {}
        if kind in OPENHANDS_NOISE or event.get("observation") in OPENHANDS_NOISE:
            continue
        if kind in OPENHANDS_WORDS:
            speaker = "assistant" if event.get("source") == "agent" else "user"
            words = args.get("content") or args.get("thought")
            yield {"role": "system" if kind == "system" else speaker, "content": words}
        elif kind:
            called.add(event.get("id"))
            given = {key: value for key, value in args.items() if key != "thought" and value}
            call = {"id": str(event.get("id")), "name": kind, "arguments": given}
            yield {"role": "assistant", "content": args.get("thought"), "tool_calls": [call]}
        elif event.get("cause") in called:
            answer = {"role": "tool", "tool_call_id": str(event["cause"])}
            yield answer | {"name": event.get("observation"), "content": event.get("content")}
        else:
            yield {"role": "user", "content": event.get("content")}


def _responses(items: Iterable[Raw]) -> Iterator[Raw]:
    """The items of OpenAI's Responses API as chat messages."""
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            yield item
        elif kind == "reasoning":
            thought = "\n".join(each.get("text", "") for each in item.get("summary") or [])
            yield {"role": "assistant", "content": [{"type": "thinking", "thinking": thought}]}
        elif kind.endswith("_call"):
            given = item.get("arguments", item.get("input", item.get("action", {})))
            call = {"id": item.get("call_id"), "name": item.get("name", kind), "arguments": given}
            yield {"role": "assistant", "tool_calls": [call]}
        elif kind.endswith("_output"):
            yield {
                "role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")
            }  # fmt: skip


# --- messages ---


def _read(raw: Raw) -> Message:
    """A message of any of these formats."""
    role = ROLES.get(raw.get("role", "user"), Role.USER)
    content = raw.get("content", raw.get("parts"))
    if role is Role.TOOL:
        ids = [raw.get(key) for key in ("tool_call_id", "toolCallId", "id")]
        call_id = next(filter(None, [*ids, *raw.get("tool_call_ids", [])]), None)
        name = raw.get("name") or raw.get("toolName") or ""
        failed = bool(raw.get("isError") or raw.get("error"))
        return Message(role, _result(call_id, name, content, failed))
    parts = [part for block in _blocks(content) for part in _read_block(block)]
    for call in raw.get("tool_calls") or []:
        function = call.get("function", call)
        if isinstance(function, str):
            function = call | {"name": function}
        parts.append(_call(call.get("id"), function["name"], function.get("arguments", {})))
    return Message(role, parts)


def _blocks(content: Any) -> list[Raw]:
    content = [] if content is None else content if isinstance(content, list) else [content]
    return [each if isinstance(each, dict) else {"text": str(each)} for each in content]


def _read_block(block: Raw) -> list[Part]:
    kind = block.get("type", "text")
    if kind in ("tool_use", "toolCall"):
        arguments = block.get("input", block.get("arguments", {}))
        return [_call(block["id"], block["name"], arguments)]
    if kind == "tool_result":
        failed = bool(block.get("is_error"))
        return _result(block["tool_use_id"], block.get("name", ""), block.get("content"), failed)
    if kind in ("thinking", "redacted_thinking"):
        thought, signature = block.get("thinking") or "", block.get("signature")
        return [Part(thought=thought, extra={"signature": signature} if signature else None)]
    if kind in IMAGES or "inlineData" in block or "fileData" in block:
        return [Part(inline_data=InlineData("image/png"))]
    if call := block.get("functionCall"):
        return [_call(call.get("id"), call["name"], call.get("args", {}))]
    if answer := block.get("functionResponse"):
        return _result(answer.get("id"), answer["name"], json.dumps(answer.get("response")))
    return [Part(text=block["text"] if "text" in block else json.dumps(block))]


def _call(call_id: str | None, name: str, arguments: Any) -> Part:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {"arguments": arguments}
    if not isinstance(arguments, dict):
        arguments = {"arguments": arguments}
    return Part(function_call=FunctionCall(call_id, name, arguments))


def _result(call_id: str | None, name: str, content: Any, failed: bool = False) -> list[Part]:
    """A tool's result; images in it stand beside it, so that they are not counted as text."""
    parts = [part for block in _blocks(content) for part in _read_block(block)]
    text = "\n".join(part.text for part in parts if part.text)
    answer = Part(function_response=ToolResult(call_id, name, text, failed))
    return [answer, *(part for part in parts if part.inline_data)]
