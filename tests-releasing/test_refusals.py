"""The resolver refuses versions outside the declared ranges; no other check prevents them.

The cores of other versions are empty wheels: the resolver reads only their metadata.
"""

from collections.abc import Callable

import pytest

from releasing.releases import CORE, checkout, distributions
from releasing.sandbox import Sandbox


@pytest.fixture
def a_core(a_plugin: Callable[..., str]) -> Callable[[str], str]:
    """Builds an empty core of a version, and returns a requirement for it."""

    def build(version: str) -> str:
        built = a_plugin(CORE, "", needs=(), version=version)
        return built.replace("jaato_gc @", f"{CORE} @", 1)

    return build


def assert_names_the_range(refusal: str, plugin: str, needed: str) -> None:
    assert "No solution found" in refusal
    assert f"{plugin} depends on {CORE}{needed}" in refusal


def test_a_plugin_for_a_newer_core_is_refused_and_nothing_is_installed(
    sandbox: Sandbox, a_plugin: Callable[..., str]
) -> None:
    plugin = a_plugin("future-gc", "", needs=("jaato-gc>=99",))

    refusal = sandbox.refusal(checkout(CORE).requirement, plugin)

    assert_names_the_range(refusal, "future-gc==1.2", ">=99")
    assert not list(sandbox.folder.glob("lib/*/site-packages/*gc*"))


def test_only_the_range_decides_whether_a_plugin_is_refused(
    sandbox: Sandbox, a_plugin: Callable[..., str], a_core: Callable[[str], str]
) -> None:
    older, newer = a_core("0.1.0"), a_core("0.2.0")
    plugin = a_plugin("newer-gc", "", needs=("jaato-gc>=0.2,<1",))

    assert_names_the_range(sandbox.refusal(older, plugin), "newer-gc==1.2", ">=0.2,<1")
    sandbox.install(newer, plugin)


@pytest.mark.parametrize("version", ["0.0.9", "1.0.0"])
def test_every_distribution_is_refused_with_a_core_outside_its_range(
    sandbox: Sandbox, a_core: Callable[[str], str], version: str
) -> None:
    core = a_core(version)
    # One that requires others of ours would be refused because of them as well.
    ours = [each for name in distributions() if not (each := checkout(name)).siblings]

    for build in ours:
        if build.distribution != CORE:
            refusal = sandbox.refusal(core, build.requirement)
            assert_names_the_range(refusal, f"{build.distribution}=={build.version}", ">=")


@pytest.mark.parametrize("needed", ["jaato-gc>=99", "jaato-gc<0.1"])
def test_a_plugin_is_refused_if_the_installed_core_is_outside_its_range(
    sandbox: Sandbox, a_plugin: Callable[..., str], needed: str
) -> None:
    sandbox.install(checkout(CORE).requirement)

    assert sandbox.refusal(checkout(CORE).requirement, a_plugin("odd-gc", "", needs=(needed,)))
