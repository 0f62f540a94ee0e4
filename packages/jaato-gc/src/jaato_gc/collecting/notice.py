"""The notice that tells the model that something was removed."""

from collections.abc import Sequence

from jaato_gc.collecting.draft import Draft
from jaato_gc.history import Edit, apply_edits, opens_with_user
from jaato_gc.messages import NOTICE_ID, SYSTEM, fill_template, is_notice, notice_message
from jaato_gc.tokens import count_tokens, message_tokens


def reserve_notice(draft: Draft) -> None:
    """Reserves the tokens that a notice costs at most, beyond the one that it replaces."""
    template = draft.request.notice
    if template is None:
        return
    counter = draft.counter
    tokens = count_tokens(draft.history, counter)
    text = _notice_text(template, draft, tokens, len(draft.turns))
    held = draft.must_stay
    notices = (message for message in draft.history if is_notice(message))
    old = count_tokens((each for each in notices if each.message_id not in held), counter)
    draft.notice_reserve = max(0, message_tokens(notice_message(text), counter) - old)


def add_notice(draft: Draft) -> None:
    """Adds a notice, if one is wanted, unless it costs more than is freed or misses the goal."""
    template = draft.request.notice
    if template is None or NOTICE_ID in draft.must_stay:
        return  # not wanted, or the old one is LOCKED or pinned
    edits = draft.edits
    if any(is_notice(message) for edit in edits for message in edit[1:3] if message):
        return  # there was no room for the old one, or the strategy wrote a new one
    freed, goal = draft.freed, draft.goal
    left = freed - draft.notice_reserve
    elsewhere = sum(removal.tokens for removal in draft.source_removals)
    is_worth_it = left > elsewhere  # it tells of the history only
    misses_goal = left < goal.worst_overflow or left < (goal.tokens_to_free or 0) <= freed
    if is_worth_it and not misses_goal:
        draft.notification = _notice_text(template, draft, freed, draft.turns_removed)
        draft.notice_edits = _notice_edits(draft, edits, draft.notification)


def _notice_text(template: str, draft: Draft, freed: int, removed: int) -> str:
    """Returns the text of a notice about some freed tokens and removed turns."""
    reported = round(draft.budget.ratio * freed) if draft.budget else freed
    values = {
        "removed": removed,
        "truncated": removed - draft.turns_summarized,
        "summarized": draft.turns_summarized,
        "kept": len(draft.turns) - draft.turns_removed,
        "items": len(draft.removals),
        "tokens_freed": reported,
        "freed": reported,
        "strategy": draft.request.plugin_name,
        "reason": draft.reason.value,
    }
    return fill_template(template, values)


def _notice_edits(draft: Draft, edits: Sequence[Edit], text: str) -> list[Edit]:
    """Returns the edits that put a notice into a history, in place of any that it had.

    It follows the first user message, which rarely goes, so it rarely moves. If anything else would
    come first, it follows the system messages. A message that keeps its place stays behind the one
    before it. Held notices stay.
    """
    history, held = draft.history, draft.must_stay
    removals = [
        Edit(position, message, None)
        for position, message in enumerate(history)
        if is_notice(message) and message.message_id not in held
    ]
    after = apply_edits(history, [*edits, *removals])
    place = 0
    # Any message may have a call in an invalid history. Nothing but its results may follow that.
    while place < len(after) and after[place].role is SYSTEM and not after[place].function_calls:
        place += 1
    if opens_with_user(after):
        requests = (at for at, message in enumerate(after) if message.opens_turn)
        place = next((at + 1 for at in requests if not after[at].function_calls), place)
        place -= after[place : place + 1] != [] and after[place].keeps_place
    notice = notice_message(text)
    if len(removals) == 1 and apply_edits(history, edits)[place : place + 1] == [notice]:
        return []  # the same notice is there already
    inserted = {edit.message_id: edit.position for edit in edits if edit.before is None}
    positions = draft.positions | inserted
    follower = after[place] if place < len(after) else None
    position = positions[follower.message_id] if follower else len(history)
    return [Edit(position, None, notice), *removals]
