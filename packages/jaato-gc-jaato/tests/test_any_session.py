"""Whatever history and budget a session has: what jaato-server is left with holds together."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jaato_host import (
    STRATEGIES,
    Attachment,
    FunctionCall,
    Message,
    Part,
    Role,
    ToolResult,
    budgets,
    gc,
    gc_support,
    invariant,
    model,
    user,
)

Source, Policy = budgets.InstructionSource, budgets.GCPolicy
LIMIT = 4_000

sizes = st.sampled_from([1, 40, 400, 4_000])
policies = st.sampled_from(list(Policy))
figures = st.integers(0, 1_500)
results: st.SearchStrategy[Any] = st.one_of(
    sizes.map(lambda size: "line of output\n" * (size // 10 + 1)),
    sizes.map(lambda size: {"content": "x" * size, "path": "src/a.py"}),
    st.sampled_from([None, 3, [], {}, {"error": None}]),
)
pictures = st.lists(st.just(Attachment("image/png", bytes(3_000))), max_size=1)


@st.composite
def turns(draw: st.DrawFn) -> list[Any]:
    """Returns a request, exchanges with one call or several, and maybe an answer."""
    messages = [user("Please. " * draw(st.integers(1, 60)))]
    for _ in range(draw(st.integers(0, 3))):
        ids = [f"call-{draw(st.uuids())}" for _ in range(draw(st.integers(1, 2)))]
        name = draw(st.sampled_from(["readFile", "runCommand", "writeFile"]))
        args = {"path": "src/a.py", "content": "y" * draw(sizes)}
        calls = [Part(function_call=FunctionCall(each, name, args)) for each in ids]
        thought = [Part(thought="Hm.")] if draw(st.booleans()) else []
        answers = [
            Part(
                function_response=ToolResult(each, name, draw(results), attachments=draw(pictures))
            )
            for each in ids
        ]
        messages += [Message(Role.MODEL, [*thought, *calls]), Message(Role.TOOL, answers)]
    if draw(st.booleans()):
        messages.append(model("Done. " * draw(st.integers(1, 60))))
    return messages


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[Any], Any]:
    """Returns a history and a budget of jaato-server."""
    history = [
        message for turn in draw(st.lists(turns(), min_size=1, max_size=8)) for message in turn
    ]
    budget = budgets.InstructionBudget.create_default("session", context_limit=LIMIT)
    budget.update_tokens(Source.SYSTEM, draw(figures))
    budget.update_tokens(Source.ENRICHMENT, draw(figures))
    budget.update_tokens(Source.THINKING, draw(figures))
    unbooked = draw(st.integers(0, 2))
    for place, message in enumerate(history[: len(history) - unbooked]):
        policy = Policy.LOCKED if place == 0 else draw(policies)
        ids = [message.message_id]
        budget.add_child(
            Source.CONVERSATION, f"msg_{place}", draw(figures), policy, message_ids=ids
        )
    if unbooked and draw(st.booleans()):
        budget.add_child(Source.CONVERSATION, "gc_summary_1", draw(figures), Policy.PRESERVABLE)
    return history, budget


@given(
    session=sessions(),
    name=st.sampled_from(STRATEGIES),
    reason=st.sampled_from(list(gc.GCTriggerReason)),
    recent=st.integers(0, 3),
    notify=st.booleans(),
)
def test_history_and_budget_hold_together_after_every_collection(
    session: tuple[list[Any], Any], name: str, reason: Any, recent: int, notify: bool
) -> None:
    history, budget = session
    options = {"extractive": True} if name in ("gc_jg_summarize", "gc_jg_hybrid") else {}
    plugin = gc.load_gc_plugin(name, {"notify_on_gc": notify, **options})
    config = gc.GCConfig(pressure_percent=90.0, preserve_recent_turns=recent, max_turns=3)
    config.media_bytes_threshold = 5_000

    for _ in range(2):
        history = collect_once(plugin, history, budget, config, reason)


def collect_once(
    plugin: Any, history: list[Any], budget: Any, config: Any, reason: Any
) -> list[Any]:
    """Collects as a session of jaato-server does, checks what it is left with, and returns it."""
    before, given = budget.total_tokens(), list(history)
    locked = [
        each
        for child in budget.get_entry(Source.CONVERSATION).children.values()
        if child.gc_policy is Policy.LOCKED
        for each in child.message_ids
    ]
    usage = {
        "context_limit": LIMIT,
        "total_tokens": before,
        "percent_used": budget.utilization_percent(),
        "media_bytes": gc.history_media_bytes(history),
    }

    left, result = plugin.collect(history, usage, config, reason, budget=budget)

    assert result.success, result.error
    assert all(new is old for new, old in zip(history, given, strict=True))
    places = {id(message): place for place, message in enumerate(history)}
    kept = [places[id(message)] for message in left if id(message) in places]
    assert kept == sorted(set(kept))
    assert {message.message_id for message in left} >= set(locked)
    assert invariant.validate_history(left) == []
    gc_support.apply_gc_removal_list(
        result, budget=budget, cache_plugin=None, on_trace=lambda _: None
    )
    assert budget.total_tokens() == result.tokens_after
    if reason is not gc.GCTriggerReason.MEDIA_PRESSURE:  # notes may cost more than small pictures
        assert result.tokens_after <= before
    return list(left)
