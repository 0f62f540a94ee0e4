"""Playing a recorded run again, turn by turn, as if a strategy had been at work."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from jaato_gc import (
    ContextFloorError,
    EstimateCounter,
    GCConfig,
    GCPlugin,
    GCPolicy,
    GCResult,
    GCSession,
    InstructionSource,
    Message,
    PluginRegistry,
    Role,
    TokenCounter,
    as_text,
    extractive_summary,
    hookimpl,
    message_tokens,
    repair_history,
)
from jaato_gc_formats import Conversation, History
from jaato_gc_lab._prices import Price, Prices, load_prices
from jaato_gc_lab._regret import Regret
from jaato_gc_lab._reports import Collection, ReplayReport, Request
from jaato_gc_lab._rereads import Rereads
from jaato_gc_lab._sources import Sources
from jaato_gc_lab._validity import Validity

NONE = "none"
"""In the place of a strategy: nothing is collected."""

SILENCE = "(nothing was said)"
"""Stands for a user who never speaks: providers want somebody to begin."""

TOOL_FRAME = 8
"""Tokens that a provider spends on the frame of one tool's schema."""


def replay(
    transcript: Conversation | Sequence[Message],
    strategy: str | GCPlugin = "gc_budget",
    *,
    limit: int,
    config: GCConfig | None = None,
    name: str | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    counter: TokenCounter | None = None,
    registry: PluginRegistry | None = None,
    tools_tokens: int | None = None,
) -> ReplayReport:
    """Play a recorded run again, as if it were live, with a strategy at work.

    For each of the model's answers a request is made of all that came before: what is due is
    collected, and the request is checked, measured and priced. Then the answer is appended as it
    was recorded, whatever the model might have said to the request that it got now; answers that
    directly follow one another are one. At the end of a turn the session may collect again. A
    request that does not fit is counted, and the run goes on. What comes behind the last answer
    is left out: no request was made of it.

    Before that, the recording is made sendable: empty messages go, and what the model said before
    anybody had spoken; calls without results and results without calls are mended.

    The same arguments give the same report, but for the seconds.

    Args:
        transcript: What was recorded: a conversation from a file, or messages.
        strategy: Name of an installed strategy, or a strategy that is ready for use; ``"none"``
            collects nothing, as the baseline to compare with. One that takes a summarizer is given
            core's extractive one, so no model is needed.
        limit: The window, in tokens.
        config: When to collect and how far; its ``plugin_config`` goes to the strategy.
        name: What to call the transcript; what it is called in its file, if not given.
        model: Whose prices count; the price table's default if not given.
        prices: The price table; the one that comes with this package if not given.
        counter: What counts tokens. Core's estimate if not given: it gives the same figures on
            every machine and for every provider, so that runs can be compared. The counter is taken
            for the truth: it also plays the provider that reports what a request has cost.
        registry: Where strategies and formats come from; all that are installed if not given.
        tools_tokens: Tokens of the tools' schemas; counted from the recorded request if not given.

    Raises:
        GCPluginError: There is no such strategy, or it can't be used.
        GCConfigError: An option is unknown, or the model's price is.
    """
    registry = registry or PluginRegistry()
    counter = counter or EstimateCounter()
    recording = _Recording.of(transcript)
    table = prices or load_prices()
    price = table.of(model)
    config = config or GCConfig()
    plugin = make_strategy(strategy, config, registry) if isinstance(strategy, str) else strategy
    log = _Log()
    session = _session(plugin, config, limit, counter, log)
    if tools_tokens is None:
        tools_tokens = _tools_tokens(recording.request, counter)
    if tools_tokens:
        session.budget.add_child(InstructionSource.PLUGIN, "tools", tools_tokens, GCPolicy.LOCKED)
    report = ReplayReport(
        name if name is not None else recording.name,
        plugin.name if plugin else NONE,
        limit,
        session.config.threshold_percent,
        session.config.target_percent,
        currency=price.currency,
        model=table.known(model or table.default),
    )
    validity = Validity(recording.format, recording.request, registry)
    player = _Player(session, log, report, validity, counter, tools_tokens)
    player.play(recording.messages)
    session.close()
    player.settle(price)
    return report


