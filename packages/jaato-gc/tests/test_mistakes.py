"""Mistakes of hosts: each error says what is wrong and what to do, and changes nothing."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import (
    GCConfig,
    GCError,
    GCPluginError,
    GCSession,
    Message,
    PluginRegistry,
    Role,
    SavedSessionError,
)
from jaato_gc.plugin import StrategyInfo, hookimpl
from jaato_gc_testing import OldestFirst, saved_state


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
