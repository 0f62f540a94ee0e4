"""The error that every bad input ends in."""

from pathlib import Path

from jaato_gc import GCError


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
