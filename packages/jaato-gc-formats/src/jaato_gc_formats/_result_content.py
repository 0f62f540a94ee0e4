"""Converts the content of tool results between lists of blocks and one text.

A provider accepts a result as a text or as a list of blocks. Strategies need one text, with images
in separate parts so that they are counted by their dimensions. The part's ``extra`` keeps the
blocks, with lengths in place of the texts, so that the list can be restored.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from jaato_gc import Message, Part, Role
from jaato_gc.plugin import as_text
from jaato_gc_formats._marks import find_mark
from jaato_gc_formats._wire import MARKS, Fields, unmarked

INSIDE = "inside"
"""Key of a part's ``extra`` that marks the part as belonging to the result before it."""
_ATTACHMENT = "attachment"

ReadAttachment = Callable[[Fields], Part | None]
WriteBlock = Callable[[Part], Any]


def flatten(content: Any, read_attachment: ReadAttachment) -> tuple[Any, Fields, list[Part]]:
    """Converts the content of a result to one text.

    Returns the text, the fields to keep in ``extra`` for `unflatten`, and the attachments.
    """
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
                extra = {INSIDE: True, **(attached.extra or {})}
                attachments.append(replace(attached, extra=extra))
                blocks.append(_ATTACHMENT)
                continue
        texts.append(as_text(unmarked(block)))
        blocks.append([len(texts[-1]), block])
    return "\n".join(texts), {"content": blocks}, attachments


def unflatten(
    text: Any, kept: Any, attachments: Iterable[Part], write: WriteBlock, make_text: WriteBlock
) -> Any:
    """Restores the content of a result. A text that was replaced becomes one block.

    Args:
        text: The current text of the result.
        kept: The value that `flatten` kept under ``content``.
        attachments: The parts that belong to the result.
        write: Converts an attachment to a block; ``None`` if the API would refuse it.
        make_text: Converts a text part to a block.
    """
    attached = [block for part in attachments if (block := write(part)) is not None]
    if isinstance(kept, list):
        if isinstance(text, str) and len(text) == _length(kept):
            return _restore_blocks(text, kept, attached)
        return [{**make_text(Part(text=as_text(text))), **_marks(kept)}, *attached]
    if attached:
        return [make_text(Part(text=as_text(text))), *attached]
    return text if kept == "value" else as_text(text)


def _marks(blocks: list[Any]) -> Fields:
    """Returns the last cache mark of the blocks that one text replaces."""
    found = ((name, find_mark(blocks, name)) for name in MARKS)
    return {name: mark for name, mark in found if mark}


def _length(blocks: list[Any]) -> int:
    lengths = [_text_length(block) for block in blocks if block != _ATTACHMENT]
    return sum(lengths) + max(0, len(lengths) - 1)


def _text_length(block: Any) -> int:
    length: int = block[0] if isinstance(block, list) else block["text"]
    return length


def _restore_blocks(text: str, kept: list[Any], attached: list[Any]) -> list[Any]:
    blocks: list[Any] = []
    start = 0
    remaining = iter(attached)
    for block in kept:
        if block == _ATTACHMENT:
            blocks.extend(islice(remaining, 1))
            continue
        end = start + _text_length(block)
        blocks.append(block[1] if isinstance(block, list) else {**block, "text": text[start:end]})
        start = end + 1
    return [*blocks, *remaining]


def is_inside(part: Part) -> bool:
    """Returns whether a part belongs to the result before it, in any format."""
    return bool(part.extra and part.extra.get(INSIDE))


def with_attachments(message: Message) -> list[tuple[Part, list[Part]]]:
    """Returns the parts of a message, each with the parts that belong to it if it is a result."""
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


def group_results(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Groups consecutive messages with results. Other messages form a group each."""
    for results, run in groupby(messages, lambda message: bool(message.function_responses)):
        if results:
            yield list(run)
        else:
            yield from ([message] for message in run)
