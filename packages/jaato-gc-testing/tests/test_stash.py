"""The suite for stashes: a right one passes it, and each of its checks catches a wrong one."""

import copy
import inspect
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, is_hypothesis_test, settings
from hypothesis import strategies as st

from jaato_gc import (
    Message,
    Stash,
    StashEntry,
    StashError,
    StashHit,
    StashStats,
    message_from_dict,
    message_to_dict,
)
from jaato_gc_testing import MemoryStash, StashConformance, stash_messages

CHECKS = [name for name in dir(StashConformance) if name.startswith("test_")]


class TestMemoryStash(StashConformance):
    @pytest.fixture
    def stash(self) -> Stash:
        return MemoryStash()


def test_clock_is_the_hosts() -> None:
    stash = MemoryStash(clock=lambda: 12.5)
    [key] = stash.put("gc-1", [Message.from_text("user", "hello")])  # type: ignore[arg-type]

    entry = stash.get(key)

    assert entry is not None
    assert entry.stashed_at == 12.5


# --- wrong stashes ---


class Incomplete:
    """Can't be searched."""

    def __init__(self) -> None:
        self._stash = MemoryStash()

    def __getattr__(self, name: str) -> Any:
        if name == "search":
            raise AttributeError(name)
        return getattr(self._stash, name)


class OwnKeys(MemoryStash):
    """Hands out keys that no stub names."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        return [key.upper() for key in super().put(gc_id, messages)]


class Sorted(MemoryStash):
    """Returns keys in an order of its own."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        return sorted(super().put(gc_id, messages))


class Altering(MemoryStash):
    """Gives back something else than it got."""

    def alter(self, message: Message) -> Message:
        raise NotImplementedError

    def get(self, key: str) -> StashEntry | None:
        entry = super().get(key)
        return entry and replace(entry, message=self.alter(entry.message))


class WithoutExtra(Altering):
    def alter(self, message: Message) -> Message:
        return replace(message, extra=None)


class WithoutNulls(Altering):
    def alter(self, message: Message) -> Message:
        text = json.dumps(message_to_dict(message)).replace(r"\u0000", "")
        return message_from_dict(json.loads(text))


class WithoutSurrogates(Altering):
    def alter(self, message: Message) -> Message:
        text = json.dumps(message_to_dict(message), ensure_ascii=False)
        return message_from_dict(json.loads(text.encode("utf-8", "replace")))


class Nameless(MemoryStash):
    """Does not say which collection it was."""

    def get(self, key: str) -> StashEntry | None:
        entry = super().get(key)
        return entry and replace(entry, gc_id="")


class InMilliseconds(MemoryStash):
    def get(self, key: str) -> StashEntry | None:
        entry = super().get(key)
        return entry and replace(entry, stashed_at=entry.stashed_at * 1000)


class ByReference(MemoryStash):
    """Keeps the very objects."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, Message] = {}

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        keys = super().put(gc_id, messages)
        self._kept.update(zip(keys, messages, strict=True))
        return keys

    def restore(self, keys: Sequence[str]) -> list[Message]:
        super().restore(keys)
        return [self._kept[key] for key in keys]


class Cached(ByReference):
    """Copies what it is given, but gives everybody the same."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        return super().put(gc_id, copy.deepcopy(messages))


class Appending(MemoryStash):
    """Counts every put."""

    def __init__(self) -> None:
        super().__init__()
        self._puts = 0

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        self._puts += len(messages)
        return super().put(gc_id, messages)

    def stats(self) -> StashStats:
        return replace(super().stats(), entries=self._puts)


class OneByOne(MemoryStash):
    """Keeps what came before the one that it can't keep."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        return [key for message in messages for key in MemoryStash.put(self, gc_id, [message])]


class Lossy(MemoryStash):
    """Skips what it can't keep."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        keys = []
        for message in messages:
            try:
                keys += MemoryStash.put(self, gc_id, [message])
            except StashError:
                keys.append("0" * 16)
        return keys


class Raising(MemoryStash):
    """Takes an unknown key for an error."""

    def get(self, key: str) -> StashEntry | None:
        if key not in self._entries:
            raise KeyError(key)
        return super().get(key)


class ByPrefix(MemoryStash):
    """Takes a part of a key for the key."""

    def get(self, key: str) -> StashEntry | None:
        whole = next((each for each in self._entries if each.startswith(key)), key)
        return super().get(whole)


