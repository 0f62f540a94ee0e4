"""Anthropic's rules about neighbours, written from its documentation, and a model to keep them.

The checks share no code with jaato_gc_formats: they are what its requests are held against.
"""

import random
from collections.abc import Iterator
from typing import Any

Fields = dict[str, Any]
SERVER_RESULTS = {
    "web_search": "web_search_tool_result",
    "code_execution": "code_execution_tool_result",
}
LOCKED = "LOCKED "
"""How a system message begins that the host locks."""


def faults(request: Fields) -> list[str]:
    """Returns the reasons for which the API would refuse the messages of a request."""
    messages = request["messages"]
    return [*_places(messages), *_calls(messages), *_server_tools(messages)]


def _blocks(message: Fields) -> list[Fields]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _places(messages: list[Fields]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield "the first message is not the user's"
    for at, message in enumerate(messages):
        if message["role"] != "system":
            continue
        before = messages[at - 1]
        ends_on_server = before["role"] == "assistant" and (
            "server_tool_use" in _blocks(before)[-1]["type"]
            or _blocks(before)[-1]["type"] in SERVER_RESULTS.values()
        )
        if at == 0 or not (before["role"] == "user" or ends_on_server):
            yield f"{at}: a system message follows {before['role']}"
        if messages[at + 1 :] and messages[at + 1]["role"] != "assistant":
            yield f"{at}: {messages[at + 1]['role']} follows a system message"


def _calls(messages: list[Fields]) -> Iterator[str]:
    waiting: set[str] = set()
    for at, message in enumerate(messages):
        blocks = _blocks(message)
        if message["role"] == "user":
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            if not waiting.issuperset(results):
                yield f"{at}: a result without its call"
            waiting -= set(results)
        elif waiting:
            yield f"{at}: calls without results: {waiting}"
            waiting = set()
        waiting |= {block["id"] for block in blocks if block["type"] == "tool_use"}


def _server_tools(messages: list[Fields]) -> Iterator[str]:
    used: set[str] = set()
    done: set[str] = set()
    last = max(at for at, each in enumerate(messages) if each["role"] != "system")
    running: set[str] = set()
    for at, message in enumerate(messages):
        calls = set()
        for block in _blocks(message):
            if block["type"] == "server_tool_use":
                used.add(block["id"])
            if block["type"] in SERVER_RESULTS.values():
                if block["tool_use_id"] not in used:
                    yield f"{at}: the result of {block['tool_use_id']} without its use"
                done.add(block["tool_use_id"])
            if "caller" in block:
                calls.add(block["caller"]["tool_id"])
                if block["caller"]["tool_id"] not in used - done:
                    yield f"{at}: a call by {block['caller']['tool_id']}, which is not running"
        is_last_answer = message["role"] == "assistant" and at >= last - 1
        running |= (used - done if at == last else calls) if is_last_answer else set()
    if used - done - running:
        yield f"uses without results: {used - done - running}"


class Model:
    """Answers as the model does: with calls, code that calls tools, searches, and pauses.

    Args:
        chance: Decides.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._made = 0
        self._running: list[Fields] = []
        """The uses of server tools that have no result yet."""

    def _id(self, kind: str) -> str:
        self._made += 1
        return f"{kind}_{self._made}"

    def resume(self, running: list[Fields]) -> None:
        """Goes on with uses that have no result yet, in the history of a restored session, say."""
        self._running = running

    def answer(self, request: Fields) -> list[Fields]:
        """Returns the blocks of the next answer. Without calls and a pause it ends the turn.

        A tool of the server goes on only if its use is in the request.
        """
        sent = [block.get("id") for each in request["messages"] for block in _blocks(each)]
        self._running = [use for use in self._running if use["id"] in sent]
        blocks = self._finished()
        if self._running:
            return [*blocks, self._call(self._running[0]["id"])]
        kind = self._chance.choice(["text", "calls", "calls", "code", "pause", "search"])
        if kind == "calls":
            return [*blocks, *(self._call() for _ in range(self._chance.choice([1, 1, 3])))]
        if kind == "text":
            return [*blocks, self._text()]
        name = "code_execution" if kind == "code" else "web_search"
        use: Fields = {
            "type": "server_tool_use",
            "id": self._id("srvtoolu"),
            "name": name,
            "input": {},
        }
        if kind == "search":
            return [*blocks, use, self._result_of(use), self._text()]
        self._running.append(use)
        said = [self._text()] if self._chance.random() < 0.5 else []
        return [*blocks, *said, use, *([self._call(use["id"])] if kind == "code" else [])]

    @property
    def is_paused(self) -> bool:
        """Whether the API stopped while a tool of its own runs."""
        return bool(self._running)

    def _finished(self) -> list[Fields]:
        if self._running and (
            self._running[0]["name"] == "web_search" or self._chance.random() < 0.6
        ):
            return [self._result_of(self._running.pop(0))]
        return []

    def _result_of(self, use: Fields) -> Fields:
        found = {"type": "web_search_result", "title": "word " * 60, "url": "https://example.com"}
        ran = {"type": "code_execution_result", "stdout": "word " * 60, "stderr": ""}
        content: Any = {**ran, "return_code": 0, "content": []}
        if use["name"] == "web_search":
            content = [{**found, "encrypted_content": "sealed", "page_age": None}]
        return {
            "type": SERVER_RESULTS[use["name"]], "tool_use_id": use["id"], "content": content
        }  # fmt: skip

    def _call(self, code: str | None = None) -> Fields:
        call = {
            "type": "tool_use", "id": self._id("toolu"), "name": "read", "input": {"path": "a.py"}
        }  # fmt: skip
        if code:
            call["caller"] = {"type": "code_execution_20250825", "tool_id": code}
        return call

    def _text(self) -> Fields:
        return {"type": "text", "text": f"Step {self._made}. " + "word " * 30}
