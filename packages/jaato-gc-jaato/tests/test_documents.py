"""The code in this package's documents runs inside jaato-server."""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from jaato_host import gc

PACKAGE = Path(__file__).parents[1]
DOCUMENTS = [
    PACKAGE / "README.md",
    PACKAGE.parents[1] / "docs" / "how-to" / "use-inside-jaato-server.md",
]
BLOCK = re.compile(
    r"^( *)```(json|python)[^\n]*\n(.*?)^\1```(?:\n+\1```text\n(.*?)^\1```)?", re.M | re.S
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run_with_the_configuration_above_them(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not document.is_file():
        pytest.skip("this is not a checkout of the repository")
    (tmp_path / ".jaato").mkdir()
    ran = 0
    for _, language, text, expected in BLOCK.findall(document.read_text(encoding="utf-8")):
        if language == "json":
            (tmp_path / ".jaato" / "gc.json").write_text(text, encoding="utf-8")
            continue
        exec(dedent(text), {"__name__": "document"})
        ran += 1
        assert capsys.readouterr().out == dedent(expected)

    assert ran


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_configuration_selects_one_of_our_plugins(
    document: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if not document.is_file():
        pytest.skip("this is not a checkout of the repository")
    for number, (_, language, text, _) in enumerate(BLOCK.findall(document.read_text("utf-8"))):
        # A plugin that the page defines registers that summarizer.
        if language == "json" and "small-model" not in text:
            file = tmp_path / f"{number}.json"
            file.write_text(text, encoding="utf-8")
            plugin, _ = gc.load_gc_from_file(str(file), agent_name="main")
            assert plugin.name.startswith("gc_jg_")
    assert [each.message for each in caplog.records if each.name == "jaato_gc_jaato"] == []
