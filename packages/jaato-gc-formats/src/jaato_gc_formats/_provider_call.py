"""The arguments of a client's call other than the messages."""

from collections.abc import Mapping
from typing import Any

from jaato_gc import GCConfig, GCConfigError
from jaato_gc.plugin import HostOptions, closest
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._wire import Fields

HISTORIES = ("messages", "input", "contents")
"""Arguments with the messages, in the calls of all SDKs."""
PROMPTS = ("system", "instructions", "system_instruction", "systemInstruction")
"""Arguments with the system prompt, in the calls of all SDKs."""
OPTIONS = {"context_limit", "strategy", *HostOptions.__optional_keys__}
"""Arguments of `ProviderSession.open` that no SDK has."""


def as_call(call: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the arguments of the client's call in a new dict.

    Raises:
        GCConfigError: It is not a mapping.
    """
    if not isinstance(call, Mapping | None):
        raise GCConfigError(
            f"call={call!r:.80}: expected a dict of the arguments of the client's call, such as "
            "call={'model': …}"
        )
    return dict(call or {})


def check_call(api: ApiFormat, call: Mapping[str, Any]) -> None:
    """Refuses arguments that the session would lose, not count, or not be able to collect.

    Other names are left to the SDK, which refuses those that it does not know.

    Raises:
        GCConfigError: An argument belongs elsewhere. The message says where.
    """
    for name, value in call.items():
        if problem := _problem(api, name, value):
            raise GCConfigError(f"call[{name!r}]: {problem}")


def _problem(api: ApiFormat, name: str, value: Any) -> str | None:
    if name in (api.items_key, *HISTORIES):
        return "the session sends its own history; add the messages with append()"
    if name in OPTIONS:
        return f"this is an argument of the session; pass {name}=… instead"
    if name in api.stored_keys and value is not None:
        return (
            "a conversation that the provider stores can't be collected; leave it out, and the "
            "session sends the whole history"
        )
    if api.call_key:
        is_inside = name in PROMPTS or name == "tools"
        return f"{api.name} takes it in {api.call_key!r}; move it there" if is_inside else None
    if name in PROMPTS and name not in api.system_keys:
        if not api.system_keys:
            return f"{api.name} takes the system prompt as a message; add it with append()"
        return f"{api.name} takes the system prompt as {api.system_keys[0]!r}; rename it"
    return None


def check_options(options: Mapping[str, Any]) -> None:
    """Refuses keyword arguments that a session does not have.

    Raises:
        TypeError: There is one. Type checkers find it too.
    """
    for name in options:
        if name not in HostOptions.__optional_keys__:
            raise TypeError(f"unexpected keyword argument {name!r}: {_remedy_for(name)}")


def _remedy_for(name: str) -> str:
    if name in GCConfig.model_fields:
        return f"it is a setting; create the session with config=GCConfig({name}=…)"
    near = closest(name, sorted(OPTIONS | {"call", "config"}))
    hint = f"did you mean {near!r}? " if near else ""
    return f"{hint}put arguments of the client's call into call={{{name!r}: …}}"


def fields_of(api: ApiFormat, call: Mapping[str, Any]) -> Fields:
    """Returns the fields of the request other than the messages."""
    if api.call_key is None:
        return dict(call)
    given = call.get(api.call_key) or {}
    # Iterating over an object of the SDK yields pairs of name and value, including unset ones.
    pairs = given.items() if isinstance(given, Mapping) else given
    return {name: value for name, value in pairs if value is not None}


def check_config(config: object) -> None:
    """Refuses the ``config`` of Google's call, which belongs in ``call``.

    Raises:
        GCConfigError: It is not a `GCConfig`.
    """
    if not isinstance(config, GCConfig):
        raise GCConfigError(
            f"config: expected a GCConfig, got {type(config).__name__}: use GCConfig(…), or put "
            "the configuration of the client's call into call={'config': …}"
        )
