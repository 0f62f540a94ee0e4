"""The rules of Anthropic's API about thoughts that are bound to what was sent before them.

Sources: the documentation's pages "Preserved thinking" and "What's new in Claude Opus 5.5",
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking. They rest on the
documentation alone.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, NamedTuple

from jaato_gc_formats._anthropic_blocks import (
    COMPACTION,
    binds_thoughts,
    content_blocks,
    is_thought,
    seal_of,
)
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Fields, plain, unmarked, without


def thinking_is_adaptive(request: Fields) -> Iterator[Refusal]:
    """Models that bind thoughts have no thinking with a budget.

    So none of them requires that an answer begins with a thought.
    """
    thinking = plain(request.get("thinking"))
    if not binds_thoughts(request.get("model")) or not isinstance(thinking, dict):
        return
    if thinking.get("type") == "enabled":
        yield Refusal(
            "thinking_not_adaptive",
            "thinking.type",
            '"thinking.type.enabled" is not supported for this model. Use '
            '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
        )


def thoughts_are_bound(request: Fields, before: Fields) -> Iterator[Refusal]:
    """A thought is valid while everything sent before it is as it was.

    Thoughts and cache marks are no part of that, and nothing before the newest compaction is. The
    thoughts that are sent are an unbroken run of those that were sent: the oldest may be missing.
    A request can ask the API to drop the others itself.

    Args:
        request: The request.
        before: The last request that was sent. The last answer in ``request`` is the answer to it.
    """
    if not binds_thoughts(request.get("model")) or _drops_unbound_thoughts(request):
        return
    old, new = _said(before), _said(request)
    start, old_start = _start(new), _start(old)
    if start and not old_start:
        return  # compacted since: nothing that is bound was sent before
    changed = _first_change(old[old_start:], new[start:])
    if _beside(request) != _beside(before):
        changed = (0, -1)
    sent = [thought.seal for thought in _thoughts(before)]
    answer = max((at for at, each in new if each.get("role") == "assistant"), default=-1)
    previous = ""
    for thought in _thoughts(request):
        if thought.place[0] < (new[start][0] if start else 0):
            continue
        # Other thoughts were put back, by an undo: `before` does not show what they were made from.
        is_known = thought.seal in sent or thought.place[0] == answer
        is_changed = is_known and changed is not None and thought.place > changed
        following = sent[sent.index(previous) + 1 :][:1] if previous in sent else []
        has_gap = bool(following) and following != [thought.seal]
        previous = thought.seal
        if is_changed or has_gap:
            yield Refusal(
                "unbound_thought",
                thought.where,
                "Invalid `signature` in `thinking` block. The block is bound to a different "
                "conversation. Remove the block, or set "
                '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
            )


class Thought(NamedTuple):
    """A thought of a request.

    Args:
        where: The path of its block.
        place: The position of its message, and how many other blocks are before it in there.
        seal: Its signature.
    """

    where: str
    place: tuple[int, int]
    seal: str


Said = tuple[int, Fields]
"""The position of a message, and the message without thoughts and marks."""


def _said(request: Fields) -> list[Said]:
    """Returns the messages that say something beside thoughts."""
    found: list[Said] = []
    for position, message in enumerate(map(plain, request.get("messages") or ())):
        blocks = content_blocks(message.get("content"))
        if not blocks or not all(map(is_thought, blocks)):
            said = [block for block in blocks if not is_thought(block)]
            found.append((position, unmarked({**message, "content": said})))
    return found


def _start(said: list[Said]) -> int:
    """Returns the index of the newest compaction, where what is bound begins."""
    compacted = [
        index
        for index, (_, message) in enumerate(said)
        if any(block.get("type") == COMPACTION for block in message["content"])
    ]
    return compacted[-1] if compacted else 0


def _first_change(old: list[Said], new: list[Said]) -> tuple[int, int] | None:
    """Returns the position of the first message that is not as it was sent.

    The second number is how many of its blocks are as they were; -1 if other fields differ.
    """
    for (_, before), (position, message) in zip(old, new, strict=False):
        if message != before:
            if without(message, "content") != without(before, "content"):
                return position, -1
            pairs = zip(message["content"], before["content"], strict=False)
            return position, len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    return None


def _beside(request: Fields) -> Any:
    tools = [plain(tool) for tool in request.get("tools") or ()]
    return unmarked([content_blocks(request.get("system")), tools])


def _thoughts(request: Fields) -> Iterator[Thought]:
    for position, message in enumerate(map(plain, request.get("messages") or ())):
        others = 0
        for index, block in enumerate(content_blocks(message.get("content"))):
            if is_thought(block):
                where = f"messages.{position}.content.{index}"
                yield Thought(where, (position, others), seal_of(block))
            else:
                others += 1


def _drops_unbound_thoughts(request: Fields) -> bool:
    thinking = plain(request.get("thinking"))
    binding = thinking.get("block_binding") if isinstance(thinking, dict) else None
    return isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"
