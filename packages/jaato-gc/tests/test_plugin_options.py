"""Options of plugins that are not strategies: observers, counters, stashes and formats."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from jaato_gc import (
    GCConfigError,
    GCPluginError,
    GCSession,
    PluginRegistry,
    load_gc_from_file,
    load_gc_inline,
)
from jaato_gc.plugin import Settings, StrategyInfo, hookimpl
from jaato_gc_testing import OldestFirst, new_session


class AlarmSettings(Settings):
    """Options of an observer."""

    above_percent: float = 90.0
    channels: tuple[str, ...] = ()
    log_file: Path | None = None


class Alarm:
    """An observer whose options have a model."""

    def __init__(self) -> None:
        self.settings = AlarmSettings()
        self.configured = 0

    @hookimpl
    def jaato_gc_register_options(self) -> type[BaseModel]:
        return AlarmSettings

    @hookimpl
    def jaato_gc_configure(self, options: AlarmSettings) -> None:
        self.settings = options
        self.configured += 1


class Loose:
    """An observer whose options have no model."""

    options: Any = None

    @hookimpl
    def jaato_gc_configure(self, options: dict[str, Any]) -> None:
        self.options = options


class Silent:
    """A strategy plugin without options."""

    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo(OldestFirst.name, OldestFirst)]


@pytest.fixture
def alarm() -> Alarm:
    return Alarm()


@pytest.fixture
def loose() -> Loose:
    return Loose()


@pytest.fixture
def registry(alarm: Alarm, loose: Loose) -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    registry.register(alarm, "my_alarm")
    registry.register(loose, "loose")
    registry.register(Silent(), "silent")
    return registry


def write(folder: Path, **document: Any) -> Path:
    path = folder / "gc.json"
    path.write_text(json.dumps({"type": "oldest", **document}), encoding="utf-8")
    return path


# --- from code ---


def test_jaato_gc_configure_gets_the_validated_options(
    registry: PluginRegistry, alarm: Alarm
) -> None:
    registry.configure({"my_alarm": {"above_percent": 70.0, "channels": ("ops",)}})

    assert alarm.settings == AlarmSettings(above_percent=70.0, channels=("ops",))


@pytest.mark.parametrize("name", ["my_alarm", "my-alarm", "MY.ALARM"])
def test_a_plugin_is_named_in_any_spelling(
    registry: PluginRegistry, alarm: Alarm, name: str
) -> None:
    registry.configure({name: {"above_percent": 70.0}})

    assert alarm.settings.above_percent == 70.0


def test_a_plugin_without_a_model_gets_its_options_unchanged(
    registry: PluginRegistry, loose: Loose
) -> None:
    options = {"any": ["thing"]}
    registry.configure({"loose": options})

    assert loose.options == options
    assert loose.options is not options


def test_a_plugin_without_options_of_its_own_is_not_configured(
    registry: PluginRegistry, alarm: Alarm, loose: Loose
) -> None:
    registry.configure({"my_alarm": {}})

    assert alarm.configured == 1
    assert loose.options is None


def test_an_unknown_plugin_is_an_error_that_lists_those_with_options(
    registry: PluginRegistry,
) -> None:
    with pytest.raises(GCConfigError) as caught:
        registry.configure({"my_alam": {}})
    assert str(caught.value) == "options for plugin 'my_alam': did you mean 'my_alarm'?"

    with pytest.raises(GCConfigError) as caught:
        registry.configure({"zzz": {}})
    assert str(caught.value) == (
        "options for plugin 'zzz': no such plugin is installed; plugins are loose, my_alarm, silent"
    )


def test_a_plugin_that_takes_no_options_is_an_error(registry: PluginRegistry) -> None:
    with pytest.raises(GCConfigError, match=r"plugin 'silent' of this process takes no options"):
        registry.configure({"silent": {"depth": 3}})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"above": 3.0}, "unknown key 'above'"),
        ({"above_percent": "3"}, "above_percent='3': input should be a valid number"),
        ([], "must be an object of options"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_the_plugin_and_configures_none(
    registry: PluginRegistry, alarm: Alarm, loose: Loose, options: Any, expected: str
) -> None:
    with pytest.raises(GCConfigError) as caught:
        registry.configure({"loose": {"a": 1}, "my_alarm": options})

    assert str(caught.value).startswith("options for plugin 'my_alarm': ")
    assert expected in str(caught.value)
    assert alarm.configured == 0
    assert loose.options is None


def test_a_plugin_that_can_not_use_its_options_is_an_error_with_the_cause() -> None:
    class Failing:
        @hookimpl
        def jaato_gc_configure(self, options: dict[str, Any]) -> None:
            raise OSError(f"no disk left for {options}")

    registry = PluginRegistry(load_installed=False)
    registry.register(Failing(), "failing")

    with pytest.raises(GCPluginError, match=r"plugin 'failing' .*jaato_gc_configure: OSError: no"):
        registry.configure({"failing": {}})


def test_a_name_that_two_plugins_have_is_an_error_that_names_both(registry: PluginRegistry) -> None:
    registry.register(Loose(), "loose")

    with pytest.raises(GCConfigError, match=r"several plugins have this name"):
        registry.configure({"loose": {}})


def test_jaato_gc_register_options_that_returns_something_else_is_broken() -> None:
    class Nonsense:
        @hookimpl
        def jaato_gc_register_options(self) -> Any:
            return {"depth": int}

    registry = PluginRegistry(load_installed=False)

    with pytest.raises(GCPluginError, match="expected a class of a pydantic model, got"):
        registry.register(Nonsense(), "nonsense")


def test_the_model_of_a_plugin_is_listed(registry: PluginRegistry) -> None:
    listed = {plugin.name: plugin.options_model for plugin in registry.plugins()}

    assert listed == {"my_alarm": AlarmSettings, "loose": None, "silent": None}


# --- from a file ---


def test_a_file_configures_plugins(
    tmp_path: Path, registry: PluginRegistry, alarm: Alarm, loose: Loose
) -> None:
    path = write(
        tmp_path,
        plugins={"my_alarm": {"channels": ["ops"], "log_file": "a.log"}, "loose": {"a": [1]}},
    )
    loaded = load_gc_from_file(path, registry=registry)

    assert loaded
    assert alarm.settings == AlarmSettings(channels=("ops",), log_file=Path("a.log"))
    assert loose.options == {"a": [1]}
    session = new_session(*loaded, registry=registry)
    assert isinstance(session, GCSession)


def test_the_second_form_of_a_file_configures_plugins(
    tmp_path: Path, registry: PluginRegistry, alarm: Alarm
) -> None:
    path = tmp_path / "gc.json"
    document = {"plugin": "oldest", "plugins": {"my_alarm": {"above_percent": 70}}, "config": {}}
    path.write_text(json.dumps(document), encoding="utf-8")
    load_gc_from_file(path, registry=registry)

    assert alarm.settings.above_percent == 70.0


def test_an_inline_block_configures_plugins_with_values_of_code(
    registry: PluginRegistry, alarm: Alarm
) -> None:
    def load(channels: Any) -> None:
        block = {"type": "oldest", "plugins": {"my_alarm": {"channels": channels}}}
        load_gc_inline({"gc": block}, registry)

    load(("ops",))
    assert alarm.settings.channels == ("ops",)
    with pytest.raises(GCConfigError, match="channels"):
        load(["ops"])


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"zzz": {}}, "options for plugin 'zzz': no such plugin is installed"),
        ({"my_alarm": {"above": 1}}, "options for plugin 'my_alarm': unknown key 'above'"),
        ({"my_alarm": 3}, "plugins.my_alarm=3: input should be an object"),
        ([], "plugins=[]: input should be an object"),
    ],
)
def test_wrong_options_in_a_file_are_an_error_that_names_the_file(
    tmp_path: Path, registry: PluginRegistry, alarm: Alarm, plugins: Any, expected: str
) -> None:
    path = write(tmp_path, plugins=plugins)
    with pytest.raises(GCConfigError) as caught:
        load_gc_from_file(path, registry=registry)

    assert str(caught.value).startswith(f"{path}: {expected}")
    assert alarm.configured == 0


def test_options_are_not_delivered_if_the_strategy_can_not_be_used(
    tmp_path: Path, registry: PluginRegistry, alarm: Alarm
) -> None:
    path = write(tmp_path, type="zzz", plugins={"my_alarm": {}})
    with pytest.raises(GCPluginError):
        load_gc_from_file(path, registry=registry)

    assert alarm.configured == 0
