"""A reason for which a provider refuses a request."""

from dataclasses import dataclass


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

    def __str__(self) -> str:
        return f"{self.where}: {self.message} [{self.rule}]"
