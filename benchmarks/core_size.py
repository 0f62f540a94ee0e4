"""How large core is, and how much of it one collection passes.

Lines of code are those that are left without blank lines, comments and docstrings. A string that
stands alone, such as the description below an attribute, is a docstring too. Modules are counted by
a profiler while `before_send` collects with gc_budget, in a session with a stash and all plugins.

    python benchmarks/core_size.py
"""

import ast
import io
import itertools
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import jaato_gc
from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCSession,
    Message,
    Part,
    Role,
    ToolResult,
    load_gc_plugin,
)
from jaato_gc_testing import MemoryStash

CORE = Path(jaato_gc.__file__).parent
LONG = (300, 450)
"""The numbers of lines, of any kind, above which modules are listed."""
FULL = 85.0
"""The percentage of the window from which on a collection is due."""
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def count_code(source: str) -> int:
    """Returns the number of lines of code in a module."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def modules_passed(session: GCSession) -> set[str]:
    """Makes a request, and returns the modules of core that ran, as paths in its folder."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        session.before_send()
    finally:
        sys.setprofile(None)
    paths = map(Path, files)
    return {str(path.relative_to(CORE)) for path in paths if path.is_relative_to(CORE)}


def coding_session() -> GCSession:
    """Returns a session of a coding agent in which a collection is due."""
    session = GCSession(context_limit=32_000, stash=MemoryStash())
    session.set_gc_plugin(load_gc_plugin("gc_budget"), GCConfig(target_percent=30.0))
    for message in coding_turns():
        session.append(message)
        if message.role is Role.USER and session.budget.utilization_percent() > FULL:
            return session
    raise AssertionError("turns never end")


def coding_turns() -> Iterator[Message]:
    """Yields turns in which files are read again and edited, and tests are run."""
    yield Message.from_text(Role.SYSTEM, "You are a coding agent.")
    for turn in itertools.count():
        path = f"src/module_{turn % 6}.py"
        source = "\n".join(f"value_{line} = compute({line}, {turn % 6})" for line in range(25))
        yield Message.from_text(Role.USER, f"Please fix {path}: test_{turn} fails.")
        calls = [
            ("read_file", {"path": path}, source),
            ("edit_file", {"path": path, "old": "value_1", "new": f"value_{turn}"}, "done"),
            ("bash", {"command": f"pytest tests/test_{turn}.py"}, "1 passed in 0.1 s"),
        ]
        for number, (tool, arguments, result) in enumerate(calls):
            call = FunctionCall(f"call_{turn}_{number}", tool, arguments)
            answer = ToolResult(call.id, tool, result)
            yield Message(Role.MODEL, [Part(function_call=call)])
            yield Message(Role.TOOL, [Part(function_response=answer)])
        yield Message.from_text(Role.MODEL, f"{path} is fixed, and test_{turn} passes.")


def main() -> None:
    """Prints the figures."""
    sources = {
        str(path.relative_to(CORE)): path.read_text(encoding="utf-8")
        for path in sorted(CORE.rglob("*.py"))
    }
    print(f"{sum(map(count_code, sources.values())):6,} lines of code in {len(sources)} modules")
    session = coding_session()
    passed = modules_passed(session)
    assert session.collection_count == 1
    print(f"{len(passed):6,} modules in one collection with gc_budget:")
    folders: dict[str, list[str]] = {}
    for name in sorted(passed):
        folders.setdefault(str(Path(name).parent), []).append(Path(name).stem)
    for folder, names in folders.items():
        print(f"         {folder}: {', '.join(names)}")
    lengths = {name: len(source.splitlines()) for name, source in sources.items()}
    for most in LONG:
        longer = [name for name in lengths if lengths[name] > most]
        print(f"{len(longer):6,} modules above {most} lines:")
        for name in sorted(longer, key=lambda name: -lengths[name]):
            print(f"         {name}: {lengths[name]}")


if __name__ == "__main__":
    main()
