"""Files as they are opened: unpacked, and refused where they can't be text."""

import codecs
import gzip
import io
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from jaato_gc_formats._errors import FormatError

CHUNK = 64 * 1024
"""How much is read at once."""

_UTF_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_ARCHIVES = (
    (b"PK\x03\x04", "a zip archive: unpack it (Inspect: inspect log convert --to json)"),
    (b"SQLite format 3", "an SQLite database: export the conversation as JSON"),
    (b"(\xb5/\xfd", "compressed with zstd: unpack it"),
    (b"BZh", "compressed with bzip2: unpack it"),
    (b"\xfd7zXZ", "compressed with xz: unpack it"),
    (b"PAR1", "a Parquet table: export it as JSON Lines"),
)
_CONTROL = bytes(byte for byte in range(1, 32) if byte not in b"\t\r\n")
"""What no text has, and what is no text has much of."""


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """The content of a file, unpacked. Everything that goes wrong with it is a `FormatError`."""
    try:
        mode = path.stat().st_mode if "\0" not in str(path) else 0
        if stat.S_ISDIR(mode):
            raise FormatError(_folder(path), path=path)
        if not stat.S_ISREG(mode):
            raise FormatError("it is no file: save what it gives to one", path=path)
        with io.BufferedReader(io.FileIO(path), CHUNK) as file:
            if file.peek(2)[:2] == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield io.BufferedReader(cast(io.RawIOBase, unpacked), CHUNK)
            else:
                yield cast(io.BufferedReader, file)
    except FileNotFoundError:
        raise FormatError("there is no such file", path=path) from None
    except PermissionError:
        raise FormatError("the file may not be read: check its permissions", path=path) from None
    except OSError as error:
        raise FormatError(f"the file can't be read: {error.strerror}", path=path) from None


def _folder(path: Path) -> str:
    if (path / "message").is_dir() and (path / "part").is_dir():
        return (
            "this is the folder in which OpenCode keeps its sessions, which can't be read as a "
            "whole: export the session (opencode export)"
        )
    return "it is a folder: give one of the files in it"


def refuse_unreadable(start: bytes, path: Path) -> None:
    """Refuse what is packed, encoded or written in a way that can't be read, by how it begins."""
    for magic, what in _ARCHIVES:
        if start.startswith(magic):
            raise FormatError(f"the file is {what}", path=path)
    encoding = next((name for bom, name in _UTF_BOMS if start.startswith(bom)), None)
    if encoding is None and b"\0" in start[:4]:
        encoding = {2: "UTF-16", 3: "UTF-32"}.get(start[:4].count(b"\0"))
    if encoding:
        raise FormatError(
            f"the file seems to be {encoding}, where UTF-8 was expected: convert it "
            f"(iconv -f {encoding} -t UTF-8)",
            path=path,
            line=1,
        )
    if len(start) - len(start.translate(None, _CONTROL)) > len(start) / 20:
        raise FormatError("the file is binary, where JSON was expected", path=path)
