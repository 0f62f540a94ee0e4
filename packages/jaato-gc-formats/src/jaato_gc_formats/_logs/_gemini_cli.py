"""Gemini CLI's chats: one JSON object, or since 0.40 lines that update it.

A line with the id of an earlier one replaces it. ``$rewindTo`` removes a message and all later
ones. ``$set`` with messages replaces all messages, for example after the chat was compressed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc_formats._history import Moment, Usage
from jaato_gc_formats._log_format import AnsweredBy, Compaction, Dialogue, LogFormat
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
from jaato_gc_formats._wire import Fields

USER = ("user",)
MODEL = ("gemini", "model")
NOT_SENT_KINDS = ("info", "warning", "error")
"""Kinds of messages from the program to the user, which are not sent to the model."""


class GeminiCli(LogFormat):
    """A chat. The log stores results inside their calls; here they become separate messages."""

    name = "gemini-cli"
    summary = "Gemini CLI chat (JSON or JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=_is_like)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        names = (text_in(record.get("sessionId")) for _line, record in objects(records))
        yield next(filter(None, names), ""), _dialogue(records)


def _is_own(record: Fields) -> bool:
    if any(key in record for key in ("$set", "$rewindTo", "projectHash")):
        return True
    if _is_message(record) and "timestamp" in record:
        return True
    chat = fields_among(record.get("messages")) if "sessionId" in record else []
    return any(map(_is_message, chat)) or any(map(_is_content, fields_among(record.get("history"))))


def _is_message(record: Fields) -> bool:
    kinds = USER + MODEL + NOT_SENT_KINDS
    return (
        record.get("type") in kinds
        and "id" in record
        and ("content" in record or "parts" in record)
    )


def _is_content(record: Fields) -> bool:
    return "role" in record and "parts" in record


def _is_like(record: Fields) -> bool:
    return "sessionId" in record or ("id" in record and "type" in record)


def _dialogue(records: Iterable[Record]) -> Dialogue:
    """Yields the items of a chat, with consecutive responses joined.

    The log does not record the prompts to continue between them.
    """
    answer: Record | None = None
    for item in _items(records):
        if isinstance(item, Record) and item.value["role"] == "model":
            if answer is None:
                answer = item
            else:
                answer.value["parts"].extend(item.value["parts"])
            continue
        if answer is not None and not isinstance(item, Usage | Moment | AnsweredBy):
            yield answer
            answer = None
        if answer is None:
            yield item
    if answer is not None:
        yield answer


def _items(records: Iterable[Record]) -> Dialogue:
    answers: set[str] = set()
    for line, message in _final_messages(records):
        if message is None:
            yield Compaction()
        elif _is_content(message):
            role = "user" if message["role"] == "user" else "model"
            if role == "model":
                yield from moment_of(message.get("timestamp"), message.get("ts"))
            yield Record(line, {"role": role, "parts": [*list_in(message["parts"])]})
        elif message.get("type") in USER:
            if parts := _parts(message):
                yield Record(line, {"role": "user", "parts": parts})
        elif message.get("type") in MODEL:
            answer_id = text_in(message.get("id"))
            # A replacement of all messages repeats those that it keeps.
            yield from _answer(line, message, is_repeated=answer_id in answers)
            answers |= {answer_id} - {""}


def _final_messages(records: Iterable[Record]) -> Iterator[tuple[int, Fields | None]]:
    """Yields the line and the message of each message that remains, or ``None`` for a compaction.

    Reads the records twice, so that it need not keep the messages: the first pass finds the last
    record of each id, the second yields the messages.
    """
    last: dict[str, int] = {}
    order: list[str] = []
    removed: set[int] = set()
    for number, (_line, record) in enumerate(objects(records)):
        if _is_message(record):
            message_id = str(record["id"])
            if message_id in last:
                removed.add(last[message_id])
            else:
                order.append(message_id)
            last[message_id] = number
        elif (target := str(record.get("$rewindTo"))) in last:
            while target in last:
                removed.add(last.pop(order.pop()))
    for number, (line, record) in enumerate(objects(records)):
        if number in removed:
            continue
        if _is_message(record):
            yield line, record
        changed = fields_in(record.get("$set"))
        if "messages" in changed and number:
            yield line, None
        whole = record.get("messages") or record.get("history") or changed.get("messages")
        for message in fields_among(whole):
            yield line, message


def _answer(line: int, message: Fields, *, is_repeated: bool) -> Dialogue:
    parts: list[Any] = []
    for thought in fields_among(message.get("thoughts")):
        said = [text_in(thought.get("subject")), text_in(thought.get("description"))]
        parts.append({"text": "\n".join(filter(None, said)), "thought": True})
    parts += _parts(message)
    results: list[Any] = []
    for call in fields_among(message.get("toolCalls")):
        made = {"id": call.get("id"), "name": call.get("name"), "args": fields_in(call.get("args"))}
        parts.append({"functionCall": {name: value for name, value in made.items() if value}})
        results += fields_among(call.get("result"))
    if not parts:
        return
    if not is_repeated:
        yield from usage_of(message.get("tokens"), ("input", "tool"), ("output", "thoughts"))
        yield from moment_of(message.get("timestamp"))
        yield from answered_by(message.get("model"))
    yield Record(line, {"role": "model", "parts": parts})
    if results:
        yield Record(line, {"role": "user", "parts": results})


def _parts(message: Fields) -> list[Any]:
    content = message.get("content") or message.get("parts")
    if isinstance(content, dict):
        content = [content]
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return [
        {"text": part} if isinstance(part, str) else part
        for part in list_in(content)
        if isinstance(part, dict | str) and part
    ]
