"""Any subset of the plugins works, lists its strategies, and names the package of a missing one."""

import json
from itertools import combinations
from pathlib import Path

import pytest

from releasing.releases import CORE, KIT, checkout, distributions, plugins, strategies
from releasing.sandbox import Sandbox, requirements

PREFIX = f"{CORE}-"
STRATEGIES, PLUGINS = (
    tuple(name.removeprefix(PREFIX) for name in names) for names in (strategies(), plugins())
)
SUBSETS = [(), *combinations(PLUGINS, 1), *combinations(PLUGINS, 2), PLUGINS]

REPORT = """
import importlib, json, sys
import jaato_gc
from pathlib import Path

def error_of(load, *arguments):
    try:
        load(*arguments)
    except jaato_gc.GCError as error:
        return str(error)

strategies, plugins = {strategies}, {plugins}
for name in plugins:
    importlib.import_module("jaato_gc_" + name)
missing = [name for name in strategies if name not in plugins]
errors = {{}}
for name in missing:
    Path("gc.json").write_text(json.dumps({{"type": name}}), encoding="utf-8")
    errors[name] = error_of(jaato_gc.load_gc_from_file, "gc.json")
chosen = {{}}
for name in set(strategies).intersection(plugins):
    Path("gc.json").write_text(json.dumps({{"type": name}}), encoding="utf-8")
    chosen[name] = jaato_gc.load_gc_from_file("gc.json")[0].name
registry = jaato_gc.PluginRegistry()
print(json.dumps({{
    "plugins": sorted(plugin.name for plugin in registry.plugins() if plugin.status == "ok"),
    "strategies": list(registry.strategies()),
    "errors": errors,
    "chosen": chosen,
}}))
"""


def distribution(plugin: str) -> str:
    return PREFIX + plugin


def assert_has_exactly(sandbox: Sandbox, plugins: tuple[str, ...]) -> None:
    report = json.loads(sandbox.python(REPORT.format(strategies=STRATEGIES, plugins=plugins)))
    ours = sorted(set(STRATEGIES).intersection(plugins))

    assert report["plugins"] == sorted(plugins)
    assert report["strategies"] == [f"gc_{name}" for name in ours]
    assert report["chosen"] == {name: f"gc_{name}" for name in ours}
    for name in set(STRATEGIES).difference(plugins):
        message = f"strategy {name!r} is not installed: pip install {distribution(name)}"
        assert message in report["errors"][name]


@pytest.mark.parametrize("plugins", SUBSETS, ids=lambda plugins: "+".join(plugins) or "none")
def test_subset(sandbox: Sandbox, plugins: tuple[str, ...]) -> None:
    sandbox.install(*requirements(*(checkout(distribution(name)) for name in plugins)), core())

    assert_has_exactly(sandbox, plugins)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_conforms_without_other_plugins(sandbox: Sandbox, strategy: str) -> None:
    alone = checkout(distribution(strategy))
    sandbox.install(*requirements(alone, checkout(KIT)), core(), "pytest", "hypothesis")

    sandbox.conforms(alone.source / "tests" / "test_conformance.py")


@pytest.mark.parametrize("extra", [*PLUGINS, "all"])
def test_an_extra_of_core_installs_the_plugin(sandbox: Sandbox, tmp_path: Path, extra: str) -> None:
    wheels = tmp_path / "wheels.txt"  # the siblings' wheels, used only if required
    siblings = [checkout(name) for name in distributions() if name != CORE]
    wheels.write_text("\n".join(requirements(*siblings)))

    sandbox.install(f"--constraint={wheels}", core(f"[{extra}]"))

    assert_has_exactly(sandbox, PLUGINS if extra == "all" else (extra,))


def core(extras: str = "") -> str:
    return checkout(CORE).requirement.replace(" @", f"{extras} @", 1)
