"""The resolver refuses what is outside the declared ranges: nothing else would notice."""

from collections.abc import Callable

import pytest
from packaging.version import Version

from releasing.releases import CORE, checkout, releases
from releasing.sandbox import Sandbox

OLDEST = (releases(CORE) or [checkout(CORE)])[0]


def next_minor(version: Version) -> str:
    return f"{version.major}.{version.minor + 1}"


def assert_names_the_range(refusal: str, plugin: str, needed: str) -> None:
    assert "No solution found" in refusal
    assert f"{plugin}==1.2 depends on {CORE}{needed}" in refusal


def test_a_plugin_for_a_far_future_core_is_refused(
    sandbox: Sandbox, a_plugin: Callable[..., str]
) -> None:
    core = checkout(CORE)
    plugin = a_plugin("future-gc", "", needs=("jaato-gc>=99",))

    refusal = sandbox.refusal(core.requirement, plugin)

    assert_names_the_range(refusal, "future-gc", ">=99")
    assert not list(sandbox.folder.glob("lib/*/site-packages/*gc*")), "nothing was half done"


def test_a_plugin_that_needs_a_newer_core_is_refused_on_an_older_one(
    sandbox: Sandbox, a_plugin: Callable[..., str]
) -> None:
    """And it is the range that decides: another plugin, all else equal, is installed."""
    needed = next_minor(OLDEST.version)
    newer = a_plugin("newer-gc", "", needs=(f"jaato-gc>={needed},<1",))
    older = a_plugin("older-gc", "", needs=(f"jaato-gc>={OLDEST.version},<1",))

    refusal = sandbox.refusal(OLDEST.requirement, newer)

    assert_names_the_range(refusal, "newer-gc", f">={needed},<1")
    sandbox.install(OLDEST.requirement, older)

    if checkout(CORE).version >= Version(needed):
        sandbox.install(checkout(CORE).requirement, newer)


def test_telemetry_is_refused_on_core_0_1_and_plugins_of_0_1_are_not_on_this_one(
    sandbox: Sandbox,
) -> None:
    refusal = sandbox.refusal(OLDEST.requirement, checkout("jaato-gc-otel").requirement)

    assert "jaato-gc-otel==0.1.0 depends on jaato-gc>=0.2,<1" in refusal
    sandbox.install(checkout(CORE).requirement, releases("jaato-gc-budget")[0].requirement)


def test_a_plugin_for_the_core_of_before_1_is_refused_on_1(
    sandbox: Sandbox, a_plugin: Callable[..., str]
) -> None:
    core = a_plugin("jaato-gc", "", needs=()).replace("jaato_gc @", "jaato-gc @")  # version 1.2
    plugin = a_plugin("todays-gc", "")

    assert "jaato-gc" in (refusal := sandbox.refusal(core, plugin))
    assert "jaato-gc>=0.1,<1" in refusal.replace(" ", "")


@pytest.mark.parametrize("needed", ["jaato-gc>=99", "jaato-gc<0.1"])
def test_an_installed_core_does_not_soften_the_range(
    sandbox: Sandbox, a_plugin: Callable[..., str], needed: str
) -> None:
    sandbox.install(checkout(CORE).requirement)

    assert sandbox.refusal(checkout(CORE).requirement, a_plugin("odd-gc", "", needs=(needed,)))
