"""Options in files: JSON has no tuples, sets, enums, paths or durations, but options may be any."""

import json
from collections.abc import Callable
from datetime import timedelta
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from jaato_gc import (
    GCConfig,
    GCConfigError,
    GCPlugin,
    GCSession,
    PluginRegistry,
    load_gc_from_file,
    load_gc_from_profile,
    load_gc_inline,
    load_gc_plugin,
)
from jaato_gc.plugin import (
    Collection,
    GCStrategy,
    Settings,
    StrategyInfo,
    StrategySettings,
    hookimpl,
)
from jaato_gc_testing import COUNTER, ScriptedPlugin, new_session


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Speed(StrEnum):
    SLOW = "slow"
    FAST = "fast"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Rule(Settings):
    """Settings within settings."""

    tools: tuple[str, ...] = ()
    speed: Speed = Speed.SLOW


class LooseRule(BaseModel):
    """A model without core's base class."""

    model_config = ConfigDict(extra="forbid")

    tools: tuple[str, ...] = ()


class RichSettings(StrategySettings):
    """Options of every kind that JSON does not have."""

    pair: tuple[int, str] = (0, "")
    names: tuple[str, ...] = ()
    tools: set[str] = Field(default_factory=set)
    files: frozenset[str] = frozenset()
    colour: Colour = Colour.RED
    speed: Speed = Speed.SLOW
    level: Level = Level.LOW
    root: Path = Path()
    pause: timedelta = timedelta(0)
    rule: Rule = Rule()
    rules: list[Rule] = Field(default_factory=list)
    rule_of: dict[str, Rule] = Field(default_factory=dict)
    other_rule: Rule | None = None
    loose_rules: tuple[LooseRule, ...] = ()
    depth: int = 1


class RichStrategy(GCStrategy[RichSettings]):
    name = "gc_rich"
    settings_model = RichSettings

    def select(self, collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "old")


class LoosePlugin(ScriptedPlugin):
    """A plugin without core's base class, whose options have a model."""

    name = "gc_loose"
    options: dict[str, Any]

    def __init__(self) -> None:
        super().__init__(lambda history: history)

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        self.options = config or {}


class Offers:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [
            StrategyInfo("gc_rich", RichStrategy, config_model=RichSettings),
            StrategyInfo("gc_undeclared", RichStrategy),
            StrategyInfo("gc_loose", LoosePlugin, config_model=RichSettings),
        ]


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    registry.register(Offers(), "offers")
    return registry


OPTIONS: list[tuple[str, Any, Any]] = [
    ("pair", [1, "a"], (1, "a")),
    ("names", ["a", "b"], ("a", "b")),
    ("tools", ["a", "b", "a"], {"a", "b"}),
    ("files", ["a"], frozenset("a")),
    ("colour", "blue", Colour.BLUE),
    ("speed", "fast", Speed.FAST),
    ("level", 2, Level.HIGH),
    ("root", "src/a", Path("src/a")),
    ("pause", "PT5M", timedelta(minutes=5)),
    ("rule", {"tools": ["a"], "speed": "fast"}, Rule(tools=("a",), speed=Speed.FAST)),
    ("rules", [{"tools": ["a"]}], [Rule(tools=("a",))]),
    ("rule_of", {"x": {"tools": ["a"]}}, {"x": Rule(tools=("a",))}),
    ("other_rule", {"speed": "fast"}, Rule(speed=Speed.FAST)),
    ("loose_rules", [{"tools": ["a"]}], (LooseRule(tools=("a",)),)),
]
each_option = pytest.mark.parametrize(
    ("key", "given", "expected"), OPTIONS, ids=[key for key, _, _ in OPTIONS]
)


