"""Messages as they are stored: a frame per message, and the contents that messages may share.

The same tool output read twice comes in two messages with different ids and call ids. Those stay in
the frame; the output itself is a content, which is stored once.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaato_gc import Message, StashError, message_from_dict, message_to_dict

# What of a part is content, and what of the things in it; anything else, known today or not, stays
# in the frame.
_WHOLE = ("text", "thought")
_WITHIN = {
    "function_call": ("name", "args"),
    "function_response": ("name", "result", "is_error"),
    "inline_data": ("mime_type", "data", "bytes", "uri", "width", "height"),
}

_ABOUT = 200
"""Characters that say what a message is."""


@dataclass(frozen=True)
class Content:
    """What is stored once, however many messages have it: the payload of one part."""

    body: bytes
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(self.body, digest_size=32).hexdigest()
        object.__setattr__(self, "digest", digest)

    @property
    def text(self) -> str:
        return readable(self.body)


@dataclass(frozen=True)
class Form:
    """A message, ready to be stored."""

    frame: bytes
    contents: Sequence[Content]
    about: str


def to_form(message: Message) -> Form:
    """Take a message apart.

    Raises:
        StashError: It is no JSON.
    """
    frame = message_to_dict(message)
    contents = []
    frames = []
    try:
        for part in frame["parts"]:
            part_frame, payload = _split(part)
            frames.append(part_frame)
            contents.append(Content(_dump(payload)))
        return Form(_dump(frame | {"parts": frames}), contents, _about(message))
    except (TypeError, ValueError, RecursionError) as error:
        raise StashError(
            f"message {message.message_id!a} can't be stashed, since it is no JSON: {error}; "
            "nothing was stored"
        ) from error


def to_message(frame: bytes, contents: Sequence[bytes]) -> Message:
    """Put a message together again."""
    data = _load(frame)
    parts = [_join(part, _load(body)) for part, body in zip(data["parts"], contents, strict=True)]
    return message_from_dict(data | {"parts": parts})


def readable(body: bytes) -> str:
    """The words of a content, as they are searched and shown; the data of attachments has none."""
    payload = _load(body)
    lines = [payload[name] for name in _WHOLE if name in payload]
    for name, fields in _WITHIN.items():
        inner = payload.get(name, {})
        lines += (_plain(inner[each]) for each in fields if each in inner and each in _READABLE)
    return "\n".join(filter(None, lines))


_READABLE = {"name", "args", "result", "mime_type", "uri"}


def _split(part: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    frame, payload = dict(part), {}
    for name in _WHOLE:
        if name in frame:
            payload[name] = frame.pop(name)
    for name, fields in _WITHIN.items():
        if name in frame:
            inner = dict(frame[name])
            payload[name] = {each: inner.pop(each) for each in fields if each in inner}
            frame[name] = inner
    return frame, payload


def _join(frame: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    within = {name: frame.get(name, {}) | payload[name] for name in _WITHIN if name in payload}
    return frame | payload | within


def _about(message: Message) -> str:
    calls = [call.name for call in message.function_calls]
    answers = [answer.name for answer in message.function_responses]
    words = [message.role.value]
    if calls:
        words.append(f"calls {', '.join(dict.fromkeys(calls))}")
    if answers:
        words.append(f"result of {', '.join(dict.fromkeys(answers))}")
    if message.synthetic:
        words.append(message.synthetic.value)
    # Names are a model's words, and a database may refuse what is in them.
    about = "; ".join(words).encode(errors="replace").decode().replace("\0", "?")
    return about if len(about) <= _ABOUT else f"{about[: _ABOUT - 1]}…"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _dump(data: Any) -> bytes:
    # Not escaped, but as bytes that may hold a lone surrogate: escaped, two of them side by side
    # would come back as one character.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _load(data: bytes) -> Any:
    return json.loads(bytes(data).decode("utf-8", "surrogatepass"))
