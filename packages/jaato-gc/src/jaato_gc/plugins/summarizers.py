"""Finds the summarizer that a configuration names.

A configuration file often belongs to the project that an agent works on. A change of the project
must not choose code that then runs with content, so a file chooses among the functions that
installed plugins and the host offer.
"""

import importlib
from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType

from jaato_gc.errors import GCConfigError
from jaato_gc.plugins.registry import PluginRegistry
from jaato_gc.settings import closest
from jaato_gc.summaries import SummarizerFunction

Summarizers = Mapping[str, SummarizerFunction]
"""Functions by the names that a configuration has for them."""


def named_summarizer(
    name: str,
    registry: PluginRegistry,
    given: Summarizers = MappingProxyType({}),
    *,
    allow_code: bool = False,
) -> SummarizerFunction:
    """Returns the summarizer of a name.

    Args:
        name: The name: one that the host gave, then one that a plugin registered, or
            ``"module:function"``.
        registry: The registry of plugins.
        given: The summarizers of the host.
        allow_code: Import the module that the name has.

    Raises:
        GCConfigError: There is no such summarizer, or the name is code and that is not allowed.
    """
    if name in given:
        return given[name]
    if ":" in name:
        where = f"summarizer={name!r:.80}"
        if allow_code:
            return _imported(name, where)
        raise GCConfigError(
            f"{where} names code, and files of a project can't: register the function in a plugin "
            "(jaato_gc_register_summarizers) and use its name, pass summarizers={name: function}, "
            "or allow it (allow_code=True, --allow-code) if only you can write the file"
        )
    offered = registry.summarizers()
    if name in offered:
        return offered[name].function
    known = sorted({*given, *offered})
    near = closest(name, known)
    hint = f"did you mean {near!r}?" if near else f"summarizers are {', '.join(known) or 'none'}"
    raise GCConfigError(
        f"summarizer={name!r:.80}: no plugin registered it and the host did not give it: {hint}"
    )


def _imported(name: str, where: str) -> SummarizerFunction:
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
