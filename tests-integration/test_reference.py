"""The generated parts of the reference are those of the code."""

import os
from collections.abc import Iterator
from pathlib import Path

import griffe
import pytest
from documents import load_script

api = load_script("docs/_api.py")
sections = load_script("docs/_sections.py")
reference = load_script("docs/_reference.py")
tables = api.ApiTables()

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


class Lid:
    """Closes a box. An example::

    lid.close()
    """

    def __init__(self) -> None: ...


LIMIT = 3
"""The most boxes,
in one room.

More of them need a hall.
"""

NAMELESS = 4
'''


def rows(name: str) -> list[str]:
    with griffe.temporary_visited_module(MODULE) as module:
        return list(api.rows_of(module[name]))


@pytest.fixture(scope="module")
def written() -> Iterator[dict[Path, str]]:
    """The pages as they should be, without variables that change a default."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("JAATO_GC_"):
                patch.delenv(name)
        yield reference.written()


@pytest.mark.parametrize("path", reference.PAGES, ids=lambda path: path.stem)
def test_reference_is_up_to_date(path: Path, written: dict[Path, str]) -> None:
    assert path.read_text(encoding="utf-8") == written[path], (
        f"{path.name} differs from the code: run python docs/_reference.py"
    )


def test_only_the_section_below_its_mark_is_replaced() -> None:
    mark = "<!-- from the code: values GCOutcome -->\n"

    page = sections.with_sections(f"# Page\n\n{mark}\nThe end.\n")

    assert page.startswith(f"# Page\n\n{mark}\n| name | value | meaning |\n")
    assert page.endswith(" |\n\n<!-- end -->\n\nThe end.\n")
    assert sections.with_sections(page.replace("reached", "outdated")) == page


def test_a_new_mark_replaces_no_text_below_it() -> None:
    mark = "<!-- from the code: values GCOutcome -->\n"
    text = f"{mark}\nBetween.\n\n{mark}\nold\n\n<!-- end -->\n"

    assert "\n\nBetween.\n\n" in sections.with_sections(text)


def test_a_class_has_rows_for_itself_its_methods_and_its_properties() -> None:
    assert rows("Box") == [
        "| `Box` | Holds things. Not many.<br>`(size, *, lid=None)` |",
        "| `.put` | Puts `things`.<br>`(*things, twice=False, **options) -> list[str] or None` |",
        "| `.full` | Whether it is full. |",
    ]


def test_a_summary_that_introduces_an_example_ends_with_a_period() -> None:
    assert rows("Lid") == ["| `Lid` | Closes a box. An example. |"]


def test_a_constant_has_the_first_paragraph_of_its_docstring() -> None:
    assert rows("LIMIT") == ["| `LIMIT` | The most boxes, in one room. |"]


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
