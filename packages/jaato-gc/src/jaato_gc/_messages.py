"""The neutral message: what every provider's history is turned into and back."""

import itertools
import os
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from jaato_gc._policies import GCPolicy


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    SYSTEM = "system"


class SyntheticKind(StrEnum):
    """What a message that a collection added stands for."""

    NOTICE = "notice"
    SUMMARY = "summary"
    RECALL = "recall"


# In Python 3.11 looking up a member of an enum costs more than a call. What every message is asked,
# is asked with these.
USER, TOOL, SYSTEM = Role.USER, Role.TOOL, Role.SYSTEM


@dataclass(slots=True)
class FunctionCall:
    """A tool call made by the model.

    ``id`` may be ``None`` (some providers give none) and may repeat within a history.
    """

    id: str | None
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ToolResult:
    """What a tool answered. ``result`` is a string or any JSON-like value."""

    call_id: str | None
    name: str
    result: Any = None
    is_error: bool = False


@dataclass(slots=True)
class InlineData:
    """An image or another attachment: raw bytes, base64 text, or only a reference to it.

    Give ``width`` and ``height`` where they are known and the payload is not at hand: images are
    counted by their dimensions, never by the length of their payload.
    """

    mime_type: str
    data: bytes | str | None = None
    uri: str | None = None
    width: int | None = None
    height: int | None = None


@dataclass(slots=True)
class Part:
    """One piece of a message. Exactly one of the first five fields is usually set.

    ``extra`` carries a provider's own fields (signatures, cache markers) through untouched. A field
    with ``signature`` in its name says that the provider has signed this part: it is never altered.
    """

    text: str | None = None
    function_call: FunctionCall | None = None
    function_response: ToolResult | None = None
    inline_data: InlineData | None = None
    thought: str | None = None
    extra: dict[str, Any] | None = None

    @property
    def is_signed(self) -> bool:
        """Whether a provider would notice if this part were altered."""
        return _names_a_signature(self.extra)

    @property
    def is_empty(self) -> bool:
        """Whether a provider would find nothing in this part: no content, or only whitespace."""
        text, thought = self.text, self.thought
        if (text and not text.isspace()) or (thought and not thought.isspace()):
            return False
        return not (self.function_call or self.function_response or self.inline_data or self.extra)


def _names_a_signature(fields: object) -> bool:
    return isinstance(fields, dict) and any(
        "signature" in key.lower() or _names_a_signature(value) for key, value in fields.items()
    )


@dataclass(slots=True)
class Message:
    """One message of a history.

    Treat a message as finished once it was handed over: token counts are remembered on it. To
    change one, make another with `with_parts`.

    Args:
        role: Who speaks.
        parts: What is said.
        message_id: Given by the host; left empty, it is minted: short, unique across processes.
        synthetic: Set on messages that a collection added; ``None`` on real ones.
        policy: The host's own word on how dear this message is; ``None`` leaves it to the budget.
        extra: Provider fields that ride along untouched.
        origin: What a format read this message from, so that it can give back the very same object.
            Neither compared nor saved.
    """

    role: Role
    parts: list[Part]
    message_id: str = ""
    synthetic: SyntheticKind | None = None
    policy: GCPolicy | None = None
    extra: dict[str, Any] | None = None
    origin: object = field(default=None, repr=False, compare=False)
    # Who counted this message last, and what: written by `message_tokens` alone.
    _counted_by: str | None = field(default=None, init=False, repr=False, compare=False)
    _tokens: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.role) is not Role:  # plain strings, as from JSON
            self.role = Role(self.role)
        if self.policy is not None and type(self.policy) is not GCPolicy:
            self.policy = GCPolicy(self.policy)
        if not self.message_id:
            self.message_id = mint_message_id()

    @classmethod
    def from_text(cls, role: Role, text: str, **fields: Any) -> "Message":
        """A message of one text part."""
        return cls(role, [Part(text=text)], **fields)

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.parts if part.text)

    @property
    def function_calls(self) -> list[FunctionCall]:
        return [part.function_call for part in self.parts if part.function_call]

    @property
    def function_responses(self) -> list[ToolResult]:
        return [part.function_response for part in self.parts if part.function_response]

    @property
    def is_tool_output(self) -> bool:
        """Whether this carries tool results, under whatever role a provider files them."""
        if self.role is TOOL:
            return True
        for part in self.parts:  # noqa: SIM110  any() costs more, and every collection runs this
            if part.function_response is not None:
                return True
        return False

    @property
    def opens_turn(self) -> bool:
        """Whether a turn starts here: a real user message."""
        return self.role is USER and self.synthetic is None and not self.is_tool_output

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it that a provider would accept as content."""
        for part in self.parts:  # noqa: SIM110  any() costs more, and every collection runs this
            if not part.is_empty:
                return False
        return True

    def with_parts(self, parts: list[Part]) -> "Message":
        """The same message, id included, with other parts."""
        return replace(self, parts=parts)


_id_prefix = ""
_id_numbers = itertools.count(1)


def _choose_id_prefix() -> None:
    global _id_prefix
    _id_prefix = f"msg-{os.urandom(4).hex()}-"


_choose_id_prefix()
# A forked worker would otherwise mint the very ids that its parent mints.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_choose_id_prefix)


def mint_message_id() -> str:
    """A new message id: a random prefix per process and a counter, cheaper than a UUID each."""
    return f"{_id_prefix}{next(_id_numbers)}"
