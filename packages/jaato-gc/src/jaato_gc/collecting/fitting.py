"""Fitting: what core removes itself if a request would not fit the window otherwise."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting.collection import Collection
from jaato_gc.collecting.results import GCTriggerReason
from jaato_gc.collecting.shortening import Shortening
from jaato_gc.collecting.triggers import ContextUsage
from jaato_gc.config import GCConfig
from jaato_gc.history import Group, Hold, Turn
from jaato_gc.messages import MODEL, SYSTEM, USER, Message, Part, is_notice
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.tokens import as_text, count_tokens, message_tokens

CORE = "core"
"""The plugin name in the result of a collection that core makes alone."""

CHARACTERS_PER_TOKEN = 4
SMALLEST_RESULT = 250
"""Tokens that stay of a result or an argument that is shortened to make a request fit."""
HEAD_SHARE = 0.6
OVERSIZED_SHARE = 0.75
"""The share of the target, less what is fixed, that oversized last calls may keep."""
LARGEST_NAMED = 5
"""Number of fixed messages that an error names."""
NOTE = "to fit the window; read it in parts"


class FixedMessage(NamedTuple):
    """A message that stays in any case.

    Args:
        message: The message.
        tokens: Its size.
        why: Why it stays.
        pinned_id: The pinned message of its group, if a pin is the reason.
    """

    message: Message
    tokens: int
    why: str
    pinned_id: str | None = None

    def __str__(self) -> str:
        role, why = self.message.role, self.why.replace("_", " ")
        return f"{self.message.message_id!r} ({role}, {why}, {self.tokens:,})"


@dataclass(frozen=True)
class Floor:
    """What no collection can remove from a request.

    Args:
        messages: The fixed messages, largest first.
        elsewhere: Tokens outside of the history, by source, with the correction by usage.
        can_fit: Whether the request fits if everything else is removed.
    """

    messages: list[FixedMessage]
    elsewhere: dict[str, int]
    can_fit: bool

    @classmethod
    def of(
        cls,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget,
    ) -> "Floor":
        """Returns the floor of a history."""
        collection = Collection.of(history, context_usage, config, reason, budget)
        fixed = fixed_messages(collection)
        elsewhere = {
            source.value: entry.total_tokens()
            for source, entry in budget.entries.items()
            if source not in (InstructionSource.CONVERSATION, InstructionSource.SYSTEM)
            and entry.total_tokens()
        }
        counted = count_tokens(history, budget.counter)
        prompts = budget.counted_tokens() - counted - sum(elsewhere.values())
        if prompts > 0:  # system prompts that the host booked without a message
            elsewhere["system"] = prompts
        if budget.correction:
            elsewhere["correction"] = budget.correction
        return cls(fixed, elsewhere, can_fit(collection))

    @property
    def by_source(self) -> dict[str, int]:
        """The tokens by source."""
        found = {"conversation": 0, **self.elsewhere}
        for each in self.messages:
            source = "system" if each.message.role is SYSTEM else "conversation"
            found[source] = found.get(source, 0) + each.tokens
        return found

    def __str__(self) -> str:
        named = [str(each) for each in self.messages[:LARGEST_NAMED]]
        if rest := self.messages[LARGEST_NAMED:]:
            named.append(f"{len(rest)} more ({sum(each.tokens for each in rest):,})")
        named += [f"{source} ({tokens:,})" for source, tokens in self.elsewhere.items()]
        total = sum(self.by_source.values())
        return f"Fixed are {total:,}: {', '.join(named) or 'nothing'}. {self._remedy()}"

    def _remedy(self) -> str:
        largest = self.messages[0] if self.messages else None
        elsewhere = max(self.elsewhere.values(), default=0)
        if largest is None or largest.message.role is SYSTEM or elsewhere > largest.tokens:
            return "Use a larger window, or shorten the system prompt and the tools"
        if largest.pinned_id:
            return f"Call session.unpin({largest.pinned_id!r})"
        message_id = largest.message.message_id
        force = ", force=True" if largest.why == Hold.LOCKED else ""
        return (
            f"Call session.replace({message_id!r}, a shorter message{force}), "
            "or use a larger window"
        )


def fixed_groups(collection: Collection) -> list[Group]:
    """Returns the groups that no collection may remove.

    If the first of them is not a user message, the request of its turn is among them.
    """
    fixed: list[Group] = []
    request, is_first = None, True
    for group in collection.groups:
        if group.opens_turn:
            request = group
        if not (group.hold and group.hold.is_fixed):
            continue
        if is_first and request and group.messages[0].role is not SYSTEM and not _is_user(group):
            fixed.append(request)
        is_first = is_first and group.messages[0].role is SYSTEM
        fixed.append(group)
    return fixed


def fixed_messages(collection: Collection) -> list[FixedMessage]:
    """Returns the messages that no collection may remove, largest first."""
    counter = collection.counter
    fixed: list[FixedMessage] = []
    pins = collection.budget.pinned_message_ids if collection.budget else set()
    for group in fixed_groups(collection):
        why = group.hold if group.hold and group.hold.is_fixed else Hold.FIRST_USER
        pinned = [each.message_id for each in group.messages if each.message_id in pins]
        pinned_id = pinned[0] if pinned and why is Hold.PINNED else None
        fixed += [
            FixedMessage(message, message_tokens(message, counter), why.value, pinned_id)
            for message in group.messages
        ]
    return sorted(fixed, key=lambda each: -each.tokens)


def can_fit(collection: Collection) -> bool:
    """Returns whether the request fits if everything is removed that is not fixed."""
    if not collection.goal.tokens_to_fit:
        return True
    fixed = sum(each.tokens for each in fixed_messages(collection))
    movable = count_tokens(collection.history, collection.counter) - fixed
    return movable + _collectable_tokens(collection) >= collection.goal.tokens_to_fit


def _collectable_tokens(collection: Collection) -> int:
    """Returns the tokens outside of the history that the host can drop for a strategy."""
    budget = collection.budget
    return sum(
        each.tokens
        for source in (budget.collectable_sources if budget else ())
        if budget and source is not InstructionSource.CONVERSATION and source in budget.entries
        for each in budget.entries[source].walk()
        if each.binding_policy() is not GCPolicy.LOCKED
    )


def fits(collection: Collection) -> bool:
    """Returns whether the request fits with the changes so far."""
    wanted = collection.goal.tokens_to_fit
    return not wanted or collection.tokens_freed >= wanted


def shorten_oversized(collection: Collection) -> None:
    """Shortens results of the last calls that would not fit even if everything else were removed.

    They have to be shortened in any case. Doing it before the strategy is asked spares the rest of
    the history: otherwise everything else would go first, for nothing.
    """
    goal, counter = collection.goal, collection.counter
    if not goal.tokens_to_fit or goal.target_tokens is None:
        return
    fixed = fixed_groups(collection)
    last = _without(collection.last_calls, fixed)
    own = count_tokens((message for group in last for message in group.messages), counter)
    kept = count_tokens((message for group in fixed for message in group.messages), counter)
    everything = count_tokens(collection.history, counter)
    if everything - kept - own >= goal.tokens_to_fit:
        return
    total = collection.budget.total_tokens() if collection.budget else 0
    elsewhere = max(0, total - everything)
    room = int(max(0, goal.target_tokens - kept - elsewhere) * OVERSIZED_SHARE)
    _shorten(collection, last, own - room)
    if collection.tokens_freed:
        collection.details["relaxed"] = ["long_results"]


def fit(collection: Collection, *, all_steps: bool = True) -> None:
    """Adds edits until the request fits, lowest priority first.

    Args:
        collection: The collection, with the changes of the strategy.
        all_steps: False: remove nothing from recent turns.
    """
    steps = _Steps(collection)
    relaxed: list[str] = collection.details.setdefault("relaxed", [])
    by_name = {
        "old": steps.remove_old,
        "long_results": steps.shorten_last_calls,
        "calls": steps.remove_calls,
        "messages": steps.remove_messages,
        "preservable": steps.remove_preservable,
        "newest_turn": steps.remove_newest_turn,
        "last_calls": steps.remove_last_calls,
    }
    for name, step in by_name.items() if all_steps else [("old", steps.remove_old)]:
        if fits(collection):
            break
        before = collection.tokens_freed
        step()
        if collection.tokens_freed > before and name not in relaxed:
            relaxed.append(name)


class _Steps:
    """The steps of `fit`. Each stops as soon as the request fits.

    Within a turn the request goes last, and it stays while the history would begin with something
    else than a user message. Later steps try it again.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._turns = collection.turns
        self._recent = [turn for turn in self._turns if collection.is_recent(turn)]
        fixed = fixed_groups(collection)
        self._last_calls = _without(collection.last_calls, fixed)
        self._requests = [group for group in collection.groups if group.opens_turn]
        self._fixed = set(map(id, fixed))
        self._waiting = {
            *map(id, self._last_calls),
            *(id(each) for each in collection.groups if each.policy is GCPolicy.PRESERVABLE),
        }
        """The last calls and PRESERVABLE groups, which have steps of their own."""
        self._places = {id(group): place for place, group in enumerate(collection.groups)}
        self._first = 0  # the place of the first group that is left, without system messages

    def remove_old(self) -> None:
        """Removes turns that are not recent, as a whole except for what waits."""
        for turn in self._turns[: len(self._turns) - len(self._recent)]:
            if fits(self._collection):
                return
            for group in _request_last(turn):
                if id(group) not in self._waiting:
                    self._force(group, "fit_old")

    def shorten_last_calls(self) -> None:
        """Shortens results and arguments of the last calls."""
        missing = self._collection.goal.tokens_to_fit - self._collection.tokens_freed
        _shorten(self._collection, self._last_calls, missing)

    def remove_calls(self) -> None:
        """Removes older calls of recent turns."""
        groups = (group for turn in self._recent for group in turn.groups if group.is_call)
        self._remove((each for each in groups if id(each) not in self._waiting), "fit_calls")

    def remove_messages(self) -> None:
        """Removes messages without calls of recent turns, except the newest."""
        groups = (group for turn in self._recent[:-1] for group in _request_last(turn))
        plain = (each for each in groups if not each.is_call and id(each) not in self._waiting)
        self._remove(plain, "fit_messages")

    def remove_preservable(self) -> None:
        """Removes PRESERVABLE groups, except the last calls."""
        last = set(map(id, self._last_calls))
        groups = (each for each in self._collection.groups if each.policy is GCPolicy.PRESERVABLE)
        self._remove((each for each in groups if id(each) not in last), "fit_preservable")
        self._remove_requests()

    def remove_newest_turn(self) -> None:
        """Removes messages without calls of the newest turn."""
        groups = (group for turn in self._recent[-1:] for group in turn.groups)
        self._remove((group for group in groups if not group.is_call), "fit_newest_turn")

    def remove_last_calls(self) -> None:
        """Removes the last calls, and at the very end a notice."""
        for group in self._last_calls:
            self._remove([group], "fit_last_calls")
            self._remove_requests()
        for group in self._collection.groups:
            is_left = id(group) not in self._fixed and is_notice(group.messages[0])
            if is_left and not fits(self._collection):
                self._collection.force(group, "fit_last_calls")

    def _remove_requests(self) -> None:
        """Removes requests that stayed because of what followed them."""
        for group in self._requests:
            is_preservable = group.policy is GCPolicy.PRESERVABLE
            self._remove([group], "fit_preservable" if is_preservable else "fit_messages")

    def _remove(self, groups: Iterable[Group], reason: str) -> None:
        for group in groups:
            if fits(self._collection):
                return
            self._force(group, reason)

    def _force(self, group: Group, reason: str) -> None:
        if self._may_go(group):
            self._collection.force(group, reason)

    def _may_go(self, group: Group) -> bool:
        if id(group) in self._fixed or is_notice(group.messages[0]):
            return False
        if not _is_user(group):
            return True
        self._first = self._next_left(self._first)
        if self._first != self._places[id(group)]:
            return True
        follower = self._next_left(self._first + 1)
        groups = self._collection.groups
        return follower == len(groups) or _is_user(groups[follower])

    def _next_left(self, place: int) -> int:
        """Returns the place of the next group that is left, without system messages."""
        groups = self._collection.groups
        while place < len(groups) and (
            groups[place].messages[0].role is SYSTEM or self._collection.is_removed(groups[place])
        ):
            place += 1
        return place


