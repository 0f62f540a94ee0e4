"""Words and figures for a terminal: short, and harmless whatever they come from."""

import re

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+"
)
"""What would steer a terminal, turn text around or hide it."""
REPLACEMENT = "\ufffd"
SPACES = re.compile(r"[ \t\r\n\v\f]+")


def clean(text: str, most: int | None = None) -> str:
    """Text in one line, that shows what it says and does nothing else.

    Args:
        text: Any text: of a transcript, a file's name.
        most: How many characters may stay.
    """
    line = UNPRINTABLE.sub(REPLACEMENT, SPACES.sub(" ", text[: 4 * most] if most else text)).strip()
    return line if most is None or len(line) <= most else line[: most - 1].rstrip() + "…"


def percent(share: float | None) -> str:
    """A share of 1: ``61%``, with a decimal where it is small; a dash where it is not known."""
    if share is None:
        return "-"
    digits = 1 if 0 < abs(share) < 0.0995 else 0
    return f"{share * 100:.{digits}f}%"


def money(amount: float) -> str:
    """Money without its currency, with the digits that matter."""
    digits = 0 if amount >= 1000 else 2 if amount >= 10 or not amount else 3 if amount >= 0.1 else 4
    return f"{amount:,.{digits}f}"


def seconds(value: float) -> str:
    """A time: ``14ms``, ``3.2s``, ``4min``."""
    if value >= 120:
        return f"{value / 60:.0f}min"
    return f"{value:.1f}s" if value >= 1 else f"{value * 1000:.0f}ms"
