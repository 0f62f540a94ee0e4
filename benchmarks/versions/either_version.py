"""The API of jaato-gc that the old and the new version have in common.

The same files run with both versions, so they use nothing else. `public` finds a name that one
version has in another public module.
"""

import importlib
import json
from collections.abc import Mapping
from typing import Any

from jaato_gc import GCConfig, GCSession, Message


def public(name: str) -> Any:
    """Returns a public name of core: at the top, or in the module for plugin authors."""
    top = importlib.import_module("jaato_gc")
    return getattr(top, name, None) or getattr(importlib.import_module("jaato_gc.plugin"), name)


def new_session(context_limit: int) -> GCSession:
    """Returns an empty session that no installed plugin can influence."""
    registry = public("PluginRegistry")(load_installed=False)
    counter = public("EstimateCounter")()
    return GCSession(context_limit=context_limit, counter=counter, registry=registry)


def use_strategy(
    session: GCSession, name: str, options: Mapping[str, Any], config: GCConfig
) -> None:
    """Sets a strategy by the name of its package."""
    plugin = importlib.import_module(f"jaato_{name}").create_plugin()
    plugin.initialize(dict(options))
    session.set_gc_plugin(plugin, config)


def collection_count(session: GCSession) -> int:
    """Returns the number of collections so far. The old version keeps all of them."""
    return getattr(session, "collection_count", len(session.get_gc_history()))


def size_of(message: Message) -> int:
    """Tokens of a message, four characters each: independent of the version."""
    return len(as_json(message)) // 4 + 4


def as_json(message: Message) -> str:
    """Returns what is said in a message, as JSON text."""
    said = [
        [part.text or part.thought for part in message.parts],
        [[call.name, call.args] for call in message.function_calls],
        [[each.name, each.result, each.is_error] for each in message.function_responses],
    ]
    return json.dumps(said, default=lambda value: dict(value) if hasattr(value, "keys") else "?")
