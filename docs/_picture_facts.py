"""The content of the picture: what the code says about itself, and what it does when it runs."""

from pathlib import Path

from jaato_gc import (
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCPolicy,
    GCSession,
    InstructionSource,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
    load_gc_plugin,
)
from jaato_gc.plugin import should_collect

PACKAGES = Path(__file__).parents[1] / "packages"


def strategies() -> dict[str, str]:
    """Returns the summary of every strategy in this repository."""
    registry = PluginRegistry()
    own = {
        info.name
        for plugin in registry.plugins()
        if (PACKAGES / plugin.distribution).is_dir()
        for info in plugin.strategies
    }
    return {name: info.summary for name, info in registry.strategies().items() if name in own}


def usage_over_turns(config: GCConfig, turns: int, growth: float) -> list[tuple[int, float]]:
    """Returns turns and percentages in use, if every turn adds as much and collections succeed."""
    used = config.target_percent
    points = [(0, used)]
    for turn in range(1, turns + 1):
        used += growth
        points.append((turn, used))
        due, _ = should_collect({"percent_used": used}, config)
        if due:
            used = config.target_percent
            points.append((turn, used))
    return points


def full_session() -> GCSession:
    """Returns a session with content of every source and policy, in which a collection is due."""
    session = GCSession(
        context_limit=10_000,
        counter=EstimateCounter(),
        policy_of=lambda message: GCPolicy.PRESERVABLE if "decided" in message.text else None,
        on_source_removed=lambda _source, _key: None,
    )
    session.set_gc_plugin(load_gc_plugin("gc_budget"), GCConfig())
    session.append(Message.from_text(Role.SYSTEM, "Read before you write. " * 200))
    session.budget.update_tokens(InstructionSource.PLUGIN, 1_400)
    session.budget.update_tokens(InstructionSource.ENRICHMENT, 400)
    for number in range(6):
        call = FunctionCall(f"call_{number}", "read_file", {"path": f"module_{number}.py"})
        result = ToolResult(call.id, call.name, f"value_{number} = {number}\n" * 105)
        session.append(Message.from_text(Role.USER, f"Please change module {number}."))
        session.append(Message(Role.MODEL, [Part(function_call=call)]))
        session.append(Message(Role.TOOL, [Part(function_response=result)]))
        session.append(Message.from_text(Role.MODEL, f"We decided how to change it: {number}."))
    return session


def tokens_by_source(session: GCSession) -> dict[InstructionSource, int]:
    """Returns the tokens of every source in the budget."""
    return {source: entry.total_tokens() for source, entry in session.budget.entries.items()}


def phases() -> dict[str, GCPolicy]:
    """Returns the reasons of gc_budget in the order of its phases, with the removed policies."""
    session = full_session()
    plan = session.plan_gc(
        target_percent=0.0,
        pressure_percent=1.0,
        preserve_recent_turns=0,
        preserve_recent_groups=0,
    )
    found: dict[str, GCPolicy] = {}
    for item in plan.result.removal_list:
        entry = session.budget.get_entry(item.source)
        if item.message_ids:
            entry = session.budget.entry_of(item.message_ids[0])
        assert entry, f"the budget has no entry for {item}"
        found.setdefault(item.reason, entry.gc_policy)
    return found
