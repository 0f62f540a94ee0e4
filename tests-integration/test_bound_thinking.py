"""Long runs on a model that binds thinking blocks: no request is refused."""

import copy
import random
from contextlib import suppress
from typing import Any

import pytest
from bound_thinking import ThinkingProvider

from jaato_gc import (
    GCConfig,
    GCError,
    GCSession,
    UndoError,
    discover_gc_plugins,
    extractive_summary,
)
from jaato_gc_formats import ProviderSession, check_request, collect, counter_for, to_messages

Fields = dict[str, Any]
BINDING = "claude-opus-5-5"
TOOL = {"name": "read", "input_schema": {"type": "object"}}
CALL = {"model": BINDING, "max_tokens": 500, "system": "Be brief.", "tools": [TOOL]}
TURNS = 60
STRATEGIES = sorted(discover_gc_plugins())
OPTIONS: dict[str, Fields] = {"gc_summarize": {"extractive": True}}


class Model:
    """Answers with thoughts, calls and texts, each signature different from all others."""

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.made = 0

    def _number(self) -> int:
        self.made += 1
        return self.made

    def thought(self) -> Fields:
        number = self._number()
        if self.chance.random() < 0.2:
            return {"type": "redacted_thinking", "data": f"sealed {number}"}
        text = "" if number % 2 else f"thought {number} " * 10
        return {"type": "thinking", "thinking": text, "signature": f"signed {number}"}

    def calls(self) -> list[Fields]:
        """Returns calls with thoughts before, and sometimes between, them."""
        blocks = [self.thought()]
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            if self.chance.random() < 0.4:
                blocks.append(self.thought())
            arguments = {"path": f"src/file_{self.chance.randrange(9)}.py", "text": "x " * 50}
            number = self._number()
            blocks.append(
                {"type": "tool_use", "id": f"call_{number}", "name": "read", "input": arguments}
            )
        return blocks

    def text(self) -> list[Fields]:
        if self.chance.random() < 0.1:
            return [self.thought()]  # stopped while it was thinking
        thoughts = [self.thought()] if self.chance.random() < 0.8 else []
        return [*thoughts, {"type": "text", "text": f"Done, step {self.made}."}]


def session(strategy: str, context_limit: int = 12_000) -> GCSession:
    made = GCSession(
        context_limit=context_limit,
        counter=counter_for("anthropic", BINDING),
        summarizer=extractive_summary if strategy == "gc_hybrid" else None,
    )
    plugin = made.registry.create(strategy, OPTIONS.get(strategy))
    made.set_gc_plugin(plugin, GCConfig(preserve_recent_turns=2))
    return made


def results_of(answer: Fields, chance: random.Random) -> list[Fields]:
    return [
        {
            "type": "tool_result",
            "tool_use_id": block["id"],
            "content": f"line of {block['id']}\n" * chance.choice([3, 60, 120]),
        }
        for block in answer["content"]
        if block["type"] == "tool_use"
    ]


class Run:
    """An agent, its provider and its model. Every request is checked by the provider and by us."""

    def __init__(self, strategy: str = "gc_truncate", seed: int = 0, **call: Any) -> None:
        self.agent = ProviderSession("anthropic", session(strategy), call={**CALL, **call})
        self.provider, self.model = ThinkingProvider(), Model(seed)
        self.refused: list[str] = []
        self.sent: Fields | None = None
        self.turns = 0

    def send(self) -> Fields:
        request = self.agent.request()
        self.refused += self.provider.receive(request)
        self.refused += map(str, check_request(request, "anthropic", before=self.sent))
        self.sent = copy.deepcopy(request)
        return request

    def turn(self, steps: int | None = None) -> None:
        self.turns += 1
        self.agent.append(
            {"role": "user", "content": f"Request {self.turns}, with some words to it."}
        )
        steps = self.model.chance.choice([0, 1, 3]) if steps is None else steps
        for step in range(steps + 1):
            self.send()
            answer = self.provider.answer(self.model.calls() if step < steps else self.model.text())
            self.agent.answer(copy.deepcopy(answer))
            if results := results_of(answer, self.model.chance):
                self.agent.append({"role": "user", "content": results})

    def turn_until_collected(self) -> None:
        before = self.agent.session.collection_count
        while self.agent.session.collection_count == before:
            self.turn()

    def restore(self) -> None:
        saved = self.agent.session.save()
        summarizer = None
        if self.agent.session.strategy and self.agent.session.strategy.name == "gc_hybrid":
            summarizer = extractive_summary
        self.agent = ProviderSession.restore(
            "anthropic", saved, call=self.agent.call, summarizer=summarizer
        )


