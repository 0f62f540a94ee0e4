"""Tests of the sections of the report: main figures, contrast, dot plots, colours, provenance."""

import re
import shlex
from dataclasses import replace
from itertools import combinations
from math import dist
from pathlib import Path

import pytest
from cli_samples import run
from hypothesis import given
from hypothesis import strategies as st
from report_samples import PRICE, PRICES, STRATEGIES, sample_grid, sample_report
from test_page import Elements, drawn, grid_of, page_of, words

from jaato_gc_lab import sample_path
from jaato_gc_lab._comparison import Comparison
from jaato_gc_lab._contrast import contrast_chart
from jaato_gc_lab._dots import dot_plots
from jaato_gc_lab._headline import headline
from jaato_gc_lab._intervals import MIN_RUNS
from jaato_gc_lab._page import report_page
from jaato_gc_lab._provenance import command
from jaato_gc_lab._ranking import rank
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._runs import Runs
from jaato_gc_lab._series import SIDE
from jaato_gc_lab._templates import PALETTE, STRATEGY_COLOURS

LIMIT = 8_000
COLOURS = dict.fromkeys(STRATEGIES, 0)


def runs_of(grid: Comparison) -> Runs:
    return Runs(grid.reports, rank(grid))


def many_runs(count: int = 8) -> Comparison:
    return sample_grid({f"run-{n}.jsonl": 60 + n for n in range(count)}, context_limits=(LIMIT,))


def without(grid: Comparison, transcript: str, strategy: str) -> Comparison:
    return grid_of(
        *(
            report
            for report in grid.reports
            if (report.transcript, report.strategy) != (transcript, strategy)
        )
    )


# --- main figures ---


def test_main_figures_show_the_first_ranked_strategy_against_none() -> None:
    grid = many_runs()
    [ranking] = rank(grid)
    best, baseline = ranking.places[0].summary, grid.summary("none", LIMIT)

    text = words(page_of(grid))

    saved = baseline.overflows - best.overflows
    assert f"Requests saved from failing {saved:,} of the {baseline.overflows:,} that" in text
    assert f"{baseline.requests:,} requests, 8 runs in a window of 8k" in text
    assert f"{best.cost:.2f} USD" in text


def test_page_says_whether_the_lead_of_the_first_strategy_is_significant() -> None:
    one, many = many_runs(1), many_runs(8)
    [few_places, places] = [rank(grid)[0].places for grid in (one, many)]
    assert [few_places[1].below_noise, places[1].below_noise] == [True, False]

    first, second = few_places[0].strategy, few_places[1].strategy
    assert (
        f"{first} is first in the ranking; its lead over {second} is not significant. Below"
        in words(page_of(one))
    )
    assert f"{places[0].strategy} is first in the ranking. Below" in words(page_of(many))


def test_main_figures_count_only_runs_that_all_compared_strategies_have() -> None:
    grid = many_runs(3)
    best = rank(grid)[0].places[0].strategy

    figures = headline(runs_of(without(grid, "run-1.jsonl", best)), LIMIT)

    assert figures is not None
    assert figures.best.strategy == best
    assert figures.runs == 2
    names = [[report.transcript for report in each.reports] for each in figures.totals]
    assert names == [["run-0.jsonl", "run-2.jsonl"]] * len(figures.totals)


def test_main_figures_leave_out_runs_that_cannot_fit() -> None:
    grid = many_runs(3)
    for report in grid.reports:
        report.cannot_fit = report.transcript == "run-0.jsonl"

    figures = headline(runs_of(grid), LIMIT)

    assert figures is not None
    assert figures.runs == 2


def test_main_figures_say_if_all_requests_fit_without_collection() -> None:
    text = words(page_of(sample_grid({"short.json": 5}, context_limits=(200_000,))))

    assert "None of 5 requests fails without collection; 1 run in a window of 200k." in text


def test_window_in_which_no_run_can_fit_has_a_note_instead_of_figures() -> None:
    grid = many_runs(2)
    for report in grid.reports:
        report.cannot_fit = True

    text = words(page_of(grid))

    assert "No run can fit into this window" in text
    assert "Requests saved from failing" not in text


# --- contrast of one run ---


