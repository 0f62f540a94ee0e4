"""GCConfig: valid values, the sources of values, the same in tokens, and when to collect."""

import itertools
import math
from typing import Any, ClassVar, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jaato_gc import (
    ContextUsage,
    GCConfig,
    GCConfigError,
    GCError,
    GCResult,
    GCTriggerReason,
    Message,
    Role,
)
from jaato_gc.plugin import (
    ENVIRONMENT_VARIABLES,
    Collection,
    GCConfigOverrides,
    Limits,
    should_collect,
)
from jaato_gc_testing import OldestFirst, new_session

THRESHOLD = (True, GCTriggerReason.THRESHOLD)
TURN_LIMIT = (True, GCTriggerReason.TURN_LIMIT)
NOT_DUE = (False, None)

percents = st.integers(1, 100)
windows = st.integers(1, 10_000_000)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ENVIRONMENT_VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)


def error_of(**settings: Any) -> str:
    with pytest.raises(GCConfigError) as caught:
        GCConfig(**settings)
    return str(caught.value)


# --- defaults and values ---


def test_defaults_are_the_documented_ones() -> None:
    assert GCConfig().model_dump() == {
        "threshold_percent": 80.0,
        "target_percent": 60.0,
        "pressure_percent": 90.0,
        "max_turns": None,
        "auto_trigger": True,
        "check_before_send": True,
        "preserve_recent_turns": 5,
        "preserve_recent_groups": 3,
        "pinned_turn_indices": (),
        "plugin_config": {},
        "max_context_tokens": None,
        "reserve_output_tokens": 0,
        "cache_ttl_seconds": None,
        "cold_percent": 50.0,
        "cold_target_percent": 40.0,
        "ledger_percent": 2.0,
    }
    assert not GCConfig().continuous_mode


def test_integers_are_accepted_as_percentages() -> None:
    assert GCConfig(threshold_percent=75).threshold_percent == 75.0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("threshold_percent", True),
        ("threshold_percent", "80"),
        ("threshold_percent", None),
        ("threshold_percent", math.nan),
        ("threshold_percent", math.inf),
        ("threshold_percent", 0),
        ("threshold_percent", -1),
        ("threshold_percent", 100.5),
        ("target_percent", False),
        ("target_percent", "60"),
        ("target_percent", math.nan),
        ("target_percent", -0.5),
        ("target_percent", 101),
        ("pressure_percent", False),  # not the 0 that means continuous
        ("pressure_percent", ""),
        ("pressure_percent", math.nan),
        ("pressure_percent", 101),
        ("max_turns", 0),
        ("max_turns", True),
        ("max_turns", 3.0),
        ("max_turns", "3"),
        ("auto_trigger", 1),
        ("auto_trigger", "true"),
        ("check_before_send", None),
        ("preserve_recent_turns", -1),
        ("preserve_recent_turns", True),
        ("preserve_recent_groups", 1.5),
        ("pinned_turn_indices", 3),
        ("plugin_config", None),
        ("plugin_config", []),
        ("max_context_tokens", 0),
        ("max_context_tokens", math.inf),
        ("reserve_output_tokens", -1),
    ],
)
def test_a_bad_value_is_named_with_its_key(key: str, value: object) -> None:
    message = error_of(**{key: value})

    assert message.startswith(f"{key}={value!r}: input should be ")
    assert "\n" not in message


def test_text_is_not_accepted_as_a_sequence_of_turns() -> None:
    message = error_of(pinned_turn_indices="3")

    assert message == "pinned_turn_indices='3': 'str' instances are not allowed as a Sequence value"


@pytest.mark.parametrize("turns", [[0, 2], (0, 2), {0, 2}, frozenset({0, 2}), range(0, 4, 2)])
def test_any_collection_of_turns_can_be_pinned(turns: Any) -> None:
    assert GCConfig(pinned_turn_indices=turns).pinned_turn_indices == (0, 2)


def test_a_bad_item_of_a_list_is_named_with_its_position() -> None:
    assert error_of(pinned_turn_indices=[0, 4, -2]).startswith("pinned_turn_indices.2=-2: ")


