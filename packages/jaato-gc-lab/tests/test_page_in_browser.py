"""Tests of the report in Chromium: layout, colours, pointer, keyboard and accessibility.

The tests need the Python package of Playwright and a system Chromium (Debian package ``chromium``).
``JAATO_GC_CHROMIUM`` is the path of another Chromium. The browsers of Playwright are not used.
``JAATO_GC_SCREENSHOTS`` is a folder in which to save screenshots.
"""

import base64
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from report_samples import PRICES, STRATEGIES, sample_grid, sample_report

from jaato_gc_lab._axes import HEADROOM
from jaato_gc_lab._comparison import Cell, CellResult, Comparison
from jaato_gc_lab._page import chart_svg, report_page
from jaato_gc_lab._ranking import rank
from jaato_gc_lab._reports import Loss
from jaato_gc_lab._templates import PALETTE, STRATEGY_COLOURS

playwright = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is not installed: pip install playwright"
)
CHROMIUM = os.environ.get("JAATO_GC_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"
)

WIDTHS = {"desk": 1280, "phone": 390, "small phone": 320}
COLLECTING = STRATEGIES[1:]
HOSTILE = '</script><img src=x onerror="document.title=1">.jsonl'

Open = Callable[..., Any]
"""Opens the page with the options of a browser context.

The returned page lists its requests in ``requests`` and its errors in ``errors``.
"""


