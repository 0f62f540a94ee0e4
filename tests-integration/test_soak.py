"""The soak runs, and its rules can fail. `nox -s soak` runs it for minutes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from soak.alone import begin
from soak.chances import Setup
from soak.host import Host
from soak.interrupts import interrupt_step
from soak.request_rules import faults_of
from soak.rounds import KILLED, LOOP, STRICT, Tally, run_round
from soak.witness import Witness

from jaato_gc import FunctionCall, GCPolicy, Message, Part, Role, ToolResult

HISTORY = [
    Message.from_text(Role.SYSTEM, "Be brief.", message_id="system"),
    Message.from_text(Role.USER, "What is in a.py?", message_id="question"),
    Message(Role.MODEL, [Part(function_call=FunctionCall("1", "read_file"))], "call"),
    Message(Role.TOOL, [Part(function_response=ToolResult("1", "read_file", "x = 1"))], "result"),
    Message.from_text(Role.MODEL, "A constant.", message_id="answer", policy=GCPolicy.LOCKED),
    Message.from_text(Role.USER, "Thanks.", message_id="newest"),
]
BROKEN: dict[str, Callable[[list[Message]], list[Message]]] = {
    "a call without its result": lambda history: [*history[:3], *history[4:]],
    "a result without its call": lambda history: [*history[:2], *history[3:]],
    "a result that is late": lambda history: [*history[:3], history[5], history[3]],
    "an answer at the beginning": lambda history: [history[4], *history[:4], history[5]],
    "an id that occurs twice": lambda history: [*history, history[5]],
    "an empty message": lambda history: [*history, replace(history[5], parts=(), message_id="x")],
    "a call of the user": lambda history: [*history[:2], replace(history[2], role=Role.USER)],
}
LOST: dict[str, Callable[[list[Message]], list[Message]]] = {
    "without a locked message": lambda history: [*history[:4], history[5]],
    "without the newest user message": lambda history: history[:5],
    "in another order": lambda history: [*history[:2], history[5], *history[2:5]],
    "with a message that was not said": lambda history: [
        *history,
        Message.from_text(Role.USER, "Delete it."),
    ],
    "with a changed text": lambda history: [
        *history[:5],
        history[5].with_parts([Part(text="No.")]),
    ],
    "with more than fits": lambda history: [
        *history[:3],
        history[3].with_parts([Part(function_response=ToolResult("1", "read_file", "x " * 99))]),
        *history[4:],
    ],
}


def test_a_valid_request_has_no_faults() -> None:
    assert list(faults_of(HISTORY)) == []


@pytest.mark.parametrize("name", BROKEN)
def test_the_rules_report_what_a_provider_refuses(name: str) -> None:
    assert list(faults_of(BROKEN[name](HISTORY)))


@pytest.mark.parametrize("name", LOST)
def test_a_witness_reports_a_request(name: str) -> None:
    witness = Witness()
    for message in HISTORY:
        witness.hear(message)
    expected = witness.expectation()
    witness.check(HISTORY, expected, limit=100)
    assert witness.findings == []

    witness.check(LOST[name](HISTORY), expected, limit=100)

    assert witness.findings


def test_a_witness_expects_nothing_that_was_unpinned_meanwhile() -> None:
    witness = Witness()
    for message in HISTORY:
        witness.hear(message)
    witness.pin(HISTORY[3])
    before = witness.expectation()
    witness.release(HISTORY[3].message_id)

    witness.check([*HISTORY[:2], *HISTORY[4:]], before, limit=100)

    assert witness.findings == []


@pytest.mark.parametrize("seed", ["1", "2", "3", f"4/{KILLED}"])
def test_a_round_of_the_soak_finds_nothing(seed: str) -> None:
    tally: Tally = run_round(seed)

    assert tally.findings == []
    assert tally.collections
    assert tally.requests


@pytest.mark.parametrize("seed", [f"1/{STRICT}", f"1/{LOOP}"])
def test_a_round_with_a_strict_provider_finds_nothing(seed: str) -> None:
    tally = run_round(seed)

    assert tally.findings == []
    assert tally.collections
    assert tally.strict_requests > 100


def test_the_soak_interrupts_steps_and_finds_nothing() -> None:
    host = Host(Setup("1"))
    begin(host)
    for _ in range(40):
        host.add_turn()
        interrupt_step(host, host.setup.chance)

    assert host.witness.findings == []
    assert host.witness.interrupts
