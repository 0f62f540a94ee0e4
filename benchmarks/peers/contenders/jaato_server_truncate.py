"""jaato-server's gc_truncate."""

from contender import Contender
from jaato_server.shared.plugins.gc_truncate.plugin import create_plugin

from contenders.jaato_server_session import ServerContender


def make() -> Contender:
    """Returns the contender."""
    return ServerContender(
        "jaato-server gc_truncate",
        create_plugin,
        "keeps a number of turns; without its trace, which makes it faster",
        counts_turns=True,
    )
