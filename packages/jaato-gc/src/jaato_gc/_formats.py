"""How a distribution announces a format for histories."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """A format that histories can be read from and written to.

    Args:
        name: What it is called, such as ``openai-chat``.
        factory: Makes what reads it, and writes it if it can: a `jaato_gc_formats.Format`.
        summary: One line for lists.
    """

    name: str
    factory: Callable[[], Any]
    summary: str = ""
