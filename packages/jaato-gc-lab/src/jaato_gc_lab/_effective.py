"""Computes the effective configuration of a session and the origin of each value."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from jaato_gc import (
    GCConfig,
    GCConfigError,
    GCPlugin,
    GCProfileConfig,
    PluginRegistry,
    load_gc_from_file,
    load_gc_from_profile,
)
from jaato_gc.plugin import (
    ENVIRONMENT_VARIABLES,
    SummarizerFunction,
    find_gc_file,
    find_profile,
    is_own_file,
    read_json,
)

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a configuration.

    Args:
        key: Name of the setting.
        value: Effective value.
        origin: Origin of the value, in words.
    """

    key: str
    value: Any
    origin: str


@dataclass(slots=True)
class EffectiveConfig:
    """All values of a configuration.

    Args:
        source: The file or profile; ``None`` if neither exists.
        strategy: Name of the configured strategy; ``None`` if there is none.
        settings: Values of `GCConfig`.
        options: Options of the strategy.
    """

    source: str | None
    strategy: str | None
    settings: list[Setting] = field(default_factory=list)
    options: list[Setting] = field(default_factory=list)


def effective_config(
    path: str | Path | None = None,
    profile: str | None = None,
    *,
    registry: PluginRegistry | None = None,
) -> EffectiveConfig:
    """Returns the effective configuration of a file or profile, with environment and defaults.

    Args:
        path: A ``gc.json`` file, or a profile with a ``gc`` block; by default the file that
            `load_gc_from_file` finds.
        profile: Name of a profile, as an alternative to ``path``.
        registry: Registry of strategies; by default all installed ones.

    Raises:
        GCConfigError: The configuration is invalid.
        GCPluginError: The configured strategy can't be used.
    """
    file = find_profile(profile) if profile else find_gc_file(path)
    if file is None:
        return EffectiveConfig(None, None, _settings(GCConfig(), {}))
    source = profile or str(file)
    kind = "profile" if profile or _is_profile(file) else "file"
    load = load_gc_from_profile if kind == "profile" else load_gc_from_file
    loaded = load(file, registry=registry, summarizers=_named_code(file))
    if loaded is None:
        return EffectiveConfig(source, None, _settings(GCConfig(), {}))
    strategy, config = loaded
    shared = {k: v for k, v in config.plugin_config.items() if k in GCConfig.model_fields}
    overrides = getattr(strategy, "overrides", None)
    return EffectiveConfig(
        source,
        strategy.name,
        _settings(config, {**shared, **(overrides or {})}, kind),
        _options(strategy, kind, _given_keys(file, kind)),
    )


@dataclass(frozen=True, slots=True)
class _NamedCode:
    """A function that a file names, which is not imported because nothing calls it here."""

    name: str

    def __call__(self, _text: str) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


def _named_code(file: Path) -> dict[str, SummarizerFunction]:
    """Returns the code that a file names, if it is a file that can."""
    if not is_own_file(file):
        return {}
    document = read_json(file)
    blocks = [document, document.get("gc"), document.get("config")]
    blocks += [block.get("plugin_config") for block in blocks if isinstance(block, dict)]
    named = [block.get("summarizer") for block in blocks if isinstance(block, dict)]
    return {name: _NamedCode(name) for name in named if isinstance(name, str) and ":" in name}


def _is_profile(path: Path) -> bool:
    try:
        return "gc" in read_json(path)
    except GCConfigError:
        return False  # the loader reports the error


def _given_keys(path: Path, kind: str) -> set[str]:
    """Returns the keys in a valid file, without the defaults of files."""
    document = read_json(path)
    block = document["gc"] if kind == "profile" else document
    profile = GCProfileConfig.from_dict(block, from_json=True)
    return {*profile.model_fields_set, *(profile.model_extra or ()), *profile.plugin_config}


def _settings(config: GCConfig, options: dict[str, Any], kind: str = "file") -> list[Setting]:
    merged = config.merged(options)
    found = []
    for key in GCConfig.model_fields:
        if key == "plugin_config":
            continue
        found.append(Setting(key, getattr(merged, key), _origin(key, config, options, kind)))
    return _with_derived_target(found)


def _origin(key: str, config: GCConfig, options: dict[str, Any], kind: str) -> str:
    if key in options:
        return f"{kind}, as a strategy option"
    if key in config.model_fields_set:
        return kind
    variable = ENVIRONMENT_VARIABLES.get(key)
    if variable and os.environ.get(variable, "").strip():
        return f"environment, {variable}"
    return DEFAULT


def _with_derived_target(settings: list[Setting]) -> list[Setting]:
    """Marks a default target that was derived from the threshold."""
    usual = GCConfig.model_fields["target_percent"].get_default(call_default_factory=True)
    return [
        Setting(each.key, each.value, "default, 0.75 of the threshold")
        if each.key == "target_percent" and each.origin == DEFAULT and each.value != usual
        else each
        for each in settings
    ]


def _options(strategy: GCPlugin, kind: str, given: set[str]) -> list[Setting]:
    settings = getattr(strategy, "settings", None)
    if not isinstance(settings, BaseModel):
        return []
    return [
        Setting(key, getattr(settings, key), kind if key in given else DEFAULT)
        for key in type(settings).model_fields
    ]
