"""The difference between two histories, in words."""

from collections.abc import Sequence

from jaato_gc import Message


def difference(before: Sequence[Message], after: Sequence[Message]) -> str:
    """Returns what is different in a second history; an empty text if nothing is."""
    if list(before) == list(after):
        return ""
    first = {message.message_id: message for message in before}
    second = {message.message_id: message for message in after}
    common = [each for each in first if each in second]
    found = {
        "missing": [each for each in first if each not in second],
        "new": [each for each in second if each not in first],
        "changed": [each for each in common if first[each] != second[each]],
    }
    if not any(found.values()):
        return f"another order: {[message.message_id for message in after]}"
    return "; ".join(f"{name}: {ids}" for name, ids in found.items() if ids)
