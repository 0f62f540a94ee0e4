"""Draws the whole system in one picture, from the names, defaults and collections of the code.

    python docs/_picture.py        # write docs/picture.svg again
    python docs/_picture.py FILE   # write it to another file

The steps of a collection follow each other on the left. On the right are their details. Boxes have
room for DejaVu Sans, which is wider than the fonts of most systems.
"""

import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from _drawing import Box, Point, arrow, chip, group, line, panel, rect, sign, svg, text
from _picture_facts import full_session, phases, strategies, tokens_by_source, usage_over_turns

from jaato_gc import (
    GC_POLICY_INDICATORS,
    GCConfig,
    GCPolicy,
    GCRemovalItem,
    GCSession,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    Message,
)
from jaato_gc.plugin import ENVIRONMENT_VARIABLES, Collection, GCStrategy

TITLE = "How jaato-gc keeps a context in its window"
DESCRIPTION = (
    "From top to bottom: the configuration sets threshold, target and pressure, and so the mode. "
    "The session checks before each request, during the answer and after the turn whether a "
    "collection is due. A strategy selects what is removed; gc_budget does so by policy, in "
    "phases. History and budget change together, and undo reverts both."
)
WIDTH, MARGIN, GAP, PAD = 1200, 40, 44, 22
LEFT_WIDTH = 590
ROW, INDENT = 26, 100
"""The height of the rows before and after a collection, and the space for their labels."""


def picture() -> str:
    """Returns the picture."""
    config, modes = side_by_side(92, 236)
    session = Box(MARGIN, config.bottom + GAP, WIDTH - 2 * MARGIN, 250)
    strategy, phase = side_by_side(session.bottom + GAP, 422)
    history, budget = side_by_side(strategy.bottom + GAP, 216)
    selecting = f"{GCStrategy.select.__name__}({Collection.__name__})"
    sample = full_session()
    messages, tokens = sample.history, tokens_by_source(sample)
    sample.after_turn()
    return svg(
        WIDTH,
        round(history.bottom) + MARGIN,
        TITLE,
        DESCRIPTION,
        text(MARGIN, 60, TITLE, "title"),
        draw_settings(config),
        draw_modes(modes),
        draw_turn(session),
        draw_strategies(strategy),
        draw_phases(phase),
        draw_history(history, messages, sample.history),
        draw_budget(budget, tokens, sample),
        arrow((config.right, config.centre_y), (modes.x, modes.centre_y)),
        arrow((config.centre_x, config.bottom), (config.centre_x, session.y)),
        arrow((strategy.centre_x, session.bottom), (strategy.centre_x, strategy.y)),
        text(strategy.centre_x + 16, session.bottom + 27, selecting, "code"),
        arrow((strategy.right, strategy.y + 89), (phase.x, phase.y + 89)),
        arrow((history.centre_x, strategy.bottom), (history.centre_x, history.y)),
        text(history.centre_x + 16, strategy.bottom + 27, "edits"),
        arrow((history.right, history.centre_y), (budget.x, budget.centre_y)),
    )


def side_by_side(y: float, height: float) -> tuple[Box, Box]:
    """Returns the boxes of a step and of its details."""
    step = Box(MARGIN, y, LEFT_WIDTH, height)
    x = step.right + GAP
    return step, Box(x, y, WIDTH - MARGIN - x, height)


def draw_settings(box: Box) -> str:
    """Draws the most important settings: name, default and environment variable."""
    config, content = GCConfig(), []
    for number, name in enumerate((*ENVIRONMENT_VARIABLES, "preserve_recent_turns")):
        y = box.y + 90 + 40 * number
        default = f"{getattr(config, name):g}{' %' if name.endswith('_percent') else ''}"
        content.append(text(box.x + PAD, y, name, "code strong"))
        content.append(text(box.x + 326, y, default, "code end"))
        if name in ENVIRONMENT_VARIABLES:
            content.append(text(box.right - PAD, y, ENVIRONMENT_VARIABLES[name], "code end"))
    return panel(box, "blue", "1 Configuration", GCConfig.__name__, *content)


