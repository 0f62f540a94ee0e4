"""Files as a sequence of JSON values, whatever they are packed in."""

import codecs
import gzip
import io
import json
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from jaato_gc_formats._errors import FormatError
from jaato_gc_formats._history import Problem

MAX_RECORD_BYTES = 256 * 1024 * 1024
"""The longest record that is read, unless another limit is given."""
CHUNK = 64 * 1024
FIRST_LINE = 1024 * 1024
"""How much of the first line is looked at to tell one JSON value from a line of many."""

_BLANK = re.compile(r"[ \t\r\n]*")
_JSON = json.JSONDecoder()
_NEAR_THE_END = 16
"""A value that is cut breaks off within this many characters of where the text ends."""

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
_CUT = "it is cut off in the middle: the file is not whole"
_SKIP = "load with repair=True to skip it"


class Record(NamedTuple):
    """One JSON value of a file: a line, an element of its array, or all of it."""

    line: int
    value: Any


def in_memory(data: Any) -> Iterable[Record]:
    """Data that is at hand already, as records."""
    values = data if isinstance(data, list | tuple) else [data]
    return _InMemory(values)


class _InMemory:
    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[Record]:
        return (Record(number, value) for number, value in enumerate(self._values, 1))


class FileRecords:
    """The records of a file, one in memory at a time. Going through them again reads it again.

    A file is JSON Lines, a JSON array of records, or one JSON object; plain or gzip.

    Args:
        path: The file.
        repair: Skip what is broken, and note it in ``problems``.
        max_record_bytes: The longest record that is read.
    """

    def __init__(
        self, path: str | Path, *, repair: bool = False, max_record_bytes: int = MAX_RECORD_BYTES
    ) -> None:
        self.path = Path(path)
        self.repair = repair
        self.max_record_bytes = max_record_bytes
        self.line = 0
        """Where the last record stood that was read."""
        self._broken: dict[tuple[int, str], Problem] = {}

    @property
    def problems(self) -> list[Problem]:
        """What was skipped so far."""
        return sorted(self._broken.values(), key=lambda problem: problem.line or 0)

    def skip(self, what: str, line: int) -> None:
        """Note a broken record, if broken ones are skipped.

        Raises:
            FormatError: They are not.
        """
        if not self.repair:
            raise FormatError(what, path=self.path, line=line)
        self.note(what, line)

    def note(self, what: str, line: int) -> None:
        """Note something about a record that doesn't keep the others from being read."""
        self._broken[line, what] = Problem(what, line)

    def __iter__(self) -> Iterator[Record]:
        self.line = 0
        with _opened(self.path) as file:
            try:
                for record in self._records(file):
                    self.line = record.line
                    if isinstance(record.value, dict | list):
                        yield record
                    else:
                        kind = type(record.value).__name__
                        what = f"it is a {kind}, where an object was expected; {_SKIP}"
                        self.skip(what, record.line)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                how = "cut off" if isinstance(error, EOFError) else f"damaged ({error})"
                what = f"the gzip file is {how}: copy it again; repair=True reads what is there"
                self.skip(what, self.line + 1)

    def _records(self, file: io.BufferedReader) -> Iterator[Record]:
        start = file.peek(CHUNK)[:CHUNK]
        self._refuse_unreadable(start)
        if start.startswith(codecs.BOM_UTF8):
            file.read(len(codecs.BOM_UTF8))
        first = _skip_blank_lines(file)
        if not first.text.strip():
            raise FormatError("the file is empty", path=self.path)
        if not first.is_array and not first.is_part_of_a_value:
            return self._from_lines(first, file)
        text = _Text(self.path, first, file, self.max_record_bytes)
        return self._from_array(text) if first.is_array else self._from_values(text)

    def _refuse_unreadable(self, start: bytes) -> None:
        for magic, what in _ARCHIVES:
            if start.startswith(magic):
                raise FormatError(f"the file is {what}", path=self.path)
        encoding = next((name for bom, name in _UTF_BOMS if start.startswith(bom)), None)
        if encoding is None and b"\0" in start[:4]:
            encoding = {2: "UTF-16", 3: "UTF-32"}.get(start[:4].count(b"\0"))
        if encoding:
            raise FormatError(
                f"the file seems to be {encoding}, where UTF-8 was expected: convert it "
                f"(iconv -f {encoding} -t UTF-8)",
                path=self.path,
                line=1,
            )
        if sum(byte < 32 and byte not in b"\t\r\n\0" for byte in start) > len(start) / 20:
            raise FormatError("the file is binary, where JSON was expected", path=self.path)

    # --- JSON Lines ---

    def _from_lines(self, first: "_FirstLine", file: io.BufferedReader) -> Iterator[Record]:
        number = first.number
        raw = first.text + file.readline(self.max_record_bytes + 1) if first.is_cut else first.text
        while raw:
            if len(raw) > self.max_record_bytes:
                _skip_line(raw, file)
                self.skip(_too_long(self.max_record_bytes), number)
            else:
                yield from self._from_line(raw, number)
            number += 1
            raw = file.readline(self.max_record_bytes + 1)

    def _from_line(self, raw: bytes, number: int) -> Iterator[Record]:
        """The values in one line: one, as a rule, but some logs glue several together."""
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            cut = error.end == len(raw) and error.reason == "unexpected end of data"
            self.skip(_CUT if cut else _not_utf8(raw[error.start]), number)
            return
        position = _blank_end(text, 0)
        while position < len(text):
            try:
                value, position = _JSON.raw_decode(text, position)
            except (ValueError, RecursionError) as error:
                cut = not raw.endswith(b"\n")
                self.skip(f"{_no_json(error, text, cut=cut)}; {_SKIP}", number)
                return
            yield Record(number, value)
            position = _blank_end(text, position)

    # --- one array, or a few values that span many lines ---

    def _from_array(self, text: "_Text") -> Iterator[Record]:
        text.position += 1
        number = 0
        while (mark := text.next_mark()) != "]":
            if mark == ",":
                text.position += 1
                continue
            number += 1
            try:
                value = text.next_value()
            except FormatError as error:
                # The rest of an array can't be told apart once one element is broken.
                self.skip(f"element {number} of the array: {error.what}", error.line or number)
                return
            yield Record(number, value)
        text.position += 1
        if text.next_mark():
            self.skip("something follows the end of the array", text.line)

    def _from_values(self, text: "_Text") -> Iterator[Record]:
        while text.next_mark():
            line = text.line
            try:
                value = text.next_value()
            except FormatError as error:
                self.skip(error.what, error.line or line)
                return
            yield Record(line, value)