Pixels = Callable[[bytes, dict[str, str]], dict[str, int]]
"""Returns the number of pixels of each colour in a screenshot."""
COUNT_PIXELS = """async ([source, colours]) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  const wanted = Object.entries(colours).map(([name, colour]) =>
    [name, ...[1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16))]);
  const counts = Object.fromEntries(wanted.map(([name]) => [name, 0]));
  for (let at = 0; at < data.length; at += 4)
    for (const [name, r, g, b] of wanted)
      if (Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b) < 12)
        counts[name] += 1;
  return counts;
}"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    runs = {"claude-code/fix-login-flow.jsonl": 420, "book-flight.json": 90, HOSTILE: 40}
    grid = sample_grid(runs)
    page = report_page(
        grid.reports,
        grid.summaries(),
        rank(grid),
        made_on="2026-11-16",
        versions={"jaato-gc": "0.3.0", "jaato-gc-lab": "0.1.0"},
        prices=PRICES,
    )
    (folder / "report.html").write_text(page, encoding="utf-8")
    (folder / "chart.svg").write_text(chart_svg(grid.reports, rank(grid)), encoding="utf-8")
    (folder / "names.html").write_text(page_with_long_names(), encoding="utf-8")
    in_readme = '<body style="margin:0"><img src="chart.svg" alt="chart">'
    (folder / "readme.html").write_text(in_readme, encoding="utf-8")
    return folder


def page_with_long_names() -> str:
    """Returns a report with long names and names that are written from right to left."""
    reports = []
    for number, strategy in enumerate(STRATEGIES):
        report = sample_report(strategy, 8_000, requests=60)
        report.transcript = "projects/" + "a-very-long-folder-name/" * 4 + "run.jsonl"
        if strategy != "none":
            name = ("استراتيجية_المجموعة_", "a_strategy_with_a_very_long_name_")[number % 2]
            report.strategy = name + strategy
            report.losses = [Loss("x" * 200, 40, 2)]
        for position, each in enumerate(report.collections):
            report.collections[position] = replace(each, freed_by_tool={"mcp__" + "y" * 90: 500})
        reports.append(report)
    grid = Comparison([report.strategy for report in reports], [8_000])
    for report in reports:
        cell = Cell(report.transcript, 0, report.transcript, report.strategy, 8_000)
        grid.results.append(CellResult(cell, report))
    return report_page(grid.reports, grid.summaries(), rank(grid), prices=PRICES)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any, files: Path) -> Iterator[Open]:
    contexts = []

    def opened(name: str = "report.html", width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, offline=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.requests, page.errors = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("dialog", lambda dialog: page.errors.append(dialog.message))
        page.on(
            "console",
            lambda message: (
                page.errors.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.goto((files / name).as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


def keep(picture: bytes, name: str) -> None:
    if folder := os.environ.get("JAATO_GC_SCREENSHOTS"):
        Path(folder, f"report-{name}.png").write_bytes(picture)


@pytest.fixture(scope="module")
def pixels_of(browser: Any) -> Pixels:
    """Counts the pixels of a screenshot, which the browser decodes."""
    page = browser.new_page()

    def counted(picture: bytes, colours: dict[str, str]) -> dict[str, int]:
        source = "data:image/png;base64," + base64.b64encode(picture).decode()
        return dict(page.evaluate(COUNT_PIXELS, [source, colours]))

    return counted


def steps_shown(page: Any) -> list[str]:
    """Returns the texts of the visible collections."""
    return [step.inner_text() for step in page.locator(".chosen .steps > li:visible").all()]


def select(page: Any, name: str) -> Any:
    return page.get_by_role("combobox", name=name)


def chosen(page: Any, selector: str) -> Any:
    """Returns elements of the run that is shown, with the strategy that is shown."""
    return page.locator(f".cell.chosen {selector}")


def best_of(files: Path) -> str:
    """Returns the strategy that the report shows first."""
    found = re.search(r'name="strategy".*?<option[^>]*>(.*?)</option>', text_of(files), re.DOTALL)
    assert found
    return found[1]


def text_of(files: Path) -> str:
    return (files / "report.html").read_text(encoding="utf-8")


# --- opening ---


def test_report_opens_offline_without_further_requests(open_page: Open, files: Path) -> None:
    page = open_page()
    page.keyboard.press("End")
    page.wait_for_load_state("networkidle")

    assert page.requests == [(files / "report.html").as_uri()]
    assert page.errors == []
    assert page.title() == "5 strategies compared on 3 transcripts"


def test_hostile_transcript_name_is_shown_as_text(open_page: Open) -> None:
    page = open_page()

    select(page, "Transcript").select_option(label=HOSTILE)

    assert chosen(page, "h3").inner_text().startswith(HOSTILE)
    assert page.locator("img").count() == 0
    assert page.title() != "1"


def test_charts_and_tables_are_visible_without_scripts(open_page: Open) -> None:
    page = open_page(java_script_enabled=False)

    assert page.get_by_role("table").first.is_visible()
    assert page.locator(".contrast:visible").count() == 3
    charts = page.locator(".cell .plot > svg")
    assert charts.count() > 9 * len(COLLECTING)
    assert charts.first.is_visible()
    assert charts.last.is_visible()
    assert not select(page, "Transcript").is_visible()


def test_all_collections_are_listed_without_scripts(open_page: Open) -> None:
    page = open_page(java_script_enabled=False)
    timeline = page.locator(".timeline").first

    steps = timeline.locator(".steps > li")

    assert steps.count() == timeline.locator(".mark").count() > 3
    assert all(step.is_visible() for step in steps.all())
    assert not timeline.locator(".next").is_visible()
    link = timeline.locator(".mark").nth(2).get_attribute("href")
    assert f"#{steps.nth(2).get_attribute('id')}" == link


# --- appearance ---


@pytest.mark.parametrize("name", ["report.html", "names.html"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_text_stays_inside_its_card(open_page: Open, width: int, name: str) -> None:
    page = open_page(name, width=width)
    for summary in page.locator(".card > details > summary, .chosen summary").all():
        if summary.is_visible():
            summary.click()

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => {
          const cut = [];
          for (const card of document.querySelectorAll(".card, .figure")) {
            const edge = card.getBoundingClientRect();
            for (const text of card.querySelectorAll("svg text, p, h2, h3, h4, li, label")) {
              const box = text.getBoundingClientRect();
              const hidden = !box.width || text.closest(".scroll") || text.closest(".hide");
              if (!hidden && (box.left < edge.left - 1 || box.right > edge.right + 1))
                cut.push(text.textContent);
            }
          }
          return cut;
        }"""
    )
    assert outside == []


