"""Mistakes of hosts: each error says what is wrong and what to do, and changes nothing."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCError,
    GCPluginError,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    Message,
    Part,
    PluginRegistry,
    Role,
    SavedSessionError,
    ToolResult,
)
from jaato_gc.plugin import StrategyInfo, hookimpl
from jaato_gc_testing import OldestFirst, saved_state

CALL = FunctionCall("c", "read")
RESULT = GCResult(True, 0, 9, 9, "gc_oldest", GCTriggerReason.MANUAL)


def calling(call: FunctionCall) -> Message:
    return Message(Role.MODEL, [Part(function_call=call)])


class Offering:
    """A plugin that offers strategies with these names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo(name, OldestFirst) for name in self.names]


def registry_of(*names: str) -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    registry.register(Offering(*names), "offering")
    return registry


def new_session(*strategies: str) -> GCSession:
    session = GCSession(context_limit=1_000, registry=registry_of(*strategies or ("gc_oldest",)))
    session.append(Message.from_text(Role.USER, "Hello"))
    return session


# --- strategies by name ---


@pytest.mark.parametrize("name", ["gc_oldest", "oldest"])
def test_a_session_takes_the_name_of_an_installed_strategy(name: str) -> None:
    session = new_session()
    session.set_gc_plugin(name, GCConfig(target_percent=40.0))
    assert isinstance(session.strategy, OldestFirst)
    assert session.config.target_percent == 40.0


@pytest.mark.parametrize("name", ["gc_oldest", "oldest"])
def test_a_restored_session_takes_the_name_of_a_strategy(name: str) -> None:
    registry = registry_of("gc_oldest")
    saved = new_session().save()
    restored = GCSession.restore(saved, strategy=name, registry=registry)
    assert isinstance(restored.strategy, OldestFirst)
    with pytest.raises(SavedSessionError, match="did you mean 'gc_oldest'"):
        GCSession.restore(saved, strategy="gc_odlest", registry=registry)


def test_without_a_name_the_registry_returns_the_only_strategy() -> None:
    assert isinstance(registry_of("gc_oldest").strategy(), OldestFirst)
    with pytest.raises(GCPluginError, match=r"2 strategies .*strategy='gc_a' .*gc_a, gc_b"):
        registry_of("gc_a", "gc_b").strategy()
    with pytest.raises(GCPluginError, match="no usable strategy is installed: pip install"):
        PluginRegistry(load_installed=False).strategy()


def test_the_registry_returns_a_strategy_that_it_is_given() -> None:
    strategy = OldestFirst()
    assert registry_of("gc_a").strategy(strategy) is strategy


# --- what a session refuses ---

