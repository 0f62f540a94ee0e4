"""Discovery of plugins through the metadata of installed distributions."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from jaato_gc import (
    GCConfig,
    GCConfigError,
    GCPluginError,
    GCSession,
    GCTriggerReason,
    Message,
    PluginRegistry,
    Role,
    discover_gc_plugins,
    load_gc_plugin,
)
from jaato_gc.plugin import PluginStatus

GOOD = """
from jaato_gc.plugin import GCStrategy, StrategyInfo, hookimpl

class Strategy(GCStrategy):
    name = "gc_{name}"

    def collect(self, history, context_usage, config, reason, budget=None):
        raise NotImplementedError

@hookimpl
def jaato_gc_register_strategies():
    return [StrategyInfo(Strategy.name, Strategy, "A sample.")]
"""

# The example plugin of the seed README, with its imports changed.
SEEDS_STYLE = """
from jaato_gc import GCPlugin, GCConfig, GCResult, GCTriggerReason

class MyCustomGCPlugin:
    @property
    def name(self) -> str:
        return "gc_custom"

    def initialize(self, config=None):
        self._config = config or {}

    def shutdown(self):
        pass

    def should_collect(self, context_usage, config):
        percent = context_usage.get('percent_used', 0)
        if percent >= config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(self, history, context_usage, config, reason):
        # Implement your GC logic
        new_history = history[-1:]
        result = GCResult(
            success=True,
            items_collected=len(history) - 1,
            tokens_before=100,
            tokens_after=10,
            plugin_name=self.name,
            trigger_reason=reason
        )
        return new_history, result

def create_plugin():
    return MyCustomGCPlugin()
"""

WATCHING = """
from jaato_gc.plugin import hookimpl
from jaato_gc_testing import COUNTER as counter, MemoryStash

stash = MemoryStash()
seen = []

@hookimpl
def jaato_gc_stash():
    return stash

@hookimpl
def jaato_gc_token_counter():
    return counter

