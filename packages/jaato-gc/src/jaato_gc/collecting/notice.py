"""The notice that tells the model that something was removed."""

from collections.abc import Container, Sequence

from jaato_gc.collecting.collection import Collection
from jaato_gc.collecting.outcome import Changes
from jaato_gc.history import Edit, apply_edits, opens_with_user
from jaato_gc.messages import Message, Role, fill_template, is_notice, notice_message
from jaato_gc.tokens import count_tokens, message_tokens


def notice_cost(notice: str | None, collection: Collection, plugin_name: str) -> int:
    """Returns the tokens that a notice costs at most, beyond the one that it replaces."""
    if notice is None:
        return 0
    counter = collection.counter
    tokens = count_tokens(collection.history, counter)
    text = notice_text(notice, collection, plugin_name, tokens, len(collection.turns))
    old = count_tokens(filter(is_notice, collection.history), counter)
    return max(0, message_tokens(notice_message(text), counter) - old)


def notice_text(
    notice: str, collection: Collection, plugin_name: str, freed: int, removed: int
) -> str:
    """Returns the text of a notice about some freed tokens and removed turns."""
    values = {
        "removed": removed,
        "truncated": removed - collection.turns_summarized,
        "summarized": collection.turns_summarized,
        "kept": len(collection.turns) - collection.turns_removed,
        "items": len(collection.items),
        "tokens_freed": freed,
        "freed": freed,
        "plugin_name": plugin_name,
        "reason": collection.reason.value,
    }
    return fill_template(notice, values)


def notice_edits(
    history: Sequence[Message], changes: Changes, text: str, held: Container[str] = ()
) -> list[Edit]:
    """Returns the edits that put a notice into a history, in place of any that it had.

    It follows the first user message, which rarely goes, so it rarely moves. If anything else would
    come first, it follows the system messages. Notices in ``held`` stay.
    """
    edits = [change for change in changes if isinstance(change, Edit)]
    removals = [
        Edit(position, message, None)
        for position, message in enumerate(history)
        if is_notice(message) and message.message_id not in held
    ]
    after = apply_edits(history, [*edits, *removals])
    place = 0
    while place < len(after) and after[place].role is Role.SYSTEM:
        place += 1
    while place < len(after) and after[place].is_tool_output:
        place += 1
    if opens_with_user(after):  # a request with a call is invalid, and nothing may follow that
        requests = (at for at, each in enumerate(after) if each.opens_turn)
        place = next((at + 1 for at in requests if not after[at].function_calls), place)
    notice = notice_message(text)
    if len(removals) == 1 and apply_edits(history, edits)[place : place + 1] == [notice]:
        return []  # the same notice is there already
    positions = {message.message_id: position for position, message in enumerate(history)}
    positions |= {edit.message_id: edit.position for edit in edits if edit.before is None}
    follower = after[place] if place < len(after) else None
    position = positions[follower.message_id] if follower else len(history)
    return [Edit(position, None, notice), *removals]
