"""One turn of an agent can be the whole run: every request fits, and the agent goes on."""

import random
from collections.abc import Iterator

import pytest
from repository import has_option, own_strategies

from jaato_gc import (
    FunctionCall,
    GCSession,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
    check_history,
    count_tokens,
    extractive_summary,
)

REGISTRY = PluginRegistry()
STRATEGIES = list(own_strategies())
HUGE = 70_000
STEPS = 2_000


def words(count: int, chance: random.Random) -> str:
    """Returns a text of about this many tokens, in lines with names."""
    lines = (
        f"{number}: value_{chance.randrange(10_000)} of step_{number} "
        f"is set in src/part_{number}.py"
        for number in range(max(1, count // 22))
    )
    return "\n".join(lines)


def sizes(steps: int) -> Iterator[int]:
    chance = random.Random(7)
    for number in range(steps):
        yield HUGE if number % 400 == 150 else chance.randint(200, 4_000)


def session_with(strategy: str, limit: int) -> GCSession:
    session = GCSession(context_limit=limit, registry=PluginRegistry(load_installed=False))
    options = {}
    if has_option(strategy, "summarizer"):
        options = {"summarizer": extractive_summary, "on_summarizer_error": "truncate"}
    session.set_gc_plugin(REGISTRY.create(strategy, options))
    session.append(Message.from_text(Role.SYSTEM, "You are a careful engineer. " * 20))
    session.append(Message.from_text(Role.USER, "Fix the failing tests of the harbour."))
    return session


def run(session: GCSession, reports: str, steps: int) -> None:
    """Plays one turn of many calls, and checks every request."""
    chance = random.Random(3)
    limit = session.budget.context_limit
    counter = session.budget.counter
    for number, size in enumerate(sizes(steps)):
        request = session.before_send()
        if number % 50 == 0:
            assert check_history(request) == []
        tokens = count_tokens(request, counter)
        assert tokens <= limit
        assert request[1].text == "Fix the failing tests of the harbour."
        if reports == "always" or (reports == "once" and number == 3):
            session.report_usage(round(tokens * 1.03), 40)
        elif reports == "falsely":
            session.report_usage(50, 40)
        call = FunctionCall(f"c{number}", "read_file", {"path": f"src/part_{number % 40}.py"})
        session.append(Message(Role.MODEL, [Part(function_call=call)]))
        result = ToolResult(call.id, call.name, words(size, chance))
        session.append(Message(Role.TOOL, [Part(function_response=result)]))
    session.before_send()
    assert session.budget.counted_tokens() == count_tokens(session.history, counter)
    assert len(session.history) < 2_000


@pytest.mark.parametrize("reports", ["always", "never", "once", "falsely"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_agent_goes_on_through_a_long_turn(strategy: str, reports: str) -> None:
    run(session_with(strategy, 32_000), reports, 400)


@pytest.mark.parametrize("limit", [16_000, 32_000, 128_000])
@pytest.mark.parametrize("strategy", ["gc_budget", "gc_marksweep"])
def test_agent_goes_on_for_two_thousand_steps(strategy: str, limit: int) -> None:
    run(session_with(strategy, limit), "always", STEPS)
