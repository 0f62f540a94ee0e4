"""The session: a history and its budget, collected by a strategy when it is due."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack, get_args

from jaato_gc.budget import Booking, InstructionBudget, PolicyOf
from jaato_gc.collecting import GCPlan, GCResult, GCTriggerReason, SessionUsage
from jaato_gc.commit import guarded
from jaato_gc.config import GCConfig, GCConfigOverrides
from jaato_gc.errors import ContextFloorError
from jaato_gc.frozen import FrozenHistory
from jaato_gc.messages import Message
from jaato_gc.plugins import DEFAULT_PROFILES, GCPlugin, PluginRegistry, Summarizers
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.session import arguments
from jaato_gc.session.children import configure, inherited_options
from jaato_gc.session.collector import Collector, SourceRemover
from jaato_gc.session.editing import Editor
from jaato_gc.session.host_edits import edits_to_remove, edits_to_replace
from jaato_gc.session.journal import KEPT_BYTES, KEPT_COLLECTIONS, Journal
from jaato_gc.session.journal_entry import REPAIR
from jaato_gc.session.live_history import LiveHistory, counted_for
from jaato_gc.session.observers import BudgetListener, Observers, ThresholdCallback
from jaato_gc.session.options import GCSessionOptions
from jaato_gc.session.provider import Provider, ToolHandler
from jaato_gc.session.repairing import Repair, edits_to_repair
from jaato_gc.session.restoring import Place
from jaato_gc.session.saving import dump, restored
from jaato_gc.session.scheduling import Schedule
from jaato_gc.session.sending import OnOverflow, RequestBuilder
from jaato_gc.session.strategy_in_use import StrategyInUse, prepare
from jaato_gc.session.turn_loop import TurnLoop
from jaato_gc.session.window import window_of
from jaato_gc.stash import RecallTool, Stash, recall_tool
from jaato_gc.summaries import SummarizerFunction
from jaato_gc.tokens import TokenCounter


class GCSession:
    """A conversation that never outgrows its window.

    The session has a history and a budget. A host with its own loop uses it at four points of a
    turn: `append` for every message, `before_send` for the request, `report_usage` while and after
    the answer streams, `after_turn` at the end. `send_message` does all of it.

    The session guarantees, for any strategy: it sends no request that does not fit and no invalid
    history; it never loses LOCKED or pinned content; a collection is applied as a whole or
    not at all, and can be undone. Threads may share a session.

    Args:
        provider: Sends a request to the model; only `send_message` needs it.
        tools: Runs the model's tool calls; without it, calls are left to the host.
        context_limit: The model's window, in tokens. By default, the one that a plugin knows for
            ``model``, such as jaato-gc-formats. Otherwise 128,000, after one log line per process
            that says so.
        counter: Counts tokens; chosen by ``model`` if not given.
        model: The model's name, to choose window and counter.
        registry: The registry of plugins.
        session_id: An id for observers and for the budget's snapshots.
        agent_id: The agent's id, for displays.
        agent_type: The agent's type, for displays; by default its id.
        policy_of: Returns the policy for a message, or ``None`` for the default.
        tool_policies: The policies for calls and results of tools, by the tool's name.
        on_source_removed: Called with source and key before a collection removes something that is
            not in the history (tool schemas, enrichment). Without it they are never removed.
        on_instruction_budget_updated: Called with a snapshot of the budget after every change.
        ui_hooks: An object with ``on_agent_instruction_budget_updated(agent_id, snapshot)``.
        summarizer: Writes summaries for any strategy that summarizes and has none of its own.
        stash: Where messages are stored before they are removed; by default a plugin's stash.
        keep_collections: The number of collections that are kept. Older ones can't be undone, and
            their messages return from a stash only at the end of the history.
        journal_bytes: The bytes that those collections take in memory and in a saved session. The
            newest is kept even if it is larger. With a stash, older ones can be undone too.
        deadline_seconds: The time limit of each call of a strategy. A slower one is disabled.
        repair: Repair an invalid history before sending it, instead of raising. A repair can be
            undone, and takes nothing that is LOCKED or pinned.
        on_overflow: What to do with a request that does not fit after a collection. ``"relax"``:
            core removes recent content too, and raises if only fixed content is left. ``"raise"``:
            core removes nothing from recent turns. ``"send"``: a request that can't be made to fit
            is sent unchanged.
        clock: Returns the time in seconds, for ``cache_ttl_seconds``.

    Raises:
        GCConfigError: A number, a function, a policy, the stash, ``on_overflow`` or the tolerance
            of the counter is invalid.
    """

    def __init__(
        self,
        provider: Provider | None = None,
        *,
        tools: ToolHandler | None = None,
        context_limit: int | None = None,
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
        summarizer: SummarizerFunction | None = None,
        stash: Stash | None = None,
        keep_collections: int = KEPT_COLLECTIONS,
        journal_bytes: int = KEPT_BYTES,
        deadline_seconds: float | None = None,
        repair: bool = False,
        on_overflow: OnOverflow = "relax",
        clock: Callable[[], float] = time.time,
    ) -> None:
        keep_collections = arguments.count("keep_collections", keep_collections)
        journal_bytes = arguments.count("journal_bytes", journal_bytes)
        self.deadline_seconds = arguments.time_limit(deadline_seconds)
        arguments.check_choice("on_overflow", on_overflow, get_args(OnOverflow))
        arguments.check_functions(
            provider=provider,
            tools=tools,
            policy_of=policy_of,
            on_source_removed=on_source_removed,
            on_instruction_budget_updated=on_instruction_budget_updated,
            summarizer=summarizer,
        )
        arguments.check_policies(tool_policies)
        arguments.check_stash(stash)
        self._summarizer = summarizer
        self.provider = provider
        self.tools = tools
        self.registry = registry or PluginRegistry()
        self.on_gc_threshold: ThresholdCallback | None = None
        """Called in every turn that has no callback of its own."""
        counter = counter or self.registry.token_counter(model)
        arguments.check_counter(counter)
        window = window_of(model, context_limit, self.registry)
        budget = InstructionBudget.create_default(session_id, agent_id, agent_type, window, counter)
        budget.collectable_sources = {InstructionSource.CONVERSATION}
        if on_source_removed:
            budget.collectable_sources |= {InstructionSource.PLUGIN, InstructionSource.ENRICHMENT}
        stash = stash if stash is not None else self.registry.stash(agent_id)
        budget.has_stash = stash is not None
        self._live = live = LiveHistory(Booking(budget, policy_of, tool_policies))
        self._guard = live.guard
        self._journal = journal = Journal(live.guard, stash, keep_collections, journal_bytes)
        self._observers = observers = Observers(
            live, self.registry, on_instruction_budget_updated, ui_hooks
        )
        self._schedule = schedule = Schedule(live)
        self._collector = collector = Collector(
            live, journal, schedule, observers, on_source_removed, on_overflow != "raise"
        )
        self._editor = editor = Editor(live, journal, schedule, observers)
        self._requests = RequestBuilder(
            live, journal, schedule, collector, editor, repair, on_overflow, clock
        )
        self._turn_callback: ThresholdCallback | None = None
        observers.notify("jaato_gc_session_started")

    # --- setting up ---

    def set_gc_plugin(self, plugin: GCPlugin | str | None, config: GCConfig | None = None) -> None:
        """Sets the strategy and its configuration. The previous strategy is shut down.

        Options in ``config.plugin_config`` reach the strategy. Options that the strategy was
        created with prevail over them, and over the other settings of ``config``.

        Args:
            plugin: The strategy, or the name of an installed one, with or without ``gc_``. ``None``
                removes the strategy: see `remove_gc_plugin`.
            config: When to collect, how far, and what to preserve.

        Raises:
            GCConfigError: ``config`` is not a `GCConfig`, an option is unknown, settings contradict
                each other, the strategy needs a summarizer, or the reserve for the answer leaves
                less than a tenth of the window.
            GCPluginError: The strategy is not installed or can't be used, or it is not a strategy.
        """
        arguments.check_config(config)
        if plugin is None:
            self.remove_gc_plugin()
            return
        plugin = self.registry.strategy(plugin)
        config = prepare(plugin, config or GCConfig(), self._summarizer)
        self._schedule.check_config(config)
        strategy = StrategyInUse(plugin, config, self.deadline_seconds)
        self._live.pin_turns(strategy.config.pinned_turn_indices)
        self._use(strategy)

    def remove_gc_plugin(self) -> None:
        """Removes the strategy and its configuration, and shuts it down. Nothing is collected then.

        A collection that is running in another thread is not applied. Plans of the host can still
        be applied, collections can be undone, and pins stay.
        """
        self._use(None)

    def set_context_limit(self, context_limit: int) -> GCResult | None:
        """Sets the model's window. Collects at once if it is too full then.

        Raises:
            GCConfigError: It is not a positive integer, or the reserve for the answer leaves less
                than a tenth of it.
        """
        self._schedule.set_window(arguments.window(context_limit))
        self._observers.budget_changed()
        reason = self._schedule.due()
        return self._collector.collect_automatically(reason) if reason else None

    def set_output_reserve(self, tokens: int) -> None:
        """Keeps room for the answer, unless the configuration has ``reserve_output_tokens``.

        Raises:
            GCConfigError: It is not an integer of 0 or more, or leaves less than a tenth of the
                model's window.
        """
        self._schedule.set_output_reserve(arguments.count("tokens", tokens))

    def close(self) -> None:
        """Shuts the strategy down and tells observers that the session ended, once.

        The history stays readable. ``with GCSession(…) as session:`` closes it at the end.
        """
        self.remove_gc_plugin()
        self._observers.ended()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _use(self, strategy: StrategyInUse | None) -> None:
        previous = self._schedule.set_strategy(strategy)
        if previous and (strategy is None or previous.plugin is not strategy.plugin):
            self._observers.call(previous.plugin.shutdown)
        if strategy or previous:
            name = strategy.name if strategy else None
            self._observers.notify("jaato_gc_strategy_set", strategy=name, config=self.config)

    # --- reading ---

    @property
    def history(self) -> Sequence[Message]:
        """The messages, in a new list that can't be changed."""
        return FrozenHistory(self._live.snapshot())

    @property
    @guarded
    def budget(self) -> InstructionBudget:
        """The budget. Add tool schemas and enrichment here; the session adds the conversation."""
        return self._live.budget

    @property
    def config(self) -> GCConfig:
        """The effective configuration."""
        return self._schedule.config

    @property
    def strategy(self) -> GCPlugin | None:
        """The strategy."""
        in_use = self._schedule.strategy
        return in_use.plugin if in_use else None

    @property
    def repair(self) -> bool:
        """Whether an invalid history is repaired before it is sent."""
        return self._requests.repair

    @property
    def paused_because(self) -> str | None:
        """Why automatic collections are off at the moment; ``None`` if they are on."""
        return self._schedule.paused_because

    def get_context_usage(self) -> SessionUsage:
        """Returns how full the window is."""
        return self._live.usage()

    @guarded
    def get_gc_history(self) -> list[GCResult]:
        """Returns the results of the last collections, oldest first: see ``keep_collections``."""
        return self._journal.results

    @guarded
    def was_undone(self, gc_id: str) -> bool:
        """Returns whether a collection of `get_gc_history` was undone.

        Args:
            gc_id: The id of the collection, from its result.
        """
        return self._journal.is_undone(gc_id)

    def get_removed(self, gc_id: str | None = None) -> list[Message]:
        """Returns the messages in the removal list of a collection, as they were before it.

        Args:
            gc_id: The id of the collection, from its result; by default the newest one.

        Raises:
            UndoError: There is no such collection, or its content is no longer kept.
        """
        return self._journal.removed_by(gc_id)

    @property
    def collection_count(self) -> int:
        """The number of collections so far, including those that are no longer kept."""
        return self._journal.recorded

    # --- the points of a turn ---

    def append(self, message: Message) -> Message:
        """Adds a message and returns it as booked: nested values are copied, a taken id replaced.

        Raises:
            MessageError: It is not a `Message`, or a subclass of it.
            GCError: The token counter returned something else than an integer of 0 or more.
        """
        booked = self._live.append(message)
        self._observers.budget_changed()
        return booked

    def before_send(self) -> list[Message]:
        """Returns the messages to send, after a collection if one is due.

        Raises:
            InvalidHistoryError: A provider would refuse the history, and ``repair`` is off or
                can't help.
            StashError: The stash failed to store what a repair removes.
            ContextFloorError: The request does not fit, and nothing more can be removed.
        """
        self._tell_if_crossed()
        return self._requests.request()

    def report_usage(
        self,
        input_tokens: float,
        output_tokens: float = 0,
        *,
        request: Sequence[Message] | None = None,
    ) -> None:
        """Sets the usage that the provider reports, while the answer streams or after it.

        It corrects the budget. If usage crosses the threshold, ``on_gc_threshold`` is called, once
        per turn. A report of less than half of what was counted, or of more than the model's
        window, is not believed: it leaves out cached tokens, or belongs to another request, or the
        window is wrong.

        Args:
            input_tokens: The tokens of the request, including those read from the prompt cache.
            output_tokens: The tokens of the answer so far.
            request: What `before_send` returned for it; by default, the newest request.

        Raises:
            GCError: ``input_tokens`` is not a positive number, ``output_tokens`` is negative, or
                ``request`` is another list.
        """
        read, written = arguments.usage(input_tokens, output_tokens)
        counted = None if request is None else counted_for(request)
        if self._live.anchor(read, counted):
            self._observers.budget_changed()
        if not self._live.doubts_report:
            self._tell_if_crossed(read + written)

    def after_turn(self) -> GCResult | None:
        """Collects if that became due during the turn."""
        self._tell_if_crossed()
        reason = self._schedule.turn_ended()
        return self._collector.collect_automatically(reason) if reason else None

    def _tell_if_crossed(self, reported: float | None = None) -> None:
        """Notifies of a crossed threshold. Called before the collection that follows from it."""
        if crossed := self._schedule.crossed(reported):
            callback = self._turn_callback or self.on_gc_threshold
            self._observers.threshold_crossed(callback, *crossed)

    def recover_from_refusal(self, error: Exception | None = None) -> bool:
        """Collects because the provider refused the request as too long.

        Returns whether the request is smaller now. Only then is it worth another try.

        Args:
            error: The provider's error. If it names the model's window, the session uses that.
        """
        return self._requests.recover_from_refusal(error)

    def floor_error(self) -> ContextFloorError:
        """Returns the error for a request that is too long even after a collection."""
        return self._requests.floor_error()

    # --- a whole turn ---

    def send_message(
        self,
        prompt: str | Message | None,
        on_output: Callable[[str], None] | None = None,
        on_gc_threshold: ThresholdCallback | None = None,
    ) -> Message:
        """Sends a message and returns the model's final answer, after all tool calls.

        Args:
            prompt: The message; ``None`` continues the turn, for example after an error.
            on_output: Called with each piece of text as it streams.
            on_gc_threshold: Called with the percentage in use and the threshold, once, if it is
                crossed during this turn: as counted before a request and at the end, or as the
                provider reports it.

        Raises:
            ContextFloorError: A request does not fit, and nothing more can be removed.
            InvalidHistoryError: A provider would refuse the history, and ``repair`` is off or
                can't help.
            NotConfiguredError: The session has no provider.
        """
        return TurnLoop.begin(self, prompt, on_output, on_gc_threshold, on_loop=False).run_at_once()

    async def send_message_async(
        self,
        prompt: str | Message | None,
        on_output: Callable[[str], None] | None = None,
        on_gc_threshold: ThresholdCallback | None = None,
    ) -> Message:
        """`send_message` for an event loop: provider and tools may be async.

        It can be cancelled at any point. A running collection is not applied then, and its async
        summarizer is cancelled. Tool calls that did not return get an error as their result, so
        that the turn can be continued.
        """
        return await TurnLoop.begin(self, prompt, on_output, on_gc_threshold, on_loop=True).run()

    # --- pins ---

    def pin(self, message_id: str) -> None:
        """Keeps a message, with its call and results, until it is unpinned.

        Raises:
            MessageError: There is no message with this id.
        """
        self._live.pin(arguments.message_id(message_id))

    def unpin(self, message_id: str) -> None:
        """Stops keeping a message."""
        self._live.unpin(arguments.message_id(message_id))

    # --- collecting ---

    def manual_gc(self, **overrides: Unpack[GCConfigOverrides]) -> GCResult:
        """Collects now: to the target, or everything that may be removed if usage is below it.

        Args:
            **overrides: Settings of `GCConfig` for this collection, like ``target_percent=30.0``.

        Raises:
            NotConfiguredError: There is no strategy.
            GCConfigError: An override is invalid.
        """
        return self._collector.collect(GCTriggerReason.MANUAL, **overrides)

    def plan_gc(
        self,
        reason: GCTriggerReason = GCTriggerReason.MANUAL,
        **overrides: Unpack[GCConfigOverrides],
    ) -> GCPlan:
        """Returns a plan for a collection, without applying it.

        Args:
            reason: The reason, which decides how much has to be freed.
            **overrides: Settings of `GCConfig` for this collection.

        Raises:
            NotConfiguredError: There is no strategy.
            GCConfigError: An override is invalid.
        """
        arguments.check_choice("reason", reason, [each.value for each in GCTriggerReason])
        strategy = self._schedule.required_strategy()
        return self._collector.plan(strategy, GCTriggerReason(reason), overrides)

    def apply(self, plan: GCPlan) -> GCResult:
        """Applies a plan. The strategy is not called again.

        Raises:
            StalePlanError: A message that it changes was changed, pinned or removed since.
        """
        arguments.check_plan(plan)
        return self._collector.apply(plan)

    def undo(self, gc_id: str | None = None) -> None:
        """Undoes the newest collection: history, budget and usage are as before it.

        Messages that were appended since stay at the end. No automatic collection runs until the
        next message. What a collection dropped outside the history is not restored.

        Args:
            gc_id: The expected id of the newest collection, as a safeguard.

        Raises:
            UndoError: There is none, another one is newer, or its content is no longer kept.
        """
        self._editor.undo(gc_id)

    def remove(self, message_id: str, *, force: bool = False) -> GCResult:
        """Removes a message, with the call or the results that belong to it.

        It is journaled: `undo` restores it.

        Args:
            message_id: The message.
            force: Also remove LOCKED and pinned messages.

        Raises:
            MessageError: There is no such message, it is LOCKED or pinned, or providers would
                refuse the history without it.
            StashError: The stash failed. Nothing has changed.
        """
        message_id = arguments.message_id(message_id)
        return self._editor.edit(lambda live: edits_to_remove(live, message_id, force=force))

    def replace(self, message_id: str, message: Message, *, force: bool = False) -> GCResult:
        """Replaces a message, for example by a shorter one. Its id stays.

        It is journaled: `undo` restores it.

        Args:
            message_id: The message.
            message: The new one, with the same role and the same calls or results.
            force: Also replace LOCKED and pinned messages.

        Raises:
            MessageError: There is no such message, it is LOCKED or pinned, or the new one has
                another role or other calls.
            StashError: The stash failed. Nothing has changed.
        """
        message_id = arguments.message_id(message_id)
        return self._editor.edit(
            lambda live: edits_to_replace(live, message_id, message, force=force)
        )

    def repair_history(self, repair: Repair, reasons: Sequence[str]) -> GCResult:
        """Repairs the history with a function, for rules that only one provider has.

        It is journaled: `undo` restores the history.

        Args:
            repair: Returns the repaired messages, under the same ids. It raises if it can't help.
            reasons: What is wrong, for ``details["repaired"]`` of the result.

        Raises:
            InvalidHistoryError: The history would be invalid then, or a LOCKED or pinned message
                would be removed or changed.
            StashError: The stash failed. Nothing has changed.
        """
        edits_for = partial(edits_to_repair, repair=repair)
        return self._editor.edit(edits_for, REPAIR, repaired=list(reasons))

    # --- the stash ---

    @property
    def stash(self) -> Stash | None:
        """The stash that removed content goes to."""
        return self._journal.stash

    def restore_stashed(self, keys: Iterable[str], at: Place = "place") -> GCResult:
        """Restores removed content by the keys that notes and removal lists name.

        Shortened messages become whole again. Removed ones return to their old place, with the call
        or the results that belong to them; or all content comes in one message at the end, which
        leaves the prompt cache intact. No automatic collection runs until the next message, and
        `undo` takes it back.

        Args:
            keys: Keys of the stash.
            at: ``"place"`` or ``"tail"``.

        Raises:
            NotConfiguredError: There is no stash.
            StashError: The stash does not have them.
            GCError: There is no place for them, or they are not a list.
        """
        return self._editor.restore(arguments.stash_keys(keys), at)

    def forget(self, keys: Iterable[str]) -> int:
        """Forgets removed messages for good. Returns the number of deleted entries of the stash.

        All stashed forms of the messages are deleted, the ledger no longer lists what came from
        them, and collections that removed or shortened them can't be undone any more.

        Not reached: the messages in the history (a shortened one still shows its beginning and its
        end), summaries, notices, what the model repeated, recalled copies, other sessions and
        saved ones.

        Args:
            keys: Keys of the stash. Unknown ones are ignored.

        Raises:
            NotConfiguredError: There is no stash.
            StashError: The stash failed. The session is unchanged.
            GCError: The keys are not a list.
        """
        found = arguments.stash_keys(keys)
        return self._collector.exclusively(lambda: self._editor.forget(found))

    def recall_tool(self, name: str = "recall") -> RecallTool:
        """Returns a tool with which the model gets removed content back: see `recall_tool`.

        Raises:
            NotConfiguredError: There is no stash.
        """
        return recall_tool(self._journal.required_stash("recall from"), name)

    # --- saving, and sub-agents ---

    @guarded
    def save(self, *, journal: bool = True) -> str:
        """Returns the whole state as JSON text: history, budget, pins, journal, counters.

        Args:
            journal: False: without the collections so far. They can't be undone after a restore.

        Raises:
            SavedSessionError: A message has a value that JSON can't represent.
        """
        return dump(self, journal=journal)

    @classmethod
    def restore(
        cls,
        saved: str,
        provider: Provider | None = None,
        *,
        strategy: str | GCPlugin | None = None,
        **options: Unpack[GCSessionOptions],
    ) -> "GCSession":
        """Returns a session that behaves as the saved one would have.

        Args:
            saved: What `save` returned.
            provider: As for a new session.
            strategy: Name of an installed strategy, or a strategy; by default, the saved one.
            **options: As for a new session: the saved text has no callables (such as the
                summarizer) and no counter. The window is the saved one, unless given.

        Raises:
            SavedSessionError: The text is not a saved session, the counter is another one, or the
                summarizer is missing.
            GCConfigError: The saved reserve for the answer leaves less than a tenth of the window.
        """
        return restored(saved, partial(cls, provider), strategy, options)

    def child(
        self,
        profile: str | Mapping[str, Any] | None = None,
        provider: Provider | None = None,
        *,
        profiles: str | Path = DEFAULT_PROFILES,
        summarizers: Summarizers | None = None,
        **options: Unpack[GCSessionOptions],
    ) -> "GCSession":
        """Returns a session for a sub-agent.

        It has the strategy and the settings of its ``gc`` block or, without one, those of this
        session. The room for the answer is inherited with the window: see `set_output_reserve`.

        Args:
            profile: Name of a profile, or an inline configuration ``{"gc": {…}}``.
            provider: The provider of the sub-agent; by default the one of this session.
            profiles: The folder of the profiles.
            summarizers: Functions that the ``gc`` block can name: see `load_gc_from_file`.
            **options: As for a new session. Window, counter, tools, summarizer, registry, stash and
                the session's id are inherited. In the stash, agents do not find each other's
                content.

        Raises:
            GCConfigError: The profile does not exist or is invalid.
            GCPluginError: Its strategy can't be used, or the one of this session can't be copied.
        """
        options = inherited_options(self, profile, options)
        child = GCSession(provider or self.provider, **options)
        configure(child, self, profile, profiles, summarizers)
        return child
