"""jaato-server's gc_budget where results go first, and calls stay as long as talk does."""

from contender import Contender
from jaato_server.shared.plugins.gc_budget.plugin import create_plugin

from contenders.jaato_server_session import ServerContender, is_result


def make() -> Contender:
    """The contender."""
    return ServerContender(
        "jaato-server gc_budget, tool output first",
        create_plugin,
        "estimates tokens by length; its trace is switched off",
        goes_first=is_result,
    )
