"""A provider that binds thinking blocks to what was sent before them. It knows no format.

Written from the documentation of Anthropic's preserved thinking alone: a block is valid while the
system prompt, the tools and everything said before it are as they were in the request that it
answers. Thinking blocks are not part of that, but they stay an unbroken run of those that were
there: the oldest may go, none between others, and none comes back. Cache marks do not count.
"""

import json
from typing import Any, NamedTuple

Fields = dict[str, Any]
THINKING = ("thinking", "redacted_thinking")


class Bound(NamedTuple):
    """What a thinking block was made from."""

    view: str
    previous: str | None


class ThinkingProvider:
    """Remembers each thinking block that it gave, and refuses a request that changed its past."""

    def __init__(self) -> None:
        self.kept = 0
        self._made: dict[str, Bound] = {}
        self._sent: Fields = {}
        self._last: str | None = None

    def receive(self, request: Fields) -> list[str]:
        """Returns the reasons for which the request is refused."""
        refused: list[str] = []
        previous: str | None = None
        for where, place, block in _thoughts(request):
            made = self._made[_seal(block)]
            if made.view != _view(request, *place):
                refused.append(f"{where}: bound to a different conversation")
            elif previous is not None and made.previous != previous:
                refused.append(f"{where}: the thought before it is another one")
            previous = _seal(block)
            self.kept += 1
        for number, message in enumerate(request["messages"]):
            if not message["content"]:
                refused.append(f"messages.{number}: empty")
        self._sent = json.loads(json.dumps(request))
        self._last = previous
        return refused

    def answer(self, content: list[Fields]) -> Fields:
        """Returns an answer to the last request, whose thoughts are remembered."""
        said = {"role": "assistant", "content": content}
        messages = [*self._sent["messages"], said]
        with_answer = {**self._sent, "messages": messages}
        for _, (number, index), block in _thoughts(with_answer):
            if number == len(messages) - 1:
                view = _view(with_answer, number, index)
                self._made[_seal(block)] = Bound(view, self._last)
                self._last = _seal(block)
        return {**said, "type": "message", "usage": {"input_tokens": 0, "output_tokens": 0}}


def _seal(block: Fields) -> str:
    return str(block.get("signature") or block.get("data"))


def _thoughts(request: Fields) -> list[tuple[str, tuple[int, int], Fields]]:
    return [
        (f"messages.{number}.content.{index}", (number, index), block)
        for number, message in enumerate(request["messages"])
        for index, block in enumerate(_blocks(message["content"]))
        if block["type"] in THINKING
    ]


def _view(request: Fields, number: int, index: int) -> str:
    messages = [
        {**message, "content": _said(_blocks(message["content"]))}
        for message in request["messages"][:number]
    ]
    own = _said(_blocks(request["messages"][number]["content"])[:index])
    system, tools = _blocks(request.get("system") or []), request.get("tools") or []
    return json.dumps(_unmarked([system, tools, messages, own]), sort_keys=True)


def _blocks(content: Any) -> list[Fields]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _said(blocks: list[Fields]) -> list[Fields]:
    return [block for block in blocks if block["type"] not in THINKING]


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if isinstance(value, dict):
        return {key: _unmarked(each) for key, each in value.items() if key != "cache_control"}
    return value
