"""The outcome of a collection before it is applied, and the rules that it has to keep."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jaato_gc.budget import InstructionBudget, view_of
from jaato_gc.collecting.draft import Change, Draft
from jaato_gc.collecting.results import GCRemovalItem
from jaato_gc.collecting.shortening import without_shortenable
from jaato_gc.history import (
    KEEPING,
    Edit,
    SourceRemoval,
    Violation,
    apply_edits,
    displaced,
    edits_between,
    new_violations,
)
from jaato_gc.messages import (
    USER,
    Message,
    Part,
    SyntheticKind,
    is_notice,
    message_to_dict,
    plain_json,
    serialised,
)
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.tokens import DEFAULT_COUNTER, TokenCounter, count_tokens

_REPLACEABLE = (SyntheticKind.NOTICE, SyntheticKind.LEDGER)


@dataclass(frozen=True)
class Outcome:
    """The changes of a collection and the history that they leave.

    Args:
        before: The history that it started from.
        after: The history that it leaves.
        edits: The difference.
        source_removals: What it removes outside of the history.
        held: Why messages must stay, by message id: a `Hold`, or who says so.
        summaries: The ids of summaries and ledgers that stay, unless others replace them.
        budget: The budget, if there is one.
        counter: Counts the tokens.
    """

    before: Sequence[Message]
    after: Sequence[Message]
    edits: Sequence[Edit]
    source_removals: Sequence[SourceRemoval] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    summaries: Container[str] = ()
    budget: InstructionBudget | None = None
    counter: TokenCounter = DEFAULT_COUNTER

    @classmethod
    def of(cls, draft: Draft, changes: Sequence[Change] | None = None) -> "Outcome":
        """Returns what the changes of a draft do to its history, or what others would do."""
        changes = draft.changes if changes is None else changes
        edits = [change for change in changes if isinstance(change, Edit)]
        return cls(
            draft.history,
            apply_edits(draft.history, edits),
            edits,
            [change for change in changes if isinstance(change, SourceRemoval)],
            draft.must_stay,
            _summaries_to_keep(draft),
            draft.budget,
            draft.counter,
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
        return [
            (edit.before, edit.after)
            for edit in self.edits
            if edit.before and edit.after and _differ(edit.before, edit.after)
        ]


def _differ(before: Message, after: Message) -> bool:
    # Equal messages need not be the same: to Python, 1 is True, and a subclass has its own opinion.
    return before is not after and (before != after or serialised(before) != serialised(after))


def _summaries_to_keep(draft: Draft) -> set[str]:
    if draft.under_pressure:
        return set()
    return {
        group.messages[0].message_id
        for group in draft.groups
        if group.messages[0].synthetic in (SyntheticKind.SUMMARY, SyntheticKind.LEDGER)
        if group.policy is GCPolicy.PRESERVABLE
    } - draft.relaxed


def history_is_sendable(outcome: Outcome) -> Iterator[Violation]:
    """The collection breaks no rule of histories. Faults that were there before don't count."""
    yield from new_violations(outcome.before, outcome.after)


def protected_kept(outcome: Outcome) -> Iterator[Violation]:
    """Protected messages stay."""
    for message_id in outcome.removed:
        if message_id in outcome.held:
            detail = f"it is protected ({outcome.held[message_id]}) and was removed"
            yield Violation("protected_kept", message_id, detail)


def protected_unaltered(outcome: Outcome) -> Iterator[Violation]:
    """Protected messages are not changed."""
    for before, _ in outcome.replaced:
        hold = outcome.held.get(before.message_id)
        if hold:
            detail = f"it is protected ({hold}) and was changed"
            yield Violation("protected_unaltered", before.message_id, detail)


def summaries_kept(outcome: Outcome) -> Iterator[Violation]:
    """Below pressure, summaries and the ledger stay, unless others replace them."""
    added = {edit.after.synthetic for edit in outcome.edits if edit.after and not edit.before}
    for message_id, message in outcome.removed.items():
        if message_id in outcome.summaries and message.synthetic not in added:
            detail = f"it is a {message.synthetic} and was removed below pressure"
            yield Violation("summaries_kept", message_id, detail)


def order_kept(outcome: Outcome) -> Iterator[Violation]:
    """Messages stay in their order. A notice may be moved, unless it is protected."""
    inserted = {edit.message_id for edit in outcome.edits if edit.before is None}
    for edit in outcome.edits:
        if edit.before is None or edit.after is not None or edit.message_id not in inserted:
            continue
        if edit.message_id in outcome.held or not is_notice(edit.before):
            yield Violation("order_kept", edit.message_id, "it was moved to another place")


def places_kept(outcome: Outcome) -> Iterator[Violation]:
    """A message that keeps its place stays between the messages that it was between, or goes."""
    for message in displaced(outcome.before, outcome.after):
        detail = "it keeps its place, and a message beside it was removed or added"
        yield Violation("places_kept", message.message_id, detail)


def bonds_kept(outcome: Outcome) -> Iterator[Violation]:
    """Messages that share a bond stay or go together."""
    broken = {bond for message in outcome.removed.values() for bond in message.bonds}
    for message in outcome.after if broken else ():
        if not broken.isdisjoint(message.bonds):
            detail = "a message was removed that belongs to it"
            yield Violation("bonds_kept", message.message_id, detail)


