"""The plugin registry: listing and creating strategies, hooks, and broken plugins."""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from jaato_gc import (
    Confidence,
    ContextUsage,
    GCConfig,
    GCConfigError,
    GCOutcome,
    GCPlugin,
    GCPluginError,
    GCResult,
    GCTriggerReason,
    Message,
    PluginRegistry,
    Role,
    choose_counter,
    discover_gc_plugins,
    load_gc_plugin,
)
from jaato_gc.plugin import (
    Collection,
    FormatInfo,
    GCStrategy,
    InstalledPlugin,
    PluginStatus,
    StrategyInfo,
    StrategySettings,
    SummarizerInfo,
    hookimpl,
)
from jaato_gc.plugins import hookspecs
from jaato_gc_testing import MemoryStash, OldestFirst, ScriptedPlugin, new_session

# --- samples ---


class Loose(ScriptedPlugin):
    """A plugin without core's base class."""

    name = "gc_loose"
    options: dict[str, Any] | None = None

    def __init__(self) -> None:
        super().__init__(lambda history: history)

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        self.options = config


class Strict(GCStrategy[StrategySettings]):
    """A strategy with core's base class."""

    name = "gc_strict"

    def select(self, collection: Collection) -> None:
        raise NotImplementedError


class Offers:
    """A plugin that registers some strategies."""

    def __init__(self, *infos: Any) -> None:
        self.infos = infos

    @hookimpl
    def jaato_gc_register_strategies(self) -> Any:
        return self.infos


class Counter:
    """A token counter."""

    confidence = Confidence.EXACT
    tolerance = 0.0

    def __init__(self, name: str) -> None:
        self.name = name

    def count_text(self, text: str) -> int:
        return len(text)


class CounterPlugin:
    """A plugin that counts for some models."""

    def __init__(self, name: str, prefix: str = "") -> None:
        self.counter = Counter(name)
        self.prefix = prefix

    @hookimpl
    def jaato_gc_token_counter(self, model: str | None) -> Counter | None:
        return self.counter if (model or "").startswith(self.prefix) else None


LOOSE = StrategyInfo("gc_loose", Loose, "Does nothing.")


@pytest.fixture
def registry() -> PluginRegistry:
    return PluginRegistry(load_installed=False)


def only_plugin(registry: PluginRegistry) -> InstalledPlugin:
    [plugin] = registry.plugins()
    return plugin


# --- listing ---


def test_an_empty_registry_lists_nothing(registry: PluginRegistry) -> None:
    assert registry.plugins() == []
    assert registry.strategies() == {}
    assert discover_gc_plugins(registry) == {}


def test_a_registered_plugin_is_listed_with_its_strategies(registry: PluginRegistry) -> None:
    registry.register(Offers(LOOSE), "mine")

    plugin = only_plugin(registry)
    assert (plugin.name, plugin.status, plugin.cause) == ("mine", PluginStatus.OK, None)
    assert plugin.strategies == [LOOSE]


def test_strategies_are_listed_by_name_in_order(registry: PluginRegistry) -> None:
    registry.register(Offers(StrategyInfo("gc_b", Loose), StrategyInfo("gc_c", Loose)), "two")
    registry.register(Offers(StrategyInfo("gc_a", Loose)), "one")

    assert list(registry.strategies()) == ["gc_a", "gc_b", "gc_c"]
    assert discover_gc_plugins(registry) == registry.strategies()


def test_registries_are_independent_of_each_other(registry: PluginRegistry) -> None:
    registry.register(Offers(LOOSE), "mine")

    assert PluginRegistry(load_installed=False).strategies() == {}


def test_two_plugins_may_have_the_same_name(registry: PluginRegistry) -> None:
    registry.register(Offers(StrategyInfo("gc_a", Loose)), "same")
    registry.register(Offers(StrategyInfo("gc_b", Loose)), "same")

    assert list(registry.strategies()) == ["gc_a", "gc_b"]


# --- creating a strategy ---


