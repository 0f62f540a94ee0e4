"""Values that are not what they seem, for tests of what a session accepts from others."""

import math
from dataclasses import dataclass
from typing import Any

from jaato_gc import Message, Part

__all__ = [
    "ENDLESS",
    "HUGE",
    "ODD_JSON",
    "ODD_TEXTS",
    "SURROGATE",
    "Broken",
    "EqualMessage",
    "FickleMessage",
    "OddDict",
    "OddPart",
    "OddText",
]


class OddText(str):
    """A text that is equal to every text."""

    __slots__ = ()

    def __eq__(self, _other: object) -> bool:
        return True

    def __ne__(self, _other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return hash("a2")  # found among the ids of `speak`


class OddDict(dict[str, Any]):
    """A dict that is equal to every dict."""

    def __eq__(self, _other: object) -> bool:
        return True

    __hash__ = None


class EqualMessage(Message):
    """A message that is equal to every message."""

    __slots__ = ()

    def __eq__(self, _other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class FickleMessage(Message):
    """A message with another text whenever it is read."""

    __slots__ = ()
    reads = 0

    @property
    def parts(self) -> Any:
        """Returns other parts each time."""
        FickleMessage.reads += 1
        return (Part(text=f"{FickleMessage.reads}"),)

    @parts.setter
    def parts(self, _value: Any) -> None:
        """Ignores the parts."""


@dataclass(frozen=True, slots=True)
class OddPart(Part):
    """A part that is equal to every part."""

    def __eq__(self, _other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Broken:
    """Raises whatever is done with it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __bool__(self) -> bool:
        raise RuntimeError("no bool")


SURROGATE = "\ud800"
"""A text that can't be encoded."""
HUGE = 10**5_000
"""A number that is too long to be written."""
ENDLESS: list[Any] = []
"""A list that contains itself."""
ENDLESS.append(ENDLESS)

ODD_JSON: dict[str, Any] = {
    "bytes": b"raw",
    "an object": object(),
    "a set": {1},
    "NaN": math.nan,
    "infinity": math.inf,
    "a huge number": HUGE,
    "a lone surrogate": SURROGATE,
    "a key of bytes": {b"key": 1},
    "a key of two": {("a", "b"): 1},
    "itself": ENDLESS,
    "something broken": Broken(),
}
"""Values that JSON can't represent, by name."""
ODD_TEXTS: dict[str, Any] = {
    "bytes": b"raw",
    "a number": 7,
    "a lone surrogate": SURROGATE,
    "a list": ["a"],
    "something broken": Broken(),
}
"""Values that are not valid texts, by name."""
