"""Models of all providers that answer at random, with everything that their APIs can say.

A model sees the request alone, as a real one does: what it began, it goes on with if its beginning
is still there.
"""

import random
from abc import ABC, abstractmethod
from typing import Any

import placed_messages
from loopback_rules import seal

Fields = dict[str, Any]
SAID = "The files say what you think. " * 6
USES = ("server_tool_use", "mcp_tool_use")


class Model(ABC):
    """Answers requests. Its ids are unique.

    Args:
        chance: Decides.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.made = 0

    def number(self) -> int:
        self.made += 1
        return self.made

    def arguments(self) -> Fields:
        return {"path": f"src/file_{self.chance.randrange(30)}.py", "text": "x " * 20}

    def text(self) -> str:
        return f"Step {self.number()}. {SAID}"

    @abstractmethod
    def answer(self, request: Fields) -> Any:
        """Returns what the next answer says, in the form in which it is sent back."""


class ChatModel(Model):
    """Calls tools, often several at once, answers, speaks, or refuses."""

    def answer(self, request: Fields) -> Fields:  # noqa: ARG002
        kind = self.chance.choice(["calls", "calls", "calls", "text", "text", "audio", "refusal"])
        said: Fields = {"role": "assistant", "content": None}
        if kind == "calls":
            calls = [self._call() for _ in range(self.chance.choice([1, 1, 2, 4]))]
            return {**said, "tool_calls": calls}
        if kind == "audio":
            return {**said, "audio": {"id": f"audio_{self.number()}"}}
        if kind == "refusal":
            return {**said, "refusal": "I can't help with that."}
        return {**said, "content": self.text()}

    def _call(self) -> Fields:
        arguments = str(self.arguments()).replace("'", '"')
        function = {"name": "read_file", "arguments": arguments}
        return {"id": f"call_{self.number()}", "type": "function", "function": function}


class ResponsesModel(Model):
    """Reasons before calls and texts, searches, uses MCP, and runs programs that call tools."""

    def answer(self, request: Fields) -> list[Fields]:
        if program := _running_program(request):
            if self.chance.random() < 0.5:
                return [self._call(program)]
            output: Fields = {"type": "program_output", "call_id": program, "result": "done"}
            return [{"id": f"prg_{self.number()}", **output}, *self._thought(), self._message()]
        kind = self.chance.choice(["calls", "calls", "steps", "text", "text", "tools", "program"])
        if kind == "calls":
            calls = [self._call() for _ in range(self.chance.choice([1, 1, 2, 4]))]
            return [*self._thought(), *calls]
        if kind == "steps":
            return [*self._thought(1), self._call(), *self._thought(1), self._call()]
        if kind == "tools":
            return [*self._thought(), self._by_server(), *self._thought(0.3), self._message()]
        if kind == "program":
            call_id = f"call_{self.number()}"
            began = {"type": "program", "call_id": call_id, "code": "read(1)", "fingerprint": "f"}
            return [*self._thought(), {"id": f"prg_{self.number()}", **began},
                    self._call(call_id)]  # fmt: skip
        return [*self._thought(), self._message()]

    def _thought(self, often: float = 0.7) -> list[Fields]:
        if self.chance.random() >= often:
            return []
        item_id = f"rs_{self.number()}"
        sealed = seal("reasoning", item_id)
        return [{"id": item_id, "type": "reasoning", "summary": [], "encrypted_content": sealed}]

    def _message(self) -> Fields:
        text = {"type": "output_text", "text": self.text(), "annotations": []}
        said = {"type": "message", "role": "assistant", "status": "completed", "content": [text]}
        return {"id": f"msg_{self.number()}", **said}

    def _call(self, program: str | None = None) -> Fields:
        number = self.number()
        arguments = str(self.arguments()).replace("'", '"')
        call = {
            "id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}",
            "name": "read_file", "arguments": arguments, "status": "completed",
        }  # fmt: skip
        return {**call, **({"caller": _program(program)} if program else {})}

    def _by_server(self) -> Fields:
        if self.chance.random() < 0.5:
            action = {"type": "search", "query": "files"}
            search = {"type": "web_search_call", "status": "completed", "action": action}
            return {"id": f"ws_{self.number()}", **search}
        call = {"type": "mcp_call", "server_label": "docs", "name": "find", "arguments": "{}"}
        return {"id": f"mcp_{self.number()}", **call, "output": "found " * 40}


def _program(program: str) -> Fields:
    return {"type": "program", "caller_id": program}


def _running_program(request: Fields) -> str | None:
    """Returns the call id of the program without output whose calls came last."""
    done = {item["call_id"] for item in request["input"] if item.get("type") == "program_output"}
    last = max((at for at, each in enumerate(request["input"]) if "role" in each), default=0)
    for item in request["input"][last:]:
        program = (item.get("caller") or {}).get("caller_id")
        if program and program not in done:
            return str(program)
    return None


class AnthropicModel(Model):
    """Thinks, calls tools, searches, pauses, uses MCP, and runs code that calls tools."""

    def __init__(self, chance: random.Random, *, thinks: bool = True) -> None:
        super().__init__(chance)
        self._thinks = thinks
        self._speaker = placed_messages.Model(chance)

    def answer(self, request: Fields) -> list[Fields]:
        self._speaker.resume(_running_uses(request))
        if not self._speaker.is_paused and self.chance.random() < 0.15:
            return [*self._thought(), *self._mcp(), *self._thought(), *self._end()]
        return [*self._thought(), *self._speaker.answer(request)]

    def _thought(self) -> list[Fields]:
        if not self._thinks or self.chance.random() < 0.3:
            return []
        number = self.number()
        if self.chance.random() < 0.2:
            return [{"type": "redacted_thinking", "data": f"sealed_{number}"}]
        thought = f"Thought {number}. " * self.chance.choice([0, 5])
        return [{"type": "thinking", "thinking": thought, "signature": f"signed_{number}"}]

    def _mcp(self) -> list[Fields]:
        use_id = f"mcptoolu_{self.number()}"
        use = {"type": "mcp_tool_use", "id": use_id, "name": "find", "input": {}}
        found = [{"type": "text", "text": "found " * 40}]
        result = {"type": "mcp_tool_result", "tool_use_id": use_id, "is_error": False}
        return [{**use, "server_name": "docs"}, {**result, "content": found}]

    def _end(self) -> list[Fields]:
        if self.chance.random() < 0.5:
            return [{"type": "text", "text": self.text()}]
        call = {"type": "tool_use", "id": f"toolu_own_{self.number()}", "name": "read"}
        return [{**call, "input": self.arguments()}]


def _running_uses(request: Fields) -> list[Fields]:
    """Returns the uses of server tools that have no result."""
    said = [
        block
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    done = {each["tool_use_id"] for each in said if each["type"].endswith("_tool_result")}
    return [each for each in said if each["type"] in USES and each["id"] not in done]


class GeminiModel(Model):
    """Thinks, calls tools with a signature on the first call, answers, and runs code."""

    def answer(self, request: Fields) -> Fields:  # noqa: ARG002
        kind = self.chance.choice(["calls", "calls", "calls", "text", "text", "code"])
        parts: list[Fields] = []
        if self.chance.random() < 0.4:
            parts.append({"text": f"Thought {self.number()}.", "thought": True})
        if kind == "calls":
            parts += self._calls()
        elif kind == "code":
            code = {"language": "PYTHON", "code": "print(1)"}
            result = {"outcome": "OUTCOME_OK", "output": "1"}
            parts += [{"executableCode": code}, {"codeExecutionResult": result}]
            parts.append({"text": self.text()})
        else:
            parts.append({"text": self.text()})
        return {"role": "model", "parts": parts}

    def _calls(self) -> list[Fields]:
        parts: list[Fields] = []
        for _ in range(self.chance.choice([1, 1, 2, 4])):
            call = {"name": "read_file", "args": self.arguments()}
            sealed = {} if parts else {"thoughtSignature": seal("call", call["name"], call["args"])}
            parts.append({"functionCall": call, **sealed})
        return parts


MODELS: dict[str, type[Model]] = {
    "openai-chat": ChatModel,
    "openai-responses": ResponsesModel,
    "anthropic": AnthropicModel,
    "gemini": GeminiModel,
}
