"""Strategy and configuration from a file, a sub-agent's profile, or a dict in code."""

import importlib
import json
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from jaato_gc.config import GCConfig
from jaato_gc.errors import GCConfigError, GCError
from jaato_gc.plugins.protocol import GCPlugin, StrategyInfo
from jaato_gc.plugins.registry import PluginRegistry
from jaato_gc.summaries import SummarizerFunction, SummarySettings

DEFAULT_FILE = ".jaato/gc.json"
DEFAULT_PROFILES = ".jaato/profiles"
MAX_FILE_BYTES = 1 << 20
"""A configuration has a few hundred bytes; a larger file is something else."""


class GCProfileConfig(GCConfig):
    """A strategy and its settings in one object, as in a file, a profile or inline code.

    Keys of `GCConfig` configure the session; all others are options of the strategy.
    """

    model_config = ConfigDict(extra="allow")

    type: str = "truncate"
    """The strategy, with or without ``gc_``."""
    notify_on_gc: bool = False
    """Tell the model when something was removed."""
    summarize_middle_turns: int | None = None
    """The number of turns that gc_hybrid summarizes instead of truncating."""

    def to_gc_config(self) -> GCConfig:
        """Returns the settings of the session."""
        return GCConfig(**self.given())

    def to_plugin_config(self) -> dict[str, Any]:
        """Returns the options of the strategy."""
        named = {"notify_on_gc", "summarize_middle_turns"}
        options = self.model_dump(include=named, exclude_unset=True, exclude_none=True)
        return {**(self.model_extra or {}), **options, **self.plugin_config}

    def load(self, registry: PluginRegistry | None = None) -> tuple[GCPlugin, GCConfig]:
        """Returns the strategy, initialized, and the configuration of the session."""
        config, options = self.to_gc_config(), self.to_plugin_config()
        registry = registry or PluginRegistry()
        named = options.get("summarizer")
        if isinstance(named, str) and _summarizes(registry.info(self.type)):
            options["summarizer"] = _function_named(named)
        plugin = registry.create(self.type, options)
        config.merged(getattr(plugin, "overrides", {}))  # raise now, while the file is known
        return plugin, config


def load_gc_from_file(
    path: str | Path = DEFAULT_FILE, registry: PluginRegistry | None = None
) -> tuple[GCPlugin, GCConfig] | None:
    """Returns strategy and configuration from a JSON file; ``None`` if the file does not exist.

    Both shapes are read: ``{"type": …, <settings>}`` and ``{"plugin": …, "config": {<settings>}}``.

    Raises:
        GCConfigError: The file is invalid.
        GCPluginError: The strategy can't be used.
    """
    path = Path(path)
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        pass  # it may exist but be unreadable: reading it says why
    return _load(str(path), _read_json(path), registry)


def load_gc_from_profile(
    profile: str | Path,
    directory: str | Path = DEFAULT_PROFILES,
    registry: PluginRegistry | None = None,
) -> tuple[GCPlugin, GCConfig] | None:
    """Returns strategy and configuration from a profile; ``None`` if it has no ``gc`` block.

    Args:
        profile: The profile's name (its file is ``<name>.json`` or says so in its ``name``), or the
            path of its file.
        directory: The folder of the profiles.
        registry: The registry of strategies.

    Raises:
        GCConfigError: The profile does not exist or is invalid.
        GCPluginError: The strategy can't be used.
    """
    path = _find_profile(str(profile), Path(directory))
    return _load_block(str(path), _read_json(path), registry)


def load_gc_inline(
    inline_config: Mapping[str, Any], registry: PluginRegistry | None = None
) -> tuple[GCPlugin, GCConfig] | None:
    """Returns strategy and configuration from ``{"gc": {…}}``; ``None`` without a ``gc`` block.

    Raises:
        GCConfigError: The configuration is invalid.
        GCPluginError: The strategy can't be used.
    """
    return _load_block("inline config", inline_config, registry)


