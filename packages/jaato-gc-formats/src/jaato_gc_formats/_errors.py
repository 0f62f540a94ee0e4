"""The error that every bad input ends in."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jaato_gc import GCError

MISSHAPEN = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)
"""What reading data of an unexpected shape ends in."""


class FormatError(GCError):
    """A history can't be read or written: what is wrong, where, and what to do about it.

    Args:
        what: What is wrong, and the remedy.
        path: The file that it is in.
        line: The line of that file, counted from 1; of a JSON array, the element.
    """

    def __init__(
        self, what: str, *, path: str | Path | None = None, line: int | None = None
    ) -> None:
        place = ", ".join(
            part for part in (path and str(path), line is not None and f"line {line}") if part
        )
        super().__init__(f"{place}: {what}" if place else what)
        self.what = what
        self.path = path
        self.line = line


@contextmanager
def misshapen(what: str) -> Iterator[None]:
    """Whatever reading data of an unexpected shape ends in is a `FormatError`.

    Args:
        what: What is read, such as ``message 3``.
    """
    try:
        yield
    except MISSHAPEN as error:
        shown = f"{type(error).__name__}: {error}"
        raise FormatError(f"{what} is in a shape that can't be read ({shown})") from error