MISTAKES: dict[str, tuple[Callable[[GCSession], object], str]] = {
    "an unknown strategy": (
        lambda session: session.set_gc_plugin("gc_odlest"),
        "unknown strategy 'gc_odlest': did you mean 'gc_oldest'?",
    ),
    "the class of a strategy": (
        lambda session: session.set_gc_plugin(OldestFirst),  # type: ignore[arg-type]
        "expected a strategy, got the class OldestFirst: call it",
    ),
    "a dict as configuration": (
        lambda session: session.set_gc_plugin(OldestFirst(), {"max_turns": 5}),  # type: ignore[arg-type]
        r"expected a GCConfig, got dict .*: use GCConfig\(\*\*config\)",
    ),
    "a name as configuration": (
        lambda session: session.set_gc_plugin(OldestFirst(), "gc_oldest"),  # type: ignore[arg-type]
        r"expected a GCConfig, got str 'gc_oldest': use GCConfig\(",
    ),
    "a result in place of a plan": (
        lambda session: session.apply(RESULT),  # type: ignore[arg-type]
        r"expected a GCPlan, got GCResult: give what plan_gc\(\) returned",
    ),
    "a misspelled reason": (
        lambda session: session.plan_gc("manul"),  # type: ignore[arg-type]
        "reason='manul': expected one of 'threshold', 'manual'",
    ),
    "a message to remove": (
        lambda session: session.remove(session.history[0]),  # type: ignore[arg-type]
        r"expected a message id, got Message\(.*: give message\.message_id",
    ),
    "a message to replace": (
        lambda session: session.replace(session.history[0], session.history[0]),  # type: ignore[arg-type]
        r"expected a message id, got Message\(.*: give message\.message_id",
    ),
    "a result to undo": (
        lambda session: session.undo(RESULT),  # type: ignore[arg-type]
        r"there is no collection GCResult\(.{0,80}$",
    ),
    "text that is a number": (
        lambda session: session.append(Message.from_text(Role.USER, 5)),  # type: ignore[arg-type]
        r"Part\.text: expected str or None, got int 5",
    ),
    "a call as text": (
        lambda session: session.append(Message(Role.MODEL, [Part(CALL)])),  # type: ignore[arg-type]
        r"Part\.text: expected str or None, got FunctionCall FunctionCall\(",
    ),
    "a thought that is a dict": (
        lambda session: session.append(Message(Role.MODEL, [Part(thought={})])),  # type: ignore[arg-type]
        r"Part\.thought: expected str or None, got dict",
    ),
    "a message id that is a number": (
        lambda session: session.append(Message(Role.USER, [Part("Hello")], 5)),  # type: ignore[arg-type]
        r"Message\.message_id: expected str, got int 5",
    ),
    "arguments as JSON text": (
        lambda session: session.append(calling(replace(CALL, args='{"path": "a"}'))),  # type: ignore[arg-type]
        r"FunctionCall\.args: expected dict, got str .*: use json\.loads",
    ),
    "arguments as a list": (
        lambda session: session.append(calling(replace(CALL, args=["a"]))),  # type: ignore[arg-type]
        r"FunctionCall\.args: expected dict, got list \['a'\]$",
    ),
    "a call without a name": (
        lambda session: session.append(calling(replace(CALL, name=None))),  # type: ignore[arg-type]
        r"FunctionCall\.name: expected str, got NoneType None",
    ),
    "a result without a name": (
        lambda session: session.append(
            Message(Role.TOOL, [Part(function_response=ToolResult("c", None))])  # type: ignore[arg-type]
        ),
        r"ToolResult\.name: expected str, got NoneType None",
    ),
    "one part in place of a sequence": (
        lambda _: Message(Role.USER, Part("Hello")),  # type: ignore[arg-type]
        r"parts=Part\(.*: expected a sequence of Part; use Message\.from_text",
    ),
    "no parts": (
        lambda _: Message(Role.USER, None),  # type: ignore[arg-type]
        r"parts=None: expected a sequence of Part; use Message\.from_text",
    ),
    "a list of messages": (
        lambda session: session.append([*session.history]),  # type: ignore[arg-type]
        "expected a Message, got list .*: for message in messages: session.append",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_raises_an_error_with_the_remedy_and_changes_nothing(mistake: str) -> None:
    session = new_session()
    session.set_gc_plugin("gc_oldest")
    call, message = MISTAKES[mistake]
    strategy, before = session.strategy, saved_state(session)
    with pytest.raises(GCError, match=message):
        call(session)
    assert session.strategy is strategy
    assert saved_state(session) == before


# --- what a new session refuses ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"provider": 128_000}, r"provider=128000: expected a function; .*ProviderSession$"),
        ({"provider": object()}, r"provider=<object.*: expected a function; .*ProviderSession$"),
        ({"tools": [{"name": "read"}]}, r"tools=\[.*: expected a function$"),
        ({"policy_of": GCPolicy.LOCKED}, "policy_of=.*: expected a function$"),
        ({"on_source_removed": "log"}, "on_source_removed='log': expected a function$"),
        ({"on_instruction_budget_updated": []}, r"_updated=\[\]: expected a function$"),
        ({"stash": "stash.db"}, "stash='stash.db': expected a stash such as .*SqlStash"),
        ({"tool_policies": {"read": "lock"}}, r"tool_policies\['read'\]='lock': .*'locked'"),
    ],
)
def test_a_session_refuses_an_argument_of_another_type(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(GCConfigError, match=message):
        GCSession(context_limit=1_000, registry=registry_of("gc_oldest"), **options)


def test_the_policy_of_a_tool_may_be_given_as_a_string() -> None:
    policies: Any = {"read": "locked"}
    session = GCSession(registry=registry_of("gc_oldest"), tool_policies=policies)
    session.append(Message.from_text(Role.USER, "Hello"))
    booked = session.append(calling(CALL))
    entry = session.budget.entry_of(booked.message_id)
    assert entry is not None
    assert entry.effective_gc_policy() is GCPolicy.LOCKED


@pytest.mark.parametrize("given", ["lock", "pinned", 5])
def test_an_unknown_policy_lists_all_policies(given: Any) -> None:
    listed = r"is not a policy: expected one of GCPolicy\.LOCKED, GCPolicy\.PRESERVABLE, GCPolicy"
    with pytest.raises(ValueError, match=listed):
        Message.from_text(Role.USER, "Hello", policy=given)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda registry: registry.create(None), GCPluginError, "name of a strategy, got None"),
        (lambda registry: registry.create(OldestFirst), GCPluginError, "name of a strategy, got"),
        (
            lambda registry: registry.create("oldest", GCConfig()),
            GCConfigError,
            "oldest: expected a dict of options, got GCConfig; give it to set_gc_plugin",
        ),
        (
            lambda registry: registry.create("oldest", [1]),
            GCConfigError,
            "oldest: expected a dict of options, got list$",
        ),
    ],
)
def test_a_registry_refuses_what_is_not_a_name_with_options(
    call: Callable[[PluginRegistry], object], error: type[GCError], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(registry_of("gc_oldest"))


# --- roles ---


@pytest.mark.parametrize(
    ("given", "meant"),
    [("assistant", "MODEL"), ("developer", "SYSTEM"), ("function", "TOOL"), ("User", "USER")],
)
def test_the_role_of_a_provider_names_the_role_that_is_meant(given: str, meant: str) -> None:
    for make in (Role, lambda role: Message.from_text(role, "Hello")):
        with pytest.raises(
            ValueError, match=rf"{given!r} is not a role: did you mean Role\.{meant}\?"
        ):
            make(given)


@pytest.mark.parametrize("given", ["narrator", 5, None])
def test_an_unknown_role_lists_all_roles(given: Any) -> None:
    with pytest.raises(ValueError, match=r"expected one of Role\.USER, Role\.MODEL, Role\.TOOL"):
        Role(given)


# --- the history ---

CHANGES: dict[str, Callable[[Any], object]] = {
    "append": lambda history: history.append(history[0]),
    "extend": lambda history: history.extend(history),
    "insert": lambda history: history.insert(0, history[0]),
    "set": lambda history: history.__setitem__(0, history[0]),
    "delete": lambda history: history.__delitem__(0),
    "pop": lambda history: history.pop(),
    "remove": lambda history: history.remove(history[0]),
    "clear": lambda history: history.clear(),
    "reverse": lambda history: history.reverse(),
    "sort": lambda history: history.sort(key=str),
    "+=": lambda history: history.__iadd__(history),
    "*=": lambda history: history.__imul__(2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changing_the_history_raises_an_error_that_names_append(change: str) -> None:
    session = new_session()
    history = session.history
    with pytest.raises(TypeError, match=r"read-only, .*session\.append\(message\)"):
        CHANGES[change](history)
    assert len(history) == len(session.history) == 1


@given(st.lists(st.text(), max_size=5), st.slices(6))
def test_the_history_is_a_list_of_the_messages_at_that_moment(
    texts: list[str], part: slice
) -> None:
    session = GCSession(context_limit=1_000, registry=registry_of("gc_oldest"))
    messages = [session.append(Message.from_text(Role.USER, text)) for text in texts]
    history = session.history
    session.append(Message.from_text(Role.USER, "later"))
    assert isinstance(history, list)
    assert history == messages
    assert messages == history
    assert history[part] == messages[part]
    assert [*history, 1] == [*messages, 1]
    assert type(copy.copy(history)) is list
    assert json.dumps(history, default=str) == json.dumps(messages, default=str)
