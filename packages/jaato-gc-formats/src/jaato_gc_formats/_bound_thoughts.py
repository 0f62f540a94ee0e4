"""Keeps the thoughts of Anthropic's newer models valid.

Such a thought is valid while the system prompt, the tools and all that was said before it are as
they were in the request that it answers. A collection changes that. So each answer remembers a
digest of what it was made from, its view, and its thoughts are left out of a request in which the
view is another one. What else the answer says stays.

Source: the documentation's page "Preserved thinking",
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking. There, thoughts are no
part of the view, but must be an unbroken run of those that were sent. If thoughts are part of the
view, as here, both rules hold.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from jaato_gc import Message
from jaato_gc_formats._anthropic_blocks import COMPACTION, content_blocks, is_thought, seal_of
from jaato_gc_formats._wire import MADE_FROM, READ_AS, Fields, plain, unmarked

NOTHING_SAID = {"type": "text", "text": "[no answer]"}
"""Takes the place of an answer that is thoughts alone, where it can't be missing."""


class View:
    """A running digest of what the model sees. Cache marks and the order of keys do not count.

    Args:
        request: The request; only its system prompt and its tools are read.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        tools = [plain(tool) for tool in request.get("tools") or ()]
        self._beside = self._digest = _digest("", [content_blocks(request.get("system")), tools])

    def add(self, item: Fields) -> None:
        """Adds the next message."""
        blocks = content_blocks(item.get("content"))
        self._digest = _digest(self._before(blocks), {**item, "content": blocks})

    def of_answer(self, item: Fields) -> str | None:
        """Returns what the last thought of an answer was made from; ``None`` without a thought.

        That includes the blocks of the answer before it: they may have been shortened.
        """
        blocks = content_blocks(item.get("content"))
        places = [index for index, block in enumerate(blocks) if is_thought(block)]
        return _digest(self._before(blocks), blocks[: places[-1]]) if places else None

    def _before(self, blocks: list[Fields]) -> str:
        # The API begins the view with the newest compaction; nothing before it is bound.
        is_compacted = any(block.get("type") == COMPACTION for block in blocks)
        return self._beside if is_compacted else self._digest


def with_valid_thoughts(
    request: Fields, messages: Iterable[Message], *, keep_unknown: bool
) -> tuple[Fields, View]:
    """Returns a request without the thoughts whose view has changed, and the view of its answer.

    Args:
        request: The request. It is not changed, and returned itself if all its thoughts are valid.
        messages: The messages that it was written from.
        keep_unknown: Whether to keep the thoughts of an answer that remembers no view.
    """
    known = _known_views(messages)
    view = View(request)
    items: list[Any] = []
    changed = False
    for item in request["messages"]:
        fields = plain(item)
        made_from = view.of_answer(fields)
        if made_from:
            views = known.get(_last_seal(fields))
            if not (keep_unknown if views is None else made_from in views):
                # A system message must be followed by an answer.
                is_needed = bool(items) and plain(items[-1]).get("role") == "system"
                item = fields = _without_thoughts(fields, is_needed=is_needed)
                changed = True
        if fields:
            items.append(item)
            view.add(fields)
    return {**request, "messages": items} if changed else request, view


def remember_view(messages: Iterable[Message], items: Iterable[Any], view: View) -> list[Message]:
    """Returns the messages of an answer, which remember what they were made from.

    Args:
        messages: The messages.
        items: The answer that they were read from.
        view: What it was made from.
    """
    found: dict[str, str] = {}
    for item in map(plain, items):
        if made_from := view.of_answer(item):
            found[_last_seal(item)] = made_from
    return _with_views(messages, found)


def remember_views(messages: Iterable[Message], request: Fields) -> list[Message]:
    """Returns messages whose answers count as made from the request that they are in.

    Args:
        messages: The messages of the request. Those that remember their view keep it.
        request: The request.
    """
    found: dict[str, str] = {}
    view = View(request)
    for item in map(plain, request["messages"]):
        if made_from := view.of_answer(item):
            found[_last_seal(item)] = made_from
        view.add(item)
    return _with_views(messages, found)


def has_unknown_views(messages: Iterable[Message]) -> bool:
    """Returns whether an answer has thoughts and does not remember what they were made from."""
    return any(not _made_from(message) and any(_seals(message)) for message in messages)


def _known_views(messages: Iterable[Message]) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for message in messages:
        if made_from := _made_from(message):
            for seal in _seals(message):
                known.setdefault(seal, set()).add(made_from)
    return known


def _without_thoughts(item: Fields, *, is_needed: bool) -> Fields:
    """Returns an answer without its thoughts; an empty object if it says nothing else."""
    blocks = [block for block in content_blocks(item["content"]) if not is_thought(block)]
    if not blocks and not is_needed:
        return {}
    return {**item, "content": blocks or [NOTHING_SAID]}


def _with_views(messages: Iterable[Message], found: Mapping[str, str]) -> list[Message]:
    """Returns messages that remember the views that were found for their thoughts."""
    given = []
    for message in messages:
        made_from = next((found[seal] for seal in _seals(message) if seal in found), None)
        if made_from and not _made_from(message):
            message = replace(message, extra={**(message.extra or {}), MADE_FROM: made_from})
        given.append(message)
    return given


def _made_from(message: Message) -> str | None:
    return (message.extra or {}).get(MADE_FROM)


def _seals(message: Message) -> Iterator[str]:
    if (message.extra or {}).get(READ_AS) == "anthropic":
        for part in message.parts:
            if part.thought is not None and part.extra:
                yield seal_of(part.extra)


def _last_seal(item: Fields) -> str:
    thoughts = [block for block in content_blocks(item["content"]) if is_thought(block)]
    return seal_of(thoughts[-1])


def _digest(before: str, value: Any) -> str:
    text = json.dumps(unmarked(value), sort_keys=True, default=str)
    return blake2b(f"{before}\n{text}".encode(), digest_size=12).hexdigest()
