"""Records of a replay, used by tables, reports and checks."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReplayedRequest:
    """One request of a replayed run.

    Args:
        turn: Number of the user turn, starting at 1.
        tokens: Input tokens, including tool schemas and system prompt.
        by_source: Input tokens by source: ``system``, ``tools``, ``user``, ``model``,
            ``thoughts``, ``calls``, ``results``, ``synthetic``.
        cached_tokens: Input tokens of the prefix shared with the previous request.
        output_tokens: Tokens of the answer.
        fits: Whether the request fits into the window. A request that does not fit can't be sent.
        idle_seconds: Time since the previous request, if the recording has times. After the
            lifetime of the prompt cache, nothing is read from it.
    """

    turn: int
    tokens: int
    by_source: dict[str, int]
    cached_tokens: int
    output_tokens: int
    fits: bool = True
    idle_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ReplayedCollection:
    """One collection of a replayed run.

    Args:
        request: Position of the next request in the list of requests.
        turn: Number of the user turn, starting at 1.
        trigger: The trigger reason.
        outcome: The outcome.
        tokens_before: Tokens before the collection.
        tokens_after: Tokens after the collection.
        freed_by_reason: Freed tokens by removal reason.
        rewritten_tokens: Tokens after the first change, which the provider can't read from its
            cache.
        seconds: Duration in seconds.
        error: The error message, or ``None`` if the collection succeeded.
        before_by_source: Tokens by source before the collection, as in `ReplayedRequest`.
        after_by_source: Tokens by source after the collection.
        freed_by_tool: Freed tokens of calls and results, by tool.
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
    before_by_source: dict[str, int] = field(default_factory=dict)
    after_by_source: dict[str, int] = field(default_factory=dict)
    freed_by_tool: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loss:
    """A name that the model used after the last message that showed it was removed.

    Args:
        name: The path, identifier or number.
        request: Position of the request that lacked the name, in the list of requests.
        removed_at: Position of the collection that removed the name, in the list of collections.
    """

    name: str
    request: int
    removed_at: int


@dataclass(frozen=True, slots=True)
class BlindEdit:
    """An edit that quotes text which is not in the context any more.

    Args:
        tool: The tool that edits.
        request: Position of the request that lacked the text, in the list of requests.
        line: One of the missing lines, normalized; empty if the run was over before the edit.
    """

    tool: str
    request: int
    line: str


@dataclass(slots=True)
class ReplayReport:
    """The replay of one transcript with one strategy in one window.

    Args:
        transcript: Name of the transcript.
        strategy: Name of the strategy; ``none`` for the run without collection.
        context_limit: Window size in tokens.
        threshold_percent: Usage at which a collection starts, in percent of the window.
        target_percent: Usage that a collection aims for, in percent of the window.
        requests: All requests, in order.
        collections: All collections, in order.
        cannot_fit: Whether the fixed content alone (system prompt, tools, the first and the newest
            user message) exceeds the window. Then no strategy can help.
        overflows: Number of requests that did not fit into the window.
        violations: Descriptions of what a provider would reject. Expected to be empty.
        edits: Number of edits that quote text which the recording showed before.
        blind_edits: Those whose quoted text was not in the context any more. After a request that
            did not fit, all of them.
        context_used: Number of uses of names in calls that an earlier message showed.
        context_lost: Those whose original surroundings were not in the context any more. After a
            request that did not fit, all of them.
        names_used: Number of uses of names that an earlier message showed.
        names_lost: Those that no message showed any more. After a request that did not fit, all of
            them.
        losses: The names that were used after they were removed.
        rereads: Number of files that were needed again after their content was removed.
        reread_tokens: Tokens of the tool results that would have to be fetched again.
        cost: Cost of the whole run. Requests that did not fit are priced as if they had been sent.
        seconds: Time spent on collections, in seconds.
        lookup_cost: Minimum additional cost of looking up removed content again.
        currency: Currency of ``cost`` and ``lookup_cost``.
        model: Model whose prices apply.
        unpriced_model: The model that the recording names, if the prices of another model apply
            because it has no known price.
        counter: Name of the token counter.
        distribution: Name and version of the distribution that has the strategy; empty for the run
            without collection and for contenders.
    """

    transcript: str
    strategy: str
    context_limit: int
    threshold_percent: float
    target_percent: float
    requests: list[ReplayedRequest] = field(default_factory=list)
    collections: list[ReplayedCollection] = field(default_factory=list)
    cannot_fit: bool = False
    overflows: int = 0
    violations: list[str] = field(default_factory=list)
    edits: int = 0
    blind_edits: list[BlindEdit] = field(default_factory=list)
    context_used: int = 0
    context_lost: int = 0
    names_used: int = 0
    names_lost: int = 0
    losses: list[Loss] = field(default_factory=list)
    rereads: int = 0
    reread_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    lookup_cost: float = 0.0
    currency: str = "USD"
    model: str = ""
    unpriced_model: str | None = None
    counter: str = ""
    distribution: str = ""

    @property
    def total_cost(self) -> float:
        """Cost of the run plus the cost of repeated lookups."""
        return self.cost + self.lookup_cost

    @property
    def input_tokens(self) -> int:
        """Total input tokens of all requests."""
        return sum(request.tokens for request in self.requests)

    @property
    def cached_tokens(self) -> int:
        """Total input tokens that the provider could read from its cache."""
        return sum(request.cached_tokens for request in self.requests)

    @property
    def output_tokens(self) -> int:
        """Total tokens of all answers."""
        return sum(request.output_tokens for request in self.requests)

    @property
    def peak_tokens(self) -> int:
        """Input tokens of the largest request."""
        return max((request.tokens for request in self.requests), default=0)

    @property
    def mean_tokens(self) -> float:
        """Mean input tokens of a request."""
        return self.input_tokens / len(self.requests) if self.requests else 0.0

    @property
    def refused_at(self) -> int | None:
        """Position of the first request that did not fit; ``None`` if all of them did.

        The run counts as over from there.
        """
        return next((at for at, request in enumerate(self.requests) if not request.fits), None)

    @property
    def played(self) -> float:
        """Fraction of the requests before the first one that did not fit, from 0 to 1."""
        return 1.0 if self.refused_at is None else self.refused_at / len(self.requests)

    @property
    def freed_by_reason(self) -> Counter[str]:
        """Freed tokens of all collections, by removal reason."""
        freed: Counter[str] = Counter()
        for collection in self.collections:
            freed.update(collection.freed_by_reason)
        return freed
