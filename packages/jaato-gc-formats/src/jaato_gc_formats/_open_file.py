"""Opens plain and gzip files, and rejects files that are not text."""

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
"""Number of bytes that are read at once."""

_UTF_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_UNSUPPORTED = (
    (b"PK\x03\x04", "a zip archive: unpack it (for Inspect: inspect log convert --to json)"),
    (b"SQLite format 3", "an SQLite database: export the conversation as JSON"),
    (b"(\xb5/\xfd", "compressed with zstd: unpack it"),
    (b"BZh", "compressed with bzip2: unpack it"),
    (b"\xfd7zXZ", "compressed with xz: unpack it"),
    (b"PAR1", "a Parquet table: export it as JSON Lines"),
)
_CONTROL_BYTES = bytes(byte for byte in range(1, 32) if byte not in b"\t\r\n")
"""Control characters: rare in text, frequent in binary files."""


@contextmanager
def open_file(path: Path) -> Iterator[io.BufferedReader]:
    """Opens a file for reading, and decompresses gzip.

    Raises:
        FormatError: The path is not a readable regular file.
    """
    try:
        mode = path.stat().st_mode if "\0" not in str(path) else 0
        if stat.S_ISDIR(mode):
            raise FormatError(_folder_error(path), path=path)
        if not stat.S_ISREG(mode):
            raise FormatError("not a regular file: save the data to a file first", path=path)
        with io.BufferedReader(io.FileIO(path), CHUNK) as file:
            if file.peek(2)[:2] == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield io.BufferedReader(cast(io.RawIOBase, unpacked), CHUNK)
            else:
                yield cast(io.BufferedReader, file)
    except FileNotFoundError:
        raise FormatError("no such file: check the path", path=path) from None
    except PermissionError:
        raise FormatError("permission denied: check the file's permissions", path=path) from None
    except OSError as error:
        raise FormatError(f"the file can't be read: {error.strerror}", path=path) from None


def _folder_error(path: Path) -> str:
    if (path / "message").is_dir() and (path / "part").is_dir():
        return (
            "this is OpenCode's storage folder: export a session to a file (opencode export) and "
            "pass that file"
        )
    return "expected a file, got a folder: pass one of the files in it"


def reject_unreadable(start: bytes, path: Path) -> None:
    """Rejects archives, binary files and encodings other than UTF-8.

    Args:
        start: The first bytes of the file.
        path: The file, for the error message.

    Raises:
        FormatError: The file can't be read.
    """
    for magic, what in _UNSUPPORTED:
        if start.startswith(magic):
            raise FormatError(f"the file is {what}", path=path)
    encoding = next((name for bom, name in _UTF_BOMS if start.startswith(bom)), None)
    if encoding is None and b"\0" in start[:4]:
        encoding = {2: "UTF-16", 3: "UTF-32"}.get(start[:4].count(b"\0"))
    if encoding:
        raise FormatError(
            f"expected UTF-8, but the file looks like {encoding}: convert it "
            f"(iconv -f {encoding} -t UTF-8)",
            path=path,
            line=1,
        )
    if len(start) - len(start.translate(None, _CONTROL_BYTES)) > len(start) / 20:
        raise FormatError("expected JSON, but the file is binary: export it as JSON", path=path)
