"""Converts between the formats of providers and core's messages."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaato_gc import Message, PluginRegistry
from jaato_gc.plugin import closest
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._errors import FormatError, reading
from jaato_gc_formats._history import Conversation, History
from jaato_gc_formats._records import Record, in_memory
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Origin, plain

SAMPLE_SIZE = 20
"""Number of records that are used to detect a format."""
MIN_CONFIDENCE = 0.5
"""Lowest confidence at which a format counts as detected."""


@runtime_checkable
class Format(Protocol):
    """The interface of a format. `FormatInfo.factory` returns an object that has it.

    Plugins register formats with the hook `jaato_gc_register_formats`.
    """

    @property
    def name(self) -> str:
        """Name of the format, such as ``openai-chat``."""

    @property
    def summary(self) -> str:
        """Description of the format in one line, for lists."""

    def recognize(self, records: Sequence[Any]) -> float:
        """Returns the confidence, from 0 to 1, that the records are in this format."""

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
        """Yields the conversations of a file."""


class Detected(NamedTuple):
    """A detected format and the confidence in it, from 0 to 1."""

    format: str
    confidence: float


def detect(data: Any, *, registry: PluginRegistry | None = None) -> Detected:
    """Detects the format of data.

    Args:
        data: A list of messages, a request, or the parsed content of a log file.
        registry: The registry that provides the formats; by default, all installed plugins.

    Raises:
        FormatError: The data is in no known format.
    """
    values = [plain(value) for value in (data if isinstance(data, list | tuple) else [data])]
    return best_match(values[:SAMPLE_SIZE], formats(registry))


def best_match(sample: Sequence[Any], known: Mapping[str, Format]) -> Detected:
    """Returns the format with the highest confidence for a sample of records.

    Raises:
        FormatError: No format is confident enough.
    """
    with reading("the data"):
        found = [Detected(name, format.recognize(sample)) for name, format in known.items()]
    best = max(found, key=lambda each: each.confidence, default=Detected("", 0.0))
    if best.confidence < MIN_CONFIDENCE:
        raise FormatError(
            f"the data is in none of the known formats ({', '.join(known)}): pass the format if it "
            "is one of these, or install a plugin that reads it"
        )
    return best


def formats(registry: PluginRegistry | None = None) -> dict[str, Format]:
    """Returns all installed formats, by name.

    Args:
        registry: The registry that provides the formats; by default, all installed plugins.
    """
    infos = (registry or default_registry()).formats()
    return {name: info.factory() for name, info in infos.items()}


@functools.cache
def default_registry() -> PluginRegistry:
    """Returns the registry of all installed plugins.

    Cached, because discovering the plugins takes longer than reading a history.
    """
    return PluginRegistry()


def find_format(name: str, registry: PluginRegistry | None = None) -> Format:
    """Returns the format with a name."""
    infos = (registry or default_registry()).formats()
    if name not in infos:
        raise _wrong_name("unknown format", name, list(infos))
    made: Format = infos[name].factory()
    return made


def find_api(name: str, registry: PluginRegistry | None = None) -> ApiFormat:
    """Returns the API format with a name."""
    infos = (registry or default_registry()).formats()
    found = infos[name].factory() if name in infos else None
    if not isinstance(found, ApiFormat):
        apis = [each.name for each in formats(registry).values() if isinstance(each, ApiFormat)]
        raise _wrong_name("unknown format" if found is None else "read-only format", name, apis)
    return found


def _wrong_name(problem: str, name: object, expected: Sequence[str]) -> FormatError:
    near = closest(str(name), expected)
    hint = f"did you mean {near!r}? " if near else ""
    return FormatError(f"{problem} {name!r}: {hint}expected one of {', '.join(expected)}")


def to_messages(
    data: Any, format: str | None = None, *, registry: PluginRegistry | None = None
) -> History:
    """Converts a request, a list of messages or a parsed log to core's messages.

    Args:
        data: Plain data or objects of a provider's SDK.
        format: The format of the data; detected by default.
        registry: The registry that provides the formats; by default, all installed plugins.

    Raises:
        FormatError: The data is in no known format, or not in the given one.
    """
    name = format or detect(data, registry=registry).format
    found = find_format(name, registry)
    if isinstance(found, ApiFormat):
        return found.to_history(data)
    conversations = list(found.conversations(in_memory(data)))
    if len(conversations) != 1:
        raise FormatError(
            f"expected one conversation, got {len(conversations)}: pass one of them, or use "
            "load() for a file"
        )
    return conversations[0].messages


def from_messages(
    messages: Sequence[Message],
    format: str | None = None,
    *,
    like: Any = None,
    registry: PluginRegistry | None = None,
) -> Any:
    """Converts messages to a provider's format.

    Returns a list of the provider's messages, or a whole request if the messages were read from one
    or if ``like`` is given. A message that was read from this format and has not changed is
    returned as the original object.

    Args:
        messages: The messages.
        format: The provider's format; by default, the one that the messages were read from.
        like: A request whose messages are replaced and whose other fields are kept. By default, the
            request that `to_messages` read them from, if there is one.
        registry: The registry that provides the formats; by default, all installed plugins.

    Raises:
        FormatError: The format is unknown or can't represent these messages.
    """
    name = format or _format_of(messages)
    request = None
    if like is None and isinstance(messages, History) and messages.format == name:
        request = messages.request
    elif isinstance(like, History):
        request = like.request
    elif isinstance(like, Mapping):
        request = dict(like)
    elif like is not None and not isinstance(like, list | tuple):
        request = plain(like)
    return find_api(name, registry).from_messages(messages, request)


def _format_of(messages: Sequence[Message]) -> str:
    if isinstance(messages, History):
        return messages.format
    for message in messages:
        if isinstance(message.origin, Origin):
            return message.origin.format
    raise FormatError("the messages were not read from a provider's format: pass format=")


def check_request(
    data: Any,
    format: str | None = None,
    *,
    before: Any = None,
    registry: PluginRegistry | None = None,
) -> list[Refusal]:
    """Returns the reasons for which the provider's API would refuse a request.

    An empty list means that no known rule is broken.

    Args:
        data: A request or a list of its messages. Rules about other fields, such as ``tools``, are
            checked only in a whole request.
        format: The provider's format; detected by default.
        before: The last request that was sent. Some providers bind reasoning to the items that
            followed it, or thinking blocks to all that was sent before them. Whether a collection
            broke such a link can be checked only by comparing the two requests.
        registry: The registry that provides the formats; by default, all installed plugins.

    Raises:
        FormatError: The data is in no known format, or not in the given one.
    """
    api = find_api(format or detect(data, registry=registry).format, registry)
    return api.refusals(data, before)
