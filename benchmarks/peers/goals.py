"""The goals of this project for its speed, each with the figure that a run measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from results import Contestant, Results, growth
from tables import (
    COLLECT_COLD,
    COLLECT_WARM,
    ON_FIRST_USE,
    OWN_ENVIRONMENT,
    SESSION,
    SESSION_SIZES,
    SIZE,
    counterpart,
    duration,
    in_running_session,
    table,
    times,
)

FLAT = 1.5
"""The largest ratio that counts as flat, with the noise of a shared machine."""
PROPORTIONAL = 1.1
"""The largest exponent that counts as proportional: larger histories fit caches less."""
IMPORT_SECONDS = 0.030
ANALYSIS_SECONDS = 2.0
ON_IMPORT = "import jaato_gc"
OWN_IMPORTS = {
    f"{ON_IMPORT}, alone": (ON_IMPORT, "import pydantic, pluggy"),
    # Pydantic loads these late: `import pydantic` does not.
    f"{ON_FIRST_USE}, alone": (
        ON_FIRST_USE,
        "import pluggy; from pydantic import BaseModel, Field, model_validator",
    ),
}
"""Imports after those of the dependencies, by the name in the results."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A row; ``met`` is ``None`` if there is no figure."""

    what: str
    measured: str = "not measured"
    met: bool | None = None


def goals_table(results: Results) -> str:
    """Returns all goals in Markdown."""
    words = {True: "yes", False: "**no**", None: "—"}
    rows = [[goal.what, goal.measured, words[goal.met]] for goal in goals(results)]
    return table(["goal", "measured", "met"], rows)


def goals(results: Results) -> Iterator[Goal]:
    """Returns every goal with its figure."""
    own = results.own
    yield flat_checks(own.get("checks", []))
    yield flat_turns(own.get("turns"))
    yield proportional_collections(own.get("collections", []))
    yield counted_once(own.get("texts"))
    yield cheap_import(results)
    yield fast_analysis(own.get("analysis"))
    for contender, contestant in results.contestants.items():
        is_ours = contestant.environment == OWN_ENVIRONMENT
        if contestant.names_removed and contestant.counts != "messages" and not is_ours:
            yield faster_than(results, contender, contestant)


def flat_checks(rows: Sequence[dict[str, float]]) -> Goal:
    """The check of a turn."""
    what = "the checks of a turn take the same time in every history"
    if not rows:
        return Goal(what)
    ratios = {key: rows[-1][key] / rows[0][key] for key in ("after_turn", "before_send")}
    shown = ", ".join(f"`{key}` {times(ratio)}" for key, ratio in ratios.items())
    sizes = f"{rows[-1]['messages']:,} messages to {rows[0]['messages']:,}"
    return Goal(what, f"{sizes}: {shown}", max(ratios.values()) <= FLAT)


def flat_turns(turns: dict[str, float] | None) -> Goal:
    """The totals of a session."""
    what = "a turn takes the same time in a session of every age"
    if not turns:
        return Goal(what)
    ratio = turns["late"] / turns["early"]
    return Goal(what, f"{times(ratio)} after {turns['turns']:,} turns", ratio <= FLAT)


def proportional_collections(rows: Sequence[dict[str, float]]) -> Goal:
    """The growth of a collection."""
    what = "a collection takes time in proportion to the history"
    slope = growth([(row["messages"], row["collection"]) for row in rows])
    if slope is None:
        return Goal(what)
    shown = f"exponent {slope:.2f} up to {rows[-1]['messages']:,} messages"
    return Goal(what, shown, slope <= PROPORTIONAL)


def counted_once(texts: dict[str, int] | None) -> Goal:
    """The calls of the counter."""
    what = "collections tokenise no message again"
    if not texts:
        return Goal(what)
    shown = (
        f"{texts['messages_again']:,} of {texts['messages']:,} texts of messages in "
        f"{texts['collections']} collections; {texts['others_again']:,} of {texts['others']:,} "
        "lines of ledgers and shortened results"
    )
    return Goal(what, shown, texts["messages_again"] == 0)


def cheap_import(results: Results) -> Goal:
    """The import."""
    most = duration(IMPORT_SECONDS)
    what = f"`{ON_IMPORT}` adds at most {most} to pydantic and pluggy"
    seconds = [min(results.imports.get(name, [0])) for name in OWN_IMPORTS]
    if not all(seconds):
        return Goal(what)
    shown = f"{duration(seconds[0])}; `{ON_FIRST_USE}` {duration(seconds[1])}"
    return Goal(what, shown, seconds[0] <= IMPORT_SECONDS)


def fast_analysis(analysis: dict[str, Any] | None) -> Goal:
    """The engine of jaato-gc-marksweep."""
    what = f"`GCEngine` analyses 32,000 tokens in less than {ANALYSIS_SECONDS:g} s"
    if not analysis:
        return Goal(what)
    shown = f"{duration(analysis['seconds'])} for {analysis['tokens']:,} tokens"
    return Goal(what, shown, analysis["seconds"] < ANALYSIS_SECONDS)


def faster_than(results: Results, contender: str, contestant: Contestant) -> Goal:
    """A library that counts tokens and says what it removed."""
    ours = counterpart(contestant)
    pairs = {
        f"{size:,} turns": (
            results.find(SESSION, contender, size),
            results.find(SESSION, ours, size),
        )
        for size in SESSION_SIZES
    }
    pairs["a collection"] = (
        in_running_session(results, contender, SIZE),
        results.find(COLLECT_WARM, ours, SIZE),
    )
    pairs["one without counts"] = (
        results.find(COLLECT_COLD, contender, SIZE),
        results.find(COLLECT_COLD, ours, SIZE),
    )
    ratios = {what: a.best / b.best for what, (a, b) in pairs.items() if a and b}
    what = f"faster than {contestant.name}"
    if not ratios:
        return Goal(what)
    shown = ", ".join(f"{what} {times(ratio)}" for what, ratio in ratios.items())
    return Goal(what, shown, min(ratios.values()) > 1)