def test_run_without_collection_is_drawn_on_its_full_scale() -> None:
    reports = [sample_report(name, 1_500) for name in ("budget", "none")]
    assert reports[1].peak_tokens > 10 * 1_500

    chart = contrast_chart(reports, COLOURS)

    for line in chart.lines:
        assert all(0 <= y <= SIDE for _, y in drawn_line(line.path))
    assert max(tick.value for tick in chart.tokens) > 0.7 * reports[1].peak_tokens


def drawn_line(path: str) -> list[tuple[int, int]]:
    """Parses the points of a line from its path data."""
    start = re.match(r"M(-?\d+) (-?\d+)", path)
    assert start
    return [*drawn(f"V{start[2]}H{start[1]}{path[start.end() :]}H")]


def test_strategy_whose_requests_fit_is_drawn_below_the_window() -> None:
    report = sample_report("budget", LIMIT, requests=300)
    assert not report.overflows
    assert max(each.tokens_before for each in report.collections) > LIMIT

    chart = contrast_chart([report, sample_report("none", LIMIT, requests=300)], COLOURS)

    assert min(y for _, y in drawn_line(chart.lines[0].path)) >= chart.window * SIDE / 100


def test_first_ranked_strategy_and_none_are_the_main_lines() -> None:
    grid = many_runs(1)
    runs = runs_of(grid)

    chart = contrast_chart(runs.most_telling(LIMIT), runs.colours)

    main = [line.report.strategy for line in chart.lines if line.is_main]
    assert main == [rank(grid)[0].places[0].strategy, "none"]
    assert len(chart.others) == len(STRATEGIES) - 2


def test_heading_of_the_contrast_names_the_first_request_that_does_not_fit() -> None:
    grid = many_runs(1)
    [best, *_, baseline] = runs_of(grid).most_telling(LIMIT)
    assert baseline.refused_at is not None

    text = words(page_of(grid))

    assert f"Without collection, request {baseline.refused_at + 1} of 60 no longer fits." in text
    assert f"With {best.strategy}, all of them do." in text


@pytest.mark.parametrize("limit", [1_200, 8_000, 2_000_000])
@pytest.mark.parametrize("requests", [1, 2, 300])
def test_labels_of_the_contrast_are_inside_the_chart(limit: int, requests: int) -> None:
    reports = [sample_report(name, limit, requests=requests) for name in ("budget", "none")]

    chart = contrast_chart(reports, COLOURS)

    assert all(0 <= label.x <= 100 and 0 <= label.y <= 100 for label in chart.labels)
    assert 0 <= (chart.overflow_label or 0) <= 100
    assert 0 <= chart.window <= 100


def test_area_that_does_not_fit_has_a_label_with_the_number_of_its_requests() -> None:
    grid = many_runs(1)
    baseline = grid.summary("none", LIMIT)

    assert f"{baseline.overflows} requests do not fit" in words(page_of(grid))
    fits = [sample_report(name, 10**6) for name in ("budget", "none")]
    assert contrast_chart(fits, COLOURS).overflow_label is None


def test_run_with_one_request_is_drawn_as_a_point() -> None:
    reports = [sample_report(name, requests=1) for name in ("budget", "none")]

    chart = contrast_chart(reports, COLOURS)

    assert all(re.fullmatch(r"M0 \d+h0", line.path) for line in chart.lines)


def test_lines_that_are_the_same_share_one_label() -> None:
    fits = contrast_chart([sample_report(name, 10**6) for name in ("budget", "none")], COLOURS)
    collects = contrast_chart([sample_report(name, 10**4) for name in ("budget", "none")], COLOURS)

    assert [label.names for label in fits.labels] == [["budget", "none"]]
    assert [label.names for label in collects.labels] == [["budget"], ["none"]]


# --- dot plots ---


def test_dots_have_the_values_of_the_summaries_in_ranking_order() -> None:
    grid = many_runs()
    runs = runs_of(grid)

    plots, count = dot_plots(runs, LIMIT)

    assert count == 8
    order = [*(place.strategy for place in rank(grid)[0].places), "none"]
    for plot in plots:
        assert [dot.strategy for dot in plot.dots] == order
    shares = {
        "Blind edits": lambda each: each.blind_edit_share,
        "Lost context": lambda each: each.lost_context_share,
        "Lost names": lambda each: each.lost_name_share,
        "Refused runs": lambda each: each.refused / each.transcripts,
        "Re-reads per run": lambda each: each.rereads / each.transcripts,
    }
    assert [plot.name for plot in plots if plot.name not in shares] == []
    for plot in plots:
        values = [shares[plot.name](grid.summary(name, LIMIT)) for name in order]
        assert [dot.value for dot in plot.dots] == pytest.approx(values)


