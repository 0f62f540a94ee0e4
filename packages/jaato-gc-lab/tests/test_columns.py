"""Tests of aligned columns: what a narrow terminal leaves out, and what it never cuts."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from jaato_gc_lab._columns import Columns, Name

ROWS = [
    ("2,696", "0", Name("run_command", "python -m pytest")),
    ("946", "12", Name("read_file src/harbour/imports.py", "and 1 more")),
    ("17", "-", Name("", "The build fails on the old quay server, pipeline 88213.")),
]


def lines_of(columns: Columns, width: int) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(columns)
    return file.getvalue().splitlines()


def shown(width: int) -> list[str]:
    return lines_of(Columns(ROWS, ("tokens", "turn", "content"), flexible=2, drop=(1, 0)), width)


def test_wide_terminal_shows_everything() -> None:
    assert shown(80) == [
        "tokens  turn  content",
        " 2,696     0  run_command python -m pytest",
        "   946    12  read_file src/harbour/imports.py and 1 more",
        "    17     -  The build fails on the old quay server, pipeline 88213.",
    ]


def test_text_after_a_name_is_cut_first() -> None:
    assert shown(60)[2:] == [
        "   946    12  read_file src/harbour/imports.py and 1 more",
        "    17     -  The build fails on the old quay server, pipel…",
    ]


@pytest.mark.parametrize(
    ("width", "headings"),
    [(57, "tokens  turn  content"), (56, "tokens  content"), (50, "content")],
)
def test_columns_are_left_out_in_order_before_a_name_is_cut(width: int, headings: str) -> None:
    assert shown(width)[0] == headings


def test_name_that_does_not_fit_in_any_case_continues_and_leaves_no_column_out() -> None:
    rows = [*ROWS, ("5", "3", Name("read_file " + "src/" * 20))]
    lines = lines_of(Columns(rows, flexible=2, drop=(1, 0)), 60)

    assert lines[1].startswith("  946  12  read_file src/harbour/imports.py")
    assert lines[3:] == [
        "    5   3  read_file",
        "           src/src/src/src/src/src/src/src/src/src/src/src/s",
        "           rc/src/src/src/src/src/src/src/",
    ]


@given(
    names=st.lists(st.from_regex(r"[a-z_/]{1,150}", fullmatch=True), min_size=1, max_size=5),
    rest=st.text("ab ", max_size=80),
    width=st.integers(40, 200),
)
def test_names_are_whole_at_any_width(names: list[str], rest: str, width: int) -> None:
    rows = [("12,345", "7", Name(name, rest)) for name in names]
    lines = lines_of(Columns(rows, flexible=2, drop=(1, 0)), width)

    assert all(cell_len(line) <= width for line in lines)
    text = re.sub(r"\s", "", "".join(lines))
    assert all(name in text for name in names)


def test_columns_that_are_left_out_are_named_with_the_remedy() -> None:
    rows = [("name", "a" * 30, "b" * 30, "c" * 30)]
    headings = ("name", "fir-\nst", "sec\nond", "third")

    shown = lines_of(Columns(rows, headings, drop=(2, 1, 3)), 80)

    assert shown[2:] == [
        "name  " + "a" * 30 + "  " + "c" * 30,
        "Not enough space for: sec ond. A wider terminal or --json shows them.",
    ]


def test_last_columns_are_left_out_first_by_default() -> None:
    rows = [("name", "a" * 30, "b" * 30, "c" * 30)]

    [line, _] = lines_of(Columns(rows, ("name", "first", "second", "third")), 80)[1:]

    assert line.split() == ["name", "a" * 30, "b" * 30]


def test_headings_of_several_lines_end_above_the_rows() -> None:
    rows = [("gc_budget", "0", "12%")]

    assert lines_of(Columns(rows, ("strategy", "do not\nfit", "cost"), gap=1), 80) == [
        "          do not",
        "strategy     fit cost",
        "gc_budget      0  12%",
    ]


def test_string_continues_at_a_space_before_a_column_is_left_out() -> None:
    rows = [("gc_budget, gc_marksweep", "12,345")]

    assert lines_of(Columns(rows), 22) == ["gc_budget,      12,345", "gc_marksweep"]


@pytest.mark.parametrize(("length", "is_whole"), [(70, True), (71, False)])
def test_text_has_the_whole_width_before_it_is_cut(length: int, is_whole: bool) -> None:
    text = "x" * length

    [line] = lines_of(Columns([("1", Name("", text), "12345")], flexible=1), 80)

    assert (text in line) is is_whole
    assert len(line) <= 80


@given(
    names=st.lists(st.text("abc_-.", min_size=1, max_size=200), min_size=1, max_size=5),
    figures=st.integers(1, 30),
)
def test_long_names_are_whole_beside_any_number_of_columns(names: list[str], figures: int) -> None:
    headings = ["name", *(f"figure {n}" for n in range(figures))]
    rows = [(name, *map(str, range(figures))) for name in names]

    [first, *table] = lines_of(Columns(rows, headings), 80)

    assert all(len(line) <= 80 for line in [first, *table])
    assert "figure 0" in first
    lines = iter(table)
    for name in names:
        shown = next(lines).split(" ")[0]
        while shown != name:
            shown += next(lines).split(" ")[0]


def test_nothing_is_drawn_without_rows() -> None:
    assert lines_of(Columns([]), 80) == []
