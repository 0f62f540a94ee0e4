"""Files as a sequence of JSON values, whatever they are packed in."""

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from jaato_gc_formats._errors import FormatError
from jaato_gc_formats._history import Problem
from jaato_gc_formats._json_text import CUT, JSON, JsonText, blank_end, no_json, not_utf8, too_long
from jaato_gc_formats._open_file import CHUNK, opened, refuse_unreadable

MAX_RECORD_BYTES = 256 * 1024 * 1024
"""The longest record that is read, unless another limit is given."""
FIRST_LINE = 1024 * 1024
"""How much of the first line is looked at to tell one JSON value from a line of many."""

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
        with opened(self.path) as file:
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
        refuse_unreadable(start, self.path)
        if start.startswith(codecs.BOM_UTF8):
            file.read(len(codecs.BOM_UTF8))
        first = _skip_blank_lines(file)
        if not first.text.strip():
            raise FormatError("the file is empty", path=self.path)
        if not first.is_array and not first.is_part_of_a_value:
            return self._from_lines(first, file)
        text = JsonText(self.path, file, first.text, first.number, self.max_record_bytes)
        return self._from_array(text) if first.is_array else self._from_values(text)

    # --- JSON Lines ---

    def _from_lines(self, first: "_FirstLine", file: io.BufferedReader) -> Iterator[Record]:
        number = first.number
        raw = first.text + file.readline(self.max_record_bytes + 1) if first.is_cut else first.text
        while raw:
            if len(raw) > self.max_record_bytes:
                _skip_line(raw, file)
                self.skip(too_long(self.max_record_bytes), number)
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
            self.skip(CUT if cut else not_utf8(raw[error.start]), number)
            return
        position = blank_end(text, 0)
        while position < len(text):
            try:
                value, position = JSON.raw_decode(text, position)
            except (ValueError, RecursionError) as error:
                cut = not raw.endswith(b"\n")
                self.skip(f"{no_json(error, text, cut=cut)}; {_SKIP}", number)
                return
            yield Record(number, value)
            position = blank_end(text, position)

    # --- one array, or a few values that span many lines ---

    def _from_array(self, text: JsonText) -> Iterator[Record]:
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

    def _from_values(self, text: JsonText) -> Iterator[Record]:
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
