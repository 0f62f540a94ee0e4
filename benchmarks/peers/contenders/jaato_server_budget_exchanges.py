"""jaato-server's gc_budget with the policies of this project: exchanges go before talk."""

from contender import Contender
from jaato_server.shared.plugins.gc_budget.plugin import create_plugin

from contenders.jaato_server_session import ServerContender, is_in_exchange


def make() -> Contender:
    """The contender."""
    return ServerContender(
        "jaato-server gc_budget, policies as ours",
        create_plugin,
        "estimates tokens by length; its trace is switched off",
        goes_first=is_in_exchange,
    )
