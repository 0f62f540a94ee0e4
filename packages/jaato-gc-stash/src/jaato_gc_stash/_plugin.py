"""The plugin that opens a stash for every session if ``JAATO_GC_STASH`` is set."""

import functools
import os
import threading

from jaato_gc.plugin import hookimpl
from jaato_gc_stash._stash import SqlStash


@hookimpl
def jaato_gc_stash(agent_id: str) -> SqlStash | None:
    """Returns the stash at ``JAATO_GC_STASH`` in the project ``JAATO_GC_STASH_PROJECT``."""
    url = os.environ.get("JAATO_GC_STASH")
    if not url:
        return None
    with _opening:
        stash = _open(url, os.environ.get("JAATO_GC_STASH_PROJECT") or "default")
    return stash.for_agent(agent_id)


_opening = threading.Lock()  # a cache alone lets threads that start at once open several


@functools.lru_cache(maxsize=8)
def _open(url: str, project: str) -> SqlStash:
    """Opens a stash, cached so that all agents of a process share its connections."""
    return SqlStash(url, project=project)
