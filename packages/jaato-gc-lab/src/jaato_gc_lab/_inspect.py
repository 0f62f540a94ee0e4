"""What is in a context: who said how much of it, what is there twice, what a provider refuses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaato_gc import (
    EstimateCounter,
    GCPolicy,
    GCSession,
    InstructionSource,
    Message,
    PluginRegistry,
    TokenCounter,
    as_text,
    check_history,
    message_tokens,
    split_into_turns,
)
from jaato_gc_formats import Conversation, FormatError, Problem, load
from jaato_gc_lab._repeats import Repeat, find_repeats, part_tokens, what_it_is_about
from jaato_gc_lab._replay import TOOL_FRAME
from jaato_gc_lab._sources import SOURCES, tokens_by_source

BIGGEST = 10
"""How many of the biggest messages are named."""
UNNAMED = "(unnamed)"


@dataclass(frozen=True, slots=True)
class ToolShare:
    """What one tool has to do with a context.

    Args:
        name: The tool.
        calls: How often it was called.
        schema_tokens: Tokens of its schema, which is sent with every request.
        call_tokens: Tokens of its calls.
        result_tokens: Tokens of its results.
    """

    name: str
    calls: int = 0
    schema_tokens: int = 0
    call_tokens: int = 0
    result_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.schema_tokens + self.call_tokens + self.result_tokens


@dataclass(frozen=True, slots=True)
class BigMessage:
    """One message that takes much room.

    Args:
        position: Its position, from 0 on.
        role: Who speaks.
        what: What it is, in a few words of its own.
        tokens: How many tokens it has.
    """

    position: int
    role: str
    what: str
    tokens: int


@dataclass(slots=True)
class Inspection:
    """What was found in one conversation. Tokens are estimates.

    Args:
        name: What it is called.
        format: The format of its file.
        api: The format that its messages go back to.
        messages: How many messages it has.
        turns: How many turns.
        tokens: Tokens of the whole context, tool schemas included.
        tolerance: How far off that may be, as a share of it.
        reported_tokens: What the provider itself reported on the last request, if the file says so.
        compactions: How often the agent had compacted it already.
        by_source: Tokens by source.
        by_role: Tokens by who speaks; tool schemas are nobody's.
        by_tool: Tools, the one with most tokens first.
        by_policy: Tokens by how readily a collection may take them.
        biggest: The biggest messages.
        repeats: Results that a later one makes needless.
        problems: What is broken in the file, and what its provider would refuse.
        violations: What no provider takes, by core's rules.
        mended: Whether the file could be read only by leaving out what is broken in it.
    """

    name: str
    format: str
    api: str
    messages: int
    turns: int
    tokens: int
    tolerance: float
    reported_tokens: int | None
    compactions: int
    by_source: dict[str, int]
    by_role: dict[str, int]
    by_tool: list[ToolShare]
    by_policy: dict[str, int]
    biggest: list[BigMessage]
    repeats: list[Repeat]
    problems: list[Problem] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    mended: bool = False

    @property
    def is_valid(self) -> bool:
        """Whether a provider would take it as it is."""
        return not self.problems and not self.violations

    @property
    def repeated_tokens(self) -> int:
        """Tokens of all that is there twice."""
        return sum(repeat.tokens for repeat in self.repeats)


def inspect_file(
    path: str | Path, format: str | None = None, *, registry: PluginRegistry | None = None
) -> list[Inspection]:
    """What is in every conversation of a file.

    A file with broken lines is read without them; ``problems`` tells where they are.

    Args:
        path: The file.
        format: Its format; detected if not given.
        registry: Where formats come from; all that are installed if not given.

    Raises:
        FormatError: The file can't be read, or nothing in it is a conversation.
    """
    mended = False
    try:
        conversations = load(path, format, registry=registry)
    except FormatError:
        conversations, mended = load(path, format, repair=True, registry=registry), True
    found = [inspect_conversation(conversation) for conversation in conversations]
    for inspection in found:
        inspection.mended = mended
    return found


def inspect_conversation(
    conversation: Conversation, *, counter: TokenCounter | None = None
) -> Inspection:
    """What is in one conversation.

    Args:
        conversation: The conversation.
        counter: What counts tokens; core's estimate if not given, which gives the same figures on
            every machine.
    """
    counter = counter or EstimateCounter()
    messages = conversation.messages
    schemas = tool_schemas(messages.request, counter)
    by_source: Counter[str] = Counter(tools=sum(schemas.values()))
    by_role: Counter[str] = Counter()
    for message in messages:
        by_source.update(tokens_by_source(message, counter))
        by_role[_speaker(message)] += message_tokens(message, counter)
    positions = {message.message_id: number for number, message in enumerate(messages)}
    return Inspection(
        name=conversation.name,
        format=conversation.format,
        api=messages.format,
        messages=len(messages),
        turns=len(split_into_turns(messages)),
        tokens=sum(by_role.values()) + sum(schemas.values()),
        tolerance=counter.tolerance,
        reported_tokens=conversation.usage[-1].input_tokens if conversation.usage else None,
        compactions=len(conversation.compactions),
        by_source={source: by_source[source] for source in SOURCES if by_source[source]},
        by_role=dict(by_role.most_common()),
        by_tool=_tools(messages, schemas, counter),
        by_policy=_policies(messages, schemas, counter),
        biggest=_biggest(messages, counter),
        repeats=find_repeats(messages, counter),
        problems=conversation.problems,
        violations=[
            f"message {positions[each.message_id]}: {each.detail}"
            if each.message_id in positions
            else each.detail
            for each in check_history(messages)
        ],
    )


def tool_schemas(request: Mapping[str, Any] | None, counter: TokenCounter) -> dict[str, int]:
    """Tokens of the tools' schemas that a request has, by name of the tool."""
    tools = (request or {}).get("tools")
    schemas: Counter[str] = Counter()
    for tool in tools if isinstance(tools, list) else ():
        schemas[_tool_name(tool)] += TOOL_FRAME + counter.count_text(as_text(tool))
    return dict(schemas)


