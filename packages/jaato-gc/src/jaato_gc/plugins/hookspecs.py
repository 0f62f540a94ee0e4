"""The hooks that a distribution can implement, to register plugins and to observe sessions.

A plugin is a module (or object) with functions of these names, marked with `hookimpl` and announced
as an entry point of the group ``jaato_gc``::

    # my_package/__init__.py
    from jaato_gc.plugin import StrategyInfo, hookimpl

    @hookimpl
    def jaato_gc_register_strategies():
        return [StrategyInfo("gc_mine", MyStrategy, "Keeps what I like.")]

    # pyproject.toml
    [project.entry-points.jaato_gc]
    mine = "my_package"

An implementation may leave out arguments that it does not need. An argument with a default gets its
value too, and may be one that only newer versions of core have.
"""

from collections.abc import Iterable
from typing import Any

import pluggy
from pydantic import BaseModel

from jaato_gc.collecting import ContextUsage, GCResult, GCTriggerReason
from jaato_gc.config import GCConfig
from jaato_gc.messages import Message
from jaato_gc.plugins.protocol import FormatInfo, StrategyInfo, SummarizerInfo
from jaato_gc.stash import Stash
from jaato_gc.tokens import TokenCounter

PROJECT_NAME = "jaato_gc"
"""Pluggy's project name, and the group of entry points."""

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)
"""Marks a function of a plugin as an implementation of the hook of the same name."""


# --- registering: called when a registry loads the plugin ---


@hookspec
def jaato_gc_register_strategies() -> Iterable[StrategyInfo]:  # type: ignore[empty-body]
    """Register strategies.

    Called by a `PluginRegistry` once, when it loads the plugin. If it raises, the plugin is listed
    as broken, and all others stay available.

    Example::

        @hookimpl
        def jaato_gc_register_strategies():
            return [StrategyInfo("gc_mine", MyStrategy, "Keeps what I like.", MySettings)]
    """


@hookspec
def jaato_gc_register_formats() -> Iterable[FormatInfo]:  # type: ignore[empty-body]
    """Register formats that histories are read from and written to.

    Called by a `PluginRegistry` once, when it loads the plugin. If it raises, the plugin is listed
    as broken, and all others stay available.

    Example::

        @hookimpl
        def jaato_gc_register_formats():
            return [FormatInfo("acme-chat", AcmeFormat, "Acme's chat logs.")]
    """


@hookspec
def jaato_gc_register_summarizers() -> Iterable[SummarizerInfo]:  # type: ignore[empty-body]
    """Register summarizers, so that configuration files can name them.

    Called by a `PluginRegistry` once, when it loads the plugin. If it raises, the plugin is listed
    as broken, and all others stay available.

    Example::

        @hookimpl
        def jaato_gc_register_summarizers():
            return [SummarizerInfo("acme-small", ask_acme, "Acme's small model.")]
    """


@hookspec
def jaato_gc_register_options() -> type[BaseModel]:  # type: ignore[empty-body]
    """Register the model of the plugin's own options, which are not those of a strategy.

    Called by a `PluginRegistry` once, when it loads the plugin. If it raises, the plugin is listed
    as broken, and all others stay available.

    Example::

        class AcmeSettings(Settings):
            channels: tuple[str, ...] = ()


        @hookimpl
        def jaato_gc_register_options():
            return AcmeSettings
    """


@hookspec
def jaato_gc_configure(options: Any) -> None:
    """Called with the plugin's own options: from the ``plugins`` block of a file, or from code.

    Called by `PluginRegistry.configure`, only if there are options for the plugin, and again if
    they are given again. If it raises, so does the registry.

    Args:
        options: An instance of the model of `jaato_gc_register_options`; a dict if there is none.

    Example::

        @hookimpl
        def jaato_gc_configure(options):
            alarm.channels = options.channels
    """


@hookspec(firstresult=True)
def jaato_gc_stash(agent_id: str) -> Stash | None:
    """Returns the stash for an agent. The first plugin that has one wins.

    Called by `PluginRegistry.stash` when a session is created without a stash, never within a turn.
    If it raises `StashError`, so does the session, because it must not continue without the stash
    that its host expects. On any other error the plugin is listed as broken and the next is asked.

    Args:
        agent_id: The agent. Agents should not see each other's content unless configured to.

    Example::

        @hookimpl
        def jaato_gc_stash(agent_id):
            return AcmeStash(namespace=agent_id)
    """


@hookspec(firstresult=True)
def jaato_gc_token_counter(model: str | None) -> TokenCounter | None:
    """Returns the counter for a model. The first plugin that has one wins.

    Called by `PluginRegistry.token_counter`, once per session, never within a turn. Return ``None``
    for unknown models. If it raises, the plugin is listed as broken and the next is asked.

    Args:
        model: The provider's name of the model, or ``None`` if the host did not give one.

    Example::

        @hookimpl
        def jaato_gc_token_counter(model):
            return AcmeCounter() if model and model.startswith("acme-") else None
    """


@hookspec(firstresult=True)
def jaato_gc_model_window(model: str) -> int | None:
    """Returns the window of a model, in tokens. The first plugin that knows it wins.

    Called by `PluginRegistry.model_window` when a session is created without ``context_limit`` and
    with ``model``, never within a turn. If the provider accepts less input than its window, return
    that. Return ``None`` for unknown models. If it raises, or returns something else than a
    positive integer, the plugin is listed as broken and the next is asked.

    Args:
        model: The provider's name of the model.

    Example::

        @hookimpl
        def jaato_gc_model_window(model):
            return 64_000 if model.startswith("acme-") else None
    """


# --- observing: called by the session; an error is logged and never reaches the turn ---


