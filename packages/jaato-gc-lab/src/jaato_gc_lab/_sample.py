"""The bundled sample run: a synthetic session of an agent on a small code base."""

from pathlib import Path

from jaato_gc_formats import Conversation, load

SAMPLE = Path(__file__).parent / "sample" / "run.json.gz"


def sample_path() -> Path:
    """Returns the path of the sample run, a gzip-compressed request to Anthropic's API.

    In nine turns an agent debugs an import, adds an option, repairs a build, renames a constant
    and updates a change log. The run contains repeated file reads, failing tests and long logs.
    """
    return SAMPLE


def sample_conversation() -> Conversation:
    """Returns the sample run as a conversation."""
    [conversation] = load(SAMPLE)
    conversation.name = "sample run"
    return conversation
