"""Stores the content that jaato-gc removes in SQLite or PostgreSQL, so that it can be restored."""

from jaato_gc_stash._plugin import jaato_gc_stash
from jaato_gc_stash._stash import SqlStash
from jaato_gc_stash._version import __version__

__all__ = ["SqlStash", "__version__", "jaato_gc_stash"]
