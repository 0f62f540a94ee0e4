"""Applying edits: history, budget and journal change together, in one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jaato_gc.collecting import GCRemovalItem, GCResult
from jaato_gc.commit import Commit, guarded
from jaato_gc.frozen import FrozenList
from jaato_gc.history import Edit, in_order
from jaato_gc.messages import Message, is_ledger, stash_key
from jaato_gc.session.journal import Journal
from jaato_gc.session.journal_entry import JournalEntry
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.rewriting import NO_PLACES, prepare_edits
from jaato_gc.stash import Stash

MAX_STASHED_LEDGERS = 1_000
"""How many replaced ledgers in the stash are known: a saved session must not grow with its age."""


class Applier:
    """Applies edits to the history of a session and journals them.

    Args:
        live: The history and its budget.
        journal: The last collections.
        stash: The stash, if there is one.
    """

    def __init__(self, live: LiveHistory, journal: Journal, stash: Stash | None) -> None:
        self._live = live
        self._guard = live.guard
        self._journal = journal
        self._stash = stash
        self.plans_made = 0
        self.stashed_ledgers: list[str] = []
        """The keys of replaced ledgers in the stash, which `forget` has to change too."""

    @property
    def has_stash(self) -> bool:
        """Whether removed messages are stored in a stash."""
        return self._stash is not None

    @guarded
    def next_id(self) -> str:
        """Returns the id of another collection."""
        self.plans_made += 1
        return f"gc_{self.plans_made}"

    def store(self, gc_id: str, edits: Sequence[Edit]) -> dict[str, str]:
        """Stores what edits remove in the stash, and returns the keys by message id."""
        messages = [edit.before for edit in in_order(edits) if edit.before and edit.stash]
        if self._stash is None or not messages:
            return {}
        # Before they are stored: if this is interrupted, forgetting still reaches them.
        ledgers = [stash_key(message) for message in messages if is_ledger(message)]
        self.stashed_ledgers = [*self.stashed_ledgers, *ledgers][-MAX_STASHED_LEDGERS:]
        keys = self._stash.put(gc_id, messages)
        return {message.message_id: key for message, key in zip(messages, keys, strict=True)}

    def apply(
        self,
        commit: Commit,
        result: GCResult,
        edits: Sequence[Edit],
        base: Sequence[Message],
        *,
        created_by: str | None,
        keys: Mapping[str, str],
        dropped_tokens: int = 0,
        places: Mapping[str, int] = NO_PLACES,
    ) -> GCResult:
        """Applies edits and journals them. The lock must be held. Returns the final result.

        Args:
            commit: What else changes with them.
            result: The result so far.
            edits: The edits.
            base: The history that their positions refer to.
            created_by: The strategy that made new messages; ``None``: they are restored.
            keys: The keys of removed messages in the stash, by message id.
            dropped_tokens: Tokens that were dropped outside of the history before this.
            places: The places of messages that are restored, by id.

        Raises:
            StalePlanError: A message that they change was changed or removed since.
        """
        total = self._live.budget.total_tokens()
        applied, total_after = prepare_edits(self._live, commit, edits, base, created_by, places)
        result = replace(
            result,
            tokens_before=total + dropped_tokens,
            tokens_after=total_after,
            removal_list=_with_stash_keys(result.removal_list, keys),
        ).frozen()
        entry = JournalEntry(result, "applied", applied.stashed_under(keys))
        if entry.is_collection:
            commit.assign(self._live.budget, collections=self._live.budget.collections + 1)
        self._journal.record(commit, entry)
        self._guard.commit(commit)
        return result

    @guarded
    def record(self, result: GCResult) -> GCResult:
        """Journals a collection that changed nothing in the history. Returns its result."""
        result = result.frozen()
        commit = Commit()
        self._journal.record(commit, JournalEntry(result))
        self._guard.commit(commit)
        return result


def _with_stash_keys(
    items: Sequence[GCRemovalItem], keys: Mapping[str, str]
) -> list[GCRemovalItem]:
    if not keys:
        return list(items)
    return [
        replace(
            item, stash_keys=FrozenList(keys[each] for each in item.message_ids if each in keys)
        )
        for item in items
    ]
