"""Interrupts: KeyboardInterrupt before any line that a call runs, and by real signals.

A trace function can raise before every line. A signal handler can't: CPython looks for signals when
a function begins, after a call of a C function, and where a loop jumps back. So it can raise right
after ``lock.acquire()`` and in an ``__enter__`` or ``__exit__`` that is written in Python, but
neither between the ``__enter__`` of a lock and the block of its ``with`` statement nor between that
block and ``__exit__``. With some thousand signals each on 3.11, 3.12 and 3.13, ``with lock:`` never
left the lock held; ``lock.acquire()`` before ``try`` and ``finally``, and a class of locks that is
written in Python, did so after every third signal. `Place.is_artificial` tells where only a trace
function can raise.
"""

import contextlib
import dis
import functools
import gc
import signal
import sys
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, Self

import jaato_gc

_PRODUCT = str(Path(jaato_gc.__file__).parent)
_FILES = (_PRODUCT, contextlib.__file__)  # `contextmanager` runs lines around the product's
_ENTERING = {"BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL"}


class Place(NamedTuple):
    """A line that a call is about to run.

    Args:
        file: Its file, below the product's folder.
        line: Its number.
        is_artificial: Whether only a trace function can raise here.
    """

    file: str
    line: int
    is_artificial: bool

    def is_in(self, function: Callable[..., object]) -> bool:
        """Returns whether the line is one of a function of the product."""
        code = function.__code__
        lines = {line for _, _, line in code.co_lines()}
        return self.line in lines and code.co_filename.endswith(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def places_of(call: Callable[[], object]) -> list[Place]:
    """Runs a call, and returns all lines of the product that it ran, in their order."""
    places: list[Place] = []

    def note(frame: FrameType) -> None:
        code = frame.f_code
        file = code.co_filename.removeprefix(_PRODUCT).lstrip("/\\")
        places.append(Place(file, frame.f_lineno, frame.f_lasti in _artificial(code)))

    _trace(call, note)
    return places


def interrupt(call: Callable[[], object], number: int) -> bool:
    """Runs a call, and raises KeyboardInterrupt before one of its lines.

    Args:
        call: The call.
        number: The index of the line in `places_of`.

    Returns:
        Whether that ended the call.
    """
    lines_left = number

    def count(_frame: FrameType) -> None:
        nonlocal lines_left
        if lines_left == 0:
            raise KeyboardInterrupt
        lines_left -= 1

    try:
        _trace(call, count)
    except KeyboardInterrupt:
        return True
    return False


class Signals:
    """Interrupts calls by a signal of a timer, as Ctrl-C does. Use it in a ``with`` statement."""

    def __init__(self) -> None:
        self._is_armed = False

    def __enter__(self) -> Self:
        self._previous = signal.signal(signal.SIGALRM, self._raise)
        return self

    def __exit__(self, *_error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._previous)

    def interrupt(self, call: Callable[[], object], seconds: float) -> bool:
        """Runs a call, and raises KeyboardInterrupt after some time.

        Returns:
            Whether that ended the call.
        """
        try:
            self._is_armed = True
            signal.setitimer(signal.ITIMER_REAL, seconds)
            call()
            self._is_armed = False
        except KeyboardInterrupt:
            return True
        except BaseException:
            self._is_armed = False
            raise
        return False

    def _raise(self, *_signal: object) -> None:
        if self._is_armed:  # else it comes too late
            self._is_armed = False
            raise KeyboardInterrupt


def _trace(call: Callable[[], object], before_line: Callable[[FrameType], None]) -> None:
    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        return trace_lines if frame.f_code.co_filename.startswith(_FILES) else None

    def trace_lines(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            before_line(frame)
        return trace_lines

    previous, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # finalizers would run lines too
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(previous)
        if collects:
            gc.enable()


@functools.cache
def _artificial(code: CodeType) -> frozenset[int]:
    """Returns where the lines of a function begin before which only a trace function can raise."""
    lines = [list(line) for _, line in groupby(dis.get_instructions(code), _line_of)]
    handled = [range(*entry[:2]) for entry in dis._parse_exception_table(code)]  # type: ignore[attr-defined]
    entering = {_line_of(line[0]) for line in lines if not _ENTERING.isdisjoint(_names(line))}
    found = set()
    for before, line in pairwise(lines):
        ends_with = _line_of(line[0]) in entering and _ENTERING.isdisjoint(_names(line))
        # `try:` has an instruction of its own, which no handler covers, not even an outer one.
        begins_try = _names(line) == {"NOP"} and any(before[-1].offset in each for each in handled)
        if ends_with or begins_try:
            found.add(line[0].offset)
    return frozenset(found)


def _line_of(instruction: dis.Instruction) -> int | None:
    return instruction.positions.lineno if instruction.positions else None


def _names(line: list[dis.Instruction]) -> set[str]:
    return {instruction.opname for instruction in line}