def test_charts_are_large_enough_and_have_legends(open_page: Open) -> None:
    page = open_page()

    for chart in chosen(page, "svg[role=img]:visible").all():
        box = chart.bounding_box()
        assert box["width"] > 200
        assert box["height"] >= 18
    for text in ("window, 128k", "threshold, 80 %", "target, 60 %", "without collection"):
        assert chosen(page, ".legend").get_by_text(text).is_visible()
    for text in ("results", "system", "cache reads", "new input", "output"):
        assert chosen(page, ".legend").get_by_text(text, exact=True).is_visible()
    for name in COLLECTING:
        assert chosen(page, "p.panel-name").get_by_text(name, exact=True).is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_strategy_is_drawn_in_its_colour(
    open_page: Open, scheme: str, pixels_of: Pixels
) -> None:
    page = open_page(color_scheme=scheme)
    keep(page.screenshot(full_page=True), scheme)
    mode = ("light", "dark").index(scheme)
    colours = {name: PALETTE[f"strategy-{n}"][mode] for n, name in enumerate(COLLECTING)}

    for name in COLLECTING:
        select(page, "Strategy").select_option(label=name)
        counts = pixels_of(chosen(page, ".timeline.chosen .plot").screenshot(), colours)
        own = counts.pop(name)
        assert own > 800, "expected a line across the chart and circles"
        assert all(count < own / 20 for count in counts.values())


def test_contrast_shows_two_lines_and_others_on_demand(
    open_page: Open, pixels_of: Pixels, files: Path
) -> None:
    page = open_page()
    best = best_of(files)
    other = next(name for name in COLLECTING if name != best)
    colours = {
        name: PALETTE[f"strategy-{n}"][0] for n, name in enumerate((*COLLECTING, *[""] * 4, "none"))
    }
    plot = page.locator(".contrast:visible .plot")

    before = pixels_of(plot.screenshot(), colours)
    page.locator(".contrast:visible").get_by_role("checkbox", name=other).check()
    after = pixels_of(plot.screenshot(), colours)

    assert before[best] > 500
    assert before["none"] > 500
    assert before[other] < 50 < after[other]


def test_line_of_the_window_is_below_the_run_without_collection(open_page: Open) -> None:
    page = open_page()
    plot = page.locator(".contrast:visible .plot")

    limit = plot.locator("line.window").bounding_box()["y"]
    line = plot.locator("path.line.main").first.bounding_box()

    box = plot.bounding_box()
    assert line["y"] < limit < box["y"] + box["height"]
    assert line["y"] >= box["y"], "the whole line is in the chart"
    assert plot.locator("path.overflow").is_visible()


def test_window_threshold_and_target_lines_have_the_right_position(open_page: Open) -> None:
    page = open_page()
    plot = chosen(page, ".timeline.chosen .plot")
    box = plot.bounding_box()

    for line, share in (("window", 1.0), ("threshold", 0.8), ("target", 0.6)):
        drawn = plot.locator(f"line.{line}").bounding_box()
        expected = box["y"] + box["height"] * (1 - share / HEADROOM)
        assert drawn["y"] + drawn["height"] / 2 == pytest.approx(expected, abs=1)
        assert drawn["width"] == pytest.approx(box["width"], abs=3)
    # Collections start at the threshold, so the circles are on that line.
    threshold = plot.locator("line.threshold").bounding_box()["y"]
    for mark in plot.locator(".mark").all():
        circle = mark.bounding_box()
        assert circle["y"] + circle["height"] / 2 == pytest.approx(threshold, abs=6)


def test_source_and_cost_charts_use_all_colours(open_page: Open, pixels_of: Pixels) -> None:
    page = open_page()
    *_, stacks, cost = (figure.screenshot() for figure in chosen(page, "figure:visible").all())
    sources = {name: pair[0] for name, pair in PALETTE.items() if name.startswith("source")}
    parts = {name: pair[0] for name, pair in PALETTE.items() if name.startswith("part")}

    assert min(pixels_of(stacks, sources).values()) > 100
    assert min(pixels_of(cost, parts).values()) > 500


