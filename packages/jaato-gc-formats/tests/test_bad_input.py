"""Files that can't be read: each ends in an error that says what is wrong, where, what to do."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import FormatInfo, PluginRegistry, hookimpl
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
    "cut": (LINE + LINE[:20], "line 2: it is cut off"),
    "cut in a letter": (LINE + '{"a": "é'.encode()[:-1], "line 2: it is cut off"),
    "cut array": (b"[" + LINE + b"," + LINE[:20], "element 2 of the array: it is cut off"),
    "cut object": (b'{\n"messages": [\n', "line 1: it is cut off"),
    "garbage": (LINE + b"hello\n", "line 2: it is no JSON.*repair=True"),
    "garbage in an array": (b"[{}, hello, {}]" + b" " * 99, "element 2 .* it is no JSON"),
    "after the array": (b"[" + LINE + b"]\n1", "line 3: something follows"),
    "NUL bytes": (LINE + b"\0" * 50 + b"\n", "line 2: it has NUL bytes"),
    "only NUL bytes": (b"\0" * 50, "line 1: it has NUL bytes"),
    "a number": (b"42\n", "line 1: it is a int"),
    "deep nesting": (LINE + b"[" * 100_000 + b"]" * 100_000, "line 2: it is nested too deeply"),
    "deep array": (b"[" * 100_000, "nested too deeply"),
    "deep objects": (LINE + b'{"a":' * 100_000, "line 2: it is nested too deeply"),
    "a huge number": (LINE + b"1" * 5_000, "line 2: it is no JSON that can be read"),
    "zip": (b"PK\x03\x04...", "zip archive: unpack it"),
    "SQLite": (b"SQLite format 3\0", "SQLite"),
    "binary": (bytes(range(1, 32)) * 9, "the file is binary"),
    "cut gzip": (gzip.compress(os.urandom(9_000))[:-20], "gzip file is cut off"),
    "damaged gzip": (gzip.compress(LINE * 99)[:30] + b"x" * 30, "gzip file is"),
    "no gzip at all": (b"\x1f\x8bhello", "gzip file is"),
    "prose": (b"Dear diary,\n", "line 1: it is no JSON"),
    "no conversation": (b'{"agentType": "general"}', "nothing in it is a conversation"),
    "an OpenCode part": (
        b'{"id": "p", "sessionID": "s", "messageID": "m", "type": "text"}', "OpenCode.*export",
    ),
    "fine-tuning examples": (
        b'{"instruction": "Do", "input": "x", "output": "y"}\n', "nothing in it is a conv",
    ),
    "a request for embeddings": (b'{"input": ["Hi"], "model": "e"}', "nothing in it is a conv"),
    "a log in which nobody speaks": (
        b'{"type": "session_meta", "payload": {"id": "s"}}\n', "nothing in it is a conversation",
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
        "nothing in it is a conversation",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_the_error_says_what_where_and_what_to_do(name: str, path: Path) -> None:
    content, said = UNREADABLE[name]
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said) as found:
        read(path)
    assert found.value.path == path
    with pytest.raises(FormatError, match=said):
        list(iter_messages(path, registry=REGISTRY))


@pytest.mark.parametrize("name", UNREADABLE)
def test_repair_reads_what_is_there(name: str, path: Path) -> None:
    content, _said = UNREADABLE[name]
    path.write_bytes(content)
    begins_well = content.startswith((LINE, b"[" + LINE))
    if not begins_well:
        with pytest.raises(FormatError):
            read(path, repair=True)
    else:
        [conversation] = read(path, repair=True)
        assert [message.text for message in conversation.messages] == ["Hi"]
        assert len(conversation.problems) == 1


def test_what_is_whole_of_a_cut_gzip_is_read(path: Path) -> None:
    many = b"".join(
        b'{"role": "user", "content": "%d %s"}\n' % (number, os.urandom(40).hex().encode())
        for number in range(4_000)
    )
    path.write_bytes(gzip.compress(many)[:-4_000])
    [conversation] = read(path, repair=True)
    assert 1_000 < len(conversation.messages) < 4_000
    assert "cut off" in conversation.problems[0].what


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        read(tmp_path / "missing")
    with pytest.raises(FormatError, match="it is a folder"):
        read(tmp_path)
    with pytest.raises(FormatError, match="it is no file"):
        read(os.devnull)
    with pytest.raises(FormatError, match="it is no file"):
        read("a\0b")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="it is no file"):
        read(tmp_path / "pipe")


def test_a_folder_of_opencode(tmp_path: Path) -> None:
    (tmp_path / "message").mkdir()
    (tmp_path / "part").mkdir()
    with pytest.raises(FormatError, match="OpenCode"):
        read(tmp_path)


def test_a_file_that_may_not_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path.write_bytes(LINE)
    monkeypatch.setattr("io.FileIO", refuse)  # root may read everything
    with pytest.raises(FormatError, match="check its permissions"):
        read(path)


def test_a_disk_that_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    path.write_bytes(LINE)
    monkeypatch.setattr("io.FileIO", fail)
    with pytest.raises(FormatError, match="Input/output error"):
        read(path)


def test_a_record_has_a_limit(path: Path) -> None:
    long = json.dumps({"role": "user", "content": "x" * 5_000}).encode() + b"\n"
    for content in (LINE + long + LINE, b"[" + LINE + b"," + long + b"]"):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"longer than 1,000 bytes.*max_record_bytes"):
            read(path, max_record_bytes=1_000)
        [conversation] = read(path, repair=True, max_record_bytes=1_000)
        assert {message.text for message in conversation.messages} == {"Hi"}
        assert len(conversation.problems) == 1


def test_one_line_of_a_hundred_megabytes(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"role": "user", "content": "')
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n')
    [message] = iter_messages(path, registry=REGISTRY)
    assert len(message.text) == 100_000_000


def test_a_shape_that_no_format_has(path: Path) -> None:
    path.write_text(json.dumps([{"role": "assistant", "content": None, "tool_calls": [5]}]))
    with pytest.raises(FormatError, match="tool_calls") as found:
        read(path, "openai-chat")
    assert found.value.path == path


def test_a_format_that_stumbles(path: Path) -> None:
    class Stumbling:
        name = summary = "stumbling"

        def recognize(self, records: Sequence[Any]) -> float:
            return float(bool(records))

        def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
            for record in records:
                yield record.value["missing"]

    class Plugin:
        @hookimpl
        def jaato_gc_register_formats(self) -> list[FormatInfo]:
            return [FormatInfo("stumbling", Stumbling, "")]

    registry = PluginRegistry()
    registry.register(Plugin(), "stumbling")
    path.write_bytes(LINE * 2)
    with pytest.raises(FormatError, match=r"line 1: it is in a shape that can't be read.*missing"):
        load(path, "stumbling", registry=registry)
