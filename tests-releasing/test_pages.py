"""Authors, keywords and links come from one file, and links on a package page are absolute."""

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releasing import building, pages, releases
from releasing.pages import Settings
from releasing.releases import CORE, ROOT, distributions
from releasing.small_repository import Repository

ADDRESS = "https://example.org/jaato-gc"
SETTINGS = Settings(
    ADDRESS, ["A", "B"], ["llm"], {"Issues": "/issues", "Source": "/tree/main/packages/{name}"}
)
PYPROJECT = """\
[project]
name = "jaato-gc"
keywords = ["tokens"]

[tool.hatch.version]
path = "x"
"""
CURRENT = pages.with_settings(PYPROJECT, CORE, SETTINGS)
README = """\
See [the stash](../jaato-gc-stash/README.md#search), [`code`](../../docs/a.md), [this](#here),
[that][1] and [a page](https://example.org/).

```python
handlers["a"](b)
```

`names[0](c)`

[1]: ../../LICENSE
"""


def test_settings_are_written_into_the_project() -> None:
    assert tomllib.loads(CURRENT)["project"] == {
        "name": CORE,
        "authors": [{"name": "A"}, {"name": "B"}],
        "keywords": ["llm", "tokens"],
        "urls": {"Issues": f"{ADDRESS}/issues", "Source": f"{ADDRESS}/tree/main/packages/jaato-gc"},
    }
    assert tomllib.loads(CURRENT)["tool"] == tomllib.loads(PYPROJECT)["tool"]


def test_written_settings_can_be_written_again_and_changed() -> None:
    without = replace(SETTINGS, repository="")

    assert pages.with_settings(CURRENT, CORE, SETTINGS) == CURRENT
    assert pages.with_settings(CURRENT, CORE, without) == pages.with_settings(
        PYPROJECT, CORE, without
    )


def test_a_project_without_a_line_of_keywords_is_an_error() -> None:
    with pytest.raises(SystemExit, match="expected keywords on one line"):
        pages.with_settings("[project]\n", CORE, SETTINGS)


@pytest.mark.parametrize("address", ["example.org", "http://example.org", f"{ADDRESS}/"])
def test_an_invalid_address_is_an_error(address: str) -> None:
    with pytest.raises(SystemExit, match="repository: expected an address"):
        replace(SETTINGS, repository=address)


@pytest.mark.parametrize("name", distributions())
def test_every_project_agrees_with_the_settings(name: str) -> None:
    text = (ROOT / "packages" / name / "pyproject.toml").read_text(encoding="utf-8")

    assert pages.with_settings(text, name, pages.read_settings()) == text


def test_relative_links_become_absolute_outside_of_code() -> None:
    text = pages.with_absolute_links(README, CORE, "jaato-gc-v0.1.0", SETTINGS)
    files = f"{ADDRESS}/blob/jaato-gc-v0.1.0"

    assert text == (
        README.replace("../jaato-gc-stash", f"{files}/packages/jaato-gc-stash")
        .replace("../../docs", f"{files}/docs")
        .replace("../../LICENSE", f"{files}/LICENSE")
    )


@given(st.lists(st.sampled_from(["a", "[", "](", ")", "../", "#", "`", "```", "]: ", "\n"])))
def test_every_relative_link_of_any_readme_becomes_absolute(parts: list[str]) -> None:
    text = pages.with_absolute_links("".join(parts), CORE, "jaato-gc-v0.1.0", SETTINGS)

    assert list(pages.check_page(CORE, CURRENT, text, SETTINGS)) == []


def test_links_stay_relative_while_the_address_is_unknown() -> None:
    settings = replace(SETTINGS, repository="")

    assert pages.with_absolute_links(README, CORE, "jaato-gc-v0.1.0", settings) == README


def test_the_check_finds_stale_projects_and_relative_links() -> None:
    assert list(pages.check_page(CORE, PYPROJECT, README, SETTINGS)) == [
        "pyproject.toml: differs from releasing/settings.toml: run `python -m releasing.pages`",
        "README: the link to ../jaato-gc-stash/README.md#search is relative: build with "
        "`nox -s build`",
        "README: the link to ../../docs/a.md is relative: build with `nox -s build`",
        "README: the link to ../../LICENSE is relative: build with `nox -s build`",
    ]
    assert list(pages.check_page(CORE, CURRENT, "", SETTINGS)) == []


@pytest.mark.parametrize("name", distributions())
def test_the_page_of_every_package_has_only_absolute_links_when_the_address_is_known(
    name: str,
) -> None:
    readme = (ROOT / "packages" / name / "README.md").read_text(encoding="utf-8")
    pyproject = (ROOT / "packages" / name / "pyproject.toml").read_text(encoding="utf-8")
    text = pages.with_absolute_links(readme, name, f"{name}-v0.1.0", SETTINGS)
    project = pages.with_settings(pyproject, name, SETTINGS)

    assert list(pages.check_page(name, project, text, SETTINGS)) == []


def test_builds_have_absolute_links_and_leave_the_readme_unchanged(repository: Repository) -> None:
    known = 'repository = "https://example.org/r"\nauthors = []\nkeywords = []\nurls = {}\n'
    repository.write("releasing/settings.toml", known)
    repository.commit(CORE, "0.1.0")
    readme = repository.root / "packages" / CORE / "README.md"
    readme.write_text("[docs](../../docs)\n", encoding="utf-8")
    repository.git("commit", "--quiet", "--all", "--message=README")
    repository.git("tag", f"{CORE}-v0.1.0")
    [release], build = releases.releases(CORE), releases.checkout(CORE)

    building.make_release(release)
    building.make(build)

    page = "[docs](https://example.org/r/blob/jaato-gc-v0.1.0/docs)"
    assert [each.readme.strip() for each in (release, build)] == [page, page]
    assert readme.read_text(encoding="utf-8") == "[docs](../../docs)\n"
