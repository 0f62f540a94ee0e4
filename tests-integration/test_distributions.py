"""Every distribution has the same shape, and is in the lists that can't be derived.

The guide docs/how-to/add-a-distribution.md has the steps that these tests check.
"""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from repository import PYPROJECTS, ROOT, plugins, required_siblings, siblings

CORE = "jaato-gc"
each_distribution = pytest.mark.parametrize("name", PYPROJECTS)


def read(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def check(where: str, listed: set[str], expected: set[str], line: str) -> None:
    """Fails with the lines that are missing in a file, or with those that have to go."""
    missing = "\n".join(line.format(name) for name in sorted(expected - listed))
    assert not missing, f"{where}: add\n{missing}"
    assert listed <= expected, f"{where}: remove {sorted(listed - expected)}"


# --- lists ---


def test_uv_takes_every_distribution_from_the_workspace() -> None:
    sources = tomllib.loads(read("pyproject.toml"))["tool"]["uv"]["sources"]

    check(
        "pyproject.toml, [tool.uv.sources]",
        set(sources),
        set(PYPROJECTS),
        "{} = {{ workspace = true }}",
    )
    assert all(source == {"workspace": True} for source in sources.values())


def test_the_readme_links_every_distribution() -> None:
    linked = set(re.findall(r"\(packages/([a-z-]+)/README\.md", read("README.md")))

    check(
        "README.md",
        linked,
        set(PYPROJECTS),
        "a row in a table, with a link to packages/{}/README.md",
    )


def test_the_architecture_has_a_row_for_every_distribution() -> None:
    section = read("ARCHITECTURE.md").partition("\n## Distributions\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    spans = [span for cell in cells for span in re.findall(r"`([a-z-]+)`", cell)]
    listed = {f"{CORE}{span}" if span.startswith("-") else span for span in spans}

    check("ARCHITECTURE.md, Distributions", listed, set(PYPROJECTS), "a row for `{}`")


def test_core_has_an_extra_for_every_plugin() -> None:
    extras = PYPROJECTS[CORE]["project"]["optional-dependencies"]
    own = {f"{CORE}-{extra}": needs for extra, needs in extras.items()}
    where = f"packages/{CORE}/pyproject.toml, [project.optional-dependencies]"

    missing = sorted(plugins() - own.keys())
    assert not missing, f"{where}: add an extra for {missing}"
    assert all(siblings(own[name]) == {name} for name in own.keys() & PYPROJECTS.keys())


def test_the_extra_all_of_core_has_every_other_extra_of_a_distribution() -> None:
    extras = PYPROJECTS[CORE]["project"]["optional-dependencies"]
    named = {extra for each in extras["all"] for extra in Requirement(each).extras}

    check(
        f"packages/{CORE}/pyproject.toml, the extra `all`",
        named,
        {extra for extra in extras if f"{CORE}-{extra}" in PYPROJECTS},
        "{}",
    )


# --- the shape of a distribution ---


@each_distribution
def test_a_distribution_is_named_after_its_folder(name: str) -> None:
    package = name.replace("-", "_")
    tool = PYPROJECTS[name]["tool"]["hatch"]

    assert PYPROJECTS[name]["project"]["name"] == name
    assert tool["version"]["path"] == f"src/{package}/_version.py"
    assert tool["build"]["targets"]["wheel"]["packages"] == [f"src/{package}"]


@each_distribution
def test_a_distribution_has_its_documents_tests_and_typing_marker(name: str) -> None:
    folder, package = ROOT / "packages" / name, name.replace("-", "_")
    expected = ["README.md", "CHANGELOG.md", f"src/{package}/py.typed", "tests"]

    assert [each for each in expected if not (folder / each).exists()] == []
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@each_distribution
def test_a_distribution_supports_the_pythons_of_core(name: str) -> None:
    own, core = PYPROJECTS[name]["project"], PYPROJECTS[CORE]["project"]

    assert own["requires-python"] == core["requires-python"]
    assert [each for each in own["classifiers"] if "Python ::" in each] == [
        each for each in core["classifiers"] if "Python ::" in each
    ]


@each_distribution
def test_a_distribution_is_built_and_licensed_like_core(name: str) -> None:
    own, core = PYPROJECTS[name], PYPROJECTS[CORE]

    assert own["build-system"] == core["build-system"]
    for key in ("license", "license-files", "dynamic", "readme"):
        assert own["project"][key] == core["project"][key]


@each_distribution
def test_a_distribution_requires_core(name: str) -> None:
    assert name == CORE or CORE in required_siblings(name)
