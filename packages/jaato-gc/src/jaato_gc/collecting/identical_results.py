"""Shortens results that a later result repeats as a whole, before a strategy is asked.

Nothing is lost with a copy, so no strategy should have to give up an exchange for one. Copies go in
recent turns too, except those of the last calls.
"""

from jaato_gc.collecting.draft import Draft
from jaato_gc.collecting.shortening import WORTH_SHORTENING, Shortening, shortened
from jaato_gc.history import Group
from jaato_gc.messages import Message
from jaato_gc.tokens import as_text

IDENTICAL = "identical"
"""The reason in the removal list."""
SAME_LATER = Shortening("a later call returned the same")


def shorten_identical(draft: Draft) -> None:
    """Shortens results to a note, oldest first, until the goal is reached.

    The newest of equal results is not shortened in this collection. A strategy may remove it: see
    `restore_last_copies`.
    """
    if not draft.goal.tokens_to_free:
        return
    newest: dict[str, Group] = {}
    copies: list[tuple[Message, int, Group]] = []
    for group in reversed(draft.groups):
        for message in reversed(group.messages):
            if any(part.inline_data for part in message.parts):
                continue  # a note would take the image of its result along
            for index, part in enumerate(message.parts):
                answer = part.function_response
                text = as_text(answer.result) if answer else ""
                if len(text) < WORTH_SHORTENING:
                    continue
                later = newest.setdefault(text, group)
                if later is not group and not group.hold:
                    copies.append((message, index, later))
    for message, index, later in reversed(copies):
        if not draft.needs_more:
            return
        shorter = shortened(
            draft.current(message), SAME_LATER, parts=[index], key=draft.recall_key(message)
        )
        draft.shorten(message, shorter, message.message_id, IDENTICAL, True)
        draft.copies[message.message_id] = later
        draft.copied.add(id(later))


def restore_last_copies(draft: Draft) -> None:
    """Makes the results whole again whose newest copy was removed after all."""
    draft.take_back(
        message_id
        for message_id, later in draft.copies.items()
        if draft.is_removed(later) and not draft.is_removed(draft.group_of[message_id])
    )