def _load_block(
    where: str, document: Mapping[str, Any], registry: PluginRegistry | None
) -> tuple[GCPlugin, GCConfig] | None:
    if not isinstance(document, Mapping):
        raise GCConfigError(f"{where}: {document!r:.80} must be an object with a 'gc' block")
    block = document.get("gc")
    if block is None:
        return None
    if not isinstance(block, Mapping):
        raise GCConfigError(f"{where}: gc={block!r:.80}: must be an object of settings")
    return _load(f"{where}: gc", block, registry)


def _load(
    where: str, document: Mapping[str, Any], registry: PluginRegistry | None
) -> tuple[GCPlugin, GCConfig]:
    try:
        return GCProfileConfig.model_validate(_flatten(document)).load(registry)
    except GCError as error:
        raise type(error)(f"{where}: {error}") from error.__cause__


def _summarizes(info: StrategyInfo) -> bool:
    """Returns whether the option ``summarizer`` of a strategy is a function."""
    return info.config_model is not None and issubclass(info.config_model, SummarySettings)


def _function_named(name: str) -> SummarizerFunction:
    """Returns the function that a file names as ``"module:function"``."""
    where = f"summarizer={name!r:.80}"
    module, _, function = name.partition(":")
    if not all(part.isidentifier() for part in f"{module}.{function}".split(".")):
        raise GCConfigError(f"{where}: expected 'module:function'")
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # an import may raise anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            raise GCConfigError(f"{where}: there is no module {missing!r}") from None
        cause = f"{type(error).__name__}: {error}"
        raise GCConfigError(f"{where}: module {module!r} can't be imported: {cause}") from error
    try:
        found = attrgetter(function)(imported)
    except AttributeError:
        raise GCConfigError(f"{where}: module {module!r} has no {function!r}") from None
    if not callable(found):
        raise GCConfigError(f"{where}: expected a function, found a {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _flatten(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns either shape of document as ``{"type": …, <settings>}``."""
    settings = dict(document)
    nested = settings.pop("config", {})
    if not isinstance(nested, Mapping):
        raise GCConfigError(f"config={nested!r:.80}: must be an object of settings")
    named = settings.pop("plugin", None)
    given = settings.get("type")
    if named is not None:
        if not isinstance(named, str):
            raise GCConfigError(f"plugin={named!r:.80}: must be the name of a strategy")
        if given is not None and _short(given) != _short(named):
            raise GCConfigError(
                f"type={given!r} and plugin={named!r} name different strategies: keep one of them"
            )
        settings["type"] = named
    for key, value in nested.items():
        if key in settings:
            raise GCConfigError(f"{key!r} is given twice, inside and outside config: keep one")
        settings[key] = value
    return settings


def _short(name: object) -> str:
    return str(name).removeprefix("gc_")


def _find_profile(profile: str, directory: Path) -> Path:
    if profile.endswith(".json") and Path(profile).exists():
        return Path(profile)
    path = directory / f"{profile}.json"
    if path.exists():
        return path
    profiles = sorted(directory.glob("*.json")) if directory.is_dir() else []
    for candidate in profiles:
        if _read_json(candidate).get("name") == profile:
            return candidate
    names = ", ".join(candidate.stem for candidate in profiles) or "none"
    raise GCConfigError(f"profile {profile!r} does not exist in {directory}: it has {names}")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise GCConfigError(f"{path} is not a regular file: name a JSON file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise GCConfigError(
                f"{path} has {size} bytes, far more than a configuration: is it another file? "
                f"At most {MAX_FILE_BYTES} are read"
            )
        document = json.loads(
            path.read_text(encoding="utf-8-sig"), object_pairs_hook=_without_duplicates
        )
    except OSError as error:
        raise GCConfigError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise GCConfigError(f"{path} can't be read as JSON: {error}") from error
    if not isinstance(document, dict):
        raise GCConfigError(f'{path} must hold a JSON object, such as {{"type": "truncate"}}')
    return document


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in pairs:
        if key in document:
            raise ValueError(f"{key!r} is given twice: keep one")
        document[key] = value
    return document
