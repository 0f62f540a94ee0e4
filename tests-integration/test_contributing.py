"""Files for contributors: the forms of issues, the hooks before a commit, settings of editors."""

import configparser
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from documents import ROOT, blocks_of

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


# --- commands ---


def test_paths_and_tools_of_the_commands_exist() -> None:
    """`nox -s clone` runs the commands. This is the part that needs no clone."""
    blocks = [each for each in blocks_of(ROOT / "CONTRIBUTING.md") if each.language == "sh"]
    words = [
        word
        for block in blocks
        for line in block.text.splitlines()
        for word in line.partition("#")[0].split()
    ]
    tools = {word.removeprefix(".venv/bin/") for word in words if word.startswith(".venv/bin/")}
    paths = [word for word in words if re.fullmatch(r"packages|tests-\w+|[\w/-]+\.\w+", word)]
    groups = [each for group in SETTINGS["dependency-groups"].values() for each in group]

    assert tools <= set(map(str, groups))
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


# --- hooks before a commit ---


def test_hooks_before_a_commit_run_the_commands_of_the_lint_session() -> None:
    repositories = load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [each["repo"] for each in repositories] == ["local"]

    prefix = "uv run --active --no-sync "
    hooks = [hook["entry"] for hook in repositories[0]["hooks"]]
    assert all(entry.startswith(prefix) for entry in hooks)
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    session = noxfile.partition("def lint(")[2].partition("\n\n\n")[0]
    commands = [
        " ".join(re.findall(r'"([^"]+)"', arguments))
        for arguments in re.findall(r"session\.run\(([^)]*)\)", session)
    ]
    assert [entry.removeprefix(prefix) for entry in hooks] == [
        command for command in commands if command.startswith("ruff ")
    ]


# --- editors ---


def test_editors_and_ruff_agree_about_lines() -> None:
    parser = configparser.ConfigParser()
    text = (ROOT / ".editorconfig").read_text(encoding="utf-8")
    parser.read_string("[root]\n" + text)
    python = parser["*.py"]

    assert python.getint("max_line_length") == SETTINGS["tool"]["ruff"]["line-length"]
    assert python.getint("indent_size") == SETTINGS["tool"]["ruff"].get("indent-width", 4)


# --- forms ---

FORMS = sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*.yml"))
CONFIG = ROOT / ".github/ISSUE_TEMPLATE/config.yml"
REQUIRED = {
    "checkboxes": {"label", "options"},
    "dropdown": {"label", "options"},
    "input": {"label"},
    "markdown": {"value"},
    "textarea": {"label"},
}
"""The required attributes of each type of element."""
ALLOWED = {
    "checkboxes": {"description"},
    "dropdown": {"default", "description", "multiple"},
    "input": {"description", "placeholder", "value"},
    "markdown": set[str](),
    "textarea": {"description", "placeholder", "render", "value"},
}
"""Its other attributes."""


@pytest.mark.parametrize(
    "path", [each for each in FORMS if each != CONFIG], ids=lambda path: path.name
)
def test_a_form_for_issues_is_valid(path: Path) -> None:
    form = load(path)

    assert {"name", "description", "body"} <= form.keys()
    assert form.keys() <= {"name", "description", "body", "title", "labels", "assignees"}
    for element in form["body"]:
        kind, attributes = element["type"], element["attributes"]
        assert element.keys() <= {"type", "id", "attributes", "validations"}
        assert REQUIRED[kind] <= attributes.keys()
        assert attributes.keys() <= REQUIRED[kind] | ALLOWED[kind]
        assert all(attributes[key] for key in REQUIRED[kind])
        assert element.get("validations", {}).keys() <= {"required"}
        assert ("id" in element) == (kind != "markdown")
    ids = [element["id"] for element in form["body"] if "id" in element]
    labels = [element["attributes"].get("label") for element in form["body"]]
    assert len(ids) == len(set(ids))
    assert len(labels) == len(set(labels))
    assert all(re.fullmatch(r"[\w-]+", each) for each in ids)
    assert ids, "a form asks for something"


def test_forms_have_different_names() -> None:
    names = [load(path)["name"] for path in FORMS if path != CONFIG]

    assert len(names) == len(set(names)) == 3


def test_the_configuration_of_forms_is_valid() -> None:
    assert load(CONFIG).keys() <= {"blank_issues_enabled", "contact_links"}


def test_every_file_has_an_owner() -> None:
    text = (ROOT / ".github/CODEOWNERS").read_text(encoding="utf-8")
    rules = [line.split() for line in text.splitlines() if line and not line.startswith("#")]

    assert rules[0][0] == "*"
    assert all(owner.startswith("@jaato-gc/") for rule in rules for owner in rule[1:])
