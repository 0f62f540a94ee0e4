"""A recorded run in the form in which it is replayed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaato_gc import Message, Role, repair_history
from jaato_gc.plugin import TokenCounter, as_text, message_tokens
from jaato_gc_formats import Conversation, History

SILENCE = "(nothing was said)"
"""Text of the message that is inserted if no user message exists. Providers require one."""

TOOL_FRAME = 8
"""Token overhead of one tool schema."""


class Recording(NamedTuple):
    """A recorded run that can be sent again, request by request."""

    name: str
    messages: list[Message]
    format: str | None
    request: dict[str, Any] | None
    times: Mapping[str, float]
    """The time of each answer in seconds, by the id of its first message."""
    model: str | None
    """The model that the recording names, if any."""

    @classmethod
    def of(cls, transcript: Conversation | Sequence[Message]) -> "Recording":
        """Returns a recording, repaired if necessary."""
        if isinstance(transcript, History):
            transcript = Conversation("", transcript.format, transcript)
        if not isinstance(transcript, Conversation):
            return cls("", sendable(transcript), None, None, {}, None)
        messages = transcript.messages
        times = {
            messages[moment.position].message_id: moment.at
            for moment in transcript.moments
            if moment.position < len(messages)
        }
        return cls(
            transcript.name,
            sendable(messages),
            messages.format,
            messages.request,
            times,
            transcript.model,
        )


def sendable(messages: Iterable[Message]) -> list[Message]:
    """Returns the messages from the first request to the last answer, repaired if necessary."""
    kept = list(messages)
    requests = [message for message in kept if message.opens_turn and not message.is_empty]
    if not requests:  # only a system prompt starts the run
        requests = [Message.from_text(Role.USER, SILENCE)]
        said = (each for each in enumerate(kept) if not each[1].is_empty)
        not_system = (index for index, each in said if each.role is not Role.SYSTEM)
        kept.insert(next(not_system, len(kept)), requests[0])
    begin = kept.index(requests[0])
    system = [message for message in kept[:begin] if message.role is Role.SYSTEM]
    repaired = repair_history([*system, *kept[begin:]])
    while repaired and repaired[-1].role is not Role.MODEL:
        repaired.pop()
    return repaired


def fixed_tokens(messages: Sequence[Message], counter: TokenCounter) -> int:
    """Returns the most tokens that no strategy may remove from any request of a run.

    These are the system messages that do not go with the messages beside them, the first request,
    and the newest one.
    """
    fixed = (each for each in messages if each.role is Role.SYSTEM and not each.keeps_place)
    system = sum(message_tokens(each, counter) for each in fixed)
    requests = [message_tokens(each, counter) for each in messages if each.opens_turn]
    return system + sum(requests[:1]) + max(requests[1:], default=0)


def tools_tokens_of(request: dict[str, Any] | None, counter: TokenCounter) -> int:
    """Returns the tokens of the tool schemas in a request."""
    tools = (request or {}).get("tools")
    if not isinstance(tools, list):
        return 0
    return sum(TOOL_FRAME + counter.count_text(as_text(tool)) for tool in tools)
