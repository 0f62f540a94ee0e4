"""Recorded agent runs for the benchmarks.

The recordings are not part of this repository. They are read where they lie: in the folder that
the environment variable JAATO_GC_TRANSCRIPTS names, or beside the repository.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jaato_gc import Message, Role
from jaato_gc_formats import FormatError, load

SOURCES = ("claude-code", "pi", "openhands", "codex", "service", "other")
"""Who was recorded; "service" are dialogues with customers, all others write code."""
SOURCE_OF = {
    "claude-code": "claude-code", "pi": "pi",
    "openhands": "openhands", "litellm": "openhands",
    "codex-rollout": "codex",
    "tau-bench": "service", "tau2": "service",
}  # fmt: skip


@dataclass
class Transcript:
    """A recorded run, repaired where calls have no results or results are elsewhere."""

    name: str
    source: str
    messages: list[Message]


def folder() -> Path:
    """Where the recordings should be."""
    beside = Path(__file__).parents[2] / "shared" / "transcripts"
    return Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or beside)


def read_transcripts() -> Iterator[Transcript]:
    """Every recorded run, from the first request on.

    Left out are fixtures of single cases, and exchanges: their last requests have their own files.
    """
    for path in sorted(folder().rglob("*")):
        if not path.is_file() or "edge" in path.parts or ".exchange." in path.name:
            continue
        try:
            conversations = load(path, repair=True)
        except FormatError:  # it holds no conversation
            continue
        for number, conversation in enumerate(conversations):
            messages = from_the_first_request(conversation.messages)
            if any(message.role is Role.MODEL for message in messages):
                name = f"{path.name.partition('.')[0]}#{number}"
                yield Transcript(name, SOURCE_OF.get(conversation.format, "other"), messages)


def from_the_first_request(messages: list[Message]) -> list[Message]:
    """Without a greeting before anybody spoke, and without empty messages."""
    kept: list[Message] = []
    has_begun = False
    for message in messages:
        has_begun = has_begun or (message.opens_turn and not message.is_empty)
        if not message.is_empty and (has_begun or message.role is Role.SYSTEM):
            kept.append(message)
    return kept
