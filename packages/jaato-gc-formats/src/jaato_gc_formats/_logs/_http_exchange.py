"""Recorded HTTP exchanges with a provider: requests and responses."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaato_gc.plugin import as_text
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._history import Conversation, Moment, Usage, main_model
from jaato_gc_formats._logs._common import (
    fields_in,
    moment_of,
    objects,
    resemblance,
    text_in,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields

PATHS: dict[str, str | tuple[str, ...]] = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic": "/messages",
    "gemini": ("GenerateContent", "generateContent"),
}
"""How the URLs of each API end. Without an entry, its requests are recognised by their fields."""
TIMES = ("created", "created_at", "createTime")
"""Fields of a response with the time of its creation. Not every API has one."""
MODELS = ("model", "modelVersion")
"""Fields of a response with the name of the model."""
MODEL_IN_ADDRESS = re.compile(r"/models/([^/:?]+):")
"""How the URLs of Gemini's API contain the model, which no field of the request names."""
MIN_CONFIDENCE = 0.5
REFUSED = 400


class HttpExchange:
    """The conversations in recorded exchanges, each in the format of its API.

    Requests with the same first message belong to one conversation. Its messages are those of the
    last request that the provider accepted.

    Args:
        apis: The formats of the APIs that the requests may be for.
    """

    name = "http-exchange"
    summary = "Recorded HTTP exchanges with a provider (JSON)"

    def __init__(self, apis: Sequence[ApiFormat]) -> None:
        self._apis = apis

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=lambda record: "uri" in record)

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
        """Yields the conversations in the exchanges."""
        found: dict[tuple[str, str], _Exchanges] = {}
        for _line, exchange in objects(records):
            request = _body(exchange.get("request"))
            uri = text_in(exchange.get("uri"))
            api = self._api_of(request, uri)
            if api is None or _is_refused(exchange):
                continue
            items = request[api.items_key]
            opening = as_text(items[0] if isinstance(items, list) else items)
            exchanges = found.setdefault((api.name, opening), _Exchanges(api))
            exchanges.last = request
            events = _events(exchange.get("response"))
            exchanges.answers.append((items, _usage(api, events), _moment(events)))
            exchanges.models += filter(None, [_model(request, events, uri)])
        for exchanges in found.values():
            yield exchanges.conversation(self.name)

    def _api_of(self, request: Fields, uri: str) -> ApiFormat | None:
        candidates = [api for api in self._apis if request.get(api.items_key)]
        for api in candidates:
            if uri.endswith(PATHS.get(api.name, ())):
                return api
        best = max(candidates, key=lambda api: api.recognize([request]), default=None)
        if best is None or best.recognize([request]) < MIN_CONFIDENCE:
            return None
        return best


@dataclass(slots=True)
class _Exchanges:
    """The requests of one conversation."""

    api: ApiFormat
    last: Fields = field(default_factory=dict)
    answers: list[tuple[Any, Usage | None, Moment | None]] = field(default_factory=list)
    """The items of each request, with the usage and the moment of its response."""
    models: list[str] = field(default_factory=list)
    """The models of the responses."""

    def conversation(self, format: str) -> Conversation:
        api, key = self.api, self.api.items_key
        history = api.to_history(self.last)
        usage: list[Usage] = []
        moments: list[Moment] = []
        for sent, cost, moment in self.answers:
            if not isinstance(sent, list) or sent != self.last[key][: len(sent)]:
                continue
            position = len(api.to_history({**self.last, key: sent}))
            usage += [replace(cost, position=position)] if cost else []
            moments += [replace(moment, position=position)] if moment else []
        usage.sort(key=lambda each: each.position)
        moments.sort(key=lambda each: each.position)
        problems = api.problems(history)
        model = main_model(self.models)
        return Conversation("", format, history, problems, usage, moments=moments, model=model)


def _is_own(record: Fields) -> bool:
    return {"uri", "request", "response"} <= record.keys()


def _is_refused(exchange: Fields) -> bool:
    status = exchange.get("status")
    code = status.get("code") if isinstance(status, dict) else status
    return isinstance(code, int) and code >= REFUSED


def _body(value: Any) -> Fields:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return fields_in(value)


def _events(response: Any) -> list[Fields]:
    """Returns a response and its streamed events, which may contain parts of the response."""
    answer = fields_in(response)
    streamed = text_in(answer.get("string")) or text_in(response)
    events = [answer]
    for line in streamed.splitlines():
        event = _body(line.removeprefix("data:").strip()) if line.startswith("data:") else {}
        events += [event, fields_in(event.get("response")), fields_in(event.get("message"))]
    return events


def _moment(events: list[Fields]) -> Moment | None:
    times = (event.get(name) for event in events for name in TIMES)
    return next(moment_of(*times), None)


def _model(request: Fields, events: list[Fields], uri: str) -> str:
    """Returns the model that answered a request; empty if the exchange does not name it."""
    answered = [event.get(name) for event in events for name in MODELS]
    in_address = MODEL_IN_ADDRESS.search(uri)
    names = (*answered, request.get("model"), in_address and in_address[1])
    return next(filter(None, map(text_in, names)), "")


def _usage(api: ApiFormat, events: list[Fields]) -> Usage | None:
    reports = [report for event in events if (report := api.usage(event))]
    sent = max((report.input_tokens for report in reports), default=0)
    received = max((report.output_tokens for report in reports), default=0)
    return Usage(sent, received) if sent else None
