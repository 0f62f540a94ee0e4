"""Strategies of other authors inside jaato-server, and what they can't break."""

from collections.abc import Callable
from typing import Any

import pytest
from jaato_host import Model, conversation, gc, new_session

from jaato_gc import GCError, Message, Part, Role
from jaato_gc.plugin import Collection, GCStrategy, StrategySettings
from jaato_gc_jaato import bridge


class EveryOtherTurn(GCStrategy[StrategySettings]):
    name = "gc_every_other_turn"

    def select(self, collection: Collection) -> None:
        collection.remove_oldest(collection.turns[1::2], "other")


def session_with(factory: Callable[[], Any]) -> Any:
    session = new_session(Model(5_000), conversation(20))
    plugin = bridge(factory, "gc_mine")()
    plugin.initialize({"agent_name": "main", "notify_on_gc": False})
    session.set_gc_plugin(plugin, gc.GCConfig(pressure_percent=90.0))
    return session


def test_another_strategy_takes_one_line() -> None:
    session = session_with(EveryOtherTurn)

    collected = session.manual_gc()

    assert collected.success
    assert collected.plugin_name == "gc_mine"
    assert {item.reason for item in collected.removal_list} == {"other"}


class Answers(EveryOtherTurn):
    """Returns a history of a test's making.

    Args:
        change: Makes it from the one that it was given.
    """

    def __init__(self, change: Callable[[list[Message]], list[Message]]) -> None:
        super().__init__()
        self.change = change

    def collect(self, history: list[Message], *arguments: Any) -> Any:
        _, result = super().collect(history, *arguments)
        return self.change(list(history)), result


def _raise(_history: list[Message]) -> list[Message]:
    raise GCError("no idea")


def _mine() -> Message:
    return Message.from_text(Role.USER, "Mine.", message_id="mine")


def _fail(_history: list[Message]) -> list[Message]:
    raise ZeroDivisionError("no idea")


ANSWERS: dict[str, Callable[[list[Message]], list[Message]]] = {
    "raises an error of ours": _raise,
    "raises any error": _fail,
    "drops a result": lambda history: history[:2] + history[3:],
    "drops a call": lambda history: history[:1] + history[2:],
    "drops everything": lambda _history: [],
    "reverses the order": lambda history: history[::-1],
    "repeats a message": lambda history: [*history, history[0]],
    "changes a text": lambda history: [
        history[0].with_parts([Part(text="Other.")]),
        *history[1:],
    ],
    "adds a message": lambda history: [*history, _mine()],
    "adds a part": lambda history: [
        history[0].with_parts([*history[0].parts, Part(text="More.")]),
        *history[1:],
    ],
    "returns None": lambda _history: None,  # type: ignore[dict-item, return-value]
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
def test_an_invalid_answer_changes_nothing(
    answer: Callable[[list[Message]], list[Message]], caplog: pytest.LogCaptureFixture
) -> None:
    session = session_with(lambda: Answers(answer))
    history, budget = session.get_history(), session._instruction_budget.snapshot()

    collected = session.manual_gc()
    session.manual_gc()

    assert not collected.success
    assert collected.error
    assert collected.tokens_freed == 0
    left = session.get_history()
    assert all(new is old for new, old in zip(left, history, strict=True))
    assert session._instruction_budget.snapshot() == budget
    assert len([each for each in caplog.records if each.name == "jaato_gc_jaato"]) == 1


def test_a_strategy_that_cannot_be_made_is_reported_by_every_collection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> Any:
        raise OSError("no disk")

    session = session_with(broken)

    collected = session.manual_gc()

    assert collected.error == "OSError: no disk"
    assert session._maybe_collect_before_send() is None
    assert "no disk" in caplog.text


def test_a_history_without_a_budget_is_collected_by_our_own_count() -> None:
    history = conversation(20)
    plugin = bridge(EveryOtherTurn, "gc_mine")()
    plugin.initialize()
    usage = {"context_limit": 4_000, "total_tokens": 0, "percent_used": 0.0}

    left, collected = plugin.collect(
        history, usage, gc.GCConfig(pressure_percent=90.0), gc.GCTriggerReason.MANUAL
    )

    assert collected.success
    assert collected.tokens_freed > 0
    assert 0 < len(left) < len(history)
    assert collected.removal_list == []


def test_an_empty_history_is_no_problem() -> None:
    session = new_session(Model(5_000))
    plugin = bridge(EveryOtherTurn, "gc_mine")()
    plugin.initialize()
    session.set_gc_plugin(plugin, gc.GCConfig())

    assert session.manual_gc().success
    assert session.get_history() == []


def test_strategies_are_shut_down_with_their_session() -> None:
    ended: list[str] = []

    class Closing(EveryOtherTurn):
        def shutdown(self) -> None:
            ended.append(self.name)

    session = session_with(Closing)

    session.remove_gc_plugin()

    assert ended == ["gc_every_other_turn"]
