"""The window of a session: given by the host, known by a plugin, or assumed."""

import functools
import logging

from jaato_gc.plugins import PluginRegistry
from jaato_gc.session import arguments

logger = logging.getLogger("jaato_gc")

ASSUMED_WINDOW = 128_000
"""The window of an unknown model, in tokens."""


def window_of(model: str | None, context_limit: int | None, registry: PluginRegistry) -> int:
    """Returns the window of a session, in tokens.

    Args:
        model: The model, if the host gave one.
        context_limit: The window that the host gave.
        registry: The plugins that know models.

    Raises:
        GCConfigError: ``context_limit`` is not a positive integer.
    """
    if context_limit is not None:
        return arguments.window(context_limit)
    if window := registry.model_window(model):
        return window
    _log_once(f"no plugin knows the window of model {model!r}" if model else "no model was given")
    return ASSUMED_WINDOW


@functools.cache  # one line per process and model, however many sessions there are
def _log_once(reason: str) -> None:
    logger.warning(
        "%s: a window of %s tokens is assumed. Give the real one: context_limit=…",
        reason,
        f"{ASSUMED_WINDOW:,}",
    )