def _is_user(group: Group) -> bool:
    message = group.messages[0]
    return message.role is USER and not message.is_tool_output


def _request_last(turn: Turn) -> list[Group]:
    return sorted(turn.groups, key=lambda group: group.opens_turn)


def _without(groups: Iterable[Group], others: Iterable[Group]) -> list[Group]:
    left_out = set(map(id, others))
    return [group for group in groups if id(group) not in left_out]


# --- the last calls: their results and arguments, shortened ---


class _Text(NamedTuple):
    """A result or the arguments of a call, with its size."""

    group: Group
    message: Message
    part: int
    what: str
    tokens: int
    is_answered: bool


def _shorten(collection: Collection, calls: Iterable[Group], wanted: int) -> None:
    """Shortens results and arguments of calls until this many tokens are free, the largest first.

    Those that the model has not answered yet come last. If they have to be shortened in any case,
    they are, and the others lose no more than they do.
    """
    enough = collection.tokens_freed + wanted
    texts = sorted(
        _texts_of(calls, collection), key=lambda each: (not each.is_answered, -each.tokens)
    )
    answered = [each for each in texts if each.is_answered]
    if sum(max(0, each.tokens - SMALLEST_RESULT) for each in answered) >= wanted:
        texts = answered
    _shorten_to_half(collection, texts, lambda: collection.tokens_freed >= enough)


