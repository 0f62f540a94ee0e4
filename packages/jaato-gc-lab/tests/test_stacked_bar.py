"""Tests of stacked bars: how cells are divided, and how segments are told apart."""

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from jaato_gc_lab._cli._context_picture import ContextPicture
from jaato_gc_lab._slices import Slice, SliceKind
from jaato_gc_lab._stacked_bar import StackedBar, divide

SIZES = st.lists(st.integers(0, 10**9), min_size=1, max_size=14)


@given(sizes=SIZES, cells=st.integers(14, 200))
def test_every_segment_that_is_not_empty_has_a_cell(sizes: list[int], cells: int) -> None:
    divided = divide(sizes, cells)

    assert sum(divided) == (cells if any(sizes) else 0)
    assert [bool(count) for count in divided] == [bool(size) for size in sizes]


@given(sizes=SIZES, cells=st.integers(0, 200))
def test_cells_never_exceed_the_width(sizes: list[int], cells: int) -> None:
    divided = divide(sizes, cells)

    assert sum(divided) <= cells
    assert min(divided) >= 0


@given(sizes=st.lists(st.integers(1, 10**6), min_size=2, max_size=14))
def test_larger_segments_have_no_fewer_cells(sizes: list[int]) -> None:
    divided = divide(sizes, 200)

    for size, count in zip(sizes, divided, strict=True):
        for other, others in zip(sizes, divided, strict=True):
            if size > other:
                assert count >= others


@pytest.mark.parametrize(("used", "free"), [(1.0, 0), (0.5, 20), (0.001, 39), (0.0, 40)])
def test_unused_cells_are_free(used: float, free: int) -> None:
    line = drawn(StackedBar([3, 1] if used else [0], used), 40)

    assert line.count("·") == free
    assert len(line) == 40


def drawn(renderable: Any, width: int, **options: Any) -> str:
    file = io.StringIO()
    Console(file=file, width=width, **options).print(renderable)
    return file.getvalue().rstrip("\n")


def test_segments_have_colours_on_a_terminal_and_characters_elsewhere() -> None:
    slices = [Slice(f"tool_{n}", SliceKind.TOOL, 100 - n) for n in range(10)]
    picture = ContextPicture(slices, 0)

    plain = drawn(picture, 60)
    coloured = drawn(picture, 60, force_terminal=True, color_system="truecolor")
    no_color = drawn(picture, 60, force_terminal=True, no_color=True)

    assert len(set(plain.splitlines()[0])) == 10
    assert plain.splitlines()[0] == no_color.splitlines()[0]
    # rich remembers the codes of a style for the first terminal, which may have fewer colours.
    codes = re.findall(r"\x1b\[([1-9][\d;]*)m", coloured.splitlines()[0])
    assert len(codes) == 10
    assert codes[0] != codes[1] != codes[2]
    assert codes[8:] == codes[:2]  # again, with another character
    assert len(set(re.sub(r"\x1b\[[\d;]*m", "", coloured.splitlines()[0]))) == 2
