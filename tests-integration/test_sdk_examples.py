"""The examples with the providers' SDKs: a stash, the recall tool and a sub-agent.

They run with the real SDKs against the loopback server. A scripted model reads a file per question,
then asks the sub-agent, then recalls what the first file said.
"""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loopback import Loopback

from jaato_gc_stash import SqlStash

EXAMPLES = sorted((Path(__file__).parents[1] / "examples" / "sdks").glob("*.py"))
READING = 8
"""The number of questions for which the model reads a file."""
SECRET = "the code of the safe is 4711"

Fields = dict[str, Any]


def scripted(request: Fields, tools: list[str], rounds: int) -> list[tuple[str, Fields]]:
    """Returns the calls for the newest question in a request."""
    number = int(re.findall(r"Question (\d+)", json.dumps(request))[-1])
    if rounds:
        return []
    if "research" not in tools:  # the sub-agent
        return [("read_file", {"path": "file_1.txt"}), ("read_file", {"path": "file_2.txt"})]
    if number < READING:
        return [("read_file", {"path": f"file_{number}.txt"})]
    if number == READING:
        return [("research", {"question": f"Question {number}, for you"})]
    return [("recall", {"query": "code safe"})]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with some files. The first one has a secret in the middle."""
    for number in range(READING):
        lines = [f"line {line} of file {number}, like all others" for line in range(150)]
        if number == 0:
            lines[75] = SECRET
        (tmp_path / f"file_{number}.txt").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAATO_GC_STASH", raising=False)
    return tmp_path


def test_there_is_an_example_for_each_sdk() -> None:
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_recalls_removed_content_and_asks_its_sub_agent(
    path: Path,
    folder: Path,
    providers: Loopback,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for api in providers.apis:
        api.model = scripted
    providers.window = 12_000
    questions = [f"Question {number}" for number in range(READING + 2)]

    agent = load(path).main(questions, context_limit=12_000)

    assert providers.refusals == []
    assert len(capsys.readouterr().out.splitlines()) == len(questions)
    assert agent.session.get_gc_history()
    sent = [json.dumps(request) for request in providers.requests]
    before, after = sent[-2:]  # the last question, before and after its call of the tool
    assert SECRET not in before
    assert SECRET in after
    of_child = [text for text in sent if "Report what you find" in text]
    assert len(of_child) == 2
    assert not any(f"Question {READING - 1}" in text for text in of_child)
    assert "line 1 of file 1" in of_child[1]
    stash = SqlStash(folder / "stash.db")
    assert stash.search("code safe")
    assert not stash.for_agent("main-child").search("code safe")
