"""Looking at messages as they come: what is in plain order needs no closer look."""

from collections.abc import Iterable

from jaato_gc._messages import SYSTEM, TOOL, USER, Message


class Glance:
    """Sees messages one by one, and knows whether they can stand behind what is in order.

    They surely can, if this is what agents do all day: talk, and calls that the very next messages
    answer, by id. Whatever else there is has to be looked at closely.

    Args:
        messages: What to see first.
        is_beginning: Whether nothing stands before them: then the user has to speak first.
    """

    __slots__ = ("_needs_user", "carrying", "is_plain", "waiting")

    def __init__(self, messages: Iterable[Message] = (), *, is_beginning: bool = False) -> None:
        self.is_plain = True
        """Whether all of them are in plain order so far."""
        self.waiting: set[str | None] = set()
        """Ids of the calls that the next messages have to answer."""
        self.carrying = bytearray()
        """For each message a 1 if it carries results, a 0 if not."""
        self._needs_user = is_beginning
        for message in messages:
            self.see(message)

    @property
    def is_in_order(self) -> bool:
        """Whether nothing can be wrong with what was seen, as far as a glance tells."""
        return self.is_plain and not self.waiting

    def see(self, message: Message) -> tuple[bool, bool]:
        """Look at the next message. Returns whether there are calls in it, and results."""
        waiting = self.waiting
        is_awaited = bool(waiting)
        has_calls = has_results = says_something = False
        for part in message.parts:
            if (call := part.function_call) is not None:
                if has_results or not call.id or call.id in waiting:
                    self.is_plain = False
                has_calls = True
                waiting.add(call.id)
            if (result := part.function_response) is not None:
                if has_calls or result.call_id not in waiting:
                    self.is_plain = False
                has_results = True
                waiting.discard(result.call_id)
            elif part.text and not part.text.isspace():
                says_something = True
        self.carrying.append(has_results)
        if not has_results and (is_awaited or message.role is TOOL):
            self.is_plain = False  # there should be results here
        if not (has_calls or has_results or says_something):
            self.is_plain = False
        if self._needs_user and message.role is not SYSTEM:
            self._needs_user = False
            if message.role is not USER:
                self.is_plain = False
        return has_calls, has_results


def opens_with_user(messages: Iterable[Message]) -> bool:
    """Whether the first message that is not the system's, if there is one, is the user's."""
    for message in messages:
        if message.role is not SYSTEM:
            return message.role is USER and not message.is_tool_output
    return True
