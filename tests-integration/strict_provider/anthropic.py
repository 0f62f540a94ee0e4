"""Anthropic's Messages API.

Sources: the API reference, and the pages on tool use, server tools, programmatic tool calling, the
MCP connector, system messages in the middle of a conversation, prompt caching, extended and
preserved thinking.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from bound_thinking import THINKING, ThinkingProvider

from strict_provider.provider import Fields, StrictProvider, twice

BINDING = ("claude-opus-5-5", "claude-fable-5-5")
"""Models that bind thoughts to what was sent before them."""
ID = re.compile(r"[a-zA-Z0-9_-]+")
USES = ("server_tool_use", "mcp_tool_use")
RESULTS = {
    "web_search_tool_result": "server_tool_use",
    "code_execution_tool_result": "server_tool_use",
    "mcp_tool_result": "mcp_tool_use",
}
"""The results of tools that the provider runs, and the type of their use."""
CALL, RESULT = "tool_use", "tool_result"
ALLOWED = {
    "user": {"text", "image", "document", RESULT},
    "assistant": {"text", *THINKING, CALL, *USES, *RESULTS},
    "system": {"text", "tool_addition", "tool_removal"},
}


class Turn(NamedTuple):
    """Consecutive messages of one role, system messages aside."""

    role: str
    blocks: list[Fields]

    def of(self, *kinds: str) -> list[Fields]:
        return [block for block in self.blocks if block["type"] in kinds]


class StrictAnthropic(StrictProvider):
    """Refuses what changed before a thought, and what is out of its place."""

    items_key = "messages"
    mark = "cache_control"
    most_marks = 4

    def __init__(self, marks_given: int | None = None) -> None:
        super().__init__(marks_given)
        self._thinking = ThinkingProvider()

    def faults(self, request: Fields) -> Iterator[str]:
        messages = request["messages"]
        yield from _shapes(messages)
        yield from _places(messages)
        turns = [
            Turn(role, [block for message in group for block in blocks(message)])
            for role, group in groupby(
                (each for each in messages if each["role"] != "system"), lambda each: each["role"]
            )
        ]
        yield from _calls(turns)
        yield from _server_tools(turns)
        if request["model"] in BINDING:
            yield from self._thinking.receive(request)

    def answered(self, said: list[Fields]) -> None:
        self._thinking.answer(said)


def blocks(message: Fields) -> list[Fields]:
    """Returns the content of a message as blocks."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _shapes(messages: list[Fields]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield "messages.0: the first message is not the user's"
    last = messages[-1]
    if last["role"] == "assistant" and blocks(last)[-1].get("text", "").endswith((" ", "\n")):
        yield "the final assistant content ends with whitespace"
    for at, message in enumerate(messages):
        if unknown := message.keys() - {"role", "content"}:
            yield f"messages.{at}: unknown fields {sorted(unknown)}"
        if message["role"] not in ALLOWED:
            yield f"messages.{at}: unknown role {message['role']}"
            continue
        if not blocks(message):
            yield f"messages.{at}: it is empty"
        for block in blocks(message):
            if block["type"] not in ALLOWED[message["role"]]:
                yield f"messages.{at}: {block['type']} in a message of {message['role']}"
            yield from (f"messages.{at}: {fault}" for fault in _block_faults(block))


def _block_faults(block: Fields) -> Iterator[str]:
    kind = block["type"]
    if kind == "text" and not block["text"].strip():
        yield "a text is blank"
    if kind == "thinking" and not block.get("signature"):
        yield "a thought is not signed"
    if kind in THINKING and "cache_control" in block:
        yield "a thought has a cache mark"
    if kind in (CALL, *USES):
        if not ID.fullmatch(block["id"]):
            yield f"invalid id {block['id']!r}"
        if not block["name"] or not isinstance(block["input"], dict):
            yield "a call without name or input"
    if kind == RESULT:
        content = block.get("content", "")
        for inner in content if isinstance(content, list) else ():
            if inner["type"] == "text" and not inner["text"].strip():
                yield "a text in a result is blank"


def _places(messages: list[Fields]) -> Iterator[str]:
    """A system message follows the user, or a server tool, and precedes the assistant, or is last.

    So it is never first, and there are never two in a row.
    """
    for at, message in enumerate(messages):
        if message["role"] != "system":
            continue
        before = messages[at - 1] if at else {"role": "no message"}
        ends_on_server = before["role"] == "assistant" and blocks(before)[-1]["type"] in {
            *USES,
            *RESULTS,
        }
        if before["role"] != "user" and not ends_on_server:
            yield f"messages.{at}: a system message after {before['role']}"
        if at + 1 < len(messages) and messages[at + 1]["role"] != "assistant":
            yield f"messages.{at}: a system message before {messages[at + 1]['role']}"


def _calls(turns: list[Turn]) -> Iterator[str]:
    """Each call has one result, at the beginning of the next turn, which has no others."""
    yield from (
        f"the id {each} occurs twice"
        for each in twice(block["id"] for turn in turns for block in turn.of(CALL, *USES))
    )
    waiting: list[Any] = []
    for turn in [*turns, Turn("end", [])]:
        results = [block["tool_use_id"] for block in turn.of(RESULT)]
        leading = [block["type"] for block in turn.blocks[: len(results)]]
        if sorted(results) != sorted(waiting):
            yield f"calls {waiting}, and the next turn has the results {results}"
        elif set(leading) - {RESULT}:
            yield f"results come after other content: {leading}"
        waiting = [block["id"] for block in turn.of(CALL)]


def _server_tools(turns: list[Turn]) -> Iterator[str]:
    """A use has one result, after it; what code calls, it calls while it runs.

    The use of the answer that goes on has none yet. It goes on if nothing but results follows.
    """
    running: dict[Any, str] = {}
    for number, turn in enumerate(turns):
        called: set[Any] = set()
        for block in turn.blocks:
            kind = block["type"]
            if kind in USES:
                running[block["id"]] = kind
            elif kind in RESULTS:
                if running.pop(block["tool_use_id"], None) != RESULTS[kind]:
                    yield f"{kind} without its use {block['tool_use_id']}"
            elif kind == CALL and (caller := (block.get("caller") or {}).get("tool_id")):
                called.add(caller)
                if caller not in running:
                    yield f"a call by {caller}, which does not run"
        if turn.role != "assistant":
            continue
        following = turns[number + 1].blocks if number + 1 < len(turns) else []
        goes_on = all(block["type"] == RESULT for block in following)
        if running and not goes_on:
            yield f"uses without results: {sorted(running)}"
            running = {}
        if set(running) - called and turn.of(CALL):
            yield f"uses without results beside calls: {sorted(set(running) - called)}"
