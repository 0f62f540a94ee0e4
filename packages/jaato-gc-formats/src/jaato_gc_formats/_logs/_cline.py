"""Cline's conversations: ``api_conversation_history.json``, and the sessions of newer versions.

Both contain Anthropic's messages with additional fields.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc_formats._log_format import Beside, Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    answered_by,
    fields_among,
    fields_in,
    list_in,
    moment_of,
    objects,
    resemblance,
    text_in,
    usage_of,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields, compact_json, without

SENT = ("inputTokens",)
MIN_SCORE = 0.96
"""Confidence in messages with Cline's fields. It must exceed that of the Anthropic format."""
NOT_SENT = ("ts", "name", "call_id", "reasoning_details", "summary")
"""Fields that Cline adds to blocks. Calls have a ``name`` of their own, which is sent."""


class Cline(LogFormat):
    """A conversation in the format of Anthropic's API."""

    name = "cline"
    summary = "Cline conversation (JSON)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=_is_message, least=MIN_SCORE)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        bare = False
        for line, record in objects(records):
            if "messages" in record:
                yield text_in(record.get("sessionId")), _session(line, record)
            else:
                bare = True
        if bare:
            yield "", (each for line, record in objects(records) for each in _items(line, record))


def _is_own(record: Fields) -> bool:
    if "messages" in record:
        messages = fields_among(record["messages"])
        return "sessionId" in record and any(map(_is_message, messages))
    return _is_message(record)


def _is_message(record: Fields) -> bool:
    return (
        record.get("role") in ("user", "assistant")
        and isinstance(record.get("content"), list)
        and "ts" in record
    )


def _session(line: int, record: Fields) -> Dialogue:
    if system := text_in(record.get("system_prompt")):
        yield Beside({"system": system})
    for message in fields_among(record["messages"]):
        yield from _items(line, message)


def _items(line: int, message: Fields) -> Dialogue:
    content = [_block(block) for block in list_in(message.get("content"))]
    if message.get("role") not in ("user", "assistant") or not content:
        return
    if message["role"] == "assistant":
        yield from usage_of(message.get("metrics"), SENT, ("outputTokens",))
        yield from moment_of(message.get("ts"))
        info = fields_in(message.get("modelInfo"))
        yield from answered_by(info.get("id"), info.get("modelId"))
    yield Record(line, {"role": message["role"], "content": content})


def _block(block: Any) -> Any:
    fields = fields_in(block)
    match fields.get("type"):
        case "file":
            path, content = text_in(fields.get("path")), text_in(fields.get("content"))
            return {"type": "text", "text": f'<file path="{path}">\n{content}\n</file>'}
        case "tool_use":
            return without(fields, *(name for name in NOT_SENT if name != "name"))
        case "tool_result":
            return {**without(fields, *NOT_SENT), "content": _result(fields.get("content"))}
        case "text" | "thinking" | "image":
            return without(fields, *NOT_SENT)
    return block


def _result(content: Any) -> Any:
    """Returns the content of a result. Content that is not made of blocks becomes JSON text."""
    if isinstance(content, str | None):
        return content
    if all(isinstance(block, dict) and "type" in block for block in list_in(content)):
        return content
    return compact_json(content)
