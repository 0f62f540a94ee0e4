"""The content of a tool's result: one text for strategies to read, and the way back to blocks.

A provider takes a result as a text or as a list of blocks. Strategies want one text, with images
beside it, so that they are counted by their dimensions. What is needed to write the list again is
kept in the part's ``extra``: the blocks, with lengths in the place of texts.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from jaato_gc import Message, Part, Role, as_text
from jaato_gc_formats._wire import Fields

INSIDE = "inside"
"""Marks a part that belongs to the result before it."""
_ATTACHMENT = "attachment"

ReadAttachment = Callable[[Fields], Part | None]
WriteBlock = Callable[[Part], Any]


def flatten(content: Any, read_attachment: ReadAttachment) -> tuple[Any, Fields, list[Part]]:
    """The text of a result's content, what to keep beside it, and the attachments in it."""
    if isinstance(content, str):
        return content, {}, []
    if not isinstance(content, list):
        return content, {"content": "value"}, []
    texts: list[str] = []
    blocks: list[Any] = []
    attachments: list[Part] = []
    for block in content:
        if isinstance(block, dict):
            if isinstance(block.get("text"), str):
                texts.append(block["text"])
                blocks.append({**block, "text": len(block["text"])})
                continue
            if attached := read_attachment(block):
                attached.extra = {INSIDE: True, **(attached.extra or {})}
                attachments.append(attached)
                blocks.append(_ATTACHMENT)
                continue
        texts.append(as_text(block))
        blocks.append([len(texts[-1]), block])
    return "\n".join(texts), {"content": blocks}, attachments


def unflatten(
    text: Any, kept: Any, attachments: Iterable[Part], write: WriteBlock, make_text: WriteBlock
) -> Any:
    """The content of a result as it was; where its text was replaced, that in one block.

    Args:
        text: The result now.
        kept: What `flatten` kept.
        attachments: The parts that belong to the result.
        write: Makes a block of an attachment.
        make_text: Makes a block of a text.
    """
    attached = list(attachments)
    if isinstance(kept, list):
        if isinstance(text, str) and len(text) == _length(kept):
            return _as_it_was(text, kept, attached, write)
        return [make_text(Part(text=as_text(text))), *map(write, attached)]
    if attached:
        return [make_text(Part(text=as_text(text))), *map(write, attached)]
    return text if kept == "value" else as_text(text)


def _length(blocks: list[Any]) -> int:
    lengths = [_text_length(block) for block in blocks if block != _ATTACHMENT]
    return sum(lengths) + max(0, len(lengths) - 1)


def _text_length(block: Any) -> int:
    length: int = block[0] if isinstance(block, list) else block["text"]
    return length


def _as_it_was(text: str, kept: list[Any], attached: list[Part], write: WriteBlock) -> list[Any]:
    blocks: list[Any] = []
    start = 0
    remaining = iter(attached)
    for block in kept:
        if block == _ATTACHMENT:
            if part := next(remaining, None):
                blocks.append(write(part))
            continue
        end = start + _text_length(block)
        blocks.append(block[1] if isinstance(block, list) else {**block, "text": text[start:end]})
        start = end + 1
    return blocks + [write(part) for part in remaining]


def is_inside(part: Part) -> bool:
    """Whether a part belongs to the result before it, whoever read it."""
    return bool(part.extra and part.extra.get(INSIDE))


def with_attachments(message: Message) -> list[tuple[Part, list[Part]]]:
    """Each part of a message, with the parts that belong to it if it is a result."""
    grouped: list[tuple[Part, list[Part]]] = []
    behind_result = False
    for part in message.parts:
        belongs = message.role is Role.TOOL or is_inside(part)
        if behind_result and belongs and not (part.function_response or part.function_call):
            grouped[-1][1].append(part)
        else:
            behind_result = part.function_response is not None
            grouped.append((part, []))
    return grouped


def runs_of_results(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Messages one by one, but those with results together that follow each other."""
    for results, run in groupby(messages, lambda message: bool(message.function_responses)):
        if results:
            yield list(run)
        else:
            yield from ([message] for message in run)