class _Recording(NamedTuple):
    name: str
    messages: list[Message]
    format: str | None
    request: dict[str, Any] | None

    @classmethod
    def of(cls, transcript: Conversation | Sequence[Message]) -> "_Recording":
        name, messages = "", transcript
        if isinstance(messages, Conversation):
            name, messages = messages.name, messages.messages
        if isinstance(messages, History):
            return cls(name, sendable(messages), messages.format, messages.request)
        return cls(name, sendable(messages), None, None)


def sendable(messages: Iterable[Message]) -> list[Message]:
    """A recording from the first request to the last answer, mended where it is broken."""
    said = [message for message in messages if not message.is_empty]
    if not any(message.opens_turn for message in said):  # told by its system prompt alone
        spoken = (index for index, each in enumerate(said) if each.role is not Role.SYSTEM)
        said.insert(next(spoken, len(said)), Message.from_text(Role.USER, SILENCE))
    begin = next(index for index, message in enumerate(said) if message.opens_turn)
    system = [message for message in said[:begin] if message.role is Role.SYSTEM]
    mended = repair_history([*system, *said[begin:]])
    while mended and mended[-1].role is not Role.MODEL:
        mended.pop()
    return mended


def make_strategy(name: str, config: GCConfig, registry: PluginRegistry) -> GCPlugin | None:
    """A strategy by name; ``none`` is nothing.

    One that summarizes does so without a model, and truncates where that can't be made shorter.
    """
    if name == NONE:
        return None
    options = dict(config.plugin_config)
    info = registry.strategies().get(name if name.startswith("gc_") else f"gc_{name}")
    if info and info.config_model and "summarizer" in info.config_model.model_fields:
        options.setdefault("summarizer", extractive_summary)
        options.setdefault("on_summarizer_error", "truncate")
    return registry.create(name, options)


def _session(
    plugin: GCPlugin | None, config: GCConfig, limit: int, counter: TokenCounter, log: "_Log"
) -> GCSession:
    # A registry of its own: no stash of the user's is written to, and no telemetry sent.
    registry = PluginRegistry(load_installed=False)
    registry.register(log, "replay")
    if plugin is None:  # a session without a strategy knows nothing of a configuration
        limit = config.request_limit(limit) or limit
    session = GCSession(context_limit=limit, counter=counter, registry=registry, journal_tokens=0)
    if plugin is not None:
        session.set_gc_plugin(plugin, config)
    return session


def _tools_tokens(request: dict[str, Any] | None, counter: TokenCounter) -> int:
    tools = (request or {}).get("tools")
    if not isinstance(tools, list):
        return 0
    return sum(TOOL_FRAME + counter.count_text(as_text(tool)) for tool in tools)


class _Ended(NamedTuple):
    result: GCResult
    history: tuple[Message, ...]
    seconds: float


class _Log:
    """Listens to the session's collections."""

    def __init__(self) -> None:
        self._ended: list[_Ended] = []

    @hookimpl
    def jaato_gc_after_collect(
        self, result: GCResult, history: tuple[Message, ...], seconds: float
    ) -> None:
        self._ended.append(_Ended(result, history, seconds))

    def take(self) -> list[_Ended]:
        """The collections since the last time."""
        ended, self._ended = self._ended, []
        return ended


