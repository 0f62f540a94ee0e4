"""Builds sdists and wheels of this checkout, or with ``--releases`` of all earlier releases."""

import argparse
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from releasing import releases
from releasing.pages import SETTINGS, Settings, read_settings, with_absolute_links
from releasing.releases import Build, checkout, distributions, files_in, git


def make(build: Build) -> None:
    """Build the sdist of a package and, from the sdist, its wheel."""
    print(f"building {build}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / build.distribution
        for file in files_in(build.source):
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(build.source / file, copy / file)
        _build(build, copy, read_settings())


def make_release(build: Build) -> None:
    """Build a release from its commit, unless the wheelhouse has it."""
    if list(build.place.glob("*.whl")):
        return
    print(f"building {build}", flush=True)
    assert build.commit
    needed = (f"packages/{build.distribution}", SETTINGS)
    try:
        archive = git("archive", build.commit, *needed)
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"{build}: this clone does not have the commit: run `git fetch --unshallow --tags`"
        ) from error
    root = build.place / "source"
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(root, filter="data")
    _build(build, build.source, read_settings((root / SETTINGS).read_text(encoding="utf-8")))
    if not list(build.place.glob(f"*-{build.version}-*.whl")):
        made = ", ".join(each.name for each in build.place.glob("*.whl"))
        raise SystemExit(f"{build}: the commit has another version, its wheel is {made}")


def _build(build: Build, folder: Path, settings: Settings) -> None:
    """Build a folder, after the links of its README became absolute."""
    readme, tag = folder / "README.md", f"{build.distribution}-v{build.version}"
    text = readme.read_text(encoding="utf-8")
    text = with_absolute_links(text, build.distribution, tag, settings)
    readme.write_text(text, encoding="utf-8")
    # Without isolation, the build uses the installed hatchling, which is pinned.
    command = [sys.executable, "-m", "build", "--no-isolation", str(folder)]
    subprocess.run([*command, f"--outdir={build.place}"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", action="store_true", help="build into wheelhouse/")
    earlier = parser.parse_args().releases
    for distribution in distributions():
        if earlier:
            for release in releases.releases(distribution):
                make_release(release)
        else:
            make(checkout(distribution))
