"""Configuration: when to collect, how far, what to preserve, and options of strategies."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Self, TypedDict

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from jaato_gc.errors import GCConfigError
from jaato_gc.frozen import FrozenDict, frozen
from jaato_gc.settings import ModelT, Settings, message_of, read_settings, unknown_key

ENVIRONMENT_VARIABLES = {
    "threshold_percent": "JAATO_GC_THRESHOLD",
    "target_percent": "JAATO_GC_TARGET",
    "pressure_percent": "JAATO_GC_PRESSURE",
}
"""The settings that can come from the environment, each with its variable."""

DEFAULT_NOTICE = "Earlier parts of this conversation were removed to free context space."
"""The same text after every collection, so that the prompt cache keeps matching."""

NOTICE_FIELDS = {
    "removed": "turns that are gone: truncated and summarized ones",
    "truncated": "turns that are gone without a summary",
    "summarized": "turns that a summary replaces",
    "kept": "turns that are left",
    "items": "items in the removal list",
    "tokens_freed": "freed tokens",
    "freed": "the same, as templates for gc_budget of jaato-server name it",
    "strategy": "the name of the strategy",
    "reason": "why the collection ran",
}
"""The fields that a notification template may name in braces, and what they mean."""

LEAST_REQUEST_SHARE = 0.1
"""The share of the model's window that the room for the answer must leave."""

TEMPLATE_FIELD = re.compile(r"\{([A-Za-z_][^{}]*)\}")


def _not_a_fraction(percent: float) -> float:
    if 0 < percent < 1:
        hint = f"expected a percentage from 0 to 100: did you mean {percent * 100:g}?"
        raise PydanticCustomError("fraction", hint)
    return percent


def _as_tuple(values: Any) -> Any:
    return tuple(values) if isinstance(values, set | frozenset | range) else values


_NOT_A_FRACTION = (
    AfterValidator(_not_a_fraction),
    Field(json_schema_extra={"not": {"exclusiveMinimum": 0, "exclusiveMaximum": 1}}),
)
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False), *_NOT_A_FRACTION]
PositivePercent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False), *_NOT_A_FRACTION]
# In jaato-server, which reads the same variable, a negative pressure means 0.
PressureOfJaato = Annotated[
    float,
    Field(le=100, allow_inf_nan=False),
    AfterValidator(lambda percent: max(0.0, percent)),
    AfterValidator(_not_a_fraction),
]


def _from_environment(key: str, default: float, kind: Any = Percent) -> Callable[[], float]:
    def read() -> float:
        variable = ENVIRONMENT_VARIABLES[key]
        text = os.environ.get(variable, "").strip()
        if not text:
            return default
        try:
            return TypeAdapter[float](kind).validate_python(text)
        except ValidationError as error:
            where = f"environment variable {variable}={text!r} (correct it or unset it)"
            raise GCConfigError(f"{where}: {key}: {message_of(error.errors()[0])}") from None

    return read


class GCConfigOverrides(TypedDict, total=False):
    """The settings of `GCConfig` that can be overridden for one collection."""

    threshold_percent: float
    target_percent: float
    pressure_percent: float | None
    max_turns: int | None
    auto_trigger: bool
    check_before_send: bool
    preserve_recent_turns: int
    preserve_recent_groups: int
    pinned_turn_indices: Sequence[int]
    max_context_tokens: int | None
    reserve_output_tokens: int
    ledger_percent: float
    cold_percent: float
    cold_target_percent: float
    cache_ttl_seconds: float | None


