"""jaato-server as seen from here: what it hands over, and its package of GC plugins.

Its classes are not imported: there are two lines of versions with different module names, and a
plugin must load without either of them.
"""

import importlib
from types import ModuleType
from typing import Any

from jaato_gc import GCPluginError

HostMessage = Any
"""A `Message` of jaato-server."""
HostPart = Any
"""A `Part` of jaato-server."""
HostConfig = Any
"""A `GCConfig` of jaato-server."""
HostReason = Any
"""A `GCTriggerReason` of jaato-server."""
HostResult = Any
"""A `GCResult` of jaato-server."""

GC_PACKAGES = ("jaato_server.shared.plugins.gc", "shared.plugins.gc")
"""The package of GC plugins, in versions from 1.0 on and before."""


def gc_package(config: HostConfig) -> ModuleType:
    """Returns jaato-server's package of GC plugins, by preference the one of a configuration.

    Raises:
        GCPluginError: jaato-server is not installed.
    """
    own = type(config).__module__.rpartition(".")[0]
    for name in (own, *GC_PACKAGES):
        try:
            package = importlib.import_module(name)
        except (ImportError, ValueError):  # not this line of versions, or a module without package
            continue
        if hasattr(package, "GCRemovalItem"):  # another package may be named "shared"
            return package
    raise GCPluginError("jaato-server can't be found: the plugins of jaato-gc-jaato run inside it")