def file_with(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "gc.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def from_file(folder: Path, registry: PluginRegistry, document: dict[str, Any]) -> GCPlugin:
    loaded = load_gc_from_file(file_with(folder, document), registry=registry)
    assert loaded
    return loaded[0]


def settings_of(plugin: GCPlugin | None) -> RichSettings:
    assert isinstance(plugin, RichStrategy)
    return plugin.settings


# --- files ---


@each_option
@pytest.mark.parametrize("strategy", ["rich", "undeclared"])
def test_an_option_in_a_file_gets_the_type_of_its_field(
    tmp_path: Path, registry: PluginRegistry, strategy: str, key: str, given: Any, expected: Any
) -> None:
    for document in ({"type": strategy, key: given}, {"plugin": strategy, "config": {key: given}}):
        value = getattr(settings_of(from_file(tmp_path, registry, document)), key)

        assert (value, type(value)) == (expected, type(expected))


@each_option
def test_an_option_in_the_plugin_config_of_a_file_gets_the_type_of_its_field(
    tmp_path: Path, registry: PluginRegistry, key: str, given: Any, expected: Any
) -> None:
    plugin = from_file(tmp_path, registry, {"type": "rich", "plugin_config": {key: given}})

    assert getattr(settings_of(plugin), key) == expected


@each_option
def test_an_option_in_a_profile_gets_the_type_of_its_field(
    tmp_path: Path, registry: PluginRegistry, key: str, given: Any, expected: Any
) -> None:
    file_with(tmp_path, {"gc": {"type": "rich", key: given}})
    loaded = load_gc_from_profile("gc", tmp_path, registry)

    assert loaded
    assert getattr(settings_of(loaded[0]), key) == expected


@each_option
def test_a_plugin_without_the_base_class_gets_options_as_its_model_has_them(
    tmp_path: Path, registry: PluginRegistry, key: str, given: Any, expected: Any
) -> None:
    plugin = from_file(tmp_path, registry, {"type": "loose", key: given})

    assert isinstance(plugin, LoosePlugin)
    assert plugin.options[key] == expected


@each_option
def test_a_session_uses_the_options_of_a_file(
    tmp_path: Path, registry: PluginRegistry, key: str, given: Any, expected: Any
) -> None:
    path = file_with(tmp_path, {"type": "rich", "plugin_config": {key: given}})
    loaded = load_gc_from_file(path, registry=registry)
    assert loaded
    session = new_session(*loaded, registry=registry)

    assert getattr(settings_of(session.strategy), key) == expected
    assert getattr(settings_of(session.child().strategy), key) == expected


RICH_SETTINGS = st.builds(
    RichSettings,
    pair=st.tuples(st.integers(), st.text("ab", max_size=2)),
    names=st.lists(st.text("ab"), max_size=2).map(tuple),
    tools=st.sets(st.text("ab"), max_size=2),
    files=st.frozensets(st.text("ab"), max_size=2),
    colour=st.sampled_from(Colour),
    speed=st.sampled_from(Speed),
    level=st.sampled_from(Level),
    root=st.text("ab/.", max_size=4).map(Path),
    pause=st.timedeltas(timedelta(0), timedelta(days=9)),
    rule=st.builds(Rule, tools=st.just(("a", "b")), speed=st.sampled_from(Speed)),
    other_rule=st.none() | st.builds(Rule),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=RICH_SETTINGS)
def test_any_settings_that_are_written_to_a_file_are_read_from_it(
    tmp_path: Path, registry: PluginRegistry, options: RichSettings
) -> None:
    document = {"type": "rich", **options.model_dump(mode="json")}

    assert settings_of(from_file(tmp_path, registry, document)) == options


# --- strictness ---


@pytest.mark.parametrize(
    ("key", "given", "problem"),
    [
        ("depth", "3", "depth='3': input should be a valid integer"),
        ("depth", True, "depth=True: input should be a valid integer"),
        ("colour", "green", "colour='green': input should be 'red' or 'blue'"),
        ("names", "a", "names='a': input should be a valid "),
        ("pause", "soon", "pause='soon': input should be a valid duration"),
        ("rule", {"tools": [1]}, "rule.tools.0=1: input should be a valid string"),
        ("root", None, "root=None: input should be a valid string; leave the key out"),
    ],
)
def test_a_wrong_value_in_a_file_is_an_error_that_names_file_key_and_value(
    tmp_path: Path, registry: PluginRegistry, key: str, given: Any, problem: str
) -> None:
    with pytest.raises(GCConfigError) as caught:
        from_file(tmp_path, registry, {"type": "rich", key: given})

    assert str(caught.value).startswith(f"{tmp_path / 'gc.json'}: {problem}")


@each_option
def test_an_option_from_code_must_have_the_type_of_its_field(
    registry: PluginRegistry, key: str, given: Any, expected: Any
) -> None:
    for options in ({key: expected}, {key: getattr(RichSettings(**{key: expected}), key)}):
        assert getattr(settings_of(load_gc_plugin("rich", options, registry)), key) == expected
        loaded = load_gc_inline({"gc": {"type": "rich", **options}}, registry)
        assert loaded
        assert getattr(settings_of(loaded[0]), key) == expected

    if key in ("rules", "rule_of"):
        return  # their JSON form has the right type already, except for what is inside
    if key in ("other_rule", "rule"):
        given = {"tools": ["a"]}
    for load in (
        lambda: load_gc_plugin("rich", {key: given}, registry),
        lambda: load_gc_inline({"gc": {"type": "rich", key: given}}, registry),
    ):
        with pytest.raises(GCConfigError, match=key):
            load()


# --- unknown keys within options ---

UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"rule": {"zzz": 1}}, "unknown key 'rule.zzz': valid keys are rule.speed, rule.tools"),
    ({"rule": {"tool": 1}}, "unknown key 'rule.tool': did you mean 'rule.tools'?"),
    ({"rules": [{}, {"zzz": 1}]}, "'rules.1.zzz': valid keys are rules.1.speed, rules.1.tools"),
    ({"rule_of": {"x": {"zzz": 1}}}, "valid keys are rule_of.x.speed, rule_of.x.tools"),
    ({"rule_of": {"tools": {"zzz": 1}}}, "keys are rule_of.tools.speed, rule_of.tools.tools"),
    ({"other_rule": {"zzz": 1}}, "valid keys are other_rule.speed, other_rule.tools"),
    ({"loose_rules": [{"zzz": 1}]}, "valid keys are loose_rules.0.tools"),
]


