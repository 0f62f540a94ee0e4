"""How jaato-server finds, configures and inherits the plugins.

It runs without GC, and says so only in its log, if a plugin can't be loaded or raises while it is
initialized. So every test asks jaato-server's own loader.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from jaato_host import STRATEGIES, Model, conversation, gc, new_session, use

from jaato_gc import PluginRegistry
from jaato_gc.plugin import SummarizerInfo
from jaato_gc_jaato import JaatoGCPlugin


def load(folder: Path, **document: Any) -> tuple[Any, Any]:
    """Loads a gc.json as jaato-server does. The plugin has to be there."""
    file = folder / "gc.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    loaded = gc.load_gc_from_file(str(file), agent_name="main")
    assert loaded is not None
    plugin, config = loaded
    assert isinstance(plugin, JaatoGCPlugin)
    return plugin, config


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.name == "jaato_gc_jaato"]


@pytest.mark.parametrize("name", [*STRATEGIES, "gc_marksweep"])
def test_one_line_of_a_gc_json_selects_a_strategy(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, config = load(tmp_path, type=name.removeprefix("gc_"), threshold_percent=75.0)

    assert plugin.name in gc.discover_gc_plugins()
    assert isinstance(plugin, gc.GCPlugin)
    assert config.threshold_percent == 75.0
    assert problems(caplog) == []


def test_the_plugins_of_jaato_server_stay_available() -> None:
    assert {
        "gc_truncate",
        "gc_summarize",
        "gc_hybrid",
        "gc_budget",
    } < gc.discover_gc_plugins().keys()


def test_unknown_and_invalid_options_cost_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, config = load(
        tmp_path,
        type="jg_budget",
        summarize_middle_turns=4,  # an option of another strategy
        plugin_config={
            "max_result_tokens": "many",
            "preserve_recent_groups": 1,
            "no_such_option": True,
        },
    )
    plugin.should_collect({"percent_used": 10.0}, config)
    plugin.should_collect({"percent_used": 10.0}, config)

    [warning] = problems(caplog)
    assert warning.startswith("gc_jg_budget ignores options: ")
    assert "max_result_tokens='many'" in warning
    assert "'no_such_option'" in warning
    assert "'summarize_middle_turns'" in warning
    assert "preserve_recent_groups" not in warning.partition("valid keys")[0]


def test_an_invalid_option_leaves_the_others_in_force(tmp_path: Path) -> None:
    plugin, _ = load(
        tmp_path,
        type="jg_budget",
        plugin_config={"max_result_tokens": -1, "notify_on_gc": False, "ledger_percent": 7.0},
    )

    assert plugin._strategy.settings.max_result_tokens == 2_000
    assert plugin._strategy.settings.notify_on_gc is False
    assert plugin._strategy.overrides["ledger_percent"] == 7.0


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold_percent": 0.8},
        {"threshold_percent": 50.0, "target_percent": 70.0},
        {"preserve_recent_turns": -3},
        {"max_turns": 0},
    ],
    ids=str,
)
def test_settings_that_we_refuse_get_our_default_and_one_warning(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    session = new_session(Model(2_000), conversation(10))
    use(session, "gc_jg_budget", **settings)

    session._maybe_collect_before_send()
    session._maybe_collect_before_send()

    [warning] = problems(caplog)
    assert warning.startswith("gc_jg_budget ignores settings: ")
    [*_, collected] = session.get_gc_history()
    assert collected.success


@pytest.mark.parametrize(
    ("variable", "value"),
    [("JAATO_GC_PRESSURE", "-1"), ("JAATO_GC_PRESSURE", "0.9"), ("JAATO_GC_TARGET", "0.6")],
)
def test_a_variable_that_only_jaato_server_accepts_does_not_disable_the_plugin(
    variable: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)

    plugin, config = load(tmp_path, type="jg_truncate", pressure_percent=90.0)
    due, _ = plugin.should_collect({"percent_used": 95.0}, config)

    assert due


@pytest.mark.parametrize("variable", ["JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE"])
@pytest.mark.parametrize("value", ["0.6", "101"])
def test_a_setting_that_jaato_server_reads_from_a_variable_gets_our_default_if_we_refuse_it(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, value)
    session = new_session(Model(2_000), conversation(10))
    session.set_gc_plugin(gc.load_gc_plugin("gc_jg_budget", {}), gc.GCConfig())

    session._maybe_collect_before_send()

    [warning] = problems(caplog)
    assert warning.startswith("gc_jg_budget ignores settings: ")
    [*_, collected] = session.get_gc_history()
    assert collected.success


def test_a_sub_agent_inherits_options_with_the_settings_of_its_parent() -> None:
    """jaato-server loads its plugin by name, with no options but these two."""
    parent = new_session(Model(2_000), conversation(20))
    use(parent, "gc_jg_summarize", {"extractive": True})
    inherited = {"preserve_recent_turns": 5, "agent_name": "researcher"}
    plugin = gc.load_gc_plugin(parent._gc_plugin.name, inherited)
    child = new_session(Model(2_000), conversation(20))
    child.set_gc_plugin(plugin, parent._gc_config)

    assert child.manual_gc().success


# --- summarizers ---


def summarize(text: str) -> str:
    return f"They looked at {text.count('readFile')} files."


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin with a summarizer."""
    offered = {"mine": SummarizerInfo("mine", summarize)}
    monkeypatch.setattr(PluginRegistry, "summarizers", lambda _registry: offered)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("name", ["jg_summarize", "jg_hybrid"])
def test_a_gc_json_names_a_registered_summarizer(name: str, tmp_path: Path) -> None:
    plugin, config = load(tmp_path, type=name, plugin_config={"summarizer": "mine"})
    session = new_session(Model(2_000), conversation(20))
    session.set_gc_plugin(plugin, config)

    collected = session.manual_gc()

    assert collected.success, collected.error
    texts = [each.text or "" for each in session.get_history()]
    assert any("They looked at" in text for text in texts)
    assert collected.details["summary_tokens"] > 0


def test_a_function_can_be_given_instead_of_its_name() -> None:
    session = new_session(Model(2_000), conversation(20))
    use(session, "gc_jg_summarize", {"summarizer": summarize})

    assert session.manual_gc().success


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("named", ["my_summaries", "subprocess:getoutput", "this:d"])
def test_another_summarizer_costs_a_warning_and_nothing_is_imported(
    named: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sys.modules.pop("this", None)
    load(tmp_path, type="jg_summarize", plugin_config={"summarizer": named})

    [warning] = problems(caplog)
    assert f"summarizer={named!r}" in warning
    assert "this" not in sys.modules


def test_summarizing_without_a_summarizer_changes_nothing_and_names_the_option(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, config = load(tmp_path, type="jg_summarize")
    session = new_session(Model(2_000), conversation(20))
    session.set_gc_plugin(plugin, config)
    before, tokens = session.get_history(), session._instruction_budget.total_tokens()

    collected = session.manual_gc()
    session.manual_gc()

    assert not collected.success
    assert "jaato_gc_register_summarizers" in collected.error
    assert session._instruction_budget.total_tokens() == tokens
    assert all(new is old for new, old in zip(session.get_history(), before, strict=True))
    [warning] = problems(caplog)
    assert "jaato_gc_register_summarizers" in warning


def test_hybrid_without_a_summarizer_truncates_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "jaato_gc_jaato")
    session = new_session(Model(2_000), conversation(20))
    use(session, "gc_jg_hybrid")

    collected = session.manual_gc()

    assert collected.success
    assert collected.details["summarizer"] == "none, so the middle was truncated"
    [warning] = problems(caplog)
    assert "truncates what it should summarize" in warning
