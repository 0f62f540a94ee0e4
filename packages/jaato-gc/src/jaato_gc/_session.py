"""The session: asks a strategy when and what, checks the answer, and keeps everything in step."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jaato_gc._budget import InstructionBudget
from jaato_gc._collector import Collector
from jaato_gc._config import GCConfig
from jaato_gc._context import Context
from jaato_gc._errors import ContextFloorError, GCError, InvalidHistoryError
from jaato_gc._journal import DEFAULT_JOURNAL_TOKENS, GCPlan, Journal
from jaato_gc._ledger import Ledger, PolicyOf
from jaato_gc._messages import Message, Role
from jaato_gc._observers import BudgetListener, Observers
from jaato_gc._policies import GCPolicy, InstructionSource
from jaato_gc._profiles import DEFAULT_PROFILES, load_gc_from_profile, load_gc_inline
from jaato_gc._provider import Answer, Provider, ToolHandler
from jaato_gc._registry import PluginRegistry
from jaato_gc._repair import repair_history
from jaato_gc._results import GCResult, GCTriggerReason
from jaato_gc._runner import Runner, SourceRemover
from jaato_gc._stash import Stash
from jaato_gc._state import dump, load
from jaato_gc._strategy import GCPlugin
from jaato_gc._tokens import TokenCounter
from jaato_gc._turn_loop import Turn, run, run_async, turn
from jaato_gc._turns import split_into_turns

logger = logging.getLogger("jaato_gc")

ThresholdCallback = Callable[[float, float], None]
"""Told the percentage used and the threshold that it crossed."""


class GCSession:
    """A conversation that never outgrows its window.

    The session holds history and budget. A host with its own loop uses it at four points of a turn:
    :meth:`append` whatever is said, :meth:`before_send` to get the request, :meth:`report_usage`
    while and after the answer streams, :meth:`after_turn` at the end.

    Whatever the strategy does, the session guarantees: a request that does not fit is not sent, an
    invalid one neither; nothing LOCKED, pinned or recent is lost; a collection is applied whole or
    not at all, and can be undone.

    Args:
        provider: Sends a request to the model; only :meth:`send_message` needs it.
        tools: Runs the model's tool calls; without it, calls are left to the host.
        context_limit: The model's window, in tokens.
        counter: What counts tokens; chosen by ``model`` where not given.
        model: The model's name, to choose a counter by.
        registry: Where plugins come from.
        session_id: For the budget's snapshots.
        agent_id: Whose session it is, for displays.
        agent_type: What kind of agent that is.
        policy_of: Says how dear a message is; ``None`` from it means the default.
        tool_policies: How dear the calls and results of a tool are, by the tool's name.
        on_source_removed: Called with source and key before a collection drops something that is
            not in the history (tool schemas, enrichment). Without it they are never collected.
        on_instruction_budget_updated: Called with a snapshot of the budget after every change.
        ui_hooks: An object with ``on_agent_instruction_budget_updated(agent_id, snapshot)``.
        stash: Where removed messages go before they are removed.
        journal_tokens: How much removed content is kept in memory to undo collections.
        deadline_seconds: How long a collection may take; beyond it, the strategy is disabled.
        repair: Mend a broken history before sending it, instead of raising.
    """

    def __init__(
        self,
        provider: Provider | None = None,
        *,
        tools: ToolHandler | None = None,
        context_limit: int = 128_000,
        counter: TokenCounter | None = None,
        model: str | None = None,
        registry: PluginRegistry | None = None,
        session_id: str = "",
        agent_id: str = "main",
        agent_type: str | None = None,
        policy_of: PolicyOf | None = None,
        tool_policies: Mapping[str, GCPolicy] | None = None,
        on_source_removed: SourceRemover | None = None,
        on_instruction_budget_updated: BudgetListener | None = None,
        ui_hooks: Any = None,
        stash: Stash | None = None,
        journal_tokens: int = DEFAULT_JOURNAL_TOKENS,
        deadline_seconds: float | None = None,
        repair: bool = False,
    ) -> None:
        if context_limit <= 0:
            raise GCError(f"context_limit={context_limit}: give the model's window in tokens")
        self.provider = provider
        self.tools = tools
        self.repair = repair
        self.deadline_seconds = deadline_seconds
        self.registry = registry or PluginRegistry()
        self.on_gc_threshold: ThresholdCallback | None = None
        """Called in every turn that is not given a callback of its own."""
        self._on_threshold: ThresholdCallback | None = None
        budget = InstructionBudget.create_default(
            session_id,
            agent_id,
            agent_type,
            context_limit,
            counter or self.registry.token_counter(model),
        )
        if on_source_removed:
            budget.collectable_sources |= {InstructionSource.PLUGIN, InstructionSource.ENRICHMENT}
        self._context = Context(Ledger(budget, policy_of, tool_policies))
        self._observers = Observers(
            self.registry, on_instruction_budget_updated, ui_hooks, self._context.lock
        )
        self._runner = Runner(
            self._context, self._observers, Journal(journal_tokens), stash, on_source_removed
        )
        self._threshold_told = False
        self._threshold_crossed = False

    # --- setting up ---

    def set_gc_plugin(self, plugin: GCPlugin, config: GCConfig | None = None) -> None:
        """Choose the strategy and its configuration; the one before is shut down.

        Plugin options prevail over ``config``.
        """
        config = config or GCConfig()
        options = {k: v for k, v in config.plugin_config.items() if k in GCConfig.model_fields}
        own = getattr(plugin, "overrides", None)
        merged = config.resolved(options, own if isinstance(own, Mapping) else {})
        collector = Collector(plugin, merged, self.deadline_seconds)
        self._shut_down_plugin()
        self._pin_turns(merged.pinned_turn_indices)
        self._runner.use(collector)

    def set_context_limit(self, context_limit: int) -> GCResult | None:
        """Follow a change of the model's window; collects at once if it has become too full."""
        if context_limit <= 0:
            raise GCError(f"context_limit={context_limit}: give the model's window in tokens")
        with self._context.lock:
            self.budget.context_limit = context_limit
        self._runner.window_changed()
        self._observers.budget_changed(self.budget)
        reason = self._runner.due()
        return self._runner.collect_automatically(reason) if reason else None

    def _pin_turns(self, indices: Iterable[int]) -> None:
        """Resolve turn indices to messages: of the turns that are there, and of those to come."""
        context = self._context
        with context.lock:
            turns = split_into_turns(context.history)
            for index in indices:
                if index < len(turns):
                    ids = (message.message_id for message in turns[index].messages)
                    self.budget.pinned_message_ids.update(ids)
                if index >= len(turns) - 1:  # the last turn may still go on
                    earlier = max(0, context.ledger.turns_opened - len(turns))
                    context.pinned_turns.add(earlier + index)

    def close(self) -> None:
        """Shut the strategy down. The history stays readable."""
        self._shut_down_plugin()
        self._runner.collector = None

    def _shut_down_plugin(self) -> None:
        if self.plugin:
            self._observers.call(self.plugin.shutdown)

    # --- reading ---

    @property
    def history(self) -> list[Message]:
        """The messages as they are now, in a list of your own."""
        with self._context.lock:
            return list(self._context.history)

    @property
    def budget(self) -> InstructionBudget:
        """The budget. Book tool schemas and enrichment here; the conversation is the session's."""
        return self._context.budget

    @property
    def config(self) -> GCConfig:
        """The effective configuration."""
        return self._runner.config

    @property
    def plugin(self) -> GCPlugin | None:
        """The strategy."""
        return self._runner.collector.plugin if self._runner.collector else None

    @property
    def paused_because(self) -> str | None:
        """Why automatic collections are off at the moment, if they are."""
        if self._runner.collector and self._runner.collector.disabled:
            return self._runner.collector.disabled
        return self._runner.breaker.reason if self._runner.breaker.blocks else None

    def get_context_usage(self) -> dict[str, Any]:
        """How full the window is.

        ``context_limit total_tokens percent_used tokens_remaining turns confidence``.
        """
        return self._context.usage()

    def get_gc_history(self) -> list[GCResult]:
        """The account of every collection so far, oldest first."""
        return list(self._runner.results)

    # --- a whole turn ---

    def send_message(
        self,
        prompt: str | Message | None,
        on_output: Callable[[str], None] | None = None,
        on_gc_threshold: ThresholdCallback | None = None,
    ) -> Message:
        """Say something and get the model's final answer, tool calls in between included.

        Args:
            prompt: What to say; ``None`` goes on with the turn as it stands, after an error say.
            on_output: Called with each piece of text as it streams.
            on_gc_threshold: Called with the percentage used and the threshold, once, if it is
                crossed during this turn.

        Raises:
            ContextFloorError: A request does not fit, and nothing more can go.
            InvalidHistoryError: A provider would refuse the history, and ``repair`` is off.
        """
        return run(self._turn(prompt, on_output, on_gc_threshold))

    async def send_message_async(
        self,
        prompt: str | Message | None,
        on_output: Callable[[str], None] | None = None,
        on_gc_threshold: ThresholdCallback | None = None,
    ) -> Message:
        """`send_message` for an event loop: provider and tools may be async."""
        return await run_async(self._turn(prompt, on_output, on_gc_threshold))

    def _turn(
        self,
        prompt: str | Message | None,
        on_output: Callable[[str], None] | None,
        on_gc_threshold: ThresholdCallback | None,
    ) -> Turn:
        if self.provider is None:
            raise GCError("there is no provider to send to: give one to GCSession(provider)")
        self._on_threshold = on_gc_threshold or self.on_gc_threshold
        if prompt is not None:
            said = prompt if isinstance(prompt, Message) else Message.from_text(Role.USER, prompt)
            self.append(said)
            self._threshold_told = False  # even if the turn before ended in an error

        def new_answer() -> Answer:
            return Answer(
                on_text=lambda text: self._observers.call(on_output, text),
                on_usage=lambda usage: self.report_usage(usage.input_tokens, usage.output_tokens),
            )

        return turn(self, self.provider, self.tools, new_answer)

    # --- the points of a turn ---

    def append(self, message: Message) -> Message:
        """Add what was said. Returns the message as it was booked: a taken id is replaced."""
        booked = self._context.append(message)
        self._runner.history_changed()
        self._observers.budget_changed(self.budget)
        return booked

    def pin(self, message_id: str) -> None:
        """Keep a message, with its call and results, until it is unpinned."""
        with self._context.lock:
            if self.budget.entry_of(message_id) is None:
                raise GCError(f"there is no message {message_id!r} to pin")
            self.budget.pinned_message_ids.add(message_id)

    def unpin(self, message_id: str) -> None:
        """Stop keeping a message."""
        with self._context.lock:
            self.budget.pinned_message_ids.discard(message_id)

    def before_send(self) -> list[Message]:
        """Collect if it is due, and give back the request to send.

        Raises:
            InvalidHistoryError: A provider would refuse the history, and ``repair`` is off.
            ContextFloorError: The request does not fit, and nothing more can go.
        """
        self._mend_or_raise()
        if self.config.check_before_send:
            due = self._runner.due(GCTriggerReason.PRE_MESSAGE)
            if due:
                self._runner.collect_automatically(due, self._in_turn())
                self._threshold_crossed = False
        if not self._fits():
            if self.plugin:
                self._runner.collect(GCTriggerReason.CONTEXT_LIMIT, self._in_turn())
            if not self._fits():
                raise self.floor_error()
        with self._context.lock:
            self._context.counted_at_request = self.budget.counted_tokens()
            return list(self._context.history)

    def report_usage(self, input_tokens: int, output_tokens: int = 0) -> None:
        """Tell what the provider says the request cost, while the answer streams or after it.

        The budget is set right by it, and ``on_gc_threshold`` called if the threshold is crossed,
        once per turn.
        """
        if self._context.anchor(input_tokens):
            self._observers.budget_changed(self.budget)
        config = self.config
        percent = (input_tokens + output_tokens) / self._runner.window * 100
        line = config.target_percent if config.continuous_mode else config.threshold_percent
        crossed = percent > line if config.continuous_mode else percent >= line
        if crossed and not self._threshold_told:
            self._threshold_told = self._threshold_crossed = True
            host = self._on_threshold or self.on_gc_threshold
            self._observers.threshold_crossed(host, percent, line)

    def after_turn(self) -> GCResult | None:
        """Collect if it has become due during the turn."""
        self._threshold_told, crossed = False, self._threshold_crossed
        self._threshold_crossed = False
        reason = self._runner.due()
        if reason is None and crossed and self._runner.may_start():
            # What the provider reported crossed it, even if our own figures did not.
            reason = None if self.config.continuous_mode else GCTriggerReason.THRESHOLD
        return self._runner.collect_automatically(reason) if reason else None

    def recover_from_refusal(self) -> bool:
        """Collect because the provider refused the request as too long.

        Returns whether the request is a smaller one now: only then is it worth another try.
        """
        if self.plugin is None:
            return False
        before = self.budget.total_tokens()
        self._runner.collect(GCTriggerReason.CONTEXT_LIMIT, self._in_turn())
        return self.budget.total_tokens() < before

    # --- collecting ---

    def manual_gc(self, **overrides: Any) -> GCResult:
        """Collect now: to the target, or all that may go if usage is below it already.

        Args:
            **overrides: Settings of `GCConfig` for this once, such as ``target_percent=30.0``.
        """
        return self._runner.collect(GCTriggerReason.MANUAL, overrides)

    def plan_gc(self, reason: GCTriggerReason = GCTriggerReason.MANUAL, **overrides: Any) -> GCPlan:
        """Work out a collection without applying it.

        Args:
            reason: Why, which decides how much has to go.
            **overrides: Settings of `GCConfig` for this once.
        """
        return self._runner.plan(reason, overrides)

    def apply(self, plan: GCPlan) -> GCResult:
        """Carry out a plan. The strategy is not asked again.

        Raises:
            StalePlanError: The part of the history that it speaks of has changed since.
        """
        return self._runner.apply(plan)

    def undo(self, gc_id: str | None = None) -> None:
        """Take back the newest collection: history, budget and usage are as they were before it.

        What was appended since stays, behind it. No automatic collection runs until the next
        message. What a collection dropped outside the history is the host's to bring back.

        Args:
            gc_id: The collection that is meant, as a safeguard.

        Raises:
            UndoError: There is none, it is not the newest, or its content is no longer kept.
        """
        self._runner.undo(gc_id)

    # --- saving, and sub-agents ---

    def save(self) -> str:
        """The whole state as JSON text: history, budget, pins, journal, counters.

        Raises:
            GCError: A message holds something that JSON can't.
        """
        return dump(self)

    @classmethod
    def restore(
        cls,
        saved: str,
        provider: Provider | None = None,
        *,
        plugin: GCPlugin | None = None,
        **options: Any,
    ) -> "GCSession":
        """A session that behaves as the saved one would have.

        Args:
            saved: What `save` returned.
            provider: As for a new session.
            plugin: The strategy, if it can't be made from its name alone (a summarizer, say).
            **options: As for a new session: callables and the counter are not in the saved text.

        Raises:
            GCError: The text is no saved session, or was counted with another counter.
        """
        session = cls(provider, **options)
        load(session, saved, plugin)
        session._runner.settle()
        if "context_limit" in options:  # the model may be another one by now
            session.set_context_limit(options["context_limit"])
        return session

    def child(
        self,
        profile: str | Mapping[str, Any],
        provider: Provider | None = None,
        *,
        profiles: str | Path = DEFAULT_PROFILES,
        **options: Any,
    ) -> "GCSession":
        """A session for a sub-agent, under a configuration of its own.

        Args:
            profile: Name of a profile, or an inline configuration ``{"gc": {…}}``.
            provider: The sub-agent's; this session's if not given.
            profiles: Where profiles are.
            **options: As for a new session; window, counter, tools and registry are this session's
                where not given.
        """
        inherited = {
            "context_limit": self.budget.context_limit,
            "counter": self.budget.counter,
            "tools": self.tools,
            "registry": self.registry,
            "agent_id": profile if isinstance(profile, str) else f"{self.budget.agent_id}-child",
        }
        child = GCSession(provider or self.provider, **{**inherited, **options})
        loaded = (
            load_gc_from_profile(profile, profiles, self.registry)
            if isinstance(profile, str)
            else load_gc_inline(profile, self.registry)
        )
        if loaded:
            child.set_gc_plugin(*loaded)
        return child

    # --- guarding ---

    def _in_turn(self) -> dict[str, Any]:
        """Within a turn, that turn stays, whatever the configuration says: it is being answered."""
        return {"preserve_recent_turns": max(1, self.config.preserve_recent_turns)}

    def _fits(self) -> bool:
        return self._context.upper_bound() <= self._runner.request_limit

    def floor_error(self) -> ContextFloorError:
        """The error for a request that is too long after the last collection, too."""
        result = self._runner.results[-1] if self.plugin and self._runner.results else None
        floor = {
            source.value: entry.total_tokens()
            for source, entry in self.budget.entries.items()
            if entry.total_tokens()
        }
        if self.budget.correction:
            floor["correction"] = self.budget.correction
        parts = ", ".join(f"{source} {tokens}" for source, tokens in floor.items())
        most, limit = self._context.upper_bound(), self._runner.request_limit
        what = f"the next request has up to {most} tokens and only {limit} fit"
        if most <= limit:
            what = f"the provider refused a request of at most {most} tokens, of {limit} that fit"
        hint = "no strategy is set: call set_gc_plugin"
        if result is not None:
            hint = result.error or "lower preserve_recent_turns, unpin something or shorten it"
        return ContextFloorError(
            f"{what}, and nothing more can go ({parts}): {hint}", floor, result
        )

    def _mend_or_raise(self) -> None:
        faults = self._context.find_faults()
        if faults and self.repair:
            with self._context.lock:
                history = list(self._context.history)
                self._context.exchange(history, repair_history(history), "repair")
            self._observers.budget_changed(self.budget)
            faults = self._context.find_faults()
        if faults:
            listed = "; ".join(map(str, faults[:3]))
            raise InvalidHistoryError(f"the history can't be sent: {listed}", faults)
