"""How a session's collections are tuned: thresholds, what is preserved, mode."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from jaato_gc._errors import GCConfigError

ENVIRONMENT_VARIABLES = {
    "threshold_percent": "JAATO_GC_THRESHOLD",
    "target_percent": "JAATO_GC_TARGET",
    "pressure_percent": "JAATO_GC_PRESSURE",
}
"""The settings that the environment can give, each with its variable."""

DEFAULT_MIN_FREE_SHARE = 0.02
"""Continuous mode leaves less than this share of the window alone: see `min_free_tokens`."""

Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class Settings(BaseModel):
    """A model of what a user writes: strict, immutable, with one kind message for bad input."""

    # Built when first used: a program may import this and never configure anything.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    @model_validator(mode="wrap")
    @classmethod
    def _explain_errors(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise GCConfigError(explain(error, cls.model_fields)) from None


def _from_environment(key: str, default: float) -> Callable[[], float]:
    def read() -> float:
        variable = ENVIRONMENT_VARIABLES[key]
        text = os.environ.get(variable, "").strip()
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if 0 < value <= 100 or (value == 0 and key != "threshold_percent"):
            return value
        above = "above 0 and up to" if key == "threshold_percent" else "from 0 to"
        raise GCConfigError(
            f"environment variable {variable}={text!r}: {key} must be a number {above} 100; "
            "correct it or unset it"
        )

    return read


class GCConfig(Settings):
    """When to collect, how far, and what to leave alone.

    What is not given comes from the environment, then from the defaults.
    """

    threshold_percent: Percent = Field(
        default_factory=_from_environment("threshold_percent", 80.0), gt=0
    )
    """Collect when this much of the window is used. Ignored in continuous mode."""
    target_percent: Percent = Field(default_factory=_from_environment("target_percent", 60.0))
    """How full the window should be afterwards. Not given, it stays below the threshold."""
    pressure_percent: Percent | None = Field(
        default_factory=_from_environment("pressure_percent", 90.0)
    )
    """From here on PRESERVABLE content may go. An explicit 0 or ``None``: continuous mode."""
    max_turns: PositiveInt | None = None
    """Collect when there are more turns than this."""
    auto_trigger: bool = True
    """False: collect only when the host asks or the provider refuses a request."""
    check_before_send: bool = True
    """Check before every request."""
    preserve_recent_turns: NonNegativeInt = 5
    """The last turns are never removed."""
    preserve_recent_groups: NonNegativeInt = 3
    """If nothing else helps, tool results in those turns are cleared, but for the last calls'."""
    pinned_turn_indices: list[NonNegativeInt] = Field(default_factory=list)
    """Turns that are never removed, counted from 0."""
    plugin_config: dict[str, Any] = Field(default_factory=dict)
    """Options for the strategy."""
    min_free_tokens: NonNegativeInt | None = None
    """Continuous mode waits until it can free this much; ``None``: 2 % of the window."""
    max_tokens: PositiveInt | None = None
    """Use no more of the window than this, however large it is."""
    reserve_output_tokens: NonNegativeInt = 0
    """Keep this much of the window free for the answer."""

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
        # Past pydantic's own bookkeeping: a target that was not given must not look given.
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
        """Whether every turn is trimmed to the target, rather than now and then."""
        return not self.pressure_percent

    def given(self) -> dict[str, Any]:
        """The settings that were given rather than left to environment or default."""
        return {key: getattr(self, key) for key in self.model_fields_set}

    def resolved(self, *layers: Mapping[str, Any]) -> "ResolvedGCConfig":
        """This configuration under some layers of other settings, the last one on top."""
        merged = self.given()
        for layer in layers:
            merged |= layer
        return ResolvedGCConfig(**merged)

    # --- the same in tokens; None where the window is not known ---

    def window(self, context_limit: int | None) -> int | None:
        """The part of the model's window that is used."""
        cap = self.max_tokens
        if not context_limit or context_limit < 0:
            return cap
        return context_limit if cap is None or cap > context_limit else cap

    def request_limit(self, context_limit: int | None) -> int | None:
        """The largest request that leaves room for the answer."""
        window = self.window(context_limit)
        return None if window is None else max(0, window - self.reserve_output_tokens)

    def target_tokens(self, context_limit: int | None) -> int | None:
        """Where a collection should end."""
        window = self.window(context_limit)
        if window is None:
            return None
        target, limit = int(window * self.target_percent / 100), window - self.reserve_output_tokens
        return min(target, max(0, limit))

    def trigger_tokens(self, context_limit: int | None) -> int | None:
        """Where a collection becomes due: at this many tokens."""
        window = self.window(context_limit)
        if window is None:
            return None
        limit = max(0, window - self.reserve_output_tokens)
        if not self.continuous_mode:
            return min(math.ceil(window * self.threshold_percent / 100), limit)
        crumbs = self.min_free_tokens
        if crumbs is None:
            crumbs = int(window * DEFAULT_MIN_FREE_SHARE)
        target = min(int(window * self.target_percent / 100), limit)
        return min(target + crumbs, limit) + 1


class ResolvedGCConfig(GCConfig):
    """A configuration whose layers were merged: nobody may put another layer on it."""

    def resolved(self, *_layers: Mapping[str, Any]) -> "ResolvedGCConfig":
        return self


class GCConfigOverrides(GCConfig):
    """Some keys of a `GCConfig`, each checked alone: how they fit together shows when merged."""

    @model_validator(mode="after")
    def _settle_target(self) -> Self:
        return self


def explain(error: ValidationError, fields: Mapping[str, FieldInfo]) -> str:
    """All that is wrong with data for a model of these fields, in one line a user can act on."""
    problems = []
    for item in error.errors():
        key = ".".join(str(step) for step in item["loc"])
        if item["type"] == "extra_forbidden":
            problems.append(unknown_key(key, _beside(item["loc"], fields)))
        else:
            message = item["msg"][0].lower() + item["msg"][1:]
            problems.append(f"{key}={item['input']!r:.80}: {message}")
    return "; ".join(problems)


def _beside(path: Sequence[int | str], fields: Mapping[str, FieldInfo]) -> list[str]:
    """The keys that would have been known in the place of one, from the outermost model on."""
    for step in path[:-1]:
        field = fields.get(str(step))
        fields = getattr(field.annotation, "model_fields", {}) if field else {}
    return [".".join(map(str, [*path[:-1], name])) for name in fields]


def unknown_key(key: str, known_keys: Iterable[str]) -> str:
    """The message for a key that nobody knows, with the nearest one that somebody does."""
    known = sorted(known_keys)
    import difflib  # here, because it is needed for mistakes alone

    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"valid keys are {', '.join(known)}"
    return f"unknown key {key!r}: {hint}"
