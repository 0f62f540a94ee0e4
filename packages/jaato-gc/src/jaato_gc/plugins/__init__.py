"""Plugins: strategies and what else a distribution can offer, found and configured."""

from jaato_gc.plugins.base import GCStrategy as GCStrategy
from jaato_gc.plugins.discovery import InstalledPlugin as InstalledPlugin
from jaato_gc.plugins.discovery import PluginStatus as PluginStatus
from jaato_gc.plugins.files import MEDIA_KEYS as MEDIA_KEYS
from jaato_gc.plugins.files import GCProfileConfig as GCProfileConfig
from jaato_gc.plugins.files import load_gc_from_file as load_gc_from_file
from jaato_gc.plugins.files import load_gc_from_profile as load_gc_from_profile
from jaato_gc.plugins.files import load_gc_inline as load_gc_inline
from jaato_gc.plugins.hookspecs import hookimpl as hookimpl
from jaato_gc.plugins.json_files import DEFAULT_PROFILES as DEFAULT_PROFILES
from jaato_gc.plugins.json_files import find_gc_file as find_gc_file
from jaato_gc.plugins.json_files import find_profile as find_profile
from jaato_gc.plugins.json_files import is_own_file as is_own_file
from jaato_gc.plugins.json_files import read_json as read_json
from jaato_gc.plugins.protocol import FormatInfo as FormatInfo
from jaato_gc.plugins.protocol import GCPlugin as GCPlugin
from jaato_gc.plugins.protocol import StrategyInfo as StrategyInfo
from jaato_gc.plugins.protocol import SummarizerInfo as SummarizerInfo
from jaato_gc.plugins.registry import PluginRegistry as PluginRegistry
from jaato_gc.plugins.registry import discover_gc_plugins as discover_gc_plugins
from jaato_gc.plugins.registry import load_gc_plugin as load_gc_plugin
from jaato_gc.plugins.summarizers import Summarizers as Summarizers
from jaato_gc.plugins.summarizers import named_summarizer as named_summarizer
