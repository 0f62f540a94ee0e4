"""What a plugin is: strategies, and how distributions announce strategies,
formats and summarizers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting import ContextUsage, GCResult, GCTriggerReason
from jaato_gc.config import GCConfig
from jaato_gc.messages import Message
from jaato_gc.summaries import SummarizerFunction


@runtime_checkable
class GCPlugin(Protocol):
    """A strategy: decides what is removed.

    `GCStrategy` implements all of it from one method, ``select``. An object of another class works
    on copies of the messages, and may leave out the ``budget`` argument of ``collect``. A strategy
    keeps no state between collections.
    """

    @property
    def name(self) -> str:
        """The canonical name, such as ``gc_truncate``."""
        ...

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Sets the options of the strategy. Called once, before anything else."""
        ...

    def shutdown(self) -> None:
        """Releases resources. Called when the strategy is removed or replaced.

        A collection may be running in another thread; it is not applied then.
        """
        ...

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Returns whether to collect now, and why. `should_collect` is the usual answer."""
        ...

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        """Returns the history that should remain, and the result."""
        ...


@dataclass(frozen=True, slots=True)
class StrategyInfo:
    """How a distribution announces a strategy.

    Args:
        name: The canonical name, such as ``gc_truncate``.
        factory: Returns a new instance, not yet initialized.
        summary: One line for lists.
        config_model: The model of its options; without one they are passed on unchecked.
        needs_summarizer: It can't work without a summarizer. A subclass of `GCStrategy` says the
            same in its class, so that a session refuses it without one.
        budget_aware: It uses the budget.
    """

    name: str
    factory: Callable[[], GCPlugin]
    summary: str = ""
    config_model: type[BaseModel] | None = None
    needs_summarizer: bool = False
    budget_aware: bool = False


@dataclass(frozen=True, slots=True)
class SummarizerInfo:
    """How a distribution announces a summarizer, which configuration files can name then.

    Args:
        name: The name, such as ``acme-small``, without a colon.
        function: Writes the summaries: see `SummarySettings`.
        summary: One line for lists.
    """

    name: str
    function: SummarizerFunction
    summary: str = ""


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """How a distribution announces a format that histories are read from and written to.

    Args:
        name: The name of the format, such as ``openai-chat``.
        factory: Returns a `jaato_gc_formats.Format`.
        summary: One line for lists.
    """

    name: str
    factory: Callable[[], Any]
    summary: str = ""


InfoT = TypeVar("InfoT", StrategyInfo, FormatInfo, SummarizerInfo)
"""What plugins announce."""
