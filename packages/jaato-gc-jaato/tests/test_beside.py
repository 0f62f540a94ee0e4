"""jaato-gc in an environment that has jaato-server too: both offer strategies of the same names."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import PluginRegistry, discover_gc_plugins, load_gc_plugin

OURS = {"gc_budget", "gc_hybrid", "gc_marksweep", "gc_summarize", "gc_truncate"}
THEIRS = {"gc_budget", "gc_hybrid", "gc_summarize", "gc_truncate"}
README = Path(__file__).parents[3] / "README.md"


def test_all_our_strategies_are_found() -> None:
    assert discover_gc_plugins().keys() >= OURS


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_name_that_both_offer_means_our_strategy(name: str) -> None:
    options: dict[str, Any] = {"extractive": True} if name == "gc_summarize" else {}

    strategy = load_gc_plugin(name, options)

    assert type(strategy).__module__.startswith("jaato_gc_")


def test_strategies_of_jaato_server_are_listed_as_shadowed() -> None:
    found = {
        plugin.name: plugin.status.value
        for plugin in PluginRegistry().plugins()
        if plugin.distribution == "jaato-server"
    }

    assert found == dict.fromkeys(THEIRS, "shadowed")


def test_our_plugins_for_jaato_server_are_no_strategies_of_ours() -> None:
    assert not [name for name in discover_gc_plugins() if name.startswith("gc_jg_")]


@pytest.mark.skipif(not README.is_file(), reason="this is not a checkout of the repository")
def test_the_first_example_of_the_readme_runs() -> None:
    [example, *_] = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)

    printed = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=True
    ).stdout

    assert printed.split() == ["True", "True"]


def command(*arguments: str) -> str:
    """Runs the command of the lab, and returns what it prints."""
    run = [str(Path(sys.executable).parent / "jaato-gc"), *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_runs(tmp_path: Path) -> None:
    printed = command("demo", "--out", str(tmp_path / "demo.html"))

    assert [name for name in OURS if name not in printed] == []
    assert (tmp_path / "demo.html").is_file()


def test_a_run_is_compared_under_every_strategy(tmp_path: Path) -> None:
    sample = tmp_path / "run.json"
    command("demo", "--sample", str(sample))

    printed = json.loads(command("compare", str(sample), "--context-limit", "32k", "--json"))

    assert all(name in json.dumps(printed) for name in OURS)
