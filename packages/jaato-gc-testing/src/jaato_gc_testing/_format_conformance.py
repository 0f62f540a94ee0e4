"""The conformance suite for formats that histories are read from and written to."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from jaato_gc import GCError, Message
from jaato_gc_testing._guard import refuse_silent_overrides
from jaato_gc_testing._sessions import assert_in_step, new_session
from jaato_gc_testing._written_histories import FORMS, make, save, view

CONFIDENT = 0.5
"""The confidence from which on a format counts as recognized."""

OTHER_DATA: list[list[Any]] = [
    [],
    [None],
    [3],
    ["text"],
    [[]],
    [{}],
    [{"unrelated": 1}],
    [{"unrelated": {"deeply": ["nested"]}}, {"unrelated": 2}],
]
"""Records that are in no format."""

WRONG_VALUES: list[Any] = [None, 3, "text", [], {}, [None], {"unrelated": 1}]


class _Record(NamedTuple):
    """A JSON value of a file, with its line."""

    line: int
    value: Any


class FormatConformance(ABC):
    """Checks that any format has to pass. Subclass it, and return yours and samples of its files:

        class TestMine(FormatConformance):
            @staticmethod
            def factory():
                return MyFormat()

            @staticmethod
            def samples():
                return [[{"speaker": "user", "says": "hello"}]]

    A check that your format can't pass can be overridden only with
    ``@pytest.mark.xfail(reason="…")``.
    """

    @staticmethod
    @abstractmethod
    def factory() -> Any:
        """Returns the format: a `jaato_gc_formats.Format`."""

    @staticmethod
    @abstractmethod
    def samples() -> Sequence[Sequence[Any]]:
        """Returns samples of files, each with one conversation or more, as lists of JSON values."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses subclasses that override a check without ``xfail`` and a reason."""
        super().__init_subclass__(**arguments)
        refuse_silent_overrides(FormatConformance, cls)

    def test_has_the_shape_of_a_format(self) -> None:
        """The format has a name, a summary of one line, and the methods of a format."""
        format = self.factory()
        for key in ("name", "summary"):
            value = getattr(format, key, None)
            is_line = isinstance(value, str) and bool(value) and "\n" not in value
            assert is_line, f"{key} is {value!r}: expected one line of text"
        for method in ("recognize", "conversations"):
            assert callable(getattr(format, method, None)), f"there is no method {method}"

    def test_recognizes_its_own_files(self) -> None:
        """The confidence for every sample is from 0.5 to 1."""
        for number, sample in enumerate(self.samples()):
            confidence = _confidence(self.factory(), list(sample))
            assert confidence >= CONFIDENT, f"the confidence for sample {number} is {confidence}"

    def test_recognizes_nothing_else(self) -> None:
        """The confidence for data in no format is from 0 to below 0.5."""
        for records in OTHER_DATA:
            confidence = _confidence(self.factory(), records)
            assert confidence < CONFIDENT, f"the confidence for {records} is {confidence}"

    def test_reads_messages(self) -> None:
        """Every sample has a conversation, whose messages are core's and have distinct ids."""
        for number, sample in enumerate(self.samples()):
            histories = _read(self.factory(), sample)
            assert histories, f"sample {number} has no conversation"
            for messages in histories:
                others = [each for each in messages if not isinstance(each, Message)]
                assert not others, f"sample {number} has {others[0]!r:.80}, not a Message"
                assert messages, f"a conversation of sample {number} has no message"
                ids = [each.message_id for each in messages]
                assert len(set(ids)) == len(ids), f"sample {number} has an id twice: {ids}"

    def test_reads_the_same_again(self) -> None:
        """Reading a sample twice gives the same messages, and leaves the sample unchanged."""
        for number, sample in enumerate(self.samples()):
            given = copy.deepcopy(sample)
            first, second = (_contents(_read(self.factory(), sample)) for _ in range(2))
            assert second == first, f"sample {number} has other messages the second time"
            assert sample == given, f"reading changed sample {number}"

    def test_messages_can_be_used_and_saved(self) -> None:
        """A session takes the messages, and they survive being saved as JSON."""
        for sample in self.samples():
            for messages in _read(self.factory(), sample):
                session = new_session()
                for message in messages:
                    session.append(message)
                    saved = save(message)
                    assert saved.parts == message.parts, f"{message.message_id} changes if saved"
                assert_in_step(session)

    def test_writes_what_it_read(self) -> None:
        """A format that can write returns the sample unchanged.

        That is a format with ``from_messages(messages, request)``. A sample is a list of messages,
        or one request.
        """
        format = _writer(self.factory())
        for number, sample in enumerate(self.samples()):
            [messages] = _read(format, sample)
            written = _write(format, messages, messages)
            assert written == list(sample), f"sample {number} is written as {written!r:.300}"

    def test_writes_messages_without_their_origin(self) -> None:
        """What was saved, made elsewhere or shortened is written so that a reader sees the same.

        Compared are texts, attachments, calls, results and errors, with their ids and order.
        Thoughts need not be written if they were made elsewhere.
        """
        format = _writer(self.factory())
        for number, sample in enumerate(self.samples()):
            [messages] = _read(format, sample)
            for form, change in FORMS.items():
                given = [change(message) for message in messages]
                written = _write(format, given, messages)
                read = [message for history in _read(format, written) for message in history]
                expected, seen = (view(each, thoughts=change is not make) for each in (given, read))
                which, where = f"sample {number}, {form}: a reader", f"in {written!r:.300}"
                missing = [each for each in expected if each not in seen]
                assert not missing, f"{which} misses {missing} {where}"
                assert seen == expected, f"{which} sees {seen}, not {expected} {where}"

    def test_damaged_files_are_refused(self) -> None:
        """Wrong values in a sample are read somehow, or raise a `GCError`, never another error."""
        for number, sample in enumerate(self.samples()):
            for place, damaged in _damaged(sample):
                try:
                    _read(self.factory(), damaged)
                except GCError:
                    continue
                except Exception as error:
                    cause = f"{type(error).__name__}: {error}"
                    raise AssertionError(f"sample {number}, {place}: {cause}") from error