@hookimpl
def jaato_gc_after_collect(result):
    seen.append(result.plugin_name)
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts distributions on sys.path, each with one module and one entry point."""
    monkeypatch.syspath_prepend(tmp_path)
    modules = []

    def install(
        distribution: str,
        code: str,
        *,
        entry_point: str = "",
        group: str = "jaato_gc",
        suffix: str = "",
        entry_points: str | None = None,
    ) -> None:
        module = distribution.lower().replace("-", "_")
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(code)
        folder = tmp_path / f"{module}-1.2.dist-info"
        folder.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
        (folder / "METADATA").write_text(metadata)
        if entry_points is None:
            entry_points = f"[{group}]\n{entry_point or module} = {module}{suffix}\n"
        (folder / "entry_points.txt").write_text(entry_points)
        importlib.invalidate_caches()

    yield install
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAATO_GC_LOAD_PLUGINS", "JAATO_GC_DISABLED_PLUGINS"):
        monkeypatch.delenv(name, raising=False)


def status_of(registry: PluginRegistry, name: str) -> tuple[PluginStatus, str | None]:
    [plugin] = [plugin for plugin in registry.plugins() if plugin.name == name]
    return plugin.status, plugin.cause


def python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return run.stdout.strip()


# --- valid plugins ---


def test_the_installed_truncate_plugin_is_found() -> None:
    [plugin] = [plugin for plugin in PluginRegistry().plugins() if plugin.name == "truncate"]

    assert plugin.status is PluginStatus.OK
    assert plugin.distribution == "jaato-gc-truncate"
    assert plugin.version == version("jaato-gc-truncate")
    assert "gc_truncate" in discover_gc_plugins()
    assert load_gc_plugin("truncate").name == load_gc_plugin("gc_truncate").name == "gc_truncate"


def test_a_plugin_is_found_by_its_entry_point(install: Install) -> None:
    install("acme-gc", GOOD.format(name="acme"), entry_point="acme")
    registry = PluginRegistry()

    [plugin] = [plugin for plugin in registry.plugins() if plugin.name == "acme"]
    assert (plugin.distribution, plugin.version) == ("acme-gc", "1.2")
    assert plugin.status is PluginStatus.OK
    assert registry.strategies()["gc_acme"].summary == "A sample."
    assert registry.create("acme").name == "gc_acme"
    assert "gc_truncate" in registry.strategies()


def test_a_registry_does_not_see_plugins_installed_after_its_first_use(install: Install) -> None:
    early, late = PluginRegistry(), PluginRegistry()
    early.plugins()

    install("acme-gc", GOOD.format(name="acme"), entry_point="acme")

    assert "gc_acme" not in early.strategies()
    assert "gc_acme" in late.strategies()


def test_a_registered_plugin_is_listed_with_the_installed_ones(install: Install) -> None:
    install("acme-gc", GOOD.format(name="acme"), entry_point="acme")
    registry = PluginRegistry()
    registry.register(object(), "mine")

    assert {"mine", "acme", "truncate"} <= {plugin.name for plugin in registry.plugins()}


def test_the_example_plugin_of_the_seed_readme_works_unchanged(install: Install) -> None:
    install(
        "my-package",
        SEEDS_STYLE,
        entry_point="gc_custom",
        group="jaato.gc_plugins",
        suffix=":create_plugin",
    )

    assert "gc_custom" in discover_gc_plugins()
    plugin = load_gc_plugin("custom", {"anything": "goes"})
    assert plugin.name == "gc_custom"
    assert vars(plugin) == {"_config": {"anything": "goes"}}
    due = plugin.should_collect({"percent_used": 90}, GCConfig())
    assert due == (True, GCTriggerReason.THRESHOLD)
    _, result = plugin.collect([], {}, GCConfig(), GCTriggerReason.MANUAL)
    assert result.tokens_freed == 90


# --- broken plugins ---

BROKEN = {
    "missing dependency": (
        "import no_such_module",
        "ModuleNotFoundError: No module named 'no_such",
    ),
    "needs another core": ("from jaato_gc import NoSuchName", "ImportError: cannot import name"),
    "syntax error": ("def", "SyntaxError: "),
    "raises": ("raise RuntimeError('boom')", "RuntimeError: boom"),
    "exits": ("raise SystemExit('bye')", "SystemExit: bye"),
    "unknown hook": (
        "from jaato_gc.plugin import hookimpl\n@hookimpl\ndef jaato_gc_register(): ...",
        "jaato_gc_register",
    ),
}


@pytest.mark.parametrize(("code", "cause"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_plugin_does_not_affect_others_and_choosing_it_raises_the_cause(
    install: Install, caplog: pytest.LogCaptureFixture, code: str, cause: str
) -> None:
    install("a-good", GOOD.format(name="a"), entry_point="a")
    install("broken-gc", code, entry_point="broken")
    install("z-good", GOOD.format(name="z"), entry_point="z")
    registry = PluginRegistry()

    assert {"gc_a", "gc_z", "gc_truncate"} <= set(registry.strategies())
    assert status_of(registry, "broken")[0] is PluginStatus.BROKEN
    assert "plugin 'broken' of broken-gc 1.2 can't be used: " in caplog.text
    for name in ("broken", "gc_broken"):
        with pytest.raises(GCPluginError, match=r"'broken' of broken-gc 1\.2 is broken") as caught:
            registry.create(name)
        assert cause in str(caught.value)


def test_an_entry_point_to_a_missing_attribute_is_broken(install: Install) -> None:
    install("broken-gc", "", entry_point="broken", suffix=":no_such_attribute")

    with pytest.raises(GCPluginError, match=r"broken-gc 1\.2 is broken: AttributeError: .*no_such"):
        load_gc_plugin("broken")


def test_the_error_of_a_failing_factory_names_its_distribution(install: Install) -> None:
    install(
        "my-package",
        "def create_plugin(): raise RuntimeError('boom')",
        entry_point="gc_custom",
        group="jaato.gc_plugins",
        suffix=":create_plugin",
    )

    with pytest.raises(GCPluginError, match=r"of my-package 1\.2 failed .*RuntimeError: boom"):
        load_gc_plugin("custom")


def test_unreadable_entry_points_do_not_affect_other_plugins(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("a-good", GOOD.format(name="a"), entry_point="a")
    install("garbled", "", entry_points="[jaato_gc]\nno equals sign\n")
    install("z-good", GOOD.format(name="z"), entry_point="z")

    assert {"gc_a", "gc_z", "gc_truncate"} <= set(discover_gc_plugins())
    assert "the entry points of garbled can't be read" in caplog.text


def test_a_distribution_without_metadata_does_not_affect_other_plugins(
    install: Install, tmp_path: Path
) -> None:
    install("a-good", GOOD.format(name="a"), entry_point="a")
    install("nameless", GOOD.format(name="nameless"), entry_point="nameless")
    (tmp_path / "nameless-1.2.dist-info" / "METADATA").unlink()

    assert {"gc_a", "gc_nameless", "gc_truncate"} <= set(discover_gc_plugins())


def test_the_error_for_a_name_in_two_distributions_names_both(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("first-gc", GOOD.format(name="same"), entry_point="same")
    install("second-gc", GOOD.format(name="same"), entry_point="same")

    with pytest.raises(GCPluginError) as caught:
        load_gc_plugin("same")

    assert "plugin 'same' of first-gc 1.2" in str(caught.value)
    assert "plugin 'same' of second-gc 1.2" in str(caught.value)
    assert "JAATO_GC_DISABLED_PLUGINS" in str(caught.value)
    assert "gc_same" not in discover_gc_plugins()
    assert "gc_truncate" in discover_gc_plugins()

    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", "second-gc")

    assert load_gc_plugin("same").name == "gc_same"


def test_the_second_entry_point_to_the_same_module_is_broken(install: Install) -> None:
    install(
        "acme-gc",
        GOOD.format(name="acme"),
        entry_points="[jaato_gc]\nacme = acme_gc\nagain = acme_gc\n",
    )
    registry = PluginRegistry()

    assert status_of(registry, "acme")[0] is PluginStatus.OK
    assert status_of(registry, "again")[0] is PluginStatus.BROKEN
    assert registry.create("acme").name == "gc_acme"


# --- shadowed factories: the strategies of jaato-server beside the ones of this project ---

FACTORIES = "jaato.gc_plugins"
IMPORTED = "raise AssertionError('imported')"


def statuses(registry: PluginRegistry) -> dict[str, PluginStatus]:
    """The status of every plugin, by its distribution and its name."""
    return {f"{each.distribution}:{each.name}": each.status for each in registry.plugins()}


def test_strategies_of_jaato_server_are_shadowed_without_an_import_or_a_log_record(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    ours = discover_gc_plugins()
    names = ["gc_budget", "gc_truncate", "gc_summarize", "gc_hybrid"]
    lines = [f"{name} = jaato_server:create_plugin" for name in names]
    install("jaato-server", IMPORTED, entry_points="\n".join([f"[{FACTORIES}]", *lines]))
    registry = PluginRegistry()

    assert registry.strategies() == discover_gc_plugins() == ours
    for name in names:
        assert load_gc_plugin(name).name == name
        version_of = version(f"jaato-gc-{name.removeprefix('gc_')}")
        assert status_of(registry, name) == (
            PluginStatus.SHADOWED,
            f"plugin {name.removeprefix('gc_')!r} of jaato-gc-{name.removeprefix('gc_')} "
            f"{version_of} offers the same strategy",
        )
    assert caplog.records == []


@pytest.mark.parametrize("distributions", [("a-hooks", "b-factory"), ("b-hooks", "a-factory")])
def test_a_plugin_with_hooks_shadows_a_factory_of_its_name_in_any_order(
    install: Install, distributions: tuple[str, str]
) -> None:
    hooks, factory = distributions
    for each in sorted(distributions):
        if each == hooks:
            install(hooks, GOOD.format(name="custom"), entry_point="other_name")
        else:
            install(factory, IMPORTED, entry_point="gc_custom", group=FACTORIES)
    registry = PluginRegistry()

    assert statuses(registry)[f"{hooks}:other_name"] is PluginStatus.OK
    assert statuses(registry)[f"{factory}:gc_custom"] is PluginStatus.SHADOWED
    assert registry.create("custom").name == "gc_custom"


def test_only_the_factory_with_the_same_name_is_shadowed(install: Install) -> None:
    install("acme-gc", GOOD.format(name="acme"), entry_point="acme")
    install(
        "my-package",
        SEEDS_STYLE,
        entry_points=f"[{FACTORIES}]\ngc_acme = no_such_module:create\n"
        "gc_custom = my_package:create_plugin\n",
    )
    registry = PluginRegistry()

    assert statuses(registry)["my-package:gc_acme"] is PluginStatus.SHADOWED
    assert statuses(registry)["my-package:gc_custom"] is PluginStatus.OK
    assert registry.create("custom").name == "gc_custom"


@pytest.mark.parametrize("registered", ["first", "last"])
def test_a_plugin_of_the_host_shadows_a_factory_of_its_name(
    install: Install, registered: str
) -> None:
    install("acme-gc", GOOD.format(name="custom"))
    install(
        "my-package", SEEDS_STYLE, entry_point="gc_custom", group=FACTORIES, suffix=":create_plugin"
    )
    host = importlib.import_module("acme_gc")
    registry = PluginRegistry()
    blocked = pytest.MonkeyPatch()
    blocked.setenv("JAATO_GC_DISABLED_PLUGINS", "acme-gc")
    try:
        if registered == "last":
            registry.plugins()
        registry.register(host, "host")

        assert status_of(registry, "gc_custom") == (
            PluginStatus.SHADOWED,
            "plugin 'host' of this process offers the same strategy",
        )
        assert isinstance(registry.create("custom"), host.Strategy)
    finally:
        blocked.undo()


def test_choosing_a_broken_plugin_raises_its_cause_even_if_a_factory_has_its_name(
    install: Install,
) -> None:
    install("acme-gc", "import no_such_module", entry_point="acme")
    install("my-package", IMPORTED, entry_point="gc_acme", group=FACTORIES)
    registry = PluginRegistry()

    assert status_of(registry, "gc_acme") == (
        PluginStatus.SHADOWED,
        "plugin 'acme' of acme-gc 1.2 has the same name",
    )
    with pytest.raises(GCPluginError, match=r"'acme' of acme-gc 1\.2 is broken: ModuleNotFound"):
        registry.create("gc_acme")


def test_a_blocked_plugin_does_not_shadow_a_factory(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme-gc", GOOD.format(name="custom"), entry_point="custom")
    install(
        "my-package", SEEDS_STYLE, entry_point="gc_custom", group=FACTORIES, suffix=":create_plugin"
    )
    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", "acme-gc")
    registry = PluginRegistry()

    assert statuses(registry)["my-package:gc_custom"] is PluginStatus.OK
    assert registry.create("custom").name == "gc_custom"


def test_the_error_for_an_unknown_strategy_does_not_list_shadowed_plugins(
    install: Install,
) -> None:
    install("jaato-server", IMPORTED, entry_point="gc_truncate", group=FACTORIES)

    with pytest.raises(GCPluginError, match="unknown strategy 'zzz'") as caught:
        load_gc_plugin("zzz")

    assert "shadowed" not in str(caught.value)


def test_the_error_for_a_name_of_two_factories_names_both(install: Install) -> None:
    for distribution in ("first-package", "second-package"):
        install(
            distribution,
            SEEDS_STYLE,
            entry_point="gc_custom",
            group=FACTORIES,
            suffix=":create_plugin",
        )

    with pytest.raises(GCPluginError, match=r"of first-package 1\.2 and by .* of second-package"):
        load_gc_plugin("custom")


@pytest.mark.parametrize("spelling", ["jaato-gc-jaato", "jaato_gc_jaato", "Jaato.GC-jaato"])
def test_factories_of_this_project_for_jaato_server_are_skipped(
    install: Install, spelling: str
) -> None:
    lines = f"[{FACTORIES}]\ngc_jg_budget = ours:create\ngc_marksweep = ours:create\n"
    install(spelling, IMPORTED, entry_points=lines)

    assert spelling not in {plugin.distribution for plugin in PluginRegistry().plugins()}


def test_hooks_of_a_distribution_with_skipped_factories_are_loaded(install: Install) -> None:
    lines = "[jaato_gc]\nours = jaato_gc_jaato\n" + f"[{FACTORIES}]\ngc_ours = nowhere:create\n"
    install("jaato-gc-jaato", GOOD.format(name="ours"), entry_points=lines)

    assert "gc_ours" in discover_gc_plugins()


# --- blocked and allowed plugins ---


@pytest.mark.parametrize(
    "blocked", ["acme", "gc_acme", "Acme-GC", "acme_gc", " other , acme-gc ,", "acme,acme-gc"]
)
def test_a_blocked_plugin_is_not_imported(
    install: Install, monkeypatch: pytest.MonkeyPatch, blocked: str
) -> None:
    install("Acme-GC", "raise AssertionError('imported')", entry_point="acme")
    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", blocked)
    registry = PluginRegistry()

    assert status_of(registry, "acme") == (
        PluginStatus.BLOCKED,
        "it is named in JAATO_GC_DISABLED_PLUGINS",
    )
    assert "gc_truncate" in registry.strategies()
    with pytest.raises(GCPluginError, match=r"of Acme-GC 1\.2 is blocked: .*_DISABLED_PLUGINS"):
        registry.create("acme")


def test_the_error_for_a_blocked_strategy_of_this_project_says_that_it_is_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # jaato-server may be installed beside it, with a strategy of the same name.
    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", "jaato-gc-truncate,jaato-server")

    with pytest.raises(GCPluginError, match=r"jaato-gc-truncate .* is blocked"):
        load_gc_plugin("gc_truncate")


@pytest.mark.parametrize("allowed", ["a", "a-good", "A_Good", "gc_a", "a,other"])
def test_only_allowed_plugins_are_loaded(
    install: Install, monkeypatch: pytest.MonkeyPatch, allowed: str
) -> None:
    install("a-good", GOOD.format(name="a"), entry_point="a")
    install("z-bad", "raise AssertionError('imported')", entry_point="z")
    monkeypatch.setenv("JAATO_GC_LOAD_PLUGINS", allowed)
    registry = PluginRegistry()

    assert list(registry.strategies()) == ["gc_a"]
    with pytest.raises(GCPluginError, match="is blocked: it is not named in JAATO_GC_LOAD_PLUGINS"):
        registry.create("z")


def test_empty_variables_allow_all_plugins(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("a-good", GOOD.format(name="a"), entry_point="a")
    monkeypatch.setenv("JAATO_GC_LOAD_PLUGINS", " ")
    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", "")

    assert {"gc_a", "gc_truncate"} <= set(discover_gc_plugins())


def test_a_plugin_that_is_both_allowed_and_blocked_is_blocked(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("a-good", GOOD.format(name="a"), entry_point="a")
    monkeypatch.setenv("JAATO_GC_LOAD_PLUGINS", "a")
    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", "a-good")

    assert status_of(PluginRegistry(), "a")[0] is PluginStatus.BLOCKED


def test_a_factory_can_be_blocked(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("my-package", "raise AssertionError", entry_point="gc_x", group="jaato.gc_plugins")
    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", "my-package")

    assert status_of(PluginRegistry(), "gc_x")[0] is PluginStatus.BLOCKED


# --- lazy imports ---


@pytest.mark.parametrize(
    "code", ["import jaato_gc", "import jaato_gc; jaato_gc.PluginRegistry(); jaato_gc.GCConfig()"]
)
def test_importing_core_loads_neither_tiktoken_nor_any_plugin(code: str) -> None:
    modules = python(f"{code}; import sys; print(*sys.modules)").split()

    assert "jaato_gc" in modules
    assert "tiktoken" not in modules
    assert [name for name in modules if name.startswith("jaato_gc_")] == []


ONE_STRATEGY = {
    "gc_budget": "load_gc_plugin('budget')",
    "gc_hybrid": "load_gc_plugin('hybrid')",
    "gc_marksweep": "load_gc_plugin('gc_marksweep')",
    "gc_summarize": "PluginRegistry().create('gc_summarize')",
    "gc_truncate": "load_gc_inline({'gc': {'type': 'truncate', 'threshold_percent': 70.0}})",
}


@pytest.mark.parametrize(("name", "load"), ONE_STRATEGY.items(), ids=ONE_STRATEGY.keys())
def test_loading_one_strategy_imports_no_other_plugin(name: str, load: str) -> None:
    modules = python(f"import jaato_gc, sys; jaato_gc.{load}; print(*sys.modules)")
    packages = {module.partition(".")[0] for module in modules.split()}

    assert {each for each in packages if each.startswith("jaato_gc_")} == {f"jaato_{name}"}
    assert packages.isdisjoint({"opentelemetry", "sqlalchemy", "tiktoken"})


def test_an_agent_whose_strategy_was_loaded_alone_has_its_observers_stash_and_counter(
    install: Install,
) -> None:
    install("acme-watch", WATCHING, entry_point="watch")
    registry = PluginRegistry()
    strategy = registry.create("truncate")
    assert "acme_watch" not in sys.modules

    session = GCSession(context_limit=1_000, registry=registry)
    session.set_gc_plugin(strategy, GCConfig(preserve_recent_turns=0))
    session.append(Message.from_text(Role.USER, "hello"))
    session.manual_gc()

    watch = sys.modules["acme_watch"]
    assert session.stash is watch.stash
    assert session.budget.counter is watch.counter
    assert watch.seen == ["gc_truncate"]


def test_opentelemetry_has_a_span_of_a_strategy_that_was_loaded_alone() -> None:
    spans = python("""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from jaato_gc import GCSession, Message, Role, load_gc_plugin

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)

