"""Where removed content goes, and comes back from: an SQLite file, or a PostgreSQL database."""

from jaato_gc_stash._plugin import jaato_gc_stash
from jaato_gc_stash._stash import SqlStash
from jaato_gc_stash._version import __version__

__all__ = ["SqlStash", "__version__", "jaato_gc_stash"]
