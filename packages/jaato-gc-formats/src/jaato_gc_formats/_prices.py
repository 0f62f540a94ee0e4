"""What providers charge for what is no text: images by their size, thoughts that they sealed."""

import math
from typing import Any

from jaato_gc import Part, image_size, image_tokens

BYTES_PER_TOKEN = 4
ENVELOPE = 650
"""Bytes of OpenAI's encrypted reasoning that are no reasoning."""
REDACTED = "redacted_thinking"
SEALS = ("signature", "thoughtSignature", "thought_signature", "encrypted_content")
LOW_DETAIL = 85
LARGEST_TILED = 85 + 170 * 8
"""An OpenAI image of unknown size: after scaling, none has more than eight tiles."""
MOST_PATCHES = 1536
GEMINI_TILE = 258
GEMINI_3_IMAGE = 1120


# --- images ---


def openai_image_tokens(part: Part) -> int:
    """OpenAI's published price for tiles: 85, and 170 for each tile of 512 by 512.

    The image is first scaled to fit 2048 by 2048, then to 768 on its shorter side. At low detail it
    costs 85. (GPT-5 and the o-series take somewhat less for each.)
    """
    size = _image_size(part)
    if size is None:
        return _other_attachment(part)
    if _detail(part) == "low":
        return LOW_DETAIL
    width, height = size
    if not width or not height:
        return LARGEST_TILED
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def openai_mini_image_tokens(part: Part) -> int:
    """OpenAI's published price for patches, as the mini models have it: 1.72 for each of 32 by 32.

    An image of more than 1536 patches is scaled down to that. (4.1-mini and 5-mini take 1.62.)
    """
    return _patched(part, 1.72)


def openai_nano_image_tokens(part: Part) -> int:
    """OpenAI's published price for patches, as the nano models have it: 2.46 for each."""
    return _patched(part, 2.46)


def _patched(part: Part, price: float) -> int:
    size = _image_size(part)
    if size is None:
        return _other_attachment(part)
    width, height = size
    patches = math.ceil(width / 32) * math.ceil(height / 32) or MOST_PATCHES
    return math.ceil(price * min(patches, MOST_PATCHES))


def gemini_image_tokens(part: Part) -> int:
    """Google's published price since Gemini 3: up to 1120 for an image, whatever its size.

    (1088 were measured.) At the low and medium resolutions that a request may ask for it is less.
    """
    return _other_attachment(part) if _image_size(part) is None else GEMINI_3_IMAGE


def gemini_2_image_tokens(part: Part) -> int:
    """Google's published price before Gemini 3: 258 up to 384 by 384, and for each tile of 768."""
    size = _image_size(part)
    if size is None or 0 in size:
        return _other_attachment(part)
    width, height = size
    if max(width, height) <= 384:
        return GEMINI_TILE
    return GEMINI_TILE * math.ceil(width / 768) * math.ceil(height / 768)


def _image_size(part: Part) -> tuple[int, int] | None:
    """Width and height, zeros where they are unknown; ``None`` for what is no image."""
    if part.inline_data is None or not part.inline_data.mime_type.startswith("image/"):
        return None
    return image_size(part.inline_data)


def _other_attachment(part: Part) -> int:
    """Sounds and documents go by seconds and pages, which nobody counts here: as a large image."""
    return image_tokens(part.inline_data) if part.inline_data else 0


def _detail(part: Part) -> Any:
    extra = part.extra or {}
    image = extra.get("image_url")
    return image.get("detail") if isinstance(image, dict) else extra.get("detail")


# --- thoughts ---


def sealed_tokens(part: Part) -> int:
    """Tokens of a thought that comes back as a signature or as encrypted data, by its length.

    It holds the whole thought, also where the part shows a summary of it, or nothing.
    """
    return _sealed_bytes(part) // BYTES_PER_TOKEN


def openai_sealed_tokens(part: Part) -> int:
    """The same, less what OpenAI wraps around the reasoning."""
    return max(0, _sealed_bytes(part) - ENVELOPE) // BYTES_PER_TOKEN


def _sealed_bytes(part: Part) -> int:
    if not part.extra:
        return 0
    # What only its provider understands is kept as a whole, one level down.
    kept = (part.extra, *(each for each in part.extra.values() if isinstance(each, dict)))
    seals = [fields[name] for fields in kept for name in SEALS if name in fields]
    seals += [fields.get("data") for fields in kept if fields.get("type") == REDACTED]
    return sum(map(_base64_bytes, seals))


def _base64_bytes(seal: Any) -> int:
    if isinstance(seal, dict):  # bytes of an SDK's object, kept as JSON
        return sum(map(_base64_bytes, seal.values()))
    return len(seal) * 3 // 4 if isinstance(seal, str) else 0
