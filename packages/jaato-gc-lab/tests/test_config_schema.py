"""The JSON schema of gc.json accepts what the loader accepts, and refuses what it refuses."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from cli_samples import run
from jsonschema import Draft202012Validator

from jaato_gc import GCConfigError, GCPluginError, PluginRegistry, load_gc_from_file
from jaato_gc.plugin import StrategyInfo, hookimpl
from jaato_gc_lab._config_schema import config_schema
from jaato_gc_testing import OldestFirst

VALID: list[dict[str, Any]] = [
    {},
    {"$schema": "./gc.schema.json"},
    {"type": "hybrid", "max_turns": None, "summarize_middle_turns": 10, "plugin_config": {}},
    {"plugin": "gc_budget", "config": {"target_percent": 60.0, "notify_on_gc": True}},
    {"$schema": "s", "plugin": "budget", "config": {"max_result_tokens": 900}, "max_turns": 40},
    {"type": "gc_marksweep", "tools": {"read": ["fetch_source"]}, "pinned_turn_indices": [0]},
    {"type": "gc_truncate", "plugin": "truncate", "pressure_percent": None},
    {"type": "budget", "plugin_config": {"max_result_tokens": 900, "threshold_percent": 70}},
    {"type": "summarize", "extractive": True, "on_summarizer_error": "truncate"},
    {"type": "truncate", "target_percent": 0, "pressure_percent": 0, "cold_percent": 1},
    {"type": "truncate", "plugins": {}, "notify_on_gc": False},
]
INVALID: list[dict[str, Any]] = [
    {"type": "nothing"},
    {"type": "budget", "plugin": "truncate"},
    {"type": "budget", "colour": "red"},
    {"plugin": "budget", "config": {"colour": "red"}},
    {"type": "budget", "plugin_config": {"colour": "red"}},
    {"type": "truncate", "max_result_tokens": 900},
    {"type": "budget", "max_result_tokens": 0},
    {"threshold_percent": 0.8},
    {"threshold_percent": 0},
    {"threshold_percent": 101},
    {"pressure_percent": 0.9},
    {"preserve_recent_turns": -1},
    {"preserve_recent_turns": "5"},
    {"auto_trigger": 1},
    {"target_percent": None},
    {"pinned_turn_indices": [-1]},
    {"type": "marksweep", "tools": {"fetch": ["fetch_source"]}},
    {"type": "summarize", "extractive": True, "on_summarizer_error": "guess"},
    {"plugin": "budget", "config": []},
]


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    return Draft202012Validator(config_schema())


@pytest.fixture(autouse=True)
def _without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THRESHOLD", "TARGET", "PRESSURE"):
        monkeypatch.delenv(f"JAATO_GC_{name}", raising=False)


def file_of(folder: Path, document: dict[str, Any]) -> Path:
    file = folder / "gc.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


@pytest.mark.parametrize("document", VALID, ids=json.dumps)
def test_a_document_that_loads_is_valid(
    document: dict[str, Any],
    validator: Draft202012Validator,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "jaato_gc"):
        assert load_gc_from_file(file_of(tmp_path, document))

    assert [error.message for error in validator.iter_errors(document)] == []
    assert caplog.messages == []


@pytest.mark.parametrize("document", INVALID, ids=json.dumps)
def test_a_document_that_does_not_load_is_invalid(
    document: dict[str, Any], validator: Draft202012Validator, tmp_path: Path
) -> None:
    with pytest.raises((GCConfigError, GCPluginError)):
        load_gc_from_file(file_of(tmp_path, document))

    assert list(validator.iter_errors(document))


def test_keys_that_have_no_effect_are_marked_as_deprecated(
    validator: Draft202012Validator,
) -> None:
    assert validator.is_valid({"type": "budget", "media_bytes_threshold": 1})
    keys = validator.schema["$defs"]["gc_budget"]["properties"]
    assert keys["media_bytes_threshold"]["deprecated"]


def test_the_schema_is_a_schema_and_describes_every_setting(
    validator: Draft202012Validator,
) -> None:
    Draft202012Validator.check_schema(validator.schema)

    for name, definition in validator.schema["$defs"].items():
        if name.endswith(".settings"):
            for key, value in definition["properties"].items():
                assert value.get("description") or "$ref" in value, key


def test_the_command_prints_the_schema() -> None:
    assert json.loads(run("config", "schema").stdout) == config_schema()


def test_a_strategy_without_a_model_has_any_option() -> None:
    class Plugin:
        @hookimpl
        def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
            return [StrategyInfo("acme", OldestFirst, "Removes the oldest turns.")]

    registry = PluginRegistry(load_installed=False)
    registry.register(Plugin(), "acme")
    validator = Draft202012Validator(config_schema(registry))

    assert validator.is_valid({"type": "acme", "colour": "red", "max_turns": 3})
    assert not validator.is_valid({"type": "acme", "max_turns": 0})
    assert not validator.is_valid({"type": "budget"})
