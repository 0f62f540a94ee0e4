"""The neutral message that every provider's history is converted to and from."""

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NoReturn

from jaato_gc.errors import MessageError
from jaato_gc.frozen import frozen
from jaato_gc.policies import GCPolicy
from jaato_gc.saved import LARGEST, Flag

ROLES_OF_PROVIDERS = {"assistant": "MODEL", "developer": "SYSTEM", "function": "TOOL"}
"""What providers call some roles, for errors."""


class Role(StrEnum):
    """The author of a message."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        known = {str(role): role.name for role in cls} | ROLES_OF_PROVIDERS
        meant = known.get(str(value).lower())
        hint = f"did you mean Role.{meant}? " if meant else ""
        names = ", ".join(f"Role.{role.name}" for role in cls)
        raise ValueError(f"{value!r:.80} is not a role: {hint}expected one of {names}")

    USER = "user"
    """The user, or the agent in place of the user."""
    MODEL = "model"
    """The model."""
    TOOL = "tool"
    """A tool: the message has the results of calls."""
    SYSTEM = "system"
    """The host: the message has instructions."""


_set = object.__setattr__

# Before Python 3.12, looking up a member of an enum costs more than a call, and every message is
# compared with these.
USER, MODEL, TOOL, SYSTEM = Role


class SyntheticKind(StrEnum):
    """The kind of a message that a collection added."""

    NOTICE = "notice"
    """Tells the model that something was removed."""
    SUMMARY = "summary"
    """Replaces what it summarizes."""
    LEDGER = "ledger"
    """Lists what removed calls were about."""
    RECALL = "recall"
    """Has content that came back from the stash."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A tool call made by the model.

    Args:
        id: The id, which its result repeats. Some providers give none, and it may occur again
            within a history.
        name: The name of the tool.
        args: The arguments.
    """

    id: str | None
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    Args:
        call_id: The id of the call.
        name: The name of the tool.
        result: A string or any JSON-like value.
        is_error: Whether the call failed.
    """

    call_id: str | None
    name: str
    result: Any = None
    is_error: Flag = False


@dataclass(frozen=True, slots=True)
class InlineData:
    """An image or another attachment: raw bytes, base64 text, or a reference to it.

    Images are counted by their dimensions, never by the length of their payload.

    Args:
        mime_type: The type of the content, such as ``image/png``.
        data: The payload.
        uri: Where the payload is, if it is elsewhere.
        width: The width of an image. Give it if it is known and the payload is missing.
        height: The height of an image.
    """

    mime_type: str
    data: bytes | str | None = None
    uri: str | None = None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a message. Usually exactly one of the first five fields is set.

    Args:
        text: Text.
        function_call: A tool call.
        function_response: The result of a tool call.
        inline_data: An image or another attachment.
        thought: A thought of the model.
        extra: A provider's own fields (signatures, cache markers), which are kept unchanged. A
            field with ``signature`` in its name marks the part as signed by the provider: it is
            never changed.
    """

    text: str | None = None
    function_call: FunctionCall | None = None
    function_response: ToolResult | None = None
    inline_data: InlineData | None = None
    thought: str | None = None
    extra: dict[str, Any] | None = None

    @property
    def is_signed(self) -> bool:
        """Whether the provider signed this part and would notice a change."""
        return _names_a_signature(self.extra)

    @property
    def is_empty(self) -> bool:
        """Whether this part has no content, or only whitespace."""
        text, thought = self.text, self.thought
        if (text and not text.isspace()) or (thought and not thought.isspace()):
            return False
        return not (self.function_call or self.function_response or self.inline_data or self.extra)


def _names_a_signature(fields: object) -> bool:
    return isinstance(fields, dict) and any(
        "signature" in key.lower() or _names_a_signature(value) for key, value in fields.items()
    )


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a history. It can't be changed: make another with `with_parts`.

    A session takes no subclass of it: fields of your own go into ``extra`` or ``origin``.

    Args:
        role: The author.
        parts: The content; any sequence of `Part`, kept as a tuple.
        message_id: An id of the host's choice; if empty, a short unique one is made.
        synthetic: Set on messages that a collection added; ``None`` on real ones.
        policy: The host's policy for this message; ``None`` leaves it to the budget.
        extra: Provider fields that are passed through unchanged.
        origin: The object that a format read this message from, so that it can return the same
            object again. Neither compared nor saved.
        bonds: Ids that it shares with other messages, such as that of a tool which the provider
            runs: messages that share one stay or go together.
        keeps_place: Whether its provider accepts it only where it is, such as a system message
            before an answer: it goes as soon as the message before or after it goes, and nothing
            is put between them. A user message never does.
    """

    role: Role
    parts: Sequence[Part]
    message_id: str = ""
    synthetic: SyntheticKind | None = None
    policy: GCPolicy | None = None
    extra: dict[str, Any] | None = None
    origin: object = field(default=None, repr=False, compare=False)
    bonds: Sequence[str] = ()
    keeps_place: bool = False
    # The counter that last counted this message, and its count: one value, because sessions in
    # several threads may share a message. Written by `message_tokens` alone.
    _counted: tuple[str | None, int] = field(
        default=(None, 0), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if type(self.parts) is not tuple:
            if isinstance(self.parts, str) or not isinstance(self.parts, Iterable):
                raise MessageError(
                    f"parts={self.parts!r:.80}: expected a sequence of Part; "
                    "use Message.from_text(role, text)"
                )
            _set(self, "parts", tuple(self.parts))
        if type(self.bonds) is not tuple:
            _set(self, "bonds", tuple(self.bonds))
        if not self.message_id:
            _set(self, "message_id", mint_message_id())
        # Strings, as from JSON, become members of their enums.
        if type(self.role) is not Role:
            _set(self, "role", Role(self.role))
        if self.policy is not None:
            _set(self, "policy", GCPolicy(self.policy))
        if self.synthetic is not None:
            _set(self, "synthetic", SyntheticKind(self.synthetic))

    @classmethod
    def from_text(
        cls,
        role: Role,
        text: str,
        *,
        message_id: str = "",
        synthetic: SyntheticKind | None = None,
        policy: GCPolicy | None = None,
        extra: dict[str, Any] | None = None,
        origin: object = None,
    ) -> "Message":
        """Returns a message of one text part."""
        return cls(role, (Part(text=text),), message_id, synthetic, policy, extra, origin)

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.parts if part.text)

    @property
    def function_calls(self) -> list[FunctionCall]:
        """The tool calls in this message."""
        return [part.function_call for part in self.parts if part.function_call]

    @property
    def function_responses(self) -> list[ToolResult]:
        """The tool results in this message."""
        return [part.function_response for part in self.parts if part.function_response]

    @property
    def is_tool_output(self) -> bool:
        """Whether this message carries tool results, whichever role the provider gives them."""
        for part in self.parts:  # no any(): this is asked often
            if part.function_response:
                return True
        return self.role is TOOL

    @property
    def opens_turn(self) -> bool:
        """Whether a turn starts here: a real user message."""
        return self.role is USER and self.synthetic is None and not self.is_tool_output

    @property
    def is_empty(self) -> bool:
        """Whether this message has no content that a provider would accept.

        Thoughts and signatures alone are content of the model only.
        """
        # No all(), and text is checked here first: a collection asks this of every message.
        for part in self.parts:
            text = part.text
            if text and not text.isspace():
                return False
            if part.function_call or part.function_response or part.inline_data:
                return False
            if self.role is not USER and not part.is_empty:
                return False
        return True

    def with_parts(self, parts: Iterable[Part]) -> "Message":
        """Returns the same message, id included, with other parts."""
        return replace(self, parts=tuple(parts))