def draw_modes(box: Box) -> str:
    """Draws usage over the turns in both modes."""
    modes = {"threshold": GCConfig(), "continuous": GCConfig(pressure_percent=0.0)}
    width = (box.width - 3 * PAD) / len(modes)
    content = []
    for number, (name, config) in enumerate(modes.items()):
        plot = Box(box.x + PAD + number * (width + PAD), box.y + 62, width, 124)
        content.append(draw_usage(plot, config))
        content.append(text(plot.centre_x, box.bottom - 18, name, "strong middle"))
    return panel(box, "yellow", "Modes", "percent_used", *content)


def draw_usage(plot: Box, config: GCConfig) -> str:
    """Draws usage over the turns in one mode, between the limits of that mode."""
    turns, lowest, highest = 12, 50, 90
    limits = [config.target_percent]
    if not config.continuous_mode:
        limits.append(config.threshold_percent)
    left, right = plot.x + 66, plot.right - 12

    def at(turn: float, percent: float) -> Point:
        share = (percent - lowest) / (highest - lowest)
        return left + turn * (right - left) / turns, plot.bottom - share * plot.height

    return group(
        "yellow",
        rect(plot, "chip", 10),
        *(line([at(0, limit), at(turns, limit)], "line dashed") for limit in limits),
        *(text(left - 8, at(0, limit)[1] + 7, f"{limit:g} %", "end") for limit in limits),
        line([at(*point) for point in usage_over_turns(config, turns, growth=5.0)]),
    )


def draw_turn(box: Box) -> str:
    """Draws the methods of a turn, and the reasons for a collection."""
    methods = {
        GCSession.before_send: "collects if due",
        GCSession.report_usage: "watches usage",
        GCSession.after_turn: "collects if due",
        GCSession.manual_gc: "collects now",
    }
    places = [Box(box.x + PAD + 281 * number, box.y + 60, 233, 74) for number in range(4)]
    content = [
        group(
            "purple",
            rect(place, "chip", 10),
            text(place.centre_x, place.y + 32, method.__name__, "code strong middle"),
            text(place.centre_x, place.y + 59, task, "middle"),
        )
        for place, (method, task) in zip(places, methods.items(), strict=True)
    ]
    first, second, third, _ = places
    below = first.bottom + 26
    turning = [
        (third.centre_x, third.bottom),
        (third.centre_x, below),
        (second.centre_x + 66, below),
    ]
    content += [
        arrow((first.right, first.centre_y), (second.x, second.centre_y)),
        arrow((second.right, second.centre_y), (third.x, third.centre_y)),
        group("grey", line(turning)),
        text(second.centre_x, below + 7, "every turn", "middle"),
        arrow(
            (second.centre_x - 66, below), (first.centre_x, below), (first.centre_x, first.bottom)
        ),
    ]
    row = Box(box.x + PAD, box.bottom - 58, box.width - 2 * PAD, 38)
    return panel(box, "purple", "2 Session", GCSession.__name__, *content, *draw_reasons(row))


def draw_reasons(row: Box) -> list[str]:
    """Draws the reasons for a collection, from the left end of a row to its right end."""
    widths = [12.1 * len(reason) + 20 for reason in GCTriggerReason]
    x = row.x + 196
    space = (row.right - x - sum(widths)) / (len(widths) - 1)
    content = [text(row.x, row.centre_y + 7, GCTriggerReason.__name__, "code")]
    for reason, width in zip(GCTriggerReason, widths, strict=True):
        content.append(chip(Box(x, row.y, width, row.height), "purple", reason))
        x += width + space
    return content


def draw_strategies(box: Box) -> str:
    """Draws the strategies with their summaries."""
    content, y = [], box.y + 84
    for name, summary in strategies().items():
        content.append(text(box.x + PAD, y, name, "code strong"))
        for part in textwrap.wrap(summary, 50):
            y += 25
            content.append(text(box.x + PAD, y, part))
        y += 35
    return panel(box, "green", "3 Strategy", GCStrategy.__name__, *content)


