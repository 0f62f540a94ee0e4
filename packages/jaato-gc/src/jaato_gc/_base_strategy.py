"""What strategies of this family have in common."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from jaato_gc._budget import InstructionBudget
from jaato_gc._collection import Collection
from jaato_gc._config import GCConfig, GCConfigOverrides, ResolvedGCConfig
from jaato_gc._messages import Message
from jaato_gc._results import GCTriggerReason
from jaato_gc._strategy import StrategySettings, split_options
from jaato_gc._triggers import ContextUsage, should_collect

SettingsT = TypeVar("SettingsT", bound=StrategySettings)


class GCStrategy(Generic[SettingsT]):
    """What strategies have in common; a subclass adds ``name``, ``settings_model``, ``collect``.

    Using it is a convenience: anything with the shape of `GCPlugin` is a strategy.
    """

    name: ClassVar[str]
    settings_model: ClassVar[type[StrategySettings]] = StrategySettings

    options: Mapping[str, Any]
    """The plugin's own options as they were given."""
    settings: SettingsT
    overrides: Mapping[str, Any]
    """The keys of `GCConfig` among the plugin's own options: they prevail over the session's."""

    def __init__(self) -> None:
        self.initialize()

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Check and take the options: those of `settings_model` and any of `GCConfig`.

        Raises:
            GCConfigError: An option is unknown or has a bad value.
        """
        own, shared = split_options(self.name, config or {}, self.settings_model)
        self.options = dict(config or {})
        self.overrides = GCConfigOverrides(**shared).given()
        self.settings = self.settings_model(**own)  # type: ignore[assignment]

    def shutdown(self) -> None:
        """Nothing to let go of."""

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return should_collect(context_usage, self.effective(config))

    def begin(
        self,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
        *,
        everything: bool = False,
    ) -> Collection:
        """Start a collection, under this strategy's own options.

        Args:
            history: As given to ``collect``, like the others.
            context_usage: How full the window is.
            config: The session's configuration.
            reason: Why the collection runs.
            budget: The budget, if there is one.
            everything: Take all that may go, whatever the reason asks for.
        """
        return Collection(
            self.name,
            history,
            context_usage,
            self.effective(config),
            reason,
            budget,
            everything=everything,
            notice=self.settings.notice_template,
        )

    def effective(self, config: GCConfig) -> ResolvedGCConfig:
        """The configuration under this strategy's own options, unless the session merged them."""
        return config.resolved(self.overrides)
