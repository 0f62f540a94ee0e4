"""Asking a stash, which may be third-party code: every failure is a `StashError`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jaato_gc.deadline import is_failure
from jaato_gc.errors import StashError
from jaato_gc.messages import Message, seal
from jaato_gc.stash.protocol import Stash, StashEntry


@contextmanager
def asking(doing: str) -> Iterator[None]:
    """Raises what a stash raises as a `StashError`, with its cause.

    Args:
        doing: What it was asked for, as in "failed to <doing>".
    """
    try:
        yield
    except StashError:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        cause = f"{type(error).__name__}: {error}"
        raise StashError(f"the stash failed to {doing}: {cause}") from error


def store_in(stash: Stash, gc_id: str, messages: Sequence[Message]) -> list[str]:
    """Stores messages in a stash, and returns the key of each.

    Raises:
        StashError: The stash failed, or did not return the keys.
    """
    with asking("store messages"):
        keys = list(stash.put(gc_id, messages))
        if len(keys) != len(messages) or not all(isinstance(key, str) for key in keys):
            raise TypeError(f"expected {len(messages)} keys, got {keys!r:.80}")
    return keys


def read_from(stash: Stash, keys: Sequence[str]) -> list[Message]:
    """Returns messages from a stash, read-only like all messages of a session.

    Raises:
        StashError: The stash failed or does not have them, or one is invalid.
    """
    with asking("return messages"):
        messages = list(stash.restore(keys))
        if len(messages) != len(keys):
            raise TypeError(f"expected {len(keys)} messages, got {len(messages)}")
        for message in messages:
            seal(message)
    return messages


def entry_in(stash: Stash, key: str) -> StashEntry | None:
    """Returns the entry under a key; ``None`` if there is none.

    Raises:
        StashError: The stash failed.
    """
    with asking("return an entry"):
        entry = stash.get(key)
        if entry is not None and not isinstance(entry, StashEntry):
            raise TypeError(f"expected a StashEntry, got {entry!r:.80}")
        if entry is not None:
            seal(entry.message)
    return entry
