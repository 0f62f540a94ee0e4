"""What the formats of all provider APIs have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from jaato_gc import Message, Role, UsageReport
from jaato_gc_formats._errors import FormatError, misshapen
from jaato_gc_formats._history import Conversation, History, Problem
from jaato_gc_formats._records import Record
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Fields, Origin, plain, plain_dict, shown, untouched_items


class ApiFormat(ABC):
    """A provider's API: reads what it sends, writes what it takes, knows what it refuses.

    A request is either the list of its messages or an object that has that list under
    ``items_key``, with other fields beside it that are carried along untouched.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    items_key: ClassVar[str]
    """Where a request has its messages."""
    system_keys: ClassVar[tuple[str, ...]] = ()
    """Where a request has its system prompt, if that is not one of the messages."""
    call_key: ClassVar[str | None] = None
    """The argument under which the SDK's call takes what stands beside the messages, if one."""
    usage_key: ClassVar[str] = "usage"
    """Where an answer reports what the request cost."""
    input_usage: ClassVar[tuple[str, ...]] = ()
    """The figures there that add up to the tokens of the request."""
    output_usage: ClassVar[str] = ""
    """The figure there that is the tokens of the answer."""

    # --- what each API defines ---

    @abstractmethod
    def recognize(self, records: Sequence[Any]) -> float:
        """How sure it is, from 0 to 1, that these are requests or messages of this API."""

    @abstractmethod
    def read_item(self, item: Fields) -> Message:
        """One message from one item. ``origin`` and names of answered tools are filled in later."""

    @abstractmethod
    def write_item(self, message: Message) -> list[Fields]:
        """A message as this API takes it."""

    def read_system(self, value: Any) -> Message:
        """The system prompt that stands beside the messages."""
        raise NotImplementedError

    def write_system(self, messages: list[Message], key: str) -> Any:
        """The system prompt as it stands beside the messages."""
        raise NotImplementedError

    @abstractmethod
    def answer_items(self, answer: Any) -> list[Any]:
        """What of an answer goes into the history: the items of an SDK's response object.

        Raises:
            FormatError: It is no answer, but an error, say. `no_answer` makes one.
        """

    def user_item(self, text: str) -> Fields:
        """A user's message of one text."""
        items = self.write_item(Message.from_text(Role.USER, text))
        if not items:
            raise FormatError(f"{self.name} takes no message without a text: say something")
        return items[0]

    @abstractmethod
    def check(self, request: Fields, before: Fields | None = None) -> Iterator[Refusal]:
        """What the API would refuse about a request.

        Args:
            request: The request.
            before: The request that it was made from, by a collection say. What a provider binds
                to something that is gone can't be seen in what is left.
        """

    # --- what follows from that ---

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
        """The conversations of a file: one per request, or one of all its messages."""
        bare: list[Any] = []
        for record in records:
            value = record.value
            if isinstance(value, dict) and self.items_key in value:
                history = self.to_history(value)
                yield Conversation("", self.name, history, self.problems(history))
            else:
                bare.append(value)
        if bare:
            history = self.to_history(bare)
            yield Conversation("", self.name, history, self.problems(history))

    def to_history(self, data: Any) -> History:
        """The messages of a request or of a list of messages."""
        if isinstance(data, list | tuple):
            self._refuse_requests(data)
            return History(self.read(data), self.name)
        if isinstance(data, str):
            data = {self.items_key: data}
        request = plain_dict(data, "the request")
        if self.items_key not in request:
            raise FormatError(f"the request has no {self.items_key!r}, as {self.name} wants it")
        items = request[self.items_key]
        if isinstance(items, str):
            items = [self.user_item(items)]
        with misshapen("the system prompt"):
            messages = [
                self._with_origin(self.read_system(plain(request[key])), request[key])
                for key in self.system_keys
                if request.get(key)
            ]
        if not isinstance(items, list | tuple):
            raise FormatError(f"{self.items_key!r} has to be a list, not {type(items).__name__}")
        messages += self.read(items)
        return History(messages, self.name, request)

    def _refuse_requests(self, items: Sequence[Any]) -> None:
        for item in items:
            if isinstance(item, Mapping) and self.items_key in item and not _is_item(item):
                raise FormatError(
                    "this is a list of whole requests, not of messages: give one at a time, or "
                    "load a file of them"
                )

    def read(self, items: Iterable[Any], names: dict[str, str] | None = None) -> Iterator[Message]:
        """Messages from items, as they come.

        Args:
            items: The provider's objects: plain data, or what its SDK makes of them.
            names: Names of tools by id of the call, of what was read before.
        """
        names = {} if names is None else names
        for position, item in enumerate(items):
            fields = plain_dict(item, f"message {position}")
            with misshapen(f"message {position}"):
                message = named(self._with_origin(self.read_item(fields), item), names)
            yield message

    def _with_origin(self, message: Message, *items: Any) -> Message:
        message.origin = Origin(self.name, items, tuple(message.parts))
        return message

    def write(self, messages: Iterable[Message]) -> list[Any]:
        """Items of some messages: those that were read and not changed since, as they were."""
        items: list[Any] = []
        for message in messages:
            untouched = untouched_items(message, self.name)
            items.extend(self.write_item(message) if untouched is None else untouched)
        return items

    def from_messages(self, messages: Sequence[Message], request: Fields | None) -> Any:
        """A list of items; or the request with the messages exchanged, where there is one."""
        if not self.system_keys:
            items: Any = self.write(messages)
            return items if request is None else {**request, self.items_key: items}
        beside = [message for message in messages if self.stands_beside(message)]
        rest = self.write(message for message in messages if not self.stands_beside(message))
        if request is None:
            if beside:
                raise FormatError(
                    f"{self.name} takes the system prompt beside the messages, not among them: "
                    "give like={} to get a whole request"
                )
            return rest
        return self._with_system({**request, self.items_key: rest}, beside)

    def stands_beside(self, message: Message) -> bool:
        """Whether a message goes where the system prompt is, rather than among the messages."""
        return message.role is Role.SYSTEM

    def _with_system(self, request: Fields, beside: list[Message]) -> Fields:
        key = next((key for key in self.system_keys if key in request), self.system_keys[0])
        if not beside:
            if request.get(key):
                del request[key]
        elif len(beside) == 1 and (untouched := untouched_items(beside[0], self.name)):
            request[key] = untouched[0]
        else:
            request[key] = self.write_system(beside, key)
        return request

    def usage(self, answer: Any) -> UsageReport | None:
        """What the provider reported with an answer, if it did."""
        data = plain(answer)
        reported = data.get(self.usage_key) if isinstance(data, dict) else None
        if not isinstance(reported, dict):
            return None
        sent = sum(reported.get(name) or 0 for name in self.input_usage)
        return UsageReport(sent, reported.get(self.output_usage) or 0)

    def no_answer(self, data: Any) -> FormatError:
        """What to say of an answer that is none. Some servers report errors in its place."""
        error = data.get("error") if isinstance(data, dict) else None
        if error:
            return FormatError(f"the provider answered with an error: {shown(error)}")
        return FormatError(f"this is no answer of {self.name}: {shown(data)}")

    def problems(self, history: History) -> list[Problem]:
        """What the API would refuse about a history as it is."""
        request = self.as_request(self.from_messages(history, history.request))
        with misshapen("the request"):
            return [Problem(str(refusal)) for refusal in self.check(request)]

    def as_request(self, data: Any) -> Fields:
        """A request around a bare list of messages; plain data of whatever stands in it."""
        request = dict(data) if isinstance(data, Mapping) else {self.items_key: data}
        items = request.get(self.items_key)
        if isinstance(items, list | tuple):
            self._refuse_requests(items)
            request[self.items_key] = [plain(item) for item in items]
        return request


def _is_item(fields: Mapping[str, Any]) -> bool:
    return "role" in fields or "type" in fields


def named(message: Message, names: dict[str, str]) -> Message:
    """Fill in which tool each result is of: providers say it only where it was called."""
    for part in message.parts:
        if call := part.function_call:
            _expect_texts(call.id, call.name)
            if call.id:
                names[call.id] = call.name
        elif answer := part.function_response:
            _expect_texts(answer.call_id, answer.name)
            answer.name = answer.name or names.get(answer.call_id or "", "")
    return message


def _expect_texts(*names: Any) -> None:
    for name in names:
        if not isinstance(name, str | None):
            raise FormatError(f"a call is named {shown(name)}, where a text was expected")
