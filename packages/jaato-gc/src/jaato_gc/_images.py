"""What an image costs: by its dimensions, never by the length of its payload."""

import base64
import binascii
import io
import math

from jaato_gc._messages import InlineData

PIXELS_PER_TOKEN = 750
LONGEST_EDGE = 1568
"""Providers scale larger images down to about this edge before they look at them."""
UNKNOWN_IMAGE_TOKENS = math.ceil(LONGEST_EDGE * LONGEST_EDGE / PIXELS_PER_TOKEN)
"""An image whose dimensions can't be read, or another attachment: counted as the largest image."""
SMALLEST_IMAGE_TOKENS = 85
_HEADER_BYTES = 64 * 1024
"""Where a JPEG's dimensions stand, behind its embedded preview at the latest."""


def image_tokens(image: InlineData) -> int:
    """Tokens of an image: its area after scaling, never nothing.

    The figures are Anthropic's published ones (width x height / 750, longest edge 1568) with
    OpenAI's low-detail price as the floor; a provider's own counter may know better.
    """
    width, height = image_size(image)
    if not width or not height:
        return UNKNOWN_IMAGE_TOKENS
    scale = min(1.0, LONGEST_EDGE / max(width, height))
    area = (width * scale) * (height * scale)
    return max(SMALLEST_IMAGE_TOKENS, math.ceil(area / PIXELS_PER_TOKEN))


def image_size(image: InlineData) -> tuple[int, int]:
    """Width and height of an image, from its own word or its header; zeros where neither says."""
    if image.width and image.height:
        return image.width, image.height
    header = _header(image.data)
    if not header:
        return 0, 0
    import imagesize  # here, because most histories hold no image

    try:
        width, height = imagesize.get(io.BytesIO(header))
        return max(0, int(width)), max(0, int(height))
    except Exception:  # a hostile header may trip the parser anywhere; it must not stop a turn
        return 0, 0


def _header(data: bytes | str | None) -> bytes:
    if isinstance(data, bytes):
        return data[:_HEADER_BYTES]
    if not data:
        return b""
    payload = data.partition(",")[2] if data.startswith("data:") else data
    start = "".join(payload[: _HEADER_BYTES // 3 * 4].split())  # MIME breaks it into lines
    try:
        return base64.b64decode(start + "=" * (-len(start) % 4))
    except (binascii.Error, ValueError):
        return b""