def new_session(
    limit: int, messages: Sequence[Message], schemas: Mapping[str, int], counter: TokenCounter
) -> GCSession:
    """A session of its own for a history: no stash of the user's is written to, nobody is told."""
    registry = PluginRegistry(load_installed=False)
    session = GCSession(context_limit=limit, counter=counter, registry=registry, journal_tokens=0)
    for name, tokens in schemas.items():
        session.budget.add_child(InstructionSource.PLUGIN, name, tokens, GCPolicy.LOCKED)
    for message in messages:
        session.append(message)
    return session


def describe(message: Message, names: Mapping[str, str] | None = None) -> str:
    """A message in a few words of its own: what it calls, what it is the result of, what it says.

    Args:
        message: The message.
        names: What results are about, by id of the call.
    """
    if calls := message.function_calls:
        return ", ".join(f"{call.name} {what_it_is_about(call)}".strip() for call in calls)
    if answers := message.function_responses:
        about = (f"{each.name} {(names or {}).get(each.call_id or '', '')}" for each in answers)
        return "result of " + ", ".join(each.strip() or UNNAMED for each in about)
    thought = next((part.thought for part in message.parts if part.thought), "")
    attached = next((part.inline_data for part in message.parts if part.inline_data), None)
    return message.text or thought or (attached.mime_type if attached else "")


def subjects(messages: Sequence[Message]) -> dict[str, str]:
    """What each call is about, by its id."""
    return {
        call.id: what_it_is_about(call)
        for message in messages
        for call in message.function_calls
        if call.id
    }


def _speaker(message: Message) -> str:
    return "tool" if message.is_tool_output else message.role.value


def _tool_name(tool: Any) -> str:
    if not isinstance(tool, dict):
        return UNNAMED
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name")
    return name if isinstance(name, str) else UNNAMED


def _tools(
    messages: Sequence[Message], schemas: Mapping[str, int], counter: TokenCounter
) -> list[ToolShare]:
    calls: Counter[str] = Counter()
    call_tokens: Counter[str] = Counter()
    result_tokens: Counter[str] = Counter()
    for message in messages:
        for part in message.parts:
            if call := part.function_call:
                calls[call.name or UNNAMED] += 1
                call_tokens[call.name or UNNAMED] += part_tokens(part, counter)
            elif answer := part.function_response:
                result_tokens[answer.name or UNNAMED] += part_tokens(part, counter)
    shares = [
        ToolShare(name, calls[name], schemas.get(name, 0), call_tokens[name], result_tokens[name])
        for name in {*schemas, *calls, *result_tokens}
    ]
    return sorted(shares, key=lambda share: (-share.tokens, share.name))


def _policies(
    messages: Sequence[Message], schemas: Mapping[str, int], counter: TokenCounter
) -> dict[str, int]:
    session = new_session(1, messages, schemas, counter)
    tokens: Counter[GCPolicy] = Counter()
    for top in session.budget.entries.values():
        for entry in top.walk():
            tokens[entry.binding_policy()] += entry.tokens
    return {policy.value: tokens[policy] for policy in GCPolicy}


def _biggest(messages: Sequence[Message], counter: TokenCounter) -> list[BigMessage]:
    names = subjects(messages)
    ordered = sorted(
        enumerate(messages), key=lambda each: (-message_tokens(each[1], counter), each[0])
    )
    return [
        BigMessage(
            position, _speaker(message), describe(message, names), message_tokens(message, counter)
        )
        for position, message in ordered[:BIGGEST]
    ]
