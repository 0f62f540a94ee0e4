"""Reads files as a sequence of JSON values."""

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
from jaato_gc_formats._json_text import (
    DECODER,
    TRUNCATED,
    JsonText,
    encoding_error,
    json_error,
    length_error,
    skip_whitespace,
)
from jaato_gc_formats._open_file import CHUNK, open_file, reject_unreadable

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Default maximum size of a record. Reading one takes up to 20 times its size in memory."""
FIRST_LINE = 1024 * 1024
"""Number of bytes of the first line that are used to distinguish JSON Lines from one JSON value."""

_SKIP = "load with repair=True to skip it"


class Record(NamedTuple):
    """One JSON value of a file, with its line.

    It is a line of JSON Lines, an element of a JSON array, or the whole file.
    """

    line: int
    value: Any


def in_memory(data: Any) -> Iterable[Record]:
    """Returns data as records. The elements of a list are numbered as lines."""
    values = data if isinstance(data, list | tuple) else [data]
    return _InMemory(values)


class _InMemory:
    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[Record]:
        return (Record(number, value) for number, value in enumerate(self._values, 1))


class FileRecords:
    """The records of a file, with one in memory at a time. Each iteration reads the file again.

    The file is JSON Lines, a JSON array of records or one JSON object, plain or gzip.

    Args:
        path: The file.
        repair: Skip invalid records and add them to ``problems``.
        max_record_bytes: Maximum size of a record.
    """

    def __init__(
        self, path: str | Path, *, repair: bool = False, max_record_bytes: int = MAX_RECORD_BYTES
    ) -> None:
        self.path = Path(path)
        self.repair = repair
        self.max_record_bytes = max_record_bytes
        self.line = 0
        """Line of the last record that was read."""
        self._broken: dict[tuple[int, str], Problem] = {}

    @property
    def problems(self) -> list[Problem]:
        """Problems of the records read so far, by line."""
        return sorted(self._broken.values(), key=lambda problem: problem.line or 0)

    def skip(self, what: str, line: int) -> None:
        """Adds an invalid record to ``problems``.

        Raises:
            FormatError: ``repair`` is off.
        """
        if not self.repair:
            raise FormatError(what, path=self.path, line=line)
        self.note(what, line)

    def note(self, what: str, line: int) -> None:
        """Adds a problem that does not prevent the file from being read."""
        self._broken[line, what] = Problem(what, line)

    def __iter__(self) -> Iterator[Record]:
        self.line = 0
        with open_file(self.path) as file:
            try:
                for record in self._records(file):
                    self.line = record.line
                    if isinstance(record.value, dict | list):
                        yield record
                    else:
                        kind = type(record.value).__name__
                        what = f"expected a JSON object or array, got {kind}; {_SKIP}"
                        self.skip(what, record.line)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                how = "truncated" if isinstance(error, EOFError) else f"damaged ({error})"
                what = (
                    f"the gzip file is {how}: copy it again, or load with repair=True to read the "
                    "intact part"
                )
                self.skip(what, self.line + 1)

    def _records(self, file: io.BufferedReader) -> Iterator[Record]:
        start = file.peek(CHUNK)[:CHUNK]
        reject_unreadable(start, self.path)
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
        raw = (
            first.text + file.readline(self.max_record_bytes + 1)
            if first.is_partial
            else first.text
        )
        while raw:
            if len(raw) > self.max_record_bytes:
                _skip_line(raw, file)
                self.skip(length_error(self.max_record_bytes), number)
            else:
                yield from self._from_line(raw, number)
            number += 1
            raw = file.readline(self.max_record_bytes + 1)

    def _from_line(self, raw: bytes, number: int) -> Iterator[Record]:
        """Yields the values in one line: usually one, but some logs join several."""
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            is_end = error.end == len(raw) and error.reason == "unexpected end of data"
            self.skip(TRUNCATED if is_end else encoding_error(raw[error.start]), number)
            return
        position = skip_whitespace(text, 0)
        while position < len(text):
            try:
                value, position = DECODER.raw_decode(text, position)
            except (ValueError, RecursionError) as error:
                is_end = not raw.endswith(b"\n")
                self.skip(f"{json_error(error, text, is_end=is_end)}; {_SKIP}", number)
                return
            yield Record(number, value)
            position = skip_whitespace(text, position)

    # --- one array, or values that span several lines ---

    def _from_array(self, text: JsonText) -> Iterator[Record]:
        text.position += 1
        number = 0
        while (character := text.next_character()) != "]":
            if character == ",":
                text.position += 1
                continue
            number += 1
            try:
                value = text.next_value()
            except FormatError as error:
                # After an invalid element, the start of the next one is unknown.
                self.skip(f"element {number} of the array: {error.what}", error.line or number)
                return
            yield Record(number, value)
        text.position += 1
        if text.next_character():
            self.skip(f"unexpected data after the end of the array; {_SKIP}", text.line)

    def _from_values(self, text: JsonText) -> Iterator[Record]:
        while text.next_character():
            line = text.line
            try:
                value = text.next_value()
            except FormatError as error:
                self.skip(error.what, error.line or line)
                return
            yield Record(line, value)


class _FirstLine(NamedTuple):
    """The first line that is not blank, or its beginning."""

    text: bytes
    number: int
    is_partial: bool
    next_line: bytes

    @property
    def is_array(self) -> bool:
        """Whether the file is one array, not lines with one array each."""
        if not self.text.lstrip().startswith(b"["):
            return False
        return self.is_partial or not (
            self.next_line.lstrip()[:1] == b"[" and _is_complete(self.text)
        )

    @property
    def is_part_of_a_value(self) -> bool:
        """Whether the value that starts in this line continues in the next one."""
        if self.is_partial or _is_complete(self.text) or not self.text.lstrip().startswith(b"{"):
            return False
        if not self.next_line.strip():
            return False
        # An object in the next line is a new record, unless this line ends with an open value.
        return not self.next_line.lstrip().startswith(b"{") or self.text.rstrip()[-1:] in b":[,"


def _is_complete(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError as error:  # a line with several values is complete too
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
    is_partial = bool(line) and not line.endswith(b"\n") and len(line) >= FIRST_LINE
    return _FirstLine(
        line, number, is_partial, b"" if is_partial else file.peek(CHUNK).partition(b"\n")[0]
    )


def _skip_line(raw: bytes, file: BinaryIO) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = file.readline(CHUNK)
