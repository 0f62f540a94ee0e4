"""The conformance suite for stashes: the reference passes, and every check catches a mutant."""

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

from jaato_gc import Message, StashError, message_from_dict, message_to_dict
from jaato_gc.plugin import Stash, StashEntry, StashHit, StashStats
from jaato_gc_testing import MemoryStash, StashConformance, stash_messages

CHECKS = [name for name in dir(StashConformance) if name.startswith("test_")]


class TestMemoryStash(StashConformance):
    @pytest.fixture
    def stash(self) -> Stash:
        return MemoryStash()


def test_memory_stash_uses_the_given_clock() -> None:
    stash = MemoryStash(clock=lambda: 12.5)
    [key] = stash.put("gc-1", [Message.from_text("user", "hello")])  # type: ignore[arg-type]

    entry = stash.get(key)

    assert entry is not None
    assert entry.stashed_at == 12.5


# --- mutants: stashes with one fault each ---


class Incomplete:
    """Has no ``search``."""

    def __init__(self) -> None:
        self._stash = MemoryStash()

    def __getattr__(self, name: str) -> Any:
        if name == "search":
            raise AttributeError(name)
        return getattr(self._stash, name)


class OwnKeys(MemoryStash):
    """Returns keys that differ from `stash_key`."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        return [key.upper() for key in super().put(gc_id, messages)]


class Sorted(MemoryStash):
    """Returns keys in alphabetical order."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        return sorted(super().put(gc_id, messages))


class Altering(MemoryStash):
    """Base class of mutants that return a changed message."""

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
    """Does not store the id of the collection."""

    def get(self, key: str) -> StashEntry | None:
        entry = super().get(key)
        return entry and replace(entry, gc_id="")


class InMilliseconds(MemoryStash):
    def get(self, key: str) -> StashEntry | None:
        entry = super().get(key)
        return entry and replace(entry, stashed_at=entry.stashed_at * 1000)


class ByReference(MemoryStash):
    """Stores the messages without copying them."""

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
    """Copies messages when they are put, but returns the same object every time."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        return super().put(gc_id, copy.deepcopy(messages))


class Appending(MemoryStash):
    """Counts a message that is put twice as two entries."""

    def __init__(self) -> None:
        super().__init__()
        self._puts = 0

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        self._puts += len(messages)
        return super().put(gc_id, messages)

    def stats(self) -> StashStats:
        return replace(super().stats(), entries=self._puts)


class OneByOne(MemoryStash):
    """Stores the messages before the one that can't be stored."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        return [key for message in messages for key in MemoryStash.put(self, gc_id, [message])]


class Lossy(MemoryStash):
    """Skips messages that can't be stored."""

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        keys = []
        for message in messages:
            try:
                keys += MemoryStash.put(self, gc_id, [message])
            except StashError:
                keys.append("0" * 16)
        return keys


class Raising(MemoryStash):
    """Raises for an unknown key."""

    def get(self, key: str) -> StashEntry | None:
        if key not in self._entries:
            raise KeyError(key)
        return super().get(key)


class ByPrefix(MemoryStash):
    """Accepts a prefix of a key."""

    def get(self, key: str) -> StashEntry | None:
        whole = next((each for each in self._entries if each.startswith(key)), key)
        return super().get(whole)


class InOwnOrder(MemoryStash):
    def restore(self, keys: Sequence[str]) -> list[Message]:
        return super().restore([key for key in self._entries if key in keys])


class Silent(MemoryStash):
    """Ignores missing keys."""

    def restore(self, keys: Sequence[str]) -> list[Message]:
        return super().restore([key for key in keys if self.get(key)])


class Vague(MemoryStash):
    """Does not name the missing keys."""

    def restore(self, keys: Sequence[str]) -> list[Message]:
        try:
            return super().restore(keys)
        except StashError:
            raise StashError("something is missing") from None


class Searching(MemoryStash):
    """Base class of mutants that return changed hits."""

    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return hits

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        return self.alter(super().search(query, 1000))[: max(limit, 0)]


