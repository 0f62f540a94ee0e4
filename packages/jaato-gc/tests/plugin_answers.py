"""Answers of plugins that are not strategies."""

from typing import Any

from jaato_gc import GCConfig, GCResult, GCTriggerReason, Message
from jaato_gc_testing import ScriptedPlugin


class WithoutBudget(ScriptedPlugin):
    """A plugin as in the seeds' README: its `collect` has no budget parameter."""

    name = "gc_without_budget"

    def collect(  # type: ignore[override]
        self,
        history: list[Message],
        context_usage: Any,  # noqa: ARG002
        config: GCConfig,  # noqa: ARG002
        reason: GCTriggerReason,  # noqa: ARG002
    ) -> Any:
        return self.script(history)


def result(**fields: Any) -> GCResult:
    """Returns a result that says nothing but what is given."""
    return GCResult(True, 0, 0, 0, "gc_mine", GCTriggerReason.MANUAL, **fields)
