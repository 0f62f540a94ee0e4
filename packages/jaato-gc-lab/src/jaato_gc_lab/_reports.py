"""What a replay found out: plain records that tables, pages and checks are made from."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a replayed run.

    Args:
        turn: The user's turn that it belongs to, from 1 on.
        tokens: What was sent, in tokens, tool schemas and system prompt included.
        by_source: The same by source and kind: ``system``, ``tools``, ``user``, ``model``,
            ``thoughts``, ``calls``, ``results``, ``synthetic``.
        cached_tokens: How much of it the provider had seen as the beginning of the request before.
        output_tokens: What was answered.
        fits: False: it did not fit into the window, and could not have been sent.
    """

    turn: int
    tokens: int
    by_source: dict[str, int]
    cached_tokens: int
    output_tokens: int
    fits: bool = True


@dataclass(frozen=True, slots=True)
class Collection:
    """One collection of a replayed run.

    Args:
        request: Position, in the list of requests, of the first one that came after it.
        turn: The user's turn it happened in, from 1 on.
        trigger: Why it ran.
        outcome: How it ended.
        tokens_before: Tokens before it.
        tokens_after: Tokens after it.
        freed_by_reason: Tokens that went, by the reason given for each item.
        rewritten_tokens: Tokens behind the first change, which the provider has to read anew.
        seconds: How long it took.
        error: What went wrong, if something did.
    """

    request: int
    turn: int
    trigger: str
    outcome: str
    tokens_before: int
    tokens_after: int
    freed_by_reason: dict[str, int]
    rewritten_tokens: int
    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """A name that was used after all that the context said of it was gone.

    Args:
        name: The path, identifier or number.
        request: Position, in the list of requests, of the first that lacked it.
        removed_at: Position, in the list of collections, of the one that took it.
    """

    name: str
    request: int
    removed_at: int


@dataclass(slots=True)
class ReplayReport:
    """One transcript under one strategy in one window.

    Args:
        transcript: Its name.
        strategy: The strategy's name; ``none`` where nothing was collected.
        limit: The window, in tokens.
        threshold_percent: Where a collection starts.
        target_percent: Where it should end.
        requests: Every request, in order.
        collections: Every collection, in order.
        overflows: Requests that did not fit and could not have been sent.
        violations: What a provider would have refused, in words; empty is as it should be.
        losses: What was used after it was gone: "regret".
        names_used: How many uses of names there were that an earlier message had told.
        rereads: Tool results that were gone when the run came back to what they had shown.
        reread_tokens: Their tokens, which an agent would have fetched again.
        cost: Money for the whole run, in the currency of the price table. Requests that did not
            fit are priced as if they had been sent, so that runs can be compared.
        seconds: Time spent collecting.
        lookup_cost: Money that looking up again what was lost would have cost on top, at least.
        currency: Of both.
        model: Whose prices they are.
    """

    transcript: str
    strategy: str
    limit: int
    threshold_percent: float
    target_percent: float
    requests: list[Request] = field(default_factory=list)
    collections: list[Collection] = field(default_factory=list)
    overflows: int = 0
    violations: list[str] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    names_used: int = 0
    rereads: int = 0
    reread_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    lookup_cost: float = 0.0
    currency: str = "USD"
    model: str = ""

    @property
    def total_cost(self) -> float:
        """Money for the run, with looking up again what was lost."""
        return self.cost + self.lookup_cost

    @property
    def input_tokens(self) -> int:
        """Tokens of all requests together."""
        return sum(request.tokens for request in self.requests)

    @property
    def cached_tokens(self) -> int:
        """How many of them the provider could read from its cache."""
        return sum(request.cached_tokens for request in self.requests)

    @property
    def output_tokens(self) -> int:
        """Tokens of all answers together."""
        return sum(request.output_tokens for request in self.requests)

    @property
    def peak_tokens(self) -> int:
        """The largest request."""
        return max((request.tokens for request in self.requests), default=0)

    @property
    def mean_tokens(self) -> float:
        """The mean request."""
        return self.input_tokens / len(self.requests) if self.requests else 0.0

    @property
    def regret(self) -> float:
        """The share of used names that were gone, from 0 to 1."""
        return len(self.losses) / self.names_used if self.names_used else 0.0

    @property
    def freed_by_reason(self) -> Counter[str]:
        """Tokens that went, by reason."""
        freed: Counter[str] = Counter()
        for collection in self.collections:
            freed.update(collection.freed_by_reason)
        return freed
