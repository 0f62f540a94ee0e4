"""The table of settings in core's README agrees with the code."""

import re
from pathlib import Path

import pytest

from jaato_gc import GCConfig

README = Path(__file__).parents[1] / "packages" / "jaato-gc" / "README.md"
TABLE = README.read_text("utf-8").partition("| key | default |")[2].partition("\n\n")[0]
ROWS = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", TABLE, re.MULTILINE))
WRITTEN = {
    "none": None,
    "true": True,
    "false": False,
    "[]": (),
    "{}": {},
    "2 % of the window": None,
}


def test_table_lists_every_setting() -> None:
    assert set(ROWS) == set(GCConfig.model_fields)


@pytest.mark.parametrize("name", ROWS)
def test_default_in_the_table_is_the_default_of_the_setting(name: str) -> None:
    written = ROWS[name].strip()
    default = WRITTEN[written] if written in WRITTEN else float(written)

    assert GCConfig.model_fields[name].get_default(call_default_factory=True) == default
