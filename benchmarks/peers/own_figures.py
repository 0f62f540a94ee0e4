"""What only this project is asked for: the check of a turn, bookkeeping, estimates.

    python benchmarks/peers/own_figures.py --largest 10000

Prints JSON. `driver.py` runs it in the environment with this project's packages.
"""

import argparse
import contextlib
import gc
import gzip
import json
import os
import re
import time
import timeit
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from contenders.jaato_gc_session import message_of
from histories import MESSAGES_A_TURN, MOST_PRESERVABLE, make_turns

import jaato_gc_budget
from jaato_gc import (
    ContextUsage,
    EstimateCounter,
    GCConfig,
    GCSession,
    GCTriggerReason,
    Message,
    TiktokenCounter,
    count_tokens,
    estimate_tokens,
)

CHECK_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
BOOKKEEPING_TURNS = 100_000
NEVER_FULL = 10**9
NOW_AND_THEN = 128_000
CHECKS = 2_000
BLOCK = 1_000
"""Turns at either end of a run."""


class AskedStrategy(jaato_gc_budget.BudgetGCPlugin):
    """A strategy with a word of its own on when to collect: it has to be asked every time."""

    def should_collect(
        self,
        context_usage: ContextUsage,
        config: GCConfig,
    ) -> tuple[bool, GCTriggerReason | None]:
        """What core would say, too."""
        return context_usage["percent_used"] >= config.threshold_percent, None


def make_session(plugin: jaato_gc_budget.BudgetGCPlugin, context_limit: int) -> GCSession:
    """An empty session."""
    session = GCSession(context_limit=context_limit, counter=EstimateCounter())
    session.set_gc_plugin(plugin)
    return session


def counted_turns(turns: int, *, with_calls: bool) -> list[list[Message]]:
    """Turns whose tokens are known; of four messages with calls, of two without."""
    made = []
    for plains in make_turns(turns, lambda _text: 1, most_preservable=MOST_PRESERVABLE):
        kept = plains if with_calls else [plains[0], plains[-1]]
        made.append([message_of(plain) for plain in kept])
    for turn in made:
        count_tokens(turn, EstimateCounter())
    return made


