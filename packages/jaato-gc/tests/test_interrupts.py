"""Interrupted calls: a session is as before the call or as after it, and no lock stays held.

The default run interrupts each call at the first run of every third line of the product that it
runs, and at some of the runs of every line that writes a commit. ``JAATO_GC_EVERY_LINE=1``
interrupts at every run of every line, which takes minutes.
"""

import math
import os
import random
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from interrupted_calls import CALLS, Prepared
from interrupted_states import Expectation
from interrupting import Place, Signals, interrupt, places_of

from jaato_gc import GCTriggerReason, SyntheticKind
from jaato_gc.commit import Commit
from jaato_gc.session.collector import Collector

EVERY_LINE = bool(os.environ.get("JAATO_GC_EVERY_LINE"))
STEP = 3
WRITES = 15
SHOWN = 12
SECONDS_OF_SIGNALS = 8.0

needs_timer = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")


def points_of(places: list[Place]) -> list[int]:
    """Returns the indices of the lines to interrupt at."""
    if EVERY_LINE:
        return [number for number, place in enumerate(places) if not place.is_artificial]
    first = {place: number for number, place in reversed(list(enumerate(places)))}
    sample = sorted(first[place] for place in first if not place.is_artificial)[::STEP]
    writes = [number for number, place in enumerate(places) if place.is_in(Commit.write)]
    return sorted({*sample, *writes[:: math.ceil(len(writes) / WRITES) or 1]})


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_leaves_a_session_as_before_the_call_or_as_after_it(name: str) -> None:
    prepare = CALLS[name]
    expectation = Expectation(prepare)
    places = places_of(prepare().call)
    points = points_of(places)
    broken: list[str] = []
    for number in points:
        session, call = prepare()
        if not interrupt(call, number):
            broken.append(f"{places[number]} (point {number}): the call went on")
        elif fault := expectation.fault_of(session):
            broken.append(f"{places[number]} (point {number}): {fault}")

    left_out = sum(place.is_artificial for place in places)
    summary = (
        f"{name}: {len(broken)} of {len(points)} points are broken. It runs {len(places)} lines; "
        f"at {left_out} only a trace function can raise"
    )
    print(summary)
    how = "all of them" if EVERY_LINE else f"every {STEP}rd line, and {WRITES} writes"
    listed = "\n".join(broken[:: math.ceil(len(broken) / SHOWN) or 1])
    assert not broken, f"{summary} ({how})\n{listed}"


def test_a_collection_that_was_interrupted_anywhere_in_its_plan_can_be_repeated() -> None:
    prepare = CALLS["manual_gc"]
    places = places_of(prepare().call)
    points = [n for n, place in enumerate(places) if place.is_in(Collector.plan)]
    assert points
    for number in points:
        session, call = prepare()
        assert interrupt(call, number)

        assert session.manual_gc(target_percent=0.0).success, places[number]


@needs_timer
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_leaves_a_session_as_before_the_call_or_as_after_it() -> None:
    expectations = {name: Expectation(prepare) for name, prepare in CALLS.items()}
    seconds = {name: seconds_of(prepare) for name, prepare in CALLS.items()}
    chance = random.Random(0)  # the timing of signals is not reproducible anyway
    hits: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    faults: list[str] = []
    end = time.monotonic() + SECONDS_OF_SIGNALS
    with Signals() as signals:
        while time.monotonic() < end:
            name = chance.choice(list(CALLS))
            session, call = CALLS[name]()
            if signals.interrupt(call, chance.uniform(0, seconds[name])):
                hits[name] += 1
                if fault := expectations[name].fault_of(session):
                    broken[name] += 1
                    faults.append(f"{name}: {fault}")

    summary = ", ".join(f"{name}: {broken[name]} of {hits[name]}" for name in CALLS)
    print(summary)
    assert sum(hits.values()) > 50, "too few signals came during a call"
    assert not faults, "\n".join([summary, *faults[:SHOWN]])


def seconds_of(prepare: Callable[[], Prepared]) -> float:
    """Returns how long a call takes."""

    def measure() -> float:
        call = prepare().call
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    return statistics.median(measure() for _ in range(5))


@needs_timer
def test_a_signal_never_leaves_the_lock_of_a_with_statement_held() -> None:
    """The lines that `Place.is_artificial` leaves out: see `interrupting`."""
    chance = random.Random(0)
    lock = threading.RLock()

    def use() -> int:
        with lock:
            len("")
            try:
                return len("")
            except ValueError:
                return 0

    def use_again_and_again() -> None:
        while True:
            use()

    with Signals() as signals:
        for _ in range(500):
            assert signals.interrupt(use_again_and_again, chance.uniform(1e-5, 2e-4))
            assert is_free(lock)


def is_free(lock: Any) -> bool:
    """Returns whether another thread gets a lock."""
    got: list[bool] = []

    def try_it() -> None:
        got.append(lock.acquire(blocking=False))
        if got[0]:
            lock.release()

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return got[0]


def test_the_interrupted_collection_has_edits_of_every_kind() -> None:
    session, call = CALLS["manual_gc"]()
    before = {message.message_id: message for message in session.history}
    call()

    actions = {item.action for item in session.get_gc_history()[-1].removal_list}
    assert actions == {"remove", "shorten"}
    (ledger,) = (each for each in session.history if each.synthetic is SyntheticKind.LEDGER)
    assert ledger != before[ledger.message_id]


def test_the_interrupted_requests_collect_and_repair() -> None:
    collects, send = CALLS["before_send that collects"]()
    send()
    repairs, send = CALLS["before_send that repairs"]()
    send()

    assert collects.get_gc_history()[-1].trigger_reason is GCTriggerReason.THRESHOLD
    assert repairs.get_gc_history()[-1].plugin_name == "repair"
