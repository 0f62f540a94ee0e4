"""Stopping automatic collections that bring nothing."""

from dataclasses import dataclass

MAX_FRUITLESS = 2


@dataclass(slots=True)
class Breaker:
    """Opens after two automatic collections in a row without real gain.

    A change of the history or of the window lets one more try through; the first that brings
    something closes it.
    """

    fruitless: int = 0
    reason: str | None = None
    blocks: bool = False

    def record(self, gained: bool, why: str) -> None:
        """Take note of an automatic collection."""
        if gained:
            self.fruitless, self.reason, self.blocks = 0, None, False
            return
        self.fruitless += 1
        if self.fruitless >= MAX_FRUITLESS:
            self.blocks = True
            self.reason = f"{self.fruitless} collections in a row freed next to nothing: {why}"

    def something_changed(self) -> None:
        """Let one more try through."""
        self.blocks = False
