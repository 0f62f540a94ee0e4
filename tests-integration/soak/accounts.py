"""The rules for results and figures, written without the checks of the product."""

from collections.abc import Iterator, Sequence

from jaato_gc import GCOutcome, GCResult, GCSession, InstructionSource, Message
from soak.request_rules import form_of, words_in

FAILURES = (GCOutcome.FAILED, GCOutcome.REJECTED)


def faults_of_result(result: GCResult) -> Iterator[str]:
    """Yields what is wrong with a result by itself."""
    if result.success is (result.outcome in FAILURES):
        yield f"success={result.success} and {result.outcome}"
    if result.items_collected != len(result.removal_list):
        yield f"{result.items_collected} items, and {len(result.removal_list)} in the removal list"
    if not result.success and (result.removal_list or not result.error):
        yield "it failed, and removed something or names no error"
    if min(result.tokens_before, result.tokens_after) < 0:
        yield "a negative figure"


def faults_of_account(
    before: Sequence[Message], after: Sequence[Message], result: GCResult, unbooked: int
) -> Iterator[str]:
    """Yields what is wrong with the account of a collection, given the histories around it."""
    old = {message.message_id: message for message in before}
    new = {message.message_id: message for message in after}
    if not result.success and list(map(form_of, before)) != list(map(form_of, after)):
        yield "it failed, and the history was changed"
    for name, messages, stated in [
        ("before", before, result.tokens_before),
        ("after", after, result.tokens_after),
    ]:
        if stated != words_in(messages) + unbooked:
            yield f"tokens_{name}: {stated}, and there are {words_in(messages)} + {unbooked}"
    changed = {
        message_id
        for message_id, message in old.items()
        if not message.synthetic
        and (message_id not in new or form_of(new[message_id]) != form_of(message))
    }
    listed: list[str] = []
    for item in result.removal_list:
        if item.source is not InstructionSource.CONVERSATION:
            yield f"{item.source} was removed, and nothing is booked there"
            continue
        if unknown := set(item.message_ids) - old.keys():
            yield f"the removal list names unknown messages: {unknown}"
            continue
        freed = words_in(old[each] for each in item.message_ids)
        freed -= words_in(new[each] for each in item.message_ids if each in new)
        if item.tokens_freed != freed:
            yield f"{item.child_key} frees {freed}, not {item.tokens_freed}"
        listed += [each for each in item.message_ids if not old[each].synthetic]
    if sorted(listed) != sorted(changed):
        yield f"the removal list names {sorted(listed)}, and {sorted(changed)} changed"


def faults_of_figures(session: GCSession) -> Iterator[str]:
    """Yields the figures of a session at rest that are not those of a recount."""
    history, budget = session.history, session.budget
    counted = words_in(history)
    if budget.counted_tokens() != counted:
        yield f"the budget counts {budget.counted_tokens()} tokens, and there are {counted}"
    usage = session.get_context_usage()
    if usage["total_tokens"] != int(budget.ratio * counted) + budget.unbooked_tokens:
        corrected = f"{budget.ratio} * {counted} + {budget.unbooked_tokens}"
        yield f"usage has {usage['total_tokens']} tokens, not {corrected}"
    turns = sum(message.opens_turn for message in history)
    if usage["turns"] != turns:
        yield f"usage has {usage['turns']} turns, and there are {turns}"
