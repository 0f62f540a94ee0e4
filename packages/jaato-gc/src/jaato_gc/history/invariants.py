"""The rules that a history has to satisfy before it can be sent, and a quick check of them.

The full rules read the whole history. `FastCheck` looks at every message once, as it is appended,
and is enough for ordinary agent histories.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from jaato_gc.history.pairing import Pairing, pair_calls
from jaato_gc.messages import MODEL, SYSTEM, TOOL, USER, Message


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a history breaks.

    Args:
        invariant: Name of the rule.
        message_id: The message at fault; ``None`` if the history as a whole is.
        detail: The fault in words.
    """

    invariant: str
    message_id: str | None
    detail: str

    def __str__(self) -> str:
        where = f" at message {self.message_id!r}" if self.message_id else ""
        return f"{self.invariant}{where}: {self.detail}"


def unique_ids(messages: Sequence[Message], _pairing: Pairing) -> Iterator[Violation]:
    """No two messages have the same id."""
    if len({message.message_id for message in messages}) == len(messages):
        return  # the usual case, without a loop
    seen: set[str] = set()
    for message in messages:
        if message.message_id in seen:
            yield Violation("unique_ids", message.message_id, "another message has this id")
        seen.add(message.message_id)


def something_to_send(messages: Sequence[Message], _pairing: Pairing) -> Iterator[Violation]:
    """There is a user message."""
    if not any(message.role is USER and not message.is_tool_output for message in messages):
        detail = "there is nothing to send: append a user message"
        yield Violation("something_to_send", None, detail)


def user_first(messages: Sequence[Message], _pairing: Pairing) -> Iterator[Violation]:
    """The first message that is not a system message is a user message."""
    if not opens_with_user(messages):
        detail = "the first message that is not a system message must be a user message"
        yield Violation("user_first", None, detail)


def no_empty_message(messages: Sequence[Message], _pairing: Pairing) -> Iterator[Violation]:
    """Every message has content."""
    for message in messages:
        if message.is_empty:
            yield Violation("no_empty_message", message.message_id, "it has no content")


def tool_messages_have_results(
    messages: Sequence[Message], pairing: Pairing
) -> Iterator[Violation]:
    """Every tool message has a tool result."""
    for position in pairing.expected_callers:
        message = messages[position]
        # An empty one breaks another rule.
        if position not in pairing.callers and not message.is_empty:
            detail = "it is a tool message without a tool result"
            yield Violation("tool_messages_have_results", message.message_id, detail)


def calls_by_model(messages: Sequence[Message], pairing: Pairing) -> Iterator[Violation]:
    """Only model messages have tool calls."""
    for position in pairing.calls:
        message = messages[position]
        if message.role is not MODEL:
            detail = f"it is a {message.role!s} message and has a tool call"
            yield Violation("calls_by_model", message.message_id, detail)


def unique_call_ids(messages: Sequence[Message], pairing: Pairing) -> Iterator[Violation]:
    """No two tool calls of a message have the same id."""
    for position, calls in pairing.calls.items():
        if len(calls) == 1:
            continue
        ids = [call.id for call in calls if call.id]
        if len(set(ids)) < len(ids):
            detail = "two of its tool calls have the same id"
            yield Violation("unique_call_ids", messages[position].message_id, detail)


def results_in_place(messages: Sequence[Message], pairing: Pairing) -> Iterator[Violation]:
    """Tool results are in tool or user messages, or in the model message of their call."""
    for position, callers in pairing.callers.items():
        message = messages[position]
        if message.role is SYSTEM:
            detail = "it is a system message and has a tool result"
        elif message.role is MODEL and any(caller not in (position, None) for caller in callers):
            detail = "it is a model message and has the result of a call in another message"
        else:
            continue
        yield Violation("results_in_place", message.message_id, detail)


def results_have_calls(messages: Sequence[Message], pairing: Pairing) -> Iterator[Violation]:
    """Every tool result answers an earlier call."""
    for position, callers in pairing.callers.items():
        if None in callers:
            detail = "it has a tool result that answers no earlier call"
            yield Violation("results_have_calls", messages[position].message_id, detail)


def results_follow_calls(messages: Sequence[Message], pairing: Pairing) -> Iterator[Violation]:
    """Every tool result directly follows its call."""
    for position, callers in pairing.callers.items():
        right = (pairing.expected_callers[position], position, None)  # None breaks another rule
        if [caller for caller in callers if caller not in right]:
            detail = "its tool result does not directly follow its call"
            yield Violation("results_follow_calls", messages[position].message_id, detail)


def calls_have_results(messages: Sequence[Message], pairing: Pairing) -> Iterator[Violation]:
    """Every tool call has a result, except the calls at the end."""
    for position, calls in pairing.unanswered.items():
        if position < pairing.last_exchange:
            names = ", ".join(sorted(call.name for call in calls))
            detail = f"no result answers its call of {names}"
            yield Violation("calls_have_results", messages[position].message_id, detail)


