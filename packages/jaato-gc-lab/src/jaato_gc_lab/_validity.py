"""Whether a provider would take what a strategy left: core's rules and those of the provider."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jaato_gc import Message, PluginRegistry, check_history
from jaato_gc_formats import ApiFormat, Refusal, check_request, from_messages


class Validity:
    """Compares what would be sent with what was sent in the recording.

    Only what is new counts: a recording may hold what its provider refuses now, or refused then.

    Args:
        format: The provider's format; ``None`` where messages are checked by core's rules alone.
        request: The other fields of the request.
        registry: Where formats come from.
    """

    def __init__(
        self, format: str | None, request: dict[str, Any] | None, registry: PluginRegistry
    ) -> None:
        info = registry.formats().get(format) if format else None
        can_write = info is not None and isinstance(info.factory(), ApiFormat)
        self._format = format if can_write else None
        self._like = request or {}
        self._registry = registry

    def new_faults(self, sent: Sequence[Message], recorded: Sequence[Message]) -> list[str]:
        """What is wrong with a request that was not wrong in the recording.

        Args:
            sent: The messages of the request.
            recorded: The recording up to there.
        """
        faults: list[str] = [*map(str, _beyond(check_history, sent, recorded, str))]
        if self._format is not None:
            # Places differ once something was removed, so rules are counted.
            faults += map(str, _beyond(self._refusals, sent, recorded, lambda each: each.rule))
        return faults

    def _refusals(self, messages: Sequence[Message]) -> list[Refusal]:
        format, registry = self._format, self._registry
        written = from_messages(messages, format, like=self._like, registry=registry)
        return check_request(written, format, registry=registry)


def _beyond(
    check: Callable[[Sequence[Message]], Sequence[Any]],
    sent: Sequence[Message],
    recorded: Sequence[Message],
    kind_of: Callable[[Any], str],
) -> list[Any]:
    """The faults of a request, but for as many of each kind as the recording has."""
    faults = check(sent)
    if not faults:
        return []
    inherited = Counter(map(kind_of, check(recorded)))
    new = []
    for fault in faults:
        kind = kind_of(fault)
        if inherited[kind]:
            inherited[kind] -= 1
        else:
            new.append(fault)
    return new
