"""What a collection is planned from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting.results import GCTriggerReason
from jaato_gc.collecting.triggers import ContextUsage, Limits
from jaato_gc.config import GCConfig
from jaato_gc.messages import Message


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a collection is planned from.

    Args:
        plugin_name: The strategy.
        history: The history to collect.
        usage: How full the window is.
        config: The configuration of this collection.
        reason: Why it runs.
        budget: The budget, read-only; ``None`` if there is none.
        notice: The template of the notice for the model; ``None``: no notice.
        may_relax: Whether core may remove recent content if the request would not fit.
        must_fit: Whether core collects alone if the strategy fails and the request would not fit.
        gc_id: The id of the collection in its session.
        describe: Returns the strategy with its distribution, for errors; by default its name.
    """

    plugin_name: str
    history: Sequence[Message]
    usage: ContextUsage
    config: GCConfig
    reason: GCTriggerReason
    budget: InstructionBudget | None = None
    notice: str | None = None
    may_relax: bool = True
    must_fit: bool = False
    gc_id: str | None = None
    describe: Callable[[], str] | None = None

    def origin(self) -> str:
        """Returns the strategy with its distribution, for errors."""
        return self.describe() if self.describe else self.plugin_name

    @property
    def limits(self) -> Limits:
        """How much has to be freed, for the window of the budget."""
        limit = self.budget.context_limit if self.budget else self.usage.get("context_limit")
        return Limits.of(self.config, limit, self.usage.get("fixed_tokens", 0))
