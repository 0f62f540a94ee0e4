"""Tests of the picture in Chromium: layout and contrast, in light and dark mode."""

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from chromium import needs_chromium, new_page, save_screenshot

pytestmark = needs_chromium

PICTURE = Path(__file__).parents[1] / "docs" / "picture.svg"
SCHEMES = ("light", "dark")
LEGIBLE = 4.5
"""The contrast that WCAG requires of text."""

MEASURE = """() => {
  const edges = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return [left, top, right, bottom];
  };
  const boxes = [...document.querySelectorAll("rect")];
  return {
    boxes: boxes.map((box) => [edges(box), getComputedStyle(box).fill]),
    texts: [...document.querySelectorAll("text")].map((text) => {
      let group = text.parentElement;
      while (!group.querySelector(":scope > rect")) group = group.parentElement;
      const own = [];
      for (let each = group; each; each = each.parentElement)
        own.push(boxes.indexOf(each.querySelector(":scope > rect")));
      const around = own.filter((index) => index >= 0);
      return [text.textContent, edges(text), getComputedStyle(text).fill, around];
    }),
    points: [...document.querySelectorAll("path.line")].flatMap((path) =>
      Array.from({ length: Math.floor(path.getTotalLength() / 2) + 1 }, (_, step) => {
        const { x, y } = path.getPointAtLength(2 * step);
        return [x, y];
      })),
  };
}"""
"""Returns all boxes and texts with their colours, and points of all lines.

The first number after a text is the box that it is in, and the others are the boxes around that.
"""


class Edges(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def contains(self, other: "Edges") -> bool:
        return (
            self.left <= other.left
            and self.top <= other.top
            and self.right >= other.right
            and self.bottom >= other.bottom
        )

    def overlaps(self, other: "Edges") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class Box(NamedTuple):
    edges: Edges
    fill: str


class Text(NamedTuple):
    content: str
    edges: Edges
    fill: str
    around: list[int]


class Layout(NamedTuple):
    boxes: list[Box]
    texts: list[Text]
    points: list[tuple[float, float]]


@pytest.fixture(scope="module", params=SCHEMES)
def layout(request: pytest.FixtureRequest) -> Iterator[Layout]:
    with new_page(1200, 1500, request.param) as page:
        page.goto(PICTURE.as_uri())
        save_screenshot(page, f"picture-{request.param}")
        yield layout_of(page.evaluate(MEASURE))


def layout_of(measured: dict[str, Any]) -> Layout:
    return Layout(
        [Box(Edges(*edges), fill) for edges, fill in measured["boxes"]],
        [
            Text(content, Edges(*edges), fill, around)
            for content, edges, fill, around in measured["texts"]
        ],
        [(x, y) for x, y in measured["points"]],
    )


def luminance(colour: str) -> float:
    """Returns the relative luminance of a colour, as WCAG defines it."""
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_picture_has_boxes_and_texts(layout: Layout) -> None:
    assert len(layout.boxes) > 50
    assert len(layout.texts) > 50


def test_every_text_is_inside_its_box(layout: Layout) -> None:
    outside = [
        text.content
        for text in layout.texts
        if not all(layout.boxes[each].edges.contains(text.edges) for each in text.around)
    ]

    assert outside == []


def test_no_text_touches_another_text(layout: Layout) -> None:
    touching = [
        (one.content, other.content)
        for one, other in combinations(layout.texts, 2)
        if one.edges.overlaps(other.edges)
    ]

    assert touching == []


def test_no_text_touches_a_box_that_it_is_not_in(layout: Layout) -> None:
    touching = [
        text.content
        for text in layout.texts
        for number, box in enumerate(layout.boxes)
        if number not in text.around and box.edges.overlaps(text.edges)
    ]

    assert touching == []


def test_no_line_crosses_a_text(layout: Layout) -> None:
    crossed = {
        text.content
        for text in layout.texts
        for x, y in layout.points
        if text.edges.contains(Edges(x, y, x, y))
    }

    assert crossed == set()


def test_every_text_is_legible_on_its_box(layout: Layout) -> None:
    faint = [
        (text.content, round(found, 1))
        for text in layout.texts
        if (found := contrast(text.fill, layout.boxes[text.around[0]].fill)) < LEGIBLE
    ]

    assert faint == []


def test_contrast_is_the_one_of_wcag() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.01)