def seal(message: Message) -> None:
    """Checks the types of a message, and replaces its nested values by read-only copies.

    Raises:
        MessageError: It is not a message, one of its parts is not a `Part`, or a field has another
            type: it could not be counted, saved or restored. Subclasses are refused, because their
            attributes and comparisons could differ from one time to the next.
    """
    if type(message) is not Message:
        remedy = "convert it with jaato_gc_formats, or use Message.from_text(role, text)"
        if isinstance(message, list | tuple):
            remedy = "for message in messages: session.append(message)"
        elif isinstance(message, Message):
            remedy = "make a Message of it, with fields of your own in extra or origin"
        raise MessageError(
            f"expected a Message, got {type(message).__name__} {message!r:.80}: {remedy}"
        )
    _check(message, Message)
    if not all(isinstance(bond, str) for bond in message.bonds):
        raise MessageError(f"Message.bonds: expected ids, got {message.bonds!r:.80}")
    if message.extra is not None:
        _freeze(message, "extra")
    for part in message.parts:
        _check(part, Part)
        if (call := part.function_call) is not None:
            _check(call, FunctionCall)
            _freeze(call, "args")
        if (answer := part.function_response) is not None:
            _check(answer, ToolResult)
            _freeze(answer, "result")
        if (attachment := part.inline_data) is not None:
            _check(attachment, InlineData)
            for size in (attachment.width, attachment.height):
                if size is not None and not 0 <= size <= LARGEST:
                    raise MessageError(f"expected the size of an image, got {size:.20g}")
        if part.extra is not None:
            _freeze(part, "extra")


_ABSENT = type(None)
_FIELD_TYPES: dict[type, dict[str, tuple[type, ...]]] = {
    Message: {"message_id": (str,), "extra": (dict, _ABSENT), "keeps_place": (bool,)},
    Part: {"text": (str, _ABSENT), "thought": (str, _ABSENT), "extra": (dict, _ABSENT)},
    FunctionCall: {"id": (str, _ABSENT), "name": (str,), "args": (dict,)},
    ToolResult: {"call_id": (str, _ABSENT), "name": (str,), "is_error": (bool,)},
    InlineData: {
        "mime_type": (str,),
        "data": (str, bytes, _ABSENT),
        "uri": (str, _ABSENT),
        "width": (int, _ABSENT),
        "height": (int, _ABSENT),
    },
}
"""The fields that are saved as they are. `seal` checks the others itself."""


def _check(value: object, kind: type) -> None:
    if type(value) is not kind:
        raise MessageError(f"expected a {kind.__name__}, got {type(value).__name__} {value!r:.80}")
    for name, types in _FIELD_TYPES[kind].items():
        found = getattr(value, name)
        if not isinstance(found, types):
            expected = " or ".join("None" if each is _ABSENT else each.__name__ for each in types)
            got = f"{type(found).__name__} {found!r:.80}"
            hint = ": use json.loads" if name == "args" and isinstance(found, str) else ""
            raise MessageError(f"{kind.__name__}.{name}: expected {expected}, got {got}{hint}")


def _freeze(owner: object, name: str) -> None:
    value = getattr(owner, name)
    if type(value) is not str and (copy := frozen(value)) is not value:
        _set(owner, name, copy)


_id_prefix = ""
_id_numbers = itertools.count(1)


def _choose_id_prefix() -> None:
    global _id_prefix
    _id_prefix = f"msg-{os.urandom(4).hex()}-"


_choose_id_prefix()
# A forked worker would otherwise make the same ids as its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_choose_id_prefix)


def mint_message_id() -> str:
    """Returns a new message id: a random prefix per process and a counter."""
    return f"{_id_prefix}{next(_id_numbers)}"
