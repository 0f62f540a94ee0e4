"""Reads the conversations of a file in any known format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar

from jaato_gc import Message, PluginRegistry
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._convert import (
    SAMPLE_SIZE,
    Format,
    best_match,
    default_registry,
    find_format,
    formats,
)
from jaato_gc_formats._errors import SHAPE_ERRORS, FormatError
from jaato_gc_formats._history import Conversation, Problem
from jaato_gc_formats._log_format import LogFormat, with_lines
from jaato_gc_formats._records import MAX_RECORD_BYTES, FileRecords, Record, in_memory
from jaato_gc_formats._repair import repair_conversation

FOREIGN_CONFIDENCE = 0.8
"""Confidence at which a record counts as being in another format than the rest of the file."""
OPENCODE_KEYS = {"messageID", "sessionID", "projectID"}
"""Fields that only the files of an OpenCode session have."""

T = TypeVar("T")


def load(
    path: str | Path,
    format: str | None = None,
    *,
    repair: bool = False,
    registry: PluginRegistry | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> list[Conversation]:
    """Returns the conversations of a file: an agent's log, or requests or messages of an API.

    The file is JSON Lines, a JSON array or one JSON object, in UTF-8, optionally compressed with
    gzip. A session that the agent compacted is one conversation with all of its messages; use
    `Conversation.segments` to split it. The ``problems`` of a conversation include the reasons for
    which the provider would refuse it.

    Args:
        path: The file.
        format: The format of the file; detected by default.
        repair: Skip invalid records and repair the histories with `repaired`. ``problems`` then
            lists the records that were skipped and the problems that could not be repaired.
        registry: The registry that provides the formats; by default, all installed plugins.
        max_record_bytes: Maximum size of one line or one element of an array.

    Raises:
        FormatError: The file can't be read or contains no conversation.
    """
    return list(
        iter_conversations(
            path, format, repair=repair, registry=registry, max_record_bytes=max_record_bytes
        )
    )


def iter_conversations(
    path: str | Path,
    format: str | None = None,
    *,
    repair: bool = False,
    registry: PluginRegistry | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[Conversation]:
    """Yields the conversations of a file, with one in memory at a time.

    Takes the arguments of `load`. Records that are skipped after the last conversation are added to
    its ``problems`` at the end of the file.
    """
    registry = registry or default_registry()
    file = _File(FileRecords(path, repair=repair, max_record_bytes=max_record_bytes))
    file.detect_format(format, registry)
    last: Conversation | None = None
    for conversation in file.iterate(file.source.conversations(file.records)):
        if conversation.messages:
            with file.errors():
                last = file.with_lines(conversation)
                if repair:
                    last = repair_conversation(last, registry=registry)
            yield last
    if last is None:
        raise file.no_conversation_error()
    last.problems.extend(each for each in file.skipped if each not in last.problems)


def iter_messages(
    path: str | Path,
    format: str | None = None,
    *,
    repair: bool = False,
    registry: PluginRegistry | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[Message]:
    """Yields the messages of a file, with one in memory at a time, for files larger than memory.

    The messages of all conversations follow each other. Takes the arguments of `load`; here
    ``repair`` only skips invalid records, because other repairs need the whole history.
    """
    file = _File(FileRecords(path, repair=repair, max_record_bytes=max_record_bytes))
    file.detect_format(format, registry)
    is_empty = True
    for message in file.iterate(_messages(file.source, file.records)):
        is_empty = False
        yield message
    if is_empty:
        raise file.no_conversation_error()


def _messages(source: Format, records: Iterable[Record]) -> Iterator[Message]:
    if isinstance(source, LogFormat):
        yield from source.messages(records)
    elif isinstance(source, ApiFormat):
        key = source.items_key
        for are_requests, group in groupby(records, lambda record: key in record.value):
            if are_requests:
                for record in group:
                    yield from source.to_history(record.value)
            else:
                yield from source.read(record.value for record in group)
    else:
        for conversation in source.conversations(records):
            yield from conversation.messages


class _File:
    """A file and its format. Every error is raised as a `FormatError` with the path."""

    def __init__(self, records: FileRecords) -> None:
        self.records: Iterable[Record] = records
        self.source: Format
        self._file = records
        self._sample: list[Any] = []

    def detect_format(self, format: str | None, registry: PluginRegistry | None) -> None:
        """Sets ``source`` to the given format, or to the one detected from the first records."""
        with self.errors():
            self._sample = [record.value for record in islice(self._file, SAMPLE_SIZE)]
            if format is not None:
                self.source = find_format(format, registry)
                return
            known = formats(registry)
            _reject_opencode(self._file.path, self._sample)
            name = _detected_format(self._sample, known)
            if name is not None:
                self.source = known[name]
                if len(self._sample) > 1:
                    self.records = _SameFormatRecords(self._file, name, known)
            elif self._sample and all(isinstance(each, list) for each in self._sample):
                self.source = _ListPerLine(known)
            else:
                raise FormatError(
                    f"no conversation found in a known format ({', '.join(known)}): pass the "
                    "format if it is one of these, or install a plugin that reads it",
                    path=self._file.path,
                )

    def iterate(self, found: Iterator[T]) -> Iterator[T]:
        """Yields what ``found`` yields, and raises its errors as `FormatError`."""
        while True:
            with self.errors():
                one = next(found, None)
            if one is None:
                return
            yield one

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Adds the path and the line to errors, and turns them into `FormatError`."""
        try:
            yield
        except FormatError as error:
            if error.path is not None:
                raise
            line = error.line or self._line()
            raise FormatError(error.what, path=self._file.path, line=line) from error
        except SHAPE_ERRORS as error:
            what = f"can't be read: unexpected structure ({type(error).__name__}: {error})"
            raise FormatError(what, path=self._file.path, line=self._line()) from error

    def _line(self) -> int | None:
        return self._file.line if len(self._sample) > 1 else None

    def with_lines(self, conversation: Conversation) -> Conversation:
        """Adds line numbers and the records skipped so far to a conversation's problems."""
        problems = conversation.problems
        if isinstance(self.source, ApiFormat) and len(self._sample) > 1:
            if conversation.messages.request is not None:
                line = self._file.line
                problems = [replace(problem, line=line) for problem in problems]
            elif isinstance(self.records, _SameFormatRecords):
                problems = with_lines(problems, self.records.lines)
        return replace(conversation, problems=[*self.skipped, *problems])

    @property
    def skipped(self) -> list[Problem]:
        """Problems of the records that were skipped so far."""
        return self._file.problems

    def no_conversation_error(self) -> FormatError:
        """Returns the error for a file without messages."""
        return FormatError(
            f"no conversation found: the file looks like {self.source.summary}, but contains no "
            "messages",
            path=self._file.path,
        )


