"""The keyword arguments of a session, for functions that pass them on."""

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from jaato_gc.budget import PolicyOf
from jaato_gc.plugins import PluginRegistry
from jaato_gc.policies import GCPolicy
from jaato_gc.session.collector import SourceRemover
from jaato_gc.session.observers import BudgetListener
from jaato_gc.session.provider import ToolHandler
from jaato_gc.session.sending import OnOverflow
from jaato_gc.stash import Stash
from jaato_gc.summaries import SummarizerFunction
from jaato_gc.tokens import TokenCounter


class HostOptions(TypedDict, total=False):
    """The arguments of `GCSession` for a host that runs the loop itself. See there."""

    counter: TokenCounter | None
    registry: PluginRegistry | None
    session_id: str
    agent_id: str
    agent_type: str | None
    policy_of: PolicyOf | None
    tool_policies: Mapping[str, GCPolicy] | None
    on_source_removed: SourceRemover | None
    on_instruction_budget_updated: BudgetListener | None
    ui_hooks: Any
    summarizer: SummarizerFunction | None
    stash: Stash | None
    keep_collections: int
    journal_bytes: int
    deadline_seconds: float | None
    repair: bool
    on_overflow: OnOverflow
    clock: Callable[[], float]


class GCSessionOptions(HostOptions, total=False):
    """All keyword arguments of `GCSession`."""

    context_limit: int | None
    model: str | None
    tools: ToolHandler | None
