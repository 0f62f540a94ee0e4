"""What a strategy is, to the session and to its author."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, field_validator

from jaato_gc._budget import InstructionBudget
from jaato_gc._config import (
    GCConfig,
    Settings,
    unknown_key,
)
from jaato_gc._errors import GCConfigError
from jaato_gc._messages import Message
from jaato_gc._results import GCResult, GCTriggerReason
from jaato_gc._synthetic import DEFAULT_NOTICE, check_template
from jaato_gc._triggers import ContextUsage


@runtime_checkable
class GCPlugin(Protocol):
    """A strategy: decides what goes.

    It must not change the history it is given, and keeps no state between collections. The session
    also accepts a ``collect`` without the ``budget`` argument.
    """

    @property
    def name(self) -> str:
        """The canonical name, such as ``gc_truncate``."""
        ...

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Take the plugin's own options. Called once, before anything else."""
        ...

    def shutdown(self) -> None:
        """Let go of resources. Called when the strategy is replaced and when the session closes."""
        ...

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Whether to collect now, and why. `should_collect` is the usual answer."""
        ...

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        """Return the history that should remain, and the account of it."""
        ...


@dataclass(frozen=True, slots=True)
class StrategyInfo:
    """How a distribution announces a strategy.

    Args:
        name: The canonical name, such as ``gc_truncate``.
        factory: Makes an instance, not yet initialized.
        summary: One line for lists.
        config_model: The model of its options; without one they are passed on unchecked.
        needs_summarizer: It can't work without a summarizer.
        budget_aware: It makes use of the budget.
    """

    name: str
    factory: Callable[[], GCPlugin]
    summary: str = ""
    config_model: type[BaseModel] | None = None
    needs_summarizer: bool = False
    budget_aware: bool = False


class StrategySettings(Settings):
    """The options that every strategy of this family has. Subclass it to add your own."""

    notify_on_gc: bool = False
    """Tell the model, in a message of its own, that something was removed."""
    notification_template: str = DEFAULT_NOTICE
    """What to tell it; may name ``{turns_removed} {turns_kept} {tokens_freed}`` and so on."""

    @field_validator("notification_template")
    @classmethod
    def _known_fields_only(cls, template: str) -> str:
        return check_template(template)

    @property
    def notice_template(self) -> str | None:
        """The template if the model is to be told, else ``None``."""
        return self.notification_template if self.notify_on_gc else None


def split_options(
    name: str, options: Mapping[str, Any], model: type[BaseModel]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A plugin's options: those of its own model, and those that are keys of `GCConfig`.

    Raises:
        GCConfigError: One is neither.
    """
    own: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    for key, value in options.items():
        if key in model.model_fields:
            own[key] = value
        elif key in GCConfig.model_fields:
            shared[key] = value
        else:
            known = [*model.model_fields, *GCConfig.model_fields]
            raise GCConfigError(f"{name}: {unknown_key(key, known)}")
    return own, shared
