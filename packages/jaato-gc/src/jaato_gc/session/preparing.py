"""Preparing a strategy for a session: its options, its summarizer, the effective configuration."""

from typing import Any

from jaato_gc.config import GCConfig
from jaato_gc.errors import GCConfigError, GCPluginError
from jaato_gc.plugins import GCPlugin, GCStrategy
from jaato_gc.summaries import NO_SUMMARIZER, SummarizerFunction, SummarySettings


def prepare(plugin: GCPlugin, config: GCConfig, summarizer: SummarizerFunction | None) -> GCConfig:
    """Gives a strategy its options and its summarizer. Returns the effective configuration.

    Args:
        plugin: The strategy.
        config: The configuration of the session, with options of the strategy.
        summarizer: The summarizer of the session.

    Raises:
        GCConfigError: An option is unknown, settings contradict each other, or the strategy needs
            a summarizer.
        GCPluginError: A subclass of `GCStrategy` does not call its constructor.
    """
    options = config.plugin_config
    if not isinstance(plugin, GCStrategy):
        return config.with_options(
            {key: options[key] for key in options if key in GCConfig.model_fields}
        )
    if not hasattr(plugin, "options"):
        name = type(plugin).__name__
        raise GCPluginError(f"{name} is not initialized: call super().__init__() in it")
    if not options.keys() <= plugin.options.keys():
        plugin.initialize({**options, **plugin.options})
    _lend(summarizer, plugin)
    return config.with_options(plugin.overrides)


def _lend(summarizer: SummarizerFunction | None, plugin: GCStrategy[Any]) -> None:
    """Lets a strategy without a summarizer of its own use the one of the session.

    Its options stay as they were given: another session may have another summarizer.
    """
    settings = plugin.settings
    if isinstance(settings, SummarySettings) and plugin.options.get("summarizer") is None:
        settings = settings.served_by(summarizer)
        if plugin.needs_summarizer and not settings.can_summarize:
            raise GCConfigError(f"{plugin.name} needs a summarizer: {NO_SUMMARIZER}")
        plugin.settings = settings