@pytest.mark.parametrize("announced", ["gc_loose", "loose"])
@pytest.mark.parametrize("asked", ["gc_loose", "loose"])
def test_a_strategy_is_chosen_with_or_without_the_prefix(
    registry: PluginRegistry, announced: str, asked: str
) -> None:
    registry.register(Offers(StrategyInfo(announced, Loose)), "mine")

    assert isinstance(registry.create(asked), Loose)
    assert isinstance(load_gc_plugin(asked, registry=registry), Loose)


def test_an_exact_name_is_preferred_to_another_spelling(registry: PluginRegistry) -> None:
    registry.register(Offers(StrategyInfo("gc_same", Strict), StrategyInfo("same", Loose)), "both")

    assert isinstance(registry.create("same"), Loose)
    assert isinstance(registry.create("gc_same"), Strict)


def test_a_strategy_is_new_each_time_and_initialized(registry: PluginRegistry) -> None:
    registry.register(Offers(LOOSE), "mine")
    first, second = registry.create("loose"), registry.create("loose", {"depth": 2})

    assert isinstance(first, Loose)
    assert isinstance(second, Loose)
    assert first is not second
    assert first.options == {}
    assert second.options == {"depth": 2}


def test_a_strategy_does_not_share_the_callers_options(registry: PluginRegistry) -> None:
    registry.register(Offers(LOOSE), "mine")
    options = {"depth": 2}
    plugin = registry.create("loose", options)
    options["depth"] = 3

    assert isinstance(plugin, Loose)
    assert plugin.options == {"depth": 2}


@pytest.mark.parametrize("model", [None, StrategySettings])
def test_the_base_class_validates_options_with_or_without_a_registered_model(
    registry: PluginRegistry, model: type[BaseModel] | None
) -> None:
    registry.register(Offers(StrategyInfo("gc_strict", Strict, config_model=model)), "mine")

    with pytest.raises(GCConfigError, match="gc_strict: unknown key 'notify': did you mean"):
        registry.create("strict", {"notify": True})
    with pytest.raises(GCConfigError, match="notify_on_gc='yes'"):
        registry.create("strict", {"notify_on_gc": "yes"})


class Model(BaseModel):
    depth: int = Field(1, ge=1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dept": 1}, "gc_loose: unknown key 'dept': did you mean 'depth'?"),
        ({"depth": 0}, "gc_loose: depth=0: input should be greater than or equal to 1"),
        ({"max_turns": 0}, "max_turns=0: input should be greater than 0"),
    ],
)
def test_a_registered_model_validates_the_options_of_any_plugin(
    registry: PluginRegistry, options: dict[str, Any], expected: str
) -> None:
    registry.register(Offers(StrategyInfo("gc_loose", Loose, config_model=Model)), "mine")

    with pytest.raises(GCConfigError) as caught:
        registry.create("loose", options)

    assert str(caught.value) == expected


def test_a_plugin_with_a_model_gets_its_options_unchanged(
    registry: PluginRegistry,
) -> None:
    registry.register(Offers(StrategyInfo("gc_loose", Loose, config_model=Model)), "mine")
    plugin = registry.create("loose", {"depth": 3, "max_turns": 2})

    assert isinstance(plugin, Loose)
    assert plugin.options == {"depth": 3, "max_turns": 2}


def test_an_unknown_strategy_is_an_error_that_lists_the_installed_ones(
    registry: PluginRegistry,
) -> None:
    with pytest.raises(
        GCPluginError, match="unknown strategy 'zzz': installed strategies are none"
    ):
        registry.create("zzz")

    registry.register(Offers(LOOSE), "mine")

    with pytest.raises(GCPluginError, match="'zzz': installed strategies are gc_loose"):
        registry.create("zzz")
    with pytest.raises(GCPluginError, match="'lose': did you mean 'gc_loose'"):
        registry.create("lose")


