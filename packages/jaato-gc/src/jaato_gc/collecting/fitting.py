"""Fitting: what core removes itself if a request would not fit the window otherwise."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from jaato_gc.collecting.collection import Collection
from jaato_gc.collecting.floor import fixed_groups, is_user
from jaato_gc.collecting.shortening import Shortening
from jaato_gc.history import Group, Turn
from jaato_gc.messages import MODEL, Message, Part, is_notice
from jaato_gc.policies import GCPolicy
from jaato_gc.tokens import as_text, count_tokens

CORE = "core"
"""The plugin name in the result of a collection that core makes alone."""

CHARACTERS_PER_TOKEN = 4
SMALLEST_RESULT = 250
"""Tokens that stay of a result or an argument that is shortened to make a request fit."""
HEAD_SHARE = 0.6
LAST_CALLS_SHARE = 0.5
"""The share of the window, less what is fixed, that the last calls may take."""
NOTE = "to fit the window; read it in parts"


def fits(collection: Collection) -> bool:
    """Returns whether the request fits with the changes so far."""
    wanted = collection.goal.tokens_to_fit
    return not wanted or collection.tokens_freed >= wanted


def shorten_oversized(collection: Collection, window: int | None) -> None:
    """Shortens results of the last calls that take more than their share of the window.

    Doing it before the strategy is asked spares the rest of the history: otherwise everything else
    would go first, for nothing.

    Args:
        collection: The collection, which is closed.
        window: The size of the largest request; ``None`` if it is unknown.
    """
    if window is None or not collection.goal.tokens_to_free:
        return
    counter = collection.counter
    fixed = fixed_groups(collection)
    last = _without(collection.last_calls, fixed)
    own = count_tokens((message for group in last for message in group.messages), counter)
    kept = count_tokens((message for group in fixed for message in group.messages), counter)
    total = collection.budget.total_tokens() if collection.budget else 0
    elsewhere = max(0, total - count_tokens(collection.history, counter))
    room = int(max(0, window - kept - elsewhere) * LAST_CALLS_SHARE)
    if own > room:
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
        if not is_user(group):
            return True
        self._first = self._next_left(self._first)
        if self._first != self._places[id(group)]:
            return True
        follower = self._next_left(self._first + 1)
        groups = self._collection.groups
        return follower == len(groups) or is_user(groups[follower])

    def _next_left(self, place: int) -> int:
        """Returns the place of the next group that is left, without system messages."""
        groups = self._collection.groups
        while place < len(groups) and (
            groups[place].is_system or self._collection.is_removed(groups[place])
        ):
            place += 1
        return place


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
