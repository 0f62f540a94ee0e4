"""Prints the tables of docs/explanation/comparison.md from a saved comparison.

    jaato-gc compare RUNS --context-limit 32k,64k,128k --strategies all \\
        --model claude-sonnet-5-5 --json > comparison.json
    python benchmarks/comparison_tables.py comparison.json

There is one table per window, with the strategies in the order of the ranking and the run without
collection at the end. The same file always gives the same tables: times are those of the file.
"""

import argparse
import json
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaato_gc_lab import NONE
from jaato_gc_lab._figures import counted, number, percent, seconds, short

FORMAT = "jaato-gc comparison"
WIDTH = 119
"""Characters of a line of the documentation."""
COLUMNS = (
    "strategy",
    "refused runs",
    "blind edits",
    "lost context",
    "lost names",
    "re-reads",
    "cost vs keep-last",
    "violations",
    "collections",
    "tokens sent",
    "time",
)

Summary = dict[str, Any]


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?", help="output of jaato-gc compare --json")
    file = parser.parse_args().file
    if file is None:
        parser.print_help()
        return
    try:
        document = json.loads(file.read_bytes())
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        parser.error(f"{file} is not the output of jaato-gc compare --json")
    print("\n\n".join(tables(document)))


def tables(document: dict[str, Any]) -> Iterator[str]:
    """Yields heading, counts and table of each window."""
    for ranking in document["rankings"]:
        limit = ranking["context_limit"]
        own = {
            each["strategy"]: each
            for each in document["summaries"]
            if each["context_limit"] == limit
        }
        order = [place["strategy"] for place in ranking["places"]]
        rows = [own[name] for name in (*order, NONE)]
        text = counts(own[NONE])
        if failed := sum(each["failed"] for each in rows):
            text = f"{text} Failed replays: {number(failed)}."
        heading = f"### Window of {number(limit)} tokens"
        yield "\n\n".join((heading, textwrap.fill(text, WIDTH), table(rows)))


def counts(none: Summary) -> str:
    """Returns the counts of a window, which are the same for every strategy.

    Args:
        none: The runs without collection: those that are refused need collecting.
    """
    return (
        f"{counted(none['transcripts'], 'run')} with {counted(none['requests'], 'request')}, "
        f"{counted(none['edits'], 'edit')}, {number(none['context_used'])} uses of names in calls "
        f"and {number(none['names_used'])} uses of names. "
        f"Runs that need collecting: {number(none['refused'])}. "
        f"Runs that cannot fit: {number(none['cannot_fit'])}."
    )


def table(rows: Sequence[Summary]) -> str:
    """Returns a table in Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (COLUMNS, *map(row, rows))]
    lines.insert(1, f"|---{'|--:' * (len(COLUMNS) - 1)}|")
    return "\n".join(lines)


def row(summary: Summary) -> tuple[str, ...]:
    """Returns the cells of one strategy."""
    return (
        f"`{summary['strategy']}`",
        refused(summary),
        percent(summary["blind_edit_share"]),
        percent(summary["lost_context_share"]),
        percent(summary["lost_name_share"]),
        number(summary["rereads"]),
        cost(summary),
        number(summary["violations"]),
        number(summary["collections"]),
        short(summary["input_tokens"]),
        seconds(summary["seconds"]),
    )


def refused(summary: Summary) -> str:
    """Returns the number of refused runs, with the median share of these runs before that."""
    runs, after = number(summary["refused"]), summary["refused_after"]
    return runs if after is None else f"{runs} ({after:.0%})"


def cost(summary: Summary) -> str:
    """Returns the cost compared with keep-last, with the number of runs that both finished."""
    ratio = summary["cost_ratio"]
    return "-" if ratio is None else f"{ratio:.0%} ({number(summary['cost_pairs'])})"


if __name__ == "__main__":
    main()
