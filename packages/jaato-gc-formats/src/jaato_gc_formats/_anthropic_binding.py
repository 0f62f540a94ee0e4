"""The rules of Anthropic's API about thoughts that are bound to what was sent before them.

Sources: the documentation's pages "Preserved thinking" and "What's new in Claude Opus 5.5",
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking. They rest on the
documentation alone.
"""

from collections.abc import Iterator
from typing import Any

from jaato_gc_formats._anthropic_blocks import (
    COMPACTION,
    binds_thoughts,
    content_blocks,
    is_thought,
    seal_of,
)
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Fields, plain, unmarked


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
        changed = 0
    sent = [seal for _, seal in _thoughts(before, 0)]
    answer = max((at for at, each in new if each.get("role") == "assistant"), default=-1)
    previous = ""
    for (position, index), seal in _thoughts(request, new[start][0] if start else 0):
        # Other thoughts were put back, by an undo: `before` does not show what they were made from.
        is_known = seal in sent or position == answer
        is_changed = is_known and changed is not None and position >= changed
        has_gap = previous in sent and sent[sent.index(previous) + 1 :][:1] not in ([], [seal])
        previous = seal
        if is_changed or has_gap:
            yield Refusal(
                "unbound_thought",
                f"messages.{position}.content.{index}",
                "Invalid `signature` in `thinking` block. The block is bound to a different "
                "conversation. Remove the block, or set "
                '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
            )


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


def _first_change(old: list[Said], new: list[Said]) -> int | None:
    """Returns the position of the first message that is not as it was sent."""
    for (_, before), (position, message) in zip(old, new, strict=False):
        if message != before:
            return position
    return None


def _beside(request: Fields) -> Any:
    tools = [plain(tool) for tool in request.get("tools") or ()]
    return unmarked([content_blocks(request.get("system")), tools])


def _thoughts(request: Fields, start: int) -> Iterator[tuple[tuple[int, int], str]]:
    for position, message in enumerate(map(plain, request.get("messages") or ())):
        for index, block in enumerate(content_blocks(message.get("content"))):
            if position >= start and is_thought(block):
                yield (position, index), seal_of(block)


def _drops_unbound_thoughts(request: Fields) -> bool:
    thinking = plain(request.get("thinking"))
    binding = thinking.get("block_binding") if isinstance(thinking, dict) else None
    return isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"
