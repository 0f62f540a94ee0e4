"""The windows of current models, in tokens.

As of 19 November 2026. Sources: the pages of the models at https://platform.claude.com/docs/en/models,
https://developers.openai.com/api/docs/models and https://ai.google.dev/gemini-api/docs/models.

Where a provider accepts less input than the window, the figure is the input: since GPT-5, OpenAI
keeps 128,000 tokens of the window for the response, whatever the request asks for. Windows that
need a beta header are left out. A model that is not listed is unknown: a warning is better than a
guess.
"""

import re

WINDOWS = {
    # Anthropic. Cloud platforms write claude-opus-4.6, or add a prefix and a date.
    r"claude-(fable|opus|sonnet|haiku)-5": 1_000_000,
    r"claude-(opus-4[-.][678]|sonnet-4[-.]6)": 1_000_000,
    r"claude-(opus|sonnet|haiku)-4": 200_000,
    r"claude-3": 200_000,
    # OpenAI
    r"gpt-(6|5\.[456])(?!.*(mini|nano|chat))": 922_000,
    r"gpt-5.*chat": 128_000,
    r"gpt-5": 272_000,
    r"gpt-4\.1": 1_047_576,
    r"gpt-4(o|-turbo)": 128_000,
    r"\b(o1|o3|o4-mini)\b(?!-(mini|preview))": 200_000,
    # Google. Models for images, speech and live audio have smaller windows.
    r"gemini-(2\.[05]|3|4)(?!.*(image|tts|live|audio|computer-use))": 1_048_576,
}
"""Windows by a pattern for model names. The first match is used."""


def model_window(model: str) -> int | None:
    """Returns the window of a model; ``None`` if it is unknown."""
    found = (window for pattern, window in WINDOWS.items() if re.search(pattern, model))
    return next(found, None)
