"""The tables of the API reference have the names, arguments and summaries of the code."""

from pathlib import Path

import griffe
import pytest
from documents import load_script

api = load_script("docs/_api.py")
tables = api.Tables()

MODULE = '''
class Box(Base):
    """Holds things. Not many.

    Args:
        size: How many.
    """

    def __init__(self, size: int, *, lid: str | None = None) -> None: ...

    colour = "red"
    """Its colour."""

    def put(self, *things: object, twice: bool = False, **options: int) -> list[str] | None:
        """Puts ``things``."""

    @property
    def full(self) -> bool:
        """Whether it is full."""

    def _shake(self) -> None: ...


LIMIT = 3
"""The most boxes."""

NAMELESS = 4
'''


def rows(name: str) -> list[str]:
    with griffe.temporary_visited_module(MODULE) as module:
        return list(api.rows_of(module[name]))


@pytest.mark.parametrize("path", api.PAGES, ids=lambda path: path.stem)
def test_tables_are_up_to_date(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert tables.page(text) == text, f"{path.name} differs from the code: run python docs/_api.py"


def test_a_class_has_rows_for_itself_its_methods_and_its_properties() -> None:
    assert rows("Box") == [
        "| `Box` | Holds things. Not many.<br>`(size, *, lid=None)` |",
        "| `.put` | Puts `things`.<br>`(*things, twice=False, **options) -> list[str] or None` |",
        "| `.full` | Whether it is full. |",
    ]


def test_a_constant_has_its_docstring() -> None:
    assert rows("LIMIT") == ["| `LIMIT` | The most boxes. |"]


def test_a_missing_docstring_is_an_error_that_names_the_object() -> None:
    with pytest.raises(SystemExit, match=r"NAMELESS has no docstring: add one"):
        rows("NAMELESS")


def test_only_the_table_above_the_names_is_replaced() -> None:
    mark = "<!-- ::: jaato_gc.count_tokens -->\n"
    header = "| name | description |\n|---|---|\n"
    other = "| a | b |\n|---|---|\n| 1 | 2 |\n\nText.\n\n"

    written = tables.page(f"# Page\n\n{other}{mark}\nThe end.\n")

    assert written.startswith(f"# Page\n\n{other}{header}| `count_tokens` | ")
    assert written.endswith(f"` |\n\n{mark}\nThe end.\n")
    assert tables.page(written) == written