def test_intervals_need_enough_runs_and_the_page_says_so() -> None:
    few, enough = many_runs(MIN_RUNS - 1), many_runs(MIN_RUNS)

    assert not any(plot.has_intervals for plot in dot_plots(runs_of(few), LIMIT)[0])
    assert all(plot.has_intervals for plot in dot_plots(runs_of(enough), LIMIT)[0])
    text = words(page_of(few))
    assert "There are no confidence intervals: 5 runs are too few, 6 are needed." in text
    assert "95 % confidence intervals over 6 runs" in words(page_of(enough))


def test_measure_without_anything_to_measure_has_no_plot() -> None:
    grid = many_runs(2)
    for report in grid.reports:
        report.edits = 0

    plots, _ = dot_plots(runs_of(grid), LIMIT)

    assert "Blind edits" not in [plot.name for plot in plots]
    assert "Lost context" in [plot.name for plot in plots]


def test_every_measure_has_its_definition_in_the_page() -> None:
    grid = many_runs(2)

    page = page_of(grid)

    for plot in dot_plots(runs_of(grid), LIMIT)[0]:
        assert f"<summary>{plot.name}</summary><p>{plot.definition[:40]}" in page


def test_none_does_not_compress_the_scale_of_the_strategies() -> None:
    plots, _ = dot_plots(runs_of(many_runs()), LIMIT)
    [lost] = [plot for plot in plots if plot.name == "Lost context"]

    *strategies, baseline = lost.dots

    assert baseline.is_off_scale
    assert not any(dot.is_off_scale for dot in strategies)
    assert max(dot.high for dot in strategies) > 60


def test_cost_is_compared_over_the_runs_that_all_strategies_finish() -> None:
    reports = []
    for number in range(3):
        for strategy, cost in (("keep-last", 2.0), ("budget", 3.0)):
            report = sample_report("budget", LIMIT, f"run-{number}", 30)
            report.strategy, report.cost = strategy, cost
            if number == 0 and strategy == "budget":
                report.cost = 100.0
                report.requests[5] = replace(report.requests[5], fits=False)
            reports.append(report)

    plots, _ = dot_plots(runs_of(grid_of(*reports)), LIMIT)

    values = {dot.strategy: dot.value for dot in plots[-1].dots}
    assert values == {"keep-last": 1.0, "budget": 1.5}


counts = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted)


@given(st.lists(st.tuples(counts, counts), min_size=1, max_size=12))
def test_dots_and_intervals_are_inside_the_plot(runs: list[tuple[list[int], list[int]]]) -> None:
    reports = []
    for number, pair in enumerate(runs):
        for strategy, (lost, used) in zip(("budget", "none"), pair, strict=True):
            reports.append(
                ReplayReport(
                    f"run-{number}", strategy, LIMIT, 80.0, 60.0,
                    context_lost=lost, context_used=used, rereads=lost,
                )
            )  # fmt: skip

    plots, _ = dot_plots(Runs(reports), LIMIT)

    for dot in (dot for plot in plots for dot in plot.dots):
        assert 0 <= dot.low <= dot.high <= 100
        assert 0 <= dot.x <= 100
        if dot.interval and dot.value is not None:
            assert dot.interval.low - 1e-9 <= dot.interval.high


# --- order and colours ---


