"""The functions that most hosts use: detect, to_messages, from_messages, check_request."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaato_gc import Message, PluginRegistry
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._errors import FormatError, misshapen
from jaato_gc_formats._history import Conversation, History
from jaato_gc_formats._records import Record, in_memory
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Origin, plain

SAMPLE = 20
"""How many records are looked at to recognise a format."""
LEAST_CONFIDENCE = 0.5
"""Below this nobody has recognised anything."""


@runtime_checkable
class Format(Protocol):
    """What a plugin registers with `jaato_gc_register_formats`: `FormatInfo.factory` makes one."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    def recognize(self, records: Sequence[Any]) -> float: ...

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]: ...


class Detected(NamedTuple):
    """What some data seems to be."""

    format: str
    confidence: float


def detect(data: Any, *, registry: PluginRegistry | None = None) -> Detected:
    """Which format some data is in, and how sure that is (from 0 to 1).

    Args:
        data: A list of messages, a request, or what a log file holds.
        registry: Where formats come from; all that are installed if not given.

    Raises:
        FormatError: No format knows it.
    """
    values = [plain(value) for value in (data if isinstance(data, list | tuple) else [data])]
    return recognized(values[:SAMPLE], formats(registry))


def recognized(sample: Sequence[Any], known: Mapping[str, Format]) -> Detected:
    """Which of some formats a sample of records is in."""
    with misshapen("this"):
        found = [Detected(name, format.recognize(sample)) for name, format in known.items()]
    best = max(found, key=lambda each: each.confidence, default=Detected("", 0.0))
    if best.confidence < LEAST_CONFIDENCE:
        raise FormatError(
            f"this is in none of the known formats ({', '.join(known)}): name the format if it is "
            "one of them, or install a plugin that reads it"
        )
    return best


def formats(registry: PluginRegistry | None = None) -> dict[str, Format]:
    """Every format that is installed, by name."""
    infos = (registry or installed()).formats()
    return {name: info.factory() for name, info in infos.items()}


@functools.cache
def installed() -> PluginRegistry:
    """What is installed in this process: looked for once, as that takes longer than reading."""
    return PluginRegistry()


def find_format(name: str, registry: PluginRegistry | None = None) -> Format:
    """A format by its name."""
    infos = (registry or installed()).formats()
    if name not in infos:
        raise FormatError(f"there is no format {name!r}; installed are {', '.join(infos)}")
    made: Format = infos[name].factory()
    return made


def find_api(name: str, registry: PluginRegistry | None = None) -> ApiFormat:
    """A format that can be written, by its name."""
    found = find_format(name, registry)
    if not isinstance(found, ApiFormat):
        raise FormatError(f"{name!r} can only be read: write the format of its provider's API")
    return found


def to_messages(
    data: Any, format: str | None = None, *, registry: PluginRegistry | None = None
) -> History:
    """The messages of a request, of a list of messages, or of a log that was read from disk.

    Args:
        data: Plain data, or the objects of a provider's SDK.
        format: Its format; detected if not given.
        registry: Where formats come from; all that are installed if not given.

    Raises:
        FormatError: The data is in no known format, or in none that it claims to be.
    """
    name = format or detect(data, registry=registry).format
    found = find_format(name, registry)
    if isinstance(found, ApiFormat):
        return found.to_history(data)
    conversations = list(found.conversations(in_memory(data)))
    if len(conversations) != 1:
        raise FormatError(f"this holds {len(conversations)} conversations: give one of them")
    return conversations[0].messages


def from_messages(
    messages: Sequence[Message],
    format: str | None = None,
    *,
    like: Any = None,
    registry: PluginRegistry | None = None,
) -> Any:
    """Messages in a provider's shape: a list, or a whole request where they came from one.

    What was read and not changed since comes out as the very same objects.

    Args:
        messages: The messages.
        format: The provider's format; the one they were read from if not given.
        like: The request to put them into; its other fields are kept. What `to_messages` returned
            remembers its own.
        registry: Where formats come from; all that are installed if not given.

    Raises:
        FormatError: There is no such format, or it can't hold these messages.
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
    raise FormatError("these messages were read from no format: name the one to write, format=…")


def check_request(
    data: Any,
    format: str | None = None,
    *,
    before: Any = None,
    registry: PluginRegistry | None = None,
) -> list[Refusal]:
    """What the provider's API would refuse about a request. Empty: it can be sent.

    Args:
        data: A request, or the list of its messages. Some rules speak of other fields, such as
            ``tools``: those are checked where a whole request is given.
        format: The provider's format; detected if not given.
        before: The request that it was made from, by a collection say. What a provider binds to
            something that is gone (reasoning to what was said with it, thoughts to all that stood
            before them) can be told only by comparison.
        registry: Where formats come from; all that are installed if not given.
    """
    api = find_api(format or detect(data, registry=registry).format, registry)
    old = None if before is None else api.as_request(before)
    request = api.as_request(data)
    with misshapen("the request"):
        return list(api.check(request, old))