class _Player:
    """Plays one recording, and keeps the account."""

    def __init__(
        self,
        session: GCSession,
        log: _Log,
        report: ReplayReport,
        validity: Validity,
        counter: TokenCounter,
        tools_tokens: int,
    ) -> None:
        self._session = session
        self._log = log
        self._report = report
        self._validity = validity
        self._counter = counter
        self._tools_tokens = tools_tokens
        self._sources = Sources(counter, tools_tokens)
        self._regret = Regret()
        self._rereads = Rereads(counter)
        self._recorded: list[Message] = []
        self._live: list[Message] = []
        self._cached = 0
        self._unchecked = True
        self._turn = 0
        self._was_answered = True

    def play(self, messages: Iterable[Message]) -> None:
        """Play all of it."""
        for is_answer, some in groupby(messages, lambda message: message.role is Role.MODEL):
            if is_answer:
                self._answer(list(some))
            else:
                for message in some:
                    self._hear(message)

    def settle(self, price: Price) -> None:
        """Add up what can be known only at the end."""
        report, regret, rereads = self._report, self._regret, self._rereads
        report.losses, report.names_used = regret.losses, regret.names_used
        report.rereads, report.reread_tokens = rereads.count, rereads.tokens
        report.seconds = sum(collection.seconds for collection in report.collections)
        report.overflows = sum(not request.fits for request in report.requests)
        lacking = {loss.request for loss in report.losses} | rereads.requests
        report.cost = price.cost(report.requests)
        report.lookup_cost = price.lookup_cost(report.requests, lacking, rereads.tokens)

    def _hear(self, message: Message) -> None:
        """What is said to the model: by the user, by a tool."""
        if message.opens_turn and self._was_answered:
            if self._turn:
                self._session.after_turn()
                self._note_collections()
            self._turn += 1
            self._was_answered = False
        self._append(message)

    def _answer(self, answer: list[Message]) -> None:
        """What the model says: it has to be asked for."""
        fits = True
        try:
            self._session.before_send()
        except ContextFloorError:
            fits = False
        self._note_collections()
        if self._unchecked:
            self._check()
        position = len(self._report.requests)
        tokens = self._session.budget.total_tokens()
        answered = sum(message_tokens(message, self._counter) for message in answer)
        self._report.requests.append(
            Request(
                turn=self._turn,
                tokens=tokens,
                by_source=self._sources.now(),
                cached_tokens=self._cached,
                output_tokens=answered,
                fits=fits,
            )
        )
        self._cached = tokens
        self._regret.use(answer, position)
        self._rereads.use(answer, position)
        if fits:
            self._session.report_usage(tokens, answered)
        for message in answer:
            self._append(message)
        self._was_answered = True

    def _append(self, message: Message) -> None:
        booked = self._session.append(message)
        self._recorded.append(booked)
        self._live.append(booked)
        self._sources.add(booked)
        self._regret.tell(booked)
        self._rereads.add(booked)

    def _note_collections(self) -> None:
        for ended in self._log.take():
            result, cache = ended.result, ended.result.cache
            changed = cache is not None and cache.first_changed is not None
            if cache is not None and changed:
                self._exchange(ended.history)
                # Tools stand before all messages, and never change.
                self._cached = min(self._cached, self._tools_tokens + cache.prefix_tokens)
            freed: Counter[str] = Counter()
            for item in result.removal_list:
                freed[item.reason] += item.tokens_freed
            self._report.collections.append(
                Collection(
                    request=len(self._report.requests),
                    turn=self._turn,
                    trigger=result.trigger_reason.value,
                    outcome=result.outcome.value if result.outcome else "",
                    tokens_before=result.tokens_before,
                    tokens_after=result.tokens_after,
                    freed_by_reason=dict(freed),
                    rewritten_tokens=cache.rewritten_tokens if cache and changed else 0,
                    seconds=ended.seconds,
                    error=result.error,
                )
            )

    def _exchange(self, after: Sequence[Message]) -> None:
        """Follow what a collection has changed."""
        collection = len(self._report.collections)
        had, has = set(map(id, self._live)), set(map(id, after))
        gone = [message for message in self._live if id(message) not in has]
        come = [message for message in after if id(message) not in had]
        for message in gone:
            self._sources.remove(message)
            self._regret.remove(message, collection)
        for message in come:
            self._sources.add(message)
            self._regret.add(message)
        self._rereads.collected(gone, come)
        self._live = list(after)
        self._unchecked = True

    def _check(self) -> None:
        """See whether a provider would take the request: the first, and after each collection."""
        self._unchecked = False
        request = len(self._report.requests)
        self._report.violations.extend(
            f"request {request}: {fault}"
            for fault in self._validity.new_faults(self._live, self._recorded)
        )