@pytest.mark.parametrize(("options", "expected"), UNKNOWN)
def test_an_unknown_key_within_an_option_is_an_error_that_lists_the_valid_ones(
    tmp_path: Path, registry: PluginRegistry, options: dict[str, Any], expected: str
) -> None:
    loads: list[Callable[[], object]] = [
        lambda: from_file(tmp_path, registry, {"type": "rich", **options}),
    ]
    if "loose_rules" not in options:
        loads += [
            lambda: load_gc_plugin("rich", options, registry),
            lambda: RichSettings(**options),
        ]
    for load in loads:
        with pytest.raises(GCConfigError) as caught:
            load()

        assert expected in str(caught.value)


# --- saved sessions ---


@each_option
def test_a_saved_session_keeps_options_that_json_does_not_have(
    registry: PluginRegistry, key: str, given: Any, expected: Any
) -> None:
    del given
    plugin = load_gc_plugin("rich", {key: expected}, registry)
    saved = new_session(plugin, GCConfig(max_turns=9), registry=registry).save()
    restored = GCSession.restore(saved, counter=COUNTER, registry=registry)

    assert settings_of(restored.strategy) == settings_of(plugin)
    assert restored.save() == saved


@each_option
def test_a_saved_session_keeps_such_options_in_the_plugin_config(
    registry: PluginRegistry, key: str, given: Any, expected: Any
) -> None:
    del given
    config = GCConfig(plugin_config={key: expected})
    session = new_session(RichStrategy(), config, registry=registry)
    restored = GCSession.restore(session.save(), counter=COUNTER, registry=registry)

    assert getattr(settings_of(restored.strategy), key) == expected