class _FirstLine(NamedTuple):
    """The first line that says something, or its beginning, and what it shows about the file."""

    text: bytes
    number: int
    is_cut: bool
    next_line: bytes

    @property
    def is_array(self) -> bool:
        """Whether the file is one array, rather than lines that each are one."""
        if not self.text.lstrip().startswith(b"["):
            return False
        return self.is_cut or not (self.next_line.lstrip()[:1] == b"[" and _is_whole(self.text))

    @property
    def is_part_of_a_value(self) -> bool:
        """Whether the value that starts here goes on in the next line."""
        if self.is_cut or _is_whole(self.text) or not self.text.lstrip().startswith(b"{"):
            return False
        if not self.next_line.strip():
            return False
        # An object in the next line is a line of its own, unless this one leaves off before it.
        return not self.next_line.lstrip().startswith(b"{") or self.text.rstrip()[-1:] in b":[,"


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError as error:  # two values in a line are whole lines, too
        return str(error).startswith("Extra data")
    except RecursionError:
        return True
    return True


def _skip_blank_lines(file: io.BufferedReader) -> _FirstLine:
    number = 1
    line = file.readline(FIRST_LINE)
    while line and not line.strip():
        number += line.endswith(b"\n")
        line = file.readline(FIRST_LINE)
    is_cut = bool(line) and not line.endswith(b"\n") and len(line) >= FIRST_LINE
    return _FirstLine(line, number, is_cut, b"" if is_cut else file.peek(CHUNK).partition(b"\n")[0])


