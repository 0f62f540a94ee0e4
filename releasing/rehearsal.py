"""Rehearses two releases of everything in a temporary clone, and tests all pairs of them.

After the first release, core deprecates a method in favour of a new one, and one strategy uses the
new one: its second release refuses the first core. All others work with both cores.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from graphlib import TopologicalSorter
from pathlib import Path

from releasing.clone import Clone
from releasing.releases import CORE

STRATEGY = "jaato-gc-truncate"
COLLECTION = f"packages/{CORE}/src/jaato_gc/collecting/collection.py"
NEW_METHOD = '''\
    def remove_turns(self, *args: Any, **kwargs: Any) -> None:
        """Removes turns, oldest first: the new name of `remove_oldest`."""
        Collection.remove_oldest.__wrapped__(self, *args, **kwargs)

    @deprecated_since("{version}", "use Collection.remove_turns")
    def remove_oldest('''


def rehearse(clone: Clone) -> None:
    """Make two releases of every distribution, and run `nox -s compat` before the second."""
    with timed("first release"):
        nox(clone, "build")
        release_all(clone)
    with timed("a change without a version"):
        deprecate_a_method(clone)
        nox(clone, "build", "wheelhouse")
        report = clone.run("-m", "releasing.check", fails=True)
        for problem in ("set a new version in _version.py", "add an entry"):
            assert problem in report, report
    with timed("second version"):
        for name in clone.distributions:
            clone.next_version(name)
        clone.commit("Second version")
        nox(clone, "build")
        clone.run("-m", "releasing.check")
    with timed("compat"):
        print(*results(nox(clone, "compat")), sep="\n")
    with timed("second release"):
        release_all(clone)
        nox(clone, "wheelhouse")
        report = clone.run("-m", "releasing.check")
        for name in clone.distributions:
            assert f"{name}: unchanged since {clone.version(name)}" in report, report
            assert_built_from_the_tag(clone, name)


def release_all(clone: Clone) -> None:
    """Check every distribution for release and set its tag, each after those it requires."""
    required = {name: clone.required_by(name) for name in clone.distributions}
    for name in TopologicalSorter(required).static_order():
        clone.run("-m", "releasing.check", "--tag", clone.tag(name))
        clone.git("tag", clone.tag(name))


def deprecate_a_method(clone: Clone) -> None:
    """Deprecate a method of core that all strategies use, and let one use the new name."""
    major, minor, _ = clone.version(CORE).split(".")
    version = f"{major}.{int(minor) + 1}"
    new = NEW_METHOD.format(version=version)
    clone.replace(COLLECTION, r"    def remove_oldest\(", new)
    imported = "from jaato_gc.deprecation import deprecated_since\nfrom jaato_gc.errors "
    clone.replace(COLLECTION, r"(?m)^from jaato_gc\.errors ", imported)
    plugin = f"packages/{STRATEGY}/src/jaato_gc_truncate/_plugin.py"
    clone.replace(plugin, r"collection\.remove_oldest", "collection.remove_turns")
    needs = f"packages/{STRATEGY}/pyproject.toml"
    clone.replace(needs, '"jaato-gc>=[^,]*,', f'"jaato-gc>={version},')


def assert_built_from_the_tag(clone: Clone, name: str) -> None:
    """Check that the wheel built from the tag is the one that was checked, byte for byte."""
    pattern = f"{name.replace('-', '_')}-{clone.version(name)}-*.whl"
    [checked] = clone.folder.glob(f"dist/{pattern}")
    [released] = clone.folder.glob(f"wheelhouse/{name}-{clone.version(name)}-*/{pattern}")
    assert checked.read_bytes() == released.read_bytes(), f"{released} differs from {checked}"


def nox(clone: Clone, *arguments: str) -> str:
    """Run sessions of the clone and return their output."""
    return clone.run("-m", "nox", "-s", *arguments)


def results(output: str) -> list[str]:
    """Return the results of the `compat` sessions, and the combinations that were refused.

    Raises:
        SystemExit: A pair was skipped that exists.
    """
    found = [line for line in output.splitlines() if line.startswith("nox > * compat(")]
    # The strategy with the new name has no older core.
    expected = f"skipped (NO EARLIER RELEASE of {CORE} that {STRATEGY} "
    if skipped := [line for line in found if "skipped" in line and expected not in line]:
        raise SystemExit("\n".join([*skipped, "these pairs exist, and have to be tested"]))
    return found + [line for line in output.splitlines() if "has to refuse them" in line]


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Print a step, and the seconds it takes."""
    print(f"{step} ...", flush=True)
    start = time.monotonic()
    yield
    print(f"{step}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="jaato-gc-rehearsal-") as folder:
        rehearse(Clone(Path(folder) / "clone"))
