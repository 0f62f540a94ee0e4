"""The budget and the plugins of jaato-server in a small loop.

Its own session counts the whole history several times a turn, and makes a snapshot of the
budget each time. Here every message is booked once, as a host that only takes the plugins would do
it, which is to its advantage. Its correction by reported usage is left out, since it does nothing
below 15 %, and its estimate is 7 % low here. The trace that it writes into a file by default is
switched off, which is to its advantage, too.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from contender import TARGET, TRIGGER, WINDOW, Counts, Outcome, Run
from histories import MESSAGES_A_TURN, Plain
from jaato_sdk.plugins.model_provider.types import (
    FunctionCall,
    Message,
    Part,
    Role,
    ToolResult,
)
from jaato_server.shared.gc_support import apply_gc_removal_list
from jaato_server.shared.instruction_budget import (
    GCPolicy,
    InstructionBudget,
    InstructionSource,
)
from jaato_server.shared.plugins.gc import (
    GCConfig,
    GCTriggerReason,
    ensure_tool_call_integrity,
    estimate_message_tokens,
)

ROLES = {"user": Role.USER, "assistant": Role.MODEL, "tool": Role.TOOL}
CONVERSATION = InstructionSource.CONVERSATION


@dataclass
class Host:
    """A history with its budget."""

    plugin: Any
    config: GCConfig
    budget: InstructionBudget
    history: list[Message] = field(default_factory=list)
    booked: int = 0
    collections: int = 0

    def append(self, plain: Plain) -> None:
        """Creates a message and books it."""
        self.book(message_of(plain), preservable=plain.preservable)

    def book(self, message: Message, *, preservable: bool) -> None:
        """Adds a message to history and budget. The system prompt is in the budget alone."""
        policy = GCPolicy.PRESERVABLE if preservable else GCPolicy.EPHEMERAL
        if self.booked == 0:
            policy = GCPolicy.LOCKED  # the original request
        tokens = estimate_message_tokens(message)
        ids = [message.message_id]
        key = f"msg_{self.booked}"
        self.budget.add_child(CONVERSATION, key, tokens, policy, message_ids=ids)
        self.history.append(message)
        self.booked += 1

    def usage(self) -> dict[str, Any]:
        """Returns the usage of the window, as its session passes it to plugins."""
        return {
            "context_limit": self.budget.context_limit,
            "total_tokens": self.budget.effective_total_tokens(),
            "percent_used": self.budget.utilization_percent(),
            "turns": self.booked // MESSAGES_A_TURN,
        }

    def check(self) -> None:
        """Collects if that is due."""
        usage = self.usage()
        due, reason = self.plugin.should_collect(usage, self.config)
        if due:
            self.collect(usage, reason)

    def collect(self, usage: dict[str, Any], reason: GCTriggerReason) -> None:
        """Collects and updates the budget."""
        history, result = self.plugin.collect(
            self.history, usage, self.config, reason, budget=self.budget
        )
        self.history = ensure_tool_call_integrity(history)
        apply_gc_removal_list(result, budget=self.budget, cache_plugin=None, on_trace=_no_trace)
        if result.removal_list and result.removal_list[0].reason == "truncated":
            self.book_again()  # these items name turns, which the budget does not have
        self.collections += 1

    def book_again(self) -> None:
        """Fills the budget from the history, as its session does."""
        history, self.history, self.booked = self.history, [], 0
        self.budget.get_entry(CONVERSATION).children.clear()
        for message in history:
            self.book(message, preservable=False)


class ServerContender:
    """One of its strategies.

    Args:
        name: As in the table.
        make_plugin: The strategy's factory.
        remark: Other differences.
        counts_turns: Whether it keeps a number of turns, rather than collects to a target.
    """

    distributions = ("jaato-server",)
    statement = "from jaato_server.shared.plugins.gc_budget.plugin import create_plugin"
    counts: Counts = "estimate"
    names_removed = True

    def __init__(
        self,
        name: str,
        make_plugin: Callable[[], Any],
        remark: str,
        *,
        counts_turns: bool = False,
    ) -> None:
        os.environ["JAATO_TRACE_LOG"] = ""  # no trace
        self.name = name
        self.remark = remark
        self._make_plugin = make_plugin
        self._counts_turns = counts_turns

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run:
        """Runs the plugin on a filled budget; cold, the budget is filled first."""
        total = sum(plain.tokens for plain in history)
        filled = self.hold(history)
        filled.budget.context_limit = filled.budget.total_tokens()
        filled.config = self._config(target / total, _newest_turns(history, target))
        if warm:
            return partial(_collect, filled)
        messages = self.bare(history)
        preservable = [plain.preservable for plain in history if plain.role != "system"]

        def fill_and_collect() -> Host:
            host = self._host(filled.budget.context_limit, filled.config)
            for message, is_preservable in zip(messages, preservable, strict=True):
                host.book(message, preservable=is_preservable)
            return _collect(host)

        return fill_and_collect

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """A check with the plugin before each request."""
        tokens = sum(plain.tokens for turn in turns for plain in turn)
        kept_turns = int(TARGET * WINDOW / (tokens / len(turns)))

        def run_turns() -> Host:
            host = self._host(WINDOW, self._config(TARGET, kept_turns))
            for request, *rest in turns:
                host.append(request)
                host.check()
                for plain in rest:
                    host.append(plain)
            return host

        return run_turns

    def outcome(self, returned: Host) -> Outcome:
        """Returns the texts in the host."""
        return Outcome([_text_of(message) for message in returned.history], returned.collections)

    def hold(self, history: Sequence[Plain]) -> Host:
        """Returns a host with a booked history."""
        host = self._host(WINDOW, GCConfig())
        for plain in history:
            if plain.role != "system":
                host.append(plain)
        return host

    def bare(self, history: Sequence[Plain]) -> list[Message]:
        """Returns the messages. The system prompt is not one of them."""
        return [message_of(plain) for plain in history if plain.role != "system"]

    def _host(self, context_limit: int, config: GCConfig) -> Host:
        plugin = self._make_plugin()
        plugin.initialize({})
        budget = InstructionBudget.create_default("", "main", "", context_limit)
        return Host(plugin, config, budget)

    def _config(self, target: float, kept_turns: int) -> GCConfig:
        config = GCConfig(threshold_percent=100 * TRIGGER, target_percent=100 * target)
        if self._counts_turns:
            config.preserve_recent_turns = kept_turns
        return config


def message_of(plain: Plain) -> Message:
    """Returns a message of jaato-server."""
    if plain.role == "tool":
        answer = ToolResult(plain.call_id or "", plain.call or "", plain.text)
        return Message(Role.TOOL, [Part.from_function_response(answer)])
    parts = [Part.from_text(plain.text)]
    if plain.call:
        call = FunctionCall(plain.call_id or "", plain.call, dict(plain.arguments or {}))
        parts.append(Part.from_function_call(call))
    return Message(ROLES[plain.role], parts)


def _collect(host: Host) -> Host:
    host.collect(host.usage(), GCTriggerReason.MANUAL)
    return host


def _newest_turns(history: Sequence[Plain], target: int) -> int:
    """Returns how many of the newest turns fit into some tokens."""
    tokens = turns = 0
    for plain in reversed(history):
        tokens += plain.tokens
        if tokens > target:
            break
        turns += plain.role == "user"
    return turns


def _text_of(message: Message) -> str:
    results = (
        str(part.function_response.result) for part in message.parts if part.function_response
    )
    return "".join([message.text or "", *results])


def _no_trace(_said: str) -> None:
    """Receives the trace of its helpers."""
