"""Every format is in the tables of the README, and every API format has its class variables."""

from pathlib import Path

import pytest

from jaato_gc_formats import ApiFormat, formats
from jaato_gc_formats._plugin import APIS

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


def test_the_readme_says_what_every_api_format_cannot_express() -> None:
    text = README.read_text(encoding="utf-8").partition("## Content that a format can't express")[2]
    header = next(line for line in text.splitlines() if line.startswith("|"))

    columns = [cell.strip() for cell in header.strip("|").split("|")]
    assert columns == ["content", *sorted(api.name for api in APIS)]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_an_api_format_reads_usage_and_the_limit_of_the_response(api: type[ApiFormat]) -> None:
    assert api.output_keys
    assert api.input_usage
    assert api.output_usage
