"""jaato-server's gc_budget as it comes: with its trace."""

from contender import Contender
from jaato_server.shared.plugins.gc_budget.plugin import create_plugin

from contenders.jaato_server_session import ServerContender


def make() -> Contender:
    """The contender."""
    return ServerContender(
        "jaato-server gc_budget, with its trace",
        create_plugin,
        "estimates tokens by length; also writes a trace, as it does unless told otherwise",
        traces=True,
    )
