"""The code blocks of the seeds (the requirements), and how to run them on our own objects."""

import dataclasses
import json
import os
import re
import time
import typing
import uuid
from pathlib import Path
from typing import Any

import pytest

import jaato_gc

SNIPPETS = {
    # name: text that only this snippet contains
    "truncate": "from shared.plugins.gc_truncate import",
    "summarize": "from shared.plugins.gc_summarize import",
    "hybrid": "from shared.plugins.gc_hybrid import",
    "load from file": "import load_gc_from_file",
    "gc.json by type": '"plugin_config": {}',
    "gc.json by plugin": "# .jaato/gc.json",
    "profile my-subagent": '"name": "my-subagent"',
    "profile research": '"name": "research"',
    "inline": "inline_config={",
    "client": "client = JaatoClient()",
    "threshold callback": "on_gc_threshold=on_gc_threshold_callback",
    "budget modes": "# enables continuous mode",
    "discovery": "import discover_gc_plugins",
    "custom plugin": "class MyCustomGCPlugin",
    "entry point": 'gc_custom = "',
    "session": "def _execute_gc(self",
    "context usage": "def get_context_usage(self)",
    "summary entry": 'child_key="gc_summary"',
    "removal by entry": "budget.get_child(item.source, item.child_key)",
    "removal by message": "if item.message_ids:",
    "collect of truncate": 'reason="truncated"',
    "collect of summarize": 'reason="summarized"',
    "collect of hybrid": 'reason="ancient_truncated"',
}

# Names that the snippets use without importing them.
FREE_NAMES: dict[str, Any] = (
    {name: getattr(jaato_gc, name) for name in jaato_gc.__all__}
    | {name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Protocol")}
    | {"Tuple": tuple, "runtime_checkable": typing.runtime_checkable}
    | {"dataclass": dataclasses.dataclass, "field": dataclasses.field}
    | {"os": os, "time": time, "uuid": uuid}
)


def swap_imports(code: str) -> str:
    code = re.sub(r"^from shared\.jaato_client import .*$", "", code, flags=re.MULTILINE)
    code = code.replace("shared.plugins.gc_", "jaato_gc_")
    return re.sub(r"\bshared\.(plugins\.gc|instruction_budget)\b", "jaato_gc", code)


def run(code: str, **names: Any) -> dict[str, Any]:
    """Runs a snippet with some free names, and returns its namespace."""
    namespace = {"__name__": "seed", **FREE_NAMES, **names}
    exec(compile(swap_imports(code), "<seed>", "exec"), namespace)
    return namespace


class Seeds:
    def __init__(self, folder: Path) -> None:
        fence = re.compile(r"^```(?:python|json|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
        self.blocks = [
            block
            for document in sorted(folder.glob("*.md"))
            for block in fence.findall(document.read_text(encoding="utf-8"))
        ]

    def __getitem__(self, name: str) -> str:
        found = [block for block in self.blocks if SNIPPETS[name] in block]
        if len(found) != 1:
            pytest.fail(f"{len(found)} snippets of the seeds contain {SNIPPETS[name]!r}, not one")
        return str(found[0])

    def json(self, name: str) -> dict[str, Any]:
        """Returns a JSON snippet, parsed without its comments."""
        document: dict[str, Any] = json.loads(re.sub(r"^#.*$", "", self[name], flags=re.MULTILINE))
        return document

    def classes(self, name: str) -> list[type]:
        """Returns every definition of a class in the seeds."""
        heading = re.compile(rf"^class {name}\b", re.MULTILINE)
        found = [run(block)[name] for block in self.blocks if heading.search(block)]
        if not found:
            pytest.fail(f"no snippet of the seeds defines {name}")
        return found
