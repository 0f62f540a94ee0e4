"""Simple ways to make a context smaller, for comparison with the strategies.

They exist in the lab only. Each does what its name says, and what some other system does. They use
the same session as every strategy, so their requests fit or are refused by the same rules.
"""

from typing import Any, ClassVar

from jaato_gc import ContextUsage, GCConfig, GCTriggerReason
from jaato_gc.plugin import Collection, GCStrategy, Group, Shortening, StrategySettings

NONE = "none"
"""Name of the run without collection."""
KEEP_LAST = "keep-last"
"""Name of the contender that the others are compared with."""

NEWEST_CALLS = 3
LONG_RESULT = Shortening("the middle of a long result", head=4_800, tail=3_200)
"""Head and tail of about 2,000 tokens together."""


class Contender(GCStrategy[StrategySettings]):
    """Base class: whole turns are not protected, only the newest messages."""

    newest_calls: ClassVar[int] = NEWEST_CALLS

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Sets the options. Recent turns are not protected."""
        super().initialize({"preserve_recent_turns": 0, **(config or {})})

    def hold_newest(self, collection: Collection) -> list[Group]:
        """Holds the newest request and the newest calls. Returns the other calls."""
        calls = [group for group in collection.groups if group.is_call]
        requests = [group for group in collection.groups if group.opens_turn]
        for group in (*calls[-self.newest_calls :], *requests[-1:]):
            collection.hold(group)
        return calls[: -self.newest_calls]


class KeepLast(Contender):
    """Removes the oldest exchanges and messages until the target is reached."""

    name = KEEP_LAST

    def select(self, collection: Collection) -> None:
        """Removes the oldest groups."""
        self.hold_newest(collection)
        _remove_oldest(collection)


class ClearToolResults(Contender):
    """Clears all tool results but the last three, at the threshold, whatever the target is."""

    name = "clear-tool-results"

    def select(self, collection: Collection) -> None:
        """Clears the results of old calls."""
        for group in self.hold_newest(collection):
            collection.shorten(group, "cleared")


class MaskObservations(ClearToolResults):
    """Clears all tool results but the last ten, before every request."""

    name = "mask-observations"
    newest_calls = 10

    def should_collect(
        self,
        context_usage: ContextUsage,  # noqa: ARG002
        config: GCConfig,  # noqa: ARG002
    ) -> tuple[bool, GCTriggerReason | None]:
        """Returns that a collection is always due."""
        return True, GCTriggerReason.THRESHOLD


class HeadTail(Contender):
    """Shortens long results to head and tail, oldest first, then removes the oldest exchanges."""

    name = "head-tail"

    def select(self, collection: Collection) -> None:
        """Shortens long results, then removes the oldest groups."""
        for group in self.hold_newest(collection):
            if collection.needs_more:
                collection.shorten(group, "shortened", LONG_RESULT)
        _remove_oldest(collection)


def _remove_oldest(collection: Collection) -> None:
    for group in collection.groups:
        if not collection.needs_more:
            return
        collection.remove([group], collection.key_of(group), "oldest")


CONTENDERS: dict[str, type[Contender]] = {
    each.name: each for each in (KeepLast, ClearToolResults, MaskObservations, HeadTail)
}
"""The contenders by name."""