def test_dark_mode_follows_the_system_and_the_button(open_page: Open, pixels_of: Pixels) -> None:
    light, dark = open_page(color_scheme="light"), open_page(color_scheme="dark")

    def paper(page: Any) -> str:
        pixels = pixels_of(
            page.screenshot(), {"light": PALETTE["back"][0], "dark": PALETTE["back"][1]}
        )
        return max(pixels, key=lambda name: pixels[name])

    assert [paper(light), paper(dark)] == ["light", "dark"]
    for page, turned in ((light, "dark"), (dark, "light")):
        button = page.get_by_role("button", name="Dark mode")
        assert button.get_attribute("aria-pressed") == str(turned == "light").lower()
        button.click()
        assert paper(page) == turned
        assert button.get_attribute("aria-pressed") == str(turned == "dark").lower()


def test_print_version_is_light_and_has_no_controls(open_page: Open) -> None:
    page = open_page(color_scheme="dark")

    page.emulate_media(media="print")

    assert not select(page, "Transcript").is_visible()
    assert not page.get_by_role("radio").first.is_visible()
    assert not chosen(page, ".next").first.is_visible()
    assert (
        page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(27, 32, 39)"
    )
    assert chosen(page, ".plot > svg").first.is_visible()


def test_print_version_fits_on_the_width_of_a_page(open_page: Open) -> None:
    page = open_page(width=680)  # A4 without margins
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")

    wide = page.evaluate(
        """() => [...document.querySelectorAll(".chosen *, footer *")]
          .filter((part) => part.getBoundingClientRect().right > innerWidth + 1
            && !part.closest("svg, .hide"))
          .map((part) => part.outerHTML.slice(0, 100))"""
    )

    assert wide == []
    assert page.locator("table.totals:visible").count() == 1


def test_details_are_open_only_while_the_page_is_printed(open_page: Open) -> None:
    page = open_page()
    is_open = "document.querySelectorAll('.chosen details[open]').length"

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(is_open) > 5
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(is_open) == 0


def test_charts_are_readable_on_a_phone(open_page: Open) -> None:
    page = open_page(width=390, has_touch=True, is_mobile=True, device_scale_factor=2)
    keep(page.screenshot(full_page=True), "phone")

    for chart in chosen(page, ".plot > svg:visible").all():
        assert chart.bounding_box()["width"] > 250
    sizes = page.evaluate(
        """() => [...document.querySelectorAll(".chosen svg text")]
          .map((text) => text.getBoundingClientRect().height)
          .filter((height) => height)"""
    )
    assert min(sizes) >= 10, "text must not shrink with the chart"
    chosen(page, ".timeline.chosen .mark").nth(1).tap()
    [step] = steps_shown(page)
    assert "Collection 2 of" in step


# --- interaction ---


def test_buttons_step_through_the_collections(open_page: Open) -> None:
    page = open_page()
    timeline = chosen(page, ".timeline.chosen")
    following = timeline.get_by_role("button", name="Next")
    previous = timeline.get_by_role("button", name="Previous")

    [first] = steps_shown(page)
    assert "Collection 1 of" in first
    assert "→" in first
    assert "Removed by tool" in first
    assert previous.get_attribute("aria-disabled") == "true"
    following.click()
    [second] = steps_shown(page)
    assert "Collection 2 of" in second
    assert previous.get_attribute("aria-disabled") == "false"
    previous.click()
    assert steps_shown(page) == [first]
    keep(timeline.screenshot(), "timeline")


def test_pressing_a_circle_shows_its_collection(open_page: Open) -> None:
    page = open_page()
    mark = chosen(page, ".timeline.chosen .mark").nth(2)

    mark.click()

    [step] = steps_shown(page)
    assert "Collection 3 of" in step
    assert mark.get_attribute("aria-current") is not None
    assert "#" not in page.url


