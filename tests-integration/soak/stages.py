"""The stages of a round: alone, with threads, with cancelled turns, and at rest."""

import asyncio
import contextlib
import random
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from jaato_gc import (
    ContextFloorError,
    FunctionCall,
    GCSession,
    Message,
    Role,
    UndoError,
    UsageReport,
)
from soak.accounts import faults_of_account, faults_of_figures, faults_of_result
from soak.host import Host, forms
from soak.request_rules import words_in
from soak.witness import Expectation, Witness

BEGINNING = 100
"""The messages that a history begins with, at least."""
OVERHEAD = 25
"""The tokens that the provider counts in addition."""


NOTHING = Expectation({}, -1)


def begin(host: Host) -> None:
    """Appends a system message and some turns."""
    host.session.append(host.setup.talk.say(Role.SYSTEM, 20))
    while len(host.session.history) < BEGINNING:
        host.add_turn()


# --- alone ---


def alone(host: Host, steps: int) -> None:
    """Uses a session in one thread, and checks accounts and undo in full."""
    chance = host.setup.chance
    acts: list[Callable[[Host, random.Random], None]]
    acts = [collect_and_undo, collect_and_undo, collect, Host.step, Host.send_alone]
    for _ in range(steps):
        if chance.random() < 0.5:
            host.add_turn()
        act = chance.choice(acts)
        act(host, chance)


def collect(host: Host, chance: random.Random) -> None:
    """Collects and checks the account."""
    session = host.session
    before, correction = session.history, session.budget.correction
    result = session.manual_gc(target_percent=chance.choice([0.0, 30.0, 50.0, 60.0]))
    faults = [*faults_of_account(before, session.history, result, correction)]
    faults += [*faults_of_figures(session), *host.witness.faults_of_content(session.history)]
    host.witness.find(*(f"{result}: {fault}" for fault in faults))


def collect_and_undo(host: Host, chance: random.Random) -> None:
    """Collects, goes on, and undoes the collection: everything is as if it had not been."""
    session = host.session
    before, count = session.history, session.collection_count
    session.manual_gc(target_percent=chance.choice([0.0, 30.0, 50.0]))
    result = session.get_gc_history()[-1] if session.collection_count > count else None
    if result is None or forms(session.history) == forms(before):
        return
    said = len(host.witness.messages)
    if chance.random() < 0.5:
        host.add_turn()
    expected = [*before, *host.witness.messages[said:]]
    pinned = set(session.budget.pinned_message_ids)
    failures = host.setup.stash.failures if host.setup.stash else 0
    try:
        session.undo(result.gc_id)
    except UndoError as error:
        if host.setup.stash is None or host.setup.stash.failures == failures:
            host.witness.find(f"the newest collection can't be undone: {error}")
        return
    if forms(session.history) != forms(expected):
        host.witness.find("undo did not restore what was there")
    if set(session.budget.pinned_message_ids) != pinned:
        host.witness.find("undo changed the pins")
    host.witness.find(*(f"after undo: {fault}" for fault in faults_of_figures(session)))


# --- threads ---


def together(host: Host, threads: int, steps: int) -> None:
    """Uses a session in several threads at once."""
    gate = threading.Barrier(threads)

    def work(number: int, seed: float) -> None:
        chance = random.Random(seed)
        gate.wait()
        for _ in range(steps):
            if number % 3 == 0:
                host.add_turn()
            if number % 3 < 2 and not host.setup.reports:
                host.send()
            else:
                host.step(chance)

    run_threads(host, [(work, number) for number in range(threads)])


