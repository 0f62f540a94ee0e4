"""Inspects a context: what fills it, what could be freed, and whether it is valid."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaato_gc import (
    EstimateCounter,
    GCPolicy,
    GCSession,
    InstructionBudget,
    InstructionSource,
    Message,
    PluginRegistry,
    check_history,
)
from jaato_gc.plugin import TokenCounter, as_text, lay_out, message_tokens
from jaato_gc_formats import Conversation, FormatError, Problem, load
from jaato_gc_lab._findings import Finding, find_findings
from jaato_gc_lab._largest import LargeMessage, largest_messages
from jaato_gc_lab._overhead import hidden_tokens
from jaato_gc_lab._recording import TOOL_FRAME
from jaato_gc_lab._slices import Slice, slices_of
from jaato_gc_lab._sources import SOURCES, tokens_by_source
from jaato_gc_lab._subjects import UNNAMED, part_tokens, role_of, tool_of

UNLIMITED = 10**12
"""A window that is never full."""


@dataclass(frozen=True, slots=True)
class ToolShare:
    """Tokens of one tool in a context.

    Args:
        name: Name of the tool.
        calls: Number of calls.
        schema_tokens: Tokens of the schema, which is sent with every request.
        call_tokens: Tokens of the calls.
        result_tokens: Tokens of the results.
    """

    name: str
    calls: int = 0
    schema_tokens: int = 0
    call_tokens: int = 0
    result_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Total tokens of schema, calls and results."""
        return self.schema_tokens + self.call_tokens + self.result_tokens


@dataclass(slots=True)
class Inspection:
    """The contents of one conversation. Token counts are estimates.

    Args:
        name: Name of the conversation.
        format: Format of the file.
        api: API format that the messages are converted to.
        messages: Number of messages.
        turns: Number of turns.
        tokens: Tokens of the whole context, including tool schemas.
        tolerance: Maximum error of ``tokens``, as a fraction.
        reported_tokens: Input tokens that the provider reported for the last request, if the file
            contains them.
        hidden_tokens: Difference between these and the counted tokens of that request, rounded to
            hundreds: system prompt, tools and other content that the file does not show.
        compactions: Number of times the agent compacted the conversation.
        by_source: Tokens by source.
        by_role: Tokens by role, without tool schemas.
        by_tool: Tokens by tool, largest first.
        by_policy: Tokens by removal policy.
        slices: Everything that fills the context, with calls and results by tool, largest first.
        largest: The largest messages.
        findings: Tool results that are not needed as they are, by kind.
        problems: Invalid content of the file, and content that its provider would reject.
        violations: Violations of the rules that core applies to every provider.
        repaired: Whether the file is invalid and was loaded with repair.
    """

    name: str
    format: str
    api: str
    messages: int
    turns: int
    tokens: int
    tolerance: float
    reported_tokens: int | None
    hidden_tokens: int
    compactions: int
    by_source: dict[str, int]
    by_role: dict[str, int]
    by_tool: list[ToolShare]
    by_policy: dict[str, int]
    slices: list[Slice]
    largest: list[LargeMessage]
    findings: list[Finding]
    problems: list[Problem] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    repaired: bool = False

    @property
    def is_valid(self) -> bool:
        """Whether a provider would accept the conversation unchanged."""
        return not self.problems and not self.violations

    @property
    def freeable_tokens(self) -> int:
        """Tokens that the rules of gc_marksweep free without the removal of whole messages."""
        return sum(finding.freed_tokens for finding in self.findings)


def inspect_file(path: str | Path, format: str | None = None) -> list[Inspection]:
    """Inspects every conversation in a file.

    Invalid lines are skipped and listed in ``problems``.

    Args:
        path: The file.
        format: Format of the file; detected by default.

    Raises:
        FormatError: The file can't be read or contains no conversation.
    """
    repaired = False
    try:
        conversations = load(path, format)
    except FormatError:
        conversations, repaired = load(path, format, repair=True), True
    found = [inspect_conversation(conversation) for conversation in conversations]
    for inspection in found:
        inspection.repaired = repaired
    return found


