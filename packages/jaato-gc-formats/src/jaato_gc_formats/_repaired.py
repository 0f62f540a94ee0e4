"""Histories that a provider would refuse, made such that it takes them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from jaato_gc import Message, Part, PluginRegistry, Role, repair_history
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._convert import find_api
from jaato_gc_formats._history import Conversation, History, Usage
from jaato_gc_formats._log_format import located


def repaired(history: History, *, registry: PluginRegistry | None = None) -> History:
    """A history that its provider takes; the same one if it does so already.

    Calls without a result get one that says that none was recorded, results without a call and
    empty messages are dropped, and what is misshapen is written anew. What opens a conversation
    before the user does, such as a greeting, is kept where the provider takes it.

    What no change to the messages can mend is left: `check_request` tells.

    Args:
        history: What `to_messages` or `load` made.
        registry: Where formats come from; all that are installed if not given.
    """
    return _repaired(find_api(history.format, registry), history)


def _repaired(api: ApiFormat, history: History) -> History:
    best, fewest = history, len(api.problems(history))
    messages: Sequence[Message] = history
    for mend in _MENDS:
        if not fewest:
            break
        messages = mend(messages)
        mended = History(messages, history.format, history.request)
        left = len(api.problems(mended))
        if left < fewest:
            best, fewest = mended, left
    return best


def repair_conversation(
    conversation: Conversation, *, registry: PluginRegistry | None = None
) -> Conversation:
    """A conversation with its history repaired; its problems are those that are left."""
    before = conversation.messages
    api = find_api(before.format, registry)
    refused = {problem.what for problem in api.problems(before)}
    after = _repaired(api, before)
    noted = [problem for problem in conversation.problems if problem.what not in refused]
    positions = _positions(before, after)
    return replace(
        conversation,
        messages=after,
        problems=noted + located(api.problems(after), ()),
        usage=[
            Usage(each.input_tokens, each.output_tokens, positions[each.position])
            for each in conversation.usage
        ],
        compactions=[positions[each] for each in conversation.compactions],
    )


def _positions(before: Sequence[Message], after: Sequence[Message]) -> list[int]:
    """Where each position of one history is in the other, and its end."""
    found = {message.message_id: position for position, message in enumerate(after)}
    positions = [len(after)] * (len(before) + 1)
    for position in range(len(before) - 1, -1, -1):
        following = positions[position + 1]
        positions[position] = found.get(before[position].message_id, following)
    return positions


# --- what is done to a history, one after the other, until the provider takes it ---


def _answered(messages: Sequence[Message]) -> list[Message]:
    """Every call with its result behind it, and nothing empty; calls that end the history too."""
    end = Message.from_text(Role.USER, "the end")
    whole = [message for message in _bound(messages) if not message.is_empty]
    return [message for message in repair_history([*whole, end]) if message is not end]


def _rewritten(messages: Sequence[Message]) -> list[Message]:
    """All messages written anew from what was understood of them, rather than as they came."""
    return [replace(message, origin=None) for message in messages]


def _outspoken(messages: Sequence[Message]) -> list[Message]:
    """Without messages in which the model only thought, and parts in which nothing is said."""
    spoken = []
    for message in messages:
        parts = [part for part in message.parts if not _says_nothing(part)]
        if any(part.thought is None or part.is_signed for part in parts):
            kept = message if len(parts) == len(message.parts) else message.with_parts(parts)
            spoken.append(replace(kept, origin=None))
    return _answered(spoken)


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Answers that follow each other in one message."""
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else None
        if before and before.role is message.role is Role.MODEL and not before.function_calls:
            fields = {**(before.extra or {}), **(message.extra or {})} or None
            parts = [*before.parts, *message.parts]
            joined[-1] = replace(before, parts=parts, extra=fields, origin=None)
        else:
            joined.append(message)
    return joined


def _opened_by_user(messages: Sequence[Message]) -> list[Message]:
    """Without what was said before the user first spoke."""
    speaks = (
        index
        for index, message in enumerate(messages)
        if message.role is Role.USER and not message.is_tool_output
    )
    first = next(speaks, 0)
    system = [message for message in messages[:first] if message.role is Role.SYSTEM]
    return _answered([*system, *messages[first:]])


_MENDS: tuple[Callable[[Sequence[Message]], list[Message]], ...] = (
    _answered,
    _rewritten,
    _outspoken,
    _joined,
    _opened_by_user,
)


def _says_nothing(part: Part) -> bool:
    if part.function_call or part.function_response or part.inline_data:
        return False
    if part.thought is not None:
        return not part.thought and not part.extra
    return not part.text or part.text.isspace()


def _bound(messages: Iterable[Message]) -> list[Message]:
    """Results that name no call are given the name of the one before them that waits."""
    bound: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if calls := message.function_calls:
            waiting = [call.name for call in calls if not call.id]
        parts = list(message.parts)
        for index, part in enumerate(parts):
            answer = part.function_response
            if answer and not answer.call_id and answer.name not in waiting and waiting:
                named = replace(answer, name=waiting.pop(0))
                parts[index] = replace(part, function_response=named)
        changed = any(one is not other for one, other in zip(parts, message.parts, strict=True))
        bound.append(message.with_parts(parts) if changed else message)
    return bound
