"""Turns on an event loop: some are cancelled, and threads use the session meanwhile."""

import asyncio
import contextlib
import random
import threading
from typing import Any

from jaato_gc import ContextFloorError, FunctionCall, Message, Role, UsageReport
from soak.host import Host
from soak.request_rules import words_in
from soak.threads import run_threads
from soak.witness import Expectation

OVERHEAD = 25
"""The tokens that the provider counts in addition."""
NOTHING = Expectation({}, -1)


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
        tokens = words_in(request) + OVERHEAD
        if self.chance.random() < 0.05:  # a report that is too high is not believed
            tokens += self.host.session.budget.context_limit
        return message, UsageReport(tokens, 20)

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
                for _ in range(chance.randrange(5)):
                    host.add_turn()
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
