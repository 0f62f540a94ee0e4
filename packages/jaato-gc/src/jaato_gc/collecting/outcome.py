"""The outcome of a collection, before it is applied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting.collection import Collection
from jaato_gc.history import Edit, Hold, SourceRemoval, apply_edits
from jaato_gc.messages import Message
from jaato_gc.tokens import DEFAULT_COUNTER, TokenCounter

Changes = Sequence[Edit | SourceRemoval]


@dataclass(frozen=True)
class Outcome:
    """The changes of a collection and the history that they leave.

    Args:
        before: The history that it started from.
        after: The history that it leaves.
        edits: The difference.
        source_removals: What it removes outside of the history.
        held: Why messages must stay, by message id.
        budget: The budget, if there is one.
        counter: Counts the tokens.
    """

    before: Sequence[Message]
    after: Sequence[Message]
    edits: Sequence[Edit]
    source_removals: Sequence[SourceRemoval] = ()
    held: Mapping[str, Hold] = field(default_factory=dict)
    budget: InstructionBudget | None = None
    counter: TokenCounter = DEFAULT_COUNTER

    @classmethod
    def of(cls, collection: Collection, changes: Changes) -> "Outcome":
        """Returns what some changes would do to the history of a collection."""
        edits = [change for change in changes if isinstance(change, Edit)]
        held = {
            message.message_id: group.hold
            for group in collection.groups
            if group.hold
            for message in group.messages
        }
        return cls(
            collection.history,
            apply_edits(collection.history, edits),
            edits,
            [change for change in changes if isinstance(change, SourceRemoval)],
            held,
            collection.budget,
            collection.counter,
        )

    @cached_property
    def removed(self) -> dict[str, Message]:
        """The messages that leave the history and do not come back elsewhere, by id."""
        back = {edit.after.message_id for edit in self.edits if edit.after is not None}
        return {
            edit.before.message_id: edit.before
            for edit in self.edits
            if edit.before is not None and edit.before.message_id not in back
        }

    @cached_property
    def replaced(self) -> list[tuple[Message, Message]]:
        """The messages that get another form, each with that form."""
        return [(edit.before, edit.after) for edit in self.edits if edit.before and edit.after]
