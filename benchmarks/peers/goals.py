"""The goals that this project set itself, each with the figure that a run measured.

Where one is not met, the page says why, beneath the table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from results import Results, exponent, growth
from tables import ANCHORED, EXACT, duration, short, table, times

SERVER = "jaato_server_budget"
SERVER_WITH_OUR_POLICIES = "jaato_server_budget_exchanges"
SERVER_WITH_TOOL_OUTPUT_FIRST = "jaato_server_budget_results"
SERVER_WITH_ITS_TRACE = "jaato_server_budget_traced"
COUNTS_MESSAGES = "semantic_kernel"
BEYOND = "jaato_gc, after pydantic and pluggy"
SESSION_BEYOND_MODELS = "jaato_gc's GCSession, after pydantic's models and pluggy"
FLAT = 1.5
"""At most this much slower at the end than at the start: noise on a shared machine allowed for."""

NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Goal:
    """A row: ``met`` is ``None`` where there is no figure."""

    number: int
    what: str
    measured: str = NOT_MEASURED
    met: bool | None = None


def goals_table(results: Results) -> str:
    """All goals in Markdown."""
    words = {True: "yes", False: "**no**", None: "—"}
    rows = [
        [str(goal.number), goal.what, goal.measured, words[goal.met]] for goal in goals(results)
    ]
    return table(["", "goal", "measured", "met"], rows)


def goals(results: Results) -> Iterator[Goal]:
    """Every goal with its figure."""
    yield from checks(results.own.get("checks") or [])
    yield from bookkeeping(results.own.get("bookkeeping") or [])
    yield from collecting(results)
    yield from whole_session(results)
    yield estimates(results.own)
    yield from segments(results.segments)
    yield importing(results)
    yield memory(results)


def checks(rows: Sequence[dict[str, float]]) -> Iterator[Goal]:
    """Goal 1."""
    for what, key, most in (
        ("check per turn below every trigger: at most 150 ns, flat", "idle", 150e-9),
        ("check per turn where the strategy is asked: at most 1 µs, flat", "asked", 1e-6),
    ):
        if not rows:
            yield Goal(1, what)
            continue
        seconds = [row[key] for row in rows]
        shown = ", ".join(f"{duration(row[key])} at {short(int(row['messages']))}" for row in rows)
        met = max(seconds) <= most and seconds[-1] <= FLAT * seconds[0]
        yield Goal(1, what, shown, met)


def bookkeeping(rows: Sequence[dict[str, Any]]) -> Iterator[Goal]:
    """Goal 2: of turns without calls, and with one."""
    what = "session bookkeeping without tokenising: at most 15 µs a turn at 100,000 turns, flat"
    if not rows:
        yield Goal(2, what)
    for row in rows:
        if row["window"] == "never":
            goal = f"{what}; {row['messages']} messages a turn"
            rise = row["last_to_first"]
            shown = f"{duration(row['turn'])} after {row['turns']:,} turns, {rise:.2f} of the first"
            yield Goal(2, goal, shown, row["turn"] <= 15e-6 and rise <= FLAT)


def collecting(results: Results) -> Iterator[Goal]:
    """Goal 3."""
    what = "policy-aware collect of 10,000 messages, with its removal list: at least 100 times"
    ours = results.find("collect warm", EXACT, 10_000)
    for server, how in (
        (SERVER, "its own policies"),
        (SERVER_WITH_OUR_POLICIES, "the same policies"),
        (SERVER_WITH_TOOL_OUTPUT_FIRST, "tool output EPHEMERAL and all else PARTIAL"),
        (SERVER_WITH_ITS_TRACE, "as it comes, with its trace"),
    ):
        theirs = results.find("collect warm", server, 10_000)
        goal = f"{what} faster than jaato-server's gc_budget, {how}"
        if ours is None or theirs is None:
            yield Goal(3, goal)
            continue
        ratio = theirs.best / ours.best
        shown = f"{times(ratio)}: {duration(ours.best)} against {duration(theirs.best)}"
        yield Goal(3, goal, shown, ratio >= 100)
    measured = results.of("collect warm", EXACT)
    slope = growth(measured)
    goal = "its growth exponent: at most 1.1 up to 1M messages"
    if slope is None:
        yield Goal(3, goal)
        return
    reached = measured[-1].size
    met = slope <= 1.1 if reached >= 1_000_000 else None
    yield Goal(3, goal, f"{slope:.3f} up to {short(reached)}", met)


def whole_session(results: Results) -> Iterator[Goal]:
    """Goal 4."""
    for peer, name, least in (
        (SERVER, "jaato-server's gc_budget: at least 3 times faster", 3.0),
        (
            SERVER_WITH_OUR_POLICIES,
            "jaato-server's gc_budget with the same policies: at least 3 times faster",
            3.0,
        ),
        (COUNTS_MESSAGES, "semantic-kernel's reducer: not slower", 1.0),
    ):
        what = f"whole session of 10,000 turns, counting included, against {name}"
        theirs = results.find("session", peer, 10_000)
        found = {
            how: results.find("session", contender, 10_000)
            for how, contender in (("anchored", ANCHORED), ("exact", EXACT))
        }
        ratios = {how: theirs.best / each.best for how, each in found.items() if theirs and each}
        if "anchored" not in ratios:
            yield Goal(4, what)
            continue
        shown = ", ".join(f"{times(ratio)} {how}" for how, ratio in ratios.items())
        yield Goal(4, what, shown, ratios["anchored"] >= least)


def estimates(own: dict[str, Any]) -> Goal:
    """Goal 5."""
    what = (
        "estimates: within 5 % in total on code, logs, JSON and CJK, never more than 5 % low "
        "overall"
    )
    kinds: dict[str, dict[str, int]] = own.get("estimates") or {}
    if not kinds:
        return Goal(5, what, "not measured: the recordings are not here")
    off = {kind: each["estimated"] / each["exact"] - 1 for kind, each in kinds.items()}
    overall = (
        sum(each["estimated"] for each in kinds.values())
        / sum(each["exact"] for each in kinds.values())
        - 1
    )
    shown = ", ".join(
        f"{kind} {error:+.1%} of {kinds[kind]['exact']:,}" for kind, error in sorted(off.items())
    )
    asked = {"code", "logs", "JSON", "CJK"}
    met = all(abs(off[kind]) <= 0.05 for kind in asked & off.keys()) and overall >= -0.05
    missing = f"; no {', '.join(sorted(asked - off.keys()))} there" if asked - off.keys() else ""
    return Goal(5, what, f"{shown}; overall {overall:+.1%}{missing}", met)


def segments(rows: Sequence[dict[str, Any]]) -> Iterator[Goal]:
    """Goal 6."""
    by_size = {row["segments"]: row for row in rows}
    planned = "1,000 segments analysed and planned in at most 1 ms"
    key = "analyse_and_plan_seconds"
    if 1_000 in by_size and key in by_size[1_000]:
        seconds = by_size[1_000][key]
        yield Goal(6, planned, duration(seconds), seconds <= 1e-3)
    else:
        yield Goal(6, planned)
    row = by_size.get(100_000, {})
    for of_what, given in (("from_segments_", "from segments"), ("", "with both graphs at hand")):
        marked = f"100,000 nodes marked at least 10 times faster than networkx, {given}"
        ours, theirs = row.get(f"mark_{of_what}seconds"), row.get(f"networkx_{of_what}seconds")
        if ours and theirs:
            shown = f"{times(theirs / ours)}: {duration(ours)} against {duration(theirs)}"
            yield Goal(6, marked, shown, theirs / ours >= 10)
        else:
            yield Goal(6, marked)
    grown = "its growth exponent: at most 1.1 to 1M"
    measured = [row for row in rows if row.get(key)]
    slope = exponent([row["segments"] for row in measured], [row[key] for row in measured])
    if slope is None:
        yield Goal(6, grown)
        return
    reached = max(row["segments"] for row in measured)
    met = slope <= 1.1 if reached >= 1_000_000 else None
    yield Goal(6, grown, f"{slope:.3f} up to {short(reached)}", met)


def importing(results: Results) -> Goal:
    """Goal 7."""
    what = "`import jaato_gc`: at most 30 ms beyond importing pydantic and pluggy themselves"
    if BEYOND not in results.imports:
        return Goal(7, what)
    seconds = min(results.imports[BEYOND])
    shown = duration(seconds)
    if SESSION_BEYOND_MODELS in results.imports:
        session = duration(min(results.imports[SESSION_BEYOND_MODELS]))
        shown += f"; `from jaato_gc import GCSession` {session} beyond pluggy and pydantic's models"
    return Goal(7, what, shown, seconds <= 30e-3)


def memory(results: Results) -> Goal:
    """Goal 8."""
    what = "bookkeeping memory: at most 300 bytes a message beyond the message itself"
    found = {
        int(key.rpartition(" ")[2]): each["beyond"]
        for key, each in results.memory.items()
        if key.rpartition(" ")[0] == ANCHORED and "beyond" in each
    }
    if not found:
        return Goal(8, what)
    shown = ", ".join(f"{beyond:.0f} at {short(size)}" for size, beyond in sorted(found.items()))
    return Goal(8, what, shown, max(found.values()) <= 300)
