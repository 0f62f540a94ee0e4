"""The script that says how large core is."""

import importlib.util
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "core_size.py"


@pytest.fixture(scope="module")
def core_size() -> ModuleType:
    spec = importlib.util.spec_from_file_location("core_size", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_of_code_are_counted_without_comments_and_docstrings(core_size: ModuleType) -> None:
    source = '''
        """A module.

        With a second paragraph."""

        # a comment
        LIMIT = 3  # counts
        """What it limits."""


        def join(
            *parts: str,
        ) -> str:
            """Joins parts."""
            text = """two
        lines"""

            return text.join(parts)
    '''

    assert core_size.count_code(textwrap.dedent(source)) == 7


def test_modules_are_counted_that_a_collection_passes(core_size: ModuleType) -> None:
    session = core_size.coding_session()
    passed = core_size.modules_passed(session)

    assert session.collection_count == 1
    assert {"session/session.py", "history/layout.py"} <= passed
    assert "session/saving.py" not in passed
