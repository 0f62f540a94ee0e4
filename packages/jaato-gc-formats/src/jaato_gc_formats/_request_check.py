"""The checks of what a `ProviderSession` takes and sends.

What one item breaks by itself is refused when it is appended, where the fault is. What items break
together is refused before the request is sent. With ``repair=True``, both are repaired if possible.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaato_gc import GCConfigError, GCError, InvalidHistoryError, Message, repair_history
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._errors import FormatError, reading
from jaato_gc_formats._history import History
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._repair import repaired_where_refused
from jaato_gc_formats._wire import Fields, plain, preview

MAX_LISTED = 3
"""The number of refusals that an error text lists."""


def item_refusals(api: ApiFormat, items: Sequence[Any]) -> list[Refusal]:
    """Returns the reasons for which the API would refuse items, whatever is before and after."""
    with reading("an item"):
        return list(api.check_items([plain(item) for item in items]))


def refused_items(refusals: Sequence[Refusal], items: Sequence[Any]) -> FormatError:
    """Returns the error for items that can't be appended."""
    return FormatError(
        f"{_listed(refusals, items)}. Nothing was appended: correct it, or if it is of another "
        "provider, convert it with to_messages and from_messages"
    )


def sendable(api: ApiFormat, message: Message) -> Message | None:
    """Returns a new message, converted again if the API would refuse its original items.

    Returns ``None`` if the API would refuse it then too, or nothing of it is left.
    """
    if not item_refusals(api, api.write([message])):
        return message
    message = replace(message, origin=None)
    written = api.write([message])
    return message if written and not item_refusals(api, written) else None


def may_be_alone(api: ApiFormat, message: Message) -> bool:
    """Returns whether the API accepts an answer that nothing else of the model follows."""
    user = api.user_item("Go on.")
    return not api.refusals([user, *api.write([message]), user])


def refused_request(refusals: Sequence[Refusal], items: Sequence[Any], *, repairs: bool) -> GCError:
    """Returns the error for a request that can't be sent.

    Args:
        refusals: The reasons.
        items: The items of the request.
        repairs: Whether the session repairs what it can.
    """
    said = _listed(refusals, items)
    if all(refusal.position is None for refusal in refusals):
        return GCConfigError(f"the arguments of the call do not fit the history: {said}")
    hint = "" if repairs else ", or open the session with repair=True"
    return InvalidHistoryError(
        f"the history can't be sent: {said}. Remove or replace it in the session{hint}",
        list(refusals),
    )


def repaired_messages(
    api: ApiFormat, messages: Sequence[Message], request: Fields
) -> list[Message]:
    """Returns messages that the API accepts.

    Args:
        api: The provider's format.
        messages: The messages of a request that the API would refuse.
        request: The other fields of the request.

    Raises:
        InvalidHistoryError: It would refuse them then too.
    """
    fixed = repaired_where_refused(api, History(repair_history(messages), api.name, request))
    written = api.from_messages(fixed, request)
    if left := api.refusals(written):
        raise refused_request(left, written[api.items_key], repairs=True)
    return list(fixed)


def _listed(refusals: Sequence[Refusal], items: Sequence[Any]) -> str:
    """Returns refusals in words, each with the item that is refused."""
    texts = []
    for refusal in refusals[:MAX_LISTED]:
        at = refusal.position
        which = refusal.where if at is None else f"item {at} ({preview(plain(items[at]))})"
        texts.append(f"{which} is refused: {refusal.message.rstrip('.')} [{refusal.rule}]")
    return "; ".join(texts)
