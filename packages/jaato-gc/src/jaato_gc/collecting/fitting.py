"""Makes a request fit after the strategy is done.

A refused request ends the run, so losing recent content is better than keeping it. Steps go from
least to most harmful, and each stops as soon as the request fits. To add one, add a method to
`_Steps` and name it in `fit`.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jaato_gc.collecting.draft import Draft
from jaato_gc.collecting.protection import fixed_groups, group_tokens
from jaato_gc.collecting.shortening import Shortening, Shortens
from jaato_gc.history import Group, Turn
from jaato_gc.messages import MODEL, Message, Part, is_notice
from jaato_gc.policies import GCPolicy
from jaato_gc.tokens import as_text, text_tokens

CORE = "core"
"""The plugin name in the result of a collection that core makes alone."""

CHARACTERS_PER_TOKEN = 4
SMALLEST_RESULT = 250
"""Tokens that stay of a result or an argument that is shortened to make a request fit."""
HEAD_SHARE = 0.6
LAST_CALLS_SHARE = 0.5
"""The share of the window, less what is fixed, that the last calls may take."""
NOTE = "to fit the window; read it in parts"


def shorten_oversized(draft: Draft) -> None:
    """Shortens results of the last calls that take more than their share of the window.

    Doing it before the strategy is asked spares the rest of the history: otherwise everything else
    would go first, for nothing.
    """
    window = draft.request.limits.request_limit
    if window is None or not draft.request.may_relax or not draft.goal.tokens_to_free:
        return
    counter = draft.counter
    fixed = fixed_groups(draft.groups)
    last = _without(draft.last_calls, fixed)
    own, kept = group_tokens(last, counter), group_tokens(fixed, counter)
    ratio = 1.0
    if budget := draft.budget:
        kept, ratio = budget.corrected(kept + draft.tokens_beside), budget.ratio
    room = int(max(0, window - kept) / ratio * LAST_CALLS_SHARE)
    if own > room:
        _shorten(draft, last, own - room)
    if draft.freed:
        draft.details["relaxed"] = ["long_results"]


def fit(draft: Draft) -> None:
    """Adds edits until the request fits, least harmful first.

    If recent content may not be removed, only the first step is tried.
    """
    if draft.fits:
        return
    steps = _Steps(draft)
    relaxed: list[str] = draft.details.setdefault("relaxed", [])
    by_name = {
        "old": steps.remove_old,
        "long_results": steps.shorten_last_calls,
        "calls": steps.remove_calls,
        "messages": steps.remove_messages,
        "preservable": steps.remove_preservable,
        "newest_turn": steps.remove_newest_turn,
        "last_calls": steps.remove_last_calls,
    }
    for name, step in by_name.items() if draft.request.may_relax else [("old", steps.remove_old)]:
        if draft.fits:
            break
        before = draft.freed
        step()
        if draft.freed > before and name not in relaxed:
            relaxed.append(name)


class _Steps:
    """The steps of `fit`. Each stops as soon as the request fits.

    Within a turn the request goes last, and it stays while the history would begin with something
    else than a user message. Later steps try it again.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._turns = draft.turns
        self._recent = [turn for turn in self._turns if draft.is_recent(turn)]
        fixed = fixed_groups(draft.groups)
        self._last_calls = _without(draft.last_calls, fixed)
        self._requests = [group for group in draft.groups if group.opens_turn]
        self._fixed = set(map(id, fixed))
        self._waiting = {
            *map(id, self._last_calls),
            *(id(group) for group in draft.groups if group.policy is GCPolicy.PRESERVABLE),
        }
        """The last calls and PRESERVABLE groups, which have steps of their own."""
        self._places = {id(group): place for place, group in enumerate(draft.groups)}
        self._first = 0  # the place of the first group that is left, without system messages

    def remove_old(self) -> None:
        """Removes turns that are not recent, as a whole except for what waits."""
        for turn in self._turns[: len(self._turns) - len(self._recent)]:
            if self._draft.fits:
                return
            for group in _request_last(turn):
                if id(group) not in self._waiting:
                    self._force(group, "fit_old")

    def shorten_last_calls(self) -> None:
        """Shortens results and arguments of the last calls."""
        missing = self._draft.goal.worst_overflow - self._draft.freed
        _shorten(self._draft, self._last_calls, missing)

    def remove_calls(self) -> None:
        """Removes older calls of recent turns."""
        groups = (group for turn in self._recent for group in turn.groups if group.is_call)
        self._remove((group for group in groups if id(group) not in self._waiting), "fit_calls")

    def remove_messages(self) -> None:
        """Removes messages without calls of recent turns, except the newest."""
        groups = (group for turn in self._recent[:-1] for group in _request_last(turn))
        plain = (group for group in groups if not group.is_call)
        self._remove((group for group in plain if id(group) not in self._waiting), "fit_messages")

    def remove_preservable(self) -> None:
        """Removes PRESERVABLE groups, except the last calls."""
        last = set(map(id, self._last_calls))
        groups = (group for group in self._draft.groups if group.policy is GCPolicy.PRESERVABLE)
        self._remove((group for group in groups if id(group) not in last), "fit_preservable")
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
        for group in self._draft.groups:
            is_left = id(group) not in self._fixed and is_notice(group.messages[0])
            if is_left and not self._draft.fits:
                self._draft.force(group, "fit_last_calls")

    def _remove_requests(self) -> None:
        """Removes requests that stayed because of what followed them."""
        for group in self._requests:
            is_preservable = group.policy is GCPolicy.PRESERVABLE
            self._remove([group], "fit_preservable" if is_preservable else "fit_messages")

    def _remove(self, groups: Iterable[Group], reason: str) -> None:
        for group in groups:
            if self._draft.fits:
                return
            self._force(group, reason)

    def _force(self, group: Group, reason: str) -> None:
        if self._may_go(group):
            self._draft.force(group, reason)

    def _may_go(self, group: Group) -> bool:
        if id(group) in self._fixed or is_notice(group.messages[0]):
            return False
        if not group.is_user:
            return True
        self._first = self._next_left(self._first)
        if self._first != self._places[id(group)]:
            return True
        follower = self._next_left(self._first + 1)
        groups = self._draft.groups
        return follower == len(groups) or groups[follower].is_user

    def _next_left(self, place: int) -> int:
        """Returns the place of the next group that is left, without system messages."""
        groups = self._draft.groups
        while place < len(groups) and (
            groups[place].is_system or self._draft.is_removed(groups[place])
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
    what: Shortens
    tokens: int
    is_answered: bool


def _shorten(draft: Draft, calls: Iterable[Group], wanted: int) -> None:
    """Shortens results and arguments of calls until this many tokens are free, the largest first.

    Those that the model has not answered yet come last. If they have to be shortened in any case,
    they are, and the others lose no more than they do.
    """
    enough = draft.freed + wanted
    texts = sorted(_texts_of(calls, draft), key=lambda text: (not text.is_answered, -text.tokens))
    answered = [text for text in texts if text.is_answered]
    if sum(max(0, text.tokens - SMALLEST_RESULT) for text in answered) >= wanted:
        texts = answered
    most = max((text.tokens for text in texts), default=0)
    while most > SMALLEST_RESULT and draft.freed < enough:  # to half of the longest, and again
        most = max(most // 2, SMALLEST_RESULT)
        characters = most * CHARACTERS_PER_TOKEN
        head = int(characters * HEAD_SHARE)
        for text in texts:
            if draft.freed < enough and text.tokens > most:
                how = Shortening(NOTE, head, characters - head, what=text.what)
                draft.force_shorter(text.group, text.message, text.part, how, "fit_long")


def _texts_of(calls: Iterable[Group], draft: Draft) -> Iterator[_Text]:
    counter = draft.counter
    answers = [at for at, message in enumerate(draft.history) if message.role is MODEL]
    last_answer = answers[-1] if answers else -1
    for group in calls:
        is_answered = draft.positions[group.messages[0].message_id] < last_answer
        for message in group.messages:
            for index, part in enumerate(message.parts):
                for what, text in _texts_in(part):
                    tokens = text_tokens(text, counter)
                    yield _Text(group, message, index, what, tokens, is_answered)


def _texts_in(part: Part) -> Iterator[tuple[Shortens, str]]:
    if part.function_response:
        yield "results", as_text(part.function_response.result)
    if part.function_call and not part.is_signed:
        yield "arguments", as_text(part.function_call.args)
