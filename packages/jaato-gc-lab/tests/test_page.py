"""Tests of the HTML report and the SVG chart as files."""

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import PRICE, STRATEGIES, sample_grid, sample_report

from jaato_gc_lab import _page
from jaato_gc_lab._charts import cost_parts, usage_chart
from jaato_gc_lab._comparison import Cell, CellResult, Comparison
from jaato_gc_lab._figures import money, short
from jaato_gc_lab._page import LOSSES, chart_svg, report_page
from jaato_gc_lab._ranking import rank
from jaato_gc_lab._reports import Loss, ReplayedCollection, ReplayReport
from jaato_gc_lab._series import SIDE, downsample, outline, ticks
from jaato_gc_lab._stacks import sources_chart
from jaato_gc_lab._steps import MAIN_MARKS
from jaato_gc_lab._templates import PALETTE, percent, seconds, signed

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    "--></style><b>bold",
    "a\x00b\x1bc\x9f\ud800 \u202edlrow",
    "&lt;already&amp;",
]


class Elements(HTMLParser):
    """Collects all elements with their attributes, and the text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag in ("td", "th"):
            self.text += " "

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data


def page_of(grid: Comparison, **options: object) -> str:
    return report_page(grid.reports, grid.summaries(), rank(grid), **options)  # type: ignore[arg-type]


def grid_of(*reports: ReplayReport) -> Comparison:
    grid = Comparison(
        list(dict.fromkeys(report.strategy for report in reports)),
        sorted({report.context_limit for report in reports}),
    )
    for report in reports:
        cell = Cell(report.transcript, 0, report.transcript, report.strategy, report.context_limit)
        grid.results.append(CellResult(cell, report))
    return grid


def words(page: str) -> str:
    return " ".join(Elements(page).text.split())


# --- contents ---


def test_report_lists_transcripts_strategies_windows_and_versions() -> None:
    grid = sample_grid(
        {"fix-login.jsonl": 60, "book-flight.json": 40}, context_limits=(8_000, 32_000)
    )

    text = words(page_of(grid, made_on="2026-11-16", versions={"jaato-gc": "0.3.0"}))

    assert "5 strategies compared on 2 transcripts" in text
    assert "fix-login.jsonl" in text
    assert "book-flight.json" in text
    assert "8k, 32k tokens" in text
    assert "2026-11-16" in text
    assert "jaato-gc 0.3.0" in text
    assert PRICE.models[0] in text
    assert all(strategy in text for strategy in STRATEGIES)


def test_table_follows_the_ranking_and_shows_its_reasons() -> None:
    grid = sample_grid({f"run-{n}.jsonl": 60 + n for n in range(8)}, context_limits=(8_000,))
    [ranking] = rank(grid)

    page = page_of(grid)

    table = page[page.index('id="window-0-totals"') :]
    table = table[: table.index("</table>")]
    names = re.findall(r'scope="row" class="name">.*?<bdi>([^<]+)</bdi>', table)
    assert names == [*(place.strategy for place in ranking.places), "none"]
    text = words(page)
    for place in ranking.places:
        assert place.reason[1:] in text
    assert ranking.note[1:] in text


def test_report_lists_skipped_files_with_reasons() -> None:
    text = words(page_of(grid_of(sample_report()), skipped={"notes.txt": "unknown format"}))

    assert "Not replayed: 1" in text
    assert "unknown format" in text


def test_collections_show_removed_tokens_and_reasons() -> None:
    report = sample_report("budget", 8_000, requests=30)
    first = report.collections[0]

    text = words(page_of(grid_of(report)))

    assert f"{first.tokens_before:,} → {first.tokens_after:,} tokens" in text
    assert f"cleared result {first.freed_by_reason['cleared_result']:,}" in text
    assert f"before request {first.request + 1}, turn {first.turn}; pre message" in text
    removed = first.before_by_source["results"] - first.after_by_source["results"]
    assert f"results {removed:,} {first.after_by_source['results']:,}" in text
    assert f"read_file {first.freed_by_tool['read_file']:,}" in text


def test_failed_collection_is_marked_and_shows_its_error() -> None:
    report = sample_report("budget", 8_000)
    report.collections[3] = replace(report.collections[3], outcome="failed", error="it raised")

    page = page_of(grid_of(report))

    assert "it raised" in words(page)
    assert page.count('class="mark failed"') == 1


def test_losses_show_the_collection_that_removed_them() -> None:
    report = sample_report("truncate", 8_000)
    report.losses = [Loss("src/login.py", 40, 2)]

    text = words(page_of(grid_of(report)))

    removal = report.collections[2].request + 1
    assert re.search(rf"src/login\.py\s*collection 3, before request {removal}\s*request 41", text)


def test_omitted_losses_and_collections_are_counted() -> None:
    report = sample_report("truncate", 4_000, requests=300)
    report.losses = [Loss(f"name_{n}", 50, 0) for n in range(LOSSES + 7)]
    assert len(report.collections) > MAIN_MARKS

    page = page_of(grid_of(report))

    assert "7 more of truncate" in words(page)
    shown = f"{len(report.collections)} collections (circles mark the {MAIN_MARKS} largest)"
    assert shown in words(page)
    assert page.count('class="mark"') == MAIN_MARKS


def test_report_of_190_transcripts_is_smaller_than_two_megabytes() -> None:
    cells = [
        sample_report(strategy, limit, requests=200)
        for limit in (8_000, 32_000, 128_000)
        for strategy in STRATEGIES
    ]
    grid = grid_of(
        *(replace(report, transcript=f"run-{n:03}.jsonl") for n in range(190) for report in cells)
    )

    page = report_page(grid.reports, grid.summaries())

    assert len(page) < 2_000_000
    assert "Charts show 4 of 190 transcripts" in words(page)
    assert all(f"run-{n:03}.jsonl" in page for n in range(190))


# --- edge cases ---


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(ReplayReport("empty", "budget", 8_000, 80.0, 60.0), id="no requests"),
        pytest.param(sample_report("none"), id="only the baseline"),
        pytest.param(sample_report("budget", 2_000_000), id="no collections"),
        pytest.param(sample_report("truncate", 1_200), id="nothing fits"),
        pytest.param(sample_report("budget", requests=1), id="one request"),
    ],
)
def test_edge_cases_render_as_page_and_chart(report: ReplayReport) -> None:
    assert report.strategy in words(page_of(grid_of(report)))
    assert ElementTree.fromstring(chart_svg([report])).tag.endswith("svg")


def test_page_and_chart_without_reports_are_an_error() -> None:
    with pytest.raises(ValueError, match="no reports"):
        report_page([], [])
    with pytest.raises(ValueError, match="no reports"):
        chart_svg([])


def test_collection_after_the_last_request_is_inside_the_chart() -> None:
    report = sample_report("budget", requests=20)
    report.collections.append(
        ReplayedCollection(
            20, 3, "manual", "collected", 9_000, 5_000, {"ephemeral": 4_000}, 100, 0.1
        )
    )

    [panel] = usage_chart([report], {"budget": 0}).panels

    assert panel.marks[-1].x == 100.0


def test_overflows_are_counted_and_drawn() -> None:
    report = sample_report("truncate", 1_200)

    text = words(page_of(grid_of(report)))

    assert report.overflows
    assert f"{report.overflows} requests did not fit" in text
    [panel] = usage_chart([report], {"truncate": 0}).panels
    assert panel.misfits
    assert all(start >= 0 and start + width <= 100.5 for start, width in panel.misfits)


def test_report_supports_more_strategies_than_colours_and_unknown_sources() -> None:
    reports = []
    for number in range(9):
        report = sample_report("budget", 8_000)
        report.strategy = f"plugin_{number}"
        request = report.requests[5]
        report.requests[5] = replace(request, by_source={**request.by_source, "odd": 50})
        reports.append(report)

    text = words(page_of(grid_of(*reports)))

    assert "plugin_8" in text
    assert "odd" in text


# --- security ---


def test_page_loads_no_external_content() -> None:
    page = page_of(sample_grid({"a.jsonl": 60}))

    for tag, attributes in Elements(page).elements:
        for name in ("src", "href", "srcset", "action", "data", "xlink:href", "poster"):
            value = attributes.get(name) or "#"
            assert value.startswith("#") or value == "data:,", (tag, name, value)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped_in_the_page(name: str) -> None:
    shown = re.sub("[\x00-\x1f\x7f-\x9f\ud800\u202e]", "\ufffd", name)

    page = page_named(name)

    page.encode()  # no lone surrogates
    tags, harmless = (
        [tag for tag, _ in Elements(text).elements] for text in (page, page_named("harmless"))
    )
    assert tags == harmless
    assert words(page).count(" ".join(shown.split())) == words(page_named("harmless")).count(
        "harmless"
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped_in_the_chart(name: str) -> None:
    shown = re.sub("[\x00-\x1f\x7f-\x9f\ud800\u202e]", "\ufffd", name)

    root = ElementTree.fromstring(chart_svg([replace(sample_report(), transcript=name)]).encode())

    assert shown in "".join(root.itertext())


def page_named(name: str) -> str:
    """Returns a page with a name in every place that shows untrusted text."""
    report = replace(sample_report("truncate", 8_000), transcript=name, strategy=name, model=name)
    report.losses = [replace(loss, name=name) for loss in report.losses]
    report.collections = [
        replace(each, trigger=name, outcome=name, freed_by_reason={name: 5}, error=name)
        for each in report.collections
    ]
    report.requests = [replace(each, by_source={name: each.tokens}) for each in report.requests]
    return page_of(grid_of(report), made_on=name, versions={name: name}, skipped={name: name})


# --- SVG chart ---


def test_chart_is_valid_svg_with_styles_and_description() -> None:
    grid = sample_grid({"fix-login.jsonl": 90}, context_limits=(32_000,))

    drawn = chart_svg(grid.reports, rank(grid))

    root = ElementTree.fromstring(drawn)
    texts = "".join(root.itertext())
    assert "prefers-color-scheme: dark" in texts
    assert "fix-login.jsonl" in texts
    assert root.get("role") == "img"
    assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"]
    assert not re.search("<script|@font-face|@import|url\\(|href", drawn)


def test_chart_contrasts_the_recommended_strategy_with_none_as_the_page_does() -> None:
    grid = sample_grid({"long.jsonl": 120, "short.jsonl": 30}, context_limits=(8_000, 32_000))
    _, shown_first = rank(grid)

    drawn = chart_svg(grid.reports, rank(grid))

    page = page_of(grid)
    chosen = page[page.index('class="choice chosen" data-window') :]
    [title] = re.findall("<title[^>]*>(.*)</title>", drawn)
    assert title in words(chosen)
    assert "Without collection, request" in title
    lines = re.findall(r'<path class="line main s\d+" d="[^"]+"/>', drawn)
    assert len(lines) == 2
    assert all(line in chosen for line in lines)
    assert f"{shown_first.places[0].strategy}: up to" in drawn
    assert "none: up to" in drawn


def test_chart_of_a_run_that_cannot_fit_is_drawn() -> None:
    report = replace(sample_report("budget", 1_200), cannot_fit=True)

    assert "budget: up to" in chart_svg([report])


# --- numbers ---


def test_cost_parts_add_up_to_the_cost() -> None:
    report = sample_report("budget", 8_000)

    parts = cost_parts(report, PRICE)

    assert sum(parts.values()) == pytest.approx(report.cost)
    assert all(part > 0 for part in parts.values())


def test_cold_cache_has_no_cache_reads_in_the_parts_of_the_cost() -> None:
    report = sample_report("budget", 8_000)
    report.requests = [replace(each, idle_seconds=3_600.0) for each in report.requests]
    report.cost = PRICE.cost(report.requests)

    parts = cost_parts(report, PRICE)

    assert parts["cache reads"] == 0
    assert sum(parts.values()) == pytest.approx(report.cost)


@pytest.mark.parametrize("limit", [1_200, 8_000, 2_000_000])
def test_all_coordinates_are_inside_the_charts(limit: int) -> None:
    reports = [sample_report(strategy, limit) for strategy in STRATEGIES]
    colours = dict.fromkeys(STRATEGIES, 0)

    usage, sources = usage_chart(reports, colours), sources_chart(reports, colours)

    places = [usage.window, usage.threshold, usage.target]
    places += [at for panel in usage.panels for mark in panel.marks for at in (mark.x, mark.y)]
    layers = [layer for panel in sources.panels for layer in panel.layers]
    places += [at for layer in layers for at in (layer.x, layer.y) if at is not None]
    assert all(0 <= place <= 100 for place in places)


def test_layers_add_up_to_the_mean_tokens() -> None:
    report = sample_report("summarize", 8_000)

    [panel] = sources_chart([report], {"summarize": 0}).panels

    assert sum(layer.mean for layer in panel.layers) == pytest.approx(report.mean_tokens)


def test_numbers_are_formatted_with_few_digits() -> None:
    tokens = [0, 950, 8_192, 32_000, 128_000, 999_999, 1_250_000, 45_600_000]
    assert [short(n) for n in tokens] == [
        "0", "950", "8.19k", "32k", "128k", "1M", "1.25M", "45.6M",
    ]  # fmt: skip
    shares = [None, 0, 0.004, 0.614, 1, -0.03]
    assert [percent(s).replace("\xa0", " ") for s in shares] == [
        "–", "0 %", "0.4 %", "61 %", "100 %", "−3.0 %",
    ]  # fmt: skip
    assert signed(0.5).replace("\xa0", " ") == "+50 %"
    assert [money(m) for m in (0, 0.0023, 0.0123, 4.5, 1234.5)] == [
        "0.00", "0.0023", "0.012", "4.50", "1,234",
    ]  # fmt: skip
    assert [seconds(s).replace("\xa0", " ") for s in (0, 0.0014, 0.31, 3.24, 600)] == [
        "0 ms", "1.4 ms", "310 ms", "3.2 s", "10 min",
    ]  # fmt: skip


series = st.lists(st.integers(0, 500_000), max_size=300)


@given(series, st.integers(2, 60))
def test_downsampling_keeps_extremes_and_order(values: list[int], most: int) -> None:
    kept = downsample(values, most)

    assert len(kept) <= max(most, 0)
    assert kept == sorted(set(kept))
    if values:
        assert min(values[i] for i in kept) == min(values)
        assert max(values[i] for i in kept) == max(values)


unit = st.integers(0, SIDE).map(lambda n: n / SIDE)


@given(st.lists(st.tuples(unit, unit), min_size=1, max_size=50))
def test_outline_goes_through_all_points(points: list[tuple[float, float]]) -> None:
    assert list(drawn(outline(points))) == [
        (round(x * SIDE), round((1 - y) * SIDE)) for x, y in points
    ]


def drawn(path: str) -> Iterator[tuple[int, int]]:
    """Parses the points of an outline from its path data."""
    head, _, tail = path.partition("l")
    start = re.search(r"V(-?\d+)H(-?\d+)", head)
    assert start
    y, x = map(int, start.groups())
    yield x, y
    steps = [int(n) for n in re.findall(r"-?\d+", tail.partition("H")[0])]
    for dx, dy in zip(steps[::2], steps[1::2], strict=True):
        x, y = x + dx, y + dy
        yield x, y


@given(st.floats(0, 1e7), st.integers(2, 10))
def test_ticks_start_at_zero_and_are_evenly_spaced(largest: float, most: int) -> None:
    values = ticks(largest, most)

    assert values[0] == 0
    assert len(values) <= most
    assert values[-1] <= largest
    assert len({b - a for a, b in pairwise(values)}) <= 1


# --- colours ---


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_have_enough_contrast_in_light_and_dark_mode(mode: int) -> None:
    colours = {name: pair[mode] for name, pair in PALETTE.items()}
    for paper in ("paper", "back"):
        for text in ("text", "muted", "bad", "link"):
            assert contrast(colours[text], colours[paper]) >= 4.5, (text, paper)
    for name in colours:
        if name.startswith(("strategy", "part")) or name in ("edge", "focus"):
            assert contrast(colours[name], colours["paper"]) >= 3, name
    assert contrast(colours["tip-text"], colours["tip"]) >= 4.5


def test_every_class_of_the_page_has_a_style() -> None:
    folder = Path(_page.__file__).parent / "templates"
    styles = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.css.j2"))
    used: set[str] = set()
    for path in folder.glob("*.j2"):
        for classes in re.findall(r'class="([^"]+)"', path.read_text(encoding="utf-8")):
            fixed = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "\0", classes)  # the rest depends on data
            used |= {name for name in fixed.split() if "\0" not in name}

    unstyled = {name for name in used if not re.search(rf"\.{re.escape(name)}\b", styles)}

    assert unstyled == {"missing", "timeline", "previous", "next", "head"}, "an unfilled chart?"


def test_the_page_shows_everything_that_it_is_given() -> None:
    """A chart whose data or drawing no template uses is not on the page."""
    folder = Path(_page.__file__).parent / "templates"
    templates = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.j2"))

    for name in re.findall(r"macro (\w+)\(", templates):
        assert len(re.findall(rf"\b{name}\(", templates)) > 1, f"no template calls {name}"
    for kind in (_page.Window, _page.Cell, _page.Page):
        for field in fields(kind):
            assert re.search(rf"\.{field.name}\b", templates), f"no template uses {field.name}"