def test_one_error_names_every_invalid_setting() -> None:
    message = error_of(max_turns=0, preserve_recent_turns=-1, treshold_percent=50)

    assert "max_turns=0" in message
    assert "preserve_recent_turns=-1" in message
    assert "'threshold_percent'" in message


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(error_of(threshold_percent="9" * 10_000)) < 200


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("treshold_percent", "threshold_percent"),
        ("threshold", "threshold_percent"),
        ("preserve_recent_turn", "preserve_recent_turns"),
        ("maxturns", "max_turns"),
        ("reserve_tokens", "reserve_output_tokens"),
    ],
)
def test_an_unknown_key_is_an_error_that_suggests_the_closest_one(typo: str, meant: str) -> None:
    assert error_of(**{typo: 1}) == f"unknown key {typo!r}: did you mean {meant!r}?"


def test_an_unknown_key_without_a_close_match_is_an_error_that_lists_the_valid_keys() -> None:
    message = error_of(zzz=1)

    assert message.startswith("unknown key 'zzz': valid keys are ")
    assert all(key in message for key in GCConfig.model_fields)


def test_a_configuration_can_not_be_changed_afterwards() -> None:
    config = GCConfig()

    with pytest.raises(ValidationError, match="frozen"):
        config.threshold_percent = 50.0  # type: ignore[misc]


def test_a_configuration_does_not_follow_the_callers_lists_and_dicts() -> None:
    pins, options = [1], {"a": 1}
    config = GCConfig(pinned_turn_indices=pins, plugin_config=options)

    pins.append(2)
    options["b"] = 2

    assert config.pinned_turn_indices == (1,)
    assert config.plugin_config == {"a": 1}


@given(st.dictionaries(st.sampled_from(list(GCConfig.model_fields)), st.none() | st.floats()))
def test_any_values_give_a_configuration_or_one_kind_of_error(settings: dict[str, Any]) -> None:
    try:
        config = GCConfig(**settings)
    except GCError:
        return
    assert 0 <= config.target_percent <= 100
    assert config.continuous_mode or config.target_percent < config.threshold_percent


# --- percentages that look like fractions ---


@pytest.mark.parametrize("key", ENVIRONMENT_VARIABLES)
@pytest.mark.parametrize(("fraction", "percent"), [(0.8, "80"), (0.005, "0.5"), (0.999, "99.9")])
def test_a_fraction_asks_whether_a_percentage_was_meant(
    key: str, fraction: float, percent: str
) -> None:
    message = error_of(**{key: fraction})

    assert message == (
        f"{key}={fraction}: expected a percentage from 0 to 100: did you mean {percent}?"
    )


@pytest.mark.parametrize("key", ENVIRONMENT_VARIABLES)
@pytest.mark.parametrize(("text", "percent"), [("0.8", "80"), (" .75 ", "75")])
def test_a_fraction_in_the_environment_asks_whether_a_percentage_was_meant(
    monkeypatch: pytest.MonkeyPatch, key: str, text: str, percent: str
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLES[key], text)

    message = error_of()

    assert f"{ENVIRONMENT_VARIABLES[key]}={text.strip()!r}" in message
    assert message.endswith(f"did you mean {percent}?")


@pytest.mark.parametrize("percent", [1, 1.0, 1.5])
def test_one_percent_is_not_a_fraction(percent: float) -> None:
    assert GCConfig(target_percent=percent).target_percent == percent


# --- environment ---


@pytest.mark.parametrize("key", ENVIRONMENT_VARIABLES)
@pytest.mark.parametrize(("text", "value"), [("42", 42.0), (" 42.5\n", 42.5), ("4.2e1", 42.0)])
def test_a_setting_that_is_not_given_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, key: str, text: str, value: float
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLES[key], text)

    assert getattr(GCConfig(), key) == value
    assert key not in GCConfig().given()


