"""What a contender has to say for itself.

Each module in ``contenders/`` has a function ``make() -> Contender`` and imports its library only
there or at its top: it runs in an environment of its own. Everything before the returned callable
is preparation and is not timed; everything in it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from histories import Plain

WINDOW = 128_000
TRIGGER = 0.80
TARGET = 0.60


@dataclass(slots=True)
class Outcome:
    """What came out of a piece of work, to see that it was done.

    Args:
        texts: The texts of the messages that are left, in order: they are counted afterwards, with
            the tokenizer that all share.
        collections: How many collections took place.
    """

    texts: Sequence[str]
    collections: int = 1


Run = Callable[[], Any]
"""The timed part; what it returns is handed to `Contender.outcome`."""


class Contender(Protocol):
    """A library, as far as it does the work. ``None`` instead of a `Run`: it has nothing for it."""

    @property
    def name(self) -> str:
        """As in the table."""

    @property
    def distributions(self) -> Sequence[str]:
        """What is installed for it; their versions go into the table."""

    @property
    def module(self) -> str:
        """What a user imports, for the time that takes."""

    @property
    def does_less(self) -> str:
        """What it does not do that others do, in a few words: "counts messages, not tokens"."""

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """One collection of a whole history down to a target in tokens.

        Args:
            history: The messages; made into the library's own before anything is timed.
            target: Tokens that may be left.
            warm: Whether tokens have been counted before, where the library remembers that.
                ``None`` is right where cold and warm are the same.
        """

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run | None:
        """A whole run: messages made and appended, a check every turn, a collection when due.

        Window, trigger and target are the constants above. One check a turn, before its request,
        with the user's message already there; making the library's messages is timed.
        """

    def outcome(self, returned: Any) -> Outcome:
        """What a `Run` left."""

    def save(self, history: Sequence[Plain]) -> Run | None:
        """The state of a session with this history to text (returned)."""

    def restore(self, history: Sequence[Plain]) -> Run | None:
        """That text back to a session that can go on."""

    def hold(self, history: Sequence[Plain]) -> Any | None:
        """A session that holds the history, for the memory that it takes."""


@runtime_checkable
class KnowsItsMessages(Protocol):
    """A contender whose messages can be told from what it keeps beside them."""

    def bare(self, history: Sequence[Plain]) -> Any:
        """The messages alone, as `Contender.hold` has them."""


@dataclass(slots=True)
class Conversion:
    """From or to the format of a provider's API.

    Args:
        name: What is converted to what.
        data: How much: the characters of the request as JSON.
        run: The timed part.
    """

    name: str
    data: int
    run: Run


@runtime_checkable
class Converts(Protocol):
    """A contender that reads and writes the formats of providers."""

    def conversions(self, history: Sequence[Plain]) -> Sequence[Conversion]:
        """What it converts, each made ready for one run."""
