"""The budget of jaato-server as one of ours: its entries, its figures, its limit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jaato_gc import (
    GCPolicy,
    InstructionBudget,
    InstructionSource,
    Message,
    count_tokens,
)
from jaato_gc_jaato._counter import counter_for
from jaato_gc_jaato._messages import host_id

SUMMARY_KEY = "gc_summary_"
"""The keys under which jaato-server books what a collection wrote, until it counts again."""
_POLICIES = {policy.value: policy for policy in GCPolicy} | {"conditional": GCPolicy.EPHEMERAL}
_STRICTEST_FIRST = tuple(GCPolicy)
_CONVERSATION = InstructionSource.CONVERSATION


class HostBudget:
    """A budget of jaato-server and the same as one of ours.

    Args:
        host: The budget of jaato-server.
        messages: The history, as messages of ours.
        lighter: The tokens that messages have lost since they were booked, by their ids there.
    """

    def __init__(
        self, host: Any, messages: Sequence[Message], lighter: Mapping[str, int] | None = None
    ) -> None:
        self.total_tokens: int = host.total_tokens()
        self._sources = {source.value: source for source in host.entries}
        self._entries = {source.value: entry for source, entry in host.entries.items()}
        conversation = self._entries.get(_CONVERSATION.value)
        self._children: dict[str, Any] = dict(conversation.children) if conversation else {}
        keys = {each: key for key, child in self._children.items() for each in _ids(child)}
        self._booked: dict[str, list[Message]] = {key: [] for key in self._children}
        """The messages under each key of the conversation."""
        unbooked: list[Message] = []
        for message in messages:
            key = keys.get(host_id(message))
            (unbooked if key is None else self._booked[key]).append(message)
        written = [key for key in self._children if key.startswith(SUMMARY_KEY)]
        self._pool = [key for key in written if unbooked and not self._booked[key]]
        """The keys for what collections wrote, together."""
        self._pooled = unbooked if self._pool else []
        figures = [(self.tokens_under(key), booked) for key, booked in self._booked.items()]
        # Versions from 1.0 on count all that is sent, and compare it with what is reported.
        counter = counter_for(figures, counts_suffixes=hasattr(host, "calibration_factor"))
        self.ours = InstructionBudget(
            host.session_id, host.agent_id, context_limit=_limit(host), counter=counter
        )
        self.ours.is_recounted = True
        self.ours.collectable_sources = {_CONVERSATION, InstructionSource.ENRICHMENT}
        self._book(lighter or {})

    def source(self, source: InstructionSource) -> Any:
        """Returns jaato-server's member for a source."""
        return self._sources[source.value]

    def booked_under(self, messages: Iterable[Message]) -> dict[str, list[Message]]:
        """Returns the keys of the conversation that messages are booked under, with these."""
        ids = {message.message_id for message in messages}
        booked = self._booked | dict.fromkeys(self._pool, self._pooled)
        found = {
            key: [message for message in under if message.message_id in ids]
            for key, under in booked.items()
        }
        return {key: under for key, under in found.items() if under}

    def tokens_under(self, key: str) -> int:
        """Returns what jaato-server has booked under a key of the conversation."""
        tokens: int = self._children[key].total_tokens()
        return tokens

    def _book(self, lighter: Mapping[str, int]) -> None:
        for source in InstructionSource:
            entry = self._entries.get(source.value)
            if entry is None:
                continue
            # jaato-server ignores the own tokens of an entry with children.
            own = 0 if entry.children else max(0, entry.tokens)
            self.ours.set_entry(source, own, _policy(entry), entry.label)
            for key, child in entry.children.items():
                if source is _CONVERSATION and key in self._pool:
                    continue
                booked = self._booked[key] if source is _CONVERSATION else []
                lost = sum(lighter.get(host_id(message), 0) for message in booked)
                self.ours.add_child(
                    source,
                    key,
                    max(0, child.total_tokens() - lost),
                    _kept_if_written(_strictest(child), booked),
                    child.label,
                    created_at=child.created_at,
                    message_ids=[message.message_id for message in booked],
                )
        self._book_pool()

    def _book_pool(self) -> None:
        """Divides what is booked for messages that jaato-server has not counted one by one yet."""
        rest = sum(map(self.tokens_under, self._pool))
        weights = [max(1, count_tokens([each], self.ours.counter)) for each in self._pooled]
        weight_left = sum(weights)
        for message, weight in zip(self._pooled, weights, strict=True):
            tokens = round(rest * weight / weight_left)
            rest, weight_left = rest - tokens, weight_left - weight
            policy = _kept_if_written(GCPolicy.EPHEMERAL, [message])
            ids = [message.message_id]
            self.ours.add_child(_CONVERSATION, f"new_{ids[0]}", tokens, policy, message_ids=ids)


def _ids(entry: Any) -> Iterator[str]:
    yield from entry.message_ids
    for child in entry.children.values():
        yield from _ids(child)


def _policy(entry: Any) -> GCPolicy:
    """Returns the policy of an entry; PRESERVABLE for one that only jaato-server knows.

    CONDITIONAL leaves it to another plugin of jaato-server, which GC plugins can't reach: as
    jaato-server does then, it is taken as EPHEMERAL.
    """
    return _POLICIES.get(entry.gc_policy.value, GCPolicy.PRESERVABLE)


def _strictest(entry: Any) -> GCPolicy:
    """Returns the strictest policy of an entry and all below it, which go as a whole."""
    policies = [_policy(entry), *map(_strictest, entry.children.values())]
    return min(policies, key=_STRICTEST_FIRST.index)


def _kept_if_written(policy: GCPolicy, booked: Sequence[Message]) -> GCPolicy:
    """Returns PRESERVABLE for what collections wrote, which jaato-server books like the rest."""
    written = bool(booked) and all(message.synthetic for message in booked)
    return GCPolicy.PRESERVABLE if written and policy is not GCPolicy.LOCKED else policy


def _limit(host: Any) -> int:
    """Returns the largest request, in the unit of the entries.

    Versions from 1.0 on subtract the reserved output, and multiply the total by a factor if the
    provider reported more than they had counted.
    """
    if host.context_limit <= 0:
        return 0  # not known yet
    limit = host.context_limit
    if hasattr(host, "effective_input_limit"):
        limit = host.effective_input_limit()
    return max(1, int(limit / max(1.0, getattr(host, "calibration_factor", 1.0))))
