"""Completion logs of LiteLLM and the OpenHands SDK: one request and its response."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc_formats._log_format import Beside, Dialogue, LogFormat
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
from jaato_gc_formats._wire import Fields


class LiteLLMLog(LogFormat):
    """The messages of a request, and the usage that its response reports."""

    name = "litellm"
    summary = "LiteLLM or OpenHands completion log (JSON)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=lambda record: "response" in record)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        for line, record in objects(records):
            if _is_own(record):
                response = fields_in(record["response"])
                yield text_in(response.get("id")), _dialogue(line, record, response)


def _is_own(record: Fields) -> bool:
    return isinstance(record.get("messages"), list) and "choices" in fields_in(
        record.get("response")
    )


def _dialogue(line: int, record: Fields, response: Fields) -> Dialogue:
    yield Beside({name: record[name] for name in ("model", "tools") if record.get(name)})
    for message in fields_among(record["messages"]):
        yield Record(line, message)
    yield from usage_of(response.get("usage"), ("prompt_tokens",), ("completion_tokens",))
    yield from moment_of(record.get("timestamp"), response.get("created"))
    yield from answered_by(response.get("model"))
