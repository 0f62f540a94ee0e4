"""The rules by which OpenAI's Chat Completions API refuses requests.

Sources: the API reference of ``POST /v1/chat/completions`` (required fields and roles), and errors
of the live API quoted in public issue threads. Each rule names its sources. Compatible servers are
often more lenient.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from jaato_gc_formats._openai_chat_content import FOREIGN_CONTENT, mistyped_field
from jaato_gc_formats._refusals import INVALID_TYPE, Refusal, invalid_type
from jaato_gc_formats._wire import Fields, plain

ROLES = ("system", "assistant", "user", "function", "tool", "developer")
INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")


def refusals(request: Fields) -> Iterator[Refusal]:
    """Yields the rules that a request breaks."""
    messages = request.get("messages")
    if not messages:
        yield Refusal(
            "no_messages",
            "messages",
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
        )
        return
    wrong = list(item_refusals(messages))
    yield from wrong
    if all(refusal.rule != INVALID_TYPE for refusal in wrong):
        yield from _results_follow_calls(messages)


def item_refusals(messages: Sequence[Any]) -> Iterator[Refusal]:
    """Yields the rules that messages break by themselves."""
    for position, message in enumerate(messages):
        if path := _mistyped(message):
            yield invalid_type(f"messages[{position}]{path}")
            continue
        yield from _role_is_known(position, message)
        yield from _content_is_there(position, message)
        yield from _blocks_are_chats(position, message)
        yield from _calls_are_the_models(position, message)
        yield from _calls_are_there(position, message)
        yield from _calls_have_names(position, message)
        yield from _result_says_of_what(position, message)


def _mistyped(message: Any) -> str | None:
    """Returns the path of the first field with a wrong type."""
    if not isinstance(message, dict):
        return ""
    if wrong := mistyped_field(message):
        return f".{wrong}"
    content, audio = message.get("content"), plain(message.get("audio"))
    if not isinstance(content, str | list | None):
        return ".content"
    if audio is not None and not (isinstance(audio, dict) and isinstance(audio.get("id"), str)):
        return ".audio"
    for index, block in enumerate(map(plain, content if isinstance(content, list) else ())):
        if not isinstance(block, dict):
            return f".content[{index}]"
        if block.get("type") == "text" and not isinstance(block.get("text"), str):
            return f".content[{index}].text"
    return None


def _results_follow_calls(messages: list[Any]) -> Iterator[Refusal]:
    """Each call has exactly one result, directly after its message; each result has a call.

    Sources: https://github.com/shotgun-sh/shotgun/pull/126 (orphaned tool message),
    https://github.com/The-AI-Alliance/cube-harness/pull/136 (dangling tool_calls),
    https://github.com/agno-agi/agno/issues/5116 (answered twice).
    """
    waiting: dict[str, None] = {}
    answered: dict[str, int] = {}
    caller = 0
    for position, message in enumerate(messages):
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if call_id in waiting:
                del waiting[call_id]
                answered[call_id] = position
            elif call_id in answered:
                yield Refusal(
                    "duplicate_ids",
                    f"messages.{position}.tool_call_id",
                    f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', in "
                    f"messages[{answered[call_id]}] and messages[{position}].",
                )
            else:
                yield Refusal(
                    "orphaned_result",
                    f"messages.{position}",
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'.",
                )
            continue
        yield from _dangling(caller, waiting)
        calls = list(map(plain, message.get("tool_calls") or ()))
        waiting = {call["id"]: None for call in calls if isinstance(call.get("id"), str)}
        answered = {}
        caller = position
        if len(waiting) != len(calls):
            yield Refusal(
                "duplicate_ids",
                f"messages.{position}.tool_calls",
                "Duplicate or missing value for 'id' in 'tool_calls'.",
            )
    yield from _dangling(caller, waiting)


def _dangling(caller: int, waiting: dict[str, None]) -> Iterator[Refusal]:
    if waiting:
        yield Refusal(
            "dangling_call",
            f"messages.{caller}",
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting),
        )


def _role_is_known(position: int, message: Fields) -> Iterator[Refusal]:
    """The role is one of six.

    Source: the API reference; the message is that of its validation.
    """
    if message.get("role") not in ROLES:
        yield Refusal(
            "unknown_role",
            f"messages.{position}.role",
            f"Invalid value: '{message.get('role')}'. Supported values are: 'system', "
            "'assistant', 'user', 'function', 'tool', and 'developer'.",
        )


def _content_is_there(position: int, message: Fields) -> Iterator[Refusal]:
    """Only an assistant message with calls, a refusal or audio may have no content.

    Sources: the API reference (content is required unless there are calls),
    https://github.com/langchain-ai/langchainjs/issues/4153 (the message).
    """
    if message.get("role") == "assistant" and any(message.get(key) for key in INSTEAD_OF_CONTENT):
        return
    if message.get("content") is None:
        yield Refusal(
            "empty_content",
            f"messages.{position}.content",
            "Invalid value for 'content': expected a string, got null.",
        )
    elif message["content"] == []:
        yield Refusal(
            "empty_content",
            f"messages.{position}.content",
            f"Invalid 'messages[{position}].content': empty array. Expected an array with minimum "
            "length 1, but got an empty array instead.",
        )


def _blocks_are_chats(position: int, message: Fields) -> Iterator[Refusal]:
    """Blocks have types of this API.

    Only types of other APIs are refused: compatible servers have more than OpenAI, such as the
    thinking of Mistral, which is a list.

    Source: the API reference; the messages are those of its validation.
    """
    content = message.get("content")
    for index, block in enumerate(map(plain, content if isinstance(content, list) else ())):
        kind = block.get("type")
        if kind not in FOREIGN_CONTENT or isinstance(block.get("thinking"), list):
            continue
        where = f"messages[{position}].content[{index}].type"
        said = f"Missing required parameter: '{where}'."
        if kind is not None:
            said = f"Invalid value: '{kind}'. Supported values are: 'text', 'image_url', "
            said += "'input_audio', 'refusal', and 'file'."
        yield Refusal("foreign_block", where, said)


def _calls_have_names(position: int, message: Fields) -> Iterator[Refusal]:
    """Each call names its function or its custom tool.

    Source: the API reference; the message is that of its validation.
    """
    for index, call in enumerate(map(plain, message.get("tool_calls") or ())):
        kind = "custom" if call.get("type") == "custom" else "function"
        if not plain(call.get(kind) or {}).get("name"):
            where = f"messages[{position}].tool_calls[{index}].{kind}.name"
            yield Refusal("missing_name", where, f"Missing required parameter: '{where}'.")


def _calls_are_the_models(position: int, message: Fields) -> Iterator[Refusal]:
    """Only assistant messages have function calls.

    Source: https://github.com/microsoft/autogen/issues/113.
    """
    if message.get("role") != "assistant" and message.get("function_call"):
        yield Refusal(
            "wrong_role",
            f"messages.{position}.function_call",
            "Invalid parameter: only messages with role 'assistant' can have a function call.",
        )


def _calls_are_there(position: int, message: Fields) -> Iterator[Refusal]:
    """A list of calls is not empty.

    Source: https://github.com/openai/openai-node/pull/1341.
    """
    if message.get("tool_calls") == []:
        yield Refusal(
            "empty_calls",
            f"messages.{position}.tool_calls",
            f"Invalid 'messages[{position}].tool_calls': empty array. Expected an array with "
            "minimum length 1, but got an empty array instead.",
        )


def _result_says_of_what(position: int, message: Fields) -> Iterator[Refusal]:
    """A tool message has the id of its call, and a function message the name of its function.

    Sources: the API reference (tool_call_id is required),
    https://github.com/langchain-ai/langchainjs/issues/6570 (name).
    """
    role = message.get("role")
    wanted = {"tool": "tool_call_id", "function": "name"}.get(str(role))
    if wanted and not message.get(wanted):
        yield Refusal(
            f"missing_{wanted}",
            f"messages.{position}.{wanted}",
            f"Missing parameter '{wanted}': messages with role '{role}' must have a '{wanted}'.",
        )
