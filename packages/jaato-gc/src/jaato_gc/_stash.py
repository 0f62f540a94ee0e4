"""Where removed content goes, so that it can come back."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaato_gc._messages import Message


@runtime_checkable
class Stash(Protocol):
    """A place for what collections remove.

    The session writes to it before it removes anything; if that fails, nothing is removed.
    """

    def put(self, gc_id: str, messages: Sequence[Message]) -> None:
        """Keep the messages that a collection is about to remove or clear, all or none."""
        ...
