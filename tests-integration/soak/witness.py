"""A witness: what was said to a session, what must be in its requests, and whether it is."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from session_messages import LOCKED_TOOL

from jaato_gc import GCPolicy, GCSession, Message, Role, message_from_dict, message_to_dict
from soak.request_rules import faults_of, form_of, frame_of, words_in


class Expectation(NamedTuple):
    """What a request must contain at one moment."""

    fixed: Mapping[str, str]
    """The forms of LOCKED and pinned messages, by id."""
    newest_request: int
    """The place of the newest user message."""


@dataclass
class Witness:
    """Knows every message of a session, in the order in which they were appended.

    A host that changes protection holds ``host`` from before its call until the witness knows. So
    an expectation that is the same before and after a request held all the time.
    """

    appending: threading.RLock = field(default_factory=threading.RLock)
    host: threading.RLock = field(default_factory=threading.RLock)
    messages: list[Message] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    whole: dict[str, set[str]] = field(default_factory=dict)
    """The forms that each message had before it was shortened: its own, and those of the host."""
    frames: dict[str, set[str]] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)
    pins: set[str] = field(default_factory=set)
    newest_request: int = -1
    requests: int = 0
    lengths: int = 0
    """The sum of the lengths of all requests."""
    interrupts: int = 0
    findings: list[str] = field(default_factory=list)

    def hear(self, message: Message) -> None:
        """Notes a message that was appended."""
        place = len(self.messages)
        is_request = message.role is Role.USER and not message.function_responses
        tools = {call.name for call in message.function_calls}
        tools |= {result.name for result in message.function_responses}
        is_locked = message.policy is GCPolicy.LOCKED or message.role is Role.SYSTEM
        if message.policy is None:
            is_locked |= LOCKED_TOOL in tools or (is_request and self.newest_request < 0)
        self.messages.append(message)
        self.places[message.message_id] = place
        self.allow(message)
        with self.host:
            if is_locked:
                self.fixed[message.message_id] = form_of(message)
            if is_request:
                self.newest_request = place

    def allow(self, message: Message) -> None:
        """Notes a form that the host gave to a message."""
        self.whole.setdefault(message.message_id, set()).add(form_of(message))
        self.frames.setdefault(message.message_id, set()).add(frame_of(message))

    def pin(self, message: Message) -> None:
        """Notes that a message was pinned."""
        self.pins.add(message.message_id)
        self.fixed.setdefault(message.message_id, form_of(message))

    def release(self, message_id: str) -> None:
        """Notes that a message may be changed from now on."""
        self.pins.discard(message_id)
        self.fixed.pop(message_id, None)

    def look_again(self, history: Iterable[Message]) -> None:
        """Notes the pinned messages after the host changed the history itself, by an undo, say."""
        forms = {message.message_id: form_of(message) for message in history}
        for message_id in list(self.pins):
            if message_id in forms:
                self.fixed[message_id] = forms[message_id]
            else:
                self.release(message_id)

    def expectation(self) -> Expectation:
        """Returns what a request must contain now."""
        with self.host:
            return Expectation(dict(self.fixed), self.newest_request)

    def state(self) -> dict[str, Any]:
        """Returns what the witness knows, as JSON-like data."""
        return {
            "messages": list(map(message_to_dict, self.messages)),
            "whole": {message_id: sorted(forms) for message_id, forms in self.whole.items()},
            "frames": {message_id: sorted(forms) for message_id, forms in self.frames.items()},
            "fixed": self.fixed,
            "pins": sorted(self.pins),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Witness":
        """Returns a witness that knows what another one knew."""
        witness = cls()
        for each in state["messages"]:
            witness.hear(message_from_dict(each))
        witness.whole = {message_id: set(forms) for message_id, forms in state["whole"].items()}
        witness.frames = {message_id: set(forms) for message_id, forms in state["frames"].items()}
        witness.fixed, witness.pins = state["fixed"], set(state["pins"])
        return witness

    def find(self, *findings: str) -> None:
        """Notes that a promise was broken."""
        self.findings += findings

    def check(self, request: Sequence[Message], before: Expectation, limit: int | None) -> None:
        """Checks a request.

        Args:
            request: The request.
            before: What was expected before it was asked for.
            limit: The largest size that fits; ``None`` if the host sends larger ones too.
        """
        now = self.expectation()
        expected = dict(before.fixed.items() & now.fixed.items())
        with self.appending:  # until the witness has heard what is in the history
            faults = [*faults_of(request), *self.faults_of_content(request)]
        if limit is not None and (size := words_in(request)) > limit:
            faults.append(f"it has {size} tokens, and {limit} fit")
        forms = {message.message_id: form_of(message) for message in request}
        for message_id, form in expected.items():
            if forms.get(message_id) != form:
                faults.append(f"{message_id} is LOCKED or pinned: {form}, {forms.get(message_id)}")
        if not any(
            self.places.get(message.message_id, -1) >= before.newest_request
            and message.role is Role.USER
            and not message.function_responses
            for message in request
        ):
            faults.append("the newest user message is missing")
        self.requests += 1
        self.lengths += len(request)
        self.find(*(f"request: {fault}" for fault in faults))

    def faults_of_content(self, history: Iterable[Message]) -> Iterator[str]:
        """Yields the messages that no one said, or not like this, or not in this order."""
        last = -1
        for message in history:
            message_id = message.message_id
            place = self.places.get(message_id)
            if place is None:
                is_text = all(part.text and part == type(part)(part.text) for part in message.parts)
                if not (message.synthetic and message.role is Role.USER and is_text):
                    yield f"{message_id} is neither known nor a synthetic text"
                continue
            if place <= last:
                yield f"{message_id} is out of order"
            last = place
            if form_of(message) in self.whole[message_id]:
                continue
            if frame_of(message) not in self.frames[message_id]:
                yield f"{message_id} was changed: {form_of(message)}"


class WatchedSession(GCSession):
    """A session whose witness sees every message that is appended, by the host or by a turn."""

    def __init__(self, *args: Any, witness: Witness, **options: Any) -> None:
        super().__init__(*args, **options)
        self.witness = witness

    def append(self, message: Message) -> Message:
        with self.witness.appending:
            booked = super().append(message)
            self.witness.hear(booked)
        return booked
