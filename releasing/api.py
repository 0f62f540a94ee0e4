"""Finds breaking changes in a package's public API.

The public API is what the package and its `PUBLIC_MODULES` export. All other modules are internal,
even if their names have no underscore.
"""

from collections.abc import Iterator
from pathlib import Path

import griffe

PUBLIC_MODULES = {"plugin"}
"""Modules of a package that are public besides the package itself."""
HOOKS = "plugins.hookspecs"
"""Core's module of hooks. The module is internal, but plugins implement its hooks."""


def breaks(package: str, old: Path, new: Path) -> list[str]:
    """Return the breaking changes between two source trees of a package, one line each."""
    before, after = _load(package, old), _load(package, new)
    found = [
        _describe(breakage)
        for breakage in griffe.find_breaking_changes(before, after)
        # A changed value does not break callers. Tests cover what it means.
        if breakage.kind is not griffe.BreakageKind.ATTRIBUTE_CHANGED_VALUE
    ]
    removed = _exports(before) - _exports(after)
    found += [f"{name}: no longer exported" for name in removed]
    return sorted({*found, *_hook_breaks(before, after)})


def _load(package: str, source: Path) -> griffe.Module:
    # Read from source: Python can import only one of the two versions.
    loaded = griffe.load(
        package, search_paths=[source], allow_inspection=False, try_relative_path=False
    )
    assert isinstance(loaded, griffe.Module)
    for name, module in loaded.modules.items():
        module.public = name in PUBLIC_MODULES
    return loaded


def _exports(package: griffe.Module) -> set[str]:
    """Return the full names that the public modules export."""
    modules = [package, *(each for each in package.modules.values() if each.public)]
    return {f"{module.path}.{name!s}" for module in modules for name in module.exports or ()}


def _describe(breakage: griffe.Breakage) -> str:
    return f"{breakage.obj.path}: {breakage.kind.value}"


def _hook_breaks(before: griffe.Module, after: griffe.Module) -> Iterator[str]:
    """Yield removed hooks and arguments. New arguments are safe: pluggy passes them by name."""
    for name, hook in _hooks(before).items():
        new = _hooks(after).get(name)
        if new is None:
            yield f"{name}: the hook was removed"
            continue
        kept = {parameter.name for parameter in new.parameters}
        for parameter in hook.parameters:
            if parameter.name not in kept:
                yield f"{name}({parameter.name}): the hook's argument was removed"


def _hooks(package: griffe.Module) -> dict[str, griffe.Function]:
    try:
        module = package[HOOKS]
    except KeyError:  # only core has hooks
        return {}
    return {
        name: member
        for name, member in module.members.items()
        if isinstance(member, griffe.Function) and name.startswith(f"{package.name}_")
    }
