"""Loops around the real clients, streamed, with a strict provider behind a local server."""

import copy
import random
from collections.abc import Callable, Iterable
from typing import Any

import anthropic
import openai
from conversations import WIRES, plugin, session_options
from loopback import Loopback
from scripted_models import MODELS
from strict_provider.provider import count_marks

from jaato_gc import GCConfig, GCResult
from jaato_gc_formats import ProviderSession

WINDOW = 8_000
OUTPUT = "a line of a file, as long as any other\n"


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def anthropic_client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


Events = Callable[[Any, dict[str, Any]], Iterable[Any]]
CLIENTS: dict[str, tuple[Callable[[str], Any], Events]] = {
    "openai-chat": (
        openai_client,
        lambda client, call: client.chat.completions.create(
            **call, stream=True, stream_options={"include_usage": True}
        ),
    ),
    "openai-responses": (
        openai_client, lambda client, call: client.responses.create(**call, stream=True)
    ),
    "anthropic": (
        anthropic_client, lambda client, call: client.beta.messages.create(**call, stream=True)
    ),
}  # fmt: skip
"""How a client is created, and how it sends a request and returns the events."""


class Loop:
    """An agent that sends reminders and cache marks, and whose model says all that it can.

    Args:
        providers: The server.
        format: The format of the API.
        strategy: The name of a strategy.
        seed: Decides everything.
    """

    def __init__(self, providers: Loopback, format: str, strategy: str, seed: str) -> None:
        self.chance = random.Random(seed)
        self.format, self.wire = format, WIRES[format]
        self.providers = providers
        providers.window = WINDOW
        [self.api] = [api for api in providers.apis if api.format == format]
        self.api.strict.marks_given = 0
        self.model = MODELS[format](self.chance)
        self.api.speaker = self._speak
        self.said: Any = None
        create, self._events = CLIENTS[format]
        self._client = create(providers.url)
        self.agent = ProviderSession.open(
            format,
            context_limit=WINDOW,
            call=copy.deepcopy(self.wire.call),
            strategy=plugin(strategy),
            config=GCConfig(preserve_recent_turns=2),
            **session_options(strategy),
        )
        self._give(self.wire.call)

    def run(self, turns: int) -> None:
        """Takes so many turns, and closes the client."""
        with self._client:
            for number in range(turns):
                self._turn(number)

    @property
    def collections(self) -> list[GCResult]:
        """The collections that freed something."""
        return [each for each in self.agent.session.get_gc_history() if each.tokens_freed]

    def _speak(self, request: dict[str, Any]) -> Any:
        self.said = self.model.answer(request)
        return copy.deepcopy(self.said)

    def _turn(self, number: int) -> None:
        text = f"Question {number}: what do the files say?"
        self._append(self.wire.user(text, self.chance.random() < 0.3))
        while True:
            if self.wire.system and self.chance.random() < 0.4:
                self._remind(number)
            stream = self.agent.stream(self._events(self._client, self.agent.request()))
            for _event in stream:
                pass
            calls = self.wire.calls(self.said)
            if not calls and not self.wire.is_paused(self.said):
                return
            text = OUTPUT * self.chance.choice([1, 5, 20])
            self._append(*self.wire.results(calls, text))

    def _remind(self, number: int) -> None:
        newest = self.agent.session.history[-1]
        if self.wire.system and newest.role.value in ("user", "tool"):
            self._append(self.wire.system(f"Reminder {number}. " + "Be kind. " * 9))

    def _append(self, *items: Any) -> None:
        self.agent.append(*items)
        self._give(*items)

    def _give(self, *items: Any) -> None:
        strict = self.api.strict
        if strict.mark:
            strict.marks_given = (strict.marks_given or 0) + count_marks(list(items), strict.mark)