@pytest.mark.parametrize("name", ["truncate", "summarize", "hybrid", "budget", "marksweep"])
@pytest.mark.parametrize("prefix", ["", "gc_"])
def test_a_strategy_of_ours_that_is_not_installed_is_an_error_with_the_pip_command(
    registry: PluginRegistry, prefix: str, name: str
) -> None:
    with pytest.raises(GCPluginError, match=f"{prefix}{name}.*: pip install jaato-gc-{name}$"):
        registry.create(prefix + name)


def test_a_name_that_two_plugins_offer_is_an_error_that_names_both(
    registry: PluginRegistry,
) -> None:
    registry.register(Offers(LOOSE, StrategyInfo("gc_other", Loose)), "first")
    registry.register(Offers(LOOSE), "second")

    with pytest.raises(GCPluginError, match=r"'first' .* and by plugin 'second' .*: uninstall one"):
        registry.create("loose")
    assert list(registry.strategies()) == ["gc_other"]


# --- strategies that fail ---


class FailingToInitialize(Loose):
    def initialize(self, config: dict[str, Any] | None = None) -> None:
        super().initialize(config)
        raise RuntimeError("no disk left")


def raising_factory() -> GCPlugin:
    raise RuntimeError("no disk left")


@pytest.mark.parametrize("factory", [FailingToInitialize, raising_factory])
def test_a_failing_strategy_is_an_error_with_its_plugin_and_cause(
    registry: PluginRegistry, factory: Callable[[], GCPlugin]
) -> None:
    registry.register(Offers(StrategyInfo("gc_failing", factory)), "mine")

    with pytest.raises(GCPluginError) as caught:
        registry.create("failing")

    assert str(caught.value) == (
        "plugin 'mine' of this process failed to set up 'gc_failing': RuntimeError: no disk left"
    )
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_factory_can_not_end_the_process(registry: PluginRegistry) -> None:
    def leave() -> GCPlugin:
        raise SystemExit(3)

    registry.register(Offers(StrategyInfo("gc_leaving", leave)), "mine")

    with pytest.raises(GCPluginError, match="failed to set up 'gc_leaving': SystemExit: 3"):
        registry.create("leaving")


@pytest.mark.parametrize("factory", [object, lambda: None])
def test_an_object_that_is_not_a_strategy_is_an_error_that_names_the_missing_methods(
    registry: PluginRegistry, factory: Any
) -> None:
    registry.register(Offers(StrategyInfo("gc_without", factory)), "mine")
    missing = "name, initialize, shutdown, should_collect, collect"

    with pytest.raises(GCPluginError, match=f"'mine'.*: strategy 'gc_without' lacks {missing}"):
        registry.create("without")


class WithoutSelect(GCStrategy[StrategySettings]):
    name = "gc_without"


def test_a_strategy_without_select_is_refused_when_it_is_created(registry: PluginRegistry) -> None:
    registry.register(Offers(StrategyInfo("gc_without", WithoutSelect)), "mine")

    with pytest.raises(GCPluginError, match=r"'mine'.*'gc_without' lacks select"):
        registry.create("without")


def test_a_strategy_without_select_fails_with_an_error_that_names_it() -> None:
    session = new_session(WithoutSelect(), GCConfig(preserve_recent_turns=0))
    session.append(Message.from_text(Role.USER, "hello"))

    result = session.manual_gc()

    assert result.outcome is GCOutcome.FAILED
    assert "WithoutSelect needs a select method" in str(result.error)


def test_a_factory_that_can_not_be_called_is_an_error(registry: PluginRegistry) -> None:
    factory: Any = 3
    registry.register(Offers(StrategyInfo("gc_three", factory)), "mine")

    with pytest.raises(GCPluginError, match=r"'mine'.* failed to set up 'gc_three': TypeError"):
        registry.create("three")


# --- invalid plugins ---


class RaisingHook:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        raise RuntimeError("no disk left")


class RaisingLate:
    @hookimpl
    def jaato_gc_register_strategies(self) -> Iterator[StrategyInfo]:
        yield LOOSE
        raise RuntimeError("no disk left")


class UnknownArgument:
    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult, colour: str) -> None: ...