class GCConfig(Settings):
    """When to collect, how far, and what to preserve.

    A setting that is not given comes from the environment, then from its default.
    """

    threshold_percent: PositivePercent = Field(
        default_factory=_from_environment("threshold_percent", 80.0, PositivePercent)
    )
    """Collect when this percentage of the window is used. Ignored in continuous mode."""
    target_percent: Percent = Field(default_factory=_from_environment("target_percent", 60.0))
    """The percentage in use after a collection. The default is below the threshold. A session
    leaves a quarter of the window beside fixed content; then the percentages are higher."""
    pressure_percent: Percent | None = Field(
        default_factory=_from_environment("pressure_percent", 90.0, PressureOfJaato)
    )
    """PRESERVABLE content may be removed from here on. 0 or ``None`` selects continuous mode."""
    max_turns: PositiveInt | None = None
    """Collect when there are more turns than this."""
    auto_trigger: bool = True
    """False: collect only when the host asks or the provider refuses a request."""
    check_before_send: bool = True
    """Check before every request whether a collection is due."""
    preserve_recent_turns: NonNegativeInt = 5
    """The number of newest turns whose user and model messages stay, up to a fifth of the window
    or half of what the target leaves, if that is more. Older calls in them may be removed."""
    preserve_recent_groups: NonNegativeInt = 3
    """The number of newest tool calls that stay whole, with their results."""
    pinned_turn_indices: Annotated[
        Sequence[NonNegativeInt], BeforeValidator(_as_tuple), AfterValidator(tuple)
    ] = ()
    """Turns that are never removed, counted from 0. Any sequence is accepted."""
    plugin_config: Annotated[dict[str, Any], AfterValidator(frozen)] = Field(
        default_factory=FrozenDict
    )
    """Options of the strategy. Keys of this class are accepted too, and override it."""
    max_context_tokens: PositiveInt | None = None
    """Use no more of the window than this, however large it is. Percentages are of the smaller
    one."""
    reserve_output_tokens: NonNegativeInt = 0
    """Keep this much of the model's window free for the answer. If it is not given, the host of a
    session can change it with every request."""
    cache_ttl_seconds: PositiveFloat | None = None
    """The lifetime of the provider's prompt cache. A request that comes later finds it cold, so a
    collection costs nothing extra then. ``None``: not used."""
    cold_percent: Percent = 50.0
    """Collect above this percentage of the window if the prompt cache is cold."""
    cold_target_percent: Percent = 40.0
    """The percentage in use after a collection because of a cold cache."""
    ledger_percent: Percent = 2.0
    """The size of the ledger of removed exchanges, in percent of the target; 0: none."""
    _has_options: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _settle_target(self) -> Self:
        if self.continuous_mode or self.target_percent < self.threshold_percent:
            return self
        if self._is_given("target_percent"):
            raise GCConfigError(
                f"{self._with_origin('target_percent')} must be below "
                f"{self._with_origin('threshold_percent')}: a collection starts at the "
                "threshold and ends at the target; lower the target or raise the threshold"
            )
        # Past pydantic's own bookkeeping: a derived target must not look as if it was given.
        self.__dict__["target_percent"] = 0.75 * self.threshold_percent
        return self

    def _is_given(self, key: str) -> bool:
        return key in self.model_fields_set or self._is_from_environment(key)

    def _is_from_environment(self, key: str) -> bool:
        variable = os.environ.get(ENVIRONMENT_VARIABLES[key], "")
        return key not in self.model_fields_set and bool(variable.strip())

    def _with_origin(self, key: str) -> str:
        origin = f" (from {ENVIRONMENT_VARIABLES[key]})" if self._is_from_environment(key) else ""
        return f"{key}={getattr(self, key):g}{origin}"

    @property
    def continuous_mode(self) -> bool:
        """Whether every turn is trimmed to the target, instead of collecting at the threshold."""
        return not self.pressure_percent

    def given(self) -> dict[str, Any]:
        """Returns the settings that were given explicitly."""
        given = self.model_fields_set
        return {key: getattr(self, key) for key in GCConfig.model_fields if key in given}

    def merged(self, *layers: Mapping[str, Any]) -> "GCConfig":
        """Returns this configuration with other settings on top, the last layer first.

        Raises:
            GCConfigError: A key is unknown, a value is invalid, or two settings contradict.
        """
        if type(self) is GCConfig and not any(layers):
            return self
        settings = self.given()
        for layer in layers:
            settings |= layer
        merged = GCConfig(**settings)
        merged._has_options = self._has_options
        return merged.with_output_reserve(self.reserve_output_tokens)

    def with_options(self, overrides: Mapping[str, Any]) -> "GCConfig":
        """Returns this configuration with the settings among a strategy's options on top, once.

        Calling it again returns the same configuration, so that settings for one collection keep
        their priority over the options.
        """
        if self._has_options:
            return self
        merged = self.merged(overrides).model_copy()
        merged._has_options = True
        return merged

    def with_output_reserve(self, tokens: int) -> "GCConfig":
        """Returns this configuration with room for the answer, unless it was given explicitly."""
        if "reserve_output_tokens" in self.model_fields_set or self.reserve_output_tokens == tokens:
            return self
        reserving = self.model_copy()
        # As for a derived target: it must not look as if it was given.
        reserving.__dict__["reserve_output_tokens"] = tokens
        return reserving

    def for_one_collection(self, overrides: Mapping[str, Any]) -> "GCConfig":
        """Returns this configuration with settings that apply to one collection only.

        Raises:
            GCConfigError: A key is unknown, a value is invalid, or ``plugin_config`` is given.
        """
        if "plugin_config" in overrides:
            raise GCConfigError(
                "plugin_config can't be overridden for one collection: call set_gc_plugin"
            )
        if "target_percent" in overrides:  # the threshold has no part in one collection
            return self.merged({"threshold_percent": 100.0}, overrides)
        return self.merged(overrides)

    # --- the same in tokens; None if the window is unknown ---

    def window(self, context_limit: int | None) -> int | None:
        """Returns the part of the model's window that may be used."""
        if not context_limit or context_limit < 0:
            return self.max_context_tokens
        return min(context_limit, self.max_context_tokens or context_limit)

    def request_limit(self, context_limit: int | None) -> int | None:
        """Returns the size of the largest request that leaves room for the answer.

        The room is taken from the model's window, not from what may be used of it.
        """
        window = self.window(context_limit)
        if window is None or not context_limit or context_limit < 0:
            return window
        return max(0, min(window, context_limit - self.reserve_output_tokens))

    def check_reserve(self, context_limit: int) -> None:
        """Checks that the room for the answer leaves room for requests.

        Raises:
            GCConfigError: It leaves less than a tenth of the model's window.
        """
        reserve = self.reserve_output_tokens
        if context_limit - reserve < context_limit * LEAST_REQUEST_SHARE:
            raise GCConfigError(
                f"a reserve of {reserve:,} tokens for the answer leaves less than a tenth of the "
                f"model's window of {context_limit:,}: lower the reserve (reserve_output_tokens, "
                "set_output_reserve, or the maximum length of the answer in the provider's call), "
                "or correct context_limit; to use less of a larger window, set max_context_tokens"
            )


