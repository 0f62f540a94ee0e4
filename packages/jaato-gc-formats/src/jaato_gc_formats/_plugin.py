"""Announces the formats of this distribution to core."""

from collections.abc import Iterable

from jaato_gc import FormatInfo, hookimpl
from jaato_gc_formats._openai_chat import OpenAIChat


@hookimpl
def jaato_gc_register_formats() -> Iterable[FormatInfo]:
    """The formats of the large providers' APIs, and of the logs that agents keep."""
    return [FormatInfo(made.name, made, made.summary) for made in (OpenAIChat,)]
