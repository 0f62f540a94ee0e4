"""The voice of the project: plain technical English, without the worst archaic words."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WORDS = re.compile(
    r"""\b(?:
    dear(?:er|est|ness)? | whoever | whatever\ becomes | anew | thereby | such\ a\ one
    | mend(?:s|ed|ing)? | nobody | believ(?:es|ing)\ none | unseen
    | is\ no\ (?:whole|regular|valid|real) | takings
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Each has a plain word: priority, anyone, "what happens to", again, repair, "no one", "is not"."""

OWN = {
    "tests-integration/test_voice.py",
    "packages/jaato-gc-stash/tests/conftest.py",  # names the system user nobody
    "packages/jaato-gc/tests/test_estimate.py",  # has samples of prose
}
QUOTED = ("sample", "transcripts", "LICENSE")
"""Files that quote other people's words."""


def tracked_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.toml", "*.j2", "*.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    return [
        name
        for name in listed.stdout.split()
        if name not in OWN and not any(each in name for each in QUOTED)
    ]


def test_no_file_has_an_archaic_word() -> None:
    found = [
        f"{name}:{number}: {match[0]}"
        for name in tracked_files()
        if (ROOT / name).exists()
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if (match := WORDS.search(line))
    ]

    assert found == []


def test_no_heading_begins_with_what() -> None:
    """A heading names its subject or a task."""
    found = [
        f"{name}: {heading}"
        for name in tracked_files()
        if name.endswith(".md") and (ROOT / name).exists()
        for heading in re.findall(
            r"^#+ (What\b.*)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE
        )
    ]

    assert found == []
