"""Files: what conversations are in them, whatever agent or provider wrote them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar

from jaato_gc import Message, PluginRegistry
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._convert import SAMPLE, Format, find_format, formats, installed, recognized
from jaato_gc_formats._errors import MISSHAPEN, FormatError
from jaato_gc_formats._history import Conversation, Problem
from jaato_gc_formats._log_format import LogFormat, located
from jaato_gc_formats._records import MAX_RECORD_BYTES, FileRecords, Record, in_memory
from jaato_gc_formats._repaired import repair_conversation

FOREIGN = 0.8
"""How sure another format has to be of a record that bears no resemblance to the others."""
OPENCODE = {"messageID", "sessionID", "projectID"}
"""What the pieces of an OpenCode session are told by."""

T = TypeVar("T")


def load(
    path: str | Path,
    format: str | None = None,
    *,
    repair: bool = False,
    registry: PluginRegistry | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> list[Conversation]:
    """The conversations of a file: of an agent's log, or of requests as a provider takes them.

    The file is JSON Lines, a JSON array or one JSON object, plain or gzip, in UTF-8. A session that
    its agent has compacted is one conversation of all that was said; `Conversation.segments` cuts
    it. What a provider would refuse about a conversation is in its ``problems``.

    Args:
        path: The file.
        format: Its format; detected if not given.
        repair: Skip broken lines, and make the histories such that the provider takes them.
            ``problems`` tells what was skipped, and what could not be mended.
        registry: Where formats come from; all that are installed if not given.
        max_record_bytes: The longest line or element of an array that is read.

    Raises:
        FormatError: The file can't be read, or nothing in it is a conversation.
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
    """The conversations of a file, one in memory at a time. Arguments are those of `load`.

    What is skipped behind the last of them is added to its ``problems`` when the file has ended.
    """
    registry = registry or installed()
    file = _File(FileRecords(path, repair=repair, max_record_bytes=max_record_bytes))
    file.open(format, registry)
    last: Conversation | None = None
    for conversation in file.each(file.source.conversations(file.records)):
        if conversation.messages:
            with file.errors():
                last = file.located(conversation)
                if repair:
                    last = repair_conversation(last, registry=registry)
            yield last
    if last is None:
        raise file.no_conversation()
    last.problems.extend(each for each in file.skipped if each not in last.problems)


