"""The base class of strategies."""

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from jaato_gc.budget import InstructionBudget, view_of
from jaato_gc.collecting import (
    Collection,
    ContextUsage,
    Draft,
    Failure,
    GCOutcome,
    GCResult,
    GCTriggerReason,
    PlanRequest,
    make_plan,
    opened,
    should_collect,
)
from jaato_gc.config import GCConfig, StrategySettings, validate_options
from jaato_gc.errors import GCError
from jaato_gc.messages import Message

SettingsT = TypeVar("SettingsT", bound=StrategySettings)


class GCStrategy(Generic[SettingsT]):
    """The base class of strategies. A subclass has a ``name`` and a `select` method:

        class KeepNothingOld(GCStrategy[StrategySettings]):
            name = "gc_keep_nothing_old"

            def select(self, collection):
                collection.remove_oldest(collection.turns, "old")

    Options of its own go into a subclass of `StrategySettings`, named in ``settings_model``.
    """

    name: ClassVar[str]
    """The canonical name, such as ``gc_truncate``."""
    settings_model: ClassVar[type[StrategySettings]] = StrategySettings
    """The model of the options."""
    needs_summarizer: ClassVar[bool] = False
    """Whether a session refuses the strategy if there is no summarizer for it."""

    options: Mapping[str, Any]
    """The options as they were given."""
    settings: SettingsT
    """The options of `settings_model`, validated."""
    overrides: Mapping[str, Any]
    """The settings of `GCConfig` among the options. They override the session's configuration."""

    def __init__(self) -> None:
        self.initialize()

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Validates and sets the options: those of `settings_model` and any of `GCConfig`.

        Raises:
            GCConfigError: An option is unknown or has an invalid value.
        """
        options = dict(config or {})
        settings, overrides = validate_options(self.name, options, self.settings_model)
        self.options, self.overrides = options, overrides
        self.settings = settings  # type: ignore[assignment]

    def shutdown(self) -> None:
        """Releases resources. Override it if the strategy has any."""

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Returns whether to collect now, and why."""
        return should_collect(context_usage, config.with_options(self.overrides))

    def select(self, collection: Collection) -> None:
        """Chooses what is removed: call the methods of the collection. Raise an error to fail."""
        raise NotImplementedError(f"{type(self).__name__} needs a select method")

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        """Returns the history that remains after `select`, and the result.

        A session does not call this; it is for hosts without one. A subclass that overrides it is
        called through it, like any other `GCPlugin`.
        """
        request = PlanRequest(
            self.name,
            history,
            context_usage,
            config.with_options(self.overrides),
            reason,
            budget and view_of(budget, history),
            self.settings.notice_template,
        )
        plan = make_plan(request, self._ask)
        return plan.after, plan.result

    def _ask(self, draft: Draft) -> Failure | None:
        """Lets `select` work on a draft. Returns the error that it raised to fail."""
        try:
            with opened(draft) as collection:
                self.select(collection)
        except GCError as error:
            return Failure(GCOutcome.FAILED, str(error))
        return None