class UnknownHook:
    @hookimpl
    def jaato_gc_after_colect(self, result: GCResult) -> None: ...


class Wrapper:
    @hookimpl(wrapper=True)
    def jaato_gc_register_strategies(self) -> Generator[None, Any, Any]:
        return (yield)


class OldWrapper:
    @hookimpl(hookwrapper=True)
    def jaato_gc_token_counter(self) -> Generator[None, Any, None]:
        yield


NAMELESS = StrategyInfo(None, Loose)  # type: ignore[arg-type]
INVALID = {
    "raising hook": (RaisingHook(), "RuntimeError: no disk left"),
    "raising after a first strategy": (RaisingLate(), "RuntimeError: no disk left"),
    "unknown argument": (UnknownArgument(), "colour"),
    "unknown hook": (UnknownHook(), "jaato_gc_after_colect"),
    "wrapper": (Wrapper(), "jaato_gc_register_strategies can't be wrapped"),
    "old wrapper": (OldWrapper(), "jaato_gc_token_counter can't be wrapped"),
    "class instead of an instance": (RaisingHook, "'self'"),
    "a class among the strategies": (Offers(Loose), "expected a StrategyInfo, got "),
    "a string for the strategies": (Offers(*"gc_loose"), "expected a StrategyInfo, got 'g'"),
    "a strategy without a name": (Offers(NAMELESS), "expected a StrategyInfo, got "),
}


@pytest.mark.parametrize(("plugin", "cause"), INVALID.values(), ids=INVALID.keys())
def test_an_invalid_plugin_is_refused_with_its_cause_and_hides_no_other(
    registry: PluginRegistry, plugin: object, cause: str
) -> None:
    registry.register(Offers(StrategyInfo("gc_before", Loose)), "before")
    with pytest.raises(GCPluginError) as caught:
        registry.register(plugin, "invalid")
    registry.register(Offers(StrategyInfo("gc_after", Loose)), "after")

    assert str(caught.value).startswith("plugin 'invalid' of this process can't be used: ")
    assert cause in str(caught.value)
    assert list(registry.strategies()) == ["gc_after", "gc_before"]
    assert [each.status for each in registry.plugins()] == ["ok", "broken", "ok"]


@pytest.mark.parametrize("asked", ["invalid", "gc_invalid"])
def test_choosing_a_broken_plugin_raises_its_cause(registry: PluginRegistry, asked: str) -> None:
    with pytest.raises(GCPluginError):
        registry.register(RaisingHook(), "invalid")

    with pytest.raises(GCPluginError, match=r"'invalid' .* is broken: RuntimeError: no disk left"):
        registry.create(asked)


def test_no_hook_of_a_refused_plugin_is_called(registry: PluginRegistry) -> None:
    calls = []

    class Half(UnknownHook):
        @hookimpl
        def jaato_gc_threshold_crossed(self) -> None:
            calls.append(self)

    with pytest.raises(GCPluginError):
        registry.register(Half(), "half")
    registry.notify("jaato_gc_threshold_crossed", percent_used=1.0, threshold=1.0)

    assert calls == []


def test_registering_a_plugin_twice_is_an_error_that_leaves_the_first_in_place(
    registry: PluginRegistry,
) -> None:
    plugin = CounterPlugin("mine")
    registry.register(plugin, "first")

    with pytest.raises(GCPluginError, match="already registered"):
        registry.register(plugin, "second")

    assert registry.token_counter("any") is plugin.counter


def test_an_object_without_hooks_is_a_plugin_that_does_nothing(registry: PluginRegistry) -> None:
    registry.register(object(), "idle")

    assert only_plugin(registry).status is PluginStatus.OK
    assert registry.strategies() == {}


# --- hooks: each has a test that is named after it ---


def test_jaato_gc_register_strategies_is_called_once(registry: PluginRegistry) -> None:
    calls = []

    class Counting:
        @hookimpl
        def jaato_gc_register_strategies(self) -> Iterator[StrategyInfo]:
            calls.append(self)
            yield LOOSE

    registry.register(Counting(), "mine")
    registry.strategies()
    registry.create("loose")
    registry.plugins()

    assert len(calls) == 1


