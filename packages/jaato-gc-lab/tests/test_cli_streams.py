"""Tests of input from stdin and from pipes."""

import gzip
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from cli_samples import anthropic_request, command_line, environment, run, write_json

from jaato_gc import GCError
from jaato_gc_lab._cli._inputs import InputFile

REQUEST = anthropic_request(8)
TEXT = json.dumps(REQUEST)
ONE = ("--workers", "1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "inspect": (),
    "collect": ("--context-limit", "4k"),
    "replay": ("--context-limit", "4k"),
    "compare": ("--strategies", "budget", "--context-limit", "4k", *ONE),
    "check": ("--context-limit", "4k", *ONE),
    "report": ("--strategies", "budget", "--context-limit", "4k", "--out", "page.html", *ONE),
}
each_command = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def leftovers() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("jaato-gc-input-*"))


def pipe_with(content: bytes, name: str = "pipe") -> Path:
    """Returns a named pipe whose content can be read once, as ``<(…)`` gives it."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("this platform has no named pipes")
    path = Path(name)
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
    return path


@each_command
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_dash_reads_stdin(command: str, packed: bool) -> None:
    content = gzip.compress(TEXT.encode()) if packed else TEXT.encode()
    result = run(command, "-", *COMMANDS[command], input=content)

    assert result.exit_code == 0, result.stderr
    assert tempfile.gettempdir() not in result.output
    assert leftovers() == []


@each_command
def test_pipe_is_read_once(command: str) -> None:
    pipe = pipe_with(gzip.compress(TEXT.encode()))
    result = run(command, pipe, *COMMANDS[command])

    assert result.exit_code == 0, result.stderr
    assert tempfile.gettempdir() not in result.output


@pytest.mark.parametrize("command", ["inspect", "replay", "check"])
def test_stdin_gives_the_figures_of_the_file(command: str) -> None:
    write_json(Path("stdin"), REQUEST)
    options = (*COMMANDS[command], "--json")
    from_file = run(command, "stdin", *options).stdout
    from_stdin = run(command, "-", *options, input=TEXT).stdout

    def comparable(text: str) -> str:
        lines = text.splitlines()
        return "\n".join(line for line in lines if "seconds" not in line)

    assert comparable(from_stdin) == comparable(from_file)


def test_several_streams_have_different_names() -> None:
    one, two = (pipe_with(TEXT.encode(), name) for name in ("one", "two"))
    result = run("replay", "-", one, two, "--context-limit", "4k", "--json", input=TEXT)

    reports = json.loads(result.stdout)["reports"]
    assert [each["transcript"] for each in reports] == ["stdin", "one", "two"]


@pytest.mark.parametrize("command", ["inspect", "collect", "replay", "compare"])
@pytest.mark.parametrize("stream", ["stdin", "pipe"])
def test_empty_streams_are_refused(command: str, stream: str) -> None:
    file = "-" if stream == "stdin" else pipe_with(b"")
    result = run(command, file, *COMMANDS[command], input=b"")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("jaato-gc: ")
    assert f"{stream} is empty: " in result.stderr
    assert result.stderr.count("\n") == 1


def test_terminal_as_stdin_is_refused_instead_of_waiting(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="this platform has no pseudo-terminals")
    master, slave = pty.openpty()
    done = subprocess.run(
        command_line("inspect", "-"), cwd=tmp_path, env=environment(), stdin=slave,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    os.close(master)
    os.close(slave)

    assert done.returncode == 2
    assert "stdin is a terminal: pass a file, or redirect one" in done.stderr
    assert done.stderr.count("\n") == 1


def test_closed_stdin_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(GCError, match="stdin is empty"):
        InputFile().convert("-", None, None)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_process_substitution_of_a_shell_works(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    write_json(tmp_path / "request.json", REQUEST)
    command = shlex.join(command_line("compare", "--workers", "1", "-l", "4k", "--json"))
    done = subprocess.run(
        [bash, "-c", f"{command} <(cat request.json) <(gzip -c request.json)"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["comparison"]["results"]
    assert len({each["cell"]["transcript"] for each in results}) == 2


@pytest.mark.parametrize("command", ["inspect", "replay"])
def test_errors_name_the_stream_and_not_a_temporary_file(command: str) -> None:
    result = run(command, "-", input="bring milk")

    assert result.exit_code == 2
    assert "stdin" in result.stderr
    assert tempfile.gettempdir() not in result.stderr


@pytest.mark.parametrize("options", [["--apply", "--in-place"], ["--undo"]])
def test_collect_can_not_write_back_to_stdin(options: list[str]) -> None:
    result = run("collect", "-", "--context-limit", "4k", *options, input=TEXT)

    assert result.exit_code == 2
    assert "needs a file, not stdin or a pipe: pass a path" in result.stderr


def test_collected_stdin_is_written_to_a_file_and_can_be_undone() -> None:
    options = ("--context-limit", "2k", "--keep-turns", "1", "--apply", "-o", "out.json")
    result = run("collect", "-", *options, input=TEXT)

    assert result.exit_code == 0, result.stderr
    assert len(Path("out.json").read_text(encoding="utf-8")) < len(TEXT)
    assert run("collect", "out.json", "--undo").exit_code == 0
    assert Path("out.json").read_text(encoding="utf-8") == TEXT


def test_saved_comparison_is_read_from_stdin() -> None:
    write_json(Path("request.json"), REQUEST)
    saved = run("compare", "request.json", *COMMANDS["compare"], "--json").stdout
    result = run("report", "--from", "-", "--out", "page.html", input=saved)

    assert result.exit_code == 0, result.stderr
    assert Path("page.html").is_file()
