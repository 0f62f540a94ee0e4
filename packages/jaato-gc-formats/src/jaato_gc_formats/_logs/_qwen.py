"""Qwen Code's session logs: a tree of lines like Claude Code's, with Gemini's messages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jaato_gc_formats._history import Usage
from jaato_gc_formats._log_format import Compaction, Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    Node,
    active_branch,
    answered_by,
    fields_among,
    fields_in,
    moment_of,
    number_in,
    objects,
    resemblance,
    text_in,
    usage_of,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields

SENT = ("promptTokenCount", "toolUsePromptTokenCount")
RECEIVED = ("candidatesTokenCount", "thoughtsTokenCount")
ROLES = {"user": "user", "assistant": "model", "tool_result": "user"}


class Qwen(LogFormat):
    """The active branch of a session."""

    name = "qwen-code"
    summary = "Qwen Code session (JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=_is_node)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        nodes: list[Node] = []
        names: list[str] = []
        last_pieces: dict[str, int] = {}
        for number, (line, record) in enumerate(objects(records)):
            if not _is_node(record):
                continue
            parent = record.get("parentUuid")
            parent = None if parent is None else str(parent)
            node = Node(number, line, str(record["uuid"]), parent, bool(_parts(record)))
            if node.id not in last_pieces:  # a response may have several lines
                nodes.append(node)
                names.append(text_in(record.get("sessionId")))
            last_pieces[node.id] = number
        if nodes:
            yield names[0], _dialogue(nodes, last_pieces, records)


def _is_own(record: Fields) -> bool:
    return _is_node(record) and (
        "parts" in fields_in(record.get("message")) or "systemPayload" in record
    )


def _is_node(record: Fields) -> bool:
    return "uuid" in record and "sessionId" in record and isinstance(record.get("type"), str)


def _parts(record: Fields) -> list[Any]:
    if record.get("type") not in ROLES:
        return []
    return fields_among(fields_in(record.get("message")).get("parts"))


def _dialogue(
    nodes: list[Node], last_pieces: dict[str, int], records: Iterable[Record]
) -> Dialogue:
    branch, problems = active_branch(nodes)
    yield from problems
    chosen = {node.id for node in nodes if node.number in branch}
    pieces: list[Any] = []
    time: Any = None
    for number, (line, record) in enumerate(objects(records)):
        node_id = str(record.get("uuid"))
        if node_id not in chosen or not _is_node(record):
            continue
        payload = fields_in(record.get("systemPayload"))
        if compressed := fields_among(payload.get("compressedHistory")):
            yield Compaction()
            yield from (Record(line, content) for content in compressed)
        if not pieces:
            time = record.get("timestamp")
        pieces += _parts(record)
        if not pieces or number < last_pieces[node_id]:
            continue
        yield from _usage(fields_in(record.get("usageMetadata")))
        role = ROLES.get(record["type"], "user")
        if role == "model":
            yield from moment_of(time)
            yield from answered_by(record.get("model"))
        yield Record(line, {"role": role, "parts": pieces})
        pieces = []


def _usage(reported: Fields) -> Iterator[Usage]:
    """Yields the usage of a response.

    With the models of some providers, the thoughts are also counted as candidates, so that the
    total is needed to find the tokens of the response.
    """
    for usage in usage_of(reported, SENT, RECEIVED):
        received = number_in(reported.get("totalTokenCount")) - usage.input_tokens
        yield replace(usage, output_tokens=received) if received > 0 else usage
