"""Options of plugins that are not strategies: observers, counters, stashes, formats."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from jaato_gc.errors import GCConfigError
from jaato_gc.plugins.discovery import InstalledPlugin, PluginStatus
from jaato_gc.settings import closest, read_settings, unknown_key

logger = logging.getLogger("jaato_gc")


def find_plugin(name: str, plugins: Sequence[InstalledPlugin]) -> InstalledPlugin | None:
    """Returns the plugin of this name; ``None`` if it is blocked, which is logged.

    Args:
        name: The name of the plugin or of its distribution.
        plugins: All plugins with hooks.

    Raises:
        GCConfigError: There is none or there are several, or it is broken.
    """
    found = [plugin for plugin in plugins if plugin.is_named(name)]
    if not found:
        names = sorted({plugin.name for plugin in plugins})
        near = closest(name, names)
        installed = f"no such plugin is installed; plugins are {', '.join(names) or 'none'}"
        raise GCConfigError(f"did you mean {near!r}?" if near else installed)
    if len(found) > 1:
        origins = " and ".join(plugin.origin for plugin in found)
        raise GCConfigError(f"several plugins have this name: {origins}; name the distribution")
    [plugin] = found
    if plugin.status is PluginStatus.BLOCKED:
        logger.warning("%s is blocked: its options have no effect", plugin.origin)
        return None
    if plugin.status is not PluginStatus.OK:
        raise GCConfigError(f"{plugin.origin} is {plugin.status}: {plugin.cause}")
    return plugin


def read_options(
    plugin: InstalledPlugin, options: Mapping[str, Any], *, from_json: bool
) -> BaseModel | dict[str, Any]:
    """Returns options in the model of the plugin; unchanged, as a copy, if it has none.

    Raises:
        GCConfigError: They are not an object, a key is unknown, or a value is invalid.
    """
    if not isinstance(options, Mapping):
        raise GCConfigError(f"{options!r:.80}: must be an object of options")
    model = plugin.options_model
    if model is None:
        return dict(options)
    for key in options:
        if key not in model.model_fields:
            raise GCConfigError(unknown_key(key, model.model_fields))
    return read_settings(model, options, from_json=from_json)
