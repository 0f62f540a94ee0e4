"""How the time of one `gc_truncate` collection grows with the length of the history.

An exponent near 1 means linear growth. "warm" is a history whose messages were counted before, as
a session's are; "cold" one that is counted during the collection.

    python benchmarks/growth_truncate.py --max 1000000
"""

import argparse
import gc
import math
import os
import platform
import statistics
import time

import jaato_gc
import jaato_gc_truncate
from jaato_gc import (
    ContextUsage,
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCTriggerReason,
    Message,
    Part,
    Role,
    ToolResult,
    count_tokens,
)

SIZES = (1_000, 10_000, 100_000, 1_000_000)
USED_PERCENT, TARGET_PERCENT = 90.0, 60.0


def make_history(size: int) -> list[Message]:
    """Turns of an agent: a request, none to three rounds of one or two tool calls, an answer."""
    history: list[Message] = []
    turn = 0
    while len(history) < size:
        history.append(Message.from_text(Role.USER, f"Request {turn}: why does job {turn} fail?"))
        for step in range(turn % 4):
            ids = [f"call-{turn}-{step}-{number}" for number in range(1 + turn % 2)]
            calls = [FunctionCall(id, "read_file", {"path": f"src/job_{turn}.py"}) for id in ids]
            output = f"def job_{turn}(attempt: int = {step}) -> None:\n    ...\n" * (1 + turn % 7)
            results = [ToolResult(id, "read_file", output) for id in ids]
            history.append(Message(Role.MODEL, [Part(function_call=call) for call in calls]))
            history.append(Message(Role.TOOL, [Part(function_response=each) for each in results]))
        answer = "It opens the file before the lock is held. " * (1 + turn % 5)
        history.append(Message.from_text(Role.MODEL, answer))
        turn += 1
    return history[:size]


def uncounted(history: list[Message]) -> list[Message]:
    """Returns copies of the messages without their token counts."""
    return [message.with_parts(message.parts) for message in history]


def time_collection(history: list[Message], tokens: int) -> float:
    """Seconds that one collection from 90 % to 60 % of the window takes."""
    plugin = jaato_gc_truncate.create_plugin()
    config = GCConfig(target_percent=TARGET_PERCENT)
    limit = int(tokens / USED_PERCENT * 100)
    usage = ContextUsage(context_limit=limit, total_tokens=tokens)
    gc.collect()
    # A pass of Python's own collector visits everything alive, here all the other histories too:
    # without it, what is timed is this history's collection alone.
    gc.disable()
    start = time.perf_counter()
    _, result = plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD)
    seconds = time.perf_counter() - start
    gc.enable()
    if result.outcome is not GCOutcome.REACHED:
        raise SystemExit(f"{len(history)} messages: the target was not reached")
    return seconds


def growth_exponent(seconds_by_size: dict[int, float]) -> float:
    """Slope of the line through the points on a log-log scale."""
    sizes = [math.log(size) for size in seconds_by_size]
    times = [math.log(seconds) for seconds in seconds_by_size.values()]
    return statistics.linear_regression(sizes, times).slope


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--max", type=int, default=100_000, choices=SIZES, metavar="MESSAGES")
    parser.add_argument("--repeat", type=int, default=5, metavar="TIMES")
    options = parser.parse_args()

    histories = {size: make_history(size) for size in SIZES if size <= options.max}
    tokens = {size: count_tokens(history) for size, history in histories.items()}
    gc.freeze()  # the histories stay to the end: the passes between measurements may skip them
    timings: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.repeat):  # interleaved, so that a slow moment of the machine hits all
        for size, history in histories.items():
            for kind, variant in (("warm", history), ("cold", uncounted(history))):
                seconds = time_collection(variant, tokens[size])
                timings.setdefault((kind, size), []).append(seconds)

    print(f"gc_truncate, one collection from {USED_PERCENT:g} % to {TARGET_PERCENT:g} %")
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    versions = f"jaato-gc {jaato_gc.__version__}, truncate {jaato_gc_truncate.__version__}"
    print(f"{versions}; best of {options.repeat}, spread = slowest over fastest\n")
    print(f"{'':6}{'messages':>10}{'tokens':>13}{'best ms':>11}{'ns/message':>12}{'spread':>9}")
    for kind in ("warm", "cold"):
        best = {size: min(timings[kind, size]) for size in histories}
        for size, seconds in best.items():
            spread = max(timings[kind, size]) / seconds - 1
            print(
                f"{kind:6}{size:10,}{tokens[size]:13,}{seconds * 1e3:11,.2f}"
                f"{seconds / size * 1e9:12,.0f}{spread:9.0%}"
            )
        if len(best) > 1:
            print(f"{kind:6}growth exponent {growth_exponent(best):.2f}\n")


if __name__ == "__main__":
    main()
