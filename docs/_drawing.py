"""Boxes, texts and arrows of an SVG that is readable on light and dark backgrounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

Colour = Literal["blue", "green", "orange", "red", "purple", "yellow", "grey"]
Point = tuple[float, float]

PALETTE: dict[Colour, tuple[tuple[str, str, str], tuple[str, str, str]]] = {
    "blue": (("#e9f2fc", "#2472b8", "#164b7e"), ("#13263a", "#4f9fe6", "#b3d8fb")),
    "purple": (("#f2edfc", "#7b52c4", "#4c2e85"), ("#241c39", "#a387e8", "#d9cbfb")),
    "green": (("#e8f6ee", "#238a50", "#165c34"), ("#12291c", "#41b876", "#aeeac6")),
    "orange": (("#fdf1e2", "#cc6f08", "#874600"), ("#2f200e", "#e8963f", "#fbd3a6")),
    "red": (("#fdecea", "#c93f33", "#8f2119"), ("#34191b", "#ec6f65", "#ffc6c0")),
    "yellow": (("#fdf8de", "#b88c00", "#6a4f00"), ("#2b260c", "#d8b631", "#f6e5a2")),
    "grey": (("#ffffff", "#6b7580", "#1b2027"), ("#14191f", "#8d98a4", "#e8ecf0")),
}
"""Fill, line and text of each colour, for light and for dark backgrounds."""

STYLE = """\
text { font: 20px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
.title { font-size: 38px; font-weight: 700 }
.heading { font-size: 26px; font-weight: 700 }
.code { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace }
.strong { font-weight: 700 }
.middle { text-anchor: middle }
.end { text-anchor: end }
rect { stroke-width: 2 }
.ink { fill-rule: evenodd }
.line { fill: none; stroke-width: 3; stroke-linejoin: round }
.card { stroke-opacity: 0.3 }
.shade-1 { fill-opacity: 0.7 }
.shade-2 { fill-opacity: 0.45 }
.shade-3 { fill-opacity: 0.25 }
.dashed { stroke-width: 1.5; stroke-dasharray: 5 6 }
"""

PADLOCK = "M-7 -1 H-5.5 V-4 A5.5 5.5 0 0 1 5.5 -4 V-1 H7 V9 H-7 Z M-3 -1 H3 V-4 A3 3 0 0 0 -3 -4 Z"
"""A padlock, 20 units high, around its centre. The second part is the hole of the shackle."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, by its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height

    @property
    def centre_x(self) -> float:
        """The horizontal centre."""
        return self.x + self.width / 2

    @property
    def centre_y(self) -> float:
        """The vertical centre."""
        return self.y + self.height / 2


def group(colour: Colour, *content: str) -> str:
    """Returns elements in one colour. The first one is the box that the others lie in."""
    return f'<g class="{colour}">\n' + "\n".join(content) + "\n</g>"


def rect(box: Box, kind: str = "panel", radius: float = 16) -> str:
    """Returns a rounded rectangle: a tinted ``panel``, a ``chip`` like paper, or ``solid``."""
    place = f'x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}"'
    return f'<rect class="{kind}" {place} rx="{radius:g}"/>'


def text(x: float, y: float, content: str, kind: str = "plain") -> str:
    """Returns one line of text, at its baseline."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(content)}</text>'


def sign(x: float, y: float, content: str, size: float) -> str:
    """Returns a single character in the middle of a place.

    The padlock is drawn: without an emoji font there is none, and with one it has other colours.
    """
    if content == "\N{LOCK}":
        place = f"translate({x:g} {y:g}) scale({size / 20:g})"
        return f'<path class="ink" transform="{place}" d="{PADLOCK}"/>'
    style = f'class="middle" style="font-size: {size:g}px"'
    return f'<text {style} x="{x:g}" y="{y + 0.36 * size:g}">{escape(content)}</text>'


def line(points: Sequence[Point], kind: str = "line") -> str:
    """Returns a line through some points."""
    return f'<path class="{kind}" d="{_path(points)}"/>'


def arrow(*points: Point) -> str:
    """Returns a grey arrow through some points, with its tip at the last one."""
    return group("grey", f'<path class="line" d="{_path(points)}" marker-end="url(#tip)"/>')


def _path(points: Sequence[Point]) -> str:
    return "M" + " L".join(f"{x:g} {y:g}" for x, y in points)


def panel(box: Box, colour: Colour, heading: str, code: str, *content: str) -> str:
    """Returns a large box with a heading, and a name of the code at its upper right."""
    return group(
        colour,
        rect(box),
        text(box.x + 22, box.y + 40, heading, "heading"),
        text(box.right - 22, box.y + 39, code, "code end"),
        *content,
    )


def chip(box: Box, colour: Colour, content: str) -> str:
    """Returns a small box with a name of the code in its centre."""
    label = text(box.centre_x, box.centre_y + 7, content, "code middle")
    return group(colour, rect(box, "chip", 10), label)


def svg(width: int, height: int, title: str, description: str, *content: str) -> str:
    """Returns a picture on a card, which is readable on any page."""
    card = Box(1, 1, width - 2, height - 2)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            f"<style>\n{STYLE}{_rules(0)}",
            f"@media (prefers-color-scheme: dark) {{\n{_rules(1)}\n}}\n</style>",
            '<marker id="tip" viewBox="0 0 10 10" refX="9.5" refY="5" markerWidth="5"'
            ' markerHeight="5" orient="auto"><g class="grey"><path class="solid"'
            ' d="M0 0 L10 5 L0 10 Z"/></g></marker>',
            group("grey", rect(card, "card", 28), *content),
            "</svg>\n",
        ]
    )


def _rules(scheme: int) -> str:
    """Returns the styles of all colours: 0 is for light backgrounds, 1 for dark ones."""
    paper = PALETTE["grey"][scheme][0]
    lines = []
    for colour, schemes in PALETTE.items():
        fill, stroke, ink = schemes[scheme]
        lines += [
            f".{colour} > rect {{ fill: {fill}; stroke: {stroke} }}",
            f".{colour} > .chip {{ fill: {paper} }}",
            f".{colour} > .solid {{ fill: {stroke} }}",
            f".{colour} > .line {{ stroke: {stroke} }}",
            f".{colour} > text, .{colour} > .ink {{ fill: {ink} }}",
        ]
    return "\n".join(lines)
