"""Reads JSON values from a file incrementally, and describes invalid JSON."""

import codecs
import json
import re
from pathlib import Path
from typing import Any, BinaryIO, cast

from jaato_gc_formats._errors import FormatError
from jaato_gc_formats._open_file import CHUNK

_BLANK = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()
_TRUNCATION_MARGIN = 16
"""A decoding error this close to the end of the text may come from a truncated value."""

TRUNCATED = "the JSON is truncated: the file is incomplete"


class JsonText:
    """The text of a file, of which only as much is read as the next value needs.

    Args:
        path: The file, for error messages.
        file: The open file.
        start: Bytes that were already read from it.
        line: The line in which ``start`` begins.
        limit: Maximum length of one value.
    """

    def __init__(self, path: Path, file: BinaryIO, start: bytes, line: int, limit: int) -> None:
        self.position = 0
        self._path = path
        self._file = file
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ended = False
        self._first_line = line  # the line in which `_text` begins
        self._text = ""
        self._append(start)

    @property
    def line(self) -> int:
        """The line at the current position."""
        return self._first_line + self._text.count("\n", 0, self.position)

    def next_character(self) -> str:
        """Returns the next character that is not whitespace; empty at the end of the file."""
        while True:
            self.position = skip_whitespace(self._text, self.position)
            if self.position < len(self._text) or self._ended:
                return self._text[self.position : self.position + 1]
            self._read(CHUNK)

    def next_value(self) -> Any:
        """Returns the value that starts at the current position.

        An incomplete value is decoded again with twice as much text, so that the total cost stays
        linear.

        Raises:
            FormatError: The JSON is invalid, or the value is too long.
        """
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self.position)
            except (ValueError, RecursionError) as error:
                if self._ended or not _may_be_truncated(error, self._text):
                    what = json_error(error, self._text, is_end=self._ended)
                    raise FormatError(what, path=self._path, line=self.line) from None
                self._check_length(len(self._text))
                self._read(max(CHUNK, len(self._text) - self.position))
            else:
                self._check_length(end)
                self.position = end
                return value

    def _check_length(self, end: int) -> None:
        if end - self.position > self._limit:
            raise FormatError(length_error(self._limit), path=self._path, line=self.line)

    def _read(self, size: int) -> None:
        self._first_line = self.line
        self._text = self._text[self.position :]
        self.position = 0
        self._append(self._file.read(size))

    def _append(self, raw: bytes) -> None:
        self._ended = not raw
        try:
            self._text += self._decoder.decode(raw, final=self._ended)
        except UnicodeDecodeError as error:
            line = self._first_line + self._text.count("\n") + raw.count(b"\n", 0, error.start)
            byte = raw[error.start] if error.start < len(raw) else error.object[error.start]
            raise FormatError(encoding_error(byte), path=self._path, line=line) from None


def skip_whitespace(text: str, start: int) -> int:
    """Returns the position of the next character that is not whitespace."""
    return cast(re.Match[str], _BLANK.match(text, start)).end()


def _may_be_truncated(error: Exception, text: str) -> bool:
    """Returns whether more text could make the JSON valid."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return (
        error.msg.startswith("Unterminated string") or error.pos >= len(text) - _TRUNCATION_MARGIN
    )


def json_error(error: Exception, text: str, *, is_end: bool) -> str:
    """Describes why a text can't be decoded.

    Args:
        error: The exception of the decoder.
        text: The text.
        is_end: Whether nothing follows the text, so that an incomplete value is truncated.
    """
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    if not isinstance(error, json.JSONDecodeError):
        return f"the JSON can't be decoded ({error})"
    if "\0" in text[: error.pos + 1]:
        return "the file contains NUL bytes, probably because of a crash while it was written"
    if is_end and _may_be_truncated(error, text):
        return TRUNCATED
    return f"invalid JSON ({error.msg}, column {error.colno})"


def encoding_error(byte: int) -> str:
    """Describes a byte that is not valid UTF-8."""
    return (
        f"byte 0x{byte:02x} is not valid UTF-8; the file is probably Latin-1 or Windows-1252: "
        "convert it (iconv -f WINDOWS-1252 -t UTF-8)"
    )


def length_error(limit: int) -> str:
    """Describes a record that is too long."""
    return (
        f"the record is longer than {limit:,} bytes, and reading it takes far more memory: "
        "pass a larger max_record_bytes, or load with repair=True to skip it"
    )