@pytest.mark.parametrize("text", ["", "  "])
@pytest.mark.parametrize("key", ENVIRONMENT_VARIABLES)
def test_an_empty_variable_is_ignored(monkeypatch: pytest.MonkeyPatch, key: str, text: str) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLES[key], text)

    assert GCConfig() == GCConfig(threshold_percent=80, target_percent=60, pressure_percent=90)
    assert GCConfig(threshold_percent=40).target_percent == 30


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *itertools.product(
            ENVIRONMENT_VARIABLES, ["abc", "80%", "nan", "inf", "-inf", "100.1", "true", "0x10"]
        ),
        ("threshold_percent", "-1"),
        ("target_percent", "-1"),
    ],
)
def test_a_bad_variable_is_an_error_with_its_name_value_and_remedy(
    monkeypatch: pytest.MonkeyPatch, key: str, text: str
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLES[key], text)

    message = error_of()

    assert f"{ENVIRONMENT_VARIABLES[key]}={text!r}" in message
    assert key in message
    assert "correct it or unset it" in message


def test_a_threshold_of_zero_in_the_environment_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "0")

    message = error_of()

    assert "JAATO_GC_THRESHOLD='0'" in message
    assert message.endswith("threshold_percent: input should be greater than 0")


@pytest.mark.parametrize("key", ENVIRONMENT_VARIABLES)
def test_code_prevails_over_the_environment(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLES[key], "nonsense")

    settings: dict[str, Any] = {key: 33}

    assert getattr(GCConfig(**settings), key) == 33


# --- threshold and target ---


@given(percents)
def test_a_target_that_was_not_given_stays_below_the_threshold(threshold: int) -> None:
    config = GCConfig(threshold_percent=threshold)

    assert config.target_percent == (60 if threshold > 60 else 0.75 * threshold)
    assert "target_percent" not in config.given()


def test_a_target_that_was_not_given_follows_a_threshold_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "40")

    assert GCConfig().target_percent == 30


@pytest.mark.parametrize("target", [50, 70])
def test_a_target_not_below_the_threshold_is_an_error(target: int) -> None:
    message = error_of(threshold_percent=50, target_percent=target)

    assert f"target_percent={target} must be below threshold_percent=50" in message
    assert "lower the target or raise the threshold" in message


def test_a_target_above_the_default_threshold_is_an_error() -> None:
    assert "target_percent=85 must be below threshold_percent=80" in error_of(target_percent=85)


def test_a_target_of_the_environment_counts_as_given_and_the_error_says_where_it_is_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAATO_GC_TARGET", "70")

    message = error_of(threshold_percent=50)

    assert "target_percent=70 (from JAATO_GC_TARGET) must be below threshold_percent=50:" in message


# --- continuous mode ---


@pytest.mark.parametrize("pressure", [0, 0.0, None])
def test_an_explicit_zero_or_none_means_continuous(pressure: float | None) -> None:
    assert GCConfig(pressure_percent=pressure).continuous_mode


@pytest.mark.parametrize("pressure", [1, 50, 100])
def test_any_other_pressure_does_not_mean_continuous(pressure: float) -> None:
    assert not GCConfig(pressure_percent=pressure).continuous_mode


@pytest.mark.parametrize("pressure", ["0", "0.0", "-1"])
def test_zero_or_less_in_the_environment_means_continuous(
    pressure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_PRESSURE", pressure)

    assert GCConfig().continuous_mode


def test_the_threshold_does_not_bind_the_target_in_continuous_mode() -> None:
    config = GCConfig(threshold_percent=50, target_percent=70, pressure_percent=None)

    assert config.target_percent == 70
    assert GCConfig(threshold_percent=50, pressure_percent=0).target_percent == 60


# --- layers ---


def test_later_layers_prevail_key_by_key() -> None:
    merged = GCConfig(threshold_percent=70, max_turns=9).merged(
        {"threshold_percent": 75, "preserve_recent_turns": 2}, {"threshold_percent": 90}
    )

    assert merged.threshold_percent == 90
    assert merged.preserve_recent_turns == 2
    assert merged.max_turns == 9


def test_a_layer_prevails_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "70")

    assert GCConfig().merged().threshold_percent == 70
    assert GCConfig().merged({"threshold_percent": 90}).threshold_percent == 90


def test_a_target_that_was_not_given_is_derived_from_the_merged_threshold() -> None:
    config = GCConfig(threshold_percent=40)

    assert config.merged({"threshold_percent": 20}).target_percent == 15
    assert config.merged({"threshold_percent": 90}).target_percent == 60


