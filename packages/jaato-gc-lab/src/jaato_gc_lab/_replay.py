"""Replays a recorded run request by request with a strategy."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

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
    extractive_summary,
)
from jaato_gc.plugin import SummarySettings, TokenCounter, hookimpl, message_tokens
from jaato_gc_formats import Conversation
from jaato_gc_lab._contenders import CONTENDERS, NONE
from jaato_gc_lab._measures import Losses, Rereads, Wanted
from jaato_gc_lab._overhead import Overhead, estimated_overhead
from jaato_gc_lab._prices import Price, Prices, load_prices
from jaato_gc_lab._recording import Recording, fixed_tokens, tools_tokens_of
from jaato_gc_lab._reports import ReplayedCollection, ReplayedRequest, ReplayReport
from jaato_gc_lab._sources import Sources, tokens_by_tool
from jaato_gc_lab._validity import Validity


def replay(
    transcript: Conversation | Sequence[Message],
    strategy: str | GCPlugin = "gc_budget",
    *,
    context_limit: int,
    config: GCConfig | None = None,
    name: str | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    counter: TokenCounter | None = None,
    registry: PluginRegistry | None = None,
    overhead: Overhead = "auto",
) -> ReplayReport:
    """Replays a recorded run with a strategy, as if it were live.

    For each recorded answer the replay builds a request from the preceding messages, collects if
    necessary, and then validates, counts and prices the request. The answer is appended as
    recorded, even if the model would answer the changed request differently. Consecutive answers
    count as one. At the end of a turn the session may collect again. Messages after the last answer
    are ignored, because no request contains them.

    At a request that does not fit, the run counts as over: every name and edit after it counts as
    lost. The replay continues, to show what would have been sent.

    The recording is repaired first: empty messages and model messages before the first user
    message are removed, and calls without results and results without calls are repaired.

    The clock of the session shows the time of the recording, for ``cache_ttl_seconds``. The same
    arguments produce the same report, except for the seconds.

    Args:
        transcript: A conversation from a file, or a list of messages.
        strategy: Name of an installed strategy or of a contender such as ``"keep-last"``, or a
            strategy instance; ``"none"`` for the run without collection. A strategy that needs a
            summarizer gets core's extractive one, so no model is called.
        context_limit: Window size in tokens.
        config: Thresholds and other collection settings; ``plugin_config`` has the options of the
            strategy.
        name: Display name of the transcript; by default its name in the file.
        model: Model whose prices apply; by default the one that the recording names, or the
            default of the price table if it names none with a known price.
        prices: The price table; by default the bundled one.
        counter: Token counter; by default core's estimate, which is the same on every machine and
            for every provider. Its counts also serve as the usage that the provider reports.
        registry: Registry of strategies and formats; by default all installed ones.
        overhead: Tokens of every request that the log does not show (system prompt, tools): a
            number, ``"none"``, or ``"auto"`` to estimate them from the reported usage.

    Raises:
        GCPluginError: The strategy is not installed or can't be used.
        GCConfigError: An option is unknown, or the price table has no price for the model.
    """
    registry = registry or PluginRegistry()
    counter = counter or EstimateCounter()
    recording = Recording.of(transcript)
    table = prices or load_prices()
    priced = table.choose(model, recording.model)
    price = table.of(priced)
    config = config or GCConfig()
    if isinstance(strategy, str):
        if strategy in CONTENDERS:  # options are those of another strategy
            config = config.model_copy(update={"plugin_config": {}})
        used = make_strategy(strategy, config, registry)
    else:
        used = strategy
    log = _Log()
    session = _session(used, config, context_limit, counter, log)
    tools_tokens = tools_tokens_of(recording.request, counter)
    if overhead == "auto":
        tools_tokens += estimated_overhead(transcript, tools_tokens, counter)
    elif overhead != "none":
        tools_tokens += overhead
    if tools_tokens:
        session.budget.add_child(InstructionSource.PLUGIN, "tools", tools_tokens, GCPolicy.LOCKED)
    report = ReplayReport(
        name if name is not None else recording.name,
        used.name if used else NONE,
        context_limit,
        session.config.threshold_percent,
        session.config.target_percent,
        currency=price.currency,
        model=priced,
        unpriced_model=table.unpriced(model, recording.model),
        counter=counter.name,
        distribution=_distribution_of(strategy, registry) if isinstance(strategy, str) else "",
    )
    fixed = tools_tokens + fixed_tokens(recording.messages, counter)
    report.cannot_fit = fixed > (config.request_limit(context_limit) or context_limit)
    validity = Validity(recording.format, recording.request, registry)
    player = _Player(session, log, report, validity, counter, tools_tokens, recording)
    player.play(recording.messages)
    session.close()
    player.finish(price)
    return report


def make_strategy(name: str, config: GCConfig, registry: PluginRegistry) -> GCPlugin | None:
    """Creates a strategy by name, or returns ``None`` for ``"none"``.

    A strategy that summarizes uses core's extractive summarizer by default, and truncates if the
    summary is not shorter.

    Raises:
        GCPluginError: The strategy is not installed or can't be used.
        GCConfigError: An option is unknown or has an invalid value.
    """
    if name == NONE:
        return None
    if name in CONTENDERS:
        return CONTENDERS[name]()
    options = dict(config.plugin_config)
    model = registry.info(name).config_model
    if model and issubclass(model, SummarySettings) and not options.get("extractive"):
        options.setdefault("summarizer", extractive_summary)
        options.setdefault("on_summarizer_error", "truncate")
    return registry.create(name, options)


def _distribution_of(name: str, registry: PluginRegistry) -> str:
    """Returns name and version of the distribution that has a strategy, or an empty string."""
    if name == NONE or name in CONTENDERS:
        return ""
    info = registry.info(name)
    for plugin in registry.plugins():
        if info in plugin.strategies and plugin.distribution:
            return f"{plugin.distribution} {plugin.version}"
    return ""


def _session(
    strategy: GCPlugin | None,
    config: GCConfig,
    context_limit: int,
    counter: TokenCounter,
    log: "_Log",
) -> GCSession:
    # A separate registry keeps the replay out of the user's stash and telemetry.
    registry = PluginRegistry(load_installed=False)
    registry.register(log, "replay")
    if strategy is None:  # a session without a strategy ignores the configuration
        context_limit = config.request_limit(context_limit) or context_limit
    session = GCSession(
        context_limit=context_limit,
        counter=counter,
        registry=registry,
        summarizer=extractive_summary,
        journal_bytes=0,
        clock=lambda: log.now,
    )
    if strategy is not None:
        session.set_gc_plugin(strategy, config)
    return session


class _Ended(NamedTuple):
    result: GCResult
    history: tuple[Message, ...]
    seconds: float


class _Log:
    """Records the collections of a session, and tells it the time of the recording."""

    def __init__(self) -> None:
        self.now = 0.0
        self._ended: list[_Ended] = []

    @hookimpl
    def jaato_gc_after_collect(
        self, result: GCResult, history: tuple[Message, ...], seconds: float
    ) -> None:
        self._ended.append(_Ended(result, history, seconds))

    def take(self) -> list[_Ended]:
        """Returns and forgets the recorded collections."""
        ended, self._ended = self._ended, []
        return ended


class _Player:
    """Replays one recording and fills its report."""

    def __init__(
        self,
        session: GCSession,
        log: _Log,
        report: ReplayReport,
        validity: Validity,
        counter: TokenCounter,
        tools_tokens: int,
        recording: Recording,
    ) -> None:
        self._session = session
        self._log = log
        self._report = report
        self._validity = validity
        self._counter = counter
        self._tools_tokens = tools_tokens
        self._sources = Sources(counter, tools_tokens)
        self._times = recording.times
        self._losses = Losses(Wanted.of(recording.messages))
        self._rereads = Rereads(counter)
        self._recorded: list[Message] = []
        self._live: list[Message] = []
        self._cached = 0
        self._sent_at: float | None = None
        self._unchecked = True
        self._turn = 0
        self._was_answered = True

    def play(self, messages: Iterable[Message]) -> None:
        """Replays all messages."""
        for is_answer, group in groupby(messages, lambda message: message.role is Role.MODEL):
            if is_answer:
                self._answer(list(group))
            else:
                for message in group:
                    self._receive(message)

    def finish(self, price: Price) -> None:
        """Computes the totals of the report."""
        report, losses, rereads = self._report, self._losses, self._rereads
        report.edits, report.blind_edits = losses.edits, losses.blind_edits
        report.context_used, report.context_lost = losses.context_used, losses.context_lost
        report.names_used, report.names_lost = losses.names_used, losses.names_lost
        report.losses = losses.losses
        report.rereads, report.reread_tokens = rereads.count, rereads.tokens
        report.seconds = sum(collection.seconds for collection in report.collections)
        report.overflows = sum(not request.fits for request in report.requests)
        lacking = {loss.request for loss in report.losses} | rereads.requests.keys()
        lacking |= {edit.request for edit in report.blind_edits}
        # Nothing is looked up after a refused request: the run ends there.
        end = len(report.requests) if report.refused_at is None else report.refused_at
        lacking = {request for request in lacking if request < end}
        reread = sum(tokens for request, tokens in rereads.requests.items() if request < end)
        report.cost = price.cost(report.requests)
        report.lookup_cost = price.lookup_cost(report.requests, lacking, reread)

    def _receive(self, message: Message) -> None:
        """Appends a message of the user or a tool."""
        if message.opens_turn and self._was_answered:
            if self._turn:
                self._session.after_turn()
                self._note_collections()
            self._turn += 1
            self._was_answered = False
        self._append(message)

    def _answer(self, answer: list[Message]) -> None:
        """Builds the request for a recorded answer, then appends the answer."""
        self._log.now = self._times.get(answer[0].message_id, self._log.now)
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
            ReplayedRequest(
                turn=self._turn,
                tokens=tokens,
                by_source=self._sources.now(),
                cached_tokens=self._cached,
                output_tokens=answered,
                fits=fits,
                idle_seconds=self._idle_seconds(answer[0]),
            )
        )
        self._cached = tokens
        self._losses.is_over |= not fits
        self._losses.use(answer, position)
        self._rereads.use(answer, position)
        if fits:
            self._session.report_usage(tokens, answered)
        for message in answer:
            self._append(message)
        self._was_answered = True

    def _idle_seconds(self, answer: Message) -> float | None:
        """Returns the time between this answer and the one before it, if both are known."""
        before, self._sent_at = self._sent_at, self._times.get(answer.message_id)
        if before is None or self._sent_at is None:
            return None
        return max(0.0, self._sent_at - before)

    def _append(self, message: Message) -> None:
        booked = self._session.append(message)
        self._recorded.append(booked)
        self._live.append(booked)
        self._sources.add(booked)
        self._losses.add_recorded(booked)
        self._rereads.add(booked)

    def _note_collections(self) -> None:
        for ended in self._log.take():
            result, cache = ended.result, ended.result.cache
            changed = cache is not None and cache.first_changed is not None
            before, by_tool = self._sources.now(), Counter[str]()
            if cache is not None and changed:
                by_tool = self._apply(ended.history)
                # Tool schemas precede all messages and never change.
                self._cached = min(self._cached, self._tools_tokens + cache.prefix_tokens)
            freed: Counter[str] = Counter()
            for item in result.removal_list:
                freed[item.reason] += item.tokens_freed
            self._report.collections.append(
                ReplayedCollection(
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
                    before_by_source=before,
                    after_by_source=self._sources.now(),
                    freed_by_tool=dict(by_tool.most_common()),
                )
            )

    def _apply(self, after: Sequence[Message]) -> Counter[str]:
        """Applies the changes of a collection to the statistics. Returns freed tokens by tool."""
        collection = len(self._report.collections)
        by_tool: Counter[str] = Counter()
        ids_before, ids_after = set(map(id, self._live)), set(map(id, after))
        removed = [message for message in self._live if id(message) not in ids_after]
        added = [message for message in after if id(message) not in ids_before]
        for message in removed:
            self._sources.remove(message)
            self._losses.remove(message, collection)
            by_tool.update(tokens_by_tool(message, self._counter))
        for message in added:
            self._sources.add(message)
            self._losses.add(message)
            by_tool.subtract(tokens_by_tool(message, self._counter))
        self._rereads.collected(removed, added)
        self._live = list(after)
        self._unchecked = True
        return +by_tool

    def _check(self) -> None:
        """Validates the current request. Only the first and those after a collection need it."""
        self._unchecked = False
        request = len(self._report.requests)
        self._report.violations.extend(
            f"request {request}: {fault}"
            for fault in self._validity.new_faults(self._live, self._recorded)
        )
