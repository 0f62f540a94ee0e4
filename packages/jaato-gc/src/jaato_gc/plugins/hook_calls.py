"""Hook implementations: checked when a plugin is registered, and called with what they name."""

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

import pluggy
from pydantic import BaseModel

from jaato_gc.errors import GCPluginError

KindT = TypeVar("KindT")


def check_implementation(implementation: pluggy.HookImpl, hook: pluggy.HookCaller) -> None:
    """Checks what pluggy does not: wrappers, and keyword arguments that the hook does not have.

    Raises:
        GCPluginError: The implementation could never be called.
    """
    if implementation.wrapper or implementation.hookwrapper:
        raise GCPluginError(f"{hook.name} can't be wrapped, only implemented")
    known = hook.spec.argnames if hook.spec else ()
    for each in inspect.signature(implementation.function).parameters.values():
        is_required = each.kind is each.KEYWORD_ONLY and each.default is each.empty
        if is_required and each.name not in known:
            raise GCPluginError(f"{hook.name} has no argument {each.name!r}: give it a default")


def call(implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
    """Calls an implementation with those arguments of the hook that it names.

    Pluggy passes no argument that has a default. Here it gets its value if this version of core has
    the argument, so that one plugin serves cores of different ages.
    """
    parameters = inspect.signature(implementation.function).parameters.values()
    by_position = [each.name for each in parameters if each.kind is each.POSITIONAL_ONLY]
    names = {each.name for each in parameters}
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        names |= arguments.keys()
    return implementation.function(
        *(arguments[name] for name in by_position if name in arguments),
        **{name: arguments[name] for name in arguments if name in names - {*by_position}},
    )


def announced(implementation: pluggy.HookImpl, hook: str, kind: type[KindT]) -> list[KindT]:
    """Returns what an implementation announces.

    Raises:
        GCPluginError: It announces something else, or something without a name.
    """
    infos = list(call(implementation, {}))
    for info in infos:
        if not isinstance(info, kind) or not isinstance(getattr(info, "name", None), str):
            raise GCPluginError(f"{hook}: expected a {kind.__name__}, got {info!r:.80}")
    return infos


def announced_model(implementation: pluggy.HookImpl, hook: str) -> type[BaseModel]:
    """Returns the model that an implementation announces.

    Raises:
        GCPluginError: It announces something else.
    """
    model = call(implementation, {})
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise GCPluginError(f"{hook}: expected a class of a pydantic model, got {model!r:.80}")
    return model
