"""The APIs of the loopback server, with a scripted model that calls tools and then answers.

Another model may say anything else; a strict provider then holds every request against what it
remembers.
"""

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from loopback_rules import (
    Fields,
    RefusedError,
    check_anthropic,
    check_chat,
    check_gemini,
    check_responses,
    refuse_if,
    seal,
)
from strict_provider import PROVIDERS, StrictProvider

TEXT = "I have read the files, and they say what you think."
CALLS_BY_ROUND = [2, 1]
"""The number of parallel tool calls in each round of a turn. After the last round, it answers."""


Model = Callable[[Fields, list[str], int], list[tuple[str, Fields]]]
"""A scripted model: called with the request, the names of its tools, and how often it has called
tools since the last user message. Returns the names and arguments of its next calls.
"""


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    id: str
    name: str
    args: Fields


class Api(ABC):
    """One API: validates requests and builds the scripted model's responses."""

    format: ClassVar[str]
    path: ClassVar[str]
    items_key: ClassVar[str]
    too_long: ClassVar[tuple[str, str | None]]

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._files = itertools.count(1)
        self.model: Model = self._read_files
        self.speaker: Callable[[Fields], Any] | None = None
        """Returns what an answer says, instead of the calls of the model."""
        self.strict: StrictProvider = PROVIDERS[self.format]()

    def _read_files(
        self,
        request: Fields,  # noqa: ARG002
        tools: list[str],
        rounds: int,
    ) -> list[tuple[str, Fields]]:
        """Calls the first tool some times, and then answers."""
        count = CALLS_BY_ROUND[rounds] if tools and rounds < len(CALLS_BY_ROUND) else 0
        return [(tools[0], {"path": f"file_{next(self._files)}.txt"}) for _ in range(count)]

    def respond(self, request: Fields, window: int) -> Fields:
        """Returns the response to a request.

        Raises:
            RefusedError: The request is invalid or does not fit into the window.
        """
        tokens = size(request)
        message, code = self.too_long
        refuse_if(tokens > window, message.format(tokens=tokens, window=window), code)
        if self.speaker is None:
            self.check(request)
            chosen = self.model(request, self.tool_names(request), self.rounds(request))
            calls = [Call(f"call_{next(self._numbers)}", name, args) for name, args in chosen]
            return self.answer(request, self.content(request, calls), tokens)
        for fault in self.strict.receive(request):
            raise RefusedError(fault)
        said = self.speaker(request)
        self.strict.answered(said)
        return self.answer(request, said, tokens)

    @abstractmethod
    def check(self, request: Fields) -> None: ...

    @abstractmethod
    def rounds(self, request: Fields) -> int:
        """Returns how often the model has called tools since the last user message."""

    @abstractmethod
    def tool_names(self, request: Fields) -> list[str]: ...

    @abstractmethod
    def content(self, request: Fields, calls: list[Call]) -> Any:
        """Returns what an answer with these calls says; without calls, a text."""

    @abstractmethod
    def answer(self, request: Fields, content: Any, tokens: int) -> Fields:
        """Returns the response with what it says."""

    @abstractmethod
    def refusal(self, refused: RefusedError) -> Fields:
        """Returns the body of a response with status 400."""

    def events(self, answer: Fields) -> Iterator[tuple[str | None, Fields]]:
        """Yields the name and data of the events of a streamed response."""
        yield None, answer


def size(request: Fields) -> int:
    """Returns the tokens of a request, which this server counts as a quarter of its characters."""
    return len(json.dumps(request)) // 4


