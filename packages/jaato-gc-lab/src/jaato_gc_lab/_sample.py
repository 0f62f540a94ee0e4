"""The bundled sample run: a synthetic session of an agent on a small code base."""

from pathlib import Path

from jaato_gc_formats import Conversation, load

SAMPLE = Path(__file__).parent / "sample" / "run.json.gz"


def sample_path() -> Path:
    """Returns the path of the sample run, a gzip-compressed request to Anthropic's API.

    In twelve turns an agent fixes a bug of the clock change, repairs a pipeline, renames functions
    and writes a change log. In the second turn the user decides what a name and the stored times
    have to be; later turns depend on it. The run contains repeated file reads, edits that quote
    old text, failing tests, and a log of 18,000 tokens.
    """
    return SAMPLE


def sample_conversation() -> Conversation:
    """Returns the sample run as a conversation."""
    [conversation] = load(SAMPLE)
    conversation.name = "sample run"
    return conversation
