"""The conformance suite for token counters."""

import threading
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hypothesis import given

from jaato_gc import Confidence, GCConfig
from jaato_gc.plugin import FrameCosts, TokenCounter
from jaato_gc_testing._generating import few
from jaato_gc_testing._guard import refuse_silent_overrides
from jaato_gc_testing._histories import TEXTS
from jaato_gc_testing._sessions import OldestFirst, assert_in_step, new_session, speak

_SAMPLES = ("", "a", "two words", "x = {'key': [1, 2]}\n" * 20, "漢字かな", "\ud800", "\0")
"""Texts that counters have failed on: none, odd characters, half of a surrogate pair."""


class CounterConformance(ABC):
    """Checks that any token counter has to pass. Subclass it and return yours from `factory`:

        class TestMine(CounterConformance):
            @staticmethod
            def factory():
                return MyCounter()

    A check that your counter can't pass can be overridden only with
    ``@pytest.mark.xfail(reason="…")``.
    """

    @staticmethod
    @abstractmethod
    def factory() -> TokenCounter:
        """Returns a new instance of the counter."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses subclasses that override a check without ``xfail`` and a reason."""
        super().__init_subclass__(**arguments)
        refuse_silent_overrides(CounterConformance, cls)

    def test_has_the_shape_of_a_counter(self) -> None:
        """The counter has a name, a confidence, a tolerance and `count_text`."""
        counter = self.factory()
        assert isinstance(counter, TokenCounter), f"{type(counter).__name__} is not a TokenCounter"
        name, confidence, tolerance = counter.name, counter.confidence, counter.tolerance
        assert isinstance(name, str), f"name is {name!r}: expected text"
        assert name, "name is empty: counts are cached under it"
        assert isinstance(confidence, Confidence), f"confidence is {confidence!r}"
        is_share = isinstance(tolerance, int | float) and 0 <= tolerance < 1
        assert is_share, f"tolerance is {tolerance!r}: expected a number from 0 to below 1"
        costs = getattr(counter, "costs", None)
        assert isinstance(costs, FrameCosts | None), f"costs is {costs!r:.80}, not FrameCosts"

    @few
    @given(text=TEXTS)
    def test_counts_any_text(self, text: str) -> None:
        """`count_text` returns an integer of 0 or more for generated texts."""
        _count(self.factory(), text)

    def test_counts_odd_texts(self) -> None:
        """`count_text` returns an integer of 0 or more for half a surrogate pair and the like."""
        counter = self.factory()
        for text in _SAMPLES:
            _count(counter, text)

    def test_nothing_costs_nothing(self) -> None:
        """An empty text has no tokens, and a word has some."""
        counter = self.factory()
        for text, expected in (("", 0), ("word", 1)):
            count = _count(counter, text)
            assert (count > 0) == bool(expected), f"{text!r} has {count} tokens"

    def test_more_text_costs_more(self) -> None:
        """A text of ten times as many words has about ten times as many tokens."""
        counter = self.factory()
        for words in (10, 100, 1_000):
            one, ten = (_count(counter, "several words " * each) for each in (words, 10 * words))
            assert 5 * one <= ten <= 20 * one, (
                f"{2 * words} words have {one} tokens, and {20 * words} words {ten}"
            )

    def test_counts_the_same_again(self) -> None:
        """The same text has the same tokens, also in another instance: counts are cached by name.

        An instance of another name may count otherwise.
        """
        first, second = self.factory(), self.factory()
        for text in _SAMPLES:
            count = _count(first, text)
            assert _count(first, text) == count, f"{text!r:.40} has another count the second time"
            if second.name == first.name:
                other = _count(second, text)
                assert other == count, f"{text!r:.40} has {count} tokens, and {other} elsewhere"

    def test_can_be_used_from_threads(self) -> None:
        """Eight threads count with one instance, beginning with its first use."""
        counter, start = self.factory(), threading.Barrier(8)

        def work(_: int) -> list[int]:
            start.wait()
            return [_count(counter, text) for text in _SAMPLES]

        with ThreadPoolExecutor(8) as threads:
            counts = list(threads.map(work, range(8)))
        alone = [_count(counter, text) for text in _SAMPLES]
        for each in counts:
            assert each == alone, f"a thread counted {each}, and another {alone}"

    def test_serves_a_session(self) -> None:
        """A session counts with it, collects, and its budget equals a recount."""
        counter = self.factory()
        session = new_session(OldestFirst(), GCConfig(preserve_recent_turns=1), counter=counter)
        speak(session, *range(6), calls=1)
        before = session.budget.total_tokens()
        result = session.manual_gc(target_percent=0)
        assert_in_step(session)
        after = session.budget.total_tokens()
        assert (result.tokens_before, result.tokens_after) == (before, after)
        assert after < before, f"{before} tokens before the collection, and {after} after it"


def _count(counter: TokenCounter, text: str) -> int:
    count = counter.count_text(text)
    is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    assert is_count, (
        f"count_text({text!r:.40}) returned {count!r}: expected an integer of 0 or more"
    )
    return count
