"""Tests of jaato-gc plugins and jaato-gc config."""

import json
from pathlib import Path

import pytest
from cli_samples import HOSTILE, RAW, run, run_in_a_process, write_json

STRATEGIES = {"gc_budget", "gc_hybrid", "gc_marksweep", "gc_summarize", "gc_truncate"}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("THRESHOLD", "TARGET", "PRESSURE"):
        monkeypatch.delenv(f"JAATO_GC_{name}", raising=False)


# --- plugins ---


def test_plugins_lists_all_strategies_and_formats() -> None:
    shown = run("plugins").stdout
    found = json.loads(run("plugins", "--json").stdout)["plugins"]

    offered = {info["name"]: info for each in found for info in each["strategies"]}
    assert offered.keys() >= STRATEGIES
    assert offered["gc_budget"]["budget_aware"]
    formats = {info["name"] for each in found for info in each["formats"]}
    assert {"anthropic", "openai-chat", "claude-code"} <= formats
    [budget] = [each for each in found if each["name"] == "budget"]
    assert (budget["distribution"], budget["status"]) == ("jaato-gc-budget", "ok")
    for name in (*STRATEGIES, *formats):
        assert name in shown


def test_blocked_plugins_are_listed_with_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", "jaato-gc-hybrid")

    shown = run("plugins").stdout

    [line] = [line for line in shown.splitlines() if line.startswith("hybrid ")]
    assert "blocked" in line
    assert "hooks" not in line
    assert "- hybrid is blocked: " in shown
    assert "JAATO_GC_DISABLED_PLUGINS" in shown


def install_odd_plugin(folder: Path, entry_points: str) -> None:
    info = folder / "odd_plugin-3.2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: odd-plugin\nVersion: 3.2.1\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")


def test_shadowed_plugin_is_listed_with_the_cause_and_its_strategy_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_odd_plugin(tmp_path, "[jaato.gc_plugins]\ngc_budget = no_such_module:create\n")
    monkeypatch.syspath_prepend(tmp_path)

    result = run("plugins")
    shown = result.stdout

    [line] = [line for line in shown.splitlines() if "odd-plugin" in line]
    assert line.split() == ["gc_budget", "odd-plugin", "3.2.1", "shadowed", "-"]
    assert "- gc_budget is shadowed: plugin 'budget' of jaato-gc-budget " in shown
    rows = [line for line in shown.splitlines() if line.startswith("gc_budget ")]
    assert len([row for row in rows if " shadowed " not in row]) == 1
    assert result.stderr == ""


def test_broken_plugin_does_not_hide_the_others(tmp_path: Path) -> None:
    install_odd_plugin(tmp_path, "[jaato_gc]\nodd = odd_plugin\n")
    (tmp_path / "odd_plugin.py").write_text(f"raise ImportError({HOSTILE!r})", encoding="utf-8")

    done = run_in_a_process("plugins", cwd=tmp_path, PYTHONPATH=str(tmp_path))

    assert done.returncode == 0
    [line] = [line for line in done.stdout.splitlines() if line.startswith("odd ")]
    assert line.split()[1:4] == ["odd-plugin", "3.2.1", "broken"]
    assert "- odd is broken: ImportError" in done.stdout
    assert "gc_budget" in done.stdout
    assert "Traceback" not in done.stderr
    assert not any(character in done.stdout + done.stderr for character in RAW)


# --- config ---


def settings(*args: object) -> dict[str, tuple[object, str]]:
    result = run("config", "show", *args, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    return {each["key"]: (each["value"], each["origin"]) for each in found["settings"]} | {
        f"option {each['key']}": (each["value"], each["origin"]) for each in found["options"]
    }


def test_config_show_without_a_file_shows_the_defaults() -> None:
    shown = run("config", "show")

    assert shown.exit_code == 0
    assert ".jaato/gc.json does not exist" in shown.stdout
    assert settings()["threshold_percent"] == (80.0, "default")


def test_config_show_lists_the_origin_of_every_value(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".jaato").mkdir()
    write_json(
        Path(".jaato/gc.json"),
        {
            "type": "hybrid",
            "threshold_percent": 70.0,
            "notify_on_gc": True,
            "plugin_config": {"preserve_recent_turns": 2},
        },
    )
    monkeypatch.setenv("JAATO_GC_TARGET", "40")
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "95")

    found = settings()

    assert found["threshold_percent"] == (70.0, "file")
    assert found["target_percent"] == (40.0, "environment, JAATO_GC_TARGET")
    assert found["preserve_recent_turns"] == (2, "file, as a strategy option")
    assert found["max_turns"] == (None, "default")
    assert found["option notify_on_gc"] == (True, "file")
    assert found["option summarize_middle_turns"][1] == "default"
    assert run("config", "show").stdout.startswith(".jaato/gc.json: gc_hybrid\n")


