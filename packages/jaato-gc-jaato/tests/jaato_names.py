"""A pytest plugin that maps the modules of jaato-server to ours, for its own test-suites.

It maps names of modules and nothing else. A name that we do not have is looked up in the module of
jaato-server, so that its tests of other things can be imported.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

AGENT, AUTHOR = "jaato_gc", "jaato_gc.plugin"
OURS = {
    "jaato": (AGENT,),
    "shared.instruction_budget": (AGENT, AUTHOR),
    "shared.plugins.gc": (AGENT, AUTHOR),
    "shared.plugins.gc.utils": (AUTHOR,),
    "shared.plugins.gc_budget": ("jaato_gc_budget",),
    "shared.plugins.gc_hybrid": ("jaato_gc_hybrid",),
    "shared.plugins.gc_summarize": ("jaato_gc_summarize",),
    "shared.plugins.gc_truncate": ("jaato_gc_truncate",),
    "shared.plugins.subagent.config": (AGENT,),
}
REPORT = "JAATO_NAMES_REPORT"
"""The variable that names the file for the outcomes."""


class Mapped(ModuleType):
    """A module under the name of another one."""

    def __init__(self, name: str, own: ModuleType) -> None:
        super().__init__(name)
        self._modules = [*map(importlib.import_module, OURS[name]), own]
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def pytest_configure() -> None:
    """Maps the modules."""
    own = {name: importlib.import_module(name) for name in OURS}
    for name, module in own.items():
        mapped = Mapped(name, module)
        sys.modules[name] = mapped
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, mapped)


OUTCOMES: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes how a test ended."""
    if report.when == "call" or report.failed:
        test = report.nodeid.partition("::")[2]
        OUTCOMES[f"{Path(report.location[0]).stem}::{test}"] = report.outcome


def pytest_sessionfinish() -> None:
    """Writes how all tests ended."""
    Path(os.environ[REPORT]).write_text(json.dumps(OUTCOMES), encoding="utf-8")