def run_threads(host: Host, work: list[tuple[Callable[[int, float], None], int]]) -> None:
    """Runs functions in threads, and notes every error that escapes."""

    def run(function: Callable[[int, float], None], number: int, seed: float) -> None:
        with noting_errors(host):
            function(number, seed)

    seeds = [host.setup.chance.random() for _ in work]
    started = [
        threading.Thread(target=run, args=(*each, seed), name="soak")
        for each, seed in zip(work, seeds, strict=True)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


@contextlib.contextmanager
def noting_errors(host: Host) -> Iterator[None]:
    """Notes an error as a finding: those that are documented were handled before."""
    try:
        yield
    except BaseException:
        host.witness.find(f"an error escaped: {traceback.format_exc()}")


# --- cancelled turns ---


class Model:
    """A model that calls tools, and the tools. Both can be cancelled at any point."""

    def __init__(self, host: Host, chance: random.Random) -> None:
        self.host = host
        self.chance = chance

    async def answer(self, request: list[Message]) -> Any:
        # Protection may have changed since the request was made, so that is checked elsewhere.
        self.host.witness.check(request, NOTHING, self.host.setup.limit)
        await asyncio.sleep(0)
        talk, tools = self.host.setup.talk, self.chance.choice([0, 0, 1, 2])
        message = talk.calls(["read_file"] * tools, "unique") if tools else talk.say(Role.MODEL, 20)
        if not self.host.setup.reports:
            return message
        return message, UsageReport(words_in(request) + OVERHEAD, 20)

    async def run_tool(self, _call: FunctionCall) -> str:
        await asyncio.sleep(0)
        if self.chance.random() < 0.1:
            raise RuntimeError("the tool failed")
        return self.host.setup.talk.text(80)


def in_turns(host: Host, turns: int, threads: int) -> None:
    """Runs turns of several tasks on an event loop while threads use the session."""
    chance = random.Random(host.setup.chance.random())
    model = Model(host, chance)
    host.session.provider, host.session.tools = model.answer, model.run_tool
    is_over = threading.Event()

    async def take_turns(turn: asyncio.Lock) -> None:
        for _ in range(turns):
            prompt = host.setup.talk.say(Role.USER, 20)
            async with turn:  # the turns of an agent follow one another
                task = asyncio.create_task(host.session.send_message_async(prompt))
                if chance.random() < 0.4:
                    for _ in range(chance.randrange(12)):
                        await asyncio.sleep(chance.choice([0, 0, 0.001]))
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError, ContextFloorError):
                    await task

    async def run() -> None:
        turn = asyncio.Lock()
        await asyncio.gather(take_turns(turn), take_turns(turn), take_turns(turn))

    def talk(_number: int, _seed: float) -> None:
        try:
            asyncio.run(run())
        finally:
            is_over.set()

    def meddle(_number: int, seed: float) -> None:
        own = random.Random(seed)
        while not is_over.wait(0.002):
            if own.random() < 0.3 and not host.setup.reports:
                host.send()
            else:
                host.step(own)

    run_threads(host, [(talk, 0), *((meddle, number) for number in range(1, threads))])
    for thread in threading.enumerate():  # work that a cancelled turn left behind
        if thread.name == "jaato-gc":
            thread.join()


# --- at rest ---


def rest(host: Host) -> None:
    """Checks a session that nothing uses any more, and undoes everything that happened to it."""
    session, witness = host.session, host.witness
    if host.setup.stash:
        host.setup.stash.fails = 0
    host.session.append(host.setup.talk.say(Role.USER, 20))
    host.send_alone(host.setup.chance)
    witness.find(*(f"at rest: {fault}" for fault in faults_of_figures(session)))
    witness.find(*(f"at rest: {fault}" for fault in witness.faults_of_content(session.history)))
    for result in session.get_gc_history():
        witness.find(*(f"{result}: {fault}" for fault in faults_of_result(result)))
    saved = session.save()
    restored = host.restored(saved, host.strategy, Witness())
    if restored.save() != saved or forms(restored.history) != forms(session.history):
        witness.find("a restored session is not what was saved")
    if not host.setup.forgets:
        for each in (session, restored):
            stopped_by = undo_everything(each)
            if forms(each.history) != forms(witness.messages):
                witness.find(f"undoing everything does not restore it: {stopped_by}")
            witness.find(*(f"all undone: {fault}" for fault in faults_of_figures(each)))


def undo_everything(session: GCSession) -> UndoError:
    """Undoes every collection, and returns the error that ends it."""
    while True:
        try:
            session.undo()
        except UndoError as error:
            return error
