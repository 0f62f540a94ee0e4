"""The examples, the README and the creation of a plugin need no network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Python imports sitecustomize at startup, before any other code.
NO_NETWORK = """
import socket

def refuse(*args, **kwargs):
    raise OSError("this process has no network")

for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, refuse)
socket.getaddrinfo = refuse
"""


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """The environment variables for a process without network access."""
    folder = tmp_path / "no-network"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("JAATO_GC_")}
    return clean | {"PYTHONPATH": str(folder), "PYTHONUTF8": "1"}


def run_python(*arguments: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=env,
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "attempt",
    [
        "socket.getaddrinfo('localhost', 80)",
        "socket.create_connection(('127.0.0.1', 80))",
        "socket.socket().connect(('127.0.0.1', 80))",
    ],
)
def test_network_access_is_refused(attempt: str, offline: dict[str, str], tmp_path: Path) -> None:
    done = run_python("-c", f"import socket; {attempt}", env=offline, cwd=tmp_path)

    assert done.returncode != 0
    assert "this process has no network" in done.stderr


def test_the_example_prints_usage_and_collections(offline: dict[str, str], tmp_path: Path) -> None:
    done = run_python(str(ROOT / "examples" / "sawtooth.py"), env=offline, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stdout.lower().splitlines()
    turns = [line for line in lines if re.search(r"\bturn\b.*\d.*%|^\W*\d+\b.*%", line)]
    assert len(turns) >= 5, done.stdout
    assert any(re.search(r"collect|freed", line) for line in lines), done.stdout


def test_the_example_of_the_panel_prints_it_after_each_turn(
    offline: dict[str, str], tmp_path: Path
) -> None:
    done = run_python(str(ROOT / "examples" / "budget_panel.py"), env=offline, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("main: ") == 12
    assert re.search(r"last collection: [\d,]+ tokens freed \(gc_budget, threshold,", done.stdout)


def test_the_first_example_of_the_readme_runs_without_a_network(
    offline: dict[str, str], tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert block, "README.md has no python block"

    done = run_python("-c", block[1], env=offline, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\nTrue\n"


def test_a_plugin_is_created_without_a_network(offline: dict[str, str], tmp_path: Path) -> None:
    command = "from jaato_gc_lab._cli import main; main()"
    done = run_python("-c", command, "new-plugin", "todos", env=offline, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "jaato-gc-todos" / "pyproject.toml").is_file()