def _detected_format(sample: Sequence[Any], known: Mapping[str, Format]) -> str | None:
    """Returns the format of a sample, or of its beginning if the records are in several formats."""
    size = len(sample)
    while size:
        try:
            return best_match(sample[:size], known).format
        except FormatError:
            size //= 2
    return None


def _reject_opencode(path: Path, sample: Sequence[Any]) -> None:
    keys = set(sample[0]) if len(sample) == 1 and isinstance(sample[0], dict) else set()
    if keys & OPENCODE_KEYS or (path.parent.parent.name == "part" and {"id", "type"} <= keys):
        raise FormatError(
            "no conversation found: this is one of the many files of an OpenCode session: export "
            "the session to one file (opencode export)"
        )


class _SameFormatRecords:
    """The records of a file without those that are in another format than the rest."""

    def __init__(self, records: FileRecords, name: str, known: Mapping[str, Format]) -> None:
        self.lines: list[int] = []
        """Lines of the records that are messages, not requests."""
        self._records = records
        self._known = known
        self._name = name
        self._source = known[name]

    def __iter__(self) -> Iterator[Record]:
        self.lines = []
        key = self._source.items_key if isinstance(self._source, ApiFormat) else None
        for record in self._records:
            if self._source.recognize([record.value]) == 0 and self._is_foreign(record):
                continue
            if key is not None and key not in record.value:
                self.lines.append(record.line)
            yield record

    def _is_foreign(self, record: Record) -> bool:
        scores = {name: each.recognize([record.value]) for name, each in self._known.items()}
        other = max(scores, key=lambda name: scores[name])
        if scores[other] >= FOREIGN_CONFIDENCE:
            self._records.skip(
                f"the record is in the format {other}, but the file is in {self._name}: split the "
                "file by format, or load with repair=True to skip the record",
                record.line,
            )
        elif isinstance(self._source, ApiFormat):
            if any(key in record.value for key in ("role", "type", "parts")):
                return False
            self._records.skip(
                f"the record is not a message of {self._name}: remove it, or load with repair=True "
                "to skip it",
                record.line,
            )
        elif isinstance(self._source, LogFormat):
            self._records.note(
                f"the record is not of a kind that {self._name} is known to write", record.line
            )
        else:  # a format of a plugin may recognize a file only by its beginning
            return False
        return True


class _ListPerLine:
    """A file in which every line is the list of messages of one conversation."""

    name = "lists"
    summary = "lines with one list each"

    def __init__(self, known: Mapping[str, Format]) -> None:
        self._known = known

    def recognize(self, records: Sequence[Any]) -> float:
        return float(all(isinstance(record, list) for record in records))

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
        for line, value in records:
            sample = value[:SAMPLE_SIZE] if isinstance(value, list) else [value]
            source = self._known[best_match(sample, self._known).format]
            for conversation in source.conversations(in_memory(value)):
                problems = [replace(problem, line=line) for problem in conversation.problems]
                yield replace(conversation, name=f"line {line}", problems=problems)
