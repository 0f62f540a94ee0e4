"""Messages of jaato-server as ours, and back without loss.

A message of ours keeps the original as its ``origin``. What comes back unchanged is the original
object, and what comes back shorter is a copy of it in which only results, arguments or attachments
differ. So fields that are unknown here are never lost.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, replace
from itertools import islice
from typing import Any

from jaato_gc import (
    FunctionCall,
    InlineData,
    Message,
    MessageError,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
)
from jaato_gc.plugin import fenced, mint_message_id
from jaato_gc_jaato._host import HostMessage, HostPart

SUFFIX = "model_suffix"
_READ_FIELDS = {
    *("text", "function_call", "function_response", "inline_data", "thought"),
    *("executable_code", "code_execution_result"),
    *("id", "name", "args", "unreadable_args"),
}
"""The fields of parts and calls that have a place in ours; others go into ``extra``."""
_FENCES = {
    kind: tuple(fenced(kind, "\0").split("\0"))
    for kind in (SyntheticKind.NOTICE, SyntheticKind.SUMMARY, SyntheticKind.LEDGER)
}


def read_history(history: Sequence[HostMessage], written: Mapping[str, Message]) -> list[Message]:
    """Returns a history of jaato-server as messages of ours.

    Args:
        history: The history.
        written: The messages that earlier collections wrote into it, by their id there.
    """
    messages: list[Message] = []
    ids: set[str] = set()
    for each in history:
        message = _read_message(each, written)
        if message.message_id in ids:  # core tells messages apart by their ids
            message = replace(message, message_id=mint_message_id())
        ids.add(message.message_id)
        messages.append(message)
    return messages


def host_id(message: Message) -> str:
    """Returns the id that a message has in jaato-server."""
    original: HostMessage = message.origin
    return original.message_id or ""


def _read_message(original: HostMessage, written: Mapping[str, Message]) -> Message:
    parts = tuple(ours for part in original.parts or () for ours in _read_part(part))
    own = written.get(original.message_id)
    if own is not None and own.parts == parts:
        return replace(own, origin=original)
    role = Role(getattr(original.role, "value", original.role))
    message = Message(role, parts, original.message_id or "", origin=original)
    return replace(message, synthetic=_kind_by_fence(message))


def _kind_by_fence(message: Message) -> SyntheticKind | None:
    """Returns the kind of a message that was written before jaato-server saved the session.

    It saves neither ids nor what a ledger is made from, so an old ledger stays as it is, like a
    summary.
    """
    if message.role is Role.USER and len(message.parts) == 1:
        for kind, (opening, closing) in _FENCES.items():
            if message.text.startswith(opening) and message.text.endswith(closing):
                return SyntheticKind.SUMMARY if kind is SyntheticKind.LEDGER else kind
    return None


# --- parts: one of theirs is one of ours, and one more for each attachment of a result ---


def _read_part(part: HostPart) -> Iterator[Part]:
    call, answer, inline = part.function_call, part.function_response, part.inline_data
    texts = [part.text, part.executable_code, part.code_execution_result]
    texts = [text for text in texts if text is not None]
    yield Part(
        text="\n".join(texts) if texts else None,
        function_call=call and FunctionCall(call.id, call.name or "", _arguments(call)),
        function_response=answer
        and ToolResult(answer.call_id, answer.name or "", answer.result, bool(answer.is_error)),
        inline_data=_attachment(inline.get("mime_type"), inline.get("data")) if inline else None,
        thought=part.thought,
        extra=_other_fields(part) | _other_fields(call) | _suffix(answer) or None,
    )
    for each in _attachments(part):
        yield Part(inline_data=_attachment(each.mime_type, each.data))


def _attachments(part: HostPart) -> list[Any]:
    answer = part.function_response
    return list((answer and answer.attachments) or ())


def _attachment(mime_type: Any, data: Any) -> InlineData:
    known = isinstance(data, bytes | str)
    return InlineData(str(mime_type or "application/octet-stream"), data if known else None)


def _suffix(answer: Any) -> dict[str, str]:
    """Returns what jaato-server appends to a result for the model: it is sent, but not its own."""
    return {SUFFIX: answer.model_suffix} if answer and answer.model_suffix else {}


def _other_fields(owner: Any) -> dict[str, Any]:
    """Returns what newer versions may add, such as signatures, which forbid any change."""
    if owner is None:
        return {}
    values = {each.name: getattr(owner, each.name) for each in fields(owner)}
    return {
        name: value
        for name, value in values.items()
        if name not in _READ_FIELDS and value is not None
    }


def _arguments(call: Any) -> dict[str, Any]:
    """Returns the arguments of a call; those that are not an object under a name."""
    if call.unreadable_args is not None:
        return {"unreadable_args": call.unreadable_args}
    return call.args if isinstance(call.args, dict) else {"args": call.args}


def _with_arguments(call: Any, arguments: dict[str, Any]) -> Any:
    """Undoes `_arguments`, with other arguments."""
    if call.unreadable_args is None and isinstance(call.args, dict):
        return replace(call, args=arguments)
    return replace(call, **arguments)


# --- back ---


def write_message(message: Message, before: Message | None, like: HostMessage) -> HostMessage:
    """Returns a message that a strategy left, as a message of jaato-server.

    Args:
        message: The message.
        before: The same message in the history that the strategy was given; ``None`` if it is new.
        like: Any message of jaato-server with a part, for their classes.

    Raises:
        MessageError: More than results, arguments and attachments was changed.
    """
    if before is None or (message.synthetic and message.parts != before.parts):
        return _new_message(message, like)
    original: HostMessage = before.origin
    if message is before:
        return original
    if len(message.parts) != len(before.parts):
        raise MessageError(f"message {before.message_id!r} has other parts than before")
    pairs = zip(before.parts, message.parts, strict=True)
    parts = [_write_part(part, pairs) for part in original.parts or ()]
    if all(new is old for new, old in zip(parts, original.parts or (), strict=True)):
        return original
    return replace(original, parts=parts)


def _new_message(message: Message, like: HostMessage) -> HostMessage:
    part = type(like.parts[0])(text=message.text)
    return type(like)(role=type(like.role)(message.role.value), parts=[part])


def _write_part(part: HostPart, pairs: Iterator[tuple[Part, Part]]) -> HostPart:
    old, new = next(pairs)
    attachments = _attachments(part)
    kept, notes = [], []
    for attachment, (_, left) in zip(attachments, islice(pairs, len(attachments)), strict=True):
        if left.inline_data:
            kept.append(attachment)
        elif left.text:
            notes.append(left.text)
    if new is old and len(kept) == len(attachments):
        return part
    changes: dict[str, Any] = {}
    call, answer = part.function_call, part.function_response
    if new.function_call and old.function_call != new.function_call:
        changes["function_call"] = _with_arguments(call, deepcopy(new.function_call.args))
    if new.function_response:
        values: dict[str, Any] = {}
        if old.function_response != new.function_response:
            values["result"] = deepcopy(new.function_response.result)
        if len(kept) < len(attachments):
            values["attachments"] = kept or None
            # Shown to the model after the result; jaato-server notes its own evictions there.
            values["model_suffix"] = "\n".join(filter(None, [answer.model_suffix, *notes]))
        if values:
            changes["function_response"] = replace(answer, **values)
    elif old.inline_data and not new.inline_data:
        note = (new.text or "").removeprefix(old.text or "")
        changes |= {"inline_data": None, "text": f"{part.text or ''}{note}" or None}
    return replace(part, **changes) if changes else part