class Chat(Api):
    """OpenAI's Chat Completions API."""

    format = "openai-chat"
    path = "/v1/chat/completions"
    items_key = "messages"
    too_long = (
        "This model's maximum context length is {window} tokens. However, your messages resulted "
        "in {tokens} tokens. Please reduce the length of the messages.",
        "context_length_exceeded",
    )

    def check(self, request: Fields) -> None:
        check_chat(request)

    def rounds(self, request: Fields) -> int:
        roles = [message["role"] for message in request["messages"]]
        return roles[_last(roles, "user") :].count("assistant")

    def tool_names(self, request: Fields) -> list[str]:
        return [tool["function"]["name"] for tool in request.get("tools") or ()]

    def content(self, request: Fields, calls: list[Call]) -> Fields:  # noqa: ARG002
        message: Fields = {
            "role": "assistant",
            "content": None if calls else TEXT,
            "refusal": None,
            "annotations": [],
        }
        if calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.args)},
                }
                for call in calls
            ]
        return message

    def answer(self, request: Fields, content: Fields, tokens: int) -> Fields:
        finish = "tool_calls" if content.get("tool_calls") else "stop"
        choice = {"index": 0, "message": content, "finish_reason": finish, "logprobs": None}
        usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
        return {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1,
            "model": request["model"], "choices": [choice], "usage": usage,
        }  # fmt: skip

    def refusal(self, refused: RefusedError) -> Fields:
        error = {"type": "invalid_request_error", "param": self.items_key, "code": refused.code}
        return {"error": {"message": refused.message, **error}}

    def events(self, answer: Fields) -> Iterator[tuple[str | None, Fields]]:
        [choice] = answer["choices"]
        message = dict(choice["message"])
        text, calls = message.pop("content"), message.pop("tool_calls", [])
        deltas = [{**message, "content": "" if text else None}]
        deltas += [{"content": piece} for piece in (_words(text) if text else ())]
        for number, call in enumerate(calls):
            function = call["function"]
            start = {"index": number, **call, "function": {**function, "arguments": ""}}
            pieces = [
                {"index": number, "function": {"arguments": piece}}
                for piece in function["arguments"].partition(":")
            ]
            deltas += [{"tool_calls": [piece]} for piece in (start, *pieces)]
        frame = {**answer, "object": "chat.completion.chunk", "usage": None}
        for delta in deltas:
            yield None, {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
        yield None, {**frame, "choices": [last]}
        yield None, {**frame, "choices": [], "usage": answer["usage"]}


class Responses(Api):
    """OpenAI's Responses API with ``store=False``, which returns encrypted reasoning."""

    format = "openai-responses"
    path = "/v1/responses"
    items_key = "input"
    too_long = (
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
        "context_length_exceeded",
    )

    def __init__(self) -> None:
        super().__init__()
        self._bound: dict[str, str] = {}
        self._answers = itertools.count(1)

    def check(self, request: Fields) -> None:
        check_responses(request, self._bound)

    def rounds(self, request: Fields) -> int:
        items = [{}] if isinstance(request["input"], str) else request["input"]
        roles = [item.get("role") or item.get("type") for item in items]
        return roles[_last(roles, "user") :].count("reasoning")

    def tool_names(self, request: Fields) -> list[str]:
        return [tool["name"] for tool in request.get("tools") or ()]

    def content(self, request: Fields, calls: list[Call]) -> list[Fields]:  # noqa: ARG002
        number = next(self._answers)
        reasoning = f"rs_{number}"
        output: list[Fields] = [
            {
                "id": reasoning, "type": "reasoning",
                "summary": [{"type": "summary_text", "text": f"Thought number {number}."}],
                "encrypted_content": seal("reasoning", reasoning),
            }
        ]  # fmt: skip
        if calls:
            output += [
                {
                    "id": f"fc_{call.id}", "type": "function_call", "call_id": call.id,
                    "name": call.name, "arguments": json.dumps(call.args), "status": "completed",
                }
                for call in calls
            ]  # fmt: skip
        else:
            text = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
            message = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
            output.append({**message, "status": "completed", "content": [text]})
        self._bound |= {item["id"]: reasoning for item in output[1:2]}
        return output

    def answer(self, request: Fields, content: list[Fields], tokens: int) -> Fields:
        return {
            "id": "resp_1", "object": "response", "created_at": 1, "status": "completed",
            "model": request["model"], "output": content, "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": request.get("tools", []), "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {},
            "usage": {
                "input_tokens": tokens, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 10},
                "total_tokens": tokens + 20,
            },
        }  # fmt: skip

    def refusal(self, refused: RefusedError) -> Fields:
        error = {"type": "invalid_request_error", "param": self.items_key, "code": refused.code}
        return {"error": {"message": refused.message, **error}}

    def events(self, answer: Fields) -> Iterator[tuple[str | None, Fields]]:
        created = {**answer, "status": "in_progress", "output": [], "usage": None}
        numbers = itertools.count()

        def event(kind: str, **fields: Any) -> tuple[str, Fields]:
            return kind, {"type": kind, "sequence_number": next(numbers), **fields}

        yield event("response.created", response=created)
        for index, item in enumerate(answer["output"]):
            yield event("response.output_item.added", output_index=index, item=item)
            yield event("response.output_item.done", output_index=index, item=item)
        yield event("response.completed", response=answer)