def thoughts_of(request: Fields) -> list[Fields]:
    return [
        block
        for message in request["messages"]
        for block in message["content"]
        if isinstance(block, dict) and "thinking" in block["type"]
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_request_of_a_long_run_has_a_thought_that_lost_its_past(strategy: str) -> None:
    run = Run(strategy)

    for number in range(TURNS):
        run.turn()
        if number % 15 == 14:
            run.restore()

    assert run.refused == []
    assert run.agent.session.collection_count > 3
    assert run.provider.kept > 100


@pytest.mark.parametrize("seed", range(5))
def test_undone_collections_and_changed_calls_leave_no_invalid_thought(seed: int) -> None:
    run = Run(seed=seed)
    chance = random.Random(seed)

    for number in range(TURNS):
        run.turn()
        match chance.randrange(8):
            case 0 if run.agent.session.collection_count:
                with suppress(UndoError):
                    run.agent.session.undo()
            case 1 if number % 3 == 0:
                run.agent.call["system"] = f"Be brief. It is day {number}."
            case 2:
                run.agent.session.manual_gc()
            case 3:
                run.restore()
            case 4:
                message = chance.choice(run.agent.session.history)
                with suppress(GCError):
                    run.agent.session.remove(message.message_id)

    assert run.refused == []


def test_a_restored_session_sends_the_thoughts_that_the_saved_one_would_send() -> None:
    run = Run()
    for _ in range(2):
        run.turn_until_collected()
        run.turn(steps=2)
    run.agent.append({"role": "user", "content": "Next."})
    while not (before := thoughts_of(run.send())):  # it was collected just before
        run.turn(steps=2)
        run.agent.append({"role": "user", "content": "Next."})

    run.restore()

    assert thoughts_of(run.send()) == before != []
    assert run.refused == []


def test_a_collection_leaves_the_thoughts_before_its_first_change() -> None:
    run = Run()
    run.turn(steps=1)
    for message in run.agent.session.history:
        run.agent.session.pin(message.message_id)
    first = thoughts_of(run.agent.request())

    run.turn_until_collected()

    assert first == thoughts_of(run.send())[: len(first)] != []
    assert run.refused == []


def long_run() -> tuple[ThinkingProvider, Fields]:
    """Returns a run that nothing was collected from: its provider, and its last request."""
    run = Run()
    run.agent.session.set_context_limit(1_000_000)
    for _ in range(20):
        run.turn(steps=2)
    return run.provider, run.send()


@pytest.mark.parametrize("at_once", [True, False])
def test_an_imported_history_counts_as_made_from_the_list_that_it_is_in(at_once: bool) -> None:
    provider, request = long_run()
    run = Run()
    run.provider = provider
    run.agent.session.set_context_limit(1_000_000)

    if at_once:
        run.agent.append(*request["messages"])
    else:
        for item in request["messages"]:
            run.agent.append(item)
    assert thoughts_of(run.send()) == thoughts_of(request)
    run.agent.answer(provider.answer(run.model.text()))
    run.agent.session.set_context_limit(8_000)
    run.turn()

    assert run.agent.session.collection_count
    assert run.refused == []


def test_an_imported_history_may_be_collected_before_its_first_request() -> None:
    provider, request = long_run()
    run = Run()
    run.provider = provider
    run.agent.append(*request["messages"])

    run.agent.session.manual_gc()
    run.turn()

    assert run.agent.session.collection_count
    assert run.refused == []


def test_thoughts_of_unknown_origin_are_left_out_after_a_collection() -> None:
    provider, request = long_run()
    alone = session("gc_truncate")
    for message in to_messages(request["messages"], "anthropic"):
        alone.append(message)
    alone.manual_gc()
    run = Run()
    run.provider = provider
    run.agent = ProviderSession("anthropic", alone, call=CALL)

    run.send()

    assert alone.collection_count
    assert run.refused == []


def test_one_request_that_is_collected_has_no_invalid_thought() -> None:
    provider, request = long_run()

    collected = collect(request, context_limit=8_000, strategy="gc_truncate").request

    assert len(collected["messages"]) < len(request["messages"])
    assert check_request(collected, "anthropic", before=request) == []
    assert provider.receive(collected) == []


def test_cache_marks_may_come_and_go() -> None:
    run = Run(system=[{"type": "text", "text": "Be brief."}])
    run.turn(steps=2)
    mark = {"cache_control": {"type": "ephemeral"}}

    run.agent.call["system"] = [{"type": "text", "text": "Be brief.", **mark}]
    run.agent.call["tools"] = [{**TOOL, **mark}]
    run.agent.append({"role": "user", "content": "Next."})

    assert len(thoughts_of(run.send())) >= 2
    assert run.refused == []


def test_an_answer_that_was_only_thoughts_leaves_a_valid_request() -> None:
    run = Run()
    run.agent.append({"role": "user", "content": "Begin."})
    run.send()
    run.agent.answer(run.provider.answer([run.model.thought()]))
    run.agent.append({"role": "user", "content": "Go on."})
    run.send()
    run.agent.append({"role": "system", "content": "It is late."})
    run.agent.answer(run.provider.answer([run.model.thought()]))
    run.agent.append({"role": "user", "content": "Go on."})
    run.agent.call["system"] = "Be very brief."

    request = run.send()

    assert run.refused == []
    assert [message["role"] for message in request["messages"]] == [
        "user", "user", "system", "assistant", "user"
    ]  # fmt: skip
    assert thoughts_of(request) == []


def test_a_model_that_does_not_bind_thoughts_gets_all_of_them() -> None:
    run = Run(model="claude-opus-4-5")
    run.turn_until_collected()
    run.agent.append({"role": "user", "content": "And now?"})

    sent = len(thoughts_of(run.agent.request()))
    kept = [
        part
        for message in run.agent.session.history
        for part in message.parts
        if part.thought is not None
    ]

    assert sent == len(kept) > 0
    assert not any("made from" in (each.extra or {}) for each in run.agent.session.history)