def test_layers_that_contradict_each_other_are_an_error() -> None:
    with pytest.raises(GCConfigError, match="target_percent=60 must be below threshold_percent=50"):
        GCConfig(threshold_percent=50).merged({"target_percent": 60})


def test_a_layer_can_ask_for_continuous_mode_and_another_take_it_back() -> None:
    config = GCConfig()

    assert config.merged({"pressure_percent": None}).continuous_mode
    assert not config.merged({"pressure_percent": 0}, {"pressure_percent": 90}).continuous_mode


def test_a_merged_configuration_accepts_further_layers() -> None:
    merged = GCConfig(max_turns=9).merged({"threshold_percent": 70})

    assert merged.given() == {"max_turns": 9, "threshold_percent": 70}
    assert merged.merged({"threshold_percent": 90}).threshold_percent == 90


def test_merging_nothing_returns_the_same_configuration() -> None:
    config = GCConfig(max_turns=9)

    assert config.merged() is config
    assert config.merged({}, {}) is config


def test_an_unknown_key_in_a_layer_is_an_error() -> None:
    with pytest.raises(GCConfigError, match="unknown key 'max_turn': did you mean 'max_turns'"):
        GCConfig().merged({"max_turn": 3})


def test_merging_does_not_change_the_original() -> None:
    config = GCConfig(threshold_percent=70)
    config.merged({"threshold_percent": 90})

    assert config.given() == {"threshold_percent": 70}


@given(
    threshold=st.none() | st.integers(50, 100),
    below=st.dictionaries(st.sampled_from(["threshold_percent"]), st.integers(50, 100)),
    above=st.dictionaries(st.sampled_from(["threshold_percent"]), st.integers(50, 100)),
)
def test_the_last_layer_that_has_a_key_decides(
    threshold: int | None, below: dict[str, int], above: dict[str, int]
) -> None:
    own: dict[str, Any] = {} if threshold is None else {"threshold_percent": threshold}
    expected = ({"threshold_percent": 80} | own | below | above)["threshold_percent"]

    assert GCConfig(**own).merged(below, above).threshold_percent == expected


# --- overrides for one collection ---


def test_every_setting_except_plugin_config_can_be_overridden() -> None:
    overridable = set(GCConfig.model_fields) - {"plugin_config"}

    assert set(get_type_hints(GCConfigOverrides)) == overridable
    assert GCConfigOverrides.__optional_keys__ == overridable


def test_plugin_config_can_not_be_overridden_and_the_error_names_the_remedy() -> None:
    with pytest.raises(GCConfigError, match=r"plugin_config can't be overridden.*set_gc_plugin"):
        GCConfig().for_one_collection({"plugin_config": {"depth": 1}})


def test_a_target_for_one_collection_is_independent_of_the_threshold() -> None:
    config = GCConfig(threshold_percent=50).for_one_collection({"target_percent": 70})

    assert config.target_percent == 70


class Recording(OldestFirst):
    """Records the targets of its collections."""

    targets: ClassVar[list[float]] = []

    def select(self, collection: Collection) -> None:
        self.targets.append(collection.config.target_percent)
        super().select(collection)


class Delegating(Recording):
    """A subclass that overrides `collect` and calls the inherited one."""

    def collect(self, *arguments: Any, **named: Any) -> tuple[list[Message], GCResult]:
        return super().collect(*arguments, **named)


@pytest.mark.parametrize(
    "strategy",
    [
        Recording,
        Delegating,
    ],
)
def test_overrides_of_one_collection_prevail_over_options_and_configuration(
    strategy: type[Recording],
) -> None:
    plugin = strategy()
    plugin.initialize({"target_percent": 50.0})
    session = new_session(plugin, GCConfig(target_percent=70), context_limit=100_000)
    session.append(Message.from_text(Role.USER, "hello"))
    plugin.targets.clear()

    session.manual_gc()
    session.manual_gc(target_percent=10.0)

    assert plugin.targets == [50.0, 10.0]


# --- the same in tokens ---


