"""JSON text that is read as far as the next value needs it, and words for what is wrong with it."""

import codecs
import json
import re
from pathlib import Path
from typing import Any, BinaryIO, cast

from jaato_gc_formats._errors import FormatError
from jaato_gc_formats._open_file import CHUNK

_BLANK = re.compile(r"[ \t\r\n]*")
JSON = json.JSONDecoder()
_NEAR_THE_END = 16
"""A value that is cut breaks off within this many characters of where the text ends."""

CUT = "it is cut off in the middle: the file is not whole"


class JsonText:
    """The text of a file, read as far as the next value needs it.

    Args:
        path: The file, for errors.
        file: What to read on from.
        start: What was read already.
        line: The line that it is in.
        limit: The longest value that is read.
    """

    def __init__(self, path: Path, file: BinaryIO, start: bytes, line: int, limit: int) -> None:
        self.position = 0
        self._path = path
        self._file = file
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ended = False
        self._first_line = line  # that the text begins in which is kept
        self._text = ""
        self._append(start)

    @property
    def line(self) -> int:
        """The line of the file that the position is in."""
        return self._first_line + self._text.count("\n", 0, self.position)

    def next_mark(self) -> str:
        """The next character that is not blank; empty at the end of the file."""
        while True:
            self.position = blank_end(self._text, self.position)
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
                value, end = JSON.raw_decode(self._text, self.position)
            except (ValueError, RecursionError) as error:
                if self._ended or not _may_go_on(error, self._text):
                    what = no_json(error, self._text, cut=self._ended)
                    raise FormatError(what, path=self._path, line=self.line) from None
                self._refuse_longer(len(self._text))
                self._read(max(CHUNK, len(self._text) - self.position))
            else:
                self._refuse_longer(end)
                self.position = end
                return value

    def _refuse_longer(self, end: int) -> None:
        if end - self.position > self._limit:
            raise FormatError(too_long(self._limit), path=self._path, line=self.line)

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
            raise FormatError(not_utf8(byte), path=self._path, line=line) from None


def blank_end(text: str, start: int) -> int:
    """Where the next character is that is not blank."""
    return cast(re.Match[str], _BLANK.match(text, start)).end()


def _may_go_on(error: Exception, text: str) -> bool:
    """Whether the text is no JSON only because it is not all there yet."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - _NEAR_THE_END


def no_json(error: Exception, text: str, *, cut: bool) -> str:
    """Why a text is no JSON; ``cut``: whether it should go on, and does not."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply to be read"
    if not isinstance(error, json.JSONDecodeError):
        return f"it is no JSON that can be read ({error})"
    if "\0" in text[: error.pos + 1]:
        return "it has NUL bytes, as files have after a crash"
    if cut and _may_go_on(error, text):
        return CUT
    return f"it is no JSON ({error.msg}, column {error.colno})"


def not_utf8(byte: int) -> str:
    """What a byte shows that is no UTF-8."""
    return (
        f"byte 0x{byte:02x} is no UTF-8; the file seems to be Latin-1 (or Windows-1252): convert "
        "it (iconv -f WINDOWS-1252 -t UTF-8)"
    )


def too_long(limit: int) -> str:
    """That a record is too long."""
    return (
        f"the record is longer than {limit:,} bytes; give a larger max_record_bytes if it is "
        "really one"
    )
