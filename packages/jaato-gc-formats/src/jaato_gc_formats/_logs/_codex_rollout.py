"""Codex's rollouts: ``~/.codex/sessions/…/rollout-*.jsonl``, and older files of plain items."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

from jaato_gc_formats._history import Usage
from jaato_gc_formats._log_format import Beside, Compaction, Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    answered_by,
    fields_among,
    fields_in,
    moment_of,
    objects,
    resemblance,
    text_in,
    usage_of,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields, without

KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
NOT_SENT = ("internal_chat_message_metadata_passthrough", "metadata")
"""Fields that Codex adds to items and does not send."""
NEEDED = {"message": "content", "function_call": "name"}
"""A required field by type. A record without it is not an item of the API."""
NOT_ITEMS = ("tool_call", "tool_result", "ghost_snapshot")


class CodexRollout(LogFormat):
    """A session. After each compaction a new conversation starts with the messages that Codex kept.

    One conversation of the whole session would contain the kept messages twice. The last
    conversation is what the model saw at the end.
    """

    name = "codex-rollout"
    summary = "Codex session rollout (JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=_is_like)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        meta: Fields = {}
        model = ""
        starts = [(0, model)]  # number of the first record, and the model of the turn
        for number, (_line, record) in enumerate(objects(records)):
            if not meta and record.get("type") == "session_meta":
                meta = fields_in(record.get("payload"))
            elif number == 0 and _is_old_header(record):
                meta = record
            elif "replacement_history" in fields_in(record.get("payload")):
                starts.append((number, model))
            model = _turn_model(record) or model
        name = text_in(meta.get("id"))
        if len(starts) == 1:
            yield name, _dialogue(meta, "", objects(records))
            return
        for window, ((start, model), (end, _)) in enumerate(pairwise([*starts, (None, "")]), 1):
            yield f"{name}#{window}", _dialogue(meta, model, islice(objects(records), start, end))


def _is_own(record: Fields) -> bool:
    return _is_old_header(record) or (record.get("type") in KINDS and "payload" in record)


def _is_old_header(record: Fields) -> bool:
    return "type" not in record and {"id", "timestamp", "instructions"} <= record.keys()


def _is_like(record: Fields) -> bool:
    return _item(record) is not None or "payload" in record or "record_type" in record


def _turn_model(record: Fields) -> str:
    """Returns the model of the turn that a record opens; empty if it opens none."""
    if record.get("type") != "turn_context":
        return ""
    return text_in(fields_in(record.get("payload")).get("model"))


def _dialogue(meta: Fields, model: str, records: Iterable[Record]) -> Dialogue:
    """Yields the items of a window.

    Args:
        meta: The header of the session.
        model: The model of the turn in which the window begins, if known.
        records: The records of the window.
    """
    instructions = meta.get("base_instructions") or meta.get("instructions")
    if text := text_in(fields_in(instructions).get("text")) or text_in(instructions):
        yield Beside({"instructions": text})
    answer = _Answer()
    last_report: Fields = {}
    for line, record in records:
        payload = fields_in(record.get("payload"))
        model = _turn_model(record) or model
        if item := _item(record):
            if _is_answer(item):
                answer.add(Record(line, item), record.get("timestamp"), model)
                continue
            yield from answer.flush()
            yield Record(line, item)
        elif record.get("type") == "compacted":
            yield from answer.flush()
            if "replacement_history" not in payload:
                yield Compaction()
            yield from _replacement_items(line, payload)
        elif payload.get("type") == "token_count":
            report = fields_in(payload.get("info"))
            if report and report != last_report:  # Codex repeats it, for example when a turn starts
                answer.report(report)
                last_report = report
    yield from answer.flush()


class _Answer:
    """The items of a response. They are held back, because the usage follows in a later record."""

    def __init__(self) -> None:
        self._items: list[Record] = []
        self._time: Any = None
        self._model = ""
        self._usage: list[Usage] = []

    def add(self, item: Record, time: Any, model: str) -> None:
        """Adds an item. The first one sets the time and the model of the response."""
        if not self._items:
            self._time, self._model = time, model
        self._items.append(item)

    def report(self, info: Fields) -> None:
        """Adds the usage, unless there is no response yet or its usage is known."""
        if self._items and not self._usage:
            reported = info.get("last_token_usage")
            self._usage += usage_of(reported, ("input_tokens",), ("output_tokens",))

    def flush(self) -> Dialogue:
        """Yields the response, if there is one, and starts a new one."""
        if self._items:
            yield from self._usage
            yield from moment_of(self._time)
            yield from answered_by(self._model)
            yield from self._items
        self._items, self._usage = [], []


def _replacement_items(line: int, payload: Fields) -> Iterator[Record]:
    items = fields_among(payload.get("replacement_history"))
    if not items and (summary := text_in(payload.get("message"))):
        items = [{"type": "message", "role": "user", "content": summary}]
    for item in items:
        if (cleaned := _cleaned(item)) is not None:
            yield Record(line, cleaned)


def _item(record: Fields) -> Fields | None:
    """Returns the API item in a record; ``None`` if it has none."""
    if record.get("type") == "response_item":
        return _cleaned(fields_in(record.get("payload")))
    return None if "payload" in record else _cleaned(record)


def _cleaned(item: Fields) -> Fields | None:
    kind = text_in(item.get("type"))
    if kind in NOT_ITEMS:
        return None
    if not kind.endswith(("_call", "_output")) and kind not in ("message", "reasoning"):
        return None
    if NEEDED.get(kind, "type") not in item:
        return None
    cleaned = {name: value for name, value in without(item, *NOT_SENT).items() if value is not None}
    if "call_id" in cleaned or kind in ("message", "reasoning"):
        cleaned.pop("id", None)  # Codex does not send it, because nothing is stored on the server
    if kind == "function_call":
        cleaned.setdefault("arguments", "{}")
    if isinstance(content := cleaned.get("content"), list):
        # The URL of an image is null if its file no longer existed when it was logged.
        kept = [block for block in content if fields_in(block).get("image_url", "") is not None]
        cleaned["content"] = kept
    output = cleaned.get("output")
    if isinstance(output, dict):  # some versions of Codex log an object instead of a text
        cleaned["output"] = text_in(output.get("content")) or text_in(output.get("text"))
    return cleaned


def _is_answer(item: Fields) -> bool:
    if item["type"] == "message":
        return item.get("role") == "assistant"
    return not item["type"].endswith("_output")
