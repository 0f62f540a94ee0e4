"""The template is a working plugin, and its README's commands rename it."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from releasing.releases import CORE, KIT, ROOT, Build, checkout, releases
from releasing.sandbox import Sandbox, build_wheel, requirement, requirements

TEMPLATE = ROOT / "templates" / "plugin"
FACTORY_PLUGIN = Path(__file__).parent / "factory_plugin"

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


def lines_of(path: Path) -> int:
    """Returns the number of lines that are not empty."""
    return sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())


@pytest.fixture
def rendered(tmp_path: Path) -> Path:
    """The template with another name, made with the first commands of its README."""
    shutil.copytree(TEMPLATE, tmp_path / "templates" / "plugin")
    readme = (TEMPLATE / "README.md").read_text(encoding="utf-8")
    first, *_ = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    subprocess.run(["sh", "-euc", first], cwd=tmp_path, check=True)
    return tmp_path / "jaato-gc-mine"


def test_the_template_is_small() -> None:
    assert lines_of(TEMPLATE / "jaato_gc_todos.py") <= 25
    assert lines_of(TEMPLATE / "pyproject.toml") <= 15
    assert lines_of(TEMPLATE / "tests" / "test_conformance.py") <= 6


def test_renaming_the_template_replaces_every_use_of_its_name(rendered: Path) -> None:
    files = {path for path in rendered.rglob("*") if path.is_file()}

    assert {path.name for path in files} == {
        "README.md",
        "jaato_gc_mine.py",
        "pyproject.toml",
        "test_conformance.py",
    }
    for path in files - {rendered / "README.md"}:
        assert not re.search("[tT]odos", path.name + path.read_text(encoding="utf-8"))


def test_the_template_allows_the_oldest_and_the_newest_core() -> None:
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["dependencies"] == ["jaato-gc>=0.1,<1"]


def test_the_template_conforms_and_is_selected(
    host: list[Build], sandbox: Sandbox, rendered: Path
) -> None:
    wheel = build_wheel(rendered, "jaato-gc-mine")
    sandbox.install(*requirements(*host), requirement(wheel))

    config = {"type": "mine", "threshold_percent": 70, "preserve_recent_turns": 2}
    config |= {"plugin_config": {"open_todo": "TODO"}}
    assert sandbox.python(SELECT.format(config=config)) == "gc_mine 70.0 True True"
    sandbox.conforms(rendered / "tests" / "test_conformance.py")


def test_a_factory_whose_collect_takes_no_budget_conforms_and_is_selected(
    host: list[Build], sandbox: Sandbox, tmp_path: Path
) -> None:
    project = shutil.copytree(FACTORY_PLUGIN, tmp_path / "project")
    wheel = build_wheel(project, "my-package")
    sandbox.install(*requirements(*host), requirement(wheel))

    config = {"plugin": "gc_custom", "config": {"threshold_percent": 70}}
    assert sandbox.python(SELECT.format(config=config)).startswith("gc_custom 70.0 True")
    sandbox.conforms(project / "tests" / "test_conformance.py")
