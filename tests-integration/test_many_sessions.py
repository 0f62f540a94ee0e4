"""Many sessions on one event loop, and many threads in one session: every request is valid.

JAATO_GC_SCALE multiplies the numbers of sessions and threads: 50 gives 2,000 sessions and 200
threads.
"""

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from repository import has_option, own_strategies

from jaato_gc import (
    Confidence,
    ContextFloorError,
    FunctionCall,
    GCConfig,
    GCError,
    GCSession,
    InvalidHistoryError,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
)

SCALE = int(os.environ.get("JAATO_GC_SCALE") or 1)
SESSIONS, THREADS = 40 * SCALE, 4 * SCALE
TURNS, WINDOW = 8, 600
STRATEGIES = list(own_strategies())
REGISTRY = PluginRegistry()
CONFIG = GCConfig(preserve_recent_turns=1, preserve_recent_groups=1)


class Words:
    """Counts words, so that the tests can count without core."""

    name = "words"
    confidence = Confidence.EXACT
    tolerance = 0.0

    def count_text(self, text: str) -> int:
        return len(text.split())


def tokens_of(message: Message) -> int:
    """Returns the tokens of a message: its words, and the frames of messages and calls."""
    tokens = 4 + len(message.text.split())
    for result in message.function_responses:
        tokens += 8 + len(f"{result.name}{result.result}".split())
    return tokens + sum(8 + 1 for _ in message.function_calls)


def faults_of(request: list[Message]) -> Iterator[str]:
    """Returns what a provider would refuse. Nothing of core is used, which is what is tested."""
    if not request or request[0].role is not Role.USER:
        yield "it does not begin with a user message"
    if len({message.message_id for message in request}) < len(request):
        yield "an id occurs twice"
    waiting: set[str | None] = set()
    for message in request:
        answered = {result.call_id for result in message.function_responses}
        if waiting and not answered:
            yield f"{message.message_id} comes between a call and its result"
        if answered - waiting:
            yield f"{message.message_id} answers no call"
        waiting = (waiting - answered) | {call.id for call in message.function_calls}
        if not message.parts:
            yield f"{message.message_id} is empty"
    if waiting:
        yield f"it ends with open calls: {waiting}"
    size = sum(map(tokens_of, request))
    if size > WINDOW:
        yield f"it has {size} tokens"


async def summarize(_text: str) -> str:
    await asyncio.sleep(0)
    return "What was said before."


def new_session(strategy: str, **options: Any) -> GCSession:
    registry = PluginRegistry(load_installed=False)
    session = GCSession(context_limit=WINDOW, counter=Words(), registry=registry, **options)
    summaries = {"summarizer": summarize, "summary_tokens": 50}
    given = summaries if has_option(strategy, "summarizer") else {}
    session.set_gc_plugin(REGISTRY.create(strategy, given), CONFIG)
    return session


def text(chance: random.Random, most: int = 60) -> str:
    return " ".join(f"word{chance.randrange(1_000)}" for _ in range(chance.randint(1, most)))


# --- sessions on an event loop ---


class Agent:
    """A session with a model that calls tools. Some of its turns are cancelled."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)
        self.requests = 0
        self.faults: list[str] = []
        self.session = new_session(
            STRATEGIES[number % len(STRATEGIES)], provider=self.answer, tools=self.look
        )

    async def answer(self, request: list[Message]) -> Message:
        self.requests += 1
        self.faults += faults_of(request)
        await asyncio.sleep(0)
        parts = [Part(text=text(self.chance))]
        if self.chance.random() < 0.5:
            ids = range(self.chance.randint(1, 2))
            parts += [
                Part(function_call=FunctionCall(f"{self.requests}.{each}", "look")) for each in ids
            ]
        return Message(Role.MODEL, parts)

    async def look(self, _call: FunctionCall) -> str:
        await asyncio.sleep(0)
        return text(self.chance)

    async def run(self) -> None:
        for turn in range(TURNS):
            task = asyncio.create_task(self.session.send_message_async(text(self.chance)))
            if turn % 3 == 2:
                for _ in range(self.chance.randrange(8)):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                assert task.result().role is Role.MODEL
        answer = await self.session.send_message_async("The last question")
        assert answer.role is Role.MODEL


def test_every_request_of_many_async_sessions_is_valid() -> None:
    async def run() -> list[Agent]:
        agents = [Agent(number) for number in range(SESSIONS)]
        await asyncio.gather(*(agent.run() for agent in agents))
        return agents

    agents = asyncio.run(run())
    assert [fault for agent in agents for fault in agent.faults] == []
    assert all(agent.requests > TURNS / 2 for agent in agents)
    assert sum(bool(agent.session.get_gc_history()) for agent in agents) > SESSIONS / 2


# --- threads in one session ---


class Crowd:
    """Threads that use one session: some add exchanges, some send, some do everything else."""

    def __init__(self, session: GCSession) -> None:
        self.session = session
        self.adding = threading.Lock()  # an exchange is one piece of work of an agent
        self.requests = 0
        self.faults: list[str] = []
        self.errors: list[BaseException] = []
        session.append(Message.from_text(Role.USER, "Begin"))

    def add(self, number: int, chance: random.Random) -> None:
        for each in range(TURNS):
            call_id = f"{number}.{each}"
            result = ToolResult(call_id, "look", text(chance))
            with self.adding:
                if each % 3 == 0:
                    self.session.append(Message.from_text(Role.USER, text(chance)))
                call = Part(function_call=FunctionCall(call_id, "look"))
                self.session.append(Message(Role.MODEL, [call]))
                self.session.append(Message(Role.TOOL, [Part(function_response=result)]))

    def send(self, _number: int, _chance: random.Random) -> None:
        for _ in range(4 * TURNS):
            try:
                request = self.session.before_send()
            except (InvalidHistoryError, ContextFloorError):
                continue  # a call waits for its result, or more came in than was removed
            self.requests += 1
            self.faults += faults_of(request)

    def meddle(self, _number: int, chance: random.Random) -> None:
        session = self.session
        changes: list[Callable[[], object]] = [
            session.manual_gc,
            session.undo,
            session.save,
            session.after_turn,
            session.budget.snapshot,
            session.recover_from_refusal,
            lambda: session.pin(session.history[-1].message_id),
            lambda: session.unpin(session.history[-1].message_id),
            lambda: session.apply(session.plan_gc()),
            lambda: session.set_gc_plugin(REGISTRY.create("gc_truncate"), CONFIG),
        ]
        for _ in range(2 * TURNS):
            try:
                chance.choice(changes)()
            except GCError:
                continue  # not possible at this moment

    def run(self, threads: int) -> None:
        gate = threading.Barrier(threads)

        def work(number: int) -> None:
            role = (self.add, self.send, self.meddle)[number % 3]
            try:
                gate.wait()
                role(number, random.Random(number))
            except BaseException as error:
                self.errors.append(error)

        started = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()


@pytest.mark.parametrize("strategy", ["gc_truncate", "gc_budget", "gc_marksweep"])
def test_every_request_of_a_session_with_many_threads_is_valid(strategy: str) -> None:
    crowd = Crowd(new_session(strategy))
    crowd.run(THREADS)
    assert crowd.errors == []
    assert crowd.faults == []
    session = crowd.session
    for message in session.history:
        session.unpin(message.message_id)
    assert list(faults_of(session.before_send())) == []
    counted = sum(map(tokens_of, session.history))
    assert session.budget.counted_tokens() == counted
