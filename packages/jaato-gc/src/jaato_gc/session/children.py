"""What the session of a sub-agent inherits: strategy, configuration and options."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato_gc.config import GCConfig
from jaato_gc.errors import GCPluginError
from jaato_gc.plugins import (
    GCPlugin,
    GCStrategy,
    PluginRegistry,
    Summarizers,
    load_gc_from_profile,
    load_gc_inline,
)
from jaato_gc.session.options import GCSessionOptions
from jaato_gc.session.strategy_in_use import StrategyInUse
from jaato_gc.stash import asking

if TYPE_CHECKING:
    from jaato_gc.session.session import GCSession


def inherited_options(parent: "GCSession", options: GCSessionOptions) -> GCSessionOptions:
    """Returns the options of a sub-agent's session, with what it inherits from its parent.

    Args:
        parent: The session of the parent.
        options: The options that are given, with the agent's id among them.
    """
    inherited: GCSessionOptions = {
        "context_limit": parent.budget.context_limit,
        "counter": parent.budget.counter,
        "tools": parent.tools,
        "summarizer": parent._summarizer,
        "registry": parent.registry,
        "session_id": parent.budget.session_id,
    }
    if parent.stash is not None and "stash" not in options:
        with asking("serve another agent"):
            inherited["stash"] = parent.stash.for_agent(options["agent_id"])
    return {**inherited, **options}


def configuration_of(
    profile: str | Mapping[str, Any] | None,
    profiles: str | Path,
    parent: StrategyInUse | None,
    registry: PluginRegistry,
    summarizers: Summarizers | None,
) -> tuple[GCPlugin, GCConfig] | None:
    """Returns strategy and configuration of a sub-agent; ``None`` if it has none.

    Args:
        profile: Name of its profile, or an inline configuration. Without a ``gc`` block in it, the
            sub-agent inherits from its parent.
        profiles: The folder of the profiles.
        parent: The strategy of the parent, if it has one.
        registry: The registry of strategies.
        summarizers: Functions that its ``gc`` block can name.

    Raises:
        GCConfigError: The profile does not exist or is invalid.
        GCPluginError: The strategy can't be used, or can't be copied.
    """
    if isinstance(profile, str):
        loaded = load_gc_from_profile(profile, profiles, registry, summarizers=summarizers)
    else:
        inline = {} if profile is None else profile
        loaded = load_gc_inline(inline, registry, summarizers=summarizers)
    if loaded or parent is None:
        return loaded
    return _copied(parent.plugin), parent.config


def _copied(plugin: GCPlugin) -> GCPlugin:
    """Returns a copy of a strategy, with the same options.

    A strategy keeps no state, and it may be of a class that no plugin registers.
    """
    try:
        copied = copy.copy(plugin)
        if isinstance(copied, GCStrategy):  # it still has the parent's resources and summarizer
            copied.initialize(dict(copied.options))
    except Exception as error:
        cause = f"{type(plugin).__name__} can't be inherited: {type(error).__name__}: {error}"
        raise GCPluginError(f"{cause}; give the child a 'gc' block of its own") from error
    return copied
