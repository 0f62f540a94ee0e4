"""Joins the events of a streamed message of Anthropic's API."""

from collections.abc import Iterable
from typing import Any

from jaato_gc_formats._wire import Fields, parse_arguments, without


def joined(events: Iterable[Fields]) -> Fields | None:
    """Returns the message that some events make up; ``None`` if its end is missing.

    Events that the SDK derives from those of the API are ignored.
    """
    message: Fields = {}
    blocks: dict[int, Fields] = {}
    inputs: dict[int, str] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = dict(event["message"])
        elif kind == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            number, delta = event["index"], event["delta"]
            if delta.get("type") == "input_json_delta":
                inputs[number] = inputs.get(number, "") + delta["partial_json"]
            else:
                _add_delta(blocks[number], delta)
        elif kind == "message_delta":
            usage = {key: value for key, value in event["usage"].items() if value is not None}
            message |= event["delta"]
            message["usage"] = {**(message.get("usage") or {}), **usage}
        elif kind == "message_stop":
            for number, text in inputs.items():
                blocks[number]["input"] = parse_arguments(text)[0]
            return {**message, "content": list(blocks.values())}
    return None


def _add_delta(block: Fields, delta: Fields) -> None:
    for name, value in without(delta, "type").items():
        if name == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        else:
            block[name] = _added(block.get(name), value)


def _added(before: Any, value: Any) -> Any:
    return before + value if isinstance(before, str) and isinstance(value, str) else value
