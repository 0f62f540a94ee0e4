"""Is a distribution fit to be released? Run as ``python -m releasing.check jaato-gc``.

With ``--tag jaato-gc-v0.2.0`` it is about to be, and everything has to be in place. Without, what
can be checked is checked, and the rest is said.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.version import Version

from releasing.api import breaks
from releasing.releases import CORE, ROOT, Build, checkout, git, releases

SHIPPED_DATA = {"jaato-gc-lab": ("prices.toml", "sample/", "templates/")}
"""What is no code and belongs into a wheel all the same, by distribution."""
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?P<date>.*)$", re.MULTILINE)
DATE = re.compile(r" - \d{4}-\d{2}-\d{2}")
IN_DIST_INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
ALWAYS_IN_SDIST = {"PKG-INFO", ".gitignore"}
"""Put in by the build backend; the ignore file is this repository's."""


def main() -> None:
    """Run every check, and fail with all that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("distribution")
    parser.add_argument("--tag", help="about to be released under this tag")
    arguments = parser.parse_args()
    build, earlier = checkout(arguments.distribution), releases(arguments.distribution)
    if arguments.tag:  # it may be in the clone already
        earlier = [each for each in earlier if each.version != build.version]
    changelog = (build.source / "CHANGELOG.md").read_text(encoding="utf-8")
    for line in describe(build, earlier, arguments.tag):
        print(line)
    problems = [
        *check_versions(build, [each.version for each in earlier], changelog, arguments.tag),
        *check_requirements(build),
        *check_wheel(build),
        *check_sdist(build),
        *check_rebuild(build),
        *check_api(build, earlier),
    ]
    files = (str(build.wheel), str(build.sdist))
    if subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files]).returncode:
        problems.append("twine finds the metadata wanting")
    if problems:
        raise SystemExit("\n".join([f"{build} is not fit to be released:", *problems]))
    print(f"{build}: all is well")


def describe(build: Build, earlier: list[Build], tag: str | None) -> Iterator[str]:
    """Say what is checked, and against what."""
    yield f"checking {build}" + (f", to be released as {tag}" if tag else "")
    if not earlier:
        yield "  there is no release yet: no earlier interface to compare with"
    elif earlier[-1].version == build.version:
        yield f"  no newer version than the last release, {earlier[-1]}"
    else:
        yield f"  the last release is {earlier[-1]}"
    if not tag:
        yield "  no tag was given: the changelog may still say Unreleased"


def check_versions(
    build: Build, earlier: list[Version], changelog: str, tag: str | None = None
) -> Iterator[str]:
    """Tag, version and the changelog's first heading have to be one."""
    headings = list(HEADING.finditer(changelog))
    dated = [each for each in headings if each["version"] != "Unreleased"]
    versions = [Version(each["version"]) for each in dated]
    for each in dated:
        if not DATE.fullmatch(each["date"]):
            yield f"changelog: {each[0]!r} has no date: ## [X.Y.Z] - YYYY-MM-DD"
    if versions != sorted(versions, reverse=True):
        yield "changelog: the newest version does not come first"
    for version in earlier:
        if version not in versions:
            yield f"changelog: no heading for {version}, which was released"
    if versions and versions[0] != build.version and versions[0] not in earlier:
        yield f"changelog: the first version is {versions[0]}, but this is {build.version}"
    if earlier and build.version < earlier[-1]:
        yield f"version {build.version} is older than the last release, {earlier[-1]}"
    if tag is None:
        return
    if tag != f"{build.distribution}-v{build.version}":
        yield f"tag {tag} is not {build.distribution}-v{build.version}"
    if build.version not in versions[:1]:
        yield f"changelog: the first version is not {build.version}"
    unreleased = re.search(r"^## \[Unreleased\](.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if unreleased and unreleased[1].strip():
        yield "changelog: something is still Unreleased"


def check_requirements(build: Build) -> Iterator[str]:
    """Siblings are required by a range: from what was tested, to before 1."""
    for each in build.requirements:
        if each.name.startswith(CORE) and each.name != build.distribution:
            operators = sorted(specifier.operator for specifier in each.specifier)
            if operators != ["<", ">="]:
                yield f"requires {each}: give a range, such as >=0.1,<1"


def check_wheel(build: Build) -> Iterator[str]:
    """The wheel holds the package, its licence and metadata, and nothing else."""
    package = build.distribution.replace("-", "_")
    dist_info = f"{package}-{build.version}.dist-info"
    with zipfile.ZipFile(build.wheel) as wheel:
        names = set(wheel.namelist())
        licence = f"{dist_info}/licenses/LICENSE"
        if licence in names and wheel.read(licence) != (ROOT / "LICENSE").read_bytes():
            yield "wheel: another LICENSE than the repository's"
    source = {f"{package}/{name}" for name in files_in(build.source / "src" / package)}
    metadata = {f"{dist_info}/{name}" for name in IN_DIST_INFO}
    wanted = source | {f"{package}/py.typed"} | metadata
    pyproject = (build.source / "pyproject.toml").read_text(encoding="utf-8")
    if "entry-points" not in pyproject and "[project.scripts]" not in pyproject:
        wanted.remove(f"{dist_info}/entry_points.txt")
    yield from differences("wheel", names, wanted)
    data = tuple(f"{package}/{name}" for name in SHIPPED_DATA.get(build.distribution, ()))
    for name in source:
        if not is_code(name) and not name.startswith(data):
            yield f"wheel: {name} is no code"


def check_sdist(build: Build) -> Iterator[str]:
    """The sdist holds the package's folder, as git knows it."""
    with tarfile.open(build.sdist) as sdist:
        names = {member.name.partition("/")[2] for member in sdist if member.isfile()}
    tracked = git("ls-files", "-z", f"packages/{build.distribution}").decode().split("\0")
    prefix = f"packages/{build.distribution}/"
    wanted = {name.removeprefix(prefix) for name in tracked if name}
    yield from differences("sdist", names - ALWAYS_IN_SDIST, wanted)


def check_rebuild(build: Build) -> Iterator[str]:
    """The sdist alone gives the same wheel again, to the byte."""
    with tempfile.TemporaryDirectory() as name, tarfile.open(build.sdist) as sdist:
        sdist.extractall(name, filter="data")
        [project] = Path(name).iterdir()
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
        if (Path(name) / build.wheel.name).read_bytes() != build.wheel.read_bytes():
            yield "sdist: it builds another wheel"


def check_api(build: Build, earlier: list[Build]) -> Iterator[str]:
    """The public interface breaks only with the right version step."""
    before = [each for each in earlier if each.version <= build.version]
    if not before:
        return
    last, package = before[-1], build.distribution.replace("-", "_")
    found = breaks(package, last.source / "src", build.source / "src")
    needed = next_allowed(build.distribution, last.version)
    if found and build.version < needed:
        yield f"breaks since {last.version}, allowed from {needed} on:"
        yield from (f"  {each}" for each in found)
    elif found:
        print(f"  breaks since {last.version}, as {build.version} may:", *found, sep="\n    ")
    else:
        print(f"  nothing breaks since {last.version}")


def next_allowed(distribution: str, last: Version) -> Version:
    """The first version that may break what the last one promised.

    Core promises plugins that nothing breaks before 1.0; the others only within a minor version.
    """
    if distribution == CORE or last.major:
        return Version(f"{last.major + 1}.0.0")
    return Version(f"{last.major}.{last.minor + 1}.0")


def differences(where: str, names: Iterable[str], wanted: Iterable[str]) -> Iterator[str]:
    """Say what is there but should not be, and the other way round."""
    yield from (f"{where}: {name} does not belong there" for name in sorted({*names} - {*wanted}))
    yield from (f"{where}: {name} is missing" for name in sorted({*wanted} - {*names}))


def files_in(folder: Path) -> Iterator[str]:
    """Every file that git does not ignore, by its path from the folder."""
    command = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", str(folder))
    for name in git(*command).decode().split("\0"):
        if name and (ROOT / name).is_file():
            yield (ROOT / name).relative_to(folder).as_posix()


def is_code(name: str) -> bool:
    """Whether a file is one that a package is made of, and no test."""
    path = Path(name)
    return (path.suffix == ".py" or path.name == "py.typed") and "test" not in path.stem.split("_")


if __name__ == "__main__":
    main()