Rule = Callable[[Sequence[Message], Pairing], Iterator[Violation]]

HISTORY_INVARIANTS: tuple[Rule, ...] = (
    something_to_send,
    unique_ids,
    user_first,
    no_empty_message,
    tool_messages_have_results,
    calls_by_model,
    unique_call_ids,
    results_in_place,
    results_have_calls,
    results_follow_calls,
    calls_have_results,
)
"""The rules. A rule that is added here applies to every request and to every collection."""


def check_history(messages: Sequence[Message]) -> list[Violation]:
    """Returns everything that a provider would refuse about a history. Empty: it can be sent.

    Any host can use it, before any request.
    """
    return broken_rules(messages, HISTORY_INVARIANTS)


def broken_rules(messages: Sequence[Message], rules: Iterable[Rule]) -> list[Violation]:
    """Returns the violations of some rules."""
    pairing = pair_calls(messages)
    return [violation for rule in rules for violation in rule(messages, pairing)]


def new_violations(before: Sequence[Message], after: Sequence[Message]) -> list[Violation]:
    """Returns the violations of a history that an earlier one did not have."""
    found = check_history(after)
    if found:
        inherited = set(check_history(before))
        found = [violation for violation in found if violation not in inherited]
    return found


def opens_with_user(messages: Iterable[Message]) -> bool:
    """Returns whether the first message after the system messages is a user message, if any."""
    for message in messages:
        if message.role is not SYSTEM:
            return message.role is USER and not message.is_tool_output
    return True


# --- the quick check ---


PROVED = frozenset(
    {
        something_to_send,
        unique_ids,  # by the session: a taken id is replaced when a message is appended
        user_first,
        no_empty_message,
        tool_messages_have_results,
        calls_by_model,
        unique_call_ids,
        results_in_place,
        results_have_calls,
        results_follow_calls,
        calls_have_results,
    }
)
"""The rules that hold for every history that passes this check. All other rules run in full."""

_OF_THE_BEGINNING = frozenset({something_to_send, user_first})
"""The rules that the last messages of a history can't be checked against."""


class FastCheck:
    """Looks at messages one by one and says whether they are certainly valid.

    They are if they are ordinary: texts, and calls with ids that the very next messages answer.
    Everything else needs the full rules.

    Args:
        messages: The first messages to look at.
        is_beginning: Whether at most system messages precede them: then the user has to speak
            first.
    """

    __slots__ = ("_is_ordinary", "_needs_user", "_waiting")

    def __init__(self, messages: Iterable[Message] = (), *, is_beginning: bool = False) -> None:
        self._is_ordinary = True
        self._waiting: set[str | None] = set()  # ids of the calls that the next message answers
        self._needs_user = is_beginning
        for message in messages:
            self._see(message)

    @property
    def is_valid(self) -> bool:
        """Whether the messages are certainly valid. False means that the full rules must decide."""
        return self._is_ordinary and not self._waiting and not self._needs_user

    def after(self, message: Message) -> "FastCheck":
        """Returns the check after another message. This one stays as it is."""
        later = FastCheck()
        later._is_ordinary, later._needs_user = self._is_ordinary, self._needs_user
        later._waiting = set(self._waiting)
        later._see(message)
        return later

    def _see(self, message: Message) -> None:
        waiting = self._waiting
        is_awaited = bool(waiting)
        has_calls = has_results = says_something = False
        for part in message.parts:
            if (call := part.function_call) is not None:
                if has_results or not call.id or call.id in waiting:
                    self._is_ordinary = False
                has_calls = True
                waiting.add(call.id)
            if (result := part.function_response) is not None:
                if has_calls or result.call_id not in waiting:
                    self._is_ordinary = False
                has_results = True
                waiting.discard(result.call_id)
            elif part.text and not part.text.isspace():
                says_something = True
        role = message.role
        if not has_results and (is_awaited or role is TOOL):
            self._is_ordinary = False  # results are missing
        if (has_calls and role is not MODEL) or (has_results and role not in (TOOL, USER)):
            self._is_ordinary = False
        if not (has_calls or has_results or says_something):
            self._is_ordinary = False
        if self._needs_user and role is not SYSTEM:
            self._needs_user = False
            if role is not USER:
                self._is_ordinary = False


def proved_violations(messages: Sequence[Message], *, is_beginning: bool) -> list[Violation]:
    """Returns the violations of the proved rules in the last messages of a history.

    Args:
        messages: The last messages, from the beginning of an exchange on.
        is_beginning: Whether they are the whole history.
    """
    proved = PROVED if is_beginning else PROVED - _OF_THE_BEGINNING
    rules = [rule for rule in HISTORY_INVARIANTS if rule in proved]
    return broken_rules(messages, rules)


def unproved_violations(messages: Sequence[Message]) -> list[Violation]:
    """Returns the violations of all other rules, which need the whole history."""
    rules = [rule for rule in HISTORY_INVARIANTS if rule not in PROVED]
    return broken_rules(messages, rules) if rules else []
