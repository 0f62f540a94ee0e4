from collections.abc import Callable

import pytest

from jaato_gc import Message, Role
from jaato_gc.plugin import Stash
from jaato_gc_stash import SqlStash
from jaato_gc_testing import StashConformance


class TestSqlStash(StashConformance):
    @pytest.fixture
    def stash(self, open_stash: Callable[[], SqlStash]) -> Stash:
        return open_stash()


class TestViewOfAnotherAgent(StashConformance):
    """Runs the same checks in a database with another agent's content, which must not show."""

    @pytest.fixture
    def stash(self, open_stash: Callable[[], SqlStash]) -> Stash:
        stash = open_stash()
        words = "silver copper tin lead needle common word shared thread turn front behind a z 9"
        stash.put("gc-0", [Message.from_text(Role.USER, f"{words} {each}") for each in range(20)])
        return stash.for_agent("reviewer")
