"""Values that are not what they seem, for hostile strategies."""

import math
from dataclasses import dataclass
from typing import Any

from jaato_gc import Message, Part


class OddText(str):
    """A text that is equal to every text."""

    __slots__ = ()

    def __eq__(self, _other: object) -> bool:
        return True

    def __ne__(self, _other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


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


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
SURROGATE = "\ud800"
ODD_JSON: list[Any] = [
    *(b"raw", object(), {1}, math.nan, math.inf, 10**5_000, SURROGATE, {b"key": 1}, {(1, 2): 3}),
    *(ENDLESS, Broken()),
]
"""Values that JSON can't represent."""
ODD_TEXTS: list[Any] = [b"raw", 7, SURROGATE, ["a"], Broken()]
"""Values that are not valid texts."""