def inspect_conversation(conversation: Conversation) -> Inspection:
    """Inspects one conversation, with the estimate of core, which is the same on every machine."""
    counter = EstimateCounter()
    messages = conversation.messages
    schemas = tool_schemas(messages.request, counter)
    schema_tokens = sum(schemas.values())
    hidden = _hidden(conversation, schema_tokens, counter)
    layout = lay_out(messages)
    session = new_session(UNLIMITED, messages, schemas, counter)
    by_source: Counter[str] = Counter(tools=schema_tokens)
    by_role: Counter[str] = Counter()
    for message in messages:
        by_source.update(tokens_by_source(message, counter))
        by_role[role_of(message)] += message_tokens(message, counter)
    positions = {message.message_id: number for number, message in enumerate(messages)}
    return Inspection(
        name=conversation.name,
        format=conversation.format,
        api=messages.format,
        messages=len(messages),
        turns=len(layout.turns),
        tokens=sum(by_role.values()) + schema_tokens,
        tolerance=counter.tolerance,
        reported_tokens=conversation.usage[-1].input_tokens if conversation.usage else None,
        hidden_tokens=hidden,
        compactions=len(conversation.compactions),
        by_source={source: by_source[source] for source in SOURCES if by_source[source]},
        by_role=dict(by_role.most_common()),
        by_tool=_tools(messages, schemas, counter),
        by_policy=_policies(session.budget),
        slices=slices_of(messages, schema_tokens, hidden, counter),
        largest=largest_messages(messages, layout, counter),
        findings=find_findings(session.history, session.budget),
        problems=conversation.problems,
        violations=[
            f"message {positions[each.message_id]}: {each.detail}"
            if each.message_id in positions
            else each.detail
            for each in check_history(messages)
        ],
    )


def _hidden(conversation: Conversation, shown_tokens: int, counter: TokenCounter) -> int:
    found = hidden_tokens(conversation, shown_tokens, counter)
    return max(0, round(found[-1], -2)) if found else 0


def tool_schemas(request: Mapping[str, Any] | None, counter: TokenCounter) -> dict[str, int]:
    """Returns the tokens of the tool schemas in a request, by tool name."""
    tools = (request or {}).get("tools")
    schemas: Counter[str] = Counter()
    for tool in tools if isinstance(tools, list) else ():
        schemas[_tool_name(tool)] += TOOL_FRAME + counter.count_text(as_text(tool))
    return dict(schemas)


def new_session(
    context_limit: int,
    messages: Sequence[Message],
    schemas: Mapping[str, int],
    counter: TokenCounter,
) -> GCSession:
    """Creates an isolated session for a history, without the user's stash and observers."""
    registry = PluginRegistry(load_installed=False)
    session = GCSession(
        context_limit=context_limit, counter=counter, registry=registry, journal_bytes=0
    )
    for name, tokens in schemas.items():
        session.budget.add_child(InstructionSource.PLUGIN, name, tokens, GCPolicy.LOCKED)
    for message in messages:
        session.append(message)
    return session


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
            if part.function_call:
                calls[tool_of(part)] += 1
                call_tokens[tool_of(part)] += part_tokens(part, counter)
            elif part.function_response:
                result_tokens[tool_of(part)] += part_tokens(part, counter)
    shares = [
        ToolShare(name, calls[name], schemas.get(name, 0), call_tokens[name], result_tokens[name])
        for name in {*schemas, *calls, *result_tokens}
    ]
    return sorted(shares, key=lambda share: (-share.tokens, share.name))


def _policies(budget: InstructionBudget) -> dict[str, int]:
    tokens: Counter[GCPolicy] = Counter()
    for top in budget.entries.values():
        for entry in top.walk():
            tokens[entry.binding_policy()] += entry.tokens
    return {policy.value: tokens[policy] for policy in GCPolicy}
