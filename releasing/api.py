"""What changed in a package's public interface that could break whoever uses it."""

from collections.abc import Iterator
from pathlib import Path

import griffe

HOOKS = "_hookspecs"
"""Core's module of hooks. It is private, but plugins implement what is in it."""


def breaks(package: str, old: Path, new: Path) -> list[str]:
    """Say what breaks from one source tree of a package to another, one line each."""
    before, after = _load(package, old), _load(package, new)
    found = [
        _describe(breakage)
        for breakage in griffe.find_breaking_changes(before, after)
        # Values may change: what they mean is for tests to hold.
        if breakage.kind is not griffe.BreakageKind.ATTRIBUTE_CHANGED_VALUE
    ]
    gone = set(map(str, before.exports or ())) - set(map(str, after.exports or ()))
    found += [f"{package}.{name}: no longer exported" for name in gone]
    return sorted({*found, *_hook_breaks(before, after)})


def _load(package: str, source: Path) -> griffe.Module:
    # Never imported: only one of the two could be.
    loaded = griffe.load(
        package, search_paths=[source], allow_inspection=False, try_relative_path=False
    )
    assert isinstance(loaded, griffe.Module)
    return loaded


def _describe(breakage: griffe.Breakage) -> str:
    return f"{breakage.obj.path}: {breakage.kind.value}"


def _hook_breaks(before: griffe.Module, after: griffe.Module) -> Iterator[str]:
    """Hooks and arguments that went. Pluggy passes by name, so new arguments break nobody."""
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
    module = package.members.get(HOOKS)
    if not isinstance(module, griffe.Module):
        return {}
    return {
        name: member
        for name, member in module.members.items()
        if isinstance(member, griffe.Function) and name.startswith(f"{package.name}_")
    }
