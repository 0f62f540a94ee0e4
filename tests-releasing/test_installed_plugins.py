"""Broken, blocked, duplicate and incompatible plugins, each built and installed as a wheel."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from releasing.releases import CORE, checkout
from releasing.sandbox import Sandbox, requirements

GOOD = """
from jaato_gc.plugin import GCStrategy, StrategyInfo, hookimpl

class Strategy(GCStrategy):
    name = "gc_{name}"

    def select(self, collection):
        pass

@hookimpl
def jaato_gc_register_strategies():
    return [StrategyInfo(Strategy.name, Strategy, "A sample.")]
"""

LIST = """
import json, jaato_gc
print(json.dumps({
    plugin.name: (plugin.distribution, plugin.version, plugin.status, plugin.cause)
    for plugin in jaato_gc.PluginRegistry().plugins()
}))
"""

CHOOSE = """
import jaato_gc
try:
    print("chose", jaato_gc.load_gc_plugin({name!r}).name)
except jaato_gc.GCPluginError as error:
    print(error)
"""

Plugin = Callable[..., str]


@pytest.fixture
def host(sandbox: Sandbox, a_plugin: Plugin) -> Sandbox:
    """An environment with core, one strategy of this repository and a third-party one."""
    ours = requirements(checkout(CORE), checkout("jaato-gc-truncate"))
    sandbox.install(*ours, a_plugin("good-gc", GOOD.format(name="good"), entry_point="good"))
    return sandbox


def listed(host: Sandbox, **env: str) -> dict[str, list[str | None]]:
    plugins: dict[str, list[str | None]] = json.loads(host.python(LIST, **env))
    others = {name: plugins[name][2] for name in ("good", "truncate")}
    assert set(others.values()) <= {"ok", "blocked"}, "a broken plugin affects no other plugin"
    return plugins


def choose(host: Sandbox, name: str, **env: str) -> str:
    return host.python(CHOOSE.format(name=name), **env)


def test_a_good_plugin_is_listed_and_chosen(host: Sandbox) -> None:
    assert listed(host)["good"] == ["good-gc", "1.2", "ok", None]
    assert choose(host, "good") == "chose gc_good"


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import not_installed", "ModuleNotFoundError: No module named 'not_installed'"),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("def", "SyntaxError: "),
    ],
    ids=["missing dependency", "exits", "syntax error"],
)
def test_a_broken_plugin_is_listed_with_its_cause(
    host: Sandbox, a_plugin: Plugin, code: str, cause: str
) -> None:
    host.force(a_plugin("broken-gc", code, entry_point="broken"))

    distribution, version, status, why = listed(host)["broken"]

    assert (distribution, version, status) == ("broken-gc", "1.2", "broken")
    assert why
    assert why.startswith(cause)
    assert f"plugin 'broken' of broken-gc 1.2 is broken: {cause}" in choose(host, "broken")
    assert choose(host, "good") == "chose gc_good"


def test_a_blocked_plugin_is_not_imported(host: Sandbox, a_plugin: Plugin, tmp_path: Path) -> None:
    trace = tmp_path / "imported"
    code = f"open({str(trace)!r}, 'w')\n" + GOOD.format(name="nosy")
    host.install(a_plugin("nosy-gc", code, entry_point="nosy"))
    blocked = {"JAATO_GC_DISABLED_PLUGINS": "nosy-gc"}

    assert listed(host, **blocked)["nosy"][2] == "blocked"
    assert "is blocked: it is named in JAATO_GC_DISABLED_PLUGINS" in choose(host, "nosy", **blocked)
    assert listed(host, JAATO_GC_LOAD_PLUGINS="good-gc")["nosy"][2] == "blocked"
    assert not trace.exists()

    assert choose(host, "nosy") == "chose gc_nosy"
    assert trace.exists()


def test_two_distributions_that_register_one_strategy_are_both_named_in_the_error(
    host: Sandbox, a_plugin: Plugin
) -> None:
    host.install(a_plugin("other-gc", GOOD.format(name="good"), entry_point="other"))

    message = choose(host, "good")

    assert "'good' of good-gc 1.2" in message
    assert "'other' of other-gc 1.2" in message
    assert choose(host, "good", JAATO_GC_DISABLED_PLUGINS="other-gc") == "chose gc_good"
    assert choose(host, "truncate") == "chose gc_truncate"


A_HOOK = "from jaato_gc.plugin import hookimpl\n@hookimpl\ndef {}: pass"
NEWER_CORE = {
    # Code of a plugin for a newer core, and the cause that this core lists.
    "from jaato_gc import Later": "ImportError: cannot import name 'Later'",
    A_HOOK.format("jaato_gc_later()"): "PluginValidationError: unknown hook 'jaato_gc_later'",
    A_HOOK.format("jaato_gc_after_collect(result, later)"): "PluginValidationError: Plugin 'newer",
}


@pytest.mark.parametrize(
    ("code", "cause"), NEWER_CORE.items(), ids=["unknown name", "unknown hook", "unknown argument"]
)
def test_a_plugin_for_a_newer_core_is_listed_as_broken_when_installed_without_dependencies(
    host: Sandbox, a_plugin: Plugin, code: str, cause: str
) -> None:
    newer = a_plugin("newer-gc", code, entry_point="newer", needs=("jaato-gc>=99",))
    assert "jaato-gc>=99" in host.refusal(newer, checkout(CORE).requirement)

    host.force(newer)

    distribution, version, status, why = listed(host)["newer"]
    assert (distribution, version, status) == ("newer-gc", "1.2", "broken")
    assert why
    assert why.startswith(cause)
    assert why.endswith(f"(it requires jaato-gc>=99; this is {checkout(CORE).version})")
    assert choose(host, "good") == "chose gc_good"


def test_a_plugin_with_optional_uses_of_a_newer_core_runs_on_this_one(
    host: Sandbox, a_plugin: Plugin
) -> None:
    """An argument with a default and an optional hook let a plugin run on both."""
    code = GOOD.format(name="both") + (
        "@hookimpl\ndef jaato_gc_after_collect(result, later=None): pass\n"
        "@hookimpl(optionalhook=True)\ndef jaato_gc_later(): pass\n"
    )
    host.install(a_plugin("both-gc", code, entry_point="both"))

    assert listed(host)["both"][2] == "ok"
    assert choose(host, "both") == "chose gc_both"


def test_a_factory_in_the_group_of_factories_is_a_plugin(host: Sandbox, a_plugin: Plugin) -> None:
    code = GOOD.format(name="made") + "create_plugin = Strategy\n"
    factory = a_plugin(
        "factory-gc",
        code,
        entry_point="gc_made",
        group="jaato.gc_plugins",
        suffix=":create_plugin",
    )
    host.install(factory)

    assert listed(host)["gc_made"] == ["factory-gc", "1.2", "ok", None]
    assert choose(host, "made") == "chose gc_made"
