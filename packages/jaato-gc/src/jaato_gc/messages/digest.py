"""The digest that identifies a message's content: the key that a stash keeps it under."""

import hashlib
import json

from jaato_gc.messages.json import message_to_dict
from jaato_gc.messages.types import Message


def stash_key(message: Message) -> str:
    """Returns the key of a message: 16 characters derived from its content and id alone."""
    text = json.dumps(message_to_dict(message), default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
