"""System messages in the middle, and server tools over several messages: no request is refused."""

import copy
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placed_messages import LOCKED, Fields, Model, faults

from jaato_gc import (
    GCConfig,
    GCError,
    GCPolicy,
    GCSession,
    Message,
    Role,
    discover_gc_plugins,
    extractive_summary,
)
from jaato_gc_formats import ProviderSession, check_request, counter_for

CALL: Fields = {"model": "claude-opus-4-8", "max_tokens": 500, "system": "Be brief.", "tools": [{}]}
STRATEGIES = sorted(discover_gc_plugins())
OPTIONS: dict[str, Fields] = {"gc_summarize": {"extractive": True}}


def policy_of(message: Message) -> GCPolicy | None:
    is_locked = message.role is Role.SYSTEM and message.text.startswith(LOCKED)
    return GCPolicy.LOCKED if is_locked else None


def session(strategy: str, context_limit: int = 9_000) -> GCSession:
    made = GCSession(
        context_limit=context_limit,
        counter=counter_for("anthropic", CALL["model"]),
        summarizer=extractive_summary if strategy == "gc_hybrid" else None,
        policy_of=policy_of,
    )
    options = {**OPTIONS.get(strategy, {}), "notify_on_gc": True}
    made.set_gc_plugin(made.registry.create(strategy, options), GCConfig(preserve_recent_turns=2))
    return made


class Run:
    """An agent that sends reminders, and the requests that it made."""

    def __init__(self, strategy: str, seed: int, context_limit: int = 9_000) -> None:
        self.chance = random.Random(seed)
        self.agent = ProviderSession("anthropic", session(strategy, context_limit), call=CALL)
        self.model = Model(self.chance)
        self.sent: list[Fields] = []
        self.refused: list[str] = []
        self.locked = 0

    def send(self) -> Fields:
        request = copy.deepcopy(self.agent.request())
        self.sent.append(request)
        self.refused += faults(request)
        self.refused += map(str, check_request(request, "anthropic"))
        return request

    def remind(self, often: float = 0.6) -> None:
        if self.chance.random() < often:
            is_locked = self.chance.random() < 0.03 and self.locked < 3
            self.locked += is_locked
            text = f"{LOCKED if is_locked else ''}Reminder {len(self.sent)}. " + "Be kind. " * 9
            self.agent.append({"role": "system", "content": text})

    def turn(self) -> None:
        self.agent.append({"role": "user", "content": f"Request {len(self.sent)}. " + "why " * 40})
        self.remind()
        while True:
            blocks = self.model.answer(self.send())
            self.agent.answer({"role": "assistant", "content": blocks, "usage": {}})
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if not (calls or self.model.is_paused):
                return
            results = [
                {"type": "tool_result", "tool_use_id": call, "content": "line\n" * 90}
                for call in calls
            ]
            apart = self.chance.random() < 0.3
            for content in [[each] for each in results] if apart else [results][: len(results)]:
                self.agent.append({"role": "user", "content": content})
            self.remind(0.6 if calls else 0.3)

    def edit(self) -> None:
        """Does what a host may do between turns."""
        live, chance = self.agent.session, self.chance
        messages = live.history
        some = chance.choice(messages).message_id
        with suppress(GCError):
            match chance.randrange(9):
                case 0:
                    live.remove(some)
                case 1:
                    live.undo()
                case 2:
                    live.pin(some)
                case 3:
                    for message_id in list(live.budget.pinned_message_ids):
                        live.unpin(message_id)
                case 4:
                    live.manual_gc()
                case 5:
                    self.restore()

    def restore(self) -> None:
        live = self.agent.session
        summarizer = live.strategy is not None and live.strategy.name == "gc_hybrid"
        self.agent = ProviderSession.restore(
            "anthropic",
            live.save(),
            call=CALL,
            summarizer=extractive_summary if summarizer else None,
            policy_of=policy_of,
        )


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=2)
@given(seed=st.integers(0, 10**6))
def test_no_request_of_a_collected_run_is_refused(strategy: str, seed: int) -> None:
    run = Run(strategy, seed)

    for _ in range(10):
        run.turn()
        run.edit()

    assert run.refused == []
