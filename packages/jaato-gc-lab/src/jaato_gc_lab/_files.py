"""Writing files whole or not at all, and never over others unless asked."""

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from jaato_gc import GCError


class FileExistsAlreadyError(GCError):
    """A file would have been overwritten."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists already: name another file, or give --force to replace it")


def refuse_overwriting(paths: Iterable[Path | None], *, force: bool) -> None:
    """Complain about files that exist, before any work is done for them.

    Raises:
        FileExistsAlreadyError: One exists, and ``force`` is not given.
        GCError: One can't be written there at all.
    """
    for path in filter(None, paths):
        if path.is_dir():
            raise GCError(f"{path} is a folder: name a file in it")
        if not path.parent.is_dir():
            raise GCError(f"{path.parent} is no folder: make it first, or name another place")
        if not os.access(path.parent, os.W_OK):
            raise GCError(f"{path.parent} can't be written to: name another place")
        if path.exists() and not force:
            raise FileExistsAlreadyError(path)


def write_all(contents: Mapping[Path, bytes], *, mode: int | None = None) -> None:
    """Write some files: all of them whole, or, if anything goes wrong before the end, none.

    They are written under other names first, beside their places, and renamed when all are there.

    Args:
        contents: What to write, by path.
        mode: Permissions of files that are new; those of others stay.
    """
    written: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            place = path.resolve()  # what a link leads to is replaced, not the link
            temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
            written[place] = temporary  # noted first: whatever comes, it is tidied away
            try:
                _write(temporary, content, _mode_for(place, mode))
            except OSError as error:  # it names a file that nobody knows
                raise OSError(error.errno, error.strerror, str(path)) from error
        _rename(written)
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)


def write_new(path: Path, content: bytes) -> None:
    """Write a file; whatever is there is replaced, once the new one is whole."""
    write_all({path: content})


def free_name(path: Path) -> Path:
    """The path itself if nothing is there; else one with a number."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free


def _rename(written: Mapping[Path, Path]) -> None:
    new = [place for place in written if not place.exists()]
    try:
        for place, temporary in written.items():
            temporary.replace(place)
    except BaseException:
        for place in new:
            place.unlink(missing_ok=True)
        raise


def _write(path: Path, content: bytes, mode: int) -> None:
    # Nobody else may read it before it is known who may.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(mode)


def _mode_for(place: Path, mode: int | None) -> int:
    if place.exists():
        return place.stat().st_mode & 0o777
    if mode is not None:
        return mode & 0o777
    mask = os.umask(0)  # there is no other way to ask for it
    os.umask(mask)
    return 0o666 & ~mask
