"""OpenHands' events: actions and observations, and the events of the newer SDK."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from jaato_gc.plugin import as_text
from jaato_gc_formats._log_format import Beside, Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    answered_by,
    blocks_of,
    fields_among,
    fields_in,
    list_in,
    moment_of,
    resemblance,
    text_in,
    usage_of,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields, compact_json

SDK_KINDS = (
    "SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent",
    "UserRejectObservation", "CondensationSummaryEvent",
)  # fmt: skip
MESSAGE_KINDS = ("message", "finish", "system")
NOT_SENT_KINDS = ("recall", "change_agent_state", "agent_state_changed", "null", "condensation")
"""Kinds of internal events, which are not sent to the model."""
NOT_GIVEN = ("thought", "is_confirmed", "confirmation_state", "security_risk", "blocking", "hidden")
"""Arguments that OpenHands adds to an action."""


class OpenHands(LogFormat):
    """A run, with its events converted to messages."""

    name = "openhands"
    summary = "OpenHands events (JSON or JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        pairs = [event for record in records for event in list_in(record)]
        return resemblance([*records, *pairs], own=_is_own, like=_is_like)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        bare = False
        for line, record in records:
            if isinstance(record, dict) and isinstance(record.get("history"), list):
                name = text_in(record.get("instance_id"))
                config = fields_in(fields_in(record.get("metadata")).get("llm_config"))
                events = ((line, event) for event in _flat(record["history"]))
                # Comes first and counts once, so that any model that a response names wins.
                yield name, chain(answered_by(config.get("model")), _dialogue(events))
            else:
                bare = True
        if bare:
            yield "", _dialogue((line, event) for line, each in records for event in _flat([each]))


def _flat(events: Iterable[Any]) -> Iterator[Fields]:
    """Yields the events. Older files store each action and its observation as a pair."""
    for event in chain.from_iterable(each if isinstance(each, list) else [each] for each in events):
        if isinstance(event, dict):
            yield event


def _is_own(record: Fields) -> bool:
    if record.get("kind") in SDK_KINDS:
        return "source" in record
    if "source" in record and ("action" in record or "observation" in record):
        return "args" in record or "content" in record
    return any(_is_own(event) for event in list(_flat(list_in(record.get("history"))))[:5])


def _is_like(record: Fields) -> bool:
    return "source" in record or "history" in record


def _dialogue(events: Iterable[tuple[int, Fields]]) -> Dialogue:
    responses: set[str] = set()
    actions: list[Record] = []  # of one response
    for line, event in events:
        if event.get("kind") == "ActionEvent":
            if actions and _response(actions[0].value) != _response(event):
                yield from _calls(actions)
                actions = []
            actions.append(Record(line, event))
            continue
        if actions:
            yield from _calls(actions)
            actions = []
        if "kind" in event and event["kind"] in SDK_KINDS:
            yield from _sdk_event(line, event)
        elif isinstance(event.get("action"), str):
            yield from _action(line, event, responses)
        elif isinstance(event.get("observation"), str):
            yield from _observation(line, event)
    if actions:
        yield from _calls(actions)


# --- actions and observations ---


def _action(line: int, event: Fields, responses: set[str]) -> Dialogue:
    kind, given = event["action"], fields_in(event.get("args"))
    if kind in NOT_SENT_KINDS:
        return
    metadata = fields_in(event.get("tool_call_metadata"))
    response = fields_in(metadata.get("model_response"))
    choices = fields_among(response.get("choices"))
    if choices and kind not in MESSAGE_KINDS:
        # The first action of a response is converted with all of its calls.
        if (response_id := str(response.get("id"))) in responses:
            return
        responses.add(response_id)
        yield from answered_by(response.get("model"))
        yield from usage_of(response.get("usage"), ("prompt_tokens",), ("completion_tokens",))
        yield from moment_of(event.get("timestamp"))
        yield Record(line, _answer(fields_in(choices[0].get("message"))))
    elif kind in MESSAGE_KINDS:
        if kind == "system" and fields_among(given.get("tools")):
            yield Beside({"tools": given["tools"]})
        if response:
            yield from answered_by(response.get("model"))
            yield from usage_of(response.get("usage"), ("prompt_tokens",), ("completion_tokens",))
        said = (given.get(name) for name in ("thought", "content", "final_thought"))
        if text := "\n".join(filter(None, map(text_in, said))):
            speaker = "assistant" if event.get("source") == "agent" else "user"
            role = "system" if kind == "system" else speaker
            if role == "assistant":
                yield from moment_of(event.get("timestamp"))
            yield Record(line, {"role": role, "content": text})
    elif event.get("source") == "user":
        yield Record(line, {"role": "user", "content": f"{kind} {as_text(given)}"})
    else:
        arguments = {name: given[name] for name in given if name not in NOT_GIVEN}
        call = {"name": kind, "arguments": compact_json(arguments)}
        calls = [{"id": _call_id(event.get("id")), "type": "function", "function": call}]
        thought = text_in(given.get("thought")) or None
        yield from moment_of(event.get("timestamp"))
        yield Record(line, {"role": "assistant", "content": thought, "tool_calls": calls})


def _answer(message: Fields) -> Fields:
    """Returns the message of a response in the form that the next request contains."""
    item: Fields = {"role": "assistant", "content": message.get("content")}
    if thought := text_in(message.get("reasoning_content")):
        item["reasoning_content"] = thought
    if calls := fields_among(message.get("tool_calls")):
        item["tool_calls"] = [
            {
                "id": call.get("id"),
                "type": "function",
                "function": {
                    name: fields_in(call.get("function")).get(name)
                    for name in ("name", "arguments")
                },
            }
            for call in calls
        ]
    return item


def _observation(line: int, event: Fields) -> Dialogue:
    if event["observation"] in NOT_SENT_KINDS:
        return
    metadata = fields_in(event.get("tool_call_metadata"))
    called = text_in(metadata.get("tool_call_id")) or _call_id(event.get("cause"))
    content = text_in(event.get("content")) or text_in(event.get("message"))
    if event.get("cause") is None and not metadata:
        yield Record(line, {"role": "user", "content": content})
    else:
        yield Record(line, {"role": "tool", "tool_call_id": called, "content": content})


def _call_id(event_id: Any) -> str:
    return f"event_{event_id}"


# --- the SDK's events ---


def _response(event: Fields) -> Any:
    return event.get("llm_response_id") or event.get("id")


def _calls(actions: list[Record]) -> Dialogue:
    """Yields the message with the actions of one response, after its moment."""
    yield from moment_of(actions[0].value.get("timestamp"))
    yield _calls_message(actions)


def _calls_message(actions: list[Record]) -> Record:
    calls = []
    thoughts = list(filter(None, (_text(each.value.get("thought")) for each in actions)))
    for _line, event in actions:
        call = fields_in(event.get("tool_call"))
        function = fields_in(call.get("function")) or call
        given = function.get("arguments")
        calls.append(
            {
                "id": event.get("tool_call_id") or call.get("id"),
                "type": "function",
                "function": {
                    "name": event.get("tool_name") or function.get("name"),
                    "arguments": given if isinstance(given, str) else compact_json(given or {}),
                },
            }
        )
    message: Fields = {"role": "assistant", "content": "\n".join(thoughts) or None}
    if reasoning := text_in(actions[0].value.get("reasoning_content")):
        message["reasoning_content"] = reasoning
    return Record(actions[0].line, {**message, "tool_calls": calls})


def _sdk_event(line: int, event: Fields) -> Dialogue:
    kind = event["kind"]
    if kind == "SystemPromptEvent":
        if tools := fields_among(event.get("tools")):
            yield Beside({"tools": tools})
        yield Record(line, {"role": "system", "content": _text(event.get("system_prompt"))})
    elif kind == "MessageEvent":
        said = fields_in(event.get("llm_message"))
        role = said.get("role") if said.get("role") in ("user", "assistant", "system") else "user"
        if role == "assistant":
            yield from moment_of(event.get("timestamp"))
        yield Record(line, {"role": role, "content": _text(said.get("content"))})
    elif kind == "CondensationSummaryEvent":
        yield Record(line, {"role": "user", "content": _text(event.get("summary"))})
    else:
        seen = fields_in(event.get("observation"))
        texts = (event.get("error"), event.get("rejection_reason"), seen.get("content"))
        content = next(filter(None, map(_text, texts)), "") or text_in(seen.get("output"))
        called = event.get("tool_call_id")
        yield Record(line, {"role": "tool", "tool_call_id": called, "content": content})


def _text(content: Any) -> str:
    """Returns the text of content, which may be a string, a block or a list of blocks."""
    blocks = [content] if isinstance(content, dict) else blocks_of(content)
    return "\n".join(text_in(fields_in(block).get("text")) for block in blocks)
