"""Strict providers: they remember what they said, and refuse whatever their documentation refuses.

Written from the documentation of the providers alone. Nothing of it is shared with
jaato_gc_formats, whose requests are held against it.
"""

from strict_provider.anthropic import StrictAnthropic
from strict_provider.chat import StrictChat
from strict_provider.gemini import StrictGemini
from strict_provider.provider import Fields, StrictProvider
from strict_provider.responses import StrictResponses

PROVIDERS: dict[str, type[StrictProvider]] = {
    "openai-chat": StrictChat,
    "openai-responses": StrictResponses,
    "anthropic": StrictAnthropic,
    "gemini": StrictGemini,
}

__all__ = ["PROVIDERS", "Fields", "StrictProvider"]
