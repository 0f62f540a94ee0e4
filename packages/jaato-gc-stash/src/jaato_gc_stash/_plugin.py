"""A stash for every session, without a line of code: set an environment variable."""

import functools
import os

from jaato_gc import hookimpl
from jaato_gc_stash._stash import SqlStash


@hookimpl
def jaato_gc_stash(agent_id: str) -> SqlStash | None:
    """The stash at ``JAATO_GC_STASH``, of the project ``JAATO_GC_STASH_PROJECT``."""
    url = os.environ.get("JAATO_GC_STASH")
    if not url:
        return None
    return _open(url, os.environ.get("JAATO_GC_STASH_PROJECT") or "default").for_agent(agent_id)


@functools.lru_cache(maxsize=8)
def _open(url: str, project: str) -> SqlStash:
    """One set of connections for all agents of a process."""
    return SqlStash(url, project=project)
