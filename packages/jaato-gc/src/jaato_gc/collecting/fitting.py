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
from jaato_gc.history import Group, Hold
from jaato_gc.messages import MODEL, Message, Part, is_notice
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
    """A message that stays in any case."""

    message: Message
    tokens: int
    why: str

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
        movable = counted - sum(each.tokens for each in fixed)
        return cls(fixed, elsewhere, movable >= collection.goal.tokens_to_fit)

    @property
    def by_source(self) -> dict[str, int]:
        """The tokens by source; the fixed messages are ``conversation``."""
        return {"conversation": sum(each.tokens for each in self.messages), **self.elsewhere}

    def __str__(self) -> str:
        named = [str(each) for each in self.messages[:LARGEST_NAMED]]
        if rest := self.messages[LARGEST_NAMED:]:
            named.append(f"{len(rest)} more ({sum(each.tokens for each in rest):,})")
        named += [f"{source} ({tokens:,})" for source, tokens in self.elsewhere.items()]
        total = sum(self.by_source.values())
        return f"Fixed are {total:,}: {', '.join(named) or 'nothing'}. {self._remedy()}"

    def _remedy(self) -> str:
        if not self.messages or max(self.elsewhere.values(), default=0) > self.messages[0].tokens:
            return "Use a larger window, or shorten the system prompt and the tools"
        largest = self.messages[0]
        message_id = largest.message.message_id
        if largest.why == Hold.PINNED:
            return f"Call session.unpin({message_id!r})"
        force = ", force=True" if largest.why == Hold.LOCKED else ""
        return f"Call session.replace({message_id!r}, a shorter message{force})"


def fixed_messages(collection: Collection) -> list[FixedMessage]:
    """Returns the messages that no collection may remove, largest first."""
    counter = collection.counter
    fixed = [
        FixedMessage(message, message_tokens(message, counter), group.hold.value)
        for group in collection.groups
        if group.hold and group.hold.is_fixed
        for message in group.messages
    ]
    return sorted(fixed, key=lambda each: -each.tokens)


def fits(collection: Collection) -> bool:
    """Returns whether the request fits with the changes so far."""
    return collection.tokens_freed >= collection.goal.tokens_to_fit


def shorten_oversized(collection: Collection) -> None:
    """Shortens results of the last calls that would not fit even if everything else were removed.

    They have to be shortened in any case. Doing it before the strategy is asked spares the rest of
    the history: otherwise everything else would go first, for nothing.
    """
    goal, counter = collection.goal, collection.counter
    if not goal.tokens_to_fit or goal.target_tokens is None:
        return
    total = collection.budget.total_tokens() if collection.budget else 0
    everything = count_tokens(collection.history, counter)
    last = [group for group in collection.groups if _is_last_call(group)]
    own = count_tokens((message for group in last for message in group.messages), counter)
    fixed = sum(each.tokens for each in fixed_messages(collection))
    elsewhere = max(0, total - everything)
    if everything + elsewhere - (fixed + own + elsewhere) >= goal.tokens_to_fit:
        return
    room = int(max(0, goal.target_tokens - fixed - elsewhere) * OVERSIZED_SHARE)
    _shorten_last_calls(collection, lambda: own - collection.tokens_freed <= room)
    collection.details["relaxed"] = ["long_results"]


def fit(collection: Collection, *, all_steps: bool = True) -> None:
    """Adds edits until the request fits, lowest priority first.

    Args:
        collection: The collection, with the changes of the strategy.
        all_steps: False: remove nothing from recent turns.
    """
    steps: list[tuple[str, Callable[[], None]]] = [
        ("old", lambda: _remove(collection, _old(collection), "fit_old")),
        ("long_results", lambda: _shorten_last_calls(collection, lambda: fits(collection))),
        ("calls", lambda: _remove(collection, _recent(collection, calls=True), "fit_calls")),
        ("messages", lambda: _remove(collection, _recent(collection, calls=False), "fit_messages")),
        ("preservable", lambda: _remove(collection, _preservable(collection), "fit_preservable")),
        ("newest_turn", lambda: _remove(collection, _newest(collection), "fit_newest_turn")),
        ("last_calls", lambda: _remove(collection, _last_calls(collection), "fit_last_calls")),
    ]
    relaxed: list[str] = collection.details.setdefault("relaxed", [])
    for name, step in steps if all_steps else steps[:1]:
        if fits(collection):
            break
        before = collection.tokens_freed
        step()
        if collection.tokens_freed > before:
            relaxed.append(name)


# --- the steps ---


def _remove(collection: Collection, groups: Iterable[Group], reason: str) -> None:
    for group in groups:
        if fits(collection):
            return
        collection.force(group, reason)


def _may_go(group: Group) -> bool:
    return not (group.hold and group.hold.is_fixed) and not is_notice(group.messages[0])


def _is_last_call(group: Group) -> bool:
    return group.is_call and group.hold is Hold.RECENT


def _old(collection: Collection) -> Iterator[Group]:
    """Yields what is outside of recent turns, except the last calls and PRESERVABLE groups."""
    for turn in collection.turns:
        if not collection.is_recent(turn):
            for group in turn.groups:
                if _may_go(group) and not _waits(group):
                    yield group


def _waits(group: Group) -> bool:
    return _is_last_call(group) or group.policy is GCPolicy.PRESERVABLE


def _recent(collection: Collection, *, calls: bool) -> Iterator[Group]:
    """Yields older calls of recent turns, or messages of recent turns but the newest."""
    turns = [turn for turn in collection.turns if collection.is_recent(turn)]
    for turn in turns if calls else turns[:-1]:
        # The request goes last: what is left of its turn must not begin the history.
        for group in sorted(turn.groups, key=lambda each: each.opens_turn):
            if group.is_call is calls and _may_go(group) and not _waits(group):
                yield group


def _preservable(collection: Collection) -> Iterator[Group]:
    for group in collection.groups:
        if group.policy is GCPolicy.PRESERVABLE and _may_go(group) and not _is_last_call(group):
            yield group


def _newest(collection: Collection) -> Iterator[Group]:
    for turn in collection.turns[-1:]:
        yield from (group for group in turn.groups if not group.is_call and _may_go(group))


def _last_calls(collection: Collection) -> Iterator[Group]:
    yield from filter(_is_last_call, collection.groups)


# --- the last calls: their results and arguments, shortened ---


class _Text(NamedTuple):
    """A result or the arguments of a call, with its size."""

    group: Group
    message: Message
    part: int
    what: str
    tokens: int
    is_answered: bool


def _shorten_last_calls(collection: Collection, is_enough: Callable[[], bool]) -> None:
    """Shortens results and arguments of the last calls, the largest first.

    One that the model has not answered yet comes last.
    """
    texts = sorted(
        _texts_of_last_calls(collection), key=lambda each: (not each.is_answered, -each.tokens)
    )
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


def _texts_of_last_calls(collection: Collection) -> Iterator[_Text]:
    counter = collection.counter
    answers = [at for at, each in enumerate(collection.history) if each.role is MODEL]
    last_answer = answers[-1] if answers else -1
    for group in filter(_is_last_call, collection.groups):
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
