"""The code in the documents runs, and their links lead to existing files."""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from documents import ROOT, Block, blocks_of, read_blocks
from repository import PYPROJECTS

DOCUMENTS = sorted(
    path
    for pattern in (
        "*.md", ".github/*.md", "packages/*/README.md", "docs/**/*.md",
    )
    for path in ROOT.glob(pattern)
)  # fmt: skip

LINK = re.compile(r"!?\[[^\]]*\]\(<?(?P<inline>[^)\s>]+)|^\[[^\]]+\]: *<?(?P<reference>[^\s>]+)")
CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")

each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)


def links_in(blocks: Iterable[Block]) -> Iterator[tuple[int, str]]:
    """Yields the line, counted from 0, and the target of every link."""
    for block in blocks:
        if block.info is None:
            for match in LINK.finditer(CODE_SPAN.sub("", block.text)):
                yield block.line, match["inline"] or match["reference"]


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A new module for the code of one document, which runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # which may have a gc.json
    for variable in ("THRESHOLD", "TARGET", "PRESSURE", "DISABLED_PLUGINS", "STASH"):
        monkeypatch.delenv(f"JAATO_GC_{variable}", raising=False)
    # An application that the tests of an adapter need can have plugins too.
    monkeypatch.setenv("JAATO_GC_LOAD_PLUGINS", ",".join(PYPROJECTS))
    module = ModuleType("document")
    # Dataclasses and pydantic look up the module that a class was defined in.
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return vars(module)


@each_document
@pytest.mark.usefixtures("providers")  # for clients that call one
def test_python_blocks_run(
    document: Path, namespace: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    """All blocks run in order, in one namespace.

    A block marked ``python no-run`` only has to compile. A ``text`` block that directly follows is
    the expected output.
    """
    blocks = [
        block for block in blocks_of(document) if block.info is not None or block.text.strip()
    ]
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language != "python":
            continue
        # Moved to its line in the document, so that a traceback shows the right number.
        code = compile("\n" * block.line + block.text, str(document), "exec")
        if "no-run" in (block.info or "").split():
            continue
        exec(code, namespace)
        printed = capsys.readouterr().out
        if following and following.language == "text":
            assert printed.rstrip() == following.text.rstrip(), f"line {block.line + 1}"


@each_document
def test_relative_links_lead_to_files(document: Path) -> None:
    broken = [
        f"line {line + 1}: {target}"
        for line, target in links_in(blocks_of(document))
        if not re.match(r"[a-z][a-z0-9+.-]*:|#", target, re.IGNORECASE)
        and not (document.parent / target.partition("#")[0]).exists()
    ]

    assert not broken


@pytest.mark.parametrize(
    "document", sorted(ROOT.glob("packages/*/README.md")), ids=lambda path: path.parent.name
)
def test_readmes_of_packages_have_no_relative_images(document: Path) -> None:
    """A package index shows these READMEs without the files beside them."""
    text = "".join(block.text for block in blocks_of(document) if block.info is None)

    assert re.findall(r"!\[[^\]]*\]\((?!https:)[^)]*\)|<img", text) == []


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    after_cd = re.split(r"^cd .*\n", script, flags=re.MULTILINE)[-1]
    command = [line for line in after_cd.splitlines() if line and not line.startswith("#")][-1]

    blocks = iter(blocks_of(ROOT / "README.md"))
    heading = next(
        (
            block
            for block in blocks
            if block.info is None and re.match(r"#+ .*\btest", block.text, re.I)
        ),
        None,
    )
    assert heading, "README.md has no heading that mentions tests"
    section = next((block for block in blocks if block.language == "sh"), None)
    assert section, f"README.md has no sh block under {heading.text!r}"

    assert section.text.strip() == command


SAMPLE = """\
Text with `[code](not-a-link.md)` and a [link](a.md#part).

1. In a list:

   ```python
   if True:
       print("hi")
   ```

   ```text
   hi
   ```

````md
```python
not code of this document
```
````

[reference]: b.md
"""


def test_fenced_blocks_are_found() -> None:
    fenced = [block for block in read_blocks(SAMPLE) if block.info is not None]

    assert [block.language for block in fenced] == ["python", "text", "md"]
    assert fenced[0].text == 'if True:\n    print("hi")\n'
    assert SAMPLE.splitlines()[fenced[0].line].strip() == "if True:"


def test_links_outside_of_code_are_found() -> None:
    assert [target for _, target in links_in(read_blocks(SAMPLE))] == ["a.md#part", "b.md"]
