"""Cursor's agent transcripts: roles and Anthropic's blocks, often without call ids."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc_formats._log_format import Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    answered_by,
    blocks_of,
    fields_in,
    objects,
    resemblance,
    text_in,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields

SPEAKERS = ("user", "assistant")


class Cursor(LogFormat):
    """A transcript. Calls without an id are numbered."""

    name = "cursor"
    summary = "Cursor agent transcript (JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=lambda record: "type" in record)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        yield "", _dialogue(records)


def _is_own(record: Fields) -> bool:
    return record.get("role") in SPEAKERS and "content" in fields_in(record.get("message"))


def _dialogue(records: Iterable[Record]) -> Dialogue:
    calls = _Calls()
    for line, record in objects(records):
        if not _is_own(record):
            continue
        content = blocks_of(record["message"]["content"])
        if blocks := [calls.block(block) for block in content if isinstance(block, dict)]:
            if record["role"] == "assistant":
                yield from answered_by(record.get("model"))
            yield Record(line, {"role": record["role"], "content": blocks})


class _Calls:
    """Assigns ids to calls without one, and to their results."""

    def __init__(self) -> None:
        self._made = 0
        self._known: set[str] = set()
        self._open: list[str] = []

    def block(self, block: Fields) -> Fields:
        match text_in(block.get("type")).replace("-", "_"):
            case "tool_use" | "tool_call":
                self._made += 1
                call_id = text_in(block.get("id")) or f"call_{self._made}"
                self._known.add(call_id)
                self._open.append(call_id)
                given = fields_in(block.get("input") or block.get("arguments"))
                call = {"id": call_id, "name": text_in(block.get("name")), "input": given}
                return {"type": "tool_use", **call}
            case "tool_result":
                answered = text_in(block.get("tool_use_id"))
                if answered not in self._known and self._open:
                    answered = self._open[0]
                if answered in self._open:
                    self._open.remove(answered)
                content = block.get("content")
                return {"type": "tool_result", "tool_use_id": answered, "content": content}
            case "text" | "thinking" | "redacted_thinking" | "image":
                return block
        return {"type": "text", "text": text_in(block.get("text"))}
