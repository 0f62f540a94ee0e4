"""The suites for counters, formats and observers: correct plugins pass, every check has mutants."""

# ruff: noqa: ARG002  mutants have the signature of the method that they override

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, is_hypothesis_test, settings

from jaato_gc import (
    EstimateCounter,
    GCError,
    GCPluginError,
    GCResult,
    Message,
    Part,
    Role,
)
from jaato_gc.plugin import FrameCosts, TokenCounter, hookimpl
from jaato_gc_testing import (
    TEXTS,
    CounterConformance,
    FormatConformance,
    ObserverConformance,
)

SUITES: tuple[type[Any], ...] = (CounterConformance, FormatConformance, ObserverConformance)
MUTANTS: list[tuple[type[Any], str, type[Any]]] = []


def caught_by(suite: type[Any], *checks: str) -> Callable[[type[Any]], type[Any]]:
    """Adds a mutant to the table: the checks that catch it."""

    def enter(mutant: type[Any]) -> type[Any]:
        MUTANTS.extend((suite, f"test_{check}", mutant) for check in checks)
        return mutant

    return enter


# --- counters ---


class TestEstimate(CounterConformance):
    @staticmethod
    def factory() -> TokenCounter:
        return EstimateCounter()


def of_counters(*checks: str) -> Callable[[type[Any]], type[Any]]:
    return caught_by(CounterConformance, *checks)


@of_counters("has_the_shape_of_a_counter")
class Nameless(EstimateCounter):
    name = ""


@of_counters("has_the_shape_of_a_counter")
class InPercent(EstimateCounter):
    tolerance = 15.0


@of_counters("has_the_shape_of_a_counter")
class Sure(EstimateCounter):
    confidence = "sure"  # type: ignore[assignment]


@of_counters("has_the_shape_of_a_counter")
class WithCostsAsANumber(EstimateCounter):
    costs = 4


@of_counters("counts_any_text", "counts_odd_texts")
class CountsInParts(EstimateCounter):
    def count_text(self, text: str) -> int:
        return len(text) / 4  # type: ignore[return-value]


@of_counters("counts_odd_texts")
class Encodes(EstimateCounter):
    def count_text(self, text: str) -> int:
        return len(text.encode()) // 4


@of_counters("nothing_costs_nothing")
class HasAMinimum(EstimateCounter):
    def count_text(self, text: str) -> int:
        return 1 + super().count_text(text)


@of_counters("nothing_costs_nothing")
class RoundsDown(EstimateCounter):
    def count_text(self, text: str) -> int:
        return len(text) // 10


@of_counters("more_text_costs_more")
class Truncates(EstimateCounter):
    def count_text(self, text: str) -> int:
        return super().count_text(text[:500])


@of_counters("counts_the_same_again")
class CountsItsCalls(EstimateCounter):
    calls = 0

    def count_text(self, text: str) -> int:
        self.calls += 1
        return super().count_text(text) + (self.calls % 2 if text else 0)


@of_counters("counts_the_same_again")
class CountsItsInstances(EstimateCounter):
    numbers = itertools.count()

    def __init__(self) -> None:
        self.factor = next(self.numbers) + 1

    def count_text(self, text: str) -> int:
        return super().count_text(text) * self.factor


@of_counters("can_be_used_from_threads")
class OfOneThread(EstimateCounter):
    def __init__(self) -> None:
        self.owner = threading.get_ident()

    def count_text(self, text: str) -> int:
        return super().count_text(text) if threading.get_ident() == self.owner else 0


@of_counters("serves_a_session")
class CountsNothing(EstimateCounter):
    costs = FrameCosts(message=0, call=0)

    def count_text(self, text: str) -> int:
        return 0


# --- formats ---


@dataclass
class Conversation:
    messages: list[Message]


