"""The distributions of this repository and the sessions of its noxfile, read from their files."""

import ast
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from jaato_gc import PluginRegistry
from jaato_gc.plugin import StrategyInfo

ROOT = Path(__file__).parents[1]
PYPROJECTS: dict[str, dict[str, Any]] = {
    path.parent.name: tomllib.loads(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
}
"""The `pyproject.toml` of every distribution, by the name of its folder."""


def siblings(requirements: Iterable[str]) -> set[str]:
    """Returns the distributions of this repository among requirements."""
    return {Requirement(each).name for each in requirements} & PYPROJECTS.keys()


def required_siblings(name: str) -> set[str]:
    """Returns the distributions of this repository that one requires, also by its extras."""
    project = PYPROJECTS[name]["project"]
    extras = project.get("optional-dependencies", {}).values()
    return siblings([*project["dependencies"], *(each for needs in extras for each in needs)])


def plugins() -> set[str]:
    """Returns the distributions that core discovers as plugins."""
    return {
        name
        for name, pyproject in PYPROJECTS.items()
        if "jaato_gc" in pyproject["project"].get("entry-points", {})
    }


def own_strategies() -> dict[str, StrategyInfo]:
    """Returns the strategies of this repository, whatever else is installed."""
    installed = [
        info
        for plugin in PluginRegistry().plugins()
        if plugin.distribution in PYPROJECTS
        for info in plugin.strategies
    ]
    return {info.name: info for info in sorted(installed, key=lambda info: info.name)}


def has_option(strategy: str, option: str) -> bool:
    """Returns whether a strategy of this repository has an option with this name."""
    model = own_strategies()[strategy].config_model
    return model is not None and option in model.model_fields


def nox_sessions() -> dict[str, dict[str, Any]]:
    """Returns the sessions of the noxfile, each with the constant arguments of its decorator."""
    found: dict[str, dict[str, Any]] = {}
    for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                match decorator:
                    case ast.Attribute(attr="session"):
                        found[node.name] = {}
                    case ast.Call(func=ast.Attribute(attr="session"), keywords=keywords):
                        found[node.name] = {
                            str(each.arg): ast.literal_eval(each.value)
                            for each in keywords
                            if each.arg in ("default", "requires")
                        }
    return found