def test_jaato_gc_token_counter_is_asked_for_the_model(registry: PluginRegistry) -> None:
    acme = CounterPlugin("acme", prefix="acme-")
    registry.register(acme, "acme")

    assert registry.token_counter("acme-1") is acme.counter
    assert registry.token_counter("other").name == choose_counter("other").name
    assert registry.token_counter().name == choose_counter().name


def test_jaato_gc_token_counter_uses_the_first_result(registry: PluginRegistry) -> None:
    asked = []

    class Asked(CounterPlugin):
        @hookimpl
        def jaato_gc_token_counter(self, model: str | None) -> Counter | None:
            asked.append(self.counter.name)
            return super().jaato_gc_token_counter(model)

    registry.register(Asked("last"), "last")
    registry.register(Asked("middle"), "middle")
    registry.register(Asked("not mine", prefix="x"), "first")

    assert registry.token_counter("any").name == "middle"
    assert asked == ["not mine", "middle"]


def test_jaato_gc_token_counter_with_tryfirst_is_asked_first(registry: PluginRegistry) -> None:
    class First(CounterPlugin):
        @hookimpl(tryfirst=True)
        def jaato_gc_token_counter(self, model: str | None) -> Counter | None:
            return super().jaato_gc_token_counter(model)

    registry.register(First("first"), "first")
    registry.register(CounterPlugin("later"), "later")

    assert registry.token_counter("any").name == "first"


class RaisingCounter:
    @hookimpl
    def jaato_gc_token_counter(self) -> Counter:
        raise RuntimeError("no disk left")


class NoCounter:
    @hookimpl
    def jaato_gc_token_counter(self) -> str:
        return "cl100k_base"


@pytest.mark.parametrize(
    ("failing", "cause"),
    [
        (RaisingCounter(), "RuntimeError: no disk left"),
        (NoCounter(), "GCPluginError: expected a TokenCounter, got 'cl100k_base'"),
    ],
)
def test_jaato_gc_token_counter_that_fails_is_skipped_and_listed_as_broken(
    registry: PluginRegistry, caplog: pytest.LogCaptureFixture, failing: object, cause: str
) -> None:
    good = CounterPlugin("good")
    registry.register(good, "good")
    registry.register(failing, "failing")

    assert registry.token_counter("any") is good.counter

    broken = registry.plugins()[1]
    assert (broken.name, broken.status, broken.cause) == ("failing", PluginStatus.BROKEN, cause)
    assert f"plugin 'failing' of this process can't be used: {cause}" in caplog.text


class Windows:
    """A plugin that knows the windows of some models."""

    def __init__(self, windows: Mapping[str, Any]) -> None:
        self.windows = windows

    @hookimpl
    def jaato_gc_model_window(self, model: str) -> Any:
        return self.windows.get(model)


def test_jaato_gc_model_window_uses_the_first_plugin_that_knows_the_model(
    registry: PluginRegistry,
) -> None:
    registry.register(Windows({"acme-1": 32_000, "acme-2": 64_000}), "last")
    registry.register(Windows({"acme-1": 16_000}), "first")

    assert registry.model_window("acme-1") == 16_000
    assert registry.model_window("acme-2") == 64_000
    assert registry.model_window("other") is None
    assert registry.model_window(None) is None


@pytest.mark.parametrize("answer", [0, -1, True, 32_000.0, "32k"])
def test_jaato_gc_model_window_that_gives_no_window_is_skipped_and_listed_as_broken(
    registry: PluginRegistry, answer: Any
) -> None:
    registry.register(Windows({"acme-1": 32_000}), "good")
    registry.register(Windows({"acme-1": answer}), "failing")

    assert registry.model_window("acme-1") == 32_000

    broken = registry.plugins()[1]
    assert (broken.name, broken.status) == ("failing", PluginStatus.BROKEN)
    assert broken.cause == f"GCPluginError: expected a positive integer, got {answer!r}"


