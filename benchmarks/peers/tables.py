"""The tables of the documentation, from the results of a run."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from results import Measurement, Results, growth

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
EXACT, ANCHORED = "jaato_gc_budget_exact", "jaato_gc_budget"


def write_page(path: Path, figures: str) -> None:
    """Put the figures between the marks of a page; what stands around them stays."""
    page = path.read_text(encoding="utf-8")
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"{path.name} has no marks {BEGIN} and {END} to put the figures between")
    # By a function: in a plain replacement, backslashes would mean something.
    filled = pattern.sub(lambda _: f"{BEGIN}\n\n{figures.strip()}\n\n{END}", page)
    path.write_text(filled, encoding="utf-8")


def figures(results: Results, goals: str) -> str:
    """All tables, the goals first."""
    sections = [
        about(results),
        "### Goals",
        goals,
        "### One collection, nothing counted yet",
        timings(results, "collect cold", EXACT),
        "### One collection, tokens counted before",
        timings(results, "collect warm", EXACT),
        "### Whole sessions",
        timings(results, "session", ANCHORED),
        "### Bookkeeping of a turn",
        bookkeeping(results),
        "### Save",
        timings(results, "save", ANCHORED),
        "### Restore",
        timings(results, "restore", ANCHORED),
        "### Import",
        imports(results),
        "### Memory",
        memory(results),
        "### Formats",
        conversions(results),
        "### Mark and plan",
        segments(results),
        "### Versions",
        versions(results),
    ]
    if results.notes:
        sections += [
            "### Not measured",
            "\n".join(f"- {without_paths(note)}" for note in results.notes),
        ]
    return "\n\n".join(sections)


def about(results: Results) -> str:
    """Machine, date and command."""
    lines = [f"- {key}: {value}" for key, value in results.about.items() if key != "command"]
    command = results.about.get("command", "")
    return "\n".join(lines) + f"\n\n```sh\n{command}\n```"


def timings(results: Results, work: str, base: str) -> str:
    """One kind of work: contenders down, sizes across; each cell with its ratio to ours."""
    sizes = sorted({each.size for each in results.measurements if each.work == work})
    rows = []
    for contender, contestant in results.contestants.items():
        measured = results.of(work, contender)
        failure = without_paths(contestant.error or results.failure(work, contender) or "")
        if not measured and not failure:
            continue  # it has nothing for this
        cells = []
        for size in sizes:
            base_measured = results.find(work, base, size)
            cells.append(cell(results.find(work, contender, size), base_measured, measured))
        remark = "; ".join(filter(None, [contestant.does_less, failure and f"failed: {failure}"]))
        row = [contestant.name, *cells, exponent_cell(measured)]
        if work.startswith("collect"):
            row.append(share(measured[-1].details.get("left")) if measured else "")
        elif work == "session":
            row.append(collections_cell(measured))
        rows.append([*row, remark])
    unit = "turns" if work == "session" else "messages"
    header = ["", *(f"{size:,} {unit}" for size in sizes), "growth"]
    if work.startswith("collect"):
        header.append("left")
    elif work == "session":
        header.append("collections")
    name = results.contestants[base].name if base in results.contestants else base
    return f"Ratios are to {name}.\n\n" + table([*header, "does less, or more"], rows)


def cell(
    measured: Measurement | None, base: Measurement | None, smaller: Sequence[Measurement]
) -> str:
    """Time, spread and ratio; or how far it came, where it was too slow for more."""
    if measured is None:
        if not smaller:
            return "—"
        last = smaller[-1]
        return f"—, {duration(last.best)} at {short(last.size)}"
    ratio = f", {times(measured.best / base.best)}" if base else ""
    return f"{duration(measured.best)} +{measured.spread:.0%}{ratio}"


def exponent_cell(measured: Sequence[Measurement]) -> str:
    """How time grows, from a thousand on."""
    slope = growth(measured)
    return "" if slope is None else f"{slope:.2f}"


def collections_cell(measured: Sequence[Measurement]) -> str:
    """How many collections the longest session had."""
    return f"{measured[-1].details.get('collections', 0):,}" if measured else ""


def bookkeeping(results: Results) -> str:
    """What a turn costs a session of ours when all its messages were counted before."""
    rows = [
        [
            row["window"],
            str(row["messages"]),
            f"{row['turns']:,}",
            f"{row['collections']:,}",
            duration(row["turn"]),
            f"{row['last_to_first']:.2f}",
        ]
        for row in results.own.get("bookkeeping") or []
    ]
    header = [
        "window full", "messages a turn", "turns", "collections", "a turn",
        "at the end to at the start",
    ]  # fmt: skip
    return table(header, rows)


def imports(results: Results) -> str:
    """What importing takes, in a fresh process."""
    best = {name: min(seconds) for name, seconds in results.imports.items()}
    rows = [
        [f"`{name}`", duration(seconds), f"+{max(results.imports[name]) / seconds - 1:.0%}"]
        for name, seconds in sorted(best.items(), key=lambda item: item[1])
    ]
    return table(["import", "best", "spread"], rows)


def memory(results: Results) -> str:
    """Bytes a message."""
    rows = []
    for key, found in results.memory.items():
        contender, _, size = key.rpartition(" ")
        beyond = f"{found['beyond']:,.0f}" if "beyond" in found else ""
        name = results.contestants[contender].name
        rows.append([name, f"{int(size):,}", f"{found['bytes']:,.0f}", beyond])
    header = ["", "messages", "bytes a message, texts apart", "of these, beyond the message itself"]
    return table(header, rows)


def conversions(results: Results) -> str:
    """How fast the formats of providers are read and written."""
    rows = [
        [results.contestants[contender].name, name, f"{per_second / 1e6:,.0f} MB/s"]
        for contender, found in results.conversions.items()
        for name, per_second in found.items()
    ]
    return table(["", "conversion", "best"], rows)


def segments(results: Results) -> str:
    """Mark and plan, and networkx where it was measured."""
    keys = list(dict.fromkeys(key for each in results.segments for key in each))
    rows = [[_segment_cell(key, each.get(key)) for key in keys] for each in results.segments]
    return table([key.removesuffix("_seconds").replace("_", " ") for key in keys], rows)


def _segment_cell(key: str, value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if key.endswith("_seconds"):
            return duration(value)
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
    return "" if value is None else str(value)


def versions(results: Results) -> str:
    """What was installed."""
    found = {
        distribution: version
        for contestant in results.contestants.values()
        for distribution, version in contestant.versions.items()
    }
    return table(["distribution", "version"], [[name, found[name]] for name in sorted(found)])


def without_paths(said: str) -> str:
    """What an error says, without the folders of the machine that it happened on."""
    return re.sub(r"(?<![\w.])(?:[A-Za-z]:)?[/\\][^\s'\":,]*[/\\][^\s'\":,]*", "…", said)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = list(rows)
    if not rows:
        return "Not measured in this run."
    lines = [list(header), ["---"] * len(header), *map(list, rows)]
    return "\n".join(
        "| " + " | ".join(each.replace("|", "\\|") for each in line) + " |" for line in lines
    )


def duration(seconds: float) -> str:
    """A time with three digits, in a unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def times(ratio: float) -> str:
    """A ratio to ours: above 1 is slower."""
    return f"{_three_digits(ratio)}x"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    if value >= 0.0995:
        return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    return f"{value:.2g}"


def share(value: float | None) -> str:
    """A share in percent."""
    return "" if value is None else f"{value:.1%}"


def short(size: int) -> str:
    """A size as one would say it."""
    if size >= 1_000_000:
        return f"{size // 1_000_000}M"
    return f"{size // 1_000}k" if size >= 1_000 else str(size)
