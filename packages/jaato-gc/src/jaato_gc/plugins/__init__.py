"""Plugins: strategies and what else a distribution can offer, found and configured."""

from jaato_gc.plugins.base import GCStrategy
from jaato_gc.plugins.discovery import InstalledPlugin, PluginStatus
from jaato_gc.plugins.files import (
    GCProfileConfig,
    load_gc_from_file,
    load_gc_from_profile,
    load_gc_inline,
)
from jaato_gc.plugins.hookspecs import hookimpl
from jaato_gc.plugins.json_files import DEFAULT_PROFILES, find_gc_file, find_profile
from jaato_gc.plugins.protocol import FormatInfo, GCPlugin, StrategyInfo
from jaato_gc.plugins.registry import PluginRegistry, discover_gc_plugins, load_gc_plugin

__all__ = [
    "DEFAULT_PROFILES",
    "FormatInfo",
    "GCPlugin",
    "GCProfileConfig",
    "GCStrategy",
    "InstalledPlugin",
    "PluginRegistry",
    "PluginStatus",
    "StrategyInfo",
    "discover_gc_plugins",
    "find_gc_file",
    "find_profile",
    "hookimpl",
    "load_gc_from_file",
    "load_gc_from_profile",
    "load_gc_inline",
    "load_gc_plugin",
]
