"""The architecture holds: imports only go down, and plugins use what is public."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"
CORE = PACKAGES / "jaato-gc" / "src" / "jaato_gc"

# From the ground up, as ARCHITECTURE.md shows them.
LAYERS = {
    "mechanism": """
        _version _errors _policies _messages _message_codec _estimate _images _tokens
        _source_entry _budget _config _results _pairing _turns _protection _triggers _change _glance
        _invariants _repair _clearing _synthetic _strategy _stash _formats _rendering _recall _facts
        _extractive _workers _summary_checks _summarizer _awaiting _summaries _takings _account
        _stand_ins _taking _summarizing _collection
    """,
    "strategy": "_base_strategy _hookspecs _installed_plugins _registry _profiles",
    "session": """
        _ledger _journal _request _context _breaker _examiner _collector _observers _recovery
        _runner _provider _turn_loop _result_codec _state _turn_points _session
    """,
}
ABOVE_OTHERS = {"jaato_gc_lab": ["jaato_gc_formats", "jaato_gc_marksweep"]}
"""Who may use other packages than core: the command stands above them all."""
RANK = {module: rank for rank, modules in enumerate(LAYERS.values()) for module in modules.split()}


def imported_modules(path: Path) -> Iterator[str]:
    """What a file imports when it runs; what only a type checker reads does not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.If):
            continue
        for each in ast.walk(node):
            if isinstance(each, ast.ImportFrom) and each.module:
                yield each.module
            elif isinstance(each, ast.Import):
                yield from (alias.name for alias in each.names)


def test_every_module_of_core_has_its_layer() -> None:
    modules = {path.stem for path in CORE.glob("*.py")} - {"__init__"}

    assert modules == RANK.keys()


@pytest.mark.parametrize("module", RANK)
def test_imports_only_go_down(module: str) -> None:
    imported = [
        name.removeprefix("jaato_gc.")
        for name in imported_modules(CORE / f"{module}.py")
        if name.startswith("jaato_gc.")
    ]

    assert [name for name in imported if RANK[name] > RANK[module]] == []


@pytest.mark.parametrize(
    "folder",
    [path for path in sorted(PACKAGES.iterdir()) if path.name != "jaato-gc"],
    ids=lambda path: path.name,
)
def test_other_packages_use_what_is_public_and_no_sibling_strategy(folder: Path) -> None:
    own = folder.name.replace("-", "_")
    allowed = {"jaato_gc", *ABOVE_OTHERS.get(own, ())}
    for path in folder.glob("src/**/*.py"):
        ours = [name for name in imported_modules(path) if name.startswith("jaato_gc")]
        foreign = [name for name in ours if name.partition(".")[0] != own]
        assert set(foreign) <= allowed, path
