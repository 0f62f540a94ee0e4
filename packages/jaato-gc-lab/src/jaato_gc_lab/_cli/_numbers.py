"""Parameter types for token counts and percentages: ``128k``, ``1M``, ``60``, ``60%``."""

import re
from typing import Any

import click

UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
LARGEST = 1_000_000_000
"""Maximum number of tokens, far above any window. A larger number is a typing error."""

_NUMBER = re.compile(r"(?P<digits>\d+(?:[_ ]\d{3})*(?:\.\d+)?) ?(?P<unit>[km%]?)", re.IGNORECASE)


class Tokens(click.ParamType):  # type: ignore[type-arg]
    """A number of tokens."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _NUMBER.fullmatch(value.strip())
        if not match or match["unit"] == "%":
            self.fail(f"expected tokens such as 8000, 128k or 1M, got {value!r}", param, ctx)
        amount = _plain(match["digits"]) * UNITS[match["unit"].lower()]
        if amount < 1 or amount != int(amount):
            self.fail(f"expected a whole number of tokens from 1, got {value!r}", param, ctx)
        if amount > LARGEST:
            self.fail(f"expected at most 1000M tokens, got {value!r}", param, ctx)
        return int(amount)


class OverheadType(click.ParamType):  # type: ignore[type-arg]
    """``auto``, ``none`` or a number of tokens."""

    name = "overhead"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | int:
        if value in ("auto", "none"):
            return str(value)
        if isinstance(value, str) and value.strip() == "0":
            return 0
        return TOKENS.convert(value, param, ctx)


class Percent(click.ParamType):  # type: ignore[type-arg]
    """A percentage from 0 to 100, with or without ``%``."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float | int):
            return float(value)
        match = _NUMBER.fullmatch(value.strip())
        if not match or match["unit"].lower() in ("k", "m"):
            self.fail(f"expected a percentage such as 60 or 60%, got {value!r}", param, ctx)
        amount = _plain(match["digits"])
        if 0 < amount < 1 and not match["unit"]:
            self.fail(
                f"expected a percentage, got the fraction {value!r}: write {amount * 100:g}%, or "
                f"{amount:g}% if you mean less than one percent",
                param,
                ctx,
            )
        if amount > 100:
            self.fail(f"expected a percentage from 0 to 100, got {value!r}", param, ctx)
        return amount


class CommaSeparated(click.ParamType):  # type: ignore[type-arg]
    """Several values separated by commas, without duplicates."""

    def __init__(self, of: "click.ParamType[Any]") -> None:
        self._of = of
        self.name = f"{of.name},…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Any]:
        if not isinstance(value, str):
            return list(value)
        texts = [text.strip() for text in value.split(",")]
        if not all(texts):
            self.fail(f"expected values separated by commas, got {value!r}", param, ctx)
        return list(dict.fromkeys(self._of.convert(text, param, ctx) for text in texts))


TOKENS = Tokens()
PERCENT = Percent()


def _plain(digits: str) -> float:
    return float(digits.replace("_", "").replace(" ", ""))