def only_results_shortened(outcome: Outcome) -> Iterator[Violation]:
    """Only results and arguments are changed. A notice or a ledger is replaced by another one."""
    for before, after in outcome.replaced:
        if before.synthetic in _REPLACEABLE:
            is_valid = after.synthetic is before.synthetic and is_user_text(after)
        else:
            kept, left = without_shortenable(before), without_shortenable(after)
            is_valid = serialised(kept) == serialised(left)
        if not is_valid:
            detail = "more than its results and arguments was changed"
            yield Violation("only_results_shortened", before.message_id, detail)


def additions_are_synthetic(outcome: Outcome) -> Iterator[Violation]:
    """New messages are user messages of valid text, marked as synthetic."""
    known = {
        edit.before.message_id
        for edit in outcome.edits
        if edit.before and not is_notice(edit.before)
    }
    for new in [edit.after for edit in outcome.edits if edit.after]:
        if new.message_id in known:
            continue
        if not new.synthetic:
            detail = "it is new and not marked as synthetic"
            yield Violation("additions_are_synthetic", new.message_id, detail)
        elif not is_user_text(new):
            detail = "it is new and not a user message of text"
            yield Violation("additions_are_synthetic", new.message_id, detail)
        elif not _is_unicode(new):
            detail = "it is new and not valid Unicode"
            yield Violation("additions_are_synthetic", new.message_id, detail)


def _is_unicode(message: Message) -> bool:
    try:
        plain_json(message_to_dict(message))
    except ValueError:
        return False
    return True


def is_user_text(message: Message) -> bool:
    """Returns whether a message is a user message of nothing but text."""
    is_text = all(part.text is not None and part == Part(text=part.text) for part in message.parts)
    return message.role is USER and is_text


def never_larger(outcome: Outcome) -> Iterator[Violation]:
    """The history does not grow."""
    counter = outcome.counter
    freed = count_tokens((edit.before for edit in outcome.edits if edit.before), counter)
    new = count_tokens((edit.after for edit in outcome.edits if edit.after), counter)
    if new > freed:
        detail = f"the history grew: {new} tokens replace {freed}"
        yield Violation("never_larger", None, detail)


def sources_may_go(outcome: Outcome) -> Iterator[Violation]:
    """Outside the history, only what exists, is not LOCKED and the host can drop is removed."""
    for removal in outcome.source_removals:
        budget = outcome.budget
        if budget is None:
            continue
        name = f"{removal.source}/{removal.child_key}" if removal.child_key else removal.source
        entry = budget.entry_under(removal.source, removal.child_key)
        if removal.source not in budget.collectable_sources:
            detail = f"{removal.source} can't be removed: give on_source_removed to the session"
            yield Violation("source_is_collectable", None, detail)
        elif removal.source is InstructionSource.CONVERSATION or entry is None:
            yield Violation("removal_list_is_true", None, f"there is no {name} to remove")
        elif entry.contains(GCPolicy.LOCKED):
            yield Violation("protected_kept", None, f"{name} is LOCKED or contains a LOCKED entry")


OutcomeRule = Callable[[Outcome], Iterator[Violation]]

OUTCOME_INVARIANTS: tuple[OutcomeRule, ...] = (
    history_is_sendable,
    protected_kept,
    protected_unaltered,
    summaries_kept,
    order_kept,
    places_kept,
    bonds_kept,
    only_results_shortened,
    additions_are_synthetic,
    never_larger,
    sources_may_go,
)
"""The rules. A rule that is added here applies to every collection."""


def broken_outcome_rules(outcome: Outcome) -> list[Violation]:
    """Returns every rule that a collection breaks. Empty: it may be applied."""
    return [violation for rule in OUTCOME_INVARIANTS for violation in rule(outcome)]


def check_collection(
    before: Sequence[Message],
    after: Sequence[Message],
    removal_list: Iterable[GCRemovalItem],
    protected_ids: Iterable[str] = (),
    budget: InstructionBudget | None = None,
) -> list[Violation]:
    """Returns everything that a collection broke between two histories, for tests of strategies.

    Faults that were there before don't count.

    Args:
        before: The history that the strategy was given.
        after: The history that it returned.
        removal_list: The removal list that it returned.
        protected_ids: Messages that had to stay as they were.
        budget: The budget that the strategy was given: its figures count.
    """
    held = dict.fromkeys(protected_ids, "in protected_ids")
    counter = view_of(budget, before).counter if budget else DEFAULT_COUNTER
    outcome = Outcome(before, after, edits_between(before, after), held=held, counter=counter)
    return [*broken_outcome_rules(outcome), *removal_list_is_true(outcome, removal_list)]


def removal_list_is_true(
    outcome: Outcome, removal_list: Iterable[GCRemovalItem]
) -> Iterator[Violation]:
    """The removal list names exactly the real messages that were removed or shortened."""
    real = {message.message_id for message in outcome.before if not message.synthetic}
    said: dict[str, set[str]] = {"removed": set(), "shortened": set()}
    keys: set[tuple[InstructionSource, str | None]] = set()
    for item in removal_list:
        if (item.source, item.child_key) in keys:
            detail = f"{item.source}/{item.child_key} is in the removal list twice"
            yield Violation("removal_list_is_true", None, detail)
        keys.add((item.source, item.child_key))
        listed = said["shortened" if item.action in KEEPING else "removed"]
        listed.update(real.intersection(item.message_ids))
    shortened = {before.message_id for before, _ in outcome.replaced}
    for what, done in (("removed", outcome.removed.keys()), ("shortened", shortened)):
        for message_id in sorted((done & real) ^ said[what]):
            detail = f"the removal list says {what}, but it was not"
            if message_id not in said[what]:
                detail = f"it was {what}, and the removal list does not say so"
            yield Violation("removal_list_is_true", message_id, detail)
