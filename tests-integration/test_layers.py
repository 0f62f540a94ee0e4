"""The architecture: imports go down only, and plugins use public names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository import PYPROJECTS, ROOT, plugins, required_siblings

PACKAGES = ROOT / "packages"
CORE = PACKAGES / "jaato-gc" / "src" / "jaato_gc"
LAB = PACKAGES / "jaato-gc-lab" / "src" / "jaato_gc_lab"

# As ARCHITECTURE.md lists them: each imports only those before it.
LAYERS = [
    "_version",
    "deprecation",
    "errors",
    "frozen",
    "policies",
    "commit",
    "settings",
    "saved",
    "config",
    "deadline",
    "calling",
    "messages",
    "tokens",
    "history",
    "budget",
    "stash",
    "facts",
    "collecting",
    "summaries",
    "plugins",
    "session",
    "plugin",
]


def imported_modules(path: Path) -> Iterator[str]:
    """Yields the modules that a file imports at run time, without those for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.If):
            continue
        for each in ast.walk(node):
            if isinstance(each, ast.ImportFrom) and each.module:
                yield each.module
            elif isinstance(each, ast.Import):
                yield from (alias.name for alias in each.names)


def layer_of(path: Path) -> str:
    return path.relative_to(CORE).parts[0].removesuffix(".py")


CORE_MODULES = sorted(path for path in CORE.rglob("*.py") if path != CORE / "__init__.py")


def test_every_module_of_core_belongs_to_a_layer() -> None:
    assert {layer_of(path) for path in CORE_MODULES} == set(LAYERS)


def test_the_tree_in_the_architecture_has_every_module() -> None:
    text = (PACKAGES.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tree = text.partition("```text\njaato_gc/\n")[2].partition("```")[0]
    listed: set[str] = set()
    folder = ""
    for line in tree.splitlines():
        first, *rest = line.split()
        if first.endswith("/"):
            folder = first
        else:
            rest = [first, *rest]
        listed.update(folder + name for name in rest)

    modules = {path.relative_to(CORE).with_suffix("").as_posix() for path in CORE_MODULES}
    public = {name for name in modules if not name.endswith("__init__")} - {"_version", "plugin"}
    assert listed == public


@pytest.mark.parametrize("path", CORE_MODULES, ids=lambda path: str(path.relative_to(CORE)))
def test_a_module_of_core_imports_only_its_own_and_earlier_layers(path: Path) -> None:
    own = LAYERS.index(layer_of(path))
    imported = [name.split(".") for name in imported_modules(path)]
    layers = [name[1] for name in imported if name[0] == "jaato_gc" and len(name) > 1]

    assert [layer for layer in layers if LAYERS.index(layer) > own] == []


@pytest.mark.parametrize("path", CORE_MODULES, ids=lambda path: str(path.relative_to(CORE)))
def test_a_module_of_core_has_one_idea(path: Path) -> None:
    """A long module usually has two. The exception has what hosts call, with documentation."""
    lines = len(path.read_text(encoding="utf-8").splitlines())

    assert lines <= {"session.py": 750}.get(path.name, 450)


@pytest.mark.parametrize("section", ["The spine", "The commit point", "Where to change what"])
def test_the_architecture_names_files_that_exist(section: str) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    files = set(re.findall(r"[\w./-]+\.(?:py|j2|yml|md)\b", text))
    folders = [ROOT, CORE, PACKAGES / "jaato-gc", *PACKAGES.glob("*/src/*")]

    assert files
    missing = [name for name in files if not any((each / name).is_file() for each in folders)]
    assert missing == []


def test_the_lab_does_not_depend_on_its_command() -> None:
    """What others import from the lab works without the modules of the command line."""
    modules = [path for path in LAB.rglob("*.py") if LAB / "_cli" not in path.parents]
    command = "jaato_gc_lab._cli"
    upward = {
        path.name: names
        for path in modules
        if (names := [name for name in imported_modules(path) if name.startswith(command)])
    }

    assert upward == {}


@pytest.mark.parametrize("name", sorted(plugins()))
def test_a_plugin_requires_no_other_plugin(name: str) -> None:
    assert required_siblings(name) & plugins() == set()


@pytest.mark.parametrize("name", [name for name in PYPROJECTS if name != "jaato-gc"])
def test_other_packages_use_public_names_of_packages_that_they_require(name: str) -> None:
    own = name.replace("-", "_")
    required = {each.replace("-", "_") for each in required_siblings(name)}
    allowed = {*required, "jaato_gc", "jaato_gc.plugin"}
    for path in (PACKAGES / name).glob("src/**/*.py"):
        ours = [name for name in imported_modules(path) if name.startswith("jaato_gc")]
        foreign = [name for name in ours if name.partition(".")[0] != own]
        assert set(foreign) <= allowed, path
