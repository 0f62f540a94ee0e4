"""A stash in memory: the reference for what a stash does, and a double for tests."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaato_gc import (
    Message,
    StashEntry,
    StashError,
    StashHit,
    StashStats,
    message_from_dict,
    message_to_dict,
    stash_key,
)

_SNIPPET = 80
"""Characters of a snippet on each side of the first word that was found."""


class MemoryStash:
    """Keeps messages in a dict, for as long as the process lives.

    It does what a `Stash` promises, but for surviving the process: use it in tests of hosts, and as
    the example to follow when you write one of your own.

    Args:
        clock: Gives the time, in seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._entries: dict[
            str, tuple[str, str, float]
        ] = {}  # key: JSON, gc_id, time; oldest first
        self._lock = threading.Lock()

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        """Keep messages; all, or none and an error."""
        # As JSON: a message that is changed later does not change here.
        forms = [_to_json(message) for message in messages]
        keys = [stash_key(message) for message in messages]
        with self._lock:
            now = self._clock()
            for key, form in zip(keys, forms, strict=True):
                self._entries.pop(key, None)  # what is put again is the newest again
                self._entries[key] = (form, gc_id, now)
        return keys

    def get(self, key: str) -> StashEntry | None:
        """What is kept under a key, if anything is."""
        with self._lock:
            kept = self._entries.get(key)
        if kept is None:
            return None
        form, gc_id, stashed_at = kept
        return StashEntry(key, message_from_dict(json.loads(form)), gc_id, stashed_at)

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        """The entries that have most of the words; among equals, the newest first."""
        wanted = set(_words(query))
        with self._lock:
            keys = list(reversed(self._entries))
        hits = []
        for entry in map(self.get, keys):
            if entry is None:
                continue  # forgotten meanwhile
            text = _text(entry.message)
            if found := wanted.intersection(_words(text)):
                hits.append(_hit(entry, text, found))
        hits.sort(key=lambda hit: -hit.score)  # stable: the newest stays first
        return hits[: max(limit, 0)]

    def restore(self, keys: Sequence[str]) -> list[Message]:
        """The messages under some keys, in that order; an error that names those not kept."""
        found = [(key, self.get(key)) for key in keys]
        if missing := [key for key, entry in found if entry is None]:
            raise StashError(f"the stash does not hold {', '.join(missing)}")
        return [entry.message for _, entry in found if entry]

    def forget(self, keys: Iterable[str] | None = None) -> int:
        """Delete what is under some keys, or everything; returns how many entries there were."""
        with self._lock:
            doomed = self._entries.keys() & (self._entries if keys is None else set(keys))
            for key in doomed:
                del self._entries[key]
        return len(doomed)

    def stats(self) -> StashStats:
        """How much is kept."""
        with self._lock:
            kept = list(self._entries.values())
        contents = {json.dumps(part) for form, _, _ in kept for part in json.loads(form)["parts"]}
        times = [stashed_at for _, _, stashed_at in kept]
        return StashStats(
            len(kept),
            len(contents),
            sum(map(len, contents)),
            min(times, default=None),
            max(times, default=None),
        )


def _to_json(message: Message) -> str:
    try:
        # Not escaped: two lone surrogates side by side would come back as one character.
        return json.dumps(message_to_dict(message), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise StashError(
            f"message {message.message_id} can't be stashed, since it is no JSON: {error}; "
            "nothing was stored"
        ) from error


def _text(message: Message) -> str:
    """All words in a message, for searching."""
    words: list[str] = []
    for part in message.parts:
        call, answer = part.function_call, part.function_response
        words += filter(None, (part.text, part.thought))
        if call:
            words += (call.name, _plain(call.args))
        if answer:
            words += (answer.name, _plain(answer.result))
    return "\n".join(words)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _hit(entry: StashEntry, text: str, found: set[str]) -> StashHit:
    spans = (match for match in re.finditer(r"\w+", text) if match[0].casefold() in found)
    first = next(spans, None)
    middle = first.start() if first else 0
    snippet = text[max(0, middle - _SNIPPET) : middle + _SNIPPET]
    calls, answers = entry.message.function_calls, entry.message.function_responses
    tools = [call.name for call in calls] + [answer.name for answer in answers]
    about = " ".join([entry.message.role, *dict.fromkeys(tools)])
    return StashHit(entry.key, about, snippet, float(len(found)), entry.stashed_at)