class Anthropic(Api):
    """Anthropic's Messages API."""

    format = "anthropic"
    path = "/v1/messages"
    items_key = "messages"
    too_long = "prompt is too long: {tokens} tokens > {window} maximum", None

    def check(self, request: Fields) -> None:
        check_anthropic(request)

    def rounds(self, request: Fields) -> int:
        def speaker(message: Fields) -> str:
            content = message["content"]
            is_result = isinstance(content, list) and content[0]["type"] == "tool_result"
            return "tool" if is_result else str(message["role"])

        roles = [speaker(message) for message in request["messages"]]
        return roles[_last(roles, "user") :].count("assistant")

    def tool_names(self, request: Fields) -> list[str]:
        return [tool["name"] for tool in request.get("tools") or ()]

    def content(self, request: Fields, calls: list[Call]) -> list[Fields]:
        content: list[Fields] = []
        if "thinking" in request:
            thought = f"There are {len(request['messages'])} messages to think about."
            signature = seal("thinking", thought)
            content.append({"type": "thinking", "thinking": thought, "signature": signature})
        if calls:
            content += [
                {
                    "type": "tool_use",
                    "id": f"toolu_{call.id}",
                    "name": call.name,
                    "input": call.args,
                }
                for call in calls
            ]
        else:
            content.append({"type": "text", "text": TEXT})
        return content

    def answer(self, request: Fields, content: list[Fields], tokens: int) -> Fields:
        stops = {"tool_use": "tool_use", "server_tool_use": "pause_turn"}
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": request["model"],
            "content": content, "stop_reason": stops.get(content[-1]["type"], "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": tokens - tokens // 2, "cache_read_input_tokens": tokens // 2,
                "cache_creation_input_tokens": 0, "output_tokens": 20,
            },
        }  # fmt: skip

    def refusal(self, refused: RefusedError) -> Fields:
        error = {"type": "invalid_request_error", "message": refused.message}
        return {"type": "error", "error": error, "request_id": "req_1"}

    def events(self, answer: Fields) -> Iterator[tuple[str | None, Fields]]:
        started = {**answer, "content": [], "stop_reason": None}
        yield "message_start", {"type": "message_start", "message": started}
        for index, block in enumerate(answer["content"]):
            start, deltas = _streamed(block)
            opening = {"type": "content_block_start", "index": index, "content_block": start}
            yield "content_block_start", opening
            for delta in deltas:
                change = {"type": "content_block_delta", "index": index, "delta": delta}
                yield "content_block_delta", change
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        stopped = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        usage = {"output_tokens": answer["usage"]["output_tokens"]}
        yield "message_delta", {"type": "message_delta", "delta": stopped, "usage": usage}
        yield "message_stop", {"type": "message_stop"}


def _streamed(block: Fields) -> tuple[Fields, list[Fields]]:
    """Returns the empty block that starts a stream, and its deltas."""
    if block["type"] in ("tool_use", "server_tool_use", "mcp_tool_use"):
        pieces = json.dumps(block["input"]).partition(":")
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return {**block, "input": {}}, deltas
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [thought, signature]
    if block["type"] != "text":
        return block, []  # sent whole
    texts = _words(block["text"])
    return {**block, "text": ""}, [{"type": "text_delta", "text": text} for text in texts]


def _words(text: str) -> list[str]:
    """Returns the pieces in which a text is streamed."""
    first, *others = text.split(" ")
    return [first, *(f" {word}" for word in others)]


class Gemini(Api):
    """Google's generateContent API, with a model that signs its calls."""

    format = "gemini"
    path = "/models/"
    items_key = "contents"
    too_long = (
        "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).",
        None,
    )

    def check(self, request: Fields) -> None:
        check_gemini(request)

    def rounds(self, request: Fields) -> int:
        roles = [
            "tool" if any("functionResponse" in part for part in content["parts"])
            else content.get("role", "user")
            for content in request["contents"]
        ]  # fmt: skip
        return roles[_last(roles, "user") :].count("model")

    def tool_names(self, request: Fields) -> list[str]:
        declared = [tool["functionDeclarations"] for tool in request.get("tools") or ()]
        return [declaration["name"] for each in declared for declaration in each]

    def content(self, request: Fields, calls: list[Call]) -> Fields:  # noqa: ARG002
        parts: list[Fields] = [
            {
                "functionCall": {"name": call.name, "args": call.args},
                "thoughtSignature": seal("call", call.name, call.args),
            }
            for call in calls
        ]
        for part in parts[1:]:  # Google signs only the first of several parallel calls
            del part["thoughtSignature"]
        return {"role": "model", "parts": parts or [{"text": TEXT}]}

    def answer(self, request: Fields, content: Fields, tokens: int) -> Fields:  # noqa: ARG002
        return {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": tokens, "candidatesTokenCount": 10, "thoughtsTokenCount": 10,
                "totalTokenCount": tokens + 20,
            },
            "modelVersion": "scripted", "responseId": "1",
        }  # fmt: skip

    def refusal(self, refused: RefusedError) -> Fields:
        error = {"code": 400, "message": refused.message, "status": "INVALID_ARGUMENT"}
        return {"error": error}

    def events(self, answer: Fields) -> Iterator[tuple[str | None, Fields]]:
        [candidate] = answer["candidates"]
        pieces: list[Fields] = []
        for part in candidate["content"]["parts"]:
            texts = _words(part["text"]) if "text" in part else []
            pieces += [{**part, "text": text} for text in texts] or [part]
        for number, piece in enumerate(pieces, 1):
            content = {"content": {"role": "model", "parts": [piece]}, "index": 0}
            is_last = number == len(pieces)
            end = {"finishReason": candidate["finishReason"]} if is_last else {}
            yield None, {**answer, "candidates": [{**content, **end}]}


def _last(roles: list[Any], role: str) -> int:
    """Returns the position of the last message with a role, or 0."""
    return max((number for number, each in enumerate(roles) if each == role), default=0)