@pytest.mark.parametrize(
    ("context_limit", "max_context_tokens", "window"),
    [
        (1000, None, 1000),
        (1000, 400, 400),
        (1000, 4000, 1000),
        (None, 400, 400),
        (0, 400, 400),
        (None, None, None),
        (0, None, None),
        (-5, None, None),
    ],
)
def test_the_window_is_the_smaller_of_the_models_and_the_cap(
    context_limit: int | None, max_context_tokens: int | None, window: int | None
) -> None:
    assert GCConfig(max_context_tokens=max_context_tokens).window(context_limit) == window


def test_figures_in_tokens_are_none_without_a_window() -> None:
    config = GCConfig(reserve_output_tokens=10)

    assert config.request_limit(None) is None
    limits = Limits.of(config, None, 10)
    assert (limits.target_tokens, limits.trigger_tokens, limits.pressure_tokens) == (None,) * 3


def test_figures_in_tokens_are_shares_of_the_window() -> None:
    config = GCConfig(threshold_percent=75, target_percent=50)

    assert config.request_limit(1000) == 1000
    limits = Limits.of(config, 1000)
    assert (limits.target_tokens, limits.trigger_tokens, limits.pressure_tokens) == (500, 750, 900)


def test_figures_in_tokens_follow_the_cap() -> None:
    config = GCConfig(threshold_percent=75, target_percent=50, max_context_tokens=400)

    limits = Limits.of(config, 1000)
    assert (limits.target_tokens, limits.trigger_tokens, limits.pressure_tokens) == (200, 300, 360)


def test_the_target_stays_below_a_request_that_leaves_room_for_the_answer() -> None:
    config = GCConfig(reserve_output_tokens=500)

    assert config.request_limit(1000) == 500
    limits = Limits.of(config, 1000)
    assert (limits.target_tokens, limits.trigger_tokens, limits.pressure_tokens) == (375, 500, 500)


def test_a_reserve_larger_than_the_window_gives_limits_of_zero() -> None:
    config = GCConfig(reserve_output_tokens=5000)

    assert config.request_limit(1000) == 0
    assert Limits.of(config, 1000).target_tokens == 0


@given(windows, st.integers(2, 100), st.data())
def test_figures_in_tokens_keep_their_order(
    window: int, threshold: int, data: st.DataObject
) -> None:
    config = GCConfig(
        threshold_percent=threshold,
        target_percent=data.draw(st.integers(0, threshold - 1)),
        reserve_output_tokens=data.draw(st.integers(0, window)),
        max_context_tokens=data.draw(st.none() | windows),
    )
    limits = Limits.of(config, window, data.draw(st.integers(0, 2 * window)))
    target, trigger, pressure = limits.target_tokens, limits.trigger_tokens, limits.pressure_tokens
    limit, used = config.request_limit(window), config.window(window)

    assert target is not None
    assert trigger is not None
    assert limit is not None
    assert used is not None
    assert pressure is not None
    assert 0 <= target < trigger <= limit <= used <= window or (target, limit) == (0, 0)
    assert pressure <= limit
    if threshold <= 90:
        assert trigger <= pressure


# --- when a collection is due ---


def usage(total_tokens: int, context_limit: int = 1000, turns: int = 1) -> ContextUsage:
    return {
        "context_limit": context_limit,
        "total_tokens": total_tokens,
        "percent_used": 100 * total_tokens / context_limit,
        "tokens_remaining": context_limit - total_tokens,
        "turns": turns,
    }


@pytest.mark.parametrize(("total", "answer"), [(799, NOT_DUE), (800, THRESHOLD), (801, THRESHOLD)])
def test_a_collection_is_due_at_the_threshold(total: int, answer: object) -> None:
    assert should_collect(usage(total), GCConfig()) == answer


@given(windows, percents, st.integers(0, 10_000_000))
def test_due_at_the_threshold_means_exactly_that_share_of_the_window(
    window: int, threshold: int, total: int
) -> None:
    due, _ = should_collect(usage(total, window), GCConfig(threshold_percent=threshold))

    assert due == (100 * total >= threshold * window)


@pytest.mark.parametrize(("total", "answer"), [(319, NOT_DUE), (320, THRESHOLD)])
def test_the_threshold_is_a_share_of_the_capped_window(total: int, answer: object) -> None:
    assert should_collect(usage(total), GCConfig(max_context_tokens=400)) == answer


