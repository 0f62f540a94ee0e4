"""What a provider would say to a request that it refuses."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason for which a provider would refuse a request.

    Args:
        rule: Short name of the rule that is broken, such as ``orphaned_result``.
        where: Path to what breaks it, such as ``messages.3.content.0``.
        message: What the provider would answer, in its own words where they are known.
    """

    rule: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message} [{self.rule}]"
