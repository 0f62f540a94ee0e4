"""Configuration from files, profiles and inline code, and the errors for invalid ones."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from jaato_gc import (
    GCConfig,
    GCConfigError,
    GCError,
    GCPlugin,
    GCPluginError,
    GCProfileConfig,
    PluginRegistry,
    load_gc_from_file,
    load_gc_from_profile,
    load_gc_inline,
)
from jaato_gc.plugin import Collection, GCStrategy, StrategyInfo, StrategySettings, hookimpl
from jaato_gc_testing import ScriptedPlugin


class StrictSettings(StrategySettings):
    depth: int = Field(default=1, ge=1)


class Strict(GCStrategy[StrictSettings]):
    """A strategy with a model of its options."""

    name = "gc_strict"
    settings_model = StrictSettings

    def select(self, collection: Collection) -> None:
        raise NotImplementedError


class Loose(ScriptedPlugin):
    """A plugin without a model of its options and without the base class."""

    name = "gc_loose"
    options: dict[str, Any]

    def __init__(self) -> None:
        super().__init__(lambda history: history)

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        self.options = config or {}


class Truncate(Loose):
    """The default strategy."""

    name = "gc_truncate"


class Offers:
    """A plugin with some strategies."""

    def __init__(self, *infos: StrategyInfo) -> None:
        self.infos = infos

    @hookimpl
    def jaato_gc_register_strategies(self) -> tuple[StrategyInfo, ...]:
        return self.infos


@pytest.fixture
def registry() -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    offers = Offers(
        StrategyInfo("gc_strict", Strict, config_model=StrictSettings),
        StrategyInfo("gc_loose", Loose),
        StrategyInfo("gc_truncate", Truncate),
    )
    registry.register(offers, "samples")
    return registry


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gc.json"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without files."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setattr(Path, "home", lambda: folder)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THRESHOLD", "TARGET", "PRESSURE"):
        monkeypatch.delenv(f"JAATO_GC_{name}", raising=False)


def load(
    file: Path, document: object, registry: PluginRegistry | None = None
) -> tuple[GCPlugin, GCConfig]:
    """Writes a document and loads it: text and bytes as they are, anything else as JSON."""
    if isinstance(document, bytes):
        file.write_bytes(document)
    else:
        text = document if isinstance(document, str) else json.dumps(document)
        file.write_text(text, encoding="utf-8")
    loaded = load_gc_from_file(file, registry=registry)
    assert loaded is not None
    return loaded


def options_of(plugin: GCPlugin) -> dict[str, Any]:
    assert isinstance(plugin, Loose)
    return plugin.options


# --- the shapes of a file ---


def test_the_flat_shape(file: Path, registry: PluginRegistry) -> None:
    plugin, config = load(
        file,
        {
            "type": "loose",
            "threshold_percent": 70.0,
            "preserve_recent_turns": 3,
            "notify_on_gc": True,
            "summarize_middle_turns": 10,
            "max_turns": None,
            "plugin_config": {},
        },
        registry,
    )

    assert plugin.name == "gc_loose"
    assert config == GCConfig(
        threshold_percent=70.0, preserve_recent_turns=3, max_turns=None, plugin_config={}
    )
    assert options_of(plugin) == {"notify_on_gc": True, "summarize_middle_turns": 10}


def test_the_nested_shape(file: Path, registry: PluginRegistry) -> None:
    plugin, config = load(
        file,
        {"plugin": "gc_loose", "config": {"target_percent": 50.0, "notify_on_gc": True}},
        registry,
    )

    assert plugin.name == "gc_loose"
    assert config == GCConfig(target_percent=50.0)
    assert options_of(plugin) == {"notify_on_gc": True}


SETTINGS: dict[str, Any] = {"threshold_percent": 70, "pressure_percent": 0, "depth": 3}


@pytest.mark.parametrize("name", ["strict", "gc_strict"])
def test_both_shapes_mean_the_same(file: Path, registry: PluginRegistry, name: str) -> None:
    flat, flat_config = load(file, {"type": name, **SETTINGS}, registry)
    nested, nested_config = load(file, {"plugin": name, "config": SETTINGS}, registry)

    assert isinstance(flat, Strict)
    assert isinstance(nested, Strict)
    assert flat.settings == nested.settings == StrictSettings(depth=3, notify_on_gc=True)
    assert flat_config == nested_config == GCConfig(threshold_percent=70, pressure_percent=0)


@pytest.mark.parametrize(
    "document",
    [
        {"type": "gc_loose", "plugin": "loose"},
        {"type": "loose", "plugin": "gc_loose", "config": {}},
        {"plugin": "loose"},
        {"type": "loose", "config": {}},
    ],
)
def test_a_strategy_may_be_named_in_either_key_or_the_same_in_both(
    file: Path, registry: PluginRegistry, document: object
) -> None:
    assert load(file, document, registry)[0].name == "gc_loose"


def test_truncate_is_the_default_strategy(file: Path, registry: PluginRegistry) -> None:
    assert load(file, {}, registry)[0].name == "gc_truncate"


def test_notifications_are_on_unless_switched_off(file: Path, registry: PluginRegistry) -> None:
    strict, _ = load(file, {"type": "strict"}, registry)
    quiet, _ = load(file, {"type": "strict", "notify_on_gc": False}, registry)
    nested, _ = load(file, {"type": "strict", "plugin_config": {"notify_on_gc": False}}, registry)
    loose, _ = load(file, {"type": "loose"}, registry)

    assert isinstance(strict, Strict)
    assert isinstance(quiet, Strict)
    assert isinstance(nested, Strict)
    assert strict.settings.notify_on_gc
    assert not quiet.settings.notify_on_gc
    assert not nested.settings.notify_on_gc
    assert options_of(loose) == {"notify_on_gc": True}
    assert GCProfileConfig().notify_on_gc


def test_notifications_of_a_strategy_that_is_created_in_code_are_off() -> None:
    assert not Strict().settings.notify_on_gc


def test_a_plugin_whose_options_have_no_notification_gets_none(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Depth(BaseModel):
        depth: int = 1

    registry = PluginRegistry(load_installed=False)
    registry.register(Offers(StrategyInfo("gc_loose", Loose, config_model=Depth)), "mine")

    assert options_of(load(file, {"type": "loose", "depth": 2}, registry)[0]) == {"depth": 2}
    assert caplog.records == []


def test_a_plugin_without_a_settings_model_gets_its_options_unchanged(
    file: Path, registry: PluginRegistry
) -> None:
    document = {"type": "loose", "anything": None, "deep": {"er": [1]}, "notify_on_gc": False}
    plugin, _ = load(file, document, registry)

    assert options_of(plugin) == {"anything": None, "deep": {"er": [1]}, "notify_on_gc": False}


def test_plugin_config_overrides_the_same_key_outside(file: Path, registry: PluginRegistry) -> None:
    plugin, _ = load(file, {"type": "loose", "depth": 1, "plugin_config": {"depth": 2}}, registry)

    assert options_of(plugin)["depth"] == 2


def test_a_setting_of_the_session_in_plugin_config_overrides_the_one_outside(
    file: Path, registry: PluginRegistry
) -> None:
    document = {
        "type": "strict",
        "preserve_recent_turns": 5,
        "plugin_config": {"preserve_recent_turns": 9},
    }
    plugin, config = load(file, document, registry)

    assert isinstance(plugin, Strict)
    assert config.merged(plugin.overrides).preserve_recent_turns == 9


def test_a_file_overrides_the_environment(
    file: Path, registry: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "70")

    assert load(file, {"threshold_percent": 90}, registry)[1].threshold_percent == 90
    assert load(file, {}, registry)[1].threshold_percent == 70


def test_a_byte_order_mark_is_accepted(file: Path, registry: PluginRegistry) -> None:
    assert load(file, b'\xef\xbb\xbf{"type": "loose"}', registry)[0].name == "gc_loose"


# --- the places of a file ---


@pytest.fixture
def places(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """All files that may be read. Their threshold says which one was."""
    files = {
        "explicit": tmp_path / "work" / "sub" / "mine.json",
        "config_root": tmp_path / "settings" / "gc.json",
        "workspace_root": tmp_path / "work" / ".jaato" / "gc.json",
        "current folder": tmp_path / "here" / ".jaato" / "gc.json",
        "home": home / ".jaato" / "gc.json",
    }
    for position, path in enumerate(files.values()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"type": "loose", "threshold_percent": 50 + position}))
    monkeypatch.chdir(tmp_path / "here")
    return files


ROOTS = {"workspace_root": "../work", "config_root": "../settings"}
SEARCHES: dict[str, tuple[dict[str, str], str]] = {
    "a relative path in the workspace": ({**ROOTS, "file_path": "sub/mine.json"}, "explicit"),
    "a relative path": ({"file_path": "../work/sub/mine.json"}, "explicit"),
    "config_root before the workspace": (ROOTS, "config_root"),
    "config_root": ({"config_root": "../settings"}, "config_root"),
    "the workspace": ({"workspace_root": "../work"}, "workspace_root"),
    "empty roots are not given": ({"workspace_root": "", "config_root": ""}, "current folder"),
    "the current folder": ({}, "current folder"),
    "home, if config_root has no file": ({**ROOTS, "config_root": "../nothing"}, "home"),
    "home, if the workspace has no file": ({"workspace_root": ".."}, "home"),
    "home, written as ~": ({"file_path": "~/.jaato/gc.json", **ROOTS}, "home"),
    "config_root in home": ({"config_root": "~/.jaato"}, "home"),
}


@pytest.mark.parametrize(("given", "expected"), SEARCHES.values(), ids=SEARCHES.keys())
def test_the_first_file_in_the_order_of_places_is_read(
    places: dict[str, Path], registry: PluginRegistry, given: dict[str, Any], expected: str
) -> None:
    loaded = load_gc_from_file(**given, registry=registry)
    as_paths: dict[str, Any] = {key: Path(value) for key, value in given.items() if value}

    assert loaded is not None
    threshold = 50 + list(places).index(expected)
    assert loaded[1].threshold_percent == threshold
    again = load_gc_from_file(**as_paths, registry=registry)
    assert again is not None
    assert again[1].threshold_percent == threshold


def test_an_absolute_path_does_not_depend_on_the_workspace(
    places: dict[str, Path], registry: PluginRegistry
) -> None:
    loaded = load_gc_from_file(places["home"], workspace_root="../work", registry=registry)

    assert loaded is not None
    assert loaded[1].threshold_percent == 54


def test_an_explicit_path_that_does_not_exist_is_not_searched_elsewhere(
    places: dict[str, Path], registry: PluginRegistry
) -> None:
    assert places["home"].exists()
    assert load_gc_from_file("missing.json", registry=registry) is None


def test_an_invalid_file_is_an_error_even_if_another_place_has_a_valid_one(
    places: dict[str, Path], registry: PluginRegistry
) -> None:
    places["workspace_root"].write_text("{")

    with pytest.raises(GCConfigError, match=r"work/\.jaato/gc\.json can't be read as JSON"):
        load_gc_from_file(workspace_root="../work", registry=registry)


def test_a_home_that_can_not_be_found_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless(*_arguments: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(Path, "expanduser", homeless)
    monkeypatch.chdir(tmp_path)

    assert load_gc_from_file() is None
    assert load_gc_from_file(config_root="~/settings") is None
    assert load_gc_from_file("~/gc.json") is None


def test_a_home_that_can_not_be_entered_is_skipped(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstat = Path.lstat

    def refuse_home(path: Path) -> os.stat_result:
        if home in path.parents:
            raise PermissionError(13, "Permission denied")
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", refuse_home)
    monkeypatch.chdir(tmp_path)

    assert load_gc_from_file() is None


def test_the_name_of_an_agent_is_in_errors_and_log_records(
    file: Path, registry: PluginRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jaato_gc")
    load(file, {"type": "loose"}, registry)
    load_gc_from_file(file, "research", registry=registry)

    assert caplog.messages == [
        f"{file} configures gc_loose",
        f"agent 'research': {file} configures gc_loose",
    ]
    for content in ("{", '{"type": "strict", "dept": 1}', '{"type": "unknown"}'):
        file.write_text(content)
        with pytest.raises(GCError) as caught:
            load_gc_from_file(file, "research", registry=registry)
        assert str(caught.value).startswith(f"agent 'research': {file}")


@pytest.mark.parametrize("path", ["gc.json", "no/such/folder/gc.json"])
def test_a_missing_file_gives_none(tmp_path: Path, path: str) -> None:
    assert load_gc_from_file(tmp_path / path) is None
    assert load_gc_from_file(str(tmp_path / path)) is None


def test_a_path_below_a_file_gives_none(file: Path) -> None:
    file.touch()

    assert load_gc_from_file(file / "gc.json") is None


# --- invalid files ---

CONFIG_MISTAKES = {
    "broken JSON": ('{"type": "loose",}', ["can't be read as JSON", "line 1 column "]),
    "broken JSON further down": ('{\n"type": loose}', ["can't be read as JSON", "line 2 column 9"]),
    "cut off": ('{"type": "loo', ["can't be read as JSON", "line 1 column "]),
    "empty": ("", ["can't be read as JSON", "line 1 column 1"]),
    "single quotes": ("{'type': 'loose'}", ["can't be read as JSON", "line 1 column 2"]),
    "not UTF-8": (b'{"type": "\xff"}', ["can't be read as JSON", "'utf-8'", "position 10"]),
    "UTF-16": (
        '{"type": "loose"}'.encode("utf-16"),
        ["can't be read as JSON", "'utf-8'", "position 0"],
    ),
    "NUL bytes": (bytes(64), ["can't be read as JSON"]),
    "a list": ("[]", ['must hold a JSON object, such as {"type": "truncate"}']),
    "null": ("null", ["must hold a JSON object"]),
    "a string": ('"truncate"', ["must hold a JSON object"]),
    "a number": ("1", ["must hold a JSON object"]),
    "nested too deeply": ("[" * 200_000, ["can't be read as JSON"]),
    "deep value": (
        {"threshold_percent": json.loads("[" * 500 + "]" * 500)},
        ["recursion limit exceeded"],
    ),
    "endless number": ('{"max_turns": ' + "1" * 5000 + "}", ["5000 digits"]),
    "duplicate key": ('{"type": "loose", "type": "strict"}', ["'type' is given twice", "keep one"]),
    "duplicate key inside": (
        '{"plugin_config": {"depth": 1, "depth": 2}}',
        ["'depth' is given twice", "keep one"],
    ),
    "wrong type": ({"threshold_percent": "80"}, ["threshold_percent='80'", "valid number"]),
    "wrong type of bool": ({"auto_trigger": 1}, ["auto_trigger=1", "valid boolean"]),
    "null for a number": (
        {"target_percent": None},
        ["target_percent=None", "valid number; leave the key out to use its default"],
    ),
    "null for an object": (
        {"plugin_config": None},
        ["plugin_config=None", "an object; leave the key out to use its default"],
    ),
    "null for an option": (
        {"type": "strict", "depth": None},
        ["depth=None", "valid integer; leave the key out to use its default"],
    ),
    "type is a number": ({"type": 5}, ["type=5", "valid string"]),
    "plugin is a number": ({"plugin": 5}, ["plugin=5", "name of a strategy"]),
    "plugin_config is a list": ({"plugin_config": []}, ["plugin_config=[]", "should be an object"]),
    "config is a list": ({"config": []}, ["config=[]", "must be an object"]),
    "config is null": ({"plugin": "loose", "config": None}, ["config=None", "must be an object"]),
    "not a number": ('{"threshold_percent": NaN}', ["threshold_percent=nan", "finite number"]),
    "infinite": ('{"threshold_percent": 1e999}', ["threshold_percent=inf", "finite number"]),
    "fraction": ({"threshold_percent": 0.8}, ["threshold_percent=0.8", "did you mean 80?"]),
    "fraction inside": (
        {"plugin": "strict", "config": {"target_percent": 0.25}},
        ["target_percent=0.25", "did you mean 25?"],
    ),
    "fraction in plugin_config": (
        {"type": "strict", "plugin_config": {"pressure_percent": 0.9}},
        ["pressure_percent=0.9", "did you mean 90?"],
    ),
    "out of range": ({"threshold_percent": 150}, ["threshold_percent=150", "equal to 100"]),
    "out of range inside": (
        {"plugin": "strict", "config": {"max_turns": 0}},
        ["max_turns=0", "greater than 0"],
    ),
    "target above threshold": (
        {"threshold_percent": 50, "target_percent": 60},
        ["target_percent=60", "threshold_percent=50", "lower the target or raise the threshold"],
    ),
    "option out of range": ({"type": "strict", "depth": 0}, ["depth=0", "equal to 1"]),
    "option of wrong type": ({"type": "strict", "depth": "2"}, ["depth='2'", "valid integer"]),
    "session's key out of range in plugin_config": (
        {"type": "strict", "plugin_config": {"threshold_percent": 150}},
        ["threshold_percent=150", "equal to 100"],
    ),
    "unknown key": (
        {"type": "strict", "treshold_percent": 70},
        ["gc_strict", "unknown key 'treshold_percent'", "did you mean 'threshold_percent'?"],
    ),
    "unknown key with null": (
        {"type": "strict", "max_turn": None},
        ["unknown key 'max_turn'", "did you mean 'max_turns'?"],
    ),
    "unknown key inside config": (
        {"plugin": "strict", "config": {"dept": 2}},
        ["unknown key 'dept'", "did you mean 'depth'?"],
    ),
    "unknown key inside plugin_config": (
        {"type": "strict", "plugin_config": {"notify": True}},
        ["unknown key 'notify'", "did you mean 'notify_on_gc'?"],
    ),
    "unknown key like no other": (
        {"type": "strict", "zzz": 1},
        ["'zzz'", "valid keys are", "depth"],
    ),
    "option of another strategy": (
        {"type": "strict", "plugin_config": {"summarize_middle_turns": 10}},
        ["gc_strict", "unknown key 'summarize_middle_turns'"],
    ),
    "unknown template field": (
        {"type": "strict", "notification_template": "Freed {tokens_fred}."},
        ["notification_template='Freed {tokens_fred}.'", "{tokens_fred}", "{tokens_freed}"],
    ),
    "template with an attribute": (
        {"type": "strict", "notification_template": "{reason.__class__}"},
        ["unknown field {reason.__class__}", "{reason}"],
    ),
    "type and plugin differ": (
        {"type": "loose", "plugin": "gc_strict"},
        ["type='loose'", "plugin='gc_strict'", "keep one of them"],
    ),
    "key inside and outside config": (
        {"plugin": "loose", "max_turns": 5, "config": {"max_turns": 5}},
        ["'max_turns' is given twice, inside and outside config", "keep one"],
    ),
    "strategy inside and outside config": (
        {"plugin": "loose", "config": {"type": "loose"}},
        ["'type' is given twice", "keep one"],
    ),
}


@pytest.mark.parametrize(
    ("document", "expected"), CONFIG_MISTAKES.values(), ids=CONFIG_MISTAKES.keys()
)
def test_a_mistake_is_one_error_with_file_key_and_remedy(
    file: Path, registry: PluginRegistry, document: object, expected: list[str]
) -> None:
    with pytest.raises(GCConfigError) as caught:
        load(file, document, registry)

    message = str(caught.value)
    assert message.startswith(str(file))
    assert message.count(str(file)) == 1
    assert [words for words in expected if words not in message] == []
    assert len(message) < len(str(file)) + 500


PLUGIN_MISTAKES = {
    "unknown strategy": ("strickt", ["unknown strategy 'strickt'", "did you mean 'gc_strict'?"]),
    "unknown strategy like no other": ("zzz", ["unknown strategy 'zzz'", "gc_loose", "gc_strict"]),
    "no name": ("", ["unknown strategy ''", "installed strategies are gc_loose"]),
    "not installed": ("hybrid", ["'hybrid' is not installed", "pip install jaato-gc-hybrid"]),
    "not installed, full name": ("gc_budget", ["'gc_budget'", "pip install jaato-gc-budget"]),
}


@pytest.mark.parametrize("key", ["type", "plugin"])
@pytest.mark.parametrize(("name", "expected"), PLUGIN_MISTAKES.values(), ids=PLUGIN_MISTAKES.keys())
def test_an_unavailable_strategy_is_an_error_with_file_name_and_remedy(
    file: Path, registry: PluginRegistry, key: str, name: str, expected: list[str]
) -> None:
    with pytest.raises(GCPluginError) as caught:
        load(file, {key: name}, registry)

    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert [words for words in expected if words not in message] == []


def test_a_misspelled_name_of_a_strategy_that_is_not_installed_is_corrected(file: Path) -> None:
    with pytest.raises(GCPluginError, match=r"did you mean 'summarize'.* strategies are none"):
        load(file, {"type": "sumarize"}, PluginRegistry(load_installed=False))


@pytest.mark.parametrize("kind", [GCConfigError, RuntimeError])
def test_the_cause_of_a_failing_strategy_is_kept(file: Path, kind: type[Exception]) -> None:
    class Failing(Loose):
        def initialize(self, config: dict[str, Any] | None = None) -> None:
            super().initialize(config)
            raise kind("boom") from KeyError("the root of it")

    registry = PluginRegistry(load_installed=False)
    registry.register(Offers(StrategyInfo("gc_failing", Failing)), "failing")

    with pytest.raises(GCError, match="boom") as caught:
        load(file, {"type": "failing"}, registry)

    assert str(caught.value).startswith(f"{file}: ")
    assert caught.value.__cause__ is not None


def test_a_bad_environment_value_is_an_error_with_its_name(
    file: Path, registry: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_TARGET", "sixty")

    with pytest.raises(GCConfigError, match=r"JAATO_GC_TARGET='sixty'.*unset it"):
        load(file, {"type": "loose"}, registry)


def test_a_fraction_in_the_environment_is_an_error_that_names_file_and_variable(
    file: Path, registry: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "0.8")

    with pytest.raises(GCConfigError, match=r"JAATO_GC_THRESHOLD='0.8'.*did you mean 80\?"):
        load(file, {"type": "loose"}, registry)


def test_a_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GCConfigError, match="is not a regular file: name a JSON file") as caught:
        load_gc_from_file(tmp_path)

    assert str(caught.value).startswith(str(tmp_path))


def test_an_absurdly_large_file_is_an_error(file: Path) -> None:
    file.write_bytes(b" " * 2_000_000)

    with pytest.raises(GCConfigError, match=r"has 2000000 bytes.*is it another file") as caught:
        load_gc_from_file(file)

    assert str(caught.value).startswith(str(file))


def test_a_broken_symbolic_link_is_an_error(file: Path) -> None:
    file.symlink_to("nowhere.json")

    with pytest.raises(GCConfigError, match="can't be read") as caught:
        load_gc_from_file(file)

    assert str(file) in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_without_permission_is_an_error(file: Path) -> None:
    file.touch(0o000)

    with pytest.raises(GCConfigError, match="can't be read: Permission denied"):
        load_gc_from_file(file)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "I/O")])
def test_a_file_whose_status_can_not_be_read_is_an_error(
    file: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_args: object, **_options: object) -> os.stat_result:
        raise error

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "lstat", refuse)

    with pytest.raises(GCConfigError, match=f"can't be read: {error.strerror}"):
        load_gc_from_file(file)


@pytest.mark.parametrize("path", ["x" * 5000, "gc\0.json"])
def test_an_impossible_path_is_an_error(path: str) -> None:
    with pytest.raises(GCConfigError, match="can't be read"):
        load_gc_from_file(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=10,
)
some_keys = st.sampled_from([*GCProfileConfig.model_fields, "plugin", "config", "depth"])
documents = json_values | st.dictionaries(some_keys | st.text(), json_values)


def is_loaded_or_explained(file: Path, document: str | bytes, registry: PluginRegistry) -> bool:
    try:
        load(file, document, registry)
    except GCError as error:
        return str(error).startswith(str(file))
    return True


@given(document=documents)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_document_gives_a_strategy_or_one_kind_of_error(
    file: Path, registry: PluginRegistry, document: object
) -> None:
    assert is_loaded_or_explained(file, json.dumps(document), registry)


@given(content=st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_a_strategy_or_one_kind_of_error(
    file: Path, registry: PluginRegistry, content: bytes
) -> None:
    assert is_loaded_or_explained(file, content, registry)


# --- profiles ---


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    folder = tmp_path / "profiles"
    folder.mkdir()
    documents = {
        "research": {"name": "research", "gc": {"type": "loose", "threshold_percent": 75.0}},
        "file-2": {"name": "writer", "plugins": ["cli"], "gc": {"plugin": "strict"}},
        "bare": {"name": "bare", "plugins": []},
        "null": {"name": "null", "gc": None},
        "bad": {"name": "bad", "gc": {"type": "strict", "treshold_percent": 75.0}},
        "listed": {"name": "listed", "gc": ["loose"]},
        "array": [],
    }
    for stem, document in documents.items():
        (folder / f"{stem}.json").write_text(json.dumps(document))
    return folder


def test_a_profile_is_found_by_its_file_name(profiles: Path, registry: PluginRegistry) -> None:
    loaded = load_gc_from_profile("research", profiles, registry)

    assert loaded is not None
    plugin, config = loaded
    assert plugin.name == "gc_loose"
    assert config == GCConfig(threshold_percent=75.0)


def test_a_profile_is_found_by_the_name_in_it(profiles: Path, registry: PluginRegistry) -> None:
    (profiles / "array.json").unlink()

    loaded = load_gc_from_profile("writer", profiles, registry)

    assert loaded is not None
    assert loaded[0].name == "gc_strict"


def test_a_profile_is_found_by_its_path(profiles: Path, registry: PluginRegistry) -> None:
    loaded = load_gc_from_profile(profiles / "file-2.json", registry=registry)

    assert loaded is not None
    assert loaded[0].name == "gc_strict"


def test_profiles_are_found_in_the_current_folder(
    tmp_path: Path, profiles: Path, registry: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".jaato").mkdir()
    profiles.rename(tmp_path / ".jaato" / "profiles")
    monkeypatch.chdir(tmp_path)

    assert load_gc_from_profile("research", registry=registry) is not None


@pytest.mark.parametrize("name", ["bare", "null"])
def test_a_profile_without_a_gc_block_is_none(
    profiles: Path, registry: PluginRegistry, name: str
) -> None:
    assert load_gc_from_profile(name, profiles, registry) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bad", "bad.json: gc: gc_strict: unknown key 'treshold_percent': did you mean"),
        ("listed", "listed.json: gc=['loose']: must be an object of settings"),
        ("array", "array.json must hold a JSON object"),
    ],
)
def test_a_mistake_in_a_profile_is_an_error_with_its_file(
    profiles: Path, registry: PluginRegistry, name: str, expected: str
) -> None:
    with pytest.raises(GCConfigError) as caught:
        load_gc_from_profile(name, profiles, registry)

    assert str(caught.value).startswith(f"{profiles}{os.sep}{expected}")


def test_a_missing_profile_is_an_error_that_lists_the_existing_ones(
    profiles: Path, registry: PluginRegistry
) -> None:
    (profiles / "array.json").unlink()

    with pytest.raises(
        GCConfigError, match=r"'missing' does not exist.*bad, bare, file-2"
    ) as caught:
        load_gc_from_profile("missing", profiles, registry)

    assert str(profiles) in str(caught.value)


def test_a_missing_profile_in_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GCConfigError, match=r"'missing' does not exist in .*nowhere: it has none"):
        load_gc_from_profile("missing", tmp_path / "nowhere")


# --- inline ---


def test_inline_code_is_read_like_a_file(registry: PluginRegistry) -> None:
    loaded = load_gc_inline(
        {"gc": {"type": "loose", "threshold_percent": 5.0, "depth": 3}}, registry
    )

    assert loaded is not None
    plugin, config = loaded
    assert options_of(plugin) == {"depth": 3, "notify_on_gc": True}
    assert config == GCConfig(threshold_percent=5.0)
    assert config.target_percent == 3.75


def test_truncate_is_the_default_strategy_of_inline_code(registry: PluginRegistry) -> None:
    loaded = load_gc_inline({"gc": {}}, registry)

    assert loaded is not None
    assert loaded[0].name == "gc_truncate"


@pytest.mark.parametrize("nothing", [{}, {"gc": None}, {"plugins": ["cli"]}])
def test_inline_code_without_a_gc_block_is_none(nothing: dict[str, Any]) -> None:
    assert load_gc_inline(nothing) is None


def test_inline_code_accepts_values_that_json_does_not_have(registry: PluginRegistry) -> None:
    loaded = load_gc_inline({"gc": {"type": "loose", "summarizer": str.upper}}, registry)

    assert loaded is not None
    assert options_of(loaded[0])["summarizer"] is str.upper


@pytest.mark.parametrize(
    ("inline", "expected"),
    [
        ({"gc": {"type": "strict", "dept": 1}}, "inline config: gc: gc_strict: unknown key 'dept'"),
        ({"gc": {"max_turns": 0}}, "inline config: gc: max_turns=0: "),
        ({"gc": {5: 5}}, "inline config: gc: 5=5: keys should be strings"),
        ({"gc": "truncate"}, "inline config: gc='truncate': must be an object of settings"),
        ({"gc": False}, "inline config: gc=False: must be an object of settings"),
        ("gc", "inline config: 'gc' must be an object with a 'gc' block"),
    ],
)
def test_a_mistake_in_inline_code_is_one_error(
    registry: PluginRegistry, inline: Any, expected: str
) -> None:
    with pytest.raises(GCConfigError) as caught:
        load_gc_inline(inline, registry)

    assert str(caught.value).startswith(expected)


# --- files of jaato-server ---

JAATO_KEYS: dict[str, Any] = {
    "type": "loose",
    "threshold_percent": 80.0,
    "target_percent": 60.0,
    "pressure_percent": 90.0,
    "preserve_recent_turns": 5,
    "notify_on_gc": True,
    "summarize_middle_turns": 10,
    "max_turns": None,
    "plugin_config": {},
    "media_bytes_threshold": 8388608,
    "evict_consumed_media": True,
    "media_evict_mime_prefixes": ["audio/"],
}


def test_a_file_with_every_key_of_jaato_server_is_loaded_with_one_warning(
    file: Path, registry: PluginRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, config = load(file, JAATO_KEYS, registry)

    shared = {key: JAATO_KEYS[key] for key in JAATO_KEYS if key in GCConfig.model_fields}
    assert config == GCConfig(**shared)
    assert options_of(plugin) == {"notify_on_gc": True, "summarize_middle_turns": 10}
    assert caplog.messages == [
        f"{file}: these keys have no effect with gc_loose and can be removed: "
        "media_bytes_threshold, evict_consumed_media, media_evict_mime_prefixes"
    ]


def test_the_strategy_of_a_file_of_jaato_server_is_changed_in_one_line(
    file: Path, registry: PluginRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, _ = load(file, {**JAATO_KEYS, "type": "strict"}, registry)

    assert plugin.name == "gc_strict"
    [message] = caplog.messages
    assert "gc_strict" in message
    assert "summarize_middle_turns" in message


@pytest.mark.parametrize("document", [{"type": "strict"}, {"summarize_middle_turns": None}])
def test_a_file_without_superfluous_keys_is_loaded_without_a_warning(
    file: Path,
    registry: PluginRegistry,
    caplog: pytest.LogCaptureFixture,
    document: dict[str, Any],
) -> None:
    load(file, document, registry)

    assert caplog.messages == []


# --- the profile itself ---


def test_a_profile_is_made_from_either_shape_of_a_gc_block() -> None:
    flat = GCProfileConfig.from_dict({"type": "loose", "max_turns": 9, "depth": 2})
    nested = GCProfileConfig.from_dict({"plugin": "loose", "config": {"max_turns": 9, "depth": 2}})

    assert flat == nested == GCProfileConfig(type="loose", max_turns=9, depth=2)
    assert GCProfileConfig.from_dict({}) == GCProfileConfig()


@pytest.mark.parametrize("document", [None, 5, [("type", "loose")], "loose"])
def test_a_gc_block_that_is_not_an_object_is_an_error(document: Any) -> None:
    with pytest.raises(GCConfigError, match="must be an object of settings"):
        GCProfileConfig.from_dict(document)


def test_a_profile_is_split_between_session_and_strategy() -> None:
    profile = GCProfileConfig.model_validate(
        {"type": "loose", "max_turns": 9, "notify_on_gc": False, "depth": 2}
    )

    assert profile.to_gc_config().given() == {"max_turns": 9}
    assert profile.to_plugin_config() == {"notify_on_gc": False, "depth": 2}


def test_a_profile_can_be_used_as_the_sessions_configuration() -> None:
    profile = GCProfileConfig(type="loose", threshold_percent=70, notify_on_gc=True)

    assert profile.merged({"max_turns": 3}).given() == {"threshold_percent": 70, "max_turns": 3}
