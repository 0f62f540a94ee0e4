"""Checks requests after a collection against the rules of core and of the provider."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jaato_gc import Message, PluginRegistry, check_history
from jaato_gc_formats import ApiFormat, Refusal, check_request, from_messages


class Validity:
    """Finds violations in a request that its recording does not have.

    Violations of the recording itself do not count, because no strategy caused them.

    Args:
        format: API format of the provider; ``None`` to apply the rules of core only.
        request: The other fields of the request.
        registry: Registry of formats.
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
        """Returns the violations of a request that the recording does not have.

        Args:
            sent: Messages of the request.
            recorded: The recording up to the request.
        """
        faults: list[str] = [*map(str, _new(check_history, sent, recorded, str))]
        if self._format is not None:
            # Compared by rule, because a removal shifts the positions of the messages.
            faults += map(str, _new(self._refusals, sent, recorded, lambda each: each.rule))
        return faults

    def _refusals(self, messages: Sequence[Message]) -> list[Refusal]:
        format, registry = self._format, self._registry
        written = from_messages(messages, format, like=self._like, registry=registry)
        return check_request(written, format, registry=registry)


def _new(
    check: Callable[[Sequence[Message]], Sequence[Any]],
    sent: Sequence[Message],
    recorded: Sequence[Message],
    kind_of: Callable[[Any], str],
) -> list[Any]:
    """Returns the violations of a request that exceed those of the recording, by kind."""
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
