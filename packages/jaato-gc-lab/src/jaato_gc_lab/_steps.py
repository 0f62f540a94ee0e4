"""Collections of a run as steps of a timeline."""

from dataclasses import dataclass

from jaato_gc_lab._axes import from_top
from jaato_gc_lab._figures import counted
from jaato_gc_lab._reports import ReplayedCollection, ReplayReport
from jaato_gc_lab._stacks import SOURCES

MAIN_MARKS = 24
"""Maximum number of collections that the report shows of the first strategy of a run."""
MARKS = 6
"""Maximum number of collections that the report shows of each other strategy."""
TOOLS = 6
"""Maximum number of tools that are listed for a collection."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A collection and its position in a chart."""

    x: float
    y: float
    number: int
    collection: ReplayedCollection

    @property
    def sources(self) -> list[tuple[str, int, int]]:
        """Tokens before and after the collection, by source."""
        before, after = self.collection.before_by_source, self.collection.after_by_source
        names = dict.fromkeys((*SOURCES, *before, *after))
        both = ((name, before.get(name, 0), after.get(name, 0)) for name in names)
        return [each for each in both if any(each[1:])]

    @property
    def largest(self) -> int:
        """Tokens of the largest source, before or after the collection."""
        return max((max(sizes) for _, *sizes in self.sources), default=0) or 1

    @property
    def tools(self) -> list[tuple[str, int]]:
        """Removed tokens of the main tools, and of the others together."""
        tools = sorted(self.collection.freed_by_tool.items(), key=lambda each: -each[1])
        shown, rest = tools[:TOOLS], tools[TOOLS:]
        if rest:
            others = counted(len(rest), "other tool")
            shown.append((others, sum(tokens for _, tokens in rest)))
        return shown


def marks_of(report: ReplayReport, last: int, top: float, most: int) -> list[Mark]:
    """Returns the marks of the failed and the largest collections, at most ``most``."""
    numbered = sorted(
        enumerate(report.collections, 1),
        key=lambda entry: (
            entry[1].error is None,
            entry[1].tokens_after - entry[1].tokens_before,
        ),
    )
    return [
        Mark(
            round(100 * collection.request / last, 2),
            max(from_top(collection.tokens_before / top), 0.0),
            number,
            collection,
        )
        for number, collection in sorted(numbered[:most], key=lambda entry: entry[0])
    ]
