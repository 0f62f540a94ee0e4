"""jaato-server's gc_truncate."""

from contender import Contender
from jaato_server.shared.plugins.gc_truncate.plugin import create_plugin

from contenders.jaato_server_session import ServerContender


def make() -> Contender:
    """The contender."""
    return ServerContender(
        "jaato-server gc_truncate",
        create_plugin,
        "keeps a number of turns, no target in tokens; estimates by length",
        counts_turns=True,
    )
