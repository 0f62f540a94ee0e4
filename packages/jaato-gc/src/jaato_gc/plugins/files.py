"""Strategy and configuration from a file, a sub-agent's profile, or a dict in code."""

import json
import logging
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, Field, PrivateAttr

from jaato_gc.config import GCConfig
from jaato_gc.errors import GCConfigError, GCError
from jaato_gc.plugins.json_files import (
    DEFAULT_PROFILES,
    find_gc_file,
    find_profile,
    is_own_file,
    read_json,
)
from jaato_gc.plugins.protocol import GCPlugin
from jaato_gc.plugins.registry import PluginRegistry
from jaato_gc.plugins.summarizers import Summarizers, named_summarizer
from jaato_gc.summaries import SummarySettings

logger = logging.getLogger("jaato_gc")

MEDIA_KEYS = ("media_bytes_threshold", "evict_consumed_media", "media_evict_mime_prefixes")
"""Settings of JAATO without a counterpart: media is counted, and removed with its message."""
SHARED_OPTIONS = ("notify_on_gc", "summarize_middle_turns")
"""Options that every profile may have, for the strategies that know them."""


class GCProfileConfig(GCConfig):
    """A strategy and its settings in one object, as in a file, a profile or inline code.

    Keys of `GCConfig` configure the session; all others are options of the strategy. Keys that
    configure only other strategies, or media in JAATO, are ignored with a warning.
    """

    model_config = ConfigDict(extra="allow")

    type: str = "truncate"
    """The strategy, with or without ``gc_``."""
    notify_on_gc: bool = True
    """Tell the model when something was removed."""
    summarize_middle_turns: int | None = None
    """The number of turns that gc_hybrid summarizes instead of truncating."""
    plugins: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of plugins that are not strategies, by the name of the plugin."""

    _from_json: bool = PrivateAttr(default=False)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, from_json: bool = False) -> Self:
        """Returns the profile of a ``gc`` block, in either shape.

        Args:
            document: The block.
            from_json: It was read from JSON, which has no tuples, sets, enums, paths or durations.

        Raises:
            GCConfigError: A value is invalid, or given twice.
        """
        settings = _flatten(document)
        if not from_json:
            return cls.model_validate(settings)
        profile = cls.model_validate_json(json.dumps(settings))
        profile._from_json = True
        return profile

    def to_gc_config(self) -> GCConfig:
        """Returns the settings of the session."""
        return GCConfig(**self.given())

    def to_plugin_config(self) -> dict[str, Any]:
        """Returns the options of the strategy."""
        options = {
            key: value for key, value in (self.model_extra or {}).items() if key not in MEDIA_KEYS
        }
        options["notify_on_gc"] = self.notify_on_gc
        if self.summarize_middle_turns is not None:
            options["summarize_middle_turns"] = self.summarize_middle_turns
        return {**options, **self.plugin_config}

    def load(
        self,
        registry: PluginRegistry | None = None,
        where: str = "gc",
        *,
        summarizers: Summarizers | None = None,
        allow_code: bool = False,
    ) -> tuple[GCPlugin, GCConfig]:
        """Returns the strategy, initialized, and the configuration of the session.

        Other plugins of the registry get their options.

        Args:
            registry: The registry of strategies.
            where: The origin of the profile, for the warning about keys without effect.
            summarizers: Functions that the key ``summarizer`` can name.
            allow_code: It can also be ``"module:function"``.

        Raises:
            GCConfigError: An option is unknown or has an invalid value.
            GCPluginError: The strategy can't be used.
        """
        registry = registry or PluginRegistry()
        config, options = self.to_gc_config(), self.to_plugin_config()
        info = registry.info(self.type)
        model, foreign = info.config_model, []
        if model is not None:  # without one, a strategy may have any option
            foreign = [
                key
                for key in SHARED_OPTIONS
                if key in options and key not in {*self.plugin_config, *model.model_fields}
            ]
            named = options.get("summarizer")
            if isinstance(named, str) and issubclass(model, SummarySettings):
                options["summarizer"] = named_summarizer(
                    named, registry, summarizers or {}, allow_code=allow_code
                )
        for key in foreign:
            del options[key]
        plugin = registry.create(self.type, options, from_json=self._from_json)
        config.merged(getattr(plugin, "overrides", {}))  # raise now, while the file is known
        registry.configure(self.plugins, from_json=self._from_json)
        given = {*(self.model_extra or ()), *self.model_fields_set}
        if ignored := [key for key in (*MEDIA_KEYS, *foreign) if key in given]:
            text = "%s: these keys have no effect with %s and can be removed: %s"
            logger.warning(text, where, info.name, ", ".join(ignored))
        return plugin, config


def load_gc_from_file(
    file_path: str | Path | None = None,
    agent_name: str | None = None,
    workspace_root: str | Path | None = None,
    config_root: str | Path | None = None,
    *,
    registry: PluginRegistry | None = None,
    summarizers: Summarizers | None = None,
    allow_code: bool = False,
) -> tuple[GCPlugin, GCConfig] | None:
    """Returns strategy and configuration from a JSON file; ``None`` if it does not exist.

    Without ``file_path``, the first of these files is read: ``gc.json`` in ``config_root`` or else
    in ``.jaato`` of the project, then ``~/.jaato/gc.json``. Both shapes are read:
    ``{"type": …, <settings>}`` and ``{"plugin": …, "config": {<settings>}}``.

    Args:
        file_path: The file. A relative path begins at ``workspace_root``.
        agent_name: The agent, for errors and log records.
        workspace_root: The folder of the project; by default the current one.
        config_root: The folder of the configuration; by default ``.jaato`` of the project.
        registry: The registry of strategies.
        summarizers: Functions that the key ``summarizer`` can name, besides those that plugins
            registered.
        allow_code: It can also be ``"module:function"``, as in files in ``~/.jaato``. The module is
            imported and the function gets content, so only you should be able to write the file.

    Raises:
        GCConfigError: The file is invalid.
        GCPluginError: The strategy can't be used.
    """
    path = find_gc_file(file_path, workspace_root, config_root)
    if path is None:
        return None
    agent = f"agent {agent_name!r}: " if agent_name else ""
    try:
        document = read_json(path)
    except GCConfigError as error:
        raise GCConfigError(f"{agent}{error}") from error.__cause__
    code = allow_code or is_own_file(path)
    load = _Loader(registry, summarizers, allow_code=code, from_json=True)
    plugin, config = load(f"{agent}{path}", document)
    logger.info("%s%s configures %s", agent, path, plugin.name)
    return plugin, config


def load_gc_from_profile(
    profile: str | Path,
    directory: str | Path = DEFAULT_PROFILES,
    registry: PluginRegistry | None = None,
    *,
    summarizers: Summarizers | None = None,
    allow_code: bool = False,
) -> tuple[GCPlugin, GCConfig] | None:
    """Returns strategy and configuration from a profile; ``None`` if it has no ``gc`` block.

    Args:
        profile: The profile's name (its file is ``<name>.json`` or says so in its ``name``), or the
            path of its file.
        directory: The folder of the profiles.
        registry: The registry of strategies.
        summarizers: As for `load_gc_from_file`.
        allow_code: As for `load_gc_from_file`.

    Raises:
        GCConfigError: The profile does not exist or is invalid.
        GCPluginError: The strategy can't be used.
    """
    path = find_profile(profile, directory)
    code = allow_code or is_own_file(path)
    load = _Loader(registry, summarizers, allow_code=code, from_json=True)
    return load.block(str(path), read_json(path))


def load_gc_inline(
    inline_config: Mapping[str, Any],
    registry: PluginRegistry | None = None,
    *,
    summarizers: Summarizers | None = None,
    allow_code: bool = False,
) -> tuple[GCPlugin, GCConfig] | None:
    """Returns strategy and configuration from ``{"gc": {…}}``; ``None`` without a ``gc`` block.

    Args:
        inline_config: The configuration. Its summarizer can be a function.
        registry: The registry of strategies.
        summarizers: As for `load_gc_from_file`.
        allow_code: As for `load_gc_from_file`.

    Raises:
        GCConfigError: The configuration is invalid.
        GCPluginError: The strategy can't be used.
    """
    load = _Loader(registry, summarizers, allow_code=allow_code, from_json=False)
    return load.block("inline config", inline_config)


@dataclass(frozen=True, slots=True)
class _Loader:
    """Loads the documents of one kind.

    Args:
        registry: The registry of strategies.
        summarizers: Functions that a document can name.
        allow_code: Whether it can name functions of modules.
        from_json: Whether it was read from JSON.
    """

    registry: PluginRegistry | None
    summarizers: Summarizers | None
    _: KW_ONLY
    allow_code: bool
    from_json: bool

    def __call__(self, where: str, document: Mapping[str, Any]) -> tuple[GCPlugin, GCConfig]:
        try:
            return GCProfileConfig.from_dict(document, from_json=self.from_json).load(
                self.registry, where, summarizers=self.summarizers, allow_code=self.allow_code
            )
        except GCError as error:
            raise type(error)(f"{where}: {error}") from error.__cause__

    def block(self, where: str, document: Mapping[str, Any]) -> tuple[GCPlugin, GCConfig] | None:
        """Loads the ``gc`` block of a document; ``None`` if there is none."""
        if not isinstance(document, Mapping):
            raise GCConfigError(f"{where}: {document!r:.80} must be an object with a 'gc' block")
        block = document.get("gc")
        if block is None:
            return None
        if not isinstance(block, Mapping):
            raise GCConfigError(f"{where}: gc={block!r:.80}: must be an object of settings")
        return self(f"{where}: gc", block)


def _flatten(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns either shape of document as ``{"type": …, <settings>}``."""
    if not isinstance(document, Mapping):
        raise GCConfigError(f"{document!r:.80}: must be an object of settings")
    settings = dict(document)
    settings.pop("$schema", None)  # for editors: see `jaato-gc config schema`
    nested = settings.pop("config", {})
    if not isinstance(nested, Mapping):
        raise GCConfigError(f"config={nested!r:.80}: must be an object of settings")
    named = settings.pop("plugin", None)
    given = settings.get("type")
    if named is not None:
        if not isinstance(named, str):
            raise GCConfigError(f"plugin={named!r:.80}: must be the name of a strategy")
        if given is not None and str(given).removeprefix("gc_") != named.removeprefix("gc_"):
            raise GCConfigError(
                f"type={given!r} and plugin={named!r} name different strategies: keep one of them"
            )
        settings["type"] = named
    for key, value in nested.items():
        if key in settings:
            raise GCConfigError(f"{key!r} is given twice, inside and outside config: keep one")
        settings[key] = value
    return settings
