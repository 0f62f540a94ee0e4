"""Tests of Ctrl-C, SIGTERM and closed pipes with real processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_samples import anthropic_request, command_line, environment, write_json

from jaato_gc_lab import sample_path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")

SLOW = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
import jaato_gc_lab._files as files
write = files._write

def slow(path, content, mode):
    write(path, content, mode)
    Path("ready").touch()
    time.sleep(60)

files._write = slow
from jaato_gc_lab._cli import main
main()
"""


def started(args: list[str], folder: Path) -> "subprocess.Popen[str]":
    """Starts Python in a process group of its own, and waits until it says that it is ready."""
    process = subprocess.Popen(
        [sys.executable, *args],
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    while process.poll() is None and not (folder / "ready").exists():
        time.sleep(0.05)
    return process


def started_comparison(program: str, folder: Path) -> "subprocess.Popen[str]":
    """Starts a program with the arguments of a long comparison."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    args = ["compare", str(sample_path()), "--context-limit", "16k,24k,32k", "--workers", "1"]
    return started(["program.py", *args, "--report", "page.html"], folder)


@pytest.mark.parametrize(
    "args",
    [
        ["collect", "request.json", "--context-limit", "2k", "--apply", "-o", "out.json"],
        ["new-plugin", "todos"],
    ],
    ids=lambda args: args[0],
)
def test_ctrl_c_leaves_no_incomplete_files(args: list[str], tmp_path: Path) -> None:
    write_json(tmp_path / "request.json", anthropic_request(8))
    process = started(["-c", SLOW, *args], tmp_path)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)

    assert process.returncode == 130
    assert stdout == ""
    assert stderr.strip() == "jaato-gc: interrupted; no incomplete files were left"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ready", "request.json"]


STARTED = """
import signal, sys
from pathlib import Path
import jaato_gc_lab._cli._grid as grid
compare = grid.compare

def touching(*args, on_progress, **options):
    def note(*details):
        Path("ready").touch()
        on_progress(*details)
    return compare(*args, on_progress=note, **options)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    grid.compare = touching
    from jaato_gc_lab._cli import main
    main()
"""


def test_ctrl_c_stops_a_comparison(tmp_path: Path) -> None:
    process = started_comparison(STARTED, tmp_path)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)

    assert process.returncode == 130
    assert stdout == ""
    assert stderr.strip() == "jaato-gc: interrupted; no incomplete files were left"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py", "ready"]


@pytest.mark.parametrize(
    "args",
    [
        ["inspect", sample_path()],
        ["inspect", sample_path(), "--json"],
        ["plugins"],
        ["collect", sample_path(), "--context-limit", "32k"],
    ],
    ids=str,
)
def test_closed_output_pipe_prints_no_error(args: list[object], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command_line(*args),
        cwd=tmp_path, env=environment(), stdout=writing, stderr=subprocess.PIPE, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    os.close(writing)

    assert done.stderr == ""
    assert done.returncode == 141


SLOW_START = """
import signal, sys, time
from pathlib import Path

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from jaato_gc_lab._cli import main
    main()
else:  # a worker that is still importing
    Path("ready").touch()
    time.sleep(2)
"""


SLOW_REPLAY = """
import signal, sys, time
from pathlib import Path
import jaato_gc_lab._compare as grid
import jaato_gc_lab._processes as processes

def slow(*args, **options):
    Path("ready").touch()
    time.sleep(300)

class Lingering(processes.ProcessPoolExecutor):
    def shutdown(self, *args, **options):
        time.sleep(1)  # lets the pool's threads notice the end of the workers first
        super().shutdown(*args, **options)

grid.replay = slow
processes.ProcessPoolExecutor = Lingering
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from jaato_gc_lab._cli import main
    main()
"""


@pytest.mark.parametrize("program", [SLOW_START, SLOW_REPLAY], ids=["start", "replay"])
def test_ctrl_c_prints_no_traceback_and_does_not_wait_for_workers(
    program: str, tmp_path: Path
) -> None:
    process = started_comparison(program, tmp_path)
    try:
        os.killpg(process.pid, signal.SIGINT)  # a terminal signals the whole group
        _, stderr = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    assert process.returncode == 130
    assert stderr.strip() == "jaato-gc: interrupted; no incomplete files were left"


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_workers_end_when_the_command_is_terminated(
    sent: signal.Signals, code: int, tmp_path: Path
) -> None:
    process = started_comparison(STARTED, tmp_path)
    try:
        process.send_signal(sent)
        process.communicate(timeout=30)  # a running worker would keep the pipe open
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    assert process.returncode == code
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py", "ready"]