def time_checks(sizes: Sequence[int], rounds: int) -> list[dict[str, float]]:
    """Seconds that the check of a turn takes, with more and more messages."""
    found = []
    for size in sizes:
        row: dict[str, float] = {"messages": size}
        turns = counted_turns(max(1, size // MESSAGES_A_TURN), with_calls=True)
        for name, plugin in (
            ("idle", jaato_gc_budget.create_plugin()),
            ("asked", AskedStrategy()),
        ):
            session = make_session(plugin, NEVER_FULL)
            for turn in turns:
                for message in turn:
                    session.append(message)
            row[name] = time_check(session, rounds)
        found.append(row)
    return found


def time_check(session: GCSession, rounds: int) -> float:
    """Seconds of one check of many, the loop around it included."""
    check = timeit.Timer("session.after_turn()", globals={"session": session})
    return min(check.repeat(100 * rounds, CHECKS)) / CHECKS


def time_bookkeeping(turns: int, rounds: int) -> list[dict[str, Any]]:
    """Seconds of a turn whose messages were counted before, after so many turns.

    In a window that is never full, at both ends of the run; where it is full now and then, of all
    turns, with the collections among them.
    """
    found = []
    for with_calls in (False, True):
        made = counted_turns(turns, with_calls=with_calls)
        block = max(1, min(BLOCK, turns // 10))
        never = []
        for _ in range(3 * rounds):
            session = make_session(jaato_gc_budget.create_plugin(), NEVER_FULL)
            first = time_turns(session, made[:block])
            time_turns(session, made[block:-block])
            never.append((first, time_turns(session, made[-block:])))
        first, last = (min(times[end] for times in never) for end in (0, 1))
        found.append(
            {
                "turns": turns,
                "messages": len(made[0]),
                "window": "never",
                "collections": 0,
                "turn": last,
                "last_to_first": last / first,
            }
        )
        session = make_session(jaato_gc_budget.create_plugin(), NOW_AND_THEN)
        tenths = [
            time_turns(session, made[start : start + turns // 10])
            for start in range(0, turns // 10 * 10, turns // 10)
        ]
        found.append(
            {
                "turns": turns,
                "messages": len(made[0]),
                "window": "now and then",
                "collections": session.collection_count,
                "turn": sum(tenths) / len(tenths),
                # Of the second tenth: the first one fills the window.
                "last_to_first": tenths[-1] / tenths[1],
            }
        )
    return found


def time_turns(session: GCSession, turns: Sequence[Sequence[Message]]) -> float:
    """Seconds a turn."""
    gc.collect()
    gc.freeze()
    start = time.perf_counter()
    for request, *answers in turns:
        session.append(request)
        session.before_send()
        session.report_usage(session.budget.counted_tokens(), 20)
        for message in answers:
            session.append(message)
        session.after_turn()
    seconds = time.perf_counter() - start
    gc.unfreeze()
    return seconds / len(turns)


# --- estimates ---

CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
LOG_LINE = re.compile(
    r"^\W*(\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|INFO|WARN|ERROR|DEBUG|PASSED|FAILED|[-d][rwx-]{9} )"
)
CODE_LINE = re.compile(
    r"[;{}]\s*$|^\s*(def|class|import|from|return|if|for|while|const|let|var|function|#include|"
    r"public|private|async|@\w+)\b|^\s*\d+[\t│|]|\w\(.*\)|^[+-]\s|=>|==|\bself\."
)
SHORTEST = 40


def kind_of(text: str) -> str:
    """What a text is, by a few signs."""
    if len(CJK.findall(text)) > 0.2 * len(text):
        return "CJK"
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            json.loads(text)
            return "JSON"
    lines = [line for line in text.splitlines() if line.strip()]
    if sum(bool(LOG_LINE.search(line)) for line in lines) > len(lines) / 3:
        return "logs"
    if sum(bool(CODE_LINE.search(line)) for line in lines) > len(lines) / 3:
        return "code"
    return "prose"


def compare_estimates() -> dict[str, dict[str, int]] | None:
    """Estimated and exact tokens of all recorded texts, by kind; ``None`` without recordings."""
    beside = Path(__file__).parents[3] / "shared" / "transcripts"
    folder = Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or beside)
    if not folder.is_dir():
        return None
    exact = TiktokenCounter()
    found: dict[str, dict[str, int]] = {}
    for text in dict.fromkeys(recorded_texts(folder)):
        total = found.setdefault(kind_of(text), {"texts": 0, "estimated": 0, "exact": 0})
        total["texts"] += 1
        total["estimated"] += estimate_tokens(text)
        total["exact"] += exact.count_text(text)
    return found


def recorded_texts(folder: Path) -> Iterator[str]:
    """Every text in the recordings that is long enough to be of a kind."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in {".gz", ".json", ".jsonl"}:
            continue
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
        try:
            yield from strings_in(json.loads(text))
        except ValueError:
            for line in text.splitlines():
                with contextlib.suppress(ValueError):  # some lines are broken on purpose
                    yield from strings_in(json.loads(line))


def strings_in(value: object) -> Iterator[str]:
    """The longer texts in some data."""
    if isinstance(value, str):
        if len(value) >= SHORTEST:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)


def main() -> None:
    """Measure, and print everything as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--largest", type=int, default=CHECK_SIZES[-1])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sizes = [size for size in CHECK_SIZES if size <= options.largest]
    turns = min(BOOKKEEPING_TURNS, options.largest)
    measured = {
        "checks": time_checks(sizes, options.rounds),
        "bookkeeping": time_bookkeeping(turns, options.rounds),
        "estimates": compare_estimates(),
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
