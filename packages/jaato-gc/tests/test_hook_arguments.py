"""Arguments of hooks: an implementation gets every value that it names, with or without a default.

One plugin serves cores of different ages: an argument that this core has is filled in, and one that
it does not have keeps its default.
"""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from jaato_gc import (
    GCConfig,
    GCPluginError,
    GCResult,
    GCSession,
    GCTriggerReason,
    PluginRegistry,
)
from jaato_gc.plugin import hookimpl
from jaato_gc.plugins import hookspecs
from jaato_gc_testing import MemoryStash, OldestFirst, new_session, speak

HOOKS = {
    name: list(inspect.signature(hook).parameters)
    for name, hook in vars(hookspecs).items()
    if name.startswith("jaato_gc_")
}
WITH_ARGUMENTS = {name: arguments for name, arguments in HOOKS.items() if arguments}

MISSING = "missing"
"""The default of every argument in these tests."""

KNOWN: dict[str, set[Any]] = {
    "agent_id": {"scout"},
    "session_id": {"s-1", ""},
    "model": {"acme-1"},
    "strategy": {"gc_oldest", None},
    "percent_used": {95.0},
    "threshold": {80.0},
}
"""The values that these tests give."""

TYPES: dict[str, type] = {
    "config": GCConfig,
    "context_usage": dict,
    "history": tuple,
    "options": dict,
    "reason": GCTriggerReason,
    "result": GCResult,
    "seconds": float,
    "snapshot": dict,
}
"""The types of all other arguments."""

FORMS: dict[str, str] = {
    "without a default": "self, {name}",
    "with a default": "self, {name}=MISSING",
    "with a default, after a keyword marker": "self, *, {name}=MISSING",
    "without a default, after a keyword marker": "self, *, {name}",
    "with a default, positional only": "self, {name}=MISSING, /",
    "with an argument of a newer core": "self, {name}, of_tomorrow=MISSING",
    "with an argument of a newer core, before it": "self, of_tomorrow=MISSING, {name}=MISSING",
}
"""How an implementation can name an argument."""


def observer_of(
    hook: str, argument: str, form: str, record: Callable[[str, str, Any], None]
) -> object:
    """Returns a plugin that implements one hook, and records the value of one argument."""
    signature = FORMS[form].format(name=argument)
    source = f"def {hook}({signature}):\n    record({hook!r}, {argument!r}, {argument})\n"
    namespace: dict[str, Any] = {"record": record, "MISSING": MISSING}
    exec(source, namespace)
    return type("Plugin", (), {hook: hookimpl(namespace[hook])})()


@pytest.fixture(scope="module")
def seen() -> dict[tuple[str, str, str], list[Any]]:
    """The values that each form of each argument of each hook gets in one run of a session."""
    registry = PluginRegistry(load_installed=False)
    seen: dict[tuple[str, str, str], list[Any]] = {}
    for form in FORMS:

        def record(hook: str, argument: str, value: Any, form: str = form) -> None:
            seen.setdefault((hook, argument, form), []).append(value)

        for hook, arguments in WITH_ARGUMENTS.items():
            for argument in arguments:
                plugin = observer_of(hook, argument, form, record)
                registry.register(plugin, f"{hook}.{argument}.{form}")
    run_through_every_hook(registry)
    return seen


def run_through_every_hook(registry: PluginRegistry) -> None:
    """Uses a session so that every hook with arguments is called."""
    GCSession(model="acme-1", agent_id="scout", registry=registry).close()
    stash = MemoryStash()
    with new_session(
        OldestFirst(),
        GCConfig(preserve_recent_turns=1),
        registry=registry,
        agent_id="scout",
        session_id="s-1",
        stash=stash,
        context_limit=2_000,
    ) as session:
        speak(session, 0, 1, 2)
        session.report_usage(1_900)
        [item, *_] = session.manual_gc().removal_list
        session.restore_stashed(item.stash_keys)
        session.undo()
    for plugin in registry.plugins():
        if plugin.name.startswith("jaato_gc_configure."):
            registry.configure({plugin.name: {"depth": 3}})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("hook", "argument"),
    [(hook, argument) for hook, arguments in WITH_ARGUMENTS.items() for argument in arguments],
)
def test_an_argument_has_its_value_however_an_implementation_names_it(
    seen: dict[tuple[str, str, str], list[Any]], hook: str, argument: str, form: str
) -> None:
    values = seen[hook, argument, form]

    assert values == seen[hook, argument, "without a default"]
    assert not any(isinstance(value, str) and value == MISSING for value in values)
    if argument in KNOWN:
        assert set(values) <= KNOWN[argument]
    else:
        assert all(isinstance(value, TYPES[argument]) for value in values)


def test_these_tests_know_what_every_argument_is() -> None:
    arguments = {argument for arguments in WITH_ARGUMENTS.values() for argument in arguments}

    assert arguments == KNOWN.keys() | TYPES.keys()
    assert not KNOWN.keys() & TYPES.keys()


def test_a_keyword_that_no_core_has_is_refused() -> None:
    class Plugin:
        @hookimpl
        def jaato_gc_after_collect(self, *, colour: str) -> None: ...

    registry = PluginRegistry(load_installed=False)

    with pytest.raises(GCPluginError, match=r"jaato_gc_after_collect has no argument 'colour'"):
        registry.register(Plugin(), "mine")


def test_an_implementation_can_take_all_arguments() -> None:
    seen: list[dict[str, Any]] = []

    class Plugin:
        @hookimpl
        def jaato_gc_threshold_crossed(self, percent_used: float, **others: Any) -> None:
            seen.append({"percent_used": percent_used, **others})

    registry = PluginRegistry(load_installed=False)
    registry.register(Plugin(), "mine")
    arguments = {"percent_used": 81.0, "threshold": 80.0, "agent_id": "main", "session_id": "s"}
    registry.notify("jaato_gc_threshold_crossed", **arguments)

    assert seen == [arguments]


def test_the_registry_lists_all_hooks_with_their_arguments() -> None:
    listed = PluginRegistry(load_installed=False).hooks()

    assert {name: list(arguments) for name, arguments in listed.items()} == HOOKS