class LineFormat:
    """Reads and writes ``{"who": …, "text": …}``."""

    name = "lines"
    summary = "One message per line."

    def recognize(self, records: Sequence[Any]) -> float:
        known = [isinstance(each, dict) and each.keys() == {"who", "text"} for each in records]
        return sum(known) / len(known) if known else 0.0

    def conversations(self, records: Iterable[Any]) -> Iterator[Conversation]:
        yield Conversation([self.message(record.value) for record in records])

    def message(self, value: Any) -> Message:
        if not isinstance(value, dict) or not isinstance(value.get("text"), str):
            raise GCError(f"expected a message, got {value!r:.40}")
        if value.get("who") not in ("user", "model"):
            raise GCError(f"expected 'user' or 'model', got {value.get('who')!r:.40}")
        return Message.from_text(Role(value["who"]), value["text"])

    def from_messages(self, messages: Sequence[Message], request: Any) -> list[Any]:
        return [{"who": each.role.value, "text": each.text} for each in messages]


SAMPLE = [{"who": "user", "text": "hello"}, {"who": "model", "text": "hi"}]


class TestLines(FormatConformance):
    @staticmethod
    def factory() -> LineFormat:
        return LineFormat()

    @staticmethod
    def samples() -> list[list[Any]]:
        return [SAMPLE, SAMPLE[:1]]


class TestReadOnly(TestLines):
    """A format that can't write passes too."""

    @staticmethod
    def factory() -> Any:
        class ReadOnly(LineFormat):
            from_messages = property()

        return ReadOnly()


def of_formats(*checks: str) -> Callable[[type[Any]], type[Any]]:
    return caught_by(FormatConformance, *checks)


@of_formats("has_the_shape_of_a_format")
class LongSummary(LineFormat):
    summary = "One message\nper line."


@of_formats("has_the_shape_of_a_format")
class CannotRead(LineFormat):
    conversations = None  # type: ignore[assignment]


@of_formats("recognizes_its_own_files")
class Modest(LineFormat):
    def recognize(self, records: Sequence[Any]) -> float:
        return super().recognize(records) / 3


@of_formats("recognizes_its_own_files", "recognizes_nothing_else")
class InPercentages(LineFormat):
    def recognize(self, records: Sequence[Any]) -> float:
        return 100 * super().recognize(records) or -1


@of_formats("recognizes_nothing_else")
class Confident(LineFormat):
    def recognize(self, records: Sequence[Any]) -> float:
        return 0.9


@of_formats("reads_messages")
class ReadsNothing(LineFormat):
    def conversations(self, records: Iterable[Any]) -> Iterator[Conversation]:
        return iter(())


@of_formats("reads_messages")
class ReadsDicts(LineFormat):
    def message(self, value: Any) -> Message:
        return value  # type: ignore[no-any-return]


@of_formats("reads_messages")
class RepeatsIds(LineFormat):
    def message(self, value: Any) -> Message:
        return Message.from_text(Role.USER, "hello", message_id="m1")


@of_formats("reads_the_same_again")
class ReadsOtherwise(LineFormat):
    numbers = itertools.count()

    def message(self, value: Any) -> Message:
        return Message.from_text(Role.USER, f"message {next(self.numbers)}")


@of_formats("reads_the_same_again")
class Consumes(LineFormat):
    def message(self, value: Any) -> Message:
        message = super().message(value)
        value["read"] = True
        return message


@of_formats("messages_can_be_used_and_saved")
class KeepsObjects(LineFormat):
    def message(self, value: Any) -> Message:
        message = super().message(value)
        return Message(message.role, [Part(text=message.text, extra={"seen": {1, 2}})])


@of_formats("writes_what_it_read")
class WritesUppercase(LineFormat):
    def from_messages(self, messages: Sequence[Message], request: Any) -> list[Any]:
        return [{"who": each.role.value, "text": each.text.upper()} for each in messages]


@of_formats("writes_messages_without_their_origin")
class WritesOnlyWhatItRead(LineFormat):
    def message(self, value: Any) -> Message:
        return replace(super().message(value), origin=value)

    def from_messages(self, messages: Sequence[Message], request: Any) -> list[Any]:
        return [each.origin for each in messages if each.origin]


@of_formats("writes_messages_without_their_origin")
class ForgetsWhoSpoke(WritesOnlyWhatItRead):
    def from_messages(self, messages: Sequence[Message], request: Any) -> list[Any]:
        return [each.origin or {"who": "user", "text": each.text} for each in messages]


