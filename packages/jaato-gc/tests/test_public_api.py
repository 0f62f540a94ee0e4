"""The public names: `jaato_gc` for authors of agents, `jaato_gc.plugin` for authors of plugins."""

import importlib
import re

import pytest

import jaato_gc
from jaato_gc import plugin

NAMES_OF_THE_SEEDS = {
    "GCConfig",
    "GCPlugin",
    "GCPolicy",
    "GCProfileConfig",
    "GCRemovalItem",
    "GCResult",
    "GCTriggerReason",
    "InstructionBudget",
    "InstructionSource",
    "Message",
    "SourceEntry",
    "discover_gc_plugins",
    "estimate_tokens",
    "load_gc_from_file",
    "load_gc_plugin",
}
IN_BOTH = {"GCPlugin", "split_into_turns"}
"""Hosts and authors of plugins both need these."""


def test_the_package_exports_about_sixty_names() -> None:
    assert 55 <= len(jaato_gc.__all__) <= 70


@pytest.mark.parametrize("module", [jaato_gc, plugin])
def test_exported_names_are_unique_and_exist(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]

    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(module, name)] == []


def test_the_names_of_the_seeds_are_exported_by_the_package() -> None:
    assert sorted(NAMES_OF_THE_SEEDS - set(jaato_gc.__all__)) == []


def test_only_a_few_names_are_exported_by_both_modules() -> None:
    both = set(jaato_gc.__all__) & set(plugin.__all__)

    assert both == IN_BOTH
    for name in both:
        assert getattr(jaato_gc, name) is getattr(plugin, name)


@pytest.mark.parametrize("name", sorted(set(plugin.__all__) - IN_BOTH))
def test_a_name_for_plugin_authors_is_an_error_that_says_where_to_import_it_from(name: str) -> None:
    expected = f"module 'jaato_gc' has no attribute {name!r}: import it from jaato_gc.plugin"

    with pytest.raises(AttributeError, match=f"^{re.escape(expected)}$"):
        getattr(jaato_gc, name)


@pytest.mark.parametrize("name", ["nonsense", "_private", "ResolvedGCConfig", "cache_impact"])
def test_an_unknown_name_is_an_error_without_a_hint(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(jaato_gc, name)

    assert str(caught.value) == f"module 'jaato_gc' has no attribute {name!r}"


def test_every_error_is_exported_and_is_a_gc_error() -> None:
    errors = importlib.import_module("jaato_gc.errors")
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }

    assert sorted(defined - set(jaato_gc.__all__)) == []
    assert all(issubclass(getattr(jaato_gc, name), jaato_gc.GCError) for name in defined)