class StrategySettings(Settings):
    """The options that every strategy has. Subclass it to add options of your own."""

    notify_on_gc: bool = False
    """Tell the model, in a message of its own, that something was removed."""
    notification_template: str = DEFAULT_NOTICE
    """The text of that message; may name ``{removed} {truncated} {summarized} {kept}`` turns,
    ``{items} {tokens_freed} {freed} {strategy} {reason}``."""

    @field_validator("notification_template")
    @classmethod
    def _known_fields_only(cls, template: str) -> str:
        for field in TEMPLATE_FIELD.findall(template):
            if field not in NOTICE_FIELDS:
                raise GCConfigError(
                    f"notification_template={template!r:.80}: unknown field {{{field}}}; "
                    f"valid fields are {', '.join(f'{{{name}}}' for name in sorted(NOTICE_FIELDS))}"
                )
        return template

    @property
    def notice_template(self) -> str | None:
        """The template if the model is to be told, else ``None``."""
        return self.notification_template if self.notify_on_gc else None


def validate_options(
    name: str, options: Mapping[str, Any], model: type[ModelT]
) -> tuple[ModelT, dict[str, Any]]:
    """Returns the options of a strategy in its own model, and those of `GCConfig` among them.

    Raises:
        GCConfigError: A key belongs to neither, or a value is invalid.
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
    # Validates them, whatever the environment says: a host may have another configuration.
    anything_goes = GCConfig(threshold_percent=100, target_percent=0, pressure_percent=100)
    anything_goes.for_one_collection(shared)
    return read_settings(model, own, f"{name}: "), shared
