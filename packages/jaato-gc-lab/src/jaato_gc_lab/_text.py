"""Makes text from anywhere safe to print."""

import re

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+"
)
"""Characters that control a terminal, change the text direction or are invisible."""
REPLACEMENT = "\ufffd"
SPACES = re.compile(r"[ \t\r\n\v\f]+")


def clean(text: str, most: int | None = None) -> str:
    """Returns untrusted text as one line without control characters.

    Args:
        text: Any text, such as a file name or the content of a transcript.
        most: Maximum number of characters.
    """
    line = UNPRINTABLE.sub(REPLACEMENT, SPACES.sub(" ", text[: 4 * most] if most else text)).strip()
    return line if most is None or len(line) <= most else line[: most - 1].rstrip() + "…"
