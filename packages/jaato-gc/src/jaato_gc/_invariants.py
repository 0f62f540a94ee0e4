"""What a sendable history has to satisfy, and what a collection may not break."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from jaato_gc._change import Change
from jaato_gc._glance import Glance, opens_with_user
from jaato_gc._messages import Message
from jaato_gc._pairing import Pairing, pair_calls
from jaato_gc._policies import InstructionSource
from jaato_gc._results import GCRemovalItem


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a history breaks, and where.

    Args:
        invariant: Name of the rule.
        message_id: The message at fault; ``None`` where the history as a whole is.
        detail: What is wrong with it, in words.
    """

    invariant: str
    message_id: str | None
    detail: str

    def __str__(self) -> str:
        where = f" at message {self.message_id!r}" if self.message_id else ""
        return f"{self.invariant}{where}: {self.detail}"


def check_history(messages: Sequence[Message]) -> list[Violation]:
    """Everything that a provider would refuse about a history. Empty: it can be sent.

    Usable by any host, on its own, before any request.
    """
    has_unique_ids = len({message.message_id for message in messages}) == len(messages)
    if has_unique_ids and Glance(messages, is_beginning=True).is_in_order:
        return []
    pairing = pair_calls(messages)
    return [violation for check in HISTORY_INVARIANTS for violation in check(messages, pairing)]


def check_collection(
    before: Sequence[Message],
    after: Sequence[Message],
    removal_list: Iterable[GCRemovalItem],
    protected_ids: Iterable[str] = (),
) -> list[Violation]:
    """Everything that a collection broke on its way from one history to another.

    What was wrong before is not its fault and is left out.

    Args:
        before: The history that was handed to the strategy.
        after: The history that it returned.
        removal_list: What it says that it took.
        protected_ids: Messages that had to stay.
    """
    change = Change.between(before, after)
    return check_change(change, before, after, list(removal_list), set(protected_ids))


def check_change(
    change: Change,
    before: Sequence[Message],
    after: Sequence[Message],
    removal_list: Sequence[GCRemovalItem],
    protected_ids: Set[str],
) -> list[Violation]:
    """`check_collection`, where it is known what of the one history is not in the other."""
    is_said = change.only_removes and _surely_said(change, removal_list, protected_ids)
    if is_said and _surely_seamless(change, after):
        return []
    found = check_history(after)
    if found:
        inherited = set(check_history(before))
        found = [violation for violation in found if violation not in inherited]
    if is_said:
        return found
    pair = _Pair(before, after)
    return [
        *found,
        *_protected_kept(pair, protected_ids),
        *_order_kept(pair),
        *_thoughts_kept(pair),
        *_nothing_smuggled_in(pair),
        *_removal_list_is_true(pair, removal_list),
    ]


# --- a history at a glance ---


def _surely_said(
    change: Change, removal_list: Sequence[GCRemovalItem], protected_ids: Set[str]
) -> bool:
    """Whether just what is gone is said to be, and nothing of it had to stay."""
    said: set[str] = set()
    keys: defaultdict[InstructionSource, set[str | None]] = defaultdict(set)
    for item in removal_list:
        if item.action == "clear":
            return False
        keys[item.source].add(item.child_key)
        said.update(item.message_ids)
    is_said_once = sum(map(len, keys.values())) == len(removal_list)
    return is_said_once and said.isdisjoint(protected_ids) and said == set(change.ids)


def _surely_seamless(change: Change, after: Sequence[Message]) -> bool:
    """Whether nothing is torn where something was taken out, as far as a glance tells.

    Elsewhere all is as it was: in a history that was in order, a result that has lost its call
    stands at a seam, and so does a call that has lost a result. A seam is looked at with the
    exchanges on both sides of it. (Where there was disorder before, a request finds it anyway.)
    """
    end = -1
    for taken, position in enumerate(change.positions):
        seam = position - taken
        if seam <= end:
            continue
        start = end = seam
        while start > 0 and after[start - 1].is_tool_output:
            start -= 1
        while end < len(after) and after[end].is_tool_output:
            end += 1
        if start == end and not (start > 0 and after[start - 1].function_calls):
            continue  # talk on both sides
        if not Glance(after[max(0, start - 1) : end]).is_in_order:
            return False
    return opens_with_user(after)


# --- a history by itself ---


def _unique_ids(messages: Sequence[Message], _pairing: Pairing) -> Iterator[Violation]:
    seen: set[str] = set()
    for message in messages:
        if message.message_id in seen:
            yield Violation("unique_ids", message.message_id, "another message has this id")
        seen.add(message.message_id)


