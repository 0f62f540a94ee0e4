"""The messages that `test_session_machine` appends, and the choices that make them."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCPolicy,
    InlineData,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
)

LOCKED_TOOL = "vault"
"""The tool whose calls and results the session locks."""

WORDS = st.sampled_from([1, 10, 40, 120])
POLICIES = st.sampled_from([*[None] * 8, *GCPolicy])
TOOLS = st.sampled_from(["read_file", "bash", "search", "read_file", "bash", LOCKED_TOOL])
CALL_IDS = st.sampled_from(["unique", "unique", "repeated", "none"])
RESULT_WORDS = st.sampled_from([0, 10, 60, 200, 3_000])
ODD_KINDS = st.sampled_from([*SyntheticKind, "image", "thought", "empty parts"])
BROKEN_KINDS = st.sampled_from(["empty", "orphan", "interruption", "answer first"])


class Filing(NamedTuple):
    """How results are filed."""

    role: Role
    together: bool
    """Whether the results of parallel calls are in one message."""


FILINGS = st.sampled_from(
    [Filing(Role.TOOL, True), Filing(Role.TOOL, False), Filing(Role.USER, True)]
)


class TurnShape(NamedTuple):
    """A turn: a request, some calls with their results, an answer."""

    tools: list[str]
    parallel: bool
    call_ids: str
    result_words: int
    filing: Filing
    policy: GCPolicy | None


TURNS = st.builds(
    TurnShape, st.lists(TOOLS, max_size=3), st.booleans(), CALL_IDS, RESULT_WORDS, FILINGS, POLICIES
)


class Conversation:
    """Makes messages. Every text is new, and an example gets the same ids whenever it runs."""

    def __init__(self) -> None:
        self.open_calls: list[FunctionCall] = []
        """The calls of the last message that no result has answered."""
        self._numbers = itertools.count()

    def message(self, role: Role, *parts: Part, **fields: Any) -> Message:
        """Returns a message with an id of its own, unless one is given."""
        fields = {"message_id": f"m{next(self._numbers)}", **fields}
        return Message(role, list(parts), **fields)

    def say(self, role: Role, words: int, **fields: Any) -> Message:
        """Returns a message of one text."""
        return self.message(role, Part(text=self.text(words)), **fields)

    def text(self, words: int) -> str:
        """Returns a new text of about so many words."""
        return f"text {next(self._numbers)} " + "lorem ipsum " * (words // 2)

    def calls(self, tools: Sequence[str], ids: str, policy: GCPolicy | None = None) -> Message:
        """Returns a message that calls tools, in parallel if there are several."""
        self.open_calls = []
        parts = [Part(text=self.text(2))] if len(tools) > 1 else []
        for name in tools:
            number, place = next(self._numbers), len(self.open_calls)
            call_id = {"unique": f"call_{number}", "repeated": f"call_{place}"}.get(ids)
            call = FunctionCall(call_id, name, {"path": f"src/module_{number}.py"})
            self.open_calls.append(call)
            parts.append(Part(function_call=call))
        return self.message(Role.MODEL, *parts, policy=policy)

    def results(
        self, count: int, words: int, filing: Filing, policy: GCPolicy | None = None
    ) -> list[Message]:
        """Returns the results of so many open calls."""
        parts = []
        for call in self.open_calls[:count]:
            result = {"output": self.text(words)} if words % 3 else self.text(words)
            parts.append(Part(function_response=ToolResult(call.id, call.name, result)))
        self.open_calls = self.open_calls[count:]
        messages = [parts] if filing.together else [[part] for part in parts]
        return [self.message(filing.role, *each, policy=policy) for each in messages]

    def turn(self, shape: TurnShape) -> list[Message]:
        """Returns the messages of a turn."""
        messages = [self.say(Role.USER, 20)]
        rounds = [shape.tools] if shape.parallel else [[tool] for tool in shape.tools]
        for tools in rounds if shape.tools else []:
            messages.append(self.calls(tools, shape.call_ids))
            messages += self.results(3, shape.result_words, shape.filing, shape.policy)
        return [*messages, self.say(Role.MODEL, 20, policy=shape.policy)]

    def odd(self, kind: str, policy: GCPolicy | None = None) -> Message:
        """Returns a message of an unusual kind that can be sent."""
        text = Part(text=self.text(8))
        if kind in list(SyntheticKind):
            return self.message(Role.USER, text, synthetic=SyntheticKind(kind), policy=policy)
        if kind == "image":
            image = InlineData("image/png", b"\x89PNG nonsense", width=80, height=60)
            return self.message(Role.USER, text, Part(inline_data=image))
        if kind == "thought":
            thought = Part(thought="I wonder.", extra={"signature": "c2ln"})
            return self.message(Role.MODEL, thought, text, extra={"cache": True})
        return self.message(Role.MODEL, Part(text=""), text, Part(text=" \n"))

    def broken(self, kind: str) -> Message:
        """Returns a message that a provider refuses, at least if calls are open."""
        self.open_calls = []
        if kind == "empty":
            return self.message(Role.MODEL, Part(text=""))
        if kind == "orphan":
            orphan = ToolResult("call_lost", "bash", self.text(10))
            return self.message(Role.TOOL, Part(function_response=orphan))
        return self.say(Role.USER if kind == "interruption" else Role.MODEL, 10)
