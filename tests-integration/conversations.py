"""Random conversations with strict providers: whatever a session sends is accepted, or an error.

A host appends, edits, collects, undoes and restores at random, also items that a provider refuses.
"""

import copy
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from scripted_models import MODELS
from strict_provider import PROVIDERS
from strict_provider.provider import count_marks

from jaato_gc import (
    ContextFloorError,
    GCConfig,
    GCError,
    GCPlugin,
    InvalidHistoryError,
    Message,
    MessageError,
    PluginRegistry,
    StashError,
    discover_gc_plugins,
    extractive_summary,
)
from jaato_gc.plugin import FrameCosts, TokenCounter
from jaato_gc_formats import FormatError, ProviderSession, counter_for
from jaato_gc_testing import MemoryStash

Fields = dict[str, Any]
Result = TypeVar("Result")
STRATEGIES = sorted(discover_gc_plugins())
OUTPUT = "a line of a file, as long as any other\n"
MARK = {"type": "ephemeral"}
TOOL = {"name": "read_file", "description": "Reads a file."}


@dataclass(frozen=True)
class Wire:
    """How a host speaks with one API.

    Args:
        call: The arguments of the client's call without the messages.
        user: Returns the item of a user message, with a cache mark if it is to have one.
        system: Returns the item of a system message in the middle; ``None``: the API has none.
        calls: Returns the ids or names of the calls that an answer waits for.
        results: Returns the items with the results of calls.
        response: Returns the response of a client, with the tokens of the request.
        broken: Items that the API refuses, that are out of place anywhere, or that may be there
            only once: items, or lists of items that are appended together.
    """

    call: Fields
    user: Callable[[str, bool], Fields]
    system: Callable[[str], Fields] | None
    calls: Callable[[Any], list[str]]
    results: Callable[[list[str], str], list[Fields]]
    response: Callable[[Any, int], Fields]
    broken: list[Any]

    def is_paused(self, said: Any) -> bool:
        """Returns whether the API stopped while a tool of its own runs."""
        return isinstance(said, list) and said[-1]["type"] == "server_tool_use"


def _block(kind: str, text: str, field: str, marked: bool) -> Fields:
    return {"type": kind, "text": text, **({field: MARK} if marked else {})}