@hookspec
def jaato_gc_session_started(agent_id: str, session_id: str) -> None:
    """Called when a session is created or restored.

    Called by the session at the end of its constructor. An error is logged with the plugin's
    distribution and version.

    Args:
        agent_id: The agent of the session.
        session_id: The session's id, as its host gave it; empty if it gave none.

    Example::

        @hookimpl
        def jaato_gc_session_started(agent_id, session_id):
            dashboard.open(session_id, agent_id)
    """


@hookspec
def jaato_gc_strategy_set(
    strategy: str | None, config: GCConfig, agent_id: str, session_id: str
) -> None:
    """Called when a session gets a strategy or another configuration, or loses its strategy.

    Called by `GCSession.set_gc_plugin` and `GCSession.remove_gc_plugin`, and when a session with a
    strategy is restored or closed. An error is logged with the plugin's distribution and version.

    Args:
        strategy: The name of the strategy; ``None`` if it was removed.
        config: The effective configuration, with the options of the strategy.
        agent_id: The agent of the session.
        session_id: The session's id, as its host gave it; empty if it gave none.

    Example::

        @hookimpl
        def jaato_gc_strategy_set(strategy, config):
            print(f"{strategy} collects at {config.threshold_percent} %")
    """


@hookspec
def jaato_gc_before_collect(
    strategy: str,
    history: tuple[Message, ...],
    context_usage: ContextUsage,
    reason: GCTriggerReason,
    agent_id: str,
    session_id: str,
) -> None:
    """Called before a collection runs.

    Called by the session right before it runs the strategy. An error is logged with the plugin's
    distribution and version, and the collection goes on.

    Args:
        strategy: The name of the strategy.
        history: The history, read-only.
        context_usage: How full the window is.
        reason: Why the collection runs.
        agent_id: The agent of the session.
        session_id: The session's id, as its host gave it; empty if it gave none.

    Example::

        @hookimpl
        def jaato_gc_before_collect(strategy, reason):
            print(f"{strategy} collects: {reason}")
    """


@hookspec
def jaato_gc_after_collect(
    result: GCResult, history: tuple[Message, ...], agent_id: str, seconds: float, session_id: str
) -> None:
    """Called after a collection, even if it failed.

    Called by the session when history and budget are in their new state. An error is logged with
    the plugin's distribution and version.

    Args:
        result: The result.
        history: The history after it, read-only.
        agent_id: The agent of the session.
        seconds: The time that planning and applying took.
        session_id: The session's id, as its host gave it; empty if it gave none.

    Example::

        @hookimpl
        def jaato_gc_after_collect(result):
            metrics.count("gc.tokens_freed", result.tokens_freed)
    """


@hookspec
def jaato_gc_after_undo(
    result: GCResult, history: tuple[Message, ...], agent_id: str, session_id: str
) -> None:
    """Called after a collection was undone.

    Called by the session when history and budget are as before the collection. Edits of the host,
    repairs and restored content can be undone too. An error is logged with the plugin's
    distribution and version.

    Args:
        result: The result of what was undone.
        history: The history after it, read-only.
        agent_id: The agent of the session.
        session_id: The session's id, as its host gave it; empty if it gave none.

    Example::

        @hookimpl
        def jaato_gc_after_undo(result):
            metrics.count("gc.tokens_freed", -result.tokens_freed)
    """


@hookspec
def jaato_gc_after_restore(
    result: GCResult, history: tuple[Message, ...], agent_id: str, session_id: str
) -> None:
    """Called after removed content was restored from the stash.

    Called by the session when history and budget are in their new state. An error is logged with
    the plugin's distribution and version.

    Args:
        result: The result; its ``details["restored"]`` has the ids of the messages.
        history: The history after it, read-only.
        agent_id: The agent of the session.
        session_id: The session's id, as its host gave it; empty if it gave none.

    Example::

        @hookimpl
        def jaato_gc_after_restore(result):
            metrics.count("gc.restored", len(result.details["restored"]))
    """


@hookspec
def jaato_gc_threshold_crossed(
    percent_used: float, threshold: float, agent_id: str, session_id: str
) -> None:
    """Called when usage crosses the threshold, before the collection that follows from it.

    Called by the session at most once per turn: before a request or at the end of the turn, as
    counted, or while an answer is streaming, as the provider reports it. An error is logged with
    the plugin's distribution and version.

    Args:
        percent_used: How full the window is.
        threshold: The threshold, or the target in continuous mode.
        agent_id: The agent of the session.
        session_id: The session's id, as its host gave it; empty if it gave none.

    Example::

        @hookimpl
        def jaato_gc_threshold_crossed(percent_used):
            print(f"context is {percent_used:.0f} % full")
    """


@hookspec
def jaato_gc_budget_updated(agent_id: str, snapshot: dict[str, Any], session_id: str) -> None:
    """Called after every change of the budget.

    Called by the session after every change. An error is logged with the plugin's distribution and
    version.

    Args:
        agent_id: The agent of the session.
        snapshot: `InstructionBudget.snapshot`.
        session_id: The session's id, as its host gave it; empty if it gave none.

    Example::

        @hookimpl
        def jaato_gc_budget_updated(agent_id, snapshot):
            dashboard.show(agent_id, snapshot["utilization_percent"])
    """


@hookspec
def jaato_gc_session_ended(agent_id: str, session_id: str) -> None:
    """Called when a session is closed, once.

    Called by `GCSession.close`, after the strategy was shut down. A session that its host never
    closes does not end. An error is logged with the plugin's distribution and version.

    Args:
        agent_id: The agent of the session.
        session_id: The session's id, as its host gave it; empty if it gave none.

    Example::

        @hookimpl
        def jaato_gc_session_ended(agent_id, session_id):
            dashboard.close(session_id, agent_id)
    """