def iter_messages(
    path: str | Path,
    format: str | None = None,
    *,
    repair: bool = False,
    registry: PluginRegistry | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[Message]:
    """The messages of a file, one in memory at a time: for files larger than memory.

    All conversations of the file follow each other. Arguments are those of `load`; here ``repair``
    only skips broken lines, as all else takes a whole history.
    """
    file = _File(FileRecords(path, repair=repair, max_record_bytes=max_record_bytes))
    file.open(format, registry)
    is_empty = True
    for message in file.each(_messages(file.source, file.records)):
        is_empty = False
        yield message
    if is_empty:
        raise file.no_conversation()


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
    """A file and the format that it is in; whatever goes wrong with them is a `FormatError`."""

    def __init__(self, records: FileRecords) -> None:
        self.records: Iterable[Record] = records
        self.source: Format
        self._file = records
        self._sample: list[Any] = []

    def open(self, format: str | None, registry: PluginRegistry | None) -> None:
        """Find out what the file holds."""
        with self.errors():
            self._sample = [record.value for record in islice(self._file, SAMPLE)]
            if format is not None:
                self.source = find_format(format, registry)
                return
            known = formats(registry)
            _refuse_opencode(self._file.path, self._sample)
            name = _recognized(self._sample, known)
            if name is not None:
                self.source = known[name]
                if len(self._sample) > 1:
                    self.records = _OfOneFormat(self._file, name, known)
            elif self._sample and all(isinstance(each, list) for each in self._sample):
                self.source = _ListPerLine(known)
            else:
                raise FormatError(
                    "nothing in it is a conversation in a format that is known "
                    f"({', '.join(known)}): name the format if it is one of them, or install a "
                    "plugin that reads it",
                    path=self._file.path,
                )

    def each(self, found: Iterator[T]) -> Iterator[T]:
        """What is read from the file."""
        while True:
            with self.errors():
                one = next(found, None)
            if one is None:
                return
            yield one

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Tells what goes wrong with the file's name, and where in it."""
        try:
            yield
        except FormatError as error:
            if error.path is not None:
                raise
            line = error.line or self._line()
            raise FormatError(error.what, path=self._file.path, line=line) from error
        except MISSHAPEN as error:
            what = f"it is in a shape that can't be read ({type(error).__name__}: {error})"
            raise FormatError(what, path=self._file.path, line=self._line()) from error

    def _line(self) -> int | None:
        return self._file.line if len(self._sample) > 1 else None

    def located(self, conversation: Conversation) -> Conversation:
        """A conversation that says where in the file its problems are."""
        problems = conversation.problems
        if isinstance(self.source, ApiFormat) and len(self._sample) > 1:
            if conversation.messages.request is not None:
                line = self._file.line
                problems = [replace(problem, line=line) for problem in problems]
            elif isinstance(self.records, _OfOneFormat):
                problems = located(problems, self.records.lines)
        return replace(conversation, problems=[*self.skipped, *problems])

    @property
    def skipped(self) -> list[Problem]:
        """What of the file was left out so far."""
        return self._file.problems

    def no_conversation(self) -> FormatError:
        """What to say of a file in which nobody says anything."""
        return FormatError(
            "nothing in it is a conversation: it looks like "
            f"{self.source.summary}, but no message is in it",
            path=self._file.path,
        )


def _recognized(sample: Sequence[Any], known: Mapping[str, Format]) -> str | None:
    """The format that a sample is in, or its beginning, if what follows is in another."""
    size = len(sample)
    while size:
        try:
            return recognized(sample[:size], known).format
        except FormatError:
            size //= 2
    return None


def _refuse_opencode(path: Path, sample: Sequence[Any]) -> None:
    keys = set(sample[0]) if len(sample) == 1 and isinstance(sample[0], dict) else set()
    if keys & OPENCODE or (path.parent.parent.name == "part" and {"id", "type"} <= keys):
        raise FormatError(
            "nothing in it is a conversation: it looks like a piece of an OpenCode session, which "
            "is kept in many files and can't be read: export the session (opencode export)"
        )


class _OfOneFormat:
    """The records of a file, without those that are of another format than the rest."""

    def __init__(self, records: FileRecords, name: str, known: Mapping[str, Format]) -> None:
        self.lines: list[int] = []
        """Where the records are that are no requests of their own."""
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
        if scores[other] >= FOREIGN:
            self._records.skip(
                f"it is of format {other}, and what stands before it is of {self._name}: "
                "keep them in a file each, or load with repair=True to leave it out",
                record.line,
            )
        elif isinstance(self._source, ApiFormat):
            if any(key in record.value for key in ("role", "type", "parts")):
                return False
            self._records.skip(f"it is no message of {self._name}", record.line)
        elif isinstance(self._source, LogFormat):
            self._records.note(f"it is nothing that {self._name} is known to log", record.line)
        else:  # a plugin's own format may recognise a file by its beginning alone
            return False
        return True


class _ListPerLine:
    """Lines that each are the list of messages of one conversation."""

    name = "lists"
    summary = "lines that each are a list"

    def __init__(self, known: Mapping[str, Format]) -> None:
        self._known = known

    def recognize(self, records: Sequence[Any]) -> float:
        return float(all(isinstance(record, list) for record in records))

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
        for line, value in records:
            sample = value[:SAMPLE] if isinstance(value, list) else [value]
            source = self._known[recognized(sample, self._known).format]
            for conversation in source.conversations(in_memory(value)):
                problems = [replace(problem, line=line) for problem in conversation.problems]
                yield replace(conversation, name=f"line {line}", problems=problems)
