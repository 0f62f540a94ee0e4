"""Registers the modules with checks, so that pytest shows the values in a failed assertion.

Import this before them: pytest can't change a module that is already imported.
"""

import pytest

pytest.register_assert_rewrite(
    "jaato_gc_testing._conformance",
    "jaato_gc_testing._counter_conformance",
    "jaato_gc_testing._format_conformance",
    "jaato_gc_testing._observer_conformance",
    "jaato_gc_testing._options_files",
    "jaato_gc_testing._sessions",
    "jaato_gc_testing._situations",
    "jaato_gc_testing._stash_conformance",
)
