"""A reason for which a provider refuses a request."""

import re
from dataclasses import dataclass

_ITEM = re.compile(r"(?:messages|input|contents)[.\[](\d+)")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason for which a provider would refuse a request.

    Args:
        rule: Short name of the broken rule, such as ``orphaned_result``.
        where: Path to the field that breaks it, such as ``messages.3.content.0``.
        message: The provider's error message, verbatim where it is known.
    """

    rule: str
    where: str
    message: str

    @property
    def position(self) -> int | None:
        """Position of the item at fault; ``None`` if it is not in the history."""
        found = _ITEM.match(self.where)
        return int(found[1]) if found else None

    def __str__(self) -> str:
        return f"{self.where}: {self.message} [{self.rule}]"


def invalid_type(path: str) -> Refusal:
    """Returns the refusal of a field with a wrong type. Other rules can't read the item then."""
    return Refusal(INVALID_TYPE, path, f"Invalid type for '{path}'.")


INVALID_TYPE = "invalid_type"
"""The rule that an item with fields of a wrong type breaks."""