session = GCSession(context_limit=1_000)
session.set_gc_plugin(load_gc_plugin("truncate"))
session.append(Message.from_text(Role.USER, "hello"))
session.manual_gc()
print(*(span.name for span in spans.get_finished_spans()))
""")

    assert spans == "jaato_gc.strategy_set jaato_gc.collect"


# --- one plugin alone, or all ---


@pytest.mark.parametrize("entry_point", ["acme_two", "gc_acme_two", "Acme-Two"])
@pytest.mark.parametrize("asked", ["acme_two", "gc_acme_two"])
def test_the_plugin_with_the_name_of_a_strategy_is_loaded_alone(
    install: Install, entry_point: str, asked: str
) -> None:
    install("other-gc", GOOD.format(name="other"), entry_point="other")
    install("acme-gc", GOOD.format(name="acme_two"), entry_point=entry_point)

    assert load_gc_plugin(asked).name == "gc_acme_two"
    assert "other_gc" not in sys.modules


NOT_OFFERED = {
    "no plugin has its name": None,
    "the plugin of its name offers another": GOOD.format(name="something_else"),
    "the plugin of its name is broken": "raise RuntimeError('boom')",
}


@pytest.mark.parametrize("named", NOT_OFFERED.values(), ids=NOT_OFFERED.keys())
def test_all_plugins_are_asked_for_a_strategy_that_the_plugin_of_its_name_does_not_offer(
    install: Install, named: str | None
) -> None:
    if named is not None:
        install("named-gc", named, entry_point="acme")
    install("suite-gc", GOOD.format(name="acme"), entry_point="suite")

    assert load_gc_plugin("acme").name == "gc_acme"
    assert "suite_gc" in sys.modules


def test_a_strategy_that_several_offer_comes_from_the_plugin_with_its_name(
    install: Install,
) -> None:
    install("a-suite", GOOD.format(name="acme"), entry_point="suite")
    install("acme-gc", GOOD.format(name="acme"), entry_point="acme")
    install("z-suite", GOOD.format(name="acme"), entry_point="more")
    registry = PluginRegistry()

    before = registry.create("acme")
    assert "a_suite" not in sys.modules
    assert registry.strategies()["gc_acme"].factory is type(before)
    assert type(registry.create("acme")) is type(before)


def test_a_strategy_of_two_plugins_with_other_names_is_an_error_that_names_both(
    install: Install,
) -> None:
    install("a-suite", GOOD.format(name="acme"), entry_point="suite")
    install("z-suite", GOOD.format(name="acme"), entry_point="more")

    with pytest.raises(GCPluginError, match=r"offered by .*-suite 1\.2 and by .*-suite 1\.2"):
        load_gc_plugin("acme")


def test_the_strategy_of_a_host_does_not_quietly_replace_an_installed_one(
    install: Install,
) -> None:
    install("acme-gc", GOOD.format(name="truncate"), entry_point="acme")
    registry = PluginRegistry()
    registry.register(importlib.import_module("acme_gc"), "host")

    with pytest.raises(GCPluginError, match=r"'host' of this process and by .* of jaato-gc-tr"):
        registry.create("truncate")


@pytest.mark.parametrize("entry_point", ["other_name", "custom"])
def test_asking_for_a_shadowed_factory_first_does_not_import_it(
    install: Install, caplog: pytest.LogCaptureFixture, entry_point: str
) -> None:
    install("my-package", IMPORTED, entry_point="gc_custom", group=FACTORIES)
    install("acme-gc", GOOD.format(name="custom"), entry_point=entry_point)

    assert load_gc_plugin("gc_custom").name == "gc_custom"
    assert caplog.records == []


def test_asking_for_a_broken_plugin_first_does_not_import_the_factory_of_its_name(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("my-package", IMPORTED, entry_point="gc_custom", group=FACTORIES)
    install("acme-gc", "import no_such_module", entry_point="custom")

    with pytest.raises(GCPluginError, match=r"'custom' of acme-gc 1\.2 is broken: ModuleNotF"):
        load_gc_plugin("gc_custom")
    [record] = caplog.records
    assert "plugin 'custom' of acme-gc 1.2 can't be used" in record.message


@pytest.mark.parametrize(
    "variable", ["JAATO_GC_DISABLED_PLUGINS=acme", "JAATO_GC_LOAD_PLUGINS=other"]
)
def test_asking_for_a_blocked_plugin_first_does_not_import_it(
    install: Install, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    install("acme-gc", GOOD.format(name="acme"), entry_point="acme")
    monkeypatch.setenv(*variable.split("="))

    with pytest.raises(GCPluginError, match=r"'acme' of acme-gc 1\.2 is blocked"):
        load_gc_plugin("acme")
    assert "acme_gc" not in sys.modules


COUNTING = (
    GOOD
    + """
