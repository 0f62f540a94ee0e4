"""Every check of this repository. `nox` runs the default ones, `nox -l` lists them all.

Tests never see the source tree: they run against the wheels that the `build` session made, which
are the files that would be published.
"""

import os
import shutil
from pathlib import Path

import nox
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent
DIST = ROOT / "dist"

# The [project] table of every package in the workspace, by distribution name.
PROJECTS = {
    project["name"]: project
    for pyproject in sorted(ROOT.glob("packages/*/pyproject.toml"))
    for project in [nox.project.load_toml(pyproject)["project"]]
}
# The supported Pythons, from the core's classifiers.
PYTHONS = nox.project.python_versions({"project": PROJECTS["jaato-gc"]})

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
# A package's version stays while its code changes: a reused environment could hold an old wheel.
nox.options.reuse_venv = "no"
# A missing Python is a failure: neither a skip that looks green nor a download.
nox.options.error_on_missing_interpreters = True
nox.options.download_python = "never"
os.environ["UV_PYTHON_DOWNLOADS"] = "never"
# pyenv's shims answer only for the versions selected here: after the user's own choice, select the
# newest installed of each supported Python. Without pyenv this does nothing.
os.environ["PYENV_VERSION"] = ":".join(filter(None, [os.environ.get("PYENV_VERSION"), *PYTHONS]))

each_package = nox.parametrize("package", [nox.param(name, id=name) for name in PROJECTS])


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting of the whole repository."""
    install(session, *tools("lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session(requires=["build"])
def types(session: nox.Session) -> None:
    """Type-check sources, tests and scripts; siblings are seen as installed, as users see them."""
    install(session, *tools("types"), *(wheel(name) for name in PROJECTS))
    # One run per package, since test modules of different packages may have the same name.
    for name in PROJECTS:
        session.run("mypy", f"packages/{name}/src", f"packages/{name}/tests")
    session.run("mypy", "noxfile.py", "benchmarks", "examples", "tests-integration")


@nox.session(requires=["build"])
@each_package
def unit(session: nox.Session, package: str) -> None:
    """Test one package, with only its own dependencies installed."""
    run_unit_tests(session, package)


@nox.session(requires=["build"])
def integration(session: nox.Session) -> None:
    """Test all packages together."""
    install(session, *tools("test"), *(wheel(name) for name in PROJECTS))
    session.run("pytest", "tests-integration", *session.posargs)


@nox.session(requires=["build"])
def example(session: nox.Session) -> None:
    """Run the examples as a user would, with all packages installed."""
    run_scripts(session, "examples")


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
    for name in PROJECTS:
        # Without isolation the build uses the pinned hatchling that was just installed.
        session.run("python", "-m", "build", "--no-isolation", f"packages/{name}", f"-o{DIST}")
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))


@nox.session(default=False, requires=["build"])
def bench(session: nox.Session) -> None:
    """Run the benchmarks."""
    run_scripts(session, "benchmarks")


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Refresh constraints.txt (`nox -s lock -- --upgrade` for the newest versions)."""
    session.install("uv")
    session.run(
        "uv", "pip", "compile", "--quiet", "--universal", f"--python-version={PYTHONS[0]}",
        "--no-annotate", "--custom-compile-command=nox -s lock", "--output-file=constraints.txt",
        "--group=dev", "--all-extras", *(f"--no-emit-package={name}" for name in PROJECTS),
        *(f"packages/{name}/pyproject.toml" for name in PROJECTS), *session.posargs,
    )  # fmt: skip


def install(session: nox.Session, *requirements: str) -> None:
    """Install requirements at the pinned versions."""
    session.install("--constraint", "constraints.txt", *requirements)


def tools(group: str) -> tuple[str, ...]:
    """Return the requirements of one of the root's dependency groups."""
    return nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), group)


def wheel(name: str, *, extras: bool = True) -> str:
    """Return the requirement for exactly the wheel just built, never a published one."""
    [path] = DIST.glob(f"{name.replace('-', '_')}-*.whl")
    names = PROJECTS[name].get("optional-dependencies", {}) if extras else {}
    suffix = f"[{','.join(names)}]" if names else ""
    return f"{name}{suffix} @ {path.as_uri()}"


def siblings(name: str) -> set[str]:
    """Return the packages of this workspace that a package needs, directly or not."""
    needed = {canonicalize_name(Requirement(r).name) for r in PROJECTS[name]["dependencies"]}
    direct = needed & PROJECTS.keys()
    return direct.union(*map(siblings, direct))


def run_unit_tests(session: nox.Session, package: str) -> None:
    """Run a package's tests against its wheel, with all of its own extras, and the kit."""
    needed = siblings(package) | siblings("jaato-gc-testing") | {"jaato-gc-testing"}
    others = [wheel(name, extras=False) for name in sorted(needed - {package})]
    install(session, *tools("test"), wheel(package), *others)
    # JAATO_GC_EDITABLE would switch off the test that the wheel is what is imported.
    session.run(
        "pytest", f"packages/{package}/tests", *session.posargs, env={"JAATO_GC_EDITABLE": None}
    )


def run_scripts(session: nox.Session, folder: str) -> None:
    """Run every script in a folder with all packages installed."""
    install(session, *(wheel(name) for name in PROJECTS))
    scripts = sorted(Path(folder).glob("*.py"))
    if not scripts:
        session.error(f"no scripts in {folder}/")
    for script in scripts:
        session.run("python", str(script))
