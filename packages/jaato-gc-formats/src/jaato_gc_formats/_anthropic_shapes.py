"""The rules of Anthropic's API about the fields and types of one message.

Source: the API reference of ``POST /v1/messages``; the messages are those of its validation.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from jaato_gc_formats._anthropic_blocks import FOREIGN_BLOCKS
from jaato_gc_formats._refusals import INVALID_TYPE, Refusal
from jaato_gc_formats._wire import Fields, plain

ROLES = ("user", "assistant", "system")
FOREIGN_FIELDS = ("tool_calls", "tool_call_id", "function_call", "parts")
"""Fields of messages that only other APIs have."""


def shape_refusals(messages: Iterable[Any]) -> Iterator[Refusal]:
    """Yields what is wrong with the fields of messages and their types."""
    for position, message in enumerate(messages):
        yield from _message_refusals(f"messages.{position}", message)


def _message_refusals(where: str, message: Any) -> Iterator[Refusal]:
    if not isinstance(message, dict):
        yield Refusal(INVALID_TYPE, where, f"{where}: Input should be an object")
        return
    role = message.get("role")
    if role is None:
        yield Refusal("unknown_role", f"{where}.role", f"{where}.role: Field required")
    elif role not in ROLES:
        said = f"{where}.role: Input should be 'user', 'assistant' or 'system'"
        yield Refusal("unknown_role", f"{where}.role", said)
    for name in FOREIGN_FIELDS:
        if name in message:
            said = f"{where}.{name}: Extra inputs are not permitted"
            yield Refusal("unknown_parameter", f"{where}.{name}", said)
    yield from _content_refusals(f"{where}.content", message.get("content"))


def _content_refusals(where: str, content: Any) -> Iterator[Refusal]:
    if not isinstance(content, str | list | tuple | None):
        yield Refusal(INVALID_TYPE, where, f"{where}: Input should be a valid list")
        return
    for index, block in enumerate(() if isinstance(content, str) else content or ()):
        yield from _block_refusals(f"{where}.{index}", plain(block))


def _block_refusals(where: str, block: Any) -> Iterator[Refusal]:
    """A block has a type of this API, and the fields of its type.

    Of unknown types, only those of other APIs are refused: Anthropic adds types.

    Source: https://github.com/AstrBotDevs/AstrBot/pull/4444.
    """
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        yield Refusal(INVALID_TYPE, where, f"{where}: Input should be an object with a type")
    elif kind in FOREIGN_BLOCKS and (kind != "file" or "file" in block):  # Cline logs its own
        said = f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected "
        yield Refusal("foreign_block", where, f"{said}tags")
    elif kind == "text" and not isinstance(block.get("text"), str | None):
        yield Refusal(INVALID_TYPE, f"{where}.text", f"{where}.text.text: Input should be a string")
    elif kind == "tool_use" and not _is_name(block):
        said = f"{where}.tool_use.name: String should have at least 1 character"
        yield Refusal("missing_name", f"{where}.tool_use.name", said)
    elif kind == "tool_result":
        yield from _content_refusals(f"{where}.tool_result.content", block.get("content"))


def _is_name(call: Fields) -> bool:
    return isinstance(call.get("name"), str) and bool(call["name"])