def test_a_strategy_of_a_plugin_that_broke_later_is_refused_with_the_cause(
    registry: PluginRegistry,
) -> None:
    class Both(Offers, RaisingCounter):
        pass

    registry.register(Both(LOOSE), "both")
    registry.token_counter("any")

    with pytest.raises(GCPluginError, match=r"'loose' can't be used: plugin 'both' .*no disk"):
        registry.create("loose")


class Observer:
    """Implements every observing hook, with all arguments."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    @hookimpl
    def jaato_gc_session_started(self, agent_id: str, session_id: str) -> None:
        self.seen.append((agent_id, session_id))

    @hookimpl
    def jaato_gc_strategy_set(
        self, strategy: str | None, config: GCConfig, agent_id: str, session_id: str
    ) -> None:
        self.seen.append((strategy, config, agent_id, session_id))

    @hookimpl
    def jaato_gc_before_collect(
        self,
        strategy: str,
        history: tuple[Message, ...],
        context_usage: ContextUsage,
        reason: GCTriggerReason,
        agent_id: str,
        session_id: str,
    ) -> None:
        self.seen.append((strategy, history, context_usage, reason, agent_id, session_id))

    @hookimpl
    def jaato_gc_after_collect(
        self,
        result: GCResult,
        history: tuple[Message, ...],
        agent_id: str,
        seconds: float,
        session_id: str,
    ) -> None:
        self.seen.append((result, history, agent_id, seconds, session_id))

    @hookimpl
    def jaato_gc_after_undo(
        self, result: GCResult, history: tuple[Message, ...], agent_id: str, session_id: str
    ) -> None:
        self.seen.append((result, history, agent_id, session_id))

    @hookimpl
    def jaato_gc_after_restore(
        self, result: GCResult, history: tuple[Message, ...], agent_id: str, session_id: str
    ) -> None:
        self.seen.append((result, history, agent_id, session_id))

    @hookimpl
    def jaato_gc_threshold_crossed(
        self, percent_used: float, threshold: float, agent_id: str, session_id: str
    ) -> None:
        self.seen.append((percent_used, threshold, agent_id, session_id))

    @hookimpl
    def jaato_gc_budget_updated(
        self, agent_id: str, snapshot: dict[str, Any], session_id: str
    ) -> None:
        self.seen.append((agent_id, snapshot, session_id))

    @hookimpl
    def jaato_gc_session_ended(self, agent_id: str, session_id: str) -> None:
        self.seen.append((agent_id, session_id))


HISTORY = (Message.from_text(Role.USER, "hello"),)
RESULT = GCResult(
    success=True,
    items_collected=1,
    tokens_before=10,
    tokens_after=5,
    plugin_name="gc_loose",
    trigger_reason=GCTriggerReason.MANUAL,
)

IDS = {"agent_id": "main", "session_id": "s-1"}
OBSERVED: dict[str, dict[str, Any]] = {
    "jaato_gc_session_started": IDS,
    "jaato_gc_before_collect": {
        "strategy": "gc_loose",
        "history": HISTORY,
        "context_usage": {"percent_used": 81.0},
        "reason": GCTriggerReason.THRESHOLD,
        **IDS,
    },
    "jaato_gc_strategy_set": {"strategy": "gc_oldest", "config": GCConfig(), **IDS},
    "jaato_gc_after_collect": {
        "result": RESULT,
        "history": HISTORY,
        "agent_id": "main",
        "seconds": 0.25,
        "session_id": "s-1",
    },
    "jaato_gc_after_undo": {"result": RESULT, "history": HISTORY, **IDS},
    "jaato_gc_after_restore": {"result": RESULT, "history": HISTORY, **IDS},
    "jaato_gc_threshold_crossed": {"percent_used": 81.0, "threshold": 80.0, **IDS},
    "jaato_gc_budget_updated": {
        "agent_id": "main",
        "snapshot": {"utilization_percent": 81.0},
        "session_id": "s-1",
    },
    "jaato_gc_session_ended": IDS,
}
each_observed = pytest.mark.parametrize(("hook", "arguments"), OBSERVED.items(), ids=OBSERVED)


def check_observers(registry: PluginRegistry, hook: str) -> None:
    """Checks that every observer gets exactly the arguments of the hook."""
    observers = [Observer(), Observer()]
    for number, observer in enumerate(observers):
        registry.register(observer, f"observer {number}")

    registry.notify(hook, **OBSERVED[hook])

    for observer in observers:
        [seen] = observer.seen
        assert [id(value) for value in seen] == [id(value) for value in OBSERVED[hook].values()]


def test_jaato_gc_session_started(registry: PluginRegistry) -> None:
    check_observers(registry, "jaato_gc_session_started")


def test_jaato_gc_strategy_set(registry: PluginRegistry) -> None:
    check_observers(registry, "jaato_gc_strategy_set")


def test_jaato_gc_before_collect(registry: PluginRegistry) -> None:
    check_observers(registry, "jaato_gc_before_collect")


def test_jaato_gc_after_collect(registry: PluginRegistry) -> None:
    check_observers(registry, "jaato_gc_after_collect")


def test_jaato_gc_after_undo(registry: PluginRegistry) -> None:
    check_observers(registry, "jaato_gc_after_undo")


def test_jaato_gc_after_restore(registry: PluginRegistry) -> None:
    check_observers(registry, "jaato_gc_after_restore")


def test_jaato_gc_threshold_crossed(registry: PluginRegistry) -> None:
    check_observers(registry, "jaato_gc_threshold_crossed")


def test_jaato_gc_budget_updated(registry: PluginRegistry) -> None:
    check_observers(registry, "jaato_gc_budget_updated")


def test_jaato_gc_session_ended(registry: PluginRegistry) -> None:
    check_observers(registry, "jaato_gc_session_ended")


@each_observed
def test_a_hook_without_observers_is_called_without_error(
    registry: PluginRegistry, hook: str, arguments: dict[str, Any]
) -> None:
    registry.register(Offers(LOOSE), "no observer")

    registry.notify(hook, **arguments)

    assert not registry.is_observed(hook)


@each_observed
def test_an_observer_may_leave_out_arguments(
    registry: PluginRegistry, hook: str, arguments: dict[str, Any]
) -> None:
    calls = []

    class Brief:
        pass

    setattr(Brief, hook, hookimpl(lambda self: calls.append(self)))
    registry.register(Brief(), "brief")

    registry.notify(hook, **arguments)

    assert len(calls) == 1


@each_observed
def test_a_failing_observer_is_logged_and_does_not_stop_the_others(
    registry: PluginRegistry,
    caplog: pytest.LogCaptureFixture,
    hook: str,
    arguments: dict[str, Any],
) -> None:
    class Failing:
        pass

    def fail(self: object) -> None:
        raise RuntimeError(f"{self}: no disk left")

    setattr(Failing, hook, hookimpl(fail))
    before, after = Observer(), Observer()
    registry.register(before, "before")
    registry.register(Failing(), "failing")
    registry.register(after, "after")

    registry.notify(hook, **arguments)

    assert len(before.seen) == len(after.seen) == 1
    [record] = caplog.records
    assert (record.name, record.levelno) == ("jaato_gc", logging.ERROR)
    assert f"plugin 'failing' of this process failed in {hook}" in record.message
    assert "no disk left" in caplog.text


def test_a_failing_observer_is_called_again_next_time(registry: PluginRegistry) -> None:
    calls = []

    class Failing:
        @hookimpl
        def jaato_gc_threshold_crossed(self) -> None:
            calls.append(self)
            raise RuntimeError("no disk left")

    registry.register(Failing(), "failing")
    for _ in range(2):
        registry.notify("jaato_gc_threshold_crossed", percent_used=81.0, threshold=80.0)

    assert len(calls) == 2
    assert only_plugin(registry).status is PluginStatus.OK


def test_an_interrupt_is_not_swallowed(registry: PluginRegistry) -> None:
    class Interrupted:
        @hookimpl
        def jaato_gc_threshold_crossed(self) -> None:
            raise KeyboardInterrupt

    registry.register(Interrupted(), "interrupted")

    with pytest.raises(KeyboardInterrupt):
        registry.notify("jaato_gc_threshold_crossed", percent_used=81.0, threshold=80.0)


def test_jaato_gc_register_formats_announces_formats(registry: PluginRegistry) -> None:
    class Formats:
        @hookimpl
        def jaato_gc_register_formats(self) -> list[FormatInfo]:
            return [FormatInfo("acme-chat", dict, "Acme's chat logs.")]

    registry.register(Formats(), "acme")

    assert registry.formats() == {"acme-chat": FormatInfo("acme-chat", dict, "Acme's chat logs.")}


def test_jaato_gc_register_formats_that_gives_something_else_is_broken(
    registry: PluginRegistry,
) -> None:
    class Formats:
        @hookimpl
        def jaato_gc_register_formats(self) -> list[str]:
            return ["acme-chat"]

    with pytest.raises(GCPluginError, match="expected a FormatInfo, got 'acme-chat'"):
        registry.register(Formats(), "acme")
    assert registry.formats() == {}


def test_jaato_gc_register_summarizers_announces_summarizers(registry: PluginRegistry) -> None:
    class Summarizers:
        @hookimpl
        def jaato_gc_register_summarizers(self) -> list[SummarizerInfo]:
            return [SummarizerInfo("acme-small", str.upper)]

    registry.register(Summarizers(), "acme")

    assert registry.summarizers() == {"acme-small": SummarizerInfo("acme-small", str.upper)}


def test_jaato_gc_register_summarizers_that_gives_something_else_is_broken(
    registry: PluginRegistry,
) -> None:
    class Summarizers:
        @hookimpl
        def jaato_gc_register_summarizers(self) -> list[Any]:
            return [str.upper]

    with pytest.raises(GCPluginError, match="expected a SummarizerInfo"):
        registry.register(Summarizers(), "acme")
    assert registry.summarizers() == {}


class StashPlugin:
    def __init__(self) -> None:
        self.stashes: dict[str, MemoryStash] = {}

    @hookimpl
    def jaato_gc_stash(self, agent_id: str) -> MemoryStash:
        return self.stashes.setdefault(agent_id, MemoryStash())


def test_jaato_gc_stash_gets_what_a_session_removes(registry: PluginRegistry) -> None:
    plugin = StashPlugin()
    registry.register(plugin, "memory")
    config = GCConfig(preserve_recent_turns=1)
    session = new_session(OldestFirst(), config, registry=registry, agent_id="scout")
    for number in range(3):
        session.append(Message.from_text(Role.USER, f"request {number}"))
    [item] = session.manual_gc().removal_list

    [message] = plugin.stashes["scout"].restore(item.stash_keys)
    assert message.text == "request 1"


def test_jaato_gc_stash_that_returns_something_else_is_skipped_and_listed_as_broken(
    registry: PluginRegistry,
) -> None:
    class Nonsense:
        @hookimpl
        def jaato_gc_stash(self) -> str:
            return "the attic"

    registry.register(Nonsense(), "nonsense")

    assert registry.stash() is None
    assert registry.plugins()[0].status is PluginStatus.BROKEN


HOOKS = [name for name in vars(hookspecs) if name.startswith("jaato_gc_")]


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_test_named_after_it(hook: str) -> None:
    tests = Path(__file__).parent.glob("test_*.py")

    assert any(f"\ndef test_{hook}" in each.read_text(encoding="utf-8") for each in tests)


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_says_who_calls_it_what_an_error_does_and_how_to_use_it(hook: str) -> None:
    docstring = vars(hookspecs)[hook].__doc__

    assert "Called by " in docstring
    assert "rror" in docstring or "raises" in docstring
    assert "Example::" in docstring
    assert f"def {hook}(" in docstring