def _user_first(messages: Sequence[Message], _pairing: Pairing) -> Iterator[Violation]:
    if not opens_with_user(messages):
        detail = "the first message that is not the system's must be the user's"
        yield Violation("user_first", None, detail)


def _no_empty_message(messages: Sequence[Message], _pairing: Pairing) -> Iterator[Violation]:
    for message in messages:
        if message.is_empty:
            yield Violation("no_empty_message", message.message_id, "it has no content")


def _results_have_calls(messages: Sequence[Message], pairing: Pairing) -> Iterator[Violation]:
    for position, callers in pairing.callers.items():
        if None in callers:
            detail = "it carries a tool result that answers no earlier call"
            yield Violation("results_have_calls", messages[position].message_id, detail)


def _results_follow_calls(messages: Sequence[Message], pairing: Pairing) -> Iterator[Violation]:
    for position, callers in pairing.callers.items():
        start = pairing.exchange_starts[position]
        if any(caller not in (None, start, position) for caller in callers):
            detail = "its tool result does not stand directly behind its call"
            yield Violation("results_follow_calls", messages[position].message_id, detail)


def _calls_have_results(messages: Sequence[Message], pairing: Pairing) -> Iterator[Violation]:
    for position, calls in pairing.unanswered.items():
        if position < pairing.last_exchange:
            names = ", ".join(sorted(call.name for call in calls))
            detail = f"no result answers its call of {names}"
            yield Violation("calls_have_results", messages[position].message_id, detail)


HISTORY_INVARIANTS: tuple[Callable[[Sequence[Message], Pairing], Iterator[Violation]], ...] = (
    _unique_ids,
    _user_first,
    _no_empty_message,
    _results_have_calls,
    _results_follow_calls,
    _calls_have_results,
)


# --- one history against the one it came from ---


class _Pair:
    """The real messages of two histories, and which of them went or are not what they were."""

    def __init__(self, before: Sequence[Message], after: Sequence[Message]) -> None:
        self.before = {each.message_id: each for each in before if each.synthetic is None}
        self.after = {each.message_id: each for each in after if each.synthetic is None}
        self.removed = self.before.keys() - self.after.keys()
        self.altered = {
            message_id
            for message_id, message in self.after.items()
            if (old := self.before.get(message_id)) is not None
            and old is not message
            and old != message
        }


def _protected_kept(pair: _Pair, protected_ids: Iterable[str]) -> Iterator[Violation]:
    for message_id in protected_ids:
        if message_id in pair.before and message_id not in pair.after:
            yield Violation("protected_kept", message_id, "it was protected and is gone")


def _order_kept(pair: _Pair) -> Iterator[Violation]:
    expected = (message_id for message_id in pair.before if message_id in pair.after)
    for message_id, wanted in zip(
        (each for each in pair.after if each in pair.before), expected, strict=True
    ):
        if message_id != wanted:
            yield Violation("order_kept", message_id, f"it stands where {wanted!r} should")
            return


def _thoughts_kept(pair: _Pair) -> Iterator[Violation]:
    for message_id in pair.altered:
        old, new = pair.before[message_id], pair.after[message_id]
        if _thoughts(old) != _thoughts(new):
            yield Violation("thoughts_kept", message_id, "its thoughts were altered")


def _thoughts(message: Message) -> list[object]:
    return [(part.thought, part.extra) for part in message.parts if part.thought is not None]


def _nothing_smuggled_in(pair: _Pair) -> Iterator[Violation]:
    for message_id in pair.after.keys() - pair.before.keys():
        detail = "it is new but not marked as synthetic"
        yield Violation("additions_are_synthetic", message_id, detail)


def _removal_list_is_true(
    pair: _Pair, removal_list: Iterable[GCRemovalItem]
) -> Iterator[Violation]:
    said_removed: set[str] = set()
    said_cleared: set[str] = set()
    keys: set[tuple[InstructionSource, str | None]] = set()
    for item in removal_list:
        if (item.source, item.child_key) in keys:
            detail = f"{item.source}/{item.child_key} is in the removal list twice"
            yield Violation("removal_list_is_true", None, detail)
        keys.add((item.source, item.child_key))
        said = said_cleared if item.action == "clear" else said_removed
        said.update(each for each in item.message_ids if each in pair.before)
    for message_id in sorted(pair.removed ^ said_removed):
        yield Violation(
            "removal_list_is_true",
            message_id,
            "it is said to be removed and is still there"
            if message_id in said_removed
            else "it was removed, and the removal list does not say so",
        )
    for message_id in sorted(pair.altered ^ said_cleared):
        yield Violation(
            "removal_list_is_true",
            message_id,
            "it is said to be cleared and is unchanged"
            if message_id in said_cleared
            else "it was altered, and the removal list does not say so",
        )
