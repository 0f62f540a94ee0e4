"""Reads files up to a size. Writes files and folders atomically and protects existing ones."""

import gzip
import io
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from jaato_gc import GCError


class FileExistsAlreadyError(GCError):
    """An existing file would be overwritten."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} already exists: choose another file or use --force to replace it")


MAX_BYTES = 512 * 1024 * 1024
"""The size of a file that is read whole, and of what it has when it is unpacked."""
MAX_STREAM_BYTES = 4 * 1024 * 1024 * 1024
"""The size of a stream that is copied to a file."""
_MEGABYTE = 1024 * 1024


def read_whole(path: str | Path) -> bytes:
    """Returns the content of a file.

    Raises:
        GCError: It is not a regular file, or too large to be read whole.
        OSError: It can't be read.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise GCError(f"{path} is not a regular file: save the data to a file first")
    with path.open("rb") as file:
        return _read_all(file, f"{path} is", MAX_BYTES)


def unpacked(content: bytes, path: Path) -> bytes:
    """Returns what gzip packed. A small file can have terabytes in it.

    Raises:
        GCError: It is too large.
        OSError, EOFError, zlib.error: It is damaged.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        return _read_all(file, f"{path} is unpacked", MAX_BYTES)


def copy_stream(stream: BinaryIO, place: Path, name: str) -> bool:
    """Copies a stream to a file. Returns whether there was anything in it.

    Raises:
        GCError: It has no end, or is too large.
    """
    size = 0
    with place.open("wb") as file:
        while chunk := stream.read(_MEGABYTE):
            size += len(chunk)
            if size > MAX_STREAM_BYTES:
                raise _too_large(f"{name} is", MAX_STREAM_BYTES)
            file.write(chunk)
    return size > 0


def _read_all(file: BinaryIO | gzip.GzipFile, what: str, most: int) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise _too_large(what, most)
    return content


def _too_large(what: str, most: int) -> GCError:
    return GCError(f"{what} larger than {most // _MEGABYTE:,} MiB: is it the right file? Split it")


def refuse_overwriting(paths: Iterable[Path | None], *, force: bool) -> None:
    """Raises an error for output files that exist or can't be written, before any work is done.

    Raises:
        FileExistsAlreadyError: A file exists and ``force`` is not set.
        GCError: A file can't be written.
    """
    for path in filter(None, paths):
        _refuse_broken_link(path)
        if path.is_dir():
            raise GCError(f"{path} is a folder: expected a file")
        if not path.parent.is_dir():
            raise GCError(f"folder {path.parent} does not exist: create it or choose another one")
        if not os.access(path.parent, os.W_OK):
            raise GCError(f"folder {path.parent} is not writable: choose another one")
        if path.exists() and not force:
            raise FileExistsAlreadyError(path)


def write_all(contents: Mapping[Path, bytes], *, mode: int | None = None) -> None:
    """Writes several files completely, or none of them if an error occurs.

    The files are written to temporary names in the same folders and renamed at the end.

    Args:
        contents: File contents by path.
        mode: Permissions of new files. Existing files keep their permissions.

    Raises:
        GCError: A path is a link to a file that does not exist.
    """
    for path in contents:
        _refuse_broken_link(path)
    written: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            place = path.resolve()  # replaces the target of a link, not the link
            temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
            written[place] = temporary  # before the write, so that it is always removed
            try:
                _write(temporary, content, _mode_for(place, mode))
            except OSError as error:  # the error contains the temporary name
                raise OSError(error.errno, error.strerror, str(path)) from error
        _rename(written)
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """Writes a file atomically. An existing file is replaced."""
    write_all({path: content})


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Writes a new folder with all its files, or nothing if an error occurs.

    The files are written to a temporary folder beside it, which is renamed at the end.

    Args:
        folder: The folder to create. Its parent exists.
        contents: File contents by path in the folder.

    Raises:
        GCError: The folder exists, or its parent does not.
    """
    if folder.exists() or folder.is_symlink():
        raise GCError(f"{folder} already exists: remove it or choose another --directory")
    if not folder.parent.is_dir():
        raise GCError(f"folder {folder.parent} does not exist: create it or choose another one")
    temporary = folder.parent / f".jaato-gc.{secrets.token_hex(4)}.part"
    try:
        for name, content in contents.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, content, _mode_for(path, None))
        temporary.rename(folder)
    except OSError as error:  # the error contains the temporary name
        raise OSError(error.errno, error.strerror, str(folder)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def unused_path(path: Path) -> Path:
    """Returns the path, with a number if it already exists."""
    number, unused = 1, path
    while unused.exists():
        number += 1
        unused = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return unused


def _refuse_broken_link(path: Path) -> None:
    """Raises an error for a link whose target would be created at an unexpected place."""
    if path.is_symlink() and not path.exists():
        raise GCError(
            f"{path} is a link to a file that does not exist: remove the link or choose another "
            "file"
        )


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
    # Private until the final permissions are set.
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
    mask = os.umask(0)  # the only way to read the umask is to set it
    os.umask(mask)
    return 0o666 & ~mask
