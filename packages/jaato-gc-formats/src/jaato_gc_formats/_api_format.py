"""The base class of the API formats."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from jaato_gc import Message, Role, UsageReport
from jaato_gc_formats._bound_thoughts import View
from jaato_gc_formats._errors import FormatError, reading
from jaato_gc_formats._exchanges import split_exchanges
from jaato_gc_formats._history import Conversation, History, Problem
from jaato_gc_formats._records import Record
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import (
    Fields,
    Origin,
    field_of,
    original_items,
    plain,
    plain_dict,
    preview,
)


class ApiFormat(ABC):
    """The format of a provider's API: reads, writes and checks its messages and requests.

    A request is either a list of messages or an object with that list under ``items_key``. The
    other fields of such an object are kept unchanged.

    A subclass implements the abstract methods and sets the class variables. ``name``, ``summary``
    and ``items_key`` are required. Without ``output_keys``, no room is kept for the response;
    without ``input_usage`` and ``output_usage``, the usage that a response reports is not used.
    """

    name: ClassVar[str]
    """Name of the format, such as ``openai-chat``."""
    summary: ClassVar[str]
    """Description of the format in one line, for lists."""
    items_key: ClassVar[str]
    """Field of a request that contains the messages."""
    system_keys: ClassVar[tuple[str, ...]] = ()
    """Fields of a request that may contain the system prompt. Empty if the prompt is a message."""
    call_key: ClassVar[str | None] = None
    """Argument of the SDK's call that contains the fields other than the messages, if there is one.

    ``None`` if these fields are arguments themselves.
    """
    stored_keys: ClassVar[tuple[str, ...]] = ()
    """Arguments of the SDK's call that continue a conversation which the provider stores."""
    output_keys: ClassVar[tuple[str, ...]] = ()
    """Fields of a request that limit the length of the response, in tokens."""
    usage_key: ClassVar[str] = "usage"
    """Field of a response that contains the usage report."""
    mark_field: ClassVar[str] = ""
    """Field of a block that marks the end of a cached prefix. Empty if there is none."""
    input_usage: ClassVar[tuple[str, ...]] = ()
    """Fields of the usage report that add up to the tokens of the request."""
    output_usage: ClassVar[str] = ""
    """Field of the usage report with the tokens of the response."""

    # --- implemented by each API format ---

    @abstractmethod
    def recognize(self, records: Sequence[Any]) -> float:
        """Returns the confidence, from 0 to 1, that the records are in this format."""

    @abstractmethod
    def read_item(self, item: Fields) -> Message:
        """Converts one item to a message.

        The caller fills in ``origin`` and the tool names of results.
        """

    @abstractmethod
    def write_item(self, message: Message) -> list[Fields]:
        """Converts a message to items of this API."""

    def read_system(self, value: Any) -> Message:
        """Converts the value of a system prompt field to a message."""
        raise NotImplementedError

    def write_system(self, messages: list[Message], key: str) -> Any:
        """Converts system messages to the value of the system prompt field ``key``."""
        raise NotImplementedError

    @abstractmethod
    def answer_items(self, answer: Any) -> list[Any]:
        """Returns the items of a response that belong in the history.

        Args:
            answer: The SDK's response object, or its plain data.

        Raises:
            FormatError: ``answer`` is not a response, for example an error. Use `no_answer` to
                build this exception.
        """

    def join_events(self, events: Sequence[Any]) -> Any:
        """Returns the response that the events of a stream make up; ``None`` if its end is missing.

        Args:
            events: The events or chunks, as objects of the SDK or plain data.
        """
        raise NotImplementedError(f"{self.name} can't read streams: pass the response to answer()")

    def write_tool(self, definition: Fields) -> Fields:
        """Converts a tool definition to the shape of this API.

        Args:
            definition: An object with ``name``, ``description`` and ``parameters``, a JSON schema.
        """
        raise NotImplementedError(f"{self.name} can't write tools")

    def user_item(self, text: str) -> Fields:
        """Returns a user message with the given text."""
        items = self.write_item(Message.from_text(Role.USER, text))
        if not items:
            raise FormatError(f"{self.name} does not accept an empty message: pass a text")
        return items[0]

    def check_items(self, items: Sequence[Any]) -> Iterator[Refusal]:  # noqa: ARG002
        """Yields the reasons for which the API would refuse items, whatever is before and after.

        Args:
            items: The items, as plain data.
        """
        return iter(())

    @abstractmethod
    def check(self, request: Fields, before: Fields | None = None) -> Iterator[Refusal]:
        """Yields the reasons for which the API would refuse a request, `check_items` included.

        Args:
            request: The request.
            before: The request before a collection. It is needed for the rules about content that
                the provider binds to other content: if a collection removes one of the two, the
                remaining request does not show it.
        """

    # --- implemented by formats with cache marks ---

    def with_mark(self, message: Message, mark: Any) -> Message | None:  # noqa: ARG002
        """Returns a message with a cache mark at its end; ``None`` if it can't have one."""
        return None

    def within_mark_limit(self, request: Fields) -> Fields:
        """Returns a request with as many cache marks as the provider accepts, the last ones."""
        return request

    # --- implemented by formats whose provider binds thoughts to what was sent before them ---

    def with_valid_thoughts(
        self,
        request: Fields,
        messages: Sequence[Message],  # noqa: ARG002
        *,
        keep_unknown: bool = True,  # noqa: ARG002
    ) -> tuple[Fields, View | None]:
        """Returns a request without the thoughts that the provider would refuse.

        The second value is what the answer to the request is made from; ``None`` if the model does
        not bind thoughts.

        Args:
            request: The whole request.
            messages: The messages that it was written from.
            keep_unknown: Whether to keep the thoughts of answers that do not remember what they
                were made from.
        """
        return request, None

    def remember_view(self, messages: Sequence[Message], view: View) -> list[Message]:  # noqa: ARG002
        """Returns the messages of an answer, which remember what they were made from."""
        return list(messages)

    def has_unknown_views(self, messages: Sequence[Message], request: Fields) -> bool:  # noqa: ARG002
        """Returns whether some messages have bound thoughts, and not what they were made from."""
        return False

    def remember_views(self, messages: Sequence[Message], request: Fields) -> list[Message]:  # noqa: ARG002
        """Returns messages whose answers count as made from the messages before them.

        Args:
            messages: The messages. Those that remember what they were made from are not changed.
            request: The whole request, written from the messages.
        """
        return list(messages)

    # --- derived from these ---

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
        """Yields the conversations of a file.

        Each request is a conversation. Records that are messages form one conversation together.
        """
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
        """Reads a request or a list of messages into a history."""
        if isinstance(data, list | tuple):
            self._reject_requests(data)
            return History(self.read(data), self.name)
        if isinstance(data, str):
            data = {self.items_key: data}
        request = plain_dict(data, "the request")
        if self.items_key not in request:
            raise FormatError(
                f"the request has no field {self.items_key!r}, which {self.name} requires: "
                "add it, or pass the right format"
            )
        items = request[self.items_key]
        if isinstance(items, str):
            items = [self.user_item(items)]
        with reading("the system prompt"):
            messages = [
                self._with_origin(self.read_system(plain(request[key])), request[key])
                for key in self.system_keys
                if request.get(key)
            ]
        if not isinstance(items, list | tuple):
            raise FormatError(f"{self.items_key!r}: expected a list, got {type(items).__name__}")
        messages += self.read(items)
        return History(messages, self.name, request)

    def _reject_requests(self, items: Sequence[Any]) -> None:
        for item in items:
            if isinstance(item, Mapping) and self.items_key in item and not _is_item(item):
                raise FormatError(
                    "expected a list of messages, got a list of requests: pass one request at a "
                    "time, or use load() for a file of requests"
                )

    def read(self, items: Iterable[Any], names: dict[str, str] | None = None) -> Iterator[Message]:
        """Converts items to messages, one at a time.

        Args:
            items: The provider's items: plain data or objects of its SDK.
            names: Tool names by call id, from items that were read earlier. Updated in place.
        """
        names = {} if names is None else names
        for position, item in enumerate(items):
            fields = plain_dict(item, f"message {position}")
            with reading(f"message {position}"):
                message = self._with_origin(fill_tool_names(self.read_item(fields), names), item)
            yield message

    def _with_origin(self, message: Message, *items: Any) -> Message:
        return replace(message, origin=Origin(self.name, items, tuple(message.parts)))

    def write(self, messages: Iterable[Message]) -> list[Any]:
        """Converts messages to items.

        A message that was read from this format and has not changed is written as the original
        objects.
        """
        items: list[Any] = []
        for message in messages:
            original = original_items(message, self.name)
            items.extend(self.write_item(message) if original is None else original)
        return items

    def from_messages(self, messages: Sequence[Message], request: Fields | None) -> Any:
        """Returns the messages as a list of items, or as ``request`` with its messages replaced."""
        messages = list(split_exchanges(messages, self.name))
        if not self.system_keys:
            items: Any = self.write(messages)
            return items if request is None else {**request, self.items_key: items}
        beside = [message for message in messages if self.stands_beside(message)]
        rest = self.write(message for message in messages if not self.stands_beside(message))
        if request is None:
            if beside:
                raise FormatError(
                    f"{self.name} takes the system prompt in a field of the request, not as a "
                    "message: pass like={} to get a whole request"
                )
            return rest
        return self._with_system({**request, self.items_key: rest}, beside)

    def stands_beside(self, message: Message) -> bool:
        """Returns whether a message is written to the system prompt field of the request."""
        return message.role is Role.SYSTEM

    def _with_system(self, request: Fields, beside: list[Message]) -> Fields:
        key = next((key for key in self.system_keys if key in request), self.system_keys[0])
        if not beside:
            if request.get(key):
                del request[key]
        elif len(beside) == 1 and (original := original_items(beside[0], self.name)):
            request[key] = original[0]
        else:
            request[key] = self.write_system(beside, key)
        return request

    def usage(self, answer: Any) -> UsageReport | None:
        """Returns the usage that a response reports, or ``None`` if it reports none."""
        data = plain(answer)
        reported = data.get(self.usage_key) if isinstance(data, dict) else None
        if not isinstance(reported, dict):
            return None
        sent = sum(reported.get(name) or 0 for name in self.input_usage)
        return UsageReport(sent, reported.get(self.output_usage) or 0)

    def no_answer(self, data: Any) -> FormatError:
        """Returns the error for data that is not a response.

        Some servers report an error in place of a response; its text is in the message then.
        """
        error = data.get("error") if isinstance(data, dict) else None
        if error:
            return FormatError(f"the provider returned an error: {preview(error)}")
        return FormatError(f"expected a response of {self.name}, got {preview(data)}")

    def read_stream(self, events: Sequence[Any]) -> Any:
        """Returns the complete response of a stream.

        Raises:
            FormatError: An event reports an error, or the stream ended early.
        """
        for event in events:
            if field_of(event, "error"):
                raise self.no_answer(plain(event))
        with reading("the stream"):
            answer = self.join_events(events)
        if answer is None:
            raise FormatError(
                f"the stream of {self.name} ended before the response was complete: nothing was "
                "added; send the request again"
            )
        return answer

    def problems(self, history: History) -> list[Problem]:
        """Returns the reasons for which the API would refuse a history, as problems."""
        request = self.from_messages(history, history.request)
        return [Problem(str(refusal)) for refusal in self.refusals(request)]

    def refusals(self, data: Any, before: Any = None) -> list[Refusal]:
        """Returns the reasons for which the API would refuse a request or a list of messages.

        Args:
            data: The request or the messages, as plain data or objects of the SDK.
            before: The request before a collection: see `check`.
        """
        old = None if before is None else self.as_request(before)
        request = self.as_request(data)
        with reading("the request"):
            return list(self.check(request, old))

    def as_request(self, data: Any) -> Fields:
        """Returns data as a request with plain items. A list of messages is wrapped in one."""
        request = dict(data) if isinstance(data, Mapping) else {self.items_key: data}
        items = request.get(self.items_key)
        if isinstance(items, list | tuple):
            self._reject_requests(items)
            request[self.items_key] = [plain(item) for item in items]
        return request


def _is_item(fields: Mapping[str, Any]) -> bool:
    return "role" in fields or "type" in fields


def fill_tool_names(message: Message, names: dict[str, str]) -> Message:
    """Fills in the tool names of results: most providers give them only in the call."""
    parts = list(message.parts)
    for index, part in enumerate(parts):
        if call := part.function_call:
            _require_strings(call.id, call.name)
            if call.id:
                names[call.id] = call.name
        elif answer := part.function_response:
            _require_strings(answer.call_id, answer.name)
            name = names.get(answer.call_id or "", "")
            if name and not answer.name:
                parts[index] = replace(part, function_response=replace(answer, name=name))
    return message.with_parts(parts)


def _require_strings(*names: Any) -> None:
    for name in names:
        if not isinstance(name, str | None):
            raise FormatError(
                f"expected a string as the id or name of a tool call, got {preview(name)}"
            )
