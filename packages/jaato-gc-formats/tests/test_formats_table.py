"""The README's table of formats matches the code."""

from pathlib import Path

from jaato_gc_formats import ApiFormat, formats

README = Path(__file__).parents[1] / "README.md"


def test_the_readme_lists_every_format() -> None:
    rows = [
        (not isinstance(format, ApiFormat), name, format.summary)
        for name, format in formats().items()
        if type(format).__module__.startswith("jaato_gc_formats.")
    ]
    lines = [
        f"| `{name}` | {summary} | {'read' if is_log else 'read and written'} |"
        for is_log, name, summary in sorted(rows)
    ]
    table = "\n".join(["| format | description | access |", "|---|---|---|", *lines])

    assert table in README.read_text(encoding="utf-8"), f"expected this table:\n\n{table}\n"
