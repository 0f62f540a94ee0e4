"""Strategies that break the rules of a strategy, each in its own way.

Every fault of an answer comes in three forms: an object with ``collect(…, budget=None)``, one whose
``collect`` takes no budget, and a subclass of `GCStrategy`. Faults of requests are subclasses with
a ``select`` method.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from hostile_answers import FAULTS, WRITING_FAULTS, Fault, WritingFault, raises
from hostile_requests import REQUESTS, HostileRequest
from odd_answers import ODD_ANSWERS

from jaato_gc import (
    ContextUsage,
    GCConfig,
    GCPlugin,
    GCTriggerReason,
    InstructionBudget,
    Message,
)
from jaato_gc.plugin import Collection, GCStrategy, StrategySettings, should_collect


class WithoutBudget:
    """A strategy in the form of the seed documents, whose ``collect`` takes no budget."""

    def __init__(self, fault: WritingFault) -> None:
        self.name = f"{fault.__name__} without budget"
        self.fault = fault

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Takes no options."""

    def shutdown(self) -> None:
        """Raises, if the fault is to raise."""
        self._raise_if_that_is_the_fault()

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        self._raise_if_that_is_the_fault()
        return should_collect(context_usage, config)

    def _raise_if_that_is_the_fault(self) -> None:
        if self.fault.__name__ == raises.__name__:
            self.fault([], None)

    def collect(
        self,
        history: list[Message],
        _context_usage: ContextUsage,
        _config: GCConfig,
        _reason: GCTriggerReason,
    ) -> Any:
        return self.fault(history, None)


class WithBudget(WithoutBudget):
    """A strategy in the form of the seed documents."""

    def __init__(self, fault: WritingFault) -> None:
        super().__init__(fault)
        self.name = f"{fault.__name__} with budget"

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,  # noqa: ARG002
        config: GCConfig,  # noqa: ARG002
        reason: GCTriggerReason,  # noqa: ARG002
        budget: InstructionBudget | None = None,
    ) -> Any:
        return self.fault(history, budget)


class AsStrategy(GCStrategy[StrategySettings]):
    """A subclass of `GCStrategy`."""

    name = "hostile"

    def __init__(self, fault: WritingFault) -> None:
        super().__init__()
        self.fault = fault
        setattr(self, "name", f"{fault.__name__} as strategy")  # noqa: B010 (for mypy: a ClassVar)

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,  # noqa: ARG002
        config: GCConfig,  # noqa: ARG002
        reason: GCTriggerReason,  # noqa: ARG002
        budget: InstructionBudget | None = None,
    ) -> Any:
        return self.fault(history, budget)


class Selecting(GCStrategy[StrategySettings]):
    """A strategy with a ``select`` method."""

    name = "hostile"

    def __init__(self, name: str, request: HostileRequest) -> None:
        super().__init__()
        self.request = request
        setattr(self, "name", f"{name} in select")  # noqa: B010 (for mypy: a ClassVar)

    def select(self, collection: Collection) -> None:
        self.request(collection)


FORMS: list[Callable[[WritingFault], Any]] = [WithoutBudget, WithBudget, AsStrategy]


def hostile_plugins() -> dict[str, Callable[[], GCPlugin]]:
    """Returns functions that make the hostile strategies, by name."""
    faults = [*map(_ignoring_the_budget, [*FAULTS, *ODD_ANSWERS]), *WRITING_FAULTS]
    makers: list[Callable[[], GCPlugin]] = [
        *(partial(form, fault) for fault in faults for form in FORMS),
        *(partial(Selecting, name, request) for name, request in REQUESTS.items()),
    ]
    return {make().name: make for make in makers}


def _ignoring_the_budget(fault: Fault) -> WritingFault:
    @wraps(fault)
    def without_budget(history: list[Message], _budget: InstructionBudget | None) -> Any:
        return fault(history)

    return without_budget


def is_hostile(plugin: GCPlugin | None) -> bool:
    """Whether a strategy is one of this module."""
    return isinstance(plugin, WithoutBudget | AsStrategy | Selecting)
