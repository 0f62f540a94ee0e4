"""Anthropic's tools that run on the server: what belongs together, and the rules about them.

A use and its result are in one answer, unless the server stops in between: after ``pause_turn``,
the result is in the next answer, and code that runs on the server can call tools of the client,
whose results come in user messages before its own.

Sources: the documentation's pages "Server tools", "Programmatic tool calling" and "MCP connector",
the types of the SDK, and the live API's error quoted in
https://github.com/anthropics/anthropic-sdk-python/issues/961 (a use without its result). The rules
about results and callers rest on the documentation alone.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from jaato_gc_formats._anthropic_blocks import content_blocks
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Fields, plain

USES = ("server_tool_use", "mcp_tool_use")


def is_use(block: Fields) -> bool:
    """Returns whether a block is a call of a tool that the server runs."""
    return block.get("type") in USES


def is_result(block: Fields) -> bool:
    """Returns whether a block is the result of a tool that the server ran.

    Its type names the tool, as in ``web_search_tool_result``.
    """
    return str(block.get("type")).endswith("_tool_result")


def caller_of(block: Fields) -> Any:
    """Returns the id of the use whose code made a call; ``None`` if the model made it."""
    caller = plain(block.get("caller"))
    return caller.get("tool_id") if isinstance(caller, dict) else None


def bonds_of(blocks: Iterable[Fields]) -> list[str]:
    """Returns the ids of the uses that a message belongs to with other messages."""
    uses: dict[Any, None] = {}
    results: set[Any] = set()
    for block in blocks:
        if is_use(block):
            uses[block.get("id")] = None
        elif is_result(block):
            uses[block.get("tool_use_id")] = None
            results.add(block.get("tool_use_id"))
        if caller := caller_of(block):
            uses[caller] = None
    own = {block.get("id") for block in blocks if is_use(block)}
    return [use for use in uses if isinstance(use, str) and not (use in own and use in results)]


def server_tools_are_complete(messages: list[Any]) -> Iterator[Refusal]:
    """Uses have their results, results and calls by code have their use.

    The use in the answer that the API is to continue has no result yet.
    """
    waiting: dict[Any, tuple[int, Any]] = {}
    used: set[Any] = set()
    last = max(
        (at for at, each in enumerate(messages) if each.get("role") == "assistant"), default=0
    )
    continued: set[Any] = set()
    for position, message in enumerate(messages):
        for index, block in enumerate(content_blocks(message.get("content"))):
            where = f"messages.{position}.content.{index}"
            if is_use(block):
                used.add(block.get("id"))
                waiting[block.get("id")] = position, block.get("name")
            elif is_result(block):
                waiting.pop(block.get("tool_use_id"), None)
            wanted = block.get("tool_use_id") if is_result(block) else caller_of(block)
            if wanted is not None and wanted not in used:
                yield Refusal(
                    "orphaned_server_result",
                    where,
                    f"{where}: unexpected `tool_use_id` found in `{block.get('type')}` block: "
                    f"{wanted}. It must have a corresponding `server_tool_use` block before it.",
                )
            if position == last:
                continued |= {block.get("id") if is_use(block) else None, caller_of(block)}
    for use, (position, name) in waiting.items():
        if use not in continued or not _is_continued(messages[last + 1 :]):
            yield Refusal(
                "dangling_server_use",
                f"messages.{position}",
                f"messages.{position}: `{name}` tool use with id `{use}` was found without a "
                f"corresponding `{name}_tool_result` block",
            )


def _is_continued(messages: Iterable[Any]) -> bool:
    """Returns whether the last answer goes on: the user says nothing but results after it."""
    return all(
        message.get("role") == "system" or block.get("type") == "tool_result"
        for message in messages
        for block in content_blocks(message.get("content"))
    )
