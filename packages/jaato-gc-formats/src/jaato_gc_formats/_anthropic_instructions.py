"""System messages in the middle of a conversation with Anthropic's API, and their place.

Sources: the documentation's page "Mid-conversation system messages and tool changes",
https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages, and the
types of the SDK. That there are never two in a row rests on the documentation alone, which has
changed in this.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from jaato_gc import GCPolicy
from jaato_gc_formats._anthropic_blocks import content_blocks
from jaato_gc_formats._anthropic_server_tools import is_result, is_use
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Fields

TOOL_CHANGES = ("tool_addition", "tool_removal")


def policy_of(blocks: Iterable[Fields]) -> GCPolicy | None:
    """Returns the policy of a system message in the list of messages.

    One that adds or removes a tool stays: without it, another set of tools would be on offer.
    """
    changes_tools = any(block.get("type") in TOOL_CHANGES for block in blocks)
    return GCPolicy.LOCKED if changes_tools else None


def instructions_are_in_place(messages: list[Any]) -> Iterator[Refusal]:
    """A system message follows a user turn or server tool use, and an answer follows it, if any.

    Source of the message: https://platform.claude.com, as quoted by proxies for the API.
    """
    for position, message in enumerate(messages):
        if message.get("role") != "system":
            continue
        before = messages[position - 1] if position else {}
        after = messages[position + 1 : position + 2]
        detail = ""
        if before.get("role") != "user" and not _ends_in_server_tool_use(before):
            detail = (
                "role 'system' must follow a 'user' message or an 'assistant' message ending in a "
                "server tool result"
            )
        elif after and after[0].get("role") != "assistant":
            detail = "role 'system' must precede an 'assistant' message or be the last message"
        if detail:
            where = f"messages.{position}"
            yield Refusal("misplaced_system", where, f"{where}: {detail}")


def _ends_in_server_tool_use(message: Fields) -> bool:
    blocks = content_blocks(message.get("content"))
    is_answer = message.get("role") == "assistant" and bool(blocks)
    return is_answer and (is_use(blocks[-1]) or is_result(blocks[-1]))