def _skip_line(raw: bytes, file: BinaryIO) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = file.readline(CHUNK)


class _Text:
    """The text of a file, read as far as the next value needs it."""

    def __init__(
        self, path: Path, first: _FirstLine, file: BinaryIO, max_record_bytes: int
    ) -> None:
        self.position = 0
        self._path = path
        self._file = file
        self._limit = max_record_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ended = False
        self._lines_before = first.number  # lines above the one that the kept text begins in
        self._text = ""
        self._append(first.text)

    @property
    def line(self) -> int:
        """The line of the file that the position is in."""
        return self._lines_before + self._text.count("\n", 0, self.position)

    def next_mark(self) -> str:
        """The next character that is not blank; empty at the end of the file."""
        while True:
            self.position = _blank_end(self._text, self.position)
            if self.position < len(self._text) or self._ended:
                return self._text[self.position : self.position + 1]
            self._read(CHUNK)

    def next_value(self) -> Any:
        """The value that starts here.

        A value that isn't whole yet is tried again with twice as much text, so that all tries
        together cost no more than a few.
        """
        while True:
            try:
                value, end = _JSON.raw_decode(self._text, self.position)
            except (ValueError, RecursionError) as error:
                if self._ended or not _may_go_on(error, self._text):
                    what = _no_json(error, self._text, cut=self._ended)
                    raise FormatError(what, path=self._path, line=self.line) from None
                self._refuse_longer(len(self._text))
                self._read(max(CHUNK, len(self._text) - self.position))
            else:
                self._refuse_longer(end)
                self.position = end
                return value

    def _refuse_longer(self, end: int) -> None:
        if end - self.position > self._limit:
            raise FormatError(_too_long(self._limit), path=self._path, line=self.line)

    def _read(self, size: int) -> None:
        self._lines_before = self.line
        self._text = self._text[self.position :]
        self.position = 0
        self._append(self._file.read(size))

    def _append(self, raw: bytes) -> None:
        self._ended = not raw
        try:
            self._text += self._decoder.decode(raw, final=self._ended)
        except UnicodeDecodeError as error:
            line = self._lines_before + self._text.count("\n") + raw.count(b"\n", 0, error.start)
            byte = raw[error.start] if error.start < len(raw) else error.object[error.start]
            raise FormatError(_not_utf8(byte), path=self._path, line=line) from None


def _blank_end(text: str, start: int) -> int:
    return cast(re.Match[str], _BLANK.match(text, start)).end()


def _may_go_on(error: Exception, text: str) -> bool:
    """Whether the text is no JSON only because it is not all there yet."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - _NEAR_THE_END


# --- words for what is wrong ---


def _no_json(error: Exception, text: str, *, cut: bool) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply to be read"
    if not isinstance(error, json.JSONDecodeError):
        return f"it is no JSON that can be read ({error})"
    if "\0" in text[: error.pos + 1]:
        return "it has NUL bytes, as files have after a crash"
    if cut and _may_go_on(error, text):
        return _CUT
    return f"it is no JSON ({error.msg}, column {error.colno})"


def _not_utf8(byte: int) -> str:
    return (
        f"byte 0x{byte:02x} is no UTF-8; the file seems to be Latin-1 (or Windows-1252): convert "
        "it (iconv -f WINDOWS-1252 -t UTF-8)"
    )


def _too_long(limit: int) -> str:
    return (
        f"the record is longer than {limit:,} bytes; give a larger max_record_bytes if it is "
        "really one"
    )


# --- opening ---


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
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
