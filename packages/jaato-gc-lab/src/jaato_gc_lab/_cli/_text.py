"""Formats text and numbers for a terminal."""

import re
import tempfile
from time import perf_counter

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+"
)
"""Characters that control a terminal, change the text direction or are invisible."""
REPLACEMENT = "\ufffd"
COPY_FOLDER = "jaato-gc-input-"
"""Prefix of the temporary folder with the copies of stdin and pipes."""
SPACES = re.compile(r"[ \t\r\n\v\f]+")


def clean(text: str, most: int | None = None) -> str:
    """Returns untrusted text as one line without control characters.

    Args:
        text: Any text, such as a file name or the content of a transcript.
        most: Maximum number of characters.
    """
    line = UNPRINTABLE.sub(REPLACEMENT, SPACES.sub(" ", text[: 4 * most] if most else text)).strip()
    return line if most is None or len(line) <= most else line[: most - 1].rstrip() + "…"


def with_stream_names(text: str) -> str:
    """Returns a text in which copies of streams have their names, such as ``stdin``."""
    folder = rf"{re.escape(tempfile.gettempdir())}[/\\]+{COPY_FOLDER}\w+[/\\]+"
    return re.sub(folder, "", text)


def percent(share: float | None) -> str:
    """Formats a fraction as a percentage: ``61%``, with one decimal below 10%, or a dash."""
    if share is None:
        return "-"
    digits = 1 if 0 < abs(share) < 0.0995 else 0
    return f"{share * 100:.{digits}f}%"


def money(amount: float) -> str:
    """Formats an amount without its currency, with more decimals for small amounts."""
    digits = 0 if amount >= 1000 else 2 if amount >= 10 or not amount else 3 if amount >= 0.1 else 4
    return f"{amount:,.{digits}f}"


def seconds(value: float) -> str:
    """Formats a duration: ``14ms``, ``3.2s``, ``4min``."""
    if value >= 120:
        return f"{value / 60:.0f}min"
    return f"{value:.1f}s" if value >= 1 else f"{value * 1000:.0f}ms"


def since(started: float) -> str:
    """Formats the time since a moment of `time.perf_counter`."""
    return seconds(perf_counter() - started)
