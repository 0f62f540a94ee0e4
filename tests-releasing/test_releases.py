"""Earlier releases are found by tags and releases.toml, and built from their commits.

Each test makes a small repository with pretend releases, so none depends on a real one.
"""

import pytest

from releasing import building, releases
from releasing.releases import CORE, KIT
from releasing.small_repository import Repository

PLUGIN = "jaato-gc-pretend"


def test_without_releases_only_the_checkout_is_found(repository: Repository) -> None:
    for name in (CORE, KIT, PLUGIN):
        repository.commit(name, "0.1.0")
    plugin = releases.checkout(PLUGIN)

    assert str(plugin) == f"{PLUGIN} 0.1.0 (this checkout)"
    assert releases.releases(CORE) == releases.releases(PLUGIN) == []
    assert releases.core_for(plugin, "oldest") is None
    assert releases.core_for(plugin, "newest") is None
    assert releases.core_for(plugin, "checkout") == releases.checkout(CORE)


def test_plugins_and_strategies_are_found_by_entry_point_and_hook(repository: Repository) -> None:
    hook = "def jaato_gc_register_strategies(): ..."
    names = {CORE: hook, KIT: hook, PLUGIN: hook, "jaato-gc-observer": ""}
    for name, code in names.items():
        repository.commit(name, "0.1.0", code=code)
    for name in ("jaato-gc-observer", PLUGIN):
        file = f"packages/{name}/pyproject.toml"
        text = (repository.root / file).read_text(encoding="utf-8")
        repository.write(file, f'{text}[project.entry-points.jaato_gc]\nit = "it"\n')

    assert releases.plugins() == ["jaato-gc-observer", PLUGIN]
    assert releases.strategies() == [PLUGIN]


def test_releases_come_from_tags_and_the_file_and_are_sorted(repository: Repository) -> None:
    first, second, tenth = (repository.commit(CORE, f"0.{minor}.0") for minor in (1, 2, 10))
    repository.write("releases.toml", f'[{CORE}]\n"0.10.0" = "{tenth}"\n"0.2.0" = "{first}"\n')
    repository.git("tag", f"{CORE}-v0.1.0", first)
    repository.git("tag", f"{CORE}-v0.2.0", second)
    repository.git("tag", f"{KIT}-v0.3.0", second)

    found = [(str(build.version), build.commit) for build in releases.releases(CORE)]

    assert found == [("0.1.0", first), ("0.2.0", second), ("0.10.0", tenth)]


def test_a_release_is_built_once_from_its_commit(repository: Repository) -> None:
    release = repository.release(CORE, "0.1.0")
    repository.commit(CORE, "0.2.0")
    built = release.wheel.stat().st_mtime_ns
    building.make_release(release)

    assert release.wheel.name == "jaato_gc-0.1.0-py3-none-any.whl"
    assert release.sdist.name == "jaato_gc-0.1.0.tar.gz"
    assert release.wheel.stat().st_mtime_ns == built
    version = release.source / "src" / "jaato_gc" / "_version.py"
    assert version.read_text(encoding="utf-8") == '__version__ = "0.1.0"\n'


def test_a_release_whose_commit_is_missing_is_an_error(repository: Repository) -> None:
    repository.write("releases.toml", f'[{CORE}]\n"0.1.0" = "{"0" * 40}"\n')
    [release] = releases.releases(CORE)

    with pytest.raises(SystemExit, match="this clone does not have the commit: run `git fetch"):
        building.make_release(release)


def test_a_release_whose_commit_has_another_version_is_an_error(repository: Repository) -> None:
    repository.commit(CORE, "0.2.0")
    repository.git("tag", f"{CORE}-v0.1.0")
    [release] = releases.releases(CORE)

    with pytest.raises(SystemExit, match=r"another version, its wheel is jaato_gc-0\.2\.0"):
        building.make_release(release)


def test_a_build_that_is_missing_is_an_error(repository: Repository) -> None:
    repository.commit(CORE, "0.1.0")

    with pytest.raises(SystemExit, match=r"dist/ has no \.whl of jaato-gc 0\.1\.0"):
        _ = releases.checkout(CORE).wheel


def test_the_oldest_core_is_the_oldest_that_the_plugin_allows(repository: Repository) -> None:
    oldest, middle, newest = (repository.release(CORE, f"0.{minor}.0") for minor in (1, 2, 3))
    plugin = repository.release(PLUGIN, "0.1.0", "jaato-gc>=0.2,<0.3")

    assert not plugin.allows(oldest)
    assert releases.core_for(plugin, "oldest") == middle
    assert releases.core_for(plugin, "newest") == newest
    assert not plugin.allows(newest)


def test_the_kit_is_the_newest_that_allows_the_core(repository: Repository) -> None:
    core = repository.release(CORE, "0.1.0")
    older = repository.release(KIT, "0.1.0", "jaato-gc>=0.1,<1")
    repository.release(KIT, "0.2.0", "jaato-gc>=0.2,<1")
    plugin = repository.release(PLUGIN, "0.1.0", "jaato-gc>=0.1,<1")

    assert releases.sibling_for(plugin, KIT, core) == older


def test_there_is_no_kit_for_a_core_that_no_release_allows(repository: Repository) -> None:
    core = repository.release(CORE, "0.1.0")
    repository.release(KIT, "0.2.0", "jaato-gc>=0.2,<1")
    plugin = repository.release(PLUGIN, "0.1.0", "jaato-gc>=0.1,<1")

    assert releases.sibling_for(plugin, KIT, core) is None


def test_siblings_are_required_without_extras(repository: Repository) -> None:
    extra = "jaato-gc-lab>=0.1,<1; extra == 'lab'"
    plugin = repository.release(PLUGIN, "0.1.0", "jaato-gc>=0.1", f"{KIT}>=0.1", extra)

    assert plugin.siblings == [KIT]


def test_a_plugin_of_this_checkout_uses_siblings_of_this_checkout(repository: Repository) -> None:
    core = repository.release(CORE, "0.1.0")
    repository.release(KIT, "0.1.0", "jaato-gc>=0.1,<1")
    repository.commit(KIT, "0.2.0", "jaato-gc>=0.1,<1")
    building.make(releases.checkout(KIT))
    released = repository.release(PLUGIN, "0.1.0", "jaato-gc>=0.1,<1")

    new = releases.sibling_for(releases.checkout(PLUGIN), KIT, core)
    old = releases.sibling_for(released, KIT, core)

    assert str(new) == f"{KIT} 0.2.0 (this checkout)"
    assert str(old).startswith(f"{KIT} 0.1.0 (released from")
