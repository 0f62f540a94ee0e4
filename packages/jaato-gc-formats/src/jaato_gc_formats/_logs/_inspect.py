"""Inspect's eval logs as JSON. Its ``.eval`` files are zip archives with such logs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc_formats._history import Moment, Usage
from jaato_gc_formats._log_format import Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    answered_by,
    fields_among,
    fields_in,
    moment_of,
    number_in,
    objects,
    resemblance,
    text_in,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields, compact_json

ATTACHMENT = "attachment://"
"""Prefix of a reference to a text in the sample's ``attachments``."""

NO_MODEL = "none/none"
"""Model of an eval that was started without one."""


class InspectLog(LogFormat):
    """An eval log. Each sample is a conversation."""

    name = "inspect"
    summary = "Inspect eval log (JSON)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=lambda record: "samples" in record)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        for line, log in objects(records):
            model = fields_in(log.get("eval")).get("model")
            for sample in fields_among(log.get("samples")):
                name = f"sample {sample.get('id')} epoch {sample.get('epoch', 1)}"
                yield name, _dialogue(line, sample, None if model == NO_MODEL else model)


def _is_own(record: Fields) -> bool:
    return isinstance(record.get("eval"), dict) and ("samples" in record or "plan" in record)


def _dialogue(line: int, sample: Fields, model: Any) -> Dialogue:
    kept = fields_in(sample.get("attachments"))
    usage = dict(_usage(sample))
    moments = dict(_moments(sample))
    for message in fields_among(sample.get("messages")):
        answer_id = text_in(message.get("id"))
        yield from (each[answer_id] for each in (usage, moments) if answer_id in each)
        if message.get("role") == "assistant":
            yield from answered_by(message.get("model"), model)
        item = _item({**message, "content": _resolve_attachments(message.get("content"), kept)})
        if item:
            yield Record(line, item)


def _usage(sample: Fields) -> Iterator[tuple[str, Usage]]:
    """Yields the id of each response's message, with its usage."""
    for answer_id, event in _answers(sample):
        reported = fields_in(fields_in(event.get("output")).get("usage"))
        received = number_in(reported.get("output_tokens"))
        sent = number_in(reported.get("total_tokens")) - received
        if sent > 0:
            yield answer_id, Usage(sent, received)


def _moments(sample: Fields) -> Iterator[tuple[str, Moment]]:
    """Yields the id of each response's message, with its moment."""
    for answer_id, event in _answers(sample):
        # The timestamp of an event is the time of the request.
        for moment in moment_of(event.get("completed"), event.get("timestamp")):
            yield answer_id, moment


def _answers(sample: Fields) -> Iterator[tuple[str, Fields]]:
    """Yields the id of each response's message, with the event of the response.

    Without an id, the message that belongs to a response is unknown.
    """
    for event in fields_among(sample.get("events")):
        choices = fields_among(fields_in(event.get("output")).get("choices"))
        if event.get("event") != "model" or not choices:
            continue
        if answer_id := text_in(fields_in(choices[0].get("message")).get("id")):
            yield answer_id, event


def _resolve_attachments(value: Any, kept: Fields) -> Any:
    """Replaces references to attachments in a value by their texts."""
    if isinstance(value, str):
        return (
            kept.get(value.removeprefix(ATTACHMENT), value) if value[:13] == ATTACHMENT else value
        )
    if isinstance(value, list):
        return [_resolve_attachments(each, kept) for each in value]
    if isinstance(value, dict):
        return {name: _resolve_attachments(each, kept) for name, each in value.items()}
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
                    "arguments": compact_json(fields_in(call.get("arguments"))),
                },
            }
            for call in calls
        ]
    return item


def _content(content: Any) -> tuple[Any, list[str]]:
    """Returns the content as Chat Completions blocks, and the reasoning in it."""
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
                blocks.append({"type": "text", "text": compact_json(block)})
    return blocks, list(filter(None, thoughts))
