"""What the session of a sub-agent inherits: strategy, configuration and options."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato_gc.errors import GCPluginError
from jaato_gc.plugins import (
    GCPlugin,
    GCStrategy,
    Summarizers,
    load_gc_from_profile,
    load_gc_inline,
)
from jaato_gc.session.options import GCSessionOptions
from jaato_gc.stash import asking

if TYPE_CHECKING:
    from jaato_gc.session.session import GCSession


def inherited_options(
    parent: "GCSession", profile: str | Mapping[str, Any] | None, options: GCSessionOptions
) -> GCSessionOptions:
    """Returns the options of a sub-agent's session, with what it inherits from its parent.

    Args:
        parent: The session of the parent.
        profile: Its profile. By default, the agent's id is its name.
        options: The options that are given.
    """
    own_id = profile if isinstance(profile, str) else f"{parent.budget.agent_id}-child"
    inherited: GCSessionOptions = {
        "agent_id": own_id,
        "context_limit": parent.budget.context_limit,
        "counter": parent.budget.counter,
        "tools": parent.tools,
        "summarizer": parent._summarizer,
        "registry": parent.registry,
        "session_id": parent.budget.session_id,
    }
    if parent.stash is not None and "stash" not in options:
        with asking("serve another agent"):
            inherited["stash"] = parent.stash.for_agent(options.get("agent_id", own_id))
    return {**inherited, **options}


def configure(
    child: "GCSession",
    parent: "GCSession",
    profile: str | Mapping[str, Any] | None,
    profiles: str | Path,
    summarizers: Summarizers | None,
) -> None:
    """Sets the strategy of a sub-agent and its room for the answer.

    Args:
        child: The session of the sub-agent.
        parent: The session of its parent.
        profile: Name of its profile, or an inline configuration. Without a ``gc`` block in it, the
            sub-agent inherits from its parent.
        profiles: The folder of the profiles.
        summarizers: Functions that its ``gc`` block can name.

    Raises:
        GCConfigError: The profile does not exist or is invalid.
        GCPluginError: The strategy can't be used, or can't be copied.
    """
    if isinstance(profile, str):
        loaded = load_gc_from_profile(profile, profiles, parent.registry, summarizers=summarizers)
    else:
        loaded = load_gc_inline(profile or {}, parent.registry, summarizers=summarizers)
    in_use = parent._schedule.strategy
    if loaded:
        child.set_gc_plugin(*loaded)
    elif in_use:
        child.set_gc_plugin(_copied(in_use.plugin), in_use.config)
    if child.budget.context_limit == parent.budget.context_limit:
        child.set_output_reserve(parent._schedule.output_reserve)


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
