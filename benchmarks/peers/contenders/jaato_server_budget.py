"""jaato-server's gc_budget."""

from contender import Contender
from jaato_server.shared.plugins.gc_budget.plugin import create_plugin

from contenders.jaato_server_session import ServerContender


def make() -> Contender:
    """Returns the contender."""
    return ServerContender(
        "jaato-server gc_budget",
        create_plugin,
        "without its trace, which makes it faster",
    )
