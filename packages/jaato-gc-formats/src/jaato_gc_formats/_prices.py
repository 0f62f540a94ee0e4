"""Counts the tokens of images, and of thoughts that are signed or encrypted ("sealed")."""

import math
from typing import Any

from jaato_gc import Part
from jaato_gc.plugin import image_size, image_tokens

BYTES_PER_TOKEN = 4
ENVELOPE_BYTES = 650
"""Bytes that OpenAI's encryption adds to the reasoning."""
REDACTED = "redacted_thinking"
SEAL_FIELDS = ("signature", "thoughtSignature", "thought_signature", "encrypted_content")
LOW_DETAIL = 85
MAX_TILED = 85 + 170 * 8
"""Tokens of an OpenAI image of unknown size. After scaling, an image has at most eight tiles."""
MAX_PATCHES = 1536
GEMINI_TILE = 258
GEMINI_3_IMAGE = 1120


# --- images ---


def openai_image_tokens(part: Part) -> int:
    """Returns the tokens of an image by OpenAI's tiles: 85, plus 170 per tile of 512 by 512.

    The image is first scaled to fit 2048 by 2048, then to 768 on its shorter side. At low detail it
    costs 85. GPT-5 and the o-series charge slightly less.
    """
    size = _image_size(part)
    if size is None:
        return _other_attachment_tokens(part)
    if _detail(part) == "low":
        return LOW_DETAIL
    width, height = size
    if not width or not height:
        return MAX_TILED
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return 85 + 170 * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def openai_mini_image_tokens(part: Part) -> int:
    """Returns the tokens of an image for OpenAI's mini models: 1.72 per patch of 32 by 32.

    An image with more than 1536 patches is scaled down to that. 4.1-mini and 5-mini charge 1.62.
    """
    return _patch_tokens(part, 1.72)


def openai_nano_image_tokens(part: Part) -> int:
    """Returns the tokens of an image for OpenAI's nano models: 2.46 per patch of 32 by 32."""
    return _patch_tokens(part, 2.46)


def _patch_tokens(part: Part, price: float) -> int:
    size = _image_size(part)
    if size is None:
        return _other_attachment_tokens(part)
    width, height = size
    patches = math.ceil(width / 32) * math.ceil(height / 32) or MAX_PATCHES
    return math.ceil(price * min(patches, MAX_PATCHES))


def gemini_image_tokens(part: Part) -> int:
    """Returns the tokens of an image since Gemini 3: 1120 for every size.

    This is Google's published maximum; 1088 were measured. A request may ask for low or medium
    resolution, which costs less.
    """
    return _other_attachment_tokens(part) if _image_size(part) is None else GEMINI_3_IMAGE


def gemini_2_image_tokens(part: Part) -> int:
    """Returns the tokens of an image before Gemini 3: 258 per tile of 768 by 768.

    An image of up to 384 by 384 is one tile.
    """
    size = _image_size(part)
    if size is None or 0 in size:
        return _other_attachment_tokens(part)
    width, height = size
    if max(width, height) <= 384:
        return GEMINI_TILE
    return GEMINI_TILE * math.ceil(width / 768) * math.ceil(height / 768)


def _image_size(part: Part) -> tuple[int, int] | None:
    """Returns width and height, with 0 if unknown; ``None`` if the part is not an image."""
    if part.inline_data is None or not part.inline_data.mime_type.startswith("image/"):
        return None
    return image_size(part.inline_data)


def _other_attachment_tokens(part: Part) -> int:
    """Returns the tokens of an audio file or document: those of a large image.

    Providers charge by seconds or pages, which are not known here.
    """
    return image_tokens(part.inline_data) if part.inline_data else 0


def _detail(part: Part) -> Any:
    extra = part.extra or {}
    image = extra.get("image_url")
    return image.get("detail") if isinstance(image, dict) else extra.get("detail")


# --- thoughts ---


def sealed_tokens(part: Part) -> int:
    """Returns the tokens of a sealed thought, estimated by the length of its signature or data.

    The sealed data contains the whole thought, even if the part shows only a summary or nothing.
    """
    return _sealed_bytes(part) // BYTES_PER_TOKEN


def openai_sealed_tokens(part: Part) -> int:
    """Returns the tokens of OpenAI's encrypted reasoning, without the bytes of its envelope."""
    return max(0, _sealed_bytes(part) - ENVELOPE_BYTES) // BYTES_PER_TOKEN


def _sealed_bytes(part: Part) -> int:
    if not part.extra:
        return 0
    # Items that only the provider understands are kept whole, one level down.
    kept = (part.extra, *(each for each in part.extra.values() if isinstance(each, dict)))
    seals = [fields[name] for fields in kept for name in SEAL_FIELDS if name in fields]
    seals += [fields.get("data") for fields in kept if fields.get("type") == REDACTED]
    return sum(map(_base64_bytes, seals))


def _base64_bytes(seal: Any) -> int:
    if isinstance(seal, dict):  # bytes of an SDK's object, stored as JSON
        return sum(map(_base64_bytes, seal.values()))
    return len(seal) * 3 // 4 if isinstance(seal, str) else 0