class FindsEverything(Searching):
    def search(self, query: str, limit: int = 10) -> list[StashHit]:  # noqa: ARG002
        return [StashHit(key, "", "", 1.0, 0.0) for key in self._entries][:limit]


class CaseSensitive(Searching):
    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        return super().search(query, limit) if query == query.casefold() else []


class OldestFirst(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return sorted(hits, key=lambda hit: hit.stashed_at)


class OldestFirstAmongEquals(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return sorted(hits, key=lambda hit: (-hit.score, hit.stashed_at))


class LowestFirst(Searching):
    """Returns the best hit first, but with the lowest score."""

    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return [replace(hit, score=-hit.score) for hit in hits]


class WithoutSnippet(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return [replace(hit, snippet="…") for hit in hits]


class WholeText(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return [replace(hit, snippet=str(self.get(hit.key))) for hit in hits]


class WithoutAbout(Searching):
    def alter(self, hits: list[StashHit]) -> list[StashHit]:
        return [replace(hit, about="") for hit in hits]


class Unlimited(MemoryStash):
    def search(self, query: str, limit: int = 10) -> list[StashHit]:  # noqa: ARG002
        return super().search(query, 1000)


class LimitedEarly(MemoryStash):
    """Applies the limit before sorting."""

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        return list(reversed(super().search(query, 1000)[::-1][:limit]))


class SmallLimits(MemoryStash):
    """Has a 64-bit integer for the limit."""

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        return super().search(query, limit) if limit < 2**63 else []


class LenientLimits(MemoryStash):
    """Takes an invalid limit as 0."""

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        return super().search(query, limit if type(limit) is int and limit >= 0 else 0)


class ParsesQueries(MemoryStash):
    """Parses the query as the syntax of a search engine."""

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        if query.count('"') % 2:
            raise StashError("unterminated string")
        return super().search(query, limit)


class InjectableQueries(MemoryStash):
    """Executes SQL in the query."""

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        if "DROP TABLE" in query:
            self.forget()
        return super().search(query, limit)


class Unforgetting(MemoryStash):
    """Returns a count, but deletes nothing."""

    def forget(self, keys: Iterable[str] | None = None) -> int:
        return self.stats().entries if keys is None else len(set(keys) & set(self._entries))


class CountsKeys(MemoryStash):
    """Returns the number of keys instead of the number of deleted entries."""

    def forget(self, keys: Iterable[str] | None = None) -> int:
        keys = None if keys is None else list(keys)
        count = super().forget(keys)
        return count if keys is None else len(keys)


class EmptyMeansAll(MemoryStash):
    """Deletes everything if the list of keys is empty."""

    def forget(self, keys: Iterable[str] | None = None) -> int:
        return super().forget(list(keys or ()) or None)


class EveryCharacterIsAKey(MemoryStash):
    """Forgets nothing if it gets a key instead of a list of keys."""

    def forget(self, keys: Iterable[str] | None = None) -> int:
        return super().forget(keys if keys is None else list(keys))


class NamesEveryCharacter(MemoryStash):
    """Restores each character of a key."""

    def restore(self, keys: Sequence[str]) -> list[Message]:
        return super().restore(list(keys))


class StillFound(MemoryStash):
    """Deletes entries, but not from the index."""

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        everything: MemoryStash = self.__dict__.setdefault("_ever", MemoryStash())
        for message in self.restore(list(self._entries)):
            everything.put("", [message])
        return MemoryStash.search(everything, query, limit)

    def forget(self, keys: Iterable[str] | None = None) -> int:
        self.search("")
        return super().forget(keys)


class ForgetsContents(MemoryStash):
    """Deletes contents that another entry shares."""

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
    """Stores equal contents twice."""

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


class OneForAll(MemoryStash):
    """Gives every agent the same stash."""

    def for_agent(self, agent: str) -> MemoryStash:  # noqa: ARG002
        return self


class Forgetful(MemoryStash):
    """Gives an agent an empty stash each time."""

    def for_agent(self, agent: str) -> MemoryStash:  # noqa: ARG002
        return MemoryStash()


class OneThread(MemoryStash):
    """Works only in the thread that created it."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = threading.get_ident()

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        if threading.get_ident() != self._owner:
            raise StashError("opened in another thread")
        return super().put(gc_id, messages)


class KeysArePaths(MemoryStash):
    """Takes the key as a path below a folder of its agent."""

    def get(self, key: str) -> StashEntry | None:
        return super().get(key.rpartition("/")[2])

    def for_agent(self, agent: str) -> MemoryStash:  # noqa: ARG002
        return KeysArePaths()


class NamesOfFiles(MemoryStash):
    """Takes the id of an agent as the name of a folder, on a disk that ignores case."""

    def for_agent(self, agent: str) -> MemoryStash:
        return super().for_agent(agent.casefold())


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
    ("test_a_key_is_no_path", KeysArePaths),
    ("test_any_text_names_one_agent", NamesOfFiles),
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
    ("test_search_finds_words_wherever_they_stand", CaseSensitive),
    ("test_search_puts_the_best_first", OldestFirst),
    ("test_search_puts_the_best_first", OldestFirstAmongEquals),
    ("test_search_puts_the_best_first", LowestFirst),
    ("test_search_shows_what_it_found", WithoutSnippet),
    ("test_search_shows_what_it_found", WholeText),
    ("test_search_shows_what_it_found", WithoutAbout),
    ("test_search_respects_its_limit", Unlimited),
    ("test_search_respects_its_limit", LimitedEarly),
    ("test_search_takes_any_number_as_its_limit", SmallLimits),
    ("test_search_takes_any_number_as_its_limit", LenientLimits),
    ("test_search_takes_any_text", ParsesQueries),
    ("test_search_knows_no_syntax", ParsesQueries),
    ("test_search_knows_no_syntax", InjectableQueries),
    ("test_another_agent_has_its_own_content", OneForAll),
    ("test_another_agent_has_its_own_content", Forgetful),
    ("test_forgets_by_key", Unforgetting),
    ("test_forgets_by_key", CountsKeys),
    ("test_forgets_by_key", EmptyMeansAll),
    ("test_forgets_by_key", StillFound),
    ("test_a_single_key_is_not_a_list_of_keys", EveryCharacterIsAKey),
    ("test_a_single_key_is_not_a_list_of_keys", NamesEveryCharacter),
    ("test_what_is_forgotten_leaves_what_others_share", ForgetsContents),
    ("test_forgets_everything", Unforgetting),
    ("test_stats_count_what_is_kept", NotShared),
    ("test_stats_count_what_is_kept", CountsTwice),
    ("test_stats_count_what_is_kept", Ageless),
    ("test_can_be_used_from_threads", OneThread),
]


EXAMPLES = {"messages": st.lists(stash_messages(), max_size=4), "query": st.text("aZ9.\"' \n")}


def run(check: str, stash: object) -> None:
    """Runs one check on the same examples every time, without shrinking a failure."""
    suite = StashConformance()
    method = getattr(suite, check)
    if not is_hypothesis_test(method):
        method(stash)
        return
    inner: Callable[..., None] = method.hypothesis.inner_test
    [name] = inspect.signature(inner).parameters.keys() & EXAMPLES

    @settings(
        max_examples=40,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(EXAMPLES[name])
    def on_examples(example: object) -> None:
        inner(suite, stash=stash, **{name: example})

    on_examples()


@pytest.mark.parametrize(("check", "mutant"), MUTANTS)
def test_each_check_catches_its_mutants(check: str, mutant: type[Any]) -> None:
    with pytest.raises((AssertionError, KeyError, StashError, pytest.fail.Exception)):
        run(check, mutant())


@pytest.mark.parametrize("check", CHECKS)
def test_memory_stash_passes_each_check(check: str) -> None:
    run(check, MemoryStash())


def test_every_check_has_a_mutant() -> None:
    assert {check for check, _ in MUTANTS} == set(CHECKS)


def test_a_check_can_not_be_overridden_without_xfail() -> None:
    with pytest.raises(TypeError, match=r"TestMine overrides test_forgets_by_key: .*xfail"):

        class TestMine(StashConformance):
            def test_forgets_by_key(self, stash: Stash) -> None:
                pass
