"""Files that can't be read raise errors that name the problem, the place and the fix."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import PluginRegistry
from jaato_gc.plugin import FormatInfo, hookimpl
from jaato_gc_formats import Conversation, FormatError, Record, iter_messages, load

REGISTRY = PluginRegistry()
read = partial(load, registry=REGISTRY)
LINE = b'{"role": "user", "content": "Hi"}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history"


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n\n\t\n", "the file is empty"),
    "UTF-16 with BOM": ('{"role": "user"}'.encode("utf-16"), "UTF-16.*iconv -f UTF-16"),
    "UTF-16 without": ('{"role": "user"}'.encode("utf-16-le"), "UTF-16.*iconv -f UTF-16"),
    "UTF-32": ('{"role": "user"}'.encode("utf-32"), "UTF-32"),
    "Latin-1": (LINE + LINE.replace(b"Hi", b"H\xe9"), "line 2: byte 0xe9.*Latin-1.*iconv"),
    "Latin-1 in an array": (b'[{"role": "user",\n"content": "H\xe9"}]', "line 2: .*byte 0xe9"),
    "truncated lines": (LINE + LINE[:20], "line 2: the JSON is truncated.*repair=True"),
    "truncated character": (LINE + '{"a": "é'.encode()[:-1], "line 2: the JSON is truncated"),
    "truncated array": (b"[" + LINE + b"," + LINE[:20], "element 2 of the array: .* truncated"),
    "truncated object": (b'{\n"messages": [\n', "line 1: the JSON is truncated"),
    "invalid line": (LINE + b"hello\n", "line 2: invalid JSON.*repair=True"),
    "invalid element": (b"[{}, hello, {}]" + b" " * 99, "element 2 of the array: invalid JSON"),
    "data after the array": (b"[" + LINE + b"]\n1", "line 3: unexpected data after the end"),
    "NUL bytes": (LINE + b"\0" * 50 + b"\n", "line 2: the file contains NUL bytes"),
    "only NUL bytes": (b"\0" * 50, "line 1: the file contains NUL bytes"),
    "a number": (b"42\n", "line 1: expected a JSON object or array, got int"),
    "deep nesting": (LINE + b"[" * 100_000 + b"]" * 100_000, "line 2: .* nested too deeply"),
    "deep array": (b"[" * 100_000, "nested too deeply"),
    "deep objects": (LINE + b'{"a":' * 100_000, "line 2: the JSON is nested too deeply"),
    "a huge number": (LINE + b"1" * 5_000, "line 2: the JSON can't be decoded"),
    "zip": (b"PK\x03\x04...", "zip archive: unpack it"),
    "SQLite": (b"SQLite format 3\0", "SQLite"),
    "binary": (bytes(range(1, 32)) * 9, "the file is binary"),
    "truncated gzip": (gzip.compress(os.urandom(9_000))[:-20], "gzip file is truncated"),
    "damaged gzip": (gzip.compress(LINE * 99)[:30] + b"x" * 30, "gzip file is damaged"),
    "invalid gzip": (b"\x1f\x8bhello", "gzip file is truncated"),
    "prose": (b"My diary,\n", "line 1: invalid JSON"),
    "no conversation": (b'{"agentType": "general"}', "no conversation found"),
    "an OpenCode part": (
        b'{"id": "p", "sessionID": "s", "messageID": "m", "type": "text"}', "OpenCode.*export",
    ),
    "fine-tuning examples": (
        b'{"instruction": "Do", "input": "x", "output": "y"}\n', "no conversation found",
    ),
    "a request for embeddings": (b'{"input": ["Hi"], "model": "e"}', "no conversation found"),
    "a log without messages": (
        b'{"type": "session_meta", "payload": {"id": "s"}}\n', "no conversation found",
    ),
    "a refused exchange": (
        json.dumps(
            {
                "uri": "https://api.example.com/v1/chat/completions",
                "request": {"messages": [{"role": "user", "content": "Hi"}]},
                "status": {"code": 429},
                "response": {"error": {}},
            }
        ).encode(),
        "no conversation found",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_file_raises_an_error_with_the_path(name: str, path: Path) -> None:
    content, pattern = UNREADABLE[name]
    path.write_bytes(content)
    with pytest.raises(FormatError, match=pattern) as found:
        read(path)
    assert found.value.path == path
    with pytest.raises(FormatError, match=pattern):
        list(iter_messages(path, registry=REGISTRY))


@pytest.mark.parametrize("name", UNREADABLE)
def test_repair_reads_the_valid_records(name: str, path: Path) -> None:
    content, _pattern = UNREADABLE[name]
    path.write_bytes(content)
    starts_valid = content.startswith((LINE, b"[" + LINE))
    if not starts_valid:
        with pytest.raises(FormatError):
            read(path, repair=True)
    else:
        [conversation] = read(path, repair=True)
        assert [message.text for message in conversation.messages] == ["Hi"]
        assert len(conversation.problems) == 1


def test_repair_reads_the_intact_part_of_a_truncated_gzip_file(path: Path) -> None:
    many = b"".join(
        b'{"role": "user", "content": "%d %s"}\n' % (number, os.urandom(40).hex().encode())
        for number in range(4_000)
    )
    path.write_bytes(gzip.compress(many)[:-4_000])
    [conversation] = read(path, repair=True)
    assert 1_000 < len(conversation.messages) < 4_000
    assert "truncated" in conversation.problems[0].what


def test_a_path_that_is_not_a_regular_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        read(tmp_path / "missing")
    with pytest.raises(FormatError, match="got a folder"):
        read(tmp_path)
    with pytest.raises(FormatError, match="not a regular file"):
        read(os.devnull)
    with pytest.raises(FormatError, match="not a regular file"):
        read("a\0b")


def test_a_named_pipe_is_rejected_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="not a regular file"):
        read(tmp_path / "pipe")


def test_the_storage_folder_of_opencode_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "message").mkdir()
    (tmp_path / "part").mkdir()
    with pytest.raises(FormatError, match="OpenCode"):
        read(tmp_path)


def test_missing_permissions_are_a_format_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path.write_bytes(LINE)
    monkeypatch.setattr("io.FileIO", refuse)  # root can read every file, regardless of its mode
    with pytest.raises(FormatError, match="check the file's permissions"):
        read(path)


def test_a_disk_error_is_a_format_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    path.write_bytes(LINE)
    monkeypatch.setattr("io.FileIO", fail)
    with pytest.raises(FormatError, match="Input/output error"):
        read(path)


def test_a_record_over_the_size_limit_is_rejected(path: Path) -> None:
    long = json.dumps({"role": "user", "content": "x" * 5_000}).encode() + b"\n"
    for content in (LINE + long + LINE, b"[" + LINE + b"," + long + b"]"):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"longer than 1,000 bytes.*max_record_bytes"):
            read(path, max_record_bytes=1_000)
        [conversation] = read(path, repair=True, max_record_bytes=1_000)
        assert {message.text for message in conversation.messages} == {"Hi"}
        assert len(conversation.problems) == 1


def test_a_line_of_a_hundred_megabytes_is_refused_unless_that_is_asked_for(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"role": "user", "content": "')
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n')
    with pytest.raises(FormatError, match="longer than 67,108,864 bytes"):
        list(iter_messages(path, registry=REGISTRY))
    [message] = iter_messages(path, registry=REGISTRY, max_record_bytes=10**9)
    assert len(message.text) == 100_000_000


def test_a_malformed_message_raises_an_error_with_the_path(path: Path) -> None:
    path.write_text(json.dumps([{"role": "assistant", "content": None, "tool_calls": [5]}]))
    with pytest.raises(FormatError, match="tool_calls") as found:
        read(path, "openai-chat")
    assert found.value.path == path


def test_an_exception_in_a_plugins_format_is_a_format_error(path: Path) -> None:
    class Failing:
        name = summary = "failing"

        def recognize(self, records: Sequence[Any]) -> float:
            return float(bool(records))

        def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
            for record in records:
                yield record.value["missing"]

    class Plugin:
        @hookimpl
        def jaato_gc_register_formats(self) -> list[FormatInfo]:
            return [FormatInfo("failing", Failing, "")]

    registry = PluginRegistry()
    registry.register(Plugin(), "failing")
    path.write_bytes(LINE * 2)
    with pytest.raises(FormatError, match=r"line 1: can't be read: unexpected str.*missing"):
        load(path, "failing", registry=registry)