class InOwnOrder(MemoryStash):
    def restore(self, keys: Sequence[str]) -> list[Message]:
        return super().restore([key for key in self._entries if key in keys])


class Silent(MemoryStash):
    """Leaves out what it does not hold."""

    def restore(self, keys: Sequence[str]) -> list[Message]:
        return super().restore([key for key in keys if self.get(key)])


class Vague(MemoryStash):
    """Does not say what it lacks."""

    def restore(self, keys: Sequence[str]) -> list[Message]:
        try:
            return super().restore(keys)
        except StashError:
            raise StashError("something is missing") from None


class Searching(MemoryStash):
    """Searches in a way of its own."""

    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return hits

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        return self.alter(super().search(query, 1000))[: max(limit, 0)]


class FindsEverything(Searching):
    def search(self, query: str, limit: int = 10) -> list[StashHit]:  # noqa: ARG002
        return [StashHit(key, "", "", 1.0, 0.0) for key in self._entries][:limit]


class MindsCase(Searching):
    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        return super().search(query, limit) if query == query.casefold() else []


class OldestFirst(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return sorted(hits, key=lambda hit: hit.stashed_at)


class OldestFirstAmongEquals(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return sorted(hits, key=lambda hit: (-hit.score, hit.stashed_at))


class LowestFirst(Searching):
    """The best first, but with scores the wrong way round."""

    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return [replace(hit, score=-hit.score) for hit in hits]


class WithoutSnippet(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return [replace(hit, snippet="…") for hit in hits]


class WholeText(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return [replace(hit, snippet=str(self.get(hit.key))) for hit in hits]


class SaysNothingAbout(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return [replace(hit, about="") for hit in hits]


class Unlimited(MemoryStash):
    def search(self, query: str, limit: int = 10) -> list[StashHit]:  # noqa: ARG002
        return super().search(query, 1000)


class LimitedEarly(MemoryStash):
    """Takes the first that fit, not the best."""

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        return list(reversed(super().search(query, 1000)[::-1][:limit]))


class TakesSyntax(MemoryStash):
    """As if the query were handed to a parser."""

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        if query.count('"') % 2:
            raise StashError("unterminated string")
        return super().search(query, limit)


class TakesStatements(MemoryStash):
    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        if "DROP TABLE" in query:
            self.forget()
        return super().search(query, limit)


class Unforgetting(MemoryStash):
    """Says that it forgot."""

    def forget(self, keys: Iterable[str] | None = None) -> int:
        return self.stats().entries if keys is None else len(set(keys) & set(self._entries))


class ForgetsOnce(MemoryStash):
    """Counts what it was told, not what there was."""

    def forget(self, keys: Iterable[str] | None = None) -> int:
        keys = None if keys is None else list(keys)
        count = super().forget(keys)
        return count if keys is None else len(keys)


class NothingIsEverything(MemoryStash):
    """Takes no keys for all keys."""

    def forget(self, keys: Iterable[str] | None = None) -> int:
        return super().forget(list(keys or ()) or None)


class StillFound(MemoryStash):
    """Forgets, but for the index."""

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        everything: MemoryStash = self.__dict__.setdefault("_ever", MemoryStash())
        for message in self.restore(list(self._entries)):
            everything.put("", [message])
        return MemoryStash.search(everything, query, limit)

    def forget(self, keys: Iterable[str] | None = None) -> int:
        self.search("")
        return super().forget(keys)


class ForgetsContents(MemoryStash):
    """Deletes a content that another entry shares."""

    def forget(self, keys: Iterable[str] | None = None) -> int:
        keys = list(self._entries if keys is None else keys)
        texts = {entry.message.text for entry in map(self.get, keys) if entry}
        count = super().forget(keys)
        for key in list(self._entries):
            entry = self.get(key)
            if entry and entry.message.text in texts:
                super().forget([key])
        return count


class NotShared(MemoryStash):
    """Stores the same twice."""

    def stats(self) -> StashStats:
        stats = super().stats()
        return replace(stats, contents=stats.entries)


class CountsTwice(MemoryStash):
    def stats(self) -> StashStats:
        stats = super().stats()
        return replace(stats, bytes=stats.bytes * stats.entries)


class Ageless(MemoryStash):
    def stats(self) -> StashStats:
        return replace(super().stats(), oldest=None, newest=None)


class OneThread(MemoryStash):
    """As a connection that may be used only where it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = threading.get_ident()

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        if threading.get_ident() != self._owner:
            raise StashError("opened in another thread")
        return super().put(gc_id, messages)


MUTANTS: list[tuple[str, type[Any]]] = [
    ("test_an_empty_stash_is_a_stash", Incomplete),
    ("test_put_returns_the_key_of_each_message", OwnKeys),
    ("test_put_returns_the_key_of_each_message", Sorted),
    ("test_gives_back_equal_messages", WithoutExtra),
    ("test_gives_back_equal_messages", WithoutNulls),
    ("test_gives_back_equal_messages", WithoutSurrogates),
    ("test_gives_back_equal_messages", Nameless),
    ("test_gives_back_equal_messages", InMilliseconds),
    ("test_gives_back_any_message", WithoutExtra),
    ("test_gives_back_any_message", WithoutSurrogates),
    ("test_later_changes_do_not_reach_it", ByReference),
    ("test_later_changes_do_not_reach_it", Cached),
    ("test_put_again_is_no_second_entry", Appending),
    ("test_put_keeps_all_or_nothing", OneByOne),
    ("test_put_keeps_all_or_nothing", Lossy),
    ("test_an_unknown_key_is_none", Raising),
    ("test_an_unknown_key_is_none", ByPrefix),
    ("test_restores_in_the_order_of_the_keys", InOwnOrder),
    ("test_restore_names_what_is_missing", Silent),
    ("test_restore_names_what_is_missing", Vague),
    ("test_search_finds_words_wherever_they_stand", FindsEverything),
    ("test_search_finds_words_wherever_they_stand", MindsCase),
    ("test_search_puts_the_best_first", OldestFirst),
    ("test_search_puts_the_best_first", OldestFirstAmongEquals),
    ("test_search_puts_the_best_first", LowestFirst),
    ("test_search_shows_what_it_found", WithoutSnippet),
    ("test_search_shows_what_it_found", WholeText),
    ("test_search_shows_what_it_found", SaysNothingAbout),
    ("test_search_respects_its_limit", Unlimited),
    ("test_search_respects_its_limit", LimitedEarly),
    ("test_search_takes_any_text", TakesSyntax),
    ("test_search_knows_no_syntax", TakesSyntax),
    ("test_search_knows_no_syntax", TakesStatements),
    ("test_forgets_by_key", Unforgetting),
    ("test_forgets_by_key", ForgetsOnce),
    ("test_forgets_by_key", NothingIsEverything),
    ("test_forgets_by_key", StillFound),
    ("test_what_is_forgotten_leaves_what_others_share", ForgetsContents),
    ("test_forgets_everything", Unforgetting),
    ("test_stats_count_what_is_kept", NotShared),
    ("test_stats_count_what_is_kept", CountsTwice),
    ("test_stats_count_what_is_kept", Ageless),
    ("test_can_be_used_from_threads", OneThread),
]


ANYTHING = {"messages": st.lists(stash_messages(), max_size=4), "query": st.text("aZ9.\"' \n")}


def run(check: str, stash: object) -> None:
    """Run one check: always on the same examples, and only up to the first that fails."""
    suite = StashConformance()
    method = getattr(suite, check)
    if not is_hypothesis_test(method):
        method(stash)
        return
    inner: Callable[..., None] = method.hypothesis.inner_test
    [name] = inspect.signature(inner).parameters.keys() & ANYTHING

    @settings(
        max_examples=40,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(ANYTHING[name])
    def on_examples(anything: object) -> None:
        inner(suite, stash=stash, **{name: anything})

    on_examples()


@pytest.mark.parametrize(("check", "mutant"), MUTANTS)
def test_check_catches_mutant(check: str, mutant: type[Any]) -> None:
    with pytest.raises((AssertionError, KeyError, StashError, pytest.fail.Exception)):
        run(check, mutant())


@pytest.mark.parametrize("check", CHECKS)
def test_check_passes_the_reference(check: str) -> None:
    run(check, MemoryStash())


def test_every_check_has_a_mutant() -> None:
    assert {check for check, _ in MUTANTS} == set(CHECKS)


def test_check_of_a_stash_cannot_be_overridden_in_silence() -> None:
    with pytest.raises(TypeError, match=r"TestMine overrides test_forgets_by_key: .*xfail"):

        class TestMine(StashConformance):
            def test_forgets_by_key(self, stash: Stash) -> None:
                pass
