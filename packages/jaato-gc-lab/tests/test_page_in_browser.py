"""Tests of the report in Chromium: layout, colours, pointer, keyboard and accessibility.

The tests need the Python package of Playwright and a system Chromium (Debian package ``chromium``).
``JAATO_GC_CHROMIUM`` is the path of another Chromium. The browsers of Playwright are not used.
``JAATO_GC_SCREENSHOTS`` is a folder in which to save screenshots.
"""

import base64
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from report_samples import PRICE, STRATEGIES, sample_grid

from jaato_gc_lab._charts import HEADROOM, cost_parts_at
from jaato_gc_lab._page import chart_svg, report_page
from jaato_gc_lab._ranking import rank
from jaato_gc_lab._templates import PALETTE

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
        cost_parts=cost_parts_at(PRICE),
    )
    (folder / "report.html").write_text(page, encoding="utf-8")
    (folder / "chart.svg").write_text(chart_svg(grid.reports), encoding="utf-8")
    in_readme = '<body style="margin:0"><img src="chart.svg" alt="chart">'
    (folder / "readme.html").write_text(in_readme, encoding="utf-8")
    return folder


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


def tips_shown(page: Any) -> list[str]:
    """Returns the texts of the visible collection details."""
    return list(
        page.evaluate(
            """() => [...document.querySelectorAll(".chosen .tip")]
              .filter((tip) => getComputedStyle(tip).opacity === "1"
                && getComputedStyle(tip).clipPath === "none")
              .map((tip) => tip.innerText)"""
        )
    )


def select(page: Any, name: str) -> Any:
    return page.get_by_role("combobox", name=name)


def chosen(page: Any, selector: str) -> Any:
    return page.locator(f".cell.chosen {selector}")


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
    charts = page.locator(".cell .plot > svg")
    assert charts.count() > 9 * len(COLLECTING)
    assert charts.first.is_visible()
    assert charts.last.is_visible()
    assert not select(page, "Transcript").is_visible()


# --- appearance ---


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_text_stays_inside_its_card(open_page: Open, width: int) -> None:
    page = open_page(width=width)
    for summary in page.locator("section.card > details > summary, .chosen summary").all():
        summary.click()

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => {
          const cut = [];
          for (const card of document.querySelectorAll("section.card")) {
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

    for chart in chosen(page, "svg[role=img]").all():
        box = chart.bounding_box()
        assert box["width"] > 200
        assert box["height"] >= 18
    for text in ("window, 128k", "threshold, 80 %", "target, 60 %", "without collection"):
        assert chosen(page, ".legend").get_by_text(text).is_visible()
    for text in ("results", "system", "cache reads", "new input", "output"):
        assert chosen(page, ".legend").get_by_text(text, exact=True).is_visible()
    for name in COLLECTING:
        assert chosen(page, ".panel-name").get_by_text(name, exact=True).first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_strategy_is_drawn_in_its_colour(
    open_page: Open, scheme: str, pixels_of: Pixels
) -> None:
    page = open_page(color_scheme=scheme)
    keep(page.screenshot(full_page=True), scheme)
    mode = ("light", "dark").index(scheme)
    panels = chosen(page, "figure").first.locator(".panel")
    assert panels.count() == len(COLLECTING)

    for number, panel in enumerate(panels.all()):
        colours = {f"s{n}": PALETTE[f"strategy-{n}"][mode] for n in range(len(COLLECTING))}
        counts = pixels_of(panel.locator(".plot").screenshot(), colours)
        own = counts.pop(f"s{number}")
        assert own > 800, "expected a line across the chart and circles"
        assert all(count < own / 20 for count in counts.values())


def test_window_threshold_and_target_lines_have_the_right_position(open_page: Open) -> None:
    page = open_page()
    plot = chosen(page, ".plot").first
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
    _, stacks, cost = (figure.screenshot() for figure in chosen(page, "figure").all())
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

    assert not select(page, "Window").is_visible()
    assert (
        page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(27, 32, 39)"
    )
    assert chosen(page, ".plot > svg").first.is_visible()


def test_charts_are_readable_on_a_phone(open_page: Open) -> None:
    page = open_page(width=390, has_touch=True, is_mobile=True, device_scale_factor=2)
    keep(page.screenshot(full_page=True), "phone")

    for chart in chosen(page, ".plot > svg").all():
        assert chart.bounding_box()["width"] > 250
    sizes = page.evaluate(
        """() => [...document.querySelectorAll(".chosen svg text")]
          .map((text) => text.getBoundingClientRect().height)"""
    )
    assert min(sizes) >= 10, "text must not shrink with the chart"
    chosen(page, ".mark").first.tap()
    assert len(tips_shown(page)) == 1


# --- interaction ---


def test_pointing_near_a_collection_shows_its_details(open_page: Open) -> None:
    page = open_page()
    plot = chosen(page, ".plot").first
    plot.scroll_into_view_if_needed()
    mark = plot.locator(".mark").nth(2).bounding_box()
    assert tips_shown(page) == []

    page.mouse.move(mark["x"] + 20, mark["y"] + 60)  # below the mark and slightly to the right

    [tip] = tips_shown(page)
    assert "Collection 3 of" in tip
    assert "→" in tip
    assert "truncated" in tip
    keep(page.screenshot(), "hover")
    page.mouse.move(5, 5)
    assert tips_shown(page) == []


def test_every_collection_can_be_reached_with_the_keyboard(open_page: Open) -> None:
    page = open_page()
    select(page, "Window").focus()
    page.keyboard.press("Tab")

    [tip] = tips_shown(page)
    assert "Collection 1 of" in tip
    page.keyboard.press("ArrowRight")
    [tip] = tips_shown(page)
    assert "Collection 2 of" in tip
    page.keyboard.press("End")
    [tip] = tips_shown(page)
    count = chosen(page, ".marks").first.locator(".mark").count()
    assert f"Collection {count} of {count}" in tip
    page.keyboard.press("Escape")
    assert tips_shown(page) == []
    page.keyboard.press("Tab")  # moves to the first collection of the next chart
    [tip] = tips_shown(page)
    assert "summarized" in tip


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_collection_details_stay_on_the_screen(open_page: Open, width: int) -> None:
    page = open_page(width=width)
    marks = chosen(page, ".marks").first.locator(".mark")

    for mark in (marks.first, marks.last):
        mark.focus()
        box = mark.locator(".tip").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


def test_selecting_a_window_or_transcript_switches_the_charts(open_page: Open) -> None:
    page = open_page()
    before = chosen(page, ".plot").first.screenshot()

    select(page, "Window").select_option(label="8k tokens")

    assert page.locator(".cell:visible").count() == 1
    assert chosen(page, "h3").inner_text().endswith("window of 8k")
    assert chosen(page, ".plot").first.screenshot() != before
    assert page.get_by_role("status").inner_text().endswith("window of 8k")
    select(page, "Transcript").select_option(label="book-flight.json")
    assert chosen(page, "h3").inner_text() == "book-flight.json, window of 8k"


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

    names = ["paper", *(f"strategy-{n}" for n in range(len(COLLECTING)))]
    counts = pixels_of(picture, {name: PALETTE[name][mode] for name in names})

    assert page.locator("img").bounding_box()["width"] == 960
    assert counts.pop("paper") > 100_000
    assert min(counts.values()) > 800
