"""A quick check of messages as they are appended: enough for ordinary agent histories."""

from collections.abc import Iterable, Sequence

from jaato_gc.history import invariants
from jaato_gc.messages import MODEL, SYSTEM, TOOL, USER, Message

PROVED = frozenset(
    {
        invariants.something_to_send,
        invariants.unique_ids,  # by the session: a taken id is replaced when a message is appended
        invariants.user_first,
        invariants.no_empty_message,
        invariants.tool_messages_have_results,
        invariants.calls_by_model,
        invariants.unique_call_ids,
        invariants.results_in_place,
        invariants.results_have_calls,
        invariants.results_follow_calls,
        invariants.calls_have_results,
    }
)
"""The rules that hold for every history that passes this check. All other rules run in full."""

_OF_THE_BEGINNING = frozenset({invariants.something_to_send, invariants.user_first})
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


def proved_violations(
    messages: Sequence[Message], *, is_beginning: bool
) -> list[invariants.Violation]:
    """Returns the violations of the proved rules in the last messages of a history.

    Args:
        messages: The last messages, from the beginning of an exchange on.
        is_beginning: Whether they are the whole history.
    """
    proved = PROVED if is_beginning else PROVED - _OF_THE_BEGINNING
    rules = [rule for rule in invariants.HISTORY_INVARIANTS if rule in proved]
    return invariants.broken_rules(messages, rules)


def unproved_violations(messages: Sequence[Message]) -> list[invariants.Violation]:
    """Returns the violations of all other rules, which need the whole history."""
    rules = [rule for rule in invariants.HISTORY_INVARIANTS if rule not in PROVED]
    return invariants.broken_rules(messages, rules) if rules else []
