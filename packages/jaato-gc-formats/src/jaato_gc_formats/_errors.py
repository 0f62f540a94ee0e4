"""The error that is raised for every kind of bad input."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jaato_gc import GCError

SHAPE_ERRORS = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)
"""Exceptions that reading data with an unexpected structure raises."""


class FormatError(GCError):
    """A history can't be read or written. The message says why, where, and what to do.

    Args:
        what: What is wrong and how to fix it.
        path: The file with the problem.
        line: The line in that file, starting at 1. In a JSON array, the number of the element.
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
def reading(what: str) -> Iterator[None]:
    """Turns the exceptions that malformed data causes into a `FormatError`.

    Args:
        what: The data being read, such as ``message 3``, for the error message.
    """
    try:
        yield
    except SHAPE_ERRORS as error:
        shown = f"{type(error).__name__}: {error}"
        raise FormatError(f"{what} can't be read: unexpected structure ({shown})") from error
