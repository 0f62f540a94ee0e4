"""What OpenAI's Chat Completions refuses.

Sources: the API reference of ``POST /v1/chat/completions`` (required fields and roles), and the
answers of the live API as quoted in public issue threads; each rule names its own.
"""

from collections.abc import Iterator
from typing import Any

from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Fields


def refusals(request: Fields) -> Iterator[Refusal]:
    """Everything that a request breaks."""
    messages = request.get("messages")
    if not messages:
        yield Refusal("no_messages", "messages", "Invalid 'messages': empty array.")
        return
    yield from _results_follow_calls(messages)
    yield from _content_is_there(messages)


def _results_follow_calls(messages: list[Any]) -> Iterator[Refusal]:
    """Every call is answered right behind its message, and nothing else is answered.

    Sources: https://github.com/shotgun-sh/shotgun/pull/126 (orphaned tool message),
    https://github.com/The-AI-Alliance/cube-harness/pull/136 (dangling tool_calls).
    """
    waiting: dict[str, None] = {}
    caller = 0
    for position, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") in waiting:
                del waiting[message["tool_call_id"]]
            else:
                yield Refusal(
                    "orphaned_result",
                    f"messages.{position}",
                    "messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                )
            continue
        yield from _dangling(caller, waiting)
        calls = message.get("tool_calls") or []
        waiting = {call["id"]: None for call in calls if isinstance(call.get("id"), str)}
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


def _content_is_there(messages: list[Any]) -> Iterator[Refusal]:
    """Only an assistant's message with calls, a refusal or audio may lack content.

    Source: the API reference, "content: required unless tool_calls or function_call is specified".
    """
    for position, message in enumerate(messages):
        instead = ("tool_calls", "function_call", "refusal", "audio")
        if message.get("role") == "assistant" and any(message.get(key) for key in instead):
            continue
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
                f"Invalid 'messages[{position}].content': empty array.",
            )