announced = 0

@hookimpl
def jaato_gc_register_options():
    global announced
    announced += 1
    from jaato_gc.plugin import StrategySettings
    return StrategySettings
"""
)


def test_loading_the_other_plugins_later_loads_each_once(install: Install) -> None:
    names = ("a", "b", "c")
    for name in names:
        install(f"{name}-gc", COUNTING.format(name=name), entry_point=name)
    registry = PluginRegistry()

    registry.create("b")
    registry.create("c")
    registry.strategies()
    registry.plugins()
    registry.is_observed("jaato_gc_after_collect")

    assert [sys.modules[f"{name}_gc"].announced for name in names] == [1, 1, 1]
    assert {"gc_a", "gc_b", "gc_c"} <= set(registry.strategies())


ORDERED = (
    GOOD
    + """
@hookimpl
def jaato_gc_session_ended(session_id):
    session_id.append("{name}")
"""
)


@pytest.mark.parametrize("loaded_alone", [(), ("a",), ("c", "b")])
def test_the_order_of_hook_calls_does_not_depend_on_what_was_loaded_alone(
    install: Install, loaded_alone: tuple[str, ...]
) -> None:
    for name in ("a", "b", "c", "host1", "host2"):
        group = "none" if name.startswith("host") else "jaato_gc"
        install(f"{name}-gc", ORDERED.format(name=name), entry_point=name, group=group)
    in_order = [plugin.name for plugin in PluginRegistry().plugins() if plugin.name in "abc"]
    registry = PluginRegistry()
    registry.register(importlib.import_module("host1_gc"), "host1")
    for name in loaded_alone or ("truncate",):
        registry.create(name)
    registry.register(importlib.import_module("host2_gc"), "host2")
    called: list[str] = []
    registry.notify("jaato_gc_session_ended", agent_id="main", session_id=called)

    assert called == ["host2", *reversed(in_order), "host1"]
    listed = [plugin.name for plugin in registry.plugins()]
    assert [name for name in listed if name in called] == ["host1", *in_order, "host2"]


# --- options ---

CONFIGURABLE = """
from jaato_gc.plugin import hookimpl

