"""A run to try things on, made up for this project: an agent at work on a small code base."""

from pathlib import Path

from jaato_gc_formats import Conversation, load

SAMPLE = Path(__file__).parent / "sample" / "run.json.gz"


def sample_path() -> Path:
    """The file of the sample run: a request as Anthropic's API takes it, packed with gzip.

    In nine turns an agent hunts a fault, adds an option, mends a build, renames something and
    writes a change log, with files read again and again, failing tests and long logs.
    """
    return SAMPLE


def sample_conversation() -> Conversation:
    """The sample run."""
    [conversation] = load(SAMPLE)
    conversation.name = "sample run"
    return conversation
