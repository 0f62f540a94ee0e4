"""The conformance suite for stashes."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import FunctionCall, Message, Part, Role, StashError, ToolResult
from jaato_gc.plugin import Stash, stash_key
from jaato_gc_testing._generating import few
from jaato_gc_testing._guard import refuse_silent_overrides
from jaato_gc_testing._stash_messages import odd_messages, stash_messages

_A_TO_Z = Message.from_text(Role.USER, "a z 9 漢")

UNUSUAL_QUERIES = [
    "",
    " \n",
    "\0",
    "\ud800",
    '"',
    "'",
    '"unclosed phrase',
    "AND",
    "OR NOT",
    "NEAR(a b, 2)",
    "a AND (b OR",
    "*",
    "a*",
    "^a",
    "column:a",
    "-a +b",
    "a & | ! b <-> c:*",
    "'; DROP TABLE entries; --",
    "%s %(name)s :name ?",
    "{}[]()\\",
    "word " * 3000,
    "x" * 100_000,
]
"""Queries that contain the syntax of a search engine or of SQL, or no words."""


class StashConformance:
    """Checks that any stash has to pass. Subclass it and return an empty stash from a fixture:

        class TestMine(StashConformance):
            @pytest.fixture
            def stash(self, tmp_path):
                return MyStash(tmp_path / "stash")

    A check that your stash can't pass can be overridden only with
    ``@pytest.mark.xfail(reason="…")``.
    """

    @pytest.fixture
    def stash(self) -> Stash:
        """Returns an empty stash. Subclasses override this fixture."""
        raise NotImplementedError(
            f"{type(self).__name__} has no fixture `stash`: define one that returns an empty stash"
        )

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses subclasses that override a check without ``xfail`` and a reason."""
        super().__init_subclass__(**arguments)
        refuse_silent_overrides(StashConformance, cls)

    # --- storing ---

    def test_an_empty_stash_is_a_stash(self, stash: Stash) -> None:
        """An empty stash has all methods of `Stash`, and they work without entries."""
        assert isinstance(stash, Stash)
        stats = stash.stats()
        assert (stats.entries, stats.contents, stats.bytes) == (0, 0, 0)
        assert (stats.oldest, stats.newest) == (None, None)
        assert stash.put("gc-1", []) == []
        assert stash.restore([]) == []
        assert stash.search("anything") == []
        assert stash.forget() == 0

    def test_put_returns_the_key_of_each_message(self, stash: Stash) -> None:
        """`put` returns the `stash_key` of each message, in order. Stubs already contain it."""
        messages = odd_messages()
        assert stash.put("gc-1", messages) == [stash_key(message) for message in messages]

    def test_gives_back_equal_messages(self, stash: Stash) -> None:
        """`get` returns every kind of part and text unchanged, with its collection and time."""
        messages = odd_messages()
        before = time.time()
        keys = stash.put("gc-1", messages)
        after = time.time()
        for key, message in zip(keys, messages, strict=True):
            entry = stash.get(key)
            assert entry is not None, message
            assert entry.message == message
            assert (entry.key, entry.gc_id) == (key, "gc-1")
            assert before - 1 <= entry.stashed_at <= after + 1

    @few
    @given(messages=st.lists(stash_messages(), max_size=4))
    def test_gives_back_any_message(self, stash: Stash, messages: list[Message]) -> None:
        """`restore` returns generated messages unchanged."""
        assert stash.restore(stash.put("gc-1", messages)) == messages

    def test_a_key_is_no_path(self, stash: Stash) -> None:
        """A key may be any text, because models give it: no form of it reaches another agent."""
        one, other = stash.for_agent("first"), stash.for_agent("second")
        [key] = one.put("gc-1", odd_messages()[:1])
        for wrong in (f"../first/{key}", f"./{key}", f"{key}/", f"{key}.json", "../first", ""):
            assert (one.get(wrong), other.get(wrong)) == (None, None), wrong
            assert (one.forget([wrong]), other.forget([wrong])) == (0, 0), wrong
        assert one.get(key)

    def test_any_text_names_one_agent(self, stash: Stash) -> None:
        """The id of an agent may be any text, and every agent has content of its own."""
        [message] = odd_messages()[:1]
        for name in ("a", "A", "a/b", "../a", ".", "..", "a ", "CON", "x" * 300):
            own = stash.for_agent(name)
            assert own.stats().entries == 0, name
            own.put("gc-1", [message])
            assert own.stats().entries == 1, name

    def test_later_changes_do_not_reach_it(self, stash: Stash) -> None:
        """Changing a message after `put` or after `restore` does not change the stored one."""
        args = {"path": "a.py"}
        message = Message(Role.MODEL, [Part(function_call=FunctionCall("call_1", "read", args))])
        [key] = stash.put("gc-1", [message])
        args["path"] = "changed"
        for _ in range(2):
            [kept] = stash.restore([key])
            assert kept.function_calls[0].args == {"path": "a.py"}
            kept.function_calls[0].args.clear()

    def test_put_again_is_no_second_entry(self, stash: Stash) -> None:
        """A message that is put twice, in one put or in two, is one entry."""
        message = _said("the same again")
        first = stash.put("gc-1", [message, message])
        assert stash.put("gc-2", [message]) == first[:1]
        assert stash.stats().entries == 1
        assert stash.restore(first) == [message, message]

    def test_put_keeps_all_or_nothing(self, stash: Stash) -> None:
        """If one message of a put can't be stored, none is, and earlier entries remain."""
        [key] = stash.put("gc-1", [_said("here before")])
        good = [_said("in front"), _said("behind")]
        bad = Message(Role.TOOL, [Part(function_response=ToolResult("1", "read", object()))])
        with pytest.raises(StashError):
            stash.put("gc-2", [good[0], bad, good[1]])
        assert stash.get(key) is not None
        assert stash.stats().entries == 1
        assert [stash.get(stash_key(message)) for message in good] == [None, None]
        assert stash.search("front behind") == []

    # --- restoring ---

    def test_an_unknown_key_is_none(self, stash: Stash) -> None:
        """`get` returns ``None`` for any unknown key, including invalid text and SQL."""
        [key] = stash.put("gc-1", [_said("something")])
        for unknown in (key[:-1], key + "0", "0" * 16, "", "\0", "\ud800", "' OR 1=1 --", "%"):
            assert stash.get(unknown) is None

    def test_restores_in_the_order_of_the_keys(self, stash: Stash) -> None:
        """`restore` follows the order of the keys and returns a message for every repeated key."""
        messages = [_said(f"message {number}") for number in range(5)]
        keys = stash.put("gc-1", messages)
        order = [3, 0, 4, 0, 2]
        restored = stash.restore([keys[each] for each in order])
        assert restored == [messages[each] for each in order]

    def test_restore_names_what_is_missing(self, stash: Stash) -> None:
        """The error of `restore` contains all missing keys, and no existing one."""
        [key] = stash.put("gc-1", [_said("something")])
        with pytest.raises(StashError) as caught:
            stash.restore(["0" * 16, key, "f" * 16])
        assert "0" * 16 in str(caught.value)
        assert "f" * 16 in str(caught.value)
        assert key not in str(caught.value)

    # --- searching ---

    def test_search_finds_words_wherever_they_stand(self, stash: Stash) -> None:
        """`search` ignores case and finds texts, thoughts, tool names, arguments and results."""
        parts = {
            "apricot": Part(text="An Apricot, perhaps?"),
            "banana": Part(thought="or a banana"),
            "cherry_tool": Part(function_call=FunctionCall("1", "cherry_tool", {})),
            "src/date/elder_berry.py": Part(
                function_call=FunctionCall("1", "read", {"paths": ["src/date/elder_berry.py"]})
            ),
            "fig": Part(function_response=ToolResult("1", "read", "one\nfig\n")),
            "grape.vine": Part(function_response=ToolResult("1", "read", [{"name": "grape.vine"}])),
            "größe": Part(text="Die GRÖSSE zählt."),
        }
        keys = stash.put("gc-1", [Message(Role.MODEL, [part]) for part in parts.values()])
        for word, key in zip(parts, keys, strict=True):
            assert [hit.key for hit in stash.search(word)][:1] == [key], word
            assert [hit.key for hit in stash.search(word.upper())][:1] == [key], word
        assert [hit.key for hit in stash.search("elder_berry")] == [keys[3]]
        assert stash.search("kumquat") == []

    def test_search_puts_the_best_first(self, stash: Stash) -> None:
        """Entries with more of the words come first; with equally many, the newer entry."""
        [all_words] = stash.put("gc-1", [_said("copper and tin")])
        _tick()
        [old] = stash.put("gc-1", [_said("copper or lead")])
        _tick()
        [new] = stash.put("gc-1", [_said("copper or lead")])
        _tick()
        stash.put("gc-1", [_said("nothing of the kind")])
        hits = stash.search("copper tin")
        assert [hit.key for hit in hits] == [all_words, new, old]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_search_shows_what_it_found(self, stash: Stash) -> None:
        """A hit has the key, a description, the time, and a snippet around the match."""
        text = "filler " * 500 + "the needle is here" + " filler" * 500
        message = Message(Role.TOOL, [Part(function_response=ToolResult("1", "read_file", text))])
        [key] = stash.put("gc-1", [message])
        [hit] = stash.search("needle")
        entry = stash.get(hit.key)
        assert entry is not None
        assert (hit.key, hit.stashed_at) == (key, entry.stashed_at)
        assert "tool" in hit.about
        assert "read_file" in hit.about
        assert "needle" in hit.snippet
        assert len(hit.snippet) < 1000

    def test_search_respects_its_limit(self, stash: Stash) -> None:
        """`search` returns at most ``limit`` hits, and the best ones. The default is 10."""
        stash.put("gc-1", [_said(f"common word {number}") for number in range(15)])
        everything = [hit.key for hit in stash.search("common", limit=100)]
        assert len(everything) == 15
        for limit in (0, 1, 7):
            assert [hit.key for hit in stash.search("common", limit)] == everything[:limit]
        assert len(stash.search("common")) == 10

    def test_search_takes_any_number_as_its_limit(self, stash: Stash) -> None:
        """A limit is any integer from 0 on, however large; other values raise `StashError`."""
        stash.put("gc-1", [_said(f"common word {number}") for number in range(12)])
        for limit in (12, 2**31, 2**63, 2**70):
            assert len(stash.search("common", limit)) == 12
        for invalid in (-1, 2.5, float("nan"), float("inf"), True, "3", None):
            with pytest.raises(StashError):
                stash.search("common", invalid)  # type: ignore[arg-type]

    def test_search_knows_no_syntax(self, stash: Stash) -> None:
        """Quotes, operators and SQL in a query have no effect and raise no error."""
        message = _said("near and or not column word")
        [key] = stash.put("gc-1", [message])
        for query in UNUSUAL_QUERIES:
            assert {hit.key for hit in stash.search(query)} <= {key}, query
        assert stash.restore([key]) == [message]

    @few
    @given(query=st.text("aZ9_.\"'*^:;()[]{}<>-+|&!%?$\\/~ \n\0漢\ud800", max_size=40))
    def test_search_takes_any_text(self, stash: Stash, query: str) -> None:
        """Generated queries raise no error."""
        stash.put("gc-1", [_A_TO_Z])
        assert {hit.key for hit in stash.search(query)} <= {stash_key(_A_TO_Z)}

    # --- forget and stats ---

    def test_forgets_by_key(self, stash: Stash) -> None:
        """`forget` deletes the entries under the keys, also from the index, and no others."""
        messages = [_said("silver one"), _said("silver two"), _said("silver three")]
        keys = stash.put("gc-1", messages)
        assert stash.forget([]) == 0
        assert stash.forget(iter([keys[0], keys[0], keys[2], "0" * 16])) == 2
        assert [stash.get(key) is None for key in keys] == [True, False, True]
        assert [hit.key for hit in stash.search("silver")] == [keys[1]]
        assert stash.forget([keys[0]]) == 0
        assert stash.stats().entries == 1

    def test_a_single_key_is_not_a_list_of_keys(self, stash: Stash) -> None:
        """`forget` and `restore` refuse a text: its characters would be taken as keys."""
        [key] = stash.put("gc-1", [_said("something")])
        for method in (stash.forget, stash.restore):
            with pytest.raises(StashError) as caught:
                method(key)
            assert ", ".join(key) not in str(caught.value)
        assert stash.get(key) is not None

    def test_what_is_forgotten_leaves_what_others_share(self, stash: Stash) -> None:
        """Forgetting a message keeps another message with the same content."""
        first, second = _said("shared words"), _said("shared words")
        keys = stash.put("gc-1", [first, second])
        assert stash.forget(keys[:1]) == 1
        assert stash.restore(keys[1:]) == [second]
        assert [hit.key for hit in stash.search("shared")] == keys[1:]

    def test_forgets_everything(self, stash: Stash) -> None:
        """`forget` without keys deletes all entries, and the stash can be used again."""
        messages = odd_messages()
        keys = stash.put("gc-1", messages)
        assert stash.forget() == len(messages)
        assert stash.stats().entries == stash.stats().contents == stash.stats().bytes == 0
        assert {stash.get(key) for key in keys} == {None}
        assert stash.restore(stash.put("gc-2", messages)) == messages

    def test_stats_count_what_is_kept(self, stash: Stash) -> None:
        """`stats` returns the number of entries, distinct contents and bytes, and the times."""
        text = "the very same tool output " * 100
        stash.put("gc-1", [_said(text)])
        alone = stash.stats()
        assert (alone.entries, alone.contents) == (1, 1)
        assert alone.bytes >= len(text)
        _tick()
        [key] = stash.put("gc-2", [_said(text)])
        shared = stash.stats()
        assert (shared.entries, shared.contents) == (2, 1)
        assert shared.bytes - alone.bytes < len(text) / 2
        entry = stash.get(key)
        assert entry is not None
        assert shared.oldest == alone.oldest == alone.newest
        assert shared.newest == entry.stashed_at
        assert alone.newest is not None
        assert shared.newest > alone.newest

    # --- other agents ---

    def test_another_agent_has_its_own_content(self, stash: Stash) -> None:
        """`for_agent` returns a stash that neither finds nor forgets what this one stored."""
        [own] = stash.put("gc-1", [_said("of the first agent")])
        other = stash.for_agent("another-agent")
        assert other.get(own) is None
        assert other.search("agent") == []
        [theirs] = other.put("gc-1", [_said("of the other agent")])
        assert stash.get(theirs) is None
        assert stash.for_agent("another-agent").get(theirs) is not None
        assert other.forget() == 1
        assert stash.get(own) is not None

    # --- concurrency ---

    def test_can_be_used_from_threads(self, stash: Stash) -> None:
        """Twenty threads use the stash at the same time without errors or lost entries."""
        start = threading.Barrier(20)

        def work(number: int) -> list[str]:
            keys = []
            start.wait()
            for turn in range(4):
                messages = [_said(f"thread {number} turn {turn}"), _said(f"turn {turn}")]
                keys += stash.put(f"gc-{number}-{turn}", messages)
                assert stash.restore(keys[-2:]) == messages
                assert stash.search(f"thread {number}")
                stash.stats()
            stash.forget(keys[:2])
            return keys[2:]

        with ThreadPoolExecutor(20) as threads:
            kept = [key for keys in threads.map(work, range(20)) for key in keys]
        assert len(stash.restore(kept)) == len(kept) == stash.stats().entries == 120


def _said(text: str) -> Message:
    return Message.from_text(Role.USER, text)


def _tick() -> None:
    """Waits until even a coarse clock has advanced."""
    time.sleep(0.02)