given = []

@hookimpl
def jaato_gc_configure(options):
    given.append(options)
"""


@pytest.mark.parametrize("name", ["alarm", "Acme_Alarm"])
def test_an_installed_plugin_gets_its_options_by_its_name_or_its_distribution(
    install: Install, name: str
) -> None:
    install("acme-alarm", CONFIGURABLE, entry_point="alarm")
    PluginRegistry().configure({name: {"channels": ["ops"]}})

    assert sys.modules["acme_alarm"].given == [{"channels": ["ops"]}]


def test_options_of_a_blocked_plugin_have_no_effect_and_are_logged(
    install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Blocking a plugin needs no change of the configuration file."""
    install("acme-alarm", CONFIGURABLE, entry_point="alarm")
    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", "alarm")
    PluginRegistry().configure({"alarm": {}})

    assert "plugin 'alarm' of acme-alarm 1.2 is blocked: its options have no effect" in caplog.text


def test_options_of_a_broken_plugin_are_an_error_with_the_cause(install: Install) -> None:
    install("acme-alarm", "raise RuntimeError('no disk left')", entry_point="alarm")

    with pytest.raises(GCConfigError, match=r"plugin 'alarm'.* is broken: RuntimeError: no disk"):
        PluginRegistry().configure({"alarm": {}})