@pytest.mark.parametrize(("total", "answer"), [(699, NOT_DUE), (700, THRESHOLD)])
def test_a_collection_is_due_before_the_reserve_is_touched(total: int, answer: object) -> None:
    assert should_collect(usage(total), GCConfig(reserve_output_tokens=300)) == answer


@pytest.mark.parametrize("continuous", [0, None])
@pytest.mark.parametrize(("total", "answer"), [(620, NOT_DUE), (621, THRESHOLD)])
def test_continuous_mode_collects_when_usage_exceeds_the_target_by_two_percent_of_the_window(
    continuous: int | None, total: int, answer: object
) -> None:
    assert should_collect(usage(total), GCConfig(pressure_percent=continuous)) == answer


def test_continuous_mode_ignores_the_threshold() -> None:
    config = GCConfig(pressure_percent=0, threshold_percent=10, target_percent=60)

    assert should_collect(usage(500), config) == NOT_DUE


def test_continuous_mode_collects_at_the_latest_when_a_request_would_not_fit() -> None:
    config = GCConfig(pressure_percent=0, target_percent=89, reserve_output_tokens=100)

    assert should_collect(usage(900), config) == NOT_DUE
    assert should_collect(usage(901), config) == THRESHOLD


@pytest.mark.parametrize(("turns", "answer"), [(9, NOT_DUE), (10, NOT_DUE), (11, TURN_LIMIT)])
def test_more_turns_than_the_limit_are_due(turns: int, answer: object) -> None:
    assert should_collect(usage(1, turns=turns), GCConfig(max_turns=10)) == answer


def test_usage_is_reported_as_the_reason_before_the_turn_limit() -> None:
    assert should_collect(usage(900, turns=99), GCConfig(max_turns=10)) == THRESHOLD


@pytest.mark.parametrize("settings", [{}, {"pressure_percent": 0}, {"max_turns": 1}])
def test_no_collection_is_due_without_auto_trigger(settings: dict[str, Any]) -> None:
    config = GCConfig(auto_trigger=False, **settings)

    assert should_collect(usage(1000, turns=99), config) == NOT_DUE


@pytest.mark.parametrize(
    ("settings", "percent", "answer"),
    [
        ({}, 79.9, NOT_DUE),
        ({}, 80.0, THRESHOLD),
        ({"pressure_percent": 0}, 62.0, NOT_DUE),
        ({"pressure_percent": 0}, 62.1, THRESHOLD),
        ({"pressure_percent": 0, "target_percent": 99}, 100.0, NOT_DUE),
        ({"pressure_percent": 0, "target_percent": 99}, 100.1, THRESHOLD),
    ],
)
def test_the_percentage_decides_if_tokens_and_window_are_unknown(
    settings: dict[str, Any], percent: float, answer: object
) -> None:
    assert should_collect({"percent_used": percent}, GCConfig(**settings)) == answer


def test_max_context_tokens_is_the_window_if_the_models_window_is_unknown() -> None:
    config = GCConfig(max_context_tokens=1000)

    assert should_collect({"total_tokens": 799}, config) == NOT_DUE
    assert should_collect({"total_tokens": 800}, config) == THRESHOLD


@pytest.mark.parametrize("nothing", [{}, {"percent_used": None, "turns": None}])
def test_no_collection_is_due_without_any_usage_figures(nothing: ContextUsage) -> None:
    assert should_collect(nothing, GCConfig(max_turns=1)) == NOT_DUE


def test_options_of_a_strategy_cannot_be_changed_in_a_configuration() -> None:
    given = {"mine": [1]}
    config = GCConfig(plugin_config=given)
    given["mine"].append(2)

    with pytest.raises(TypeError, match="read-only"):
        config.plugin_config["mine"] = 2
    assert config.plugin_config == {"mine": [1]}


@pytest.mark.parametrize("overrides", [{}, {"threshold_percent": 40}, {"target_percent": 70}])
def test_options_of_a_strategy_do_not_depend_on_the_environment(
    overrides: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_TARGET", "not a number")

    strategy = OldestFirst()
    strategy.initialize(overrides)

    assert strategy.overrides == overrides
