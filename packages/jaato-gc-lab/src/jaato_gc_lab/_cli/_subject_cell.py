"""The cell of a table that says what a tool call or its result is about."""

from jaato_gc_lab._columns import Name

SHORT_COMMAND = 60
"""Maximum number of characters of a command that is always shown whole."""


def subject_cell(tool: str, about: str, more: int = 0) -> Name:
    """Returns a tool with the subject of its call. Paths and short commands are never cut.

    Args:
        tool: Name of the tool.
        about: Path, command or other text.
        more: Number of other calls in the same message.
    """
    others = f"and {more} more" if more else ""
    is_path = len(about.split()) == 1
    if is_path or len(about) <= SHORT_COMMAND:
        return Name(f"{tool} {about}", others)
    return Name(tool, f"{about} {others}".strip())
