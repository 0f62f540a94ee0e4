"""The session: asks a strategy when and what, checks the answer, and keeps everything in step."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jaato_gc._budget import InstructionBudget
from jaato_gc._collector import Collector
from jaato_gc._config import GCConfig
from jaato_gc._context import Context
from jaato_gc._errors import GCError
from jaato_gc._journal import DEFAULT_JOURNAL_TOKENS, GCPlan, Journal
from jaato_gc._ledger import Ledger, PolicyOf
from jaato_gc._messages import Message, Role
from jaato_gc._observers import BudgetListener, Observers
from jaato_gc._policies import GCPolicy, InstructionSource
from jaato_gc._profiles import DEFAULT_PROFILES, load_gc_from_profile, load_gc_inline
from jaato_gc._provider import Answer, Provider, ToolHandler
from jaato_gc._recall import RecallTool, recall_tool
from jaato_gc._recovery import Place
from jaato_gc._registry import PluginRegistry
from jaato_gc._results import GCResult, GCTriggerReason
from jaato_gc._runner import Runner, SourceRemover
from jaato_gc._stash import Stash
from jaato_gc._state import dump, load, parse
from jaato_gc._strategy import GCPlugin
from jaato_gc._tokens import TokenCounter
from jaato_gc._turn_loop import Turn, run, run_async, turn
from jaato_gc._turn_points import ThresholdCallback, TurnPoints
from jaato_gc._turns import split_into_turns

logger = logging.getLogger("jaato_gc")


class GCSession(TurnPoints):
    """A conversation that never outgrows its window.

    The session holds history and budget. A host with its own loop uses it at four points of a turn:
    `append` whatever is said, `before_send` to get the request, `report_usage`
    while and after the answer streams, `after_turn` at the end.

    Whatever the strategy does, the session guarantees: a request that does not fit is not sent, an
    invalid one neither; nothing LOCKED, pinned or recent is lost; a collection is applied whole or
    not at all, and can be undone.

    Args:
        provider: Sends a request to the model; only `send_message` needs it.
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
        stash: Where removed messages go before they are removed; a plugin's if not given.
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
        self.deadline_seconds = deadline_seconds
        self.registry = registry or PluginRegistry()
        budget = InstructionBudget.create_default(
            session_id,
            agent_id,
            agent_type,
            context_limit,
            counter or self.registry.token_counter(model),
        )
        if on_source_removed:
            budget.collectable_sources |= {InstructionSource.PLUGIN, InstructionSource.ENRICHMENT}
        context = Context(Ledger(budget, policy_of, tool_policies))
        observers = Observers(self.registry, on_instruction_budget_updated, ui_hooks, context.lock)
        journal = Journal(journal_tokens)
        stash = stash if stash is not None else self.registry.stash(agent_id)
        budget.has_stash = stash is not None
        runner = Runner(context, observers, journal, stash, on_source_removed)
        super().__init__(context, runner, observers, repair=repair)

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

    # --- pins ---

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

    # --- the stash ---

    @property
    def stash(self) -> Stash | None:
        """Where removed content goes."""
        return self._runner.stash

    def restore_stashed(self, keys: Iterable[str], at: Place = "place") -> GCResult:
        """Put back what collections took, by the keys that stubs and removal lists name.

        What was cleared is whole again. What was removed stands where it stood, with the call or
        the results that belong to it; or all of it comes in one message behind everything else,
        which leaves the prompt cache alone. No automatic collection runs until the next message,
        and `undo` takes it back.

        Args:
            keys: Keys of the stash.
            at: ``"place"`` or ``"tail"``.

        Raises:
            StashError: The stash does not hold them.
            GCError: There is no stash, or no place for them.
        """
        return self._runner.restore(list(dict.fromkeys(keys)), at)

    def recall_tool(self, name: str = "recall") -> RecallTool:
        """A tool for the model to get back what was removed: see `recall_tool`."""
        if self.stash is None:
            raise GCError("there is no stash to recall from: give one to GCSession(stash=…)")
        return recall_tool(self.stash, name)

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
        document = parse(saved)
        agent_id = document["budget"]["agent_id"]  # a plugin's stash is the agent's own
        session = cls(provider, **{"agent_id": agent_id, **options})
        load(session, document, plugin)
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
