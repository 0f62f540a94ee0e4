"""The comparison with other systems says for each of them what was read: a version and a source."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/explanation/how-it-compares.md"
TEXT = PAGE.read_text(encoding="utf-8")
VERSION = re.compile(r"\d+\.\d+|commit `[0-9a-f]{7,}`|read on \d{4}-\d{2}-\d{2}")
SOURCE = re.compile(r"\[[^\]]+\]\((?:https://|\.\./|\.\./\.\./)[^)]+\)")


def tables() -> dict[str, list[list[str]]]:
    """Returns the rows of every table, without headers, by the heading above it."""
    found: dict[str, list[list[str]]] = {}
    heading, header = "", True
    for line in TEXT.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            header = True
        elif header:
            header = False
        elif not set(line) <= set("|-"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.setdefault(heading, []).append(cells)
    return found


def test_every_compared_system_has_a_source() -> None:
    listed = {row[0] for row in tables()["Sources"]}
    compared = {row[0] for name, rows in tables().items() if name != "Sources" for row in rows}

    assert len(compared) > 25
    assert sorted(compared - listed) == []
    assert sorted(listed - compared) == []


def test_every_source_has_a_version_and_a_link() -> None:
    for name, version, source in tables()["Sources"]:
        assert VERSION.search(version), f"{name}: expected a version or a date, got {version!r}"
        assert SOURCE.search(source), f"{name}: expected a link, got {source!r}"


def test_the_page_has_the_date_of_the_comparison() -> None:
    assert re.search(r"\b20\d\d-\d\d-\d\d\b", TEXT.partition("\n## ")[0])


def test_tables_are_narrow_enough_for_a_phone() -> None:
    assert all(len(row) <= 5 for rows in tables().values() for row in rows)
    assert all(cell for rows in tables().values() for row in rows for cell in row)
