"""Repairs histories that a provider would refuse."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from jaato_gc import Message, Part, PluginRegistry, Role, repair_history
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._convert import find_api
from jaato_gc_formats._history import Conversation, History, Usage
from jaato_gc_formats._log_format import with_lines
from jaato_gc_formats._wire import original_items


def repaired(history: History, *, registry: PluginRegistry | None = None) -> History:
    """Returns a history that its provider accepts; the same one if it needs no repair.

    A call without a result gets one that says that none was recorded. Results without a call and
    empty messages are removed. Malformed messages are converted again instead of being written as
    the original objects. Messages before the first user message, such as a greeting, are removed
    only if the provider refuses them.

    Problems that no change to the messages can fix remain; `check_request` returns them.

    Args:
        history: A history from `to_messages` or `load`.
        registry: The registry that provides the formats; by default, all installed plugins.
    """
    return _repaired(find_api(history.format, registry), history)


def _repaired(api: ApiFormat, history: History) -> History:
    best, fewest = history, len(api.problems(history))
    messages: Sequence[Message] = history
    for repair in _REPAIRS:
        if not fewest:
            break
        messages = repair(messages)
        candidate = History(messages, history.format, history.request)
        left = len(api.problems(candidate))
        if left < fewest:
            best, fewest = candidate, left
    return best


def repaired_where_refused(api: ApiFormat, history: History) -> History:
    """Returns a history with as few changes as possible, in which less is refused, for a session.

    Messages at fault are converted again, with the calls and results that belong to them. What that
    does not help loses its blank parts and its thoughts.
    """
    refused = _refused_messages(api, history)
    for repair in (_drop_origins, _without_blank_parts):
        if api.problems(history):
            messages = [
                piece
                for message in history
                for piece in (repair([message]) if message.message_id in refused else [message])
            ]
            history = History(messages, history.format, history.request)
    return history


def _refused_messages(api: ApiFormat, history: History) -> set[str]:
    """Returns the ids of the messages at fault, and of the calls and results beside them."""
    written = api.from_messages(history, history.request or {})
    items = written[api.items_key]
    at_fault = {
        id(items[refusal.position])
        for refusal in api.refusals(written)
        if refusal.position is not None
    }
    refused: set[str] = set()
    exchange: list[str] = []
    is_refused = False
    for message in history:
        if not message.is_tool_output:
            exchange, is_refused = [], False
        exchange.append(message.message_id)
        originals = original_items(message, api.name)
        # Which items were written from a message without original ones is not known.
        is_refused |= originals is None or any(id(item) in at_fault for item in originals)
        if is_refused:
            refused.update(exchange)
    return refused


def repair_conversation(
    conversation: Conversation, *, registry: PluginRegistry | None = None
) -> Conversation:
    """Returns a conversation with a repaired history and the problems that remain."""
    before = conversation.messages
    api = find_api(before.format, registry)
    refused = {problem.what for problem in api.problems(before)}
    after = _repaired(api, before)
    noted = [problem for problem in conversation.problems if problem.what not in refused]
    positions = _map_positions(before, after)
    return replace(
        conversation,
        messages=after,
        problems=noted + with_lines(api.problems(after), ()),
        usage=[
            Usage(each.input_tokens, each.output_tokens, positions[each.position])
            for each in conversation.usage
        ],
        compactions=[positions[each] for each in conversation.compactions],
        moments=[replace(each, position=positions[each.position]) for each in conversation.moments],
    )


def _map_positions(before: Sequence[Message], after: Sequence[Message]) -> list[int]:
    """Returns the new position of each message, and of the end of the history.

    The position of a removed message is that of the next message that was kept.
    """
    found = {message.message_id: position for position, message in enumerate(after)}
    positions = [len(after)] * (len(before) + 1)
    for position in range(len(before) - 1, -1, -1):
        following = positions[position + 1]
        positions[position] = found.get(before[position].message_id, following)
    return positions


# --- the repairs, which are applied in order until the provider accepts the history ---


def _add_missing_results(messages: Sequence[Message]) -> list[Message]:
    """Puts calls and results in order, including calls at the end, and removes empty messages."""
    # `repair_history` wants the user to speak first and leaves calls at the end open, so there are
    # temporary messages at both ends.
    start, end = Message.from_text(Role.USER, "start"), Message.from_text(Role.USER, "end")
    repaired = repair_history([start, *_bind_results(messages), end])
    return [message for message in repaired if message is not start and message is not end]


def _drop_origins(messages: Sequence[Message]) -> list[Message]:
    """Makes all messages be converted again instead of being written as the original objects."""
    return [_without_origin(message) for message in messages]


def _without_origin(message: Message) -> Message:
    return message if message.origin is None else replace(message, origin=None)


def _drop_blank_parts(messages: Sequence[Message]) -> list[Message]:
    """Removes blank parts and unsigned thoughts that are alone, and what that leaves without."""
    return _add_missing_results(_without_blank_parts(messages))


def _without_blank_parts(messages: Sequence[Message]) -> list[Message]:
    """Removes blank parts, and messages that contain only unsigned thoughts."""
    kept_messages = []
    for message in messages:
        parts = [part for part in message.parts if not _is_blank(part)]
        if any(part.thought is None or part.is_signed for part in parts):
            kept = message if len(parts) == len(message.parts) else message.with_parts(parts)
            kept_messages.append(_without_origin(kept))
    return kept_messages


def _join_answers(messages: Sequence[Message]) -> list[Message]:
    """Joins consecutive messages of the model."""
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else None
        if before and before.role is message.role is Role.MODEL and not before.function_calls:
            fields = {**(before.extra or {}), **(message.extra or {})} or None
            parts = [*before.parts, *message.parts]
            bonds = [*before.bonds, *message.bonds]
            joined[-1] = replace(before, parts=parts, extra=fields, origin=None, bonds=bonds)
        else:
            joined.append(message)
    return joined


def _drop_opening(messages: Sequence[Message]) -> list[Message]:
    """Removes the messages before the first user message, except system messages."""
    positions = (
        index
        for index, message in enumerate(messages)
        if message.role is Role.USER and not message.is_tool_output
    )
    first = next(positions, 0)
    system = [message for message in messages[:first] if message.role is Role.SYSTEM]
    return _add_missing_results([*system, *messages[first:]])


def _drop_misplaced(messages: Sequence[Message]) -> list[Message]:
    """Removes system messages that do not stand between a user message and an answer."""
    around = zip([None, *messages], messages, [*messages[1:], None], strict=False)
    return [
        message
        for before, message, after in around
        if not message.keeps_place
        or (
            before
            and before.role in (Role.USER, Role.TOOL)
            and (not after or after.role is Role.MODEL)
        )
    ]


_REPAIRS: tuple[Callable[[Sequence[Message]], list[Message]], ...] = (
    _add_missing_results,
    _drop_origins,
    _drop_blank_parts,
    _join_answers,
    _drop_opening,
    _drop_misplaced,
)


def _is_blank(part: Part) -> bool:
    if part.function_call or part.function_response or part.inline_data:
        return False
    if part.thought is not None:
        return not part.thought and not part.extra
    return not part.text or part.text.isspace()


def _bind_results(messages: Iterable[Message]) -> list[Message]:
    """Gives results without a matching call the name of the oldest call without a result."""
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