CHAT_CALL: Fields = {
    "role": "assistant", "content": None,
    "tool_calls": [{"id": "twice", "type": "function",
                    "function": {"name": "read_file", "arguments": "{}"}}],
}  # fmt: skip
RESPONSES_CALL = {
    "type": "function_call", "id": "fc_x", "call_id": "twice", "name": "read_file",
    "arguments": "{}",
}  # fmt: skip
ANTHROPIC_CALL = {"type": "tool_use", "id": "twice", "name": "read_file", "input": {}}
WIRES = {
    "openai-chat": Wire(
        {"model": "gpt-5.4", "tools": [{"type": "function", "function": TOOL}]},
        lambda text, marked: {
            "role": "user",
            "content": [_block("text", text, "prompt_cache_breakpoint", marked)],
        },
        lambda text: {"role": "developer", "content": text},
        lambda said: [call["id"] for call in said.get("tool_calls", [])],
        lambda calls, text: [
            {"role": "tool", "tool_call_id": call, "content": text} for call in calls
        ],
        lambda said, tokens: {
            "choices": [{"message": said, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 9},
        },
        [
            [{**CHAT_CALL, "tool_calls": CHAT_CALL["tool_calls"] * 2},
             *[{"role": "tool", "tool_call_id": "twice", "content": "x"}] * 2],
            CHAT_CALL, {"role": "tool", "tool_call_id": "twice", "content": "x"},
            {"role": "tool", "tool_call_id": "unknown", "content": "x"},
            {"role": "usr", "content": "x"}, {"content": "x"}, {"role": "user", "content": 5},
            {"role": "user", "content": None}, {"role": "assistant", "content": None},
            {"role": "user", "content": [{"type": "tool_use", "id": "x"}]},
            {"role": "assistant", "content": "x", "tool_calls": []}, 5, None,
            {"role": "user", "content": ""}, {"role": "assistant", "content": "Before."},
            {"role": "user", "content": []}, {"role": "tool", "content": "x"},
        ],
    ),
    "openai-responses": Wire(
        {"model": "gpt-5.4", "store": False, "instructions": "Be brief.",
         "tools": [{"type": "function", **TOOL}]},
        lambda text, marked: {
            "role": "user",
            "content": [_block("input_text", text, "prompt_cache_breakpoint", marked)],
        },
        lambda text: {"role": "developer", "content": text},
        lambda said: [item["call_id"] for item in said if item["type"] == "function_call"],
        lambda calls, text: [
            {"type": "function_call_output", "call_id": call, "output": text} for call in calls
        ],
        lambda said, tokens: {
            "output": said, "status": "completed",
            "usage": {"input_tokens": tokens, "output_tokens": 9},
        },
        [
            [RESPONSES_CALL, {"type": "function_call_output", "call_id": "twice", "output": "x"}],
            [RESPONSES_CALL, {"type": "function_call_output", "call_id": "twice", "output": "x"}],
            RESPONSES_CALL, {"type": "function_call_output", "call_id": "twice", "output": "x"},
            {"type": "function_call_output", "call_id": "unknown", "output": "x"},
            {"role": "usr", "content": "x"}, {"content": "x"}, {"role": "user", "content": 5},
            {"role": "user", "content": None}, {"type": "tool_use", "id": "x"},
            {**RESPONSES_CALL, "id": "call_1"}, {**RESPONSES_CALL, "call_id": "x" * 65},
            {"type": "reasoning", "id": "rs_alone", "summary": []}, 5, None,
            {"type": "program_output", "id": "prg_x", "call_id": "unknown", "result": "x"},
            {"role": "user", "content": [{"type": "output_text", "text": "x"}]},
            {"type": "message", "role": "assistant", "id": "msg_x", "content": "Before."},
        ],
    ),
    "anthropic": Wire(
        {"model": "claude-opus-5-5", "max_tokens": 500, "tools": [{**TOOL, "input_schema": {}}],
         "system": [_block("text", "Be brief.", "cache_control", True)]},
        lambda text, marked: {
            "role": "user", "content": [_block("text", text, "cache_control", marked)]
        },
        lambda text: {"role": "system", "content": text},
        lambda said: [block["id"] for block in said if block["type"] == "tool_use"],
        lambda calls, text: [
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call, "content": text} for call in calls
                ],
            }
        ] if calls else [],
        lambda said, tokens: {
            "type": "message", "role": "assistant", "content": said, "stop_reason": "end_turn",
            "usage": {"input_tokens": tokens, "output_tokens": 9},
        },
        [
            [{"role": "assistant", "content": [ANTHROPIC_CALL]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "twice"}]}],
            [{"role": "assistant", "content": [ANTHROPIC_CALL]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "twice"}]}],
            {"role": "assistant", "content": [ANTHROPIC_CALL]},
            {"role": "assistant", "content": [{**ANTHROPIC_CALL, "id": "a.b"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "twice"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "unknown"}]},
            {"role": "usr", "content": "x"}, {"content": "x"}, {"role": "user", "content": 5},
            {"role": "user", "content": []}, {"role": "user", "content": " "}, 5, None,
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]},
            {"role": "assistant", "content": "Before. "},
            {"role": "assistant", "content": [
                {"type": "server_tool_use", "id": "srvtoolu_x", "name": "web_search", "input": {}}
            ]},
            {"role": "assistant", "content": [
                {"type": "web_search_tool_result", "tool_use_id": "unknown", "content": []}
            ]},
            {"role": "assistant", "content": [{**ANTHROPIC_CALL, "id": "by_code", "caller": {
                "type": "code_execution_20250825", "tool_id": "unknown"
            }}]},
            {"role": "system", "content": "Out of place."},
        ],
    ),
    "gemini": Wire(
        {"model": "gemini-3-pro"},
        lambda text, _marked: {"role": "user", "parts": [{"text": text}]},
        None,
        lambda said: [
            part["functionCall"]["name"] for part in said["parts"] if "functionCall" in part
        ],
        lambda calls, text: [
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": name, "response": {"output": text}}}
                    for name in calls
                ],
            }
        ] if calls else [],
        lambda said, tokens: {
            "candidates": [{"content": said, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 9},
        },
        [
            [{"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {}}}]},
             {"role": "user",
              "parts": [{"functionResponse": {"name": "read_file", "response": {}}}]}],
            {"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {}}}]},
            {"role": "usr", "parts": [{"text": "x"}]}, {"role": "user", "parts": 5},
            {"role": "user", "parts": []}, {"role": "user", "content": "x"}, 5, None,
            {"role": "user", "parts": [{"functionCall": {"name": "x", "args": {}}}]},
            {"role": "model", "parts": [{"functionResponse": {"name": "x", "response": {}}}]},
            {"role": "model", "parts": [{"text": "Before."}]}, {"role": "user", "parts": [{}]},
        ],
    ),
}  # fmt: skip


def plugin(strategy: str) -> GCPlugin:
    """Returns a strategy that calls no model."""
    options = {"extractive": True} if strategy == "gc_summarize" else {}
    return PluginRegistry().create(strategy, options)


def session_options(strategy: str) -> Fields:
    """Returns the options of a session that calls no model."""
    return {"summarizer": extractive_summary if strategy == "gc_hybrid" else None}


class FlakyCounter:
    """A token counter that returns nonsense now and then."""

    def __init__(self, counter: TokenCounter, chance: random.Random) -> None:
        self.name, self.confidence = counter.name, counter.confidence
        self.tolerance = counter.tolerance
        self.costs = getattr(counter, "costs", FrameCosts())
        self.fails = 0.0
        self._counter, self._chance = counter, chance

    def count_text(self, text: str) -> Any:
        """Returns the tokens of a text, or no number of tokens."""
        if self._chance.random() < self.fails:
            return self._chance.choice([2.5, math.nan, math.inf, None, -1, "7", True])
        return self._counter.count_text(text)


class Conversation:
    """A host, its session, and a strict provider.

    Args:
        format: The format of the API.
        seed: Decides everything.
    """

    def __init__(self, format: str, seed: str) -> None:
        chance = self.chance = random.Random(seed)
        self.format, self.wire = format, WIRES[format]
        self.provider = PROVIDERS[format](marks_given=0)
        self.model = MODELS[format](chance)
        self.strategy = chance.choice(STRATEGIES)
        self.repairs = chance.random() < 0.4
        self.breaks = chance.choice([0.0, 0.0, 0.1, 0.5])
        """How often the host appends what a provider refuses."""
        self.lies = chance.choice([0.0, 0.0, 0.1])
        """How often the provider reports a false usage."""
        self.counter = FlakyCounter(counter_for(format, self.wire.call["model"]), chance)
        self.miscounts = chance.choice([0.0, 0.0, 0.0, 0.01])
        """How often the counter fails."""
        self.reports = [0]
        """The usage that the provider reported."""
        self.stash = MemoryStash() if chance.random() < 0.5 else None
        self.config = GCConfig(
            preserve_recent_turns=chance.randint(0, 3), preserve_recent_groups=chance.randint(0, 3)
        )
        self.requests = 0
        self.errors: Counter[str] = Counter()
        self._past = 0
        self.findings: list[str] = []
        self.trusted = ""
        """The last saved state from which a request could be made."""
        self._begin()
        self._give(self.wire.call)

    def _begin(self) -> None:
        self.counter.fails = 0.0
        self.agent = ProviderSession.open(
            self.format,
            context_limit=self.chance.choice([4_000, 6_000, 9_000]),
            call=copy.deepcopy(self.wire.call),
            strategy=plugin(self.strategy),
            config=self.config,
            **self._options(),
        )
        self.counter.fails = self.miscounts

    @property
    def collections(self) -> int:
        """The number of collections, also of restored sessions."""
        return self._past + self.agent.session.collection_count

    def _options(self) -> Fields:
        return {
            "counter": self.counter, "stash": self.stash, "repair": self.repairs,
            **session_options(self.strategy),
        }  # fmt: skip

    def run(self, requests: int) -> None:
        """Talks until so many requests were made."""
        while self.requests < requests and not self.findings:
            self.turn()
            for _ in range(self.chance.choice([0, 0, 1, 3])):
                self.edit()

    def turn(self) -> None:
        """A question, and the steps of the agent until it has answered."""
        text = f"Question {self.requests}: " + "what do the files say? " * 9
        self._append(self.wire.user(text, self.chance.random() < 0.3))
        for _ in range(40):
            self._remind()
            if self.chance.random() < self.breaks:
                broken = copy.deepcopy(self.chance.choice(self.wire.broken))
                self._append(*(broken if isinstance(broken, list) else [broken]))
            if (request := self.request()) is None:
                return
            said = self.model.answer(request)
            self.provider.answered(copy.deepcopy(said))
            response = self.wire.response(said, self._tokens(request))
            # A collection after the turn can't take back the answer, whatever it raises.
            self.counter.fails = 0.0
            self.agent.answer(response)
            self.counter.fails = self.miscounts
            if self.chance.random() < self.lies and (late := self.chance.choice(self.reports)):
                self.agent.session.report_usage(late)
            calls = self.wire.calls(said)
            if not calls and not self.wire.is_paused(said):
                return
            if calls and self.chance.random() < 0.02:
                return  # the host was stopped, and the calls stay open
            if self.chance.random() < 0.05:
                self.edit()
            text = OUTPUT * self.chance.choice([1, 10, 10, 40])
            apart = self.chance.random() < 0.3 and self.format != "gemini"
            for some in [[call] for call in calls] if apart else [calls]:
                self._append(*self.wire.results(some, text))

    def _remind(self) -> None:
        if self.wire.system and self.chance.random() < 0.3:
            newest = self.agent.session.history[-1:]
            if newest and newest[0].role.value in ("user", "tool"):
                self._append(self.wire.system(f"Reminder {self.requests}. " + "Be kind. " * 9))

    def _append(self, *items: Any) -> None:
        before = self.agent.session.save()
        try:
            self._persist(partial(self.agent.append, *items))
            self._give(*items)
        except (FormatError, MessageError) as error:
            self._raised(error, before)

    def _give(self, *items: Any) -> None:
        provider = self.provider
        if provider.mark:
            given = count_marks(list(items), provider.mark)
            provider.marks_given = (provider.marks_given or 0) + given

    def _tokens(self, request: Fields) -> int:
        tokens = len(json.dumps(request)) // 4
        self.reports.append(tokens)
        if self.chance.random() < self.lies:
            return self.chance.choice([0, 1, tokens // 3, 3 * tokens, 100_000])
        return tokens

    # --- requests ---

    def request(self) -> Fields | None:
        """Makes a request and holds it against the provider; ``None`` if there is none."""
        before = self.agent.session.save()
        try:
            request = self._persist(self.agent.request)
        except (InvalidHistoryError, ContextFloorError, StashError) as error:
            self._raised(error, before)
            self._give_up()
            return None
        self.requests += 1
        request = copy.deepcopy(request)
        for fault in self.provider.receive(request):
            self.findings.append(f"request {self.requests}: {fault}")
        if not self.findings:
            self.trusted = self.agent.session.save()
        return request

    def _persist(self, call: Callable[[], Result]) -> Result:
        """Calls until the counter counts. Each failure changes nothing."""
        while True:
            before = self.agent.session.save()
            try:
                return call()
            except GCError as error:
                if type(error) is not GCError or "token counter" not in str(error):
                    raise
                self._raised(error, before)

    def _raised(self, error: Exception, before: str) -> None:
        self.errors[type(error).__name__] += 1
        if _state(self.agent.session.save()) != _state(before):
            self.findings.append(f"{type(error).__name__} changed the session: {error}")

    def _give_up(self) -> None:
        """Goes on from a state that could be sent, or from the start."""
        if self.trusted and self.chance.random() < 0.8:
            self.restore(self.trusted)
        else:
            self._begin()

    # --- what a host does between requests ---

    def edit(self) -> None:
        """Does what a host may do at any time."""
        session, chance = self.agent.session, self.chance
        if not session.history:
            return
        message: Message = chance.choice(session.history)
        before = session.save()
        try:
            match chance.randrange(9):
                case 0 | 1:
                    session.manual_gc(target_percent=chance.choice([0.0, 30.0, 50.0]))
                case 2:
                    session.remove(message.message_id)
                case 3 | 4:
                    session.undo()
                case 5:
                    session.pin(message.message_id)
                case 6:
                    for message_id in list(session.budget.pinned_message_ids):
                        session.unpin(message_id)
                case 7:
                    self.restore(session.save())
                case 8:
                    self._restore_removed()
        except GCError as error:  # each names what is in the way
            self._raised(error, before)

    def restore(self, saved: str) -> None:
        """Goes on with a saved session, in another process, say."""
        self.counter.fails = 0.0
        self._past += self.agent.session.collection_count
        self.agent = ProviderSession.restore(
            self.format,
            saved,
            call=copy.deepcopy(self.wire.call),
            strategy=plugin(self.strategy),
            **self._options(),
        )
        self.counter.fails = self.miscounts

    def _restore_removed(self) -> None:
        session = self.agent.session
        items = [item for result in session.get_gc_history() for item in result.removal_list]
        keys = [key for item in items for key in item.stash_keys]
        if keys and self.stash:
            session.restore_stashed([self.chance.choice(keys)])


def _state(saved: str) -> Fields:
    """Returns what a saved session says, without the number of the last plan."""
    # A collection that fails was planned, and the host was told that usage crossed the threshold.
    return {**json.loads(saved), "plans_made": None, "threshold_told": None}


def talk(format: str, seed: str, requests: int) -> Conversation:
    """Returns a conversation after so many requests. A finding names what went wrong."""
    conversation = Conversation(format, seed)
    try:
        conversation.run(requests)
    except GCError as error:
        conversation.findings.append(f"{type(error).__name__}: {error}")
    return conversation
