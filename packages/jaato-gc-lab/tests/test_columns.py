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
    return lines_of(
        Columns(ROWS, name=2, headings=("tokens", "turn", "content"), drop=(1, 0)), width
    )


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
    lines = lines_of(Columns(rows, name=2, drop=(1, 0)), 60)

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
    lines = lines_of(Columns(rows, name=2, drop=(1, 0)), width)

    assert all(cell_len(line) <= width for line in lines)
    text = re.sub(r"\s", "", "".join(lines))
    assert all(name in text for name in names)


def test_nothing_is_drawn_without_rows() -> None:
    assert lines_of(Columns([], name=0), 80) == []