@of_formats("damaged_files_are_refused")
class Trusting(LineFormat):
    def message(self, value: Any) -> Message:
        return Message.from_text(Role(value["who"]), value["text"])


# --- observers ---


class Watcher:
    """Counts what it hears of."""

    def __init__(self) -> None:
        self.heard = 0

    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult, agent_id: str = "", **others: Any) -> None:
        self.heard += 1

    @hookimpl
    def jaato_gc_session_ended(self) -> None:
        self.heard += 1


class TestWatcher(ObserverConformance):
    @staticmethod
    def factory() -> Watcher:
        return Watcher()


def of_observers(*checks: str) -> Callable[[type[Any]], type[Any]]:
    return caught_by(ObserverConformance, *checks)


@of_observers("observes_something")
class Blind:
    pass


@of_observers("observes_something")
class NoObserver:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[Any]:
        return []


@of_observers("observes_something")
class Misspelled:
    @hookimpl
    def jaato_gc_after_colect(self) -> None: ...


@of_observers("names_only_existing_arguments")
class MisspelledArgument:
    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult, sesion_id: str = "") -> None: ...


@of_observers("never_fails")
class ExpectsSuccess:
    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult) -> None:
        if not result.success:
            raise ValueError("it failed")


@of_observers("never_fails")
class FailsAtTheEnd:
    @hookimpl
    def jaato_gc_session_ended(self) -> None:
        raise ValueError("nothing to close")


@of_observers("never_fails")
class ClearsTheRemovalList:
    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult) -> None:
        result.removal_list.clear()


@of_observers("changes_nothing")
class EmptiesTheRemovalList:
    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult) -> None:
        list.clear(result.removal_list)  # around what a FrozenList refuses


@of_observers("changes_nothing")
class WritesIntoTheDetails:
    @hookimpl
    def jaato_gc_after_undo(self, result: GCResult) -> None:
        dict.update(result.details, seen=True)


@of_observers("serves_many_sessions_at_once")
class ServesOneAgent:
    agent: str | None = None

    @hookimpl
    def jaato_gc_before_collect(self, agent_id: str) -> None:
        self.agent = self.agent or agent_id
        if self.agent != agent_id:
            raise ValueError(f"this is not {self.agent}")


# --- running the checks ---


def suite_of(suite: type[Any], mutant: type[Any]) -> Any:
    members = {"factory": staticmethod(mutant), "samples": staticmethod(lambda: [list(SAMPLE)])}
    return type("TestSome", (suite,), members)()


def run(suite: type[Any], check: str, mutant: type[Any]) -> None:
    made = suite_of(suite, mutant)
    method = getattr(made, check)
    if not is_hypothesis_test(method):
        method()
        return

    @settings(
        max_examples=40,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(TEXTS)
    def on_examples(text: str) -> None:
        method.hypothesis.inner_test(made, text)

    on_examples()


@pytest.mark.parametrize(
    ("suite", "check", "mutant"),
    [pytest.param(*each, id=f"{each[2].__name__}-{each[1]}") for each in MUTANTS],
)
def test_each_check_catches_its_mutants(suite: type[Any], check: str, mutant: type[Any]) -> None:
    with pytest.raises((AssertionError, UnicodeError, GCPluginError, GCError)) as caught:
        run(suite, check, mutant)

    assert str(caught.value)


@pytest.mark.parametrize("suite", SUITES)
def test_every_check_has_a_mutant(suite: type[Any]) -> None:
    checks = {name for name in dir(suite) if name.startswith("test_")}

    assert {check for owner, check, _ in MUTANTS if owner is suite} == checks


@pytest.mark.parametrize("suite", SUITES)
def test_a_check_can_not_be_overridden_without_xfail(suite: type[Any]) -> None:
    check = next(name for name in dir(suite) if name.startswith("test_"))

    with pytest.raises(TypeError, match=rf"TestMine overrides {check}: .*xfail"):
        type("TestMine", (suite,), {check: print})


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_needs_a_factory(suite: type[Any]) -> None:
    with pytest.raises(TypeError, match="factory"):
        type("TestMine", (suite,), {})()
