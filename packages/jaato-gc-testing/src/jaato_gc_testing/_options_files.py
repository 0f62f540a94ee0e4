"""Writes the options of a strategy to a configuration file and reads them again."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jaato_gc import GCConfigError, GCPlugin, PluginRegistry, load_gc_from_file
from jaato_gc.plugin import GCStrategy, StrategyInfo, hookimpl


def through_a_file(
    strategy: GCStrategy[Any], factory: Callable[[], GCPlugin]
) -> Iterator[tuple[str, object, object]]:
    """Yields the options of a strategy, each with its value and with the one from a file."""
    given: Any = strategy.settings
    keys = [key for key in type(given).model_fields if not callable(getattr(given, key))]
    registry = PluginRegistry(load_installed=False)
    registry.register(_Offer(StrategyInfo(strategy.name, factory)), "yours")
    with TemporaryDirectory() as folder:
        file = Path(folder, "gc.json")
        options = given.model_dump(mode="json", include=set(keys))
        file.write_text(json.dumps({"type": strategy.name, **options}), encoding="utf-8")
        try:
            loaded = load_gc_from_file(file, registry=registry)
        except GCConfigError as error:
            hint = "a validator has to accept JSON, and its own result"
            raise AssertionError(f"options can't be read from a file: {error}; {hint}") from error
    assert loaded is not None
    read: Any = getattr(loaded[0], "settings", None)
    for key in keys:
        yield key, getattr(given, key), getattr(read, key)


class _Offer:
    """A plugin with one strategy."""

    def __init__(self, info: StrategyInfo) -> None:
        self._info = info

    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [self._info]