def draw_phases(box: Box) -> str:
    """Draws the phases of gc_budget, each with the policy of what it removes."""
    found = phases()
    rows = [(reason, policy, "code strong") for reason, policy in found.items()]
    rows += [("never", policy, "strong") for policy in GCPolicy if policy not in found.values()]
    icons = [Box(box.x + PAD, box.y + 62 + 70 * number, 54, 54) for number in range(len(rows))]
    content = []
    for icon, (reason, policy, kind) in zip(icons, rows, strict=True):
        content += [
            group(
                "orange",
                rect(icon, "chip", 10),
                sign(icon.centre_x, icon.centre_y, GC_POLICY_INDICATORS[policy], 28),
            ),
            text(icon.right + 18, icon.y + 21, reason, kind),
            group("orange", text(icon.right + 18, icon.bottom - 6, policy.name)),
        ]
    content += [
        arrow((upper.centre_x, upper.bottom), (lower.centre_x, lower.y))
        for upper, lower in pairwise(icons[: len(found)])
    ]
    return panel(box, "red", "Phases", "gc_budget", *content)


def draw_history(box: Box, before: Sequence[Message], after: Sequence[Message]) -> str:
    """Draws the messages of a history, before and after a collection."""
    old = {message.message_id for message in before}
    new = {message.message_id for message in after}
    content = []
    for y, label, messages in zip(rows_of(box), ("before", "after"), (before, after), strict=True):
        content.append(text(box.x + PAD, y + 20, label))
        for number, message in enumerate(messages):
            place = Box(box.x + INDENT + 17 * number, y, 13, ROW)
            known, stays = message.message_id in old, message.message_id in new
            content.append(draw_message(place, was_there=known, stays=stays))
    for x, label in ((PAD, "kept"), (124, "removed"), (256, "ledger")):
        key = Box(box.x + x, box.bottom - 50, 13, ROW)
        content.append(draw_message(key, was_there=label != "ledger", stays=label != "removed"))
        content.append(text(key.right + 10, key.y + 20, label))
    upper, lower = (y + ROW / 2 for y in rows_of(box))
    right = box.right - PAD
    content += [
        text(right - 28, lower + 6, GCSession.undo.__name__, "code end"),
        arrow((right - 20, lower), (right, lower), (right, upper), (right - 40, upper)),
    ]
    return panel(box, "grey", "4 History", GCRemovalItem.__name__, *content)


def draw_message(box: Box, *, was_there: bool, stays: bool) -> str:
    """Draws a message that a collection keeps, removes or adds."""
    if not was_there:
        return group("green", rect(box, "solid", 3))
    return group("grey", rect(box, "solid", 3)) if stays else group("red", rect(box, "panel", 3))


def draw_budget(box: Box, before: Mapping[InstructionSource, int], session: GCSession) -> str:
    """Draws the tokens of every source, before and after a collection."""
    limit = session.budget.context_limit
    after = tokens_by_source(session)
    content = []
    for y, label, tokens in zip(rows_of(box), ("before", "after"), (before, after), strict=True):
        window = Box(box.x + INDENT, y, box.width - INDENT - PAD, ROW)
        bar, x = [rect(window, "chip", 3)], window.x
        for number, figure in enumerate(tokens.values()):
            part = Box(x, y, round(window.width * figure / limit), ROW)
            bar.append(rect(part, f"solid shade-{number}", 3))
            x = part.right
        used = 100 * sum(tokens.values()) / limit
        bar.append(text(window.right - 8, y + 20, f"{used:.0f} %", "end"))
        content += [text(box.x + PAD, y + 20, label), group("orange", *bar)]
    for number, (source, entry) in enumerate(session.budget.entries.items()):
        key = Box(box.x + PAD + number % 2 * 196, box.bottom - 76 + number // 2 * 34, 26, ROW)
        content += [
            rect(key, f"solid shade-{number}", 3),
            sign(key.right + 20, key.centre_y, entry.indicator(), 20),
            text(key.right + 36, key.y + 20, source),
        ]
    return panel(box, "orange", "Budget", InstructionBudget.__name__, *content)


def rows_of(box: Box) -> tuple[float, float]:
    """Returns where the rows before and after a collection begin."""
    return box.y + 62, box.y + 100


if __name__ == "__main__":
    for name in ENVIRONMENT_VARIABLES.values():
        os.environ.pop(name, None)  # the picture shows the defaults
    file = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_name("picture.svg")
    file.write_text(picture(), encoding="utf-8", newline="\n")
