"""The tables of the documentation, from the results of a run."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from results import Contestant, Measurement, Results, growth

END = "<!-- figures: end -->"
ESTIMATED, EXACT = "jaato_gc_budget", "jaato_gc_budget_exact"
"""Our contenders that the others are compared with."""
OWN_ENVIRONMENT = "jaato_gc"
ON_FIRST_USE = "from jaato_gc import GCSession"
COLLECT_COLD, COLLECT_WARM, SESSION = "collect cold", "collect warm", "session"
COLLECT_SIZES = (1_000, 10_000)
SESSION_SIZES = (100, 1_000)
SIZE = 1_000
"""Messages of a collection, and turns of a session, in the first table."""
MODEL_CALL_SECONDS = 3.0
"""An assumption, not a measurement."""


def write_page(path: Path, blocks: Mapping[str, str]) -> None:
    """Replaces the text between the marks of each block in a page."""
    page = path.read_text(encoding="utf-8")
    for name, text in blocks.items():
        before, begin, rest = page.partition(mark(name))
        _, end, after = rest.partition(END)
        if not end:
            raise SystemExit(f"{path.name}: expected the marks {mark(name)} and {END}")
        page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    path.write_text(page, encoding="utf-8")


def mark(block: str) -> str:
    """Returns the mark at the beginning of a block."""
    return f"<!-- figures: {block} -->"


def blocks(results: Results, goals: str) -> dict[str, str]:
    """Returns all tables, by the name of the block in the page."""
    return {
        "costs": costs(results),
        "goals": goals,
        "turn": sessions(results),
        "collection": collections(results),
        "growth": own_growth(results),
        "memory": memory(results),
        "import": imports(results),
        "machine": machine(results),
    }


def costs(results: Results) -> str:
    """The answer in short: what this project costs, beside a model call."""
    rows = []

    def add(what: str, seconds: float, share: float) -> None:
        rows.append([what, duration(seconds), percent(share / MODEL_CALL_SECONDS)])

    for row in results.own.get("checks", []):
        if row["messages"] == SIZE:
            checks = row["after_turn"] + row["before_send"]
            add("the checks of a turn in which nothing is due", checks, checks)
    if session := results.find(SESSION, ESTIMATED, SIZE):
        a_turn = session.best / SIZE
        add("a turn of four messages, collections included", a_turn, a_turn)
        what = f"a session of {SIZE:,} turns with {session.collections} collections"
        add(what, session.best, a_turn)
    if collection := results.find(COLLECT_WARM, ESTIMATED, SIZE):
        add(f"a collection of {SIZE:,} messages", collection.best, collection.best)
    if ESTIMATED in results.memory:
        held = f"{results.memory[ESTIMATED]['bytes']:,.0f} bytes"
        rows.append(["memory of a message beside its texts", held, ""])
    if imported := results.imports.get(ON_FIRST_USE):
        rows.append([f"`{ON_FIRST_USE}`, once", duration(min(imported)), ""])
    return table(["", "cost", f"of a model call of {MODEL_CALL_SECONDS:g} s"], rows)


def sessions(results: Results) -> str:
    """What a turn costs with each library."""
    rows = []
    for contender, contestant in results.contestants.items():
        cells = []
        for size in SESSION_SIZES:
            ours = results.find(SESSION, counterpart(contestant), size)
            cells.append(cell(results.find(SESSION, contender, size), ours, per=size))
        rows.append([contestant.name, *cells, *described(contestant)])
    return table(["", *(f"in {size:,} turns" for size in SESSION_SIZES), *DESCRIBED], rows)


def collections(results: Results) -> str:
    """What a collection costs with each library."""
    rows = []
    for contender, contestant in results.contestants.items():
        running = [in_running_session(results, contender, size) for size in COLLECT_SIZES]
        cold = results.find(COLLECT_COLD, contender, SIZE)
        ours = counterpart(contestant)
        cells = [
            cell(running[0], results.find(COLLECT_WARM, ours, SIZE)),
            cell(cold, results.find(COLLECT_COLD, ours, SIZE)),
            exponent([(each.size, each.best) for each in running if each]),
        ]
        error = results.error(contender)
        failed = f"failed: {without_paths(error)}" if error else ""
        remarks = "; ".join(filter(None, [contestant.remark, failed]))
        rows.append([contestant.name, *cells, *described(contestant), remarks])
    header = ["", "in a running session", "nothing counted yet", "growth", *DESCRIBED, "remarks"]
    return table(header, rows)


def in_running_session(results: Results, contender: str, size: int) -> Measurement | None:
    """Returns a collection of counted messages; libraries that keep no counts count again."""
    warm = results.find(COLLECT_WARM, contender, size)
    return warm or results.find(COLLECT_COLD, contender, size)


def counterpart(contestant: Contestant) -> str:
    """Returns our contender that counts in the same way."""
    return EXACT if contestant.counts == "tokens" else ESTIMATED


DESCRIBED = ("counts", "says what it removed")


def described(contestant: Contestant) -> tuple[str, str]:
    """Returns the two properties that explain most of a time."""
    return contestant.counts, "yes" if contestant.names_removed else "no"


def cell(measured: Measurement | None, ours: Measurement | None, *, per: int = 1) -> str:
    """Returns a time and its ratio to ours, or a dash."""
    if measured is None:
        return "—"
    shown = duration(measured.best / per)
    return f"{shown}, {times(measured.best / ours.best)}" if ours else shown


def own_growth(results: Results) -> str:
    """How the costs of this project grow with the history, and with the age of a session."""
    checks, found = results.own.get("checks", []), results.own.get("collections", [])
    rows = [
        grown("`after_turn`, nothing due", checks, "after_turn"),
        grown("`before_send`, nothing due", checks, "before_send"),
        grown("a collection", found, "collection"),
    ]
    header = ["", *(f"{row['messages']:,} messages" for row in checks), "growth"]
    written = table(header, rows if checks else [])
    if turns := results.own.get("turns"):
        written += (
            f"\n\nA turn, collections included, takes {duration(turns['early'])} early in a "
            f"session and {duration(turns['late'])} after {turns['turns']:,} turns and "
            f"{turns['collections']:,} collections."
        )
    return written


def grown(what: str, rows: Sequence[dict[str, float]], key: str) -> list[str]:
    """Returns a row with a time for each size."""
    points = [(row["messages"], row[key]) for row in rows]
    return [what, *(duration(seconds) for _, seconds in points), exponent(points)]


def memory(results: Results) -> str:
    """Bytes per message."""
    keys = ("bytes", "beyond")
    rows = [
        [results.contestants[contender].name, *(f"{round(found[key]):,}" for key in keys)]
        for contender, found in results.memory.items()
    ]
    header = ["", "bytes per message, without its texts", "of these, beside the message object"]
    return table(header, rows)


def imports(results: Results) -> str:
    """What importing takes, in a fresh process."""
    best = {
        each.statement: min(results.imports[each.statement])
        for each in results.contestants.values()
        if each.statement in results.imports
    }
    rows = [
        [f"`{statement}`", duration(seconds)]
        for statement, seconds in sorted(best.items(), key=lambda item: item[1])
    ]
    return table(["import", "time"], rows)


def machine(results: Results) -> str:
    """Date, machine and versions, and what could not be measured."""
    versions = {
        " ".join(each)
        for contestant in results.contestants.values()
        for each in contestant.versions.items()
    }
    lines = [f"{key}: {value}" for key, value in results.about.items()]
    lines.append(f"versions: {', '.join(sorted(versions))}")
    lines += [f"not measured: {without_paths(note)}" for note in results.notes]
    return "\n".join(f"- {line}" for line in lines)


def without_paths(message: str) -> str:
    """Returns an error message without the folders of the machine."""
    return re.sub(r"(?<![\w.])(?:[A-Za-z]:)?[/\\][^\s'\":,]*[/\\][^\s'\":,]*", "…", message)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    rows = list(rows)
    if not rows:
        return "Not measured in this run."
    lines = [list(header), ["---"] * len(header), *map(list, rows)]
    return "\n".join(
        "| " + " | ".join(each.replace("|", "\\|") for each in line) + " |" for line in lines
    )


def exponent(points: Sequence[tuple[float, float]]) -> str:
    """Formats the growth of a time."""
    slope = growth(points)
    return "" if slope is None else f"{round(slope, 2) + 0.0:.2f}"  # never -0.00


def duration(seconds: float) -> str:
    """Formats a time with three digits, in a unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def times(ratio: float) -> str:
    """Formats a ratio to ours: above 1 is slower."""
    return f"{_three_digits(ratio)}x"


def percent(share: float) -> str:
    """Formats a share, small ones as an upper bound."""
    return f"{share:.2%}" if share >= 0.0001 else "below 0.01%"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    if value >= 0.0995:
        return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    return f"{value:.2g}"