def test_config_show_reads_the_file_in_the_home_folder_if_the_project_has_none(
    tmp_path: Path,
) -> None:
    file = tmp_path / "home" / ".jaato" / "gc.json"
    file.parent.mkdir(parents=True)
    write_json(file, {"type": "budget", "threshold_percent": 70.0})

    shown = json.loads(run("config", "show", "--json").stdout)
    assert (shown["source"], shown["strategy"]) == (str(file), "gc_budget")
    assert run("config", "validate").exit_code == 0
    assert settings()["threshold_percent"] == (70.0, "file")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (True, "default")),
        ({"notify_on_gc": True}, (True, "file")),
        ({"plugin_config": {"notify_on_gc": False}}, (False, "file")),
    ],
)
def test_config_show_names_the_origin_of_notifications(
    given: dict[str, object], expected: tuple[bool, str]
) -> None:
    write_json(Path("gc.json"), {"type": "budget", **given})

    assert settings("gc.json")["option notify_on_gc"] == expected


def test_derived_target_names_the_threshold_as_its_origin() -> None:
    write_json(Path("gc.json"), {"type": "budget", "threshold_percent": 50.0})

    assert settings("gc.json")["target_percent"] == (37.5, "default, 0.75 of the threshold")


@pytest.mark.parametrize("how", ["name", "file"])
def test_profile_can_be_given_by_name_or_by_file(how: str) -> None:
    folder = Path(".jaato/profiles")
    folder.mkdir(parents=True)
    write_json(folder / "research.json", {"gc": {"type": "truncate", "max_turns": 7}})
    args = ["--profile", "research"] if how == "name" else [folder / "research.json"]

    assert settings(*args)["max_turns"] == (7, "profile")
    assert run("config", "validate", *args).exit_code == 0


def test_profile_without_a_gc_block_is_valid_and_collects_nothing() -> None:
    write_json(Path("p.json"), {"name": "p", "gc": None})

    assert "no gc block" in run("config", "show", "p.json").stdout
    assert run("config", "validate", "p.json").exit_code == 0


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"type": "budget", "treshold_percent": 5}, "did you mean 'threshold_percent'"),
        ({"type": "bugdet"}, "did you mean"),
        ({"type": "budget", "target_percent": 90.0}, "lower the target"),
        ([], "must hold a JSON object"),
    ],
)
def test_invalid_configuration_exits_with_1(document: object, words: str) -> None:
    write_json(Path("gc.json"), document)

    result = run("config", "validate", "gc.json")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert words in result.stderr
    assert "gc.json" in result.stderr


def test_valid_configuration_exits_with_0() -> None:
    write_json(Path("gc.json"), {"plugin": "gc_budget", "config": {"target_percent": 50.0}})

    result = run("config", "validate", "gc.json")

    assert result.exit_code == 0
    assert result.stdout == "gc.json is valid: gc_budget\n"


@pytest.mark.parametrize("shape", ["file", "nested", "options", "profile"])
@pytest.mark.parametrize("command", ["validate", "show"])
def test_validating_a_file_imports_nothing(
    command: str, shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    named = {"summarizer": "evil:write"}
    block = {
        "file": {"type": "summarize", **named},
        "nested": {"plugin": "summarize", "config": named},
        "options": {"type": "summarize", "plugin_config": named},
        "profile": {"gc": {"type": "summarize", **named}},
    }[shape]
    for folder in (Path(".jaato"), Path("home/.jaato")):
        folder.mkdir(parents=True)
        write_json(folder / "gc.json", block)

    refused = run("config", command, ".jaato/gc.json")
    assert refused.exit_code != 0
    assert "names code" in refused.output
    shown = run("config", command, "home/.jaato/gc.json").stdout  # the user's own
    assert "gc_summarize" in shown
    assert "imported" not in refused.output + shown


@pytest.mark.parametrize("command", ["validate", "show"])
def test_a_file_without_an_end_is_refused(command: str) -> None:
    Path("endless.json").symlink_to("/dev/zero")

    assert "not a regular file" in run("config", command, "endless.json").output


def test_help_of_config_truncates_no_text() -> None:
    assert "..." not in run("config", "--help").stdout.partition("Commands:")[2]