def test_all_charts_and_tables_list_strategies_in_ranking_order() -> None:
    grid = sample_grid({"a.jsonl": 60, "b.jsonl": 40}, context_limits=(LIMIT,))
    order = [*(place.strategy for place in rank(grid)[0].places), "none"]
    assert order[:-1] != list(STRATEGIES[1:])

    page = page_of(grid, prices=PRICES)

    lists = {
        "timelines": r'<figcaption class="panel-name">.*?<bdi>(.*?)</bdi>',
        "sources": r'<p class="panel-name">.*?<bdi>(.*?)</bdi>',
        "costs": r"<div>\s*<p><b>.*?<bdi>(.*?)</bdi>",
        "all runs": r"<td class=s\d>(.*?)<td>",
        "dots": r'<tr><th scope="row"><span class="who">.*?<bdi>(.*?)</bdi></span></th><td cl',
        "options": r"<option value=\"\d+\"(?: selected)?>(\w+)</option>",
    }
    for name, pattern in lists.items():
        found = re.findall(pattern, page, re.DOTALL)
        own = order if "none" in found else order[:-1]
        assert found, name
        assert found == own * (len(found) // len(own)), name


def test_each_strategy_has_one_colour_of_its_own_in_the_whole_page() -> None:
    reports = []
    for number in range(STRATEGY_COLOURS):
        report = sample_report("budget", LIMIT, requests=40)
        reports.append(replace(report, strategy=f"plugin_{number}"))
    reports.append(sample_report("none", LIMIT, requests=40))

    page = page_of(grid_of(*reports))

    colours: dict[str, set[str]] = {}
    for colour, name in re.findall(
        r'class="swatch s(\d+)" aria-hidden="true"></span><bdi>(\w+)</bdi>', page
    ):
        colours.setdefault(name, set()).add(colour)
    assert all(len(own) == 1 for own in colours.values())
    assert len(set().union(*colours.values())) == STRATEGY_COLOURS + 1
    assert colours["none"] == {str(STRATEGY_COLOURS)}


# How the colours of a screen look with each kind of colour blindness, after Machado, Oliveira and
# Fernandes (2009), in linear RGB.
EYES = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def seen(colour: str, eye: str) -> tuple[float, ...]:
    """Returns a colour in OKLab, as an eye sees it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    red, green, blue = (
        min(max(sum(weight * c for weight, c in zip(row, linear, strict=True)), 0), 1)
        for row in EYES[eye]
    )
    cones = [
        (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3),
        (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3),
        (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3),
    ]
    rows = (
        (0.2104542553, 0.7936177850, -0.0040720468),
        (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660),
    )
    return tuple(sum(w * c for w, c in zip(row, cones, strict=True)) for row in rows)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_any_two_strategy_colours_can_be_told_apart(mode: int, eye: str) -> None:
    colours = [pair[mode] for name, pair in PALETTE.items() if name.startswith("strategy")]

    assert len(colours) == STRATEGY_COLOURS + 1
    for one, other in combinations(colours, 2):
        assert dist(seen(one, eye), seen(other, eye)) > 0.07, (one, other)


# --- provenance ---


def test_footer_names_versions_prices_counter_and_date() -> None:
    grid = many_runs(1)

    page = page_of(
        grid,
        made_on="2026-11-16",
        versions={"jaato-gc": "0.3.0", "jaato-gc-lab": "0.1.0"},
        prices=PRICES,
    )

    footer = words(page[page.index("<footer>") :])
    assert "2026-11-16" in footer
    assert "jaato-gc 0.3.0, jaato-gc-lab 0.1.0" in footer
    assert "budget (jaato-gc-budget 0.1.0)" in footer
    assert f"{PRICE.models[0]}, looked up on {PRICE.date}" in footer
    assert "estimate" in footer


def test_command_in_the_footer_repeats_the_comparison(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    options = ("-l", "16k,20500", "-s", "truncate", "--threshold", "70", "--target", "50")
    assert run("report", sample_path(), *options, "-o", page).exit_code == 0
    repeated = command_in(page)
    assert str(tmp_path) not in repeated

    [program, *arguments] = shlex.split(repeated)
    files = [str(sample_path()) if each == "FILES" else each for each in arguments]

    assert program == "jaato-gc"
    assert run(*files, "-o", page, "--force").exit_code == 0
    assert command_in(page) == repeated
    assert "--threshold 70 --target 50" in repeated
    assert "--context-limit 16k,20500" in repeated


def command_in(page: Path) -> str:
    elements = Elements(page.read_text(encoding="utf-8"))
    found = re.search(r"jaato-gc report FILES .*", elements.text)
    assert found
    return found[0]


def test_command_of_runs_without_a_strategy_names_none() -> None:
    assert "--strategies none" in command(Runs([sample_report("none")]))


def test_page_without_detailed_transcripts_has_no_charts_of_one_run() -> None:
    page = page_of(many_runs(2), detailed=0)

    assert "One run in detail" not in page
    assert "What each strategy lost" in page


def test_page_without_rankings_has_no_recommendation() -> None:
    grid = many_runs(1)

    text = words(report_page(grid.reports, grid.summaries()))

    assert "Requests saved from failing" not in text
    assert "no longer fits" in text
