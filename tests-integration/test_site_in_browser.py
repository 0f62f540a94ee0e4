"""Tests of the documentation site in Chromium: its layout on a phone and on a desk.

`nox -s docs` builds the site.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from chromium import needs_chromium, new_page, save_screenshot

SITE = Path(__file__).parents[1] / "site"
PAGES = sorted(SITE.rglob("*.html"))
PHONE, DESK = 390, 1280

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not PAGES, reason="the site is not built: run nox -s docs"),
]

MEASURE = """() => (scrollTo({ left: 9999, behavior: "instant" }), {
  overflow: scrollX,
  broken: [...document.querySelectorAll("td code, th code")]
    .filter((code) => !/\\s/.test(code.textContent) && code.getClientRects().length > 1)
    .map((code) => code.textContent),
  hidden: [...document.querySelectorAll("table")]
    .filter((table) => {
      const edge = table.getBoundingClientRect().right;
      for (let box = table.parentElement; box; box = box.parentElement)
        if (/auto|scroll/.test(getComputedStyle(box).overflowX)) return false;
      return edge > document.documentElement.clientWidth;
    }).length,
})"""
"""Returns how far a page scrolls to the right, code without spaces in a table that is on more than
one line, and the number of wide tables that can't be scrolled."""


class Layout(NamedTuple):
    page: str
    overflow: int
    broken: list[str]
    hidden: int


@pytest.fixture(scope="module", params=[PHONE, DESK])
def layouts(request: pytest.FixtureRequest) -> Iterator[list[Layout]]:
    with new_page(request.param, 900) as page:
        yield [layout_of(page, path, request.param) for path in PAGES]


def layout_of(page: Any, path: Path, width: int) -> Layout:
    name = path.relative_to(SITE).with_suffix("").as_posix()
    page.goto(path.as_uri())
    save_screenshot(page, f"site-{name.replace('/', '-')}-{width}")
    return Layout(name, **page.evaluate(MEASURE))


def test_every_page_of_the_site_is_measured(layouts: list[Layout]) -> None:
    assert len(layouts) > 80


def test_no_page_scrolls_sideways(layouts: list[Layout]) -> None:
    assert [(each.page, each.overflow) for each in layouts if each.overflow > 0] == []


def test_no_identifier_in_a_table_is_on_two_lines(layouts: list[Layout]) -> None:
    assert [(each.page, each.broken) for each in layouts if each.broken] == []


def test_wide_tables_scroll_in_a_box_of_their_own(layouts: list[Layout]) -> None:
    assert [(each.page, each.hidden) for each in layouts if each.hidden] == []
