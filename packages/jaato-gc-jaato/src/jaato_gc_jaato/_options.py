"""Options and settings from jaato-server. Invalid ones are reported, and never raise.

jaato-server runs without GC if a plugin raises while it is initialized.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from jaato_gc import ContextUsage, GCConfig, GCConfigError, PluginRegistry
from jaato_gc.plugin import named_summarizer
from jaato_gc_jaato._host import HostConfig

HOST_KEYS = {"agent_name"}
"""Keys that jaato-server passes to every plugin, for its own traces."""


def valid_options(
    options: Mapping[str, Any], check: Callable[[dict[str, Any]], object]
) -> tuple[dict[str, Any], list[str]]:
    """Returns the options that are valid together, and what is wrong with each of the others.

    Args:
        options: The options.
        check: Raises if some options are invalid.
    """
    every = dict(options)
    try:
        check(every)
    except Exception:  # which one is wrong?
        pass
    else:
        return every, []
    valid: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in every.items():
        try:
            check({**valid, key: value})
        except Exception as error:
            problems.append(str(error))
        else:
            valid[key] = value
    return valid, problems


def read_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns options for a strategy of ours, and what is wrong with the others.

    A summarizer is named as a plugin registered it. The options are from a file of the project,
    which must not name code.
    """
    read = {key: value for key, value in options.items() if key not in HOST_KEYS}
    named = read.get("summarizer")
    if not isinstance(named, str):
        return read, []
    try:
        read["summarizer"] = named_summarizer(named, PluginRegistry())
    except GCConfigError as error:
        del read["summarizer"]
        return read, [str(error)]
    return read, []


def read_config(config: HostConfig) -> tuple[GCConfig, list[str]]:
    """Returns a configuration of jaato-server as one of ours, and what is wrong with it."""
    given = {
        key: getattr(config, key)
        for key in GCConfig.model_fields
        if key != "plugin_config" and hasattr(config, key)
    }
    valid, problems = valid_options(given, _without_environment)
    # As in core: the default target is below any threshold.
    target = min(60.0, 0.75 * valid.get("threshold_percent", 80.0))
    return _without_environment({"target_percent": target, **valid}), problems


def _without_environment(settings: Mapping[str, Any]) -> GCConfig:
    """Returns a configuration that ignores the environment.

    jaato-server has read the same variables. What we refuse would come back from there.
    """
    own = {"threshold_percent": 80.0, "target_percent": 0.0, "pressure_percent": 90.0}
    return GCConfig(**{**own, **settings})


def read_usage(context_usage: Mapping[str, Any]) -> ContextUsage:
    """Returns what jaato-server says about the window. It reports 0 for what it does not know."""
    known = {
        "context_limit": context_usage.get("effective_input_limit")
        or context_usage.get("context_limit"),
        "total_tokens": context_usage.get("total_tokens"),
        "percent_used": context_usage.get("percent_used"),
        "turns": context_usage.get("turns"),
    }
    return cast("ContextUsage", {key: value for key, value in known.items() if value})
