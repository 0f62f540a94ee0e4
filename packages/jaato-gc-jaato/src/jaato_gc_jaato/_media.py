"""Media pressure: jaato-server's limit on the bytes of attachments in a history.

Attachments are replaced by jaato-server's own notes, which name the id of the original.
"""

from collections.abc import Iterator, Sequence
from types import ModuleType

from jaato_gc import GCConfig, InstructionBudget, Message
from jaato_gc.plugin import lay_out, protect
from jaato_gc_jaato._host import HostConfig, HostMessage, HostReason

MEDIA_PRESSURE = "media_pressure"
MIME_PREFIXES = ("application/", "audio/", "image/", "text/", "video/")


def is_media_pressure(reason: HostReason) -> bool:
    """Returns whether a collection runs because of attachments."""
    return bool(reason.value == MEDIA_PRESSURE)


def without_excess_media(
    messages: Sequence[Message],
    host_config: HostConfig,
    config: GCConfig,
    budget: InstructionBudget | None,
    gc: ModuleType,
) -> tuple[list[HostMessage], dict[str, int]]:
    """Returns the history with fewer bytes of attachments than the limit, and the tokens freed.

    The oldest attachments go first, those of recent messages last, and those of fixed messages
    never.

    Args:
        messages: The history.
        host_config: The configuration of jaato-server, with the limit.
        config: The same as one of ours.
        budget: The budget.
        gc: jaato-server's package of GC plugins.
    """
    limit: int = host_config.media_bytes_threshold
    lighter: dict[str, HostMessage] = {}
    freed_tokens: dict[str, int] = {}
    total = sum(gc.message_media_bytes(message.origin) for message in messages)
    for message in _by_priority(messages, config, budget):
        if not limit or total < limit:
            break
        original: HostMessage = message.origin
        [evicted], freed, _ = gc.evict_consumed_media([original], MIME_PREFIXES)
        if freed:
            total -= freed
            lighter[message.message_id] = evicted
            tokens = gc.estimate_message_tokens(original) - gc.estimate_message_tokens(evicted)
            freed_tokens[original.message_id] = tokens
    return [lighter.get(each.message_id, each.origin) for each in messages], freed_tokens


def _by_priority(
    messages: Sequence[Message], config: GCConfig, budget: InstructionBudget | None
) -> Iterator[Message]:
    groups = protect(lay_out(messages), config, budget).groups
    for held in (False, True):
        for group in groups:
            if bool(group.hold) is held and not (group.hold and group.hold.is_fixed):
                yield from group.messages