def test_every_collection_can_be_reached_with_the_keyboard(open_page: Open) -> None:
    page = open_page()
    select(page, "Strategy").focus()
    page.keyboard.press("Tab")

    count = chosen(page, ".timeline.chosen .mark").count()
    for key, number in (
        ("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("End", count), ("Home", 1),
    ):  # fmt: skip
        page.keyboard.press(key)
        [step] = steps_shown(page)
        assert f"Collection {number} of" in step
        assert page.evaluate("document.activeElement.hasAttribute('aria-current')")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the button for the next one
    assert "Collection 2 of" in steps_shown(page)[0]
    page.keyboard.press("ArrowRight")
    assert "Collection 3 of" in steps_shown(page)[0]


def test_selecting_a_window_or_transcript_switches_the_charts(open_page: Open) -> None:
    page = open_page()
    plot = chosen(page, ".timeline.chosen .plot")
    before = plot.screenshot()

    page.get_by_text("8k tokens", exact=True).locator("visible=true").first.click()

    assert page.locator(".cell:visible").count() == 1
    assert page.locator("h2.window-name:visible").inner_text() == "Window of 8k tokens"
    assert page.locator(".contrast:visible").count() == 1
    assert chosen(page, "h3").inner_text().endswith("window of 8k")
    assert plot.screenshot() != before
    assert page.get_by_role("status").inner_text().endswith("window of 8k")
    select(page, "Transcript").select_option(label="book-flight.json")
    assert chosen(page, "h3").inner_text() == "book-flight.json, window of 8k"


def test_window_can_be_selected_with_the_keyboard(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("radio", checked=True).focus()

    page.keyboard.press("ArrowLeft")

    assert page.locator("h2.window-name:visible").inner_text() == "Window of 32k tokens"


def test_selecting_a_strategy_shows_its_timeline(open_page: Open) -> None:
    page = open_page()

    for name in COLLECTING:
        select(page, "Strategy").select_option(label=name)
        assert page.locator(".timeline:visible").count() == 1
        assert chosen(page, ".timeline.chosen figcaption b").inner_text() == name
        assert len(steps_shown(page)) == 1


# --- accessibility ---


def test_controls_charts_and_tables_have_names_for_screen_readers(open_page: Open) -> None:
    page = open_page()
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")
    to_name = {"button", "link", "combobox", "image", "img", "region", "table", "form"}
    nodes = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in tree["nodes"]
        if not node["ignored"] and node.get("role", {}).get("value") in to_name
    ]

    assert {"button", "combobox", "image", "table"} <= {role for role, _ in nodes}
    assert [role for role, name in nodes if not name] == []
    landmarks = {node["role"]["value"] for node in tree["nodes"] if not node["ignored"]}
    assert {"main", "banner", "contentinfo"} <= landmarks


def test_headings_tables_and_ids_are_well_formed(open_page: Open) -> None:
    page = open_page()
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map((h) => +h.tagName[1])"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    bare = "[...document.querySelectorAll('th:not([scope]), table:not(:has(caption))')].length"
    assert page.evaluate(bare) == 0
    assert page.evaluate(
        """() => {
          const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
          return ids.length === new Set(ids).size;
        }"""
    )
    assert page.evaluate(
        """() => [...document.querySelectorAll("[aria-labelledby]")]
          .flatMap((element) => element.getAttribute("aria-labelledby").split(" "))
          .every((id) => document.getElementById(id))"""
    )


def test_first_tab_stop_is_a_visible_skip_link(open_page: Open) -> None:
    page = open_page()

    page.keyboard.press("Tab")

    link = page.get_by_role("link", name="Skip to the comparison")
    assert link.bounding_box()["y"] >= 0
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


# --- SVG chart ---


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_svg_chart_renders_as_an_image(open_page: Open, scheme: str, pixels_of: Pixels) -> None:
    page = open_page("readme.html", color_scheme=scheme)
    mode = ("light", "dark").index(scheme)
    picture = page.locator("img").screenshot()
    keep(picture, f"chart-svg-{scheme}")

    names = ["paper", *(f"strategy-{n}" for n in (*range(len(COLLECTING)), STRATEGY_COLOURS))]
    counts = pixels_of(picture, {name: PALETTE[name][mode] for name in names})

    assert page.locator("img").bounding_box()["width"] == 960
    assert counts.pop("paper") > 100_000
    assert sum(count > 800 for count in counts.values()) == 2
