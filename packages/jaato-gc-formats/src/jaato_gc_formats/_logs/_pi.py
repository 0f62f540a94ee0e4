"""Sessions of the pi coding agent: lines of messages, since version 3 in a tree."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jaato_gc_formats._log_format import Compaction, Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    Node,
    active_branch,
    answered_by,
    blocks_of,
    fields_among,
    fields_in,
    moment_of,
    objects,
    resemblance,
    text_in,
    usage_of,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields

KINDS = (
    "session", "message", "compaction", "branch_summary", "custom_message", "custom", "label",
    "model_change", "thinking_level_change",
)  # fmt: skip
ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom")
SENT = ("input", "cacheRead", "cacheWrite")
MESSAGE_KINDS = ("message", "custom_message", "branch_summary")


class Pi(LogFormat):
    """The active branch of a session, in the format of Anthropic's API.

    After a compaction the model saw the summary and the last messages, so the summary is inserted
    before those.
    """

    name = "pi"
    summary = "pi coding agent session (JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=_is_like)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        name = ""
        nodes: list[Node] = []
        summaries: dict[str, list[_Summary]] = {}
        for number, (line, record) in enumerate(objects(records)):
            if record.get("type") == "session":
                name = name or text_in(record.get("id"))
                continue
            previous = nodes[-1].id if nodes else None
            parent = record.get("parentId", previous)
            parent = None if parent is None else str(parent)
            is_message = record.get("type") in MESSAGE_KINDS
            nodes.append(
                Node(number, line, str(record.get("id", f"#{number}")), parent, is_message)
            )
            if record.get("type") == "compaction":
                first_kept = str(record.get("firstKeptEntryId"))
                summary = _Summary(number, line, text_in(record.get("summary")))
                summaries.setdefault(first_kept, []).append(summary)
        if nodes:
            yield name, _dialogue(nodes, summaries, records)


class _Summary(NamedTuple):
    """The summary of a compaction, with the number and the line of its record."""

    number: int
    line: int
    text: str


def _is_own(record: Fields) -> bool:
    kind = record.get("type")
    if kind == "session":
        return "cwd" in record
    if kind == "message":
        message = fields_in(record.get("message"))
        return message.get("role") in ROLES and "content" in message and "timestamp" in record
    return kind in KINDS and "timestamp" in record and ("parentId" in record or "cwd" in record)


def _is_like(record: Fields) -> bool:
    return (
        isinstance(record.get("type"), str)
        and "timestamp" in record
        and ("id" in record or record["type"] in KINDS)
    )


def _dialogue(
    nodes: list[Node], summaries: dict[str, list[_Summary]], records: Iterable[Record]
) -> Dialogue:
    branch, problems = active_branch(nodes)
    yield from problems
    ids = {node.number: node.id for node in nodes if node.number in branch}
    results: list[Any] = []
    first_result = 0
    compaction = -1  # number of the record of the last compaction
    for number, (line, record) in enumerate(objects(records)):
        if number not in branch:
            continue
        message = _message(record)
        if results and message.get("role") != "toolResult":
            yield Record(first_result, {"role": "user", "content": results})
            results = []
        for summary in summaries.get(ids[number], ()):
            yield Compaction()
            yield Record(summary.line, {"role": "user", "content": summary.text})
            compaction = max(compaction, summary.number)
        if message.get("role") == "toolResult":
            first_result = first_result if results else line
            results.append(_result(message))
        elif message.get("role") == "assistant":
            if content := [_block(block) for block in fields_among(message.get("content"))]:
                if number > compaction:  # else it is the usage of a request without the summary
                    yield from usage_of(message.get("usage"), SENT, ("output",))
                yield from moment_of(record.get("timestamp"), message.get("timestamp"))
                yield from answered_by(message.get("model"))
                yield Record(line, {"role": "assistant", "content": content})
        elif content := blocks_of(message.get("content")):
            yield Record(line, {"role": "user", "content": [_block(each) for each in content]})
    if results:
        yield Record(first_result, {"role": "user", "content": results})


def _message(record: Fields) -> Fields:
    kind = record.get("type")
    if kind == "message":
        message = fields_in(record.get("message"))
        if message.get("role") == "bashExecution":
            said = f"{text_in(message.get('command'))}\n{text_in(message.get('output'))}"
            return {"role": "user", "content": said}
        return message
    if kind == "custom_message":
        return {"role": "user", "content": record.get("content")}
    if kind == "branch_summary":
        return {"role": "user", "content": record.get("summary")}
    return {}


def _result(message: Fields) -> Fields:
    result = {
        "type": "tool_result",
        "tool_use_id": message.get("toolCallId"),
        "content": [_block(block) for block in blocks_of(message.get("content"))],
    }
    return {**result, "is_error": True} if message.get("isError") else result


def _block(block: Any) -> Any:
    """Converts a block to the format of Anthropic's API."""
    fields = fields_in(block)
    match fields.get("type"):
        case "text":
            return {"type": "text", "text": fields.get("text")}
        case "toolCall":
            call = {"id": fields.get("id"), "name": fields.get("name")}
            return {"type": "tool_use", **call, "input": fields_in(fields.get("arguments"))}
        case "thinking":
            thought = {"type": "thinking", "thinking": text_in(fields.get("thinking"))}
            signature = fields.get("thinkingSignature")
            return {**thought, "signature": signature} if signature else thought
        case "image":
            source = {"media_type": fields.get("mimeType"), "data": fields.get("data")}
            return {"type": "image", "source": {"type": "base64", **source}}
    return block
