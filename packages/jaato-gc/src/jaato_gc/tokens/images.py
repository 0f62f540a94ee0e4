"""The tokens of images, by their dimensions and never by the length of their payload."""

import base64
import binascii
import io
import math

from jaato_gc.messages import InlineData

PIXELS_PER_TOKEN = 750
LONGEST_EDGE = 1568
"""Providers scale larger images down to about this edge."""
UNKNOWN_IMAGE_TOKENS = math.ceil(LONGEST_EDGE * LONGEST_EDGE / PIXELS_PER_TOKEN)
"""An image with unknown dimensions, or another attachment, counts as the largest image."""
SMALLEST_IMAGE_TOKENS = 85
_HEADER_BYTES = 64 * 1024
"""A JPEG has its dimensions within this many bytes, even after an embedded preview."""


def image_tokens(image: InlineData) -> int:
    """Returns the tokens of an image, from its area after scaling.

    The figures are Anthropic's published ones (width x height / 750, longest edge 1568) with
    OpenAI's low-detail price as the minimum. A provider's own counter may be more exact.
    """
    width, height = image_size(image)
    if not width or not height:
        return UNKNOWN_IMAGE_TOKENS
    scale = min(1.0, LONGEST_EDGE / max(width, height))
    area = (width * scale) * (height * scale)
    return max(SMALLEST_IMAGE_TOKENS, math.ceil(area / PIXELS_PER_TOKEN))


def image_size(image: InlineData) -> tuple[int, int]:
    """Returns width and height of an image, from its fields or its header; zeros if unknown."""
    if image.width and image.height:
        return image.width, image.height
    header = _header(image.data)
    if not header:
        return 0, 0
    import imagesize  # here, because most histories have no image

    try:
        width, height = imagesize.get(io.BytesIO(header))
        return max(0, int(width)), max(0, int(height))
    except Exception:  # a hostile header may raise anything and must not stop a turn
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
