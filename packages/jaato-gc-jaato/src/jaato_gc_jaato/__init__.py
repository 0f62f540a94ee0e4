"""The strategies of jaato-gc as GC plugins of jaato-server."""

from jaato_gc_jaato._plugin import JaatoGCPlugin, bridge
from jaato_gc_jaato._version import __version__

__all__ = ["JaatoGCPlugin", "__version__", "bridge"]
