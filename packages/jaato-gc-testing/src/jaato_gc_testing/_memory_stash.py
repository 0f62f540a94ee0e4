"""An in-memory stash: the reference implementation, and a test double."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaato_gc import Message, StashError, message_from_dict, message_to_dict
from jaato_gc.plugin import StashEntry, StashHit, StashStats, stash_key

_SNIPPET = 80
"""Length of a snippet on each side of the first match, in characters."""


class MemoryStash:
    """A `Stash` that stores messages in a dict and loses them when the process ends.

    Use it in tests of a host, and as an example for your own implementation.

    Args:
        clock: A function that returns the current time, in seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        # The JSON of the message, the collection's id and the time, by key; oldest first.
        self._entries: dict[str, tuple[str, str, float]] = {}
        self._lock = threading.Lock()
        self._others: dict[str, MemoryStash] = {}

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        """Stores messages, and returns their keys.

        Raises:
            StashError: A message can't be converted to JSON. None is stored.
        """
        # JSON, so that later changes to the messages don't change the stored ones.
        encoded = [_to_json(message) for message in messages]
        keys = [stash_key(message) for message in messages]
        with self._lock:
            now = self._clock()
            for key, data in zip(keys, encoded, strict=True):
                self._entries.pop(key, None)  # moves an existing entry to the newest position
                self._entries[key] = (data, gc_id, now)
        return keys

    def get(self, key: str) -> StashEntry | None:
        """Returns the entry under a key, or ``None``."""
        with self._lock:
            stored = self._entries.get(key)
        if stored is None:
            return None
        data, gc_id, stashed_at = stored
        return StashEntry(key, message_from_dict(json.loads(data)), gc_id, stashed_at)

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        """Returns the entries with the most words of the query; of equals, the newest first.

        Raises:
            StashError: The limit is not an integer of 0 or more.
        """
        if type(limit) is not int or limit < 0:  # a bool is an int
            raise StashError(f"limit: expected an integer of 0 or more, got {limit!a:.80}")
        wanted = set(_words(query))
        with self._lock:
            keys = list(reversed(self._entries))
        hits = []
        for entry in map(self.get, keys):
            if entry is None:
                continue  # deleted by another thread
            text = _text(entry.message)
            if found := wanted.intersection(_words(text)):
                hits.append(_hit(entry, text, found))
        hits.sort(key=lambda hit: -hit.score)  # stable: equal scores stay newest first
        return hits[:limit]

    def restore(self, keys: Sequence[str]) -> list[Message]:
        """Returns the messages under the keys, in that order.

        Raises:
            StashError: There is no entry under some of the keys; the error names them.
        """
        _refuse_text(keys)
        found = [(key, self.get(key)) for key in keys]
        if missing := [key for key, entry in found if entry is None]:
            raise StashError(
                f"the stash has no entry under {', '.join(missing)}: it was never stored, or it "
                "was deleted by forget()"
            )
        return [entry.message for _, entry in found if entry]

    def forget(self, keys: Iterable[str] | None = None) -> int:
        """Deletes the entries under the keys, or all entries. Returns their number."""
        _refuse_text(keys)
        with self._lock:
            selected = self._entries.keys() & (self._entries if keys is None else set(keys))
            for key in selected:
                del self._entries[key]
        return len(selected)

    def for_agent(self, agent: str) -> "MemoryStash":
        """Returns the stash of another agent."""
        with self._lock:
            return self._others.setdefault(agent, MemoryStash(self._clock))

    def stats(self) -> StashStats:
        """Returns the number and size of the entries."""
        with self._lock:
            stored = list(self._entries.values())
        contents = {json.dumps(part) for data, _, _ in stored for part in json.loads(data)["parts"]}
        times = [stashed_at for _, _, stashed_at in stored]
        return StashStats(
            len(stored),
            len(contents),
            sum(map(len, contents)),
            min(times, default=None),
            max(times, default=None),
        )


def _refuse_text(keys: Iterable[str] | None) -> None:
    """Refuses a key instead of a list of keys: each of its characters would be a key."""
    if isinstance(keys, str):
        raise StashError("keys: expected a list of keys, got str")


def _to_json(message: Message) -> str:
    try:
        # Surrogates are not escaped: JSON would decode two adjacent escapes as one character.
        return json.dumps(message_to_dict(message), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise StashError(
            f"message {message.message_id!a} can't be converted to JSON: {error}; nothing was "
            "stored; use only JSON types in tool arguments and results"
        ) from error


def _text(message: Message) -> str:
    """Returns the searchable text of a message."""
    lines: list[str] = []
    for part in message.parts:
        call, result = part.function_call, part.function_response
        lines += filter(None, (part.text, part.thought))
        if call:
            lines += (call.name, _as_text(call.args))
        if result:
            lines += (result.name, _as_text(result.result))
    return "\n".join(lines)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _hit(entry: StashEntry, text: str, found: set[str]) -> StashHit:
    matches = (match for match in re.finditer(r"\w+", text) if match[0].casefold() in found)
    first = next(matches, None)
    middle = first.start() if first else 0
    snippet = text[max(0, middle - _SNIPPET) : middle + _SNIPPET]
    calls, results = entry.message.function_calls, entry.message.function_responses
    tools = [call.name for call in calls] + [result.name for result in results]
    about = " ".join([entry.message.role, *dict.fromkeys(tools)])
    return StashHit(entry.key, about, snippet, float(len(found)), entry.stashed_at)