def _confidence(format: Any, records: list[Any]) -> float:
    confidence = format.recognize(records)
    is_share = isinstance(confidence, int | float) and 0 <= confidence <= 1
    assert is_share, f"recognize returned {confidence!r}: expected a number from 0 to 1"
    return float(confidence)


def _read(format: Any, sample: Sequence[Any]) -> list[Any]:
    """Returns the messages of each conversation of a sample."""
    records = [_Record(line, value) for line, value in enumerate(sample, 1)]
    return [conversation.messages for conversation in format.conversations(records)]


def _writer(format: Any) -> Any:
    """Returns a format that can write. Skips the check for one that only reads, such as a log."""
    if not hasattr(format, "from_messages"):
        pytest.skip(f"{format.name} can't write: it has no from_messages")
    return format


def _write(format: Any, messages: Sequence[Message], read: Any) -> list[Any]:
    """Returns messages as a sample, like the one that a history was read from."""
    request = getattr(read, "request", None)
    written = format.from_messages(messages, request)
    return list(written) if request is None else [written]


def _contents(histories: list[Any]) -> list[list[tuple[Any, ...]]]:
    return [[(each.role, each.parts) for each in messages] for messages in histories]


def _damaged(sample: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yields copies of a sample with one wrong value each, with a description of its place."""
    for position, record in enumerate(sample):
        for wrong in WRONG_VALUES:
            yield f"record {position} is {wrong!r}", _with(sample, position, wrong)
            for key in record if isinstance(record, dict) else ():
                changed = {**record, key: wrong}
                place = f"{key!r} of record {position} is {wrong!r}"
                yield place, _with(sample, position, changed)


def _with(sample: Sequence[Any], position: int, value: Any) -> list[Any]:
    return [*copy.deepcopy(sample[:position]), value, *copy.deepcopy(sample[position + 1 :])]
