"""The interface of a contender.

Each module in ``contenders/`` has a function ``make() -> Contender``. It runs in an environment of
its own, so it may import its library. Everything before the returned callable is preparation and is
not timed; everything in the callable is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from histories import Plain

WINDOW = 128_000
TRIGGER = 0.80
TARGET = 0.60

Counts = Literal["tokens", "estimate", "messages"]
"""How a library measures a history: with a tokenizer, by estimated tokens, or not in tokens."""

Run = Callable[[], Any]
"""The timed part; its result is passed to `Contender.outcome`."""


@dataclass(slots=True)
class Outcome:
    """The state after a piece of work, to check that it was done.

    Args:
        texts: The texts of the messages that are left, in order. They are counted afterwards, with
            one tokenizer for all contenders.
        collections: The number of collections.
    """

    texts: Sequence[str]
    collections: int = 1


class Contender(Protocol):
    """A library in the comparison."""

    @property
    def name(self) -> str:
        """The name in the tables."""

    @property
    def distributions(self) -> Sequence[str]:
        """The distributions whose versions are listed."""

    @property
    def statement(self) -> str:
        """The import statement that a user needs."""

    @property
    def counts(self) -> Counts:
        """How it measures a history."""

    @property
    def names_removed(self) -> bool:
        """Whether it tells which messages it removed; a number of them is not enough."""

    @property
    def remark(self) -> str:
        """Other differences, in a few words."""

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """Returns one collection of a whole history down to a target.

        Args:
            history: The messages; converted to the library's own before anything is timed.
            target: Tokens that may be left.
            warm: Whether the tokens were counted before. A library that remembers no counts
                returns ``None`` then.
        """

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """Returns a whole session with the window, trigger and target above.

        In each turn the library's messages are created and appended. There is one check a turn,
        before the request, and a collection if one is due.
        """

    def outcome(self, returned: Any) -> Outcome:
        """Returns the state that a `Run` left."""

    def hold(self, history: Sequence[Plain]) -> Any | None:
        """Returns a session with the history, or ``None`` if its memory can't be measured."""

    def bare(self, history: Sequence[Plain]) -> Any:
        """Returns the messages alone, as `hold` has them."""