def _shorten_to_half(
    collection: Collection, texts: Sequence[_Text], is_enough: Callable[[], bool]
) -> None:
    """Shortens texts to half of the longest, and again, until it is enough."""
    most = max((each.tokens for each in texts), default=0)
    while most > SMALLEST_RESULT and not is_enough():
        most = max(most // 2, SMALLEST_RESULT)
        characters = most * CHARACTERS_PER_TOKEN
        head = int(characters * HEAD_SHARE)
        for each in texts:
            if is_enough():
                return
            if each.tokens > most:
                how = Shortening(NOTE, head, characters - head, what=each.what)  # type: ignore[arg-type]
                collection.force_shorter(each.group, each.message, each.part, how, "fit_long")


def _texts_of(calls: Iterable[Group], collection: Collection) -> Iterator[_Text]:
    counter = collection.counter
    answers = [at for at, each in enumerate(collection.history) if each.role is MODEL]
    last_answer = answers[-1] if answers else -1
    for group in calls:
        is_answered = collection.position_of(group) < last_answer
        for message in group.messages:
            for index, part in enumerate(message.parts):
                for what, text in _texts_in(part):
                    tokens = counter.count_text(text)
                    yield _Text(group, message, index, what, tokens, is_answered)


def _texts_in(part: Part) -> Iterator[tuple[str, str]]:
    if part.function_response:
        yield "results", as_text(part.function_response.result)
    if part.function_call and not part.is_signed:
        yield "arguments", as_text(part.function_call.args)
