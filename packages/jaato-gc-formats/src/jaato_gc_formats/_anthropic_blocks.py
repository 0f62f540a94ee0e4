"""The blocks of Anthropic's messages, and which of them are thoughts."""

import re
from typing import Any

from jaato_gc_formats._wire import Fields, plain

THOUGHTS = ("thinking", "redacted_thinking")
COMPACTION = "compaction"
"""Type of the block that the API begins a compacted view with."""
FOREIGN_BLOCKS = {
    "image_url", "input_audio", "file", "refusal", "input_text", "input_image", "input_file",
    "output_text", "reasoning", "function_call", "function_call_output",
}  # fmt: skip
"""Types of blocks and items that only OpenAI's APIs have."""
BINDING_MODELS = re.compile(r"\bclaude-((fable|mythos)-5-[1-9]|(opus|sonnet|haiku)-5-[5-9])")
"""Models that bind thoughts to all that was sent before them, also as cloud platforms name them."""


def binds_thoughts(model: Any) -> bool:
    """Returns whether a model refuses thoughts whose past was changed."""
    return isinstance(model, str) and BINDING_MODELS.search(model) is not None


def content_blocks(content: Any) -> list[Fields]:
    """Returns the content of a message as blocks. A string becomes one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    blocks = [plain(block) for block in content or ()]
    return [block for block in blocks if isinstance(block, dict)]


def is_thought(block: Fields) -> bool:
    """Returns whether a block is a thought of the model."""
    return block.get("type") in THOUGHTS


def is_compaction(block: Fields) -> bool:
    """Returns whether a block replaces what was said before it. A failed one has no content."""
    is_failed = block.get("content") is None and not block.get("encrypted_content")
    return block.get("type") == COMPACTION and not is_failed


def seal_of(thought: Fields) -> str:
    """Returns the signature or the sealed data of a thought, which no other thought has."""
    return str(thought.get("signature") or thought.get("data") or "")
