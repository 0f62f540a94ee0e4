"""Type checkers find misspelled keywords, and values of another type, without a plugin for them.

The tests need mypy and Pyright: ``pip install mypy 'pyright[nodejs]'``. `nox -s types` runs them.
"""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from jaato_gc import GCConfig, GCSession, Message
from jaato_gc_formats import ProviderSession
from jaato_gc_testing import new_session

if not (find_spec("mypy") and find_spec("pyright")):
    pytest.skip("pip install mypy 'pyright[nodejs]'", allow_module_level=True)

CALLS: dict[str, Callable[..., Any]] = {
    "GCConfig": GCConfig,
    "GCSession": GCSession,
    "GCSession.restore": GCSession.restore,
    "session.child": GCSession.child,
    "session.manual_gc": GCSession.manual_gc,
    "session.plan_gc": GCSession.plan_gc,
    "ProviderSession": ProviderSession,
    "ProviderSession.open": ProviderSession.open,
    "ProviderSession.restore": ProviderSession.restore,
    "agent.child": ProviderSession.child,
    "Message": Message,
    "Message.from_text": Message.from_text,
    "new_session": new_session,
}
"""The calls that have many keywords, or pass keywords on."""
TYPES = {
    "GCSession(context_limit=32_000)": "GCSession(context_limit='32k')",
    "GCSession(on_overflow='send')": "GCSession(on_overflow='sned')",
    "GCSession(tool_policies={'read': GCPolicy.LOCKED})": "GCSession(tool_policies={'read': 1})",
    "GCSession(stash=MemoryStash())": "GCSession(stash='stash.db')",
    "GCSession(summarizer=str.upper)": "GCSession(summarizer='module:function')",
    "GCConfig(target_percent=50)": "GCConfig(target_percent='50')",
    "GCConfig(max_turns=None)": "GCConfig(auto_trigger=None)",
    "GCConfig(pinned_turn_indices=[1])": "GCConfig(pinned_turn_indices=1)",
    "session.manual_gc(target_percent=50)": "session.manual_gc(target_percent='50')",
    "session.set_gc_plugin(OldestFirst())": "session.set_gc_plugin(OldestFirst)",
    "session.set_gc_plugin('gc_oldest')": "session.set_gc_plugin({'type': 'gc_oldest'})",
    "session.set_gc_plugin(None, GCConfig())": "session.set_gc_plugin(None, {'max_turns': 5})",
    "session.append(session.history[0])": "session.append([*session.history])",
    "session.history.index(anything)": "session.history.append(anything)",
    "GCSession.restore('', strategy='gc_oldest')": "GCSession.restore('', strategy=OldestFirst)",
    "ProviderSession.open('gemini', context_limit=1)": (
        "ProviderSession.open('gemini', context_limit='1')"
    ),
    "ProviderSession.open('gemini', context_limit=1, strategy='gc_oldest')": (
        "ProviderSession.open('gemini', context_limit=1, strategy=42)"
    ),
    "ProviderSession.open('gemini', context_limit=1, call={'model': 'm'})": (
        "ProviderSession.open('gemini', context_limit=1, call='m')"
    ),
    "ProviderSession.restore('gemini', '', strategy=OldestFirst())": (
        "ProviderSession.restore('gemini', '', strategy=OldestFirst)"
    ),
}
"""Calls with values of the right types, and with those of other types."""
PREFACE = """
from typing import Any

from jaato_gc import GCConfig, GCPolicy, GCSession, Message
from jaato_gc_formats import ProviderSession
from jaato_gc_testing import MemoryStash, OldestFirst, new_session

anything: Any = None
session = GCSession()
agent = ProviderSession("anthropic", session)
"""


def keywords_of(function: Callable[..., Any]) -> Iterator[tuple[str, bool]]:
    """Yields the keywords of a function, and whether each is required."""
    if isinstance(function, type) and issubclass(function, BaseModel):
        yield from ((name, field.is_required()) for name, field in function.model_fields.items())
        return
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            typed = get_args(parameter.annotation)
            assert typed, f"{function.__qualname__}: annotate **{name} with Unpack[a TypedDict]"
            yield from ((each, False) for each in sorted(typed[0].__optional_keys__))
        elif parameter.kind is not inspect.Parameter.POSITIONAL_ONLY and name != "self":
            yield name, parameter.default is inspect.Parameter.empty


def calls(*, misspelled: bool) -> Iterator[str]:
    """Yields a call for every keyword, which is misspelled or not."""
    for expression, function in CALLS.items():
        keywords = dict(keywords_of(function))
        required = {name for name, is_required in keywords.items() if is_required}
        for name in keywords:
            given = name + name[-1] if misspelled else name
            arguments = ", ".join(
                f"{each}=anything" for each in [*sorted(required - {name}), given]
            )
            yield f"{expression}({arguments})"


def mypy(files: Sequence[Path]) -> Iterator[tuple[str, int]]:
    """Yields file and line of each error that mypy reports, without any configuration."""
    options = ("--strict", "--config-file=", "--output=json", f"--cache-dir={os.devnull}")
    for line in run("mypy", *options, *map(str, files)).splitlines():
        found = json.loads(line)
        if found["severity"] == "error":
            yield found["file"], found["line"]


def pyright(files: Sequence[Path]) -> Iterator[tuple[str, int]]:
    """Yields file and line of each error that Pyright reports, without any configuration."""
    report = run("pyright", "--outputjson", f"--pythonpath={sys.executable}", *map(str, files))
    for found in json.loads(report)["generalDiagnostics"]:
        if found["severity"] == "error":
            yield found["file"], found["range"]["start"]["line"] + 1


def run(checker: str, *arguments: str) -> str:
    quiet = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # it looks for a newer version otherwise
    command = [sys.executable, "-m", checker, *arguments]
    done = subprocess.run(
        command, env=os.environ | quiet, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=[mypy, pyright], ids=["mypy", "pyright"])
def refused(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, list[str]]:
    """The lines that a type checker reports, by the name of the file."""
    folder = tmp_path_factory.mktemp("typed")
    contents = {
        "right": [*calls(misspelled=False), *TYPES],
        "misspelled": list(calls(misspelled=True)),
        "other_types": list(TYPES.values()),
    }
    lines = {name: [*PREFACE.splitlines(), *content] for name, content in contents.items()}
    files = {name: folder / f"{name}.py" for name in lines}
    for name, path in files.items():
        path.write_text("\n".join(lines[name]), encoding="utf-8")
    reported = set(request.param(list(files.values())))
    return {
        name: [
            text for number, text in enumerate(lines[name], 1) if (str(path), number) in reported
        ]
        for name, path in files.items()
    }


def test_type_checkers_report_nothing_in_right_calls(refused: Mapping[str, list[str]]) -> None:
    assert refused["right"] == []


def test_type_checkers_report_every_misspelled_keyword(refused: Mapping[str, list[str]]) -> None:
    assert refused["misspelled"] == list(calls(misspelled=True))


def test_type_checkers_report_values_of_another_type(refused: Mapping[str, list[str]]) -> None:
    assert refused["other_types"] == list(TYPES.values())
