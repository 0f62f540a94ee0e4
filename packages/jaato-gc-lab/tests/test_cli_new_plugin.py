"""Tests of ``jaato-gc new-plugin``: names, files, author and licence.

The checks and the build of a created plugin need its wheels: see tests-releasing.
"""

import ast
import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cli_samples import RAW, command_line, environment, run, run_in_a_process
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import GCError
from jaato_gc import __version__ as core_version
from jaato_gc_lab._plugin_names import PluginNames
from jaato_gc_lab._plugin_project import LICENSES, License, project_files
from jaato_gc_lab._text import UNPRINTABLE

FILES = [
    ".github/dependabot.yml",
    ".github/workflows/ci.yml",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "src/jaato_gc_todos/__init__.py",
    "src/jaato_gc_todos/py.typed",
    "tests/test_conformance.py",
    "tests/test_strategy.py",
]
NO_GIT_CONFIG = {"GIT_CONFIG_GLOBAL": "", "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in NO_GIT_CONFIG.items():
        monkeypatch.setenv(name, value)


def files_in(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def project_of(folder: str) -> dict[str, Any]:
    text = Path(folder, "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


# --- names ---


@pytest.mark.parametrize(
    "given", ["todos", "gc_todos", "gc-todos", "jaato-gc-todos", "jaato_gc_todos", " Todos "]
)
def test_every_spelling_of_a_name_creates_the_same_plugin(given: str, tmp_path: Path) -> None:
    result = run("new-plugin", given)

    assert result.exit_code == 0, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["jaato-gc-todos"]
    assert files_in(tmp_path / "jaato-gc-todos") == FILES
    assert "gc_todos" in result.stdout


def test_a_name_of_several_words_is_joined() -> None:
    result = run("new-plugin", "Todo List")

    assert result.stdout.startswith("Created jaato-gc-todo-list with the strategy gc_todo_list")
    assert project_of("jaato-gc-todo-list")["entry-points"] == {
        "jaato_gc": {"todo_list": "jaato_gc_todo_list"}
    }
    module = Path("jaato-gc-todo-list/src/jaato_gc_todo_list/__init__.py")
    assert "class TodoListGCPlugin(" in module.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "given", ["", " ", "gc", "gc_", "jaato-gc", "2fast", "to/dos", "../todos", "über", "a" * 31]
)
def test_an_invalid_name_is_refused_with_an_example(given: str, tmp_path: Path) -> None:
    result = run("new-plugin", "--", given)

    assert result.exit_code == 2
    assert result.stderr.startswith("jaato-gc: ")
    assert result.stderr.count("\n") == 1
    assert "such as todos" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["budget", "gc_truncate", "lab", "testing"])
def test_the_name_of_an_installed_distribution_is_refused(given: str, tmp_path: Path) -> None:
    result = run("new-plugin", given)

    assert result.exit_code == 2
    assert "choose another name" in result.stderr
    assert list(tmp_path.iterdir()) == []


@given(st.one_of(st.text(), st.from_regex(r"(jaato[-_])?(gc[-_])?[\w .-]{1,20}", fullmatch=True)))
def test_names_are_valid_wherever_they_are_used_or_refused(text: str) -> None:
    try:
        names = PluginNames.parse(text)
    except GCError:
        return

    assert re.fullmatch(r"jaato-gc-[a-z0-9]+(-[a-z0-9]+)*", names.distribution)
    assert names.module == names.distribution.replace("-", "_")
    assert names.module == f"jaato_{names.strategy}"
    assert f"{names.prefix}GCPlugin".isidentifier()
    for spelling in (names.short, names.strategy, names.module, names.distribution):
        assert PluginNames.parse(spelling) == names


# --- files ---


def test_the_next_steps_are_printed() -> None:
    result = run("new-plugin", "todos", "--directory", "my plugin")

    assert result.stdout.splitlines() == [
        "Created my plugin with the strategy gc_todos",
        "Install it with pip 25.1 or newer: cd 'my plugin' && pip install --editable . --group dev",
        "Change it: edit select in src/jaato_gc_todos/__init__.py",
        "Test it: pytest",
    ]
    assert files_in(Path("my plugin")) == FILES


def test_the_plugin_requires_this_core_or_a_newer_one_without_breaking_changes() -> None:
    run("new-plugin", "todos")

    major, minor, *_ = core_version.split(".")
    expected = [f"jaato-gc>={major}.{minor},<{int(major) + 1}"]
    assert project_of("jaato-gc-todos")["dependencies"] == expected


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    run("new-plugin", "todos")
    Path("jaato-gc-todos/README.md").write_text("mine", encoding="utf-8")

    result = run("new-plugin", "todos")

    assert result.exit_code == 2
    assert "jaato-gc-todos already exists" in result.stderr
    assert "--directory" in result.stderr
    assert Path("jaato-gc-todos/README.md").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["jaato-gc-todos"]


@pytest.mark.parametrize(
    ("directory", "words"),
    [
        ("file", "file already exists"),
        ("link", "link already exists"),
        ("no/such/folder", "does not exist"),
        ("file/below", "does not exist"),
        (".", "already exists"),
    ],
)
def test_a_folder_that_can_not_be_created_is_refused(
    directory: str, words: str, tmp_path: Path
) -> None:
    Path("file").touch()
    Path("link").symlink_to("nowhere")

    result = run("new-plugin", "todos", "--directory", directory)

    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
def test_no_file_is_left_if_one_can_not_be_written(tmp_path: Path) -> None:
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600)); "
        "from jaato_gc_lab._cli import main; main()"
    )
    python, option, _, *args = command_line("new-plugin", "todos")
    done = subprocess.run(
        [python, option, limited, *args],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.startswith("jaato-gc: jaato-gc-todos")
    assert list(tmp_path.iterdir()) == []


# --- author and licence ---


def test_the_author_comes_from_git_unless_given(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[user]\n\tname = Ana Doe\n", encoding="utf-8")
    git = {**NO_GIT_CONFIG, "GIT_CONFIG_GLOBAL": str(tmp_path / "config")}

    run_in_a_process("new-plugin", "todos", cwd=tmp_path, **git)
    run_in_a_process("new-plugin", "notes", "--author", "Bo Li", cwd=tmp_path, **git)

    assert project_of("jaato-gc-todos")["authors"] == [{"name": "Ana Doe"}]
    license = Path("jaato-gc-todos/LICENSE").read_text(encoding="utf-8")
    assert f"Copyright (c) {date.today().year} Ana Doe\n" in license
    assert project_of("jaato-gc-notes")["authors"] == [{"name": "Bo Li"}]


@pytest.mark.parametrize("variables", [NO_GIT_CONFIG, {"PATH": ""}], ids=["unset", "no git"])
def test_without_an_author_the_plugin_has_authors(
    variables: dict[str, str], tmp_path: Path
) -> None:
    done = run_in_a_process("new-plugin", "todos", cwd=tmp_path, **variables)

    assert done.returncode == 0, done.stderr
    assert project_of("jaato-gc-todos")["authors"] == [{"name": "The jaato-gc-todos authors"}]


def test_an_author_can_have_a_space_of_another_script() -> None:
    result = run("new-plugin", "todos", "--author", "山田\u3000太郎")

    assert result.exit_code == 0, result.stderr
    assert project_of("jaato-gc-todos")["authors"] == [{"name": "山田\u3000太郎"}]


@pytest.mark.parametrize("author", ["", " ", "two\nlines", "\x1b[31mred"])
def test_an_author_that_is_not_a_line_of_text_is_refused(author: str, tmp_path: Path) -> None:
    result = run("new-plugin", "todos", "--author", author)

    assert result.exit_code == 2
    assert "--author" in result.stderr
    assert not any(character in result.output for character in RAW)
    assert list(tmp_path.iterdir()) == []


authors = st.text(min_size=1) | st.text("Ana \"'\\{%}<&", min_size=1)


@given(
    author=authors.filter(lambda text: not UNPRINTABLE.search(text)),
    license=st.sampled_from(LICENSES),
)
def test_any_author_and_licence_give_valid_files(author: str, license: License) -> None:
    files = project_files(PluginNames("todos"), author=author, license=license, year=2026)

    project = tomllib.loads(files["pyproject.toml"].decode())["project"]
    assert project["authors"] == [{"name": author}]
    assert project.get("license") == (None if license == "none" else license)
    assert ("LICENSE" in files) == (license != "none")
    for name, content in files.items():
        assert content == b"" or content.endswith(b"\n"), name
        if name.endswith(".py"):
            ast.parse(content)


def test_licences_have_their_whole_text() -> None:
    texts = {}
    for license in ("MIT", "Apache-2.0"):
        run("new-plugin", "todos", "--license", license, "--directory", license)
        texts[license] = Path(license, "LICENSE").read_text(encoding="utf-8")

    assert texts["MIT"].startswith("MIT License\n")
    assert texts["MIT"].endswith("SOFTWARE.\n")
    assert "Apache License\n" in texts["Apache-2.0"]
    assert "END OF TERMS AND CONDITIONS" in texts["Apache-2.0"]


def test_without_a_licence_no_file_names_one() -> None:
    run("new-plugin", "todos", "--license", "none")

    assert files_in(Path("jaato-gc-todos")) == [name for name in FILES if name != "LICENSE"]
    assert "license" not in Path("jaato-gc-todos/pyproject.toml").read_text(encoding="utf-8")
    assert "icence" not in Path("jaato-gc-todos/README.md").read_text(encoding="utf-8")
