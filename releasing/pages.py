"""The page of a distribution on a package index: its authors, keywords and links.

settings.toml has the values for all distributions. ``python -m releasing.pages`` writes them into
every packages/*/pyproject.toml, and the release check compares.

The links of a README are relative, for readers of the repository. An index shows the README without
the files beside it, so the build makes them absolute.
"""

import json
import posixpath
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from releasing.releases import ROOT, distributions

SETTINGS = "releasing/settings.toml"
CODE = re.compile(r"^(?P<fence> *`{3,}).*?^(?P=fence)|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?:\]\(|^\[[^\]]+\]: )(?P<target>[^)\s]+)", re.MULTILINE)
ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)

AUTHORS = re.compile(r"^authors = .*\n", re.MULTILINE)
KEYWORDS = re.compile(r"^keywords = (?P<list>\[.*\])$", re.MULTILINE)
URLS = re.compile(r"^\[project\.urls\]\n(?:.+\n)*\n", re.MULTILINE)
AFTER_URLS = "[tool.hatch.version]\n"


@dataclass(frozen=True)
class Settings:
    """The values that all distributions share.

    Args:
        repository: The address of the repository, or "" if it is not known.
        authors: The names of the authors.
        keywords: The keywords of every distribution.
        urls: Paths below the address of the repository, by label; ``{name}`` is the distribution.
    """

    repository: str
    authors: list[str]
    keywords: list[str]
    urls: dict[str, str]

    def __post_init__(self) -> None:
        if self.repository and not re.fullmatch(r"https://\S+[^\s/]", self.repository):
            raise SystemExit(
                f"{SETTINGS}: repository: expected an address that begins with https:// and does "
                f"not end with a slash, got {self.repository!r}"
            )


def read_settings(text: str | None = None) -> Settings:
    """Return the settings in a text, or those of this checkout."""
    if text is None:
        text = (ROOT / SETTINGS).read_text(encoding="utf-8")
    return Settings(**tomllib.loads(text))


def with_settings(pyproject: str, name: str, settings: Settings) -> str:
    """Return the text of a pyproject.toml with the authors, keywords and urls of the settings."""
    found = KEYWORDS.search(pyproject)
    if not found or AFTER_URLS not in pyproject:
        raise SystemExit(
            f"packages/{name}/pyproject.toml: expected keywords on one line and the table "
            "[tool.hatch.version]: add what is missing"
        )
    keywords = sorted({*json.loads(found["list"]), *settings.keywords})
    authors = ", ".join(f"{{ name = {json.dumps(author)} }}" for author in settings.authors)
    project = f"authors = [{authors}]\nkeywords = {json.dumps(keywords)}"
    text = KEYWORDS.sub(lambda _: project, AUTHORS.sub("", pyproject))
    text = URLS.sub("", text)
    if settings.repository:
        links = "".join(
            f"{label} = {json.dumps(settings.repository + path.format(name=name))}\n"
            for label, path in settings.urls.items()
        )
        text = text.replace(AFTER_URLS, f"[project.urls]\n{links}\n{AFTER_URLS}")
    return text


def with_absolute_links(readme: str, name: str, tag: str, settings: Settings) -> str:
    """Return a README whose relative links lead to the files of a tag in the repository."""
    if not settings.repository:
        return readme
    for link in reversed(_relative_links(readme)):
        path, hash_sign, anchor = link["target"].partition("#")
        file = posixpath.normpath(posixpath.join("packages", name, path))
        absolute = f"{settings.repository}/blob/{tag}/{file}{hash_sign}{anchor}"
        start, end = link.span("target")
        readme = readme[:start] + absolute + readme[end:]
    return readme


def check_page(name: str, pyproject: str, readme: str, settings: Settings) -> Iterator[str]:
    """Check that a pyproject.toml agrees with the settings, and that built links are absolute."""
    if with_settings(pyproject, name, settings) != pyproject:
        yield f"pyproject.toml: differs from {SETTINGS}: run `python -m releasing.pages`"
    if settings.repository:
        for link in _relative_links(readme):
            yield f"README: the link to {link['target']} is relative: build with `nox -s build`"


def _relative_links(readme: str) -> list[re.Match[str]]:
    outside_code = CODE.sub(lambda code: " " * len(code[0]), readme)
    return [each for each in LINK.finditer(outside_code) if not ABSOLUTE.match(each["target"])]


def write(folder: Path, settings: Settings) -> None:
    """Write the settings into the pyproject.toml in the folder of a package."""
    path = folder / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(with_settings(text, folder.name, settings), encoding="utf-8")


if __name__ == "__main__":
    for each in distributions():
        write(ROOT / "packages" / each, read_settings())
