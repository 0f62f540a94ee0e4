"""Input files: paths, ``-`` for stdin, and pipes such as ``<(…)``.

What can be read only once is copied to a temporary folder, because commands read a file several
times and in several processes.
"""

import re
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import click

from jaato_gc import GCError
from jaato_gc_lab._files import copy_stream, unused_path

STDIN = "-"
COPY_FOLDER = "jaato-gc-input-"
"""Prefix of the temporary folder with the copies."""
_FOLDER = f"{__name__}.folder"


class InputFile(click.ParamType):  # type: ignore[type-arg]
    """An input file. Whether it exists is not checked here: the error on reading it says more."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if isinstance(value, Path):
            return value
        path = Path(value)
        if value == STDIN:
            return _copy_of_stdin(ctx)
        if _is_pipe(path):
            name = f"pipe-{path.name}" if path.name.isdigit() else path.name
            with path.open("rb") as pipe:
                copied = _copied(pipe, name, ctx)
            if copied is None:
                self.fail(f"{path} is empty: expected a recorded run", param, ctx)
            return copied
        return path


def is_copy(path: Path) -> bool:
    """Returns whether a file is the copy of a stream, which can't be written back."""
    return path.parent.name.startswith(COPY_FOLDER)


def with_stream_names(text: str) -> str:
    """Returns a text in which copies of streams have their names, such as ``stdin``."""
    folder = rf"{re.escape(tempfile.gettempdir())}[/\\]+{COPY_FOLDER}\w+[/\\]+"
    return re.sub(folder, "", text)


def _is_pipe(path: Path) -> bool:
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _copy_of_stdin(ctx: click.Context | None) -> Path:
    example = "jaato-gc inspect - < session.jsonl"
    if sys.stdin is not None and sys.stdin.isatty():
        raise GCError(f"stdin is a terminal: pass a file, or redirect one, such as {example}")
    # None if it is closed
    copied = _copied(sys.stdin.buffer, "stdin", ctx) if sys.stdin is not None else None
    if copied is None:
        raise GCError(f"stdin is empty: pass a recorded run, such as {example}")
    return copied


def _copied(stream: BinaryIO, name: str, ctx: click.Context | None) -> Path | None:
    """Returns a copy of a stream; ``None`` if it is empty."""
    root = (ctx or click.get_current_context()).find_root()
    if _FOLDER not in root.meta:
        # The root context ends with the command, also if the other arguments are invalid.
        root.meta[_FOLDER] = root.with_resource(tempfile.TemporaryDirectory(prefix=COPY_FOLDER))
    path = unused_path(Path(root.meta[_FOLDER], name))
    return path if copy_stream(stream, path, name) else None
