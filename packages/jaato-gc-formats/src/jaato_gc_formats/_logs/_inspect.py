"""Eval logs of Inspect, as JSON. (Its ``.eval`` files are zip archives of such.)"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc_formats._history import Usage
from jaato_gc_formats._log_format import Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    fields_among,
    fields_in,
    number_in,
    objects,
    resemblance,
    text_in,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields, compact

ATTACHMENT = "attachment://"
"""Begins the name of a text that is kept apart."""


class InspectLog(LogFormat):
    """Each sample is a conversation."""

    name = "inspect"
    summary = "Inspect eval log (JSON)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=lambda record: "samples" in record)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        for line, log in objects(records):
            for sample in fields_among(log.get("samples")):
                name = f"sample {sample.get('id')} epoch {sample.get('epoch', 1)}"
                yield name, _dialogue(line, sample)


def _is_own(record: Fields) -> bool:
    return isinstance(record.get("eval"), dict) and ("samples" in record or "plan" in record)


def _dialogue(line: int, sample: Fields) -> Dialogue:
    kept = fields_in(sample.get("attachments"))
    usage = dict(_usage(sample))
    for message in fields_among(sample.get("messages")):
        reported = usage.get(str(message.get("id")))
        if reported:
            yield reported
        item = _item({**message, "content": _whole(message.get("content"), kept)})
        if item:
            yield Record(line, item)


def _usage(sample: Fields) -> Iterator[tuple[str, Usage]]:
    """What each answer cost, by its message's id."""
    for event in fields_among(sample.get("events")):
        output = fields_in(event.get("output"))
        reported = fields_in(output.get("usage"))
        received = number_in(reported.get("output_tokens"))
        sent = number_in(reported.get("total_tokens")) - received
        for choice in fields_among(output.get("choices"))[:1]:
            if event.get("event") == "model" and sent > 0:
                yield str(fields_in(choice.get("message")).get("id")), Usage(sent, received)


def _whole(value: Any, kept: Fields) -> Any:
    """A value with the texts in it that were kept apart."""
    if isinstance(value, str):
        return (
            kept.get(value.removeprefix(ATTACHMENT), value) if value[:13] == ATTACHMENT else value
        )
    if isinstance(value, list):
        return [_whole(each, kept) for each in value]
    if isinstance(value, dict):
        return {name: _whole(each, kept) for name, each in value.items()}
    return value


def _item(message: Fields) -> Fields | None:
    role = message.get("role")
    if role not in ("system", "user", "assistant", "tool"):
        return None
    content, thoughts = _content(message.get("content"))
    item: Fields = {"role": role, "content": content}
    if thoughts:
        item["reasoning_content"] = "\n".join(thoughts)
    if role == "tool":
        error = text_in(fields_in(message.get("error")).get("message"))
        return {**item, "content": content or error, "tool_call_id": message.get("tool_call_id")}
    if calls := fields_among(message.get("tool_calls")):
        item["tool_calls"] = [
            {
                "id": call.get("id"),
                "type": "function",
                "function": {
                    "name": text_in(call.get("function")),
                    "arguments": compact(fields_in(call.get("arguments"))),
                },
            }
            for call in calls
        ]
    return item


def _content(content: Any) -> tuple[Any, list[str]]:
    """Content as Chat Completions has it, and what was thought in it."""
    if not isinstance(content, list):
        return content, []
    blocks: list[Any] = []
    thoughts: list[str] = []
    for block in fields_among(content):
        match block.get("type"):
            case "reasoning":
                thoughts.append(text_in(block.get("reasoning")))
            case "image":
                blocks.append({"type": "image_url", "image_url": {"url": block.get("image")}})
            case "text":
                blocks.append({"type": "text", "text": text_in(block.get("text"))})
            case _:
                blocks.append({"type": "text", "text": compact(block)})
    return blocks, list(filter(None, thoughts))
