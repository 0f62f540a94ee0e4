"""A minimal host: a fake model that is as strict as a real provider, and an empty strategy."""

import random
from dataclasses import dataclass, field

from jaato_gc import (
    ContextLimitError,
    EstimateCounter,
    FunctionCall,
    InvalidHistoryError,
    Message,
    Part,
    Role,
    UsageReport,
    check_history,
    count_tokens,
)
from jaato_gc.plugin import Collection, GCStrategy, StrategySettings, TokenCounter


class NoGCPlugin(GCStrategy[StrategySettings]):
    """A strategy that removes nothing. Port a host with it first."""

    name = "gc_none"

    def select(self, collection: Collection) -> None:
        """Removes nothing."""


@dataclass
class DummyModel:
    """A fake provider: answers random words, and refuses the requests that a real one refuses.

    Give it to a `GCSession` as ``provider``, and its `run_tool` as ``tools``. The same seed
    gives the same conversation.

    Args:
        context_limit: Longer requests are refused with `ContextLimitError`.
        tool_rounds: The maximum number of rounds of tool calls before an answer.
        result_words: The maximum length of a tool result, in words.
        hidden_tokens: Tokens that the provider adds to every request, such as its own prompt.
        counter: Counts the tokens.
        seed: The seed of the random numbers.
        requests: The number of requests answered so far.
        refusals: The number of requests refused as too long so far.
        largest_request: The tokens of the largest request answered so far.
    """

    context_limit: int
    tool_rounds: int = 2
    result_words: int = 200
    hidden_tokens: int = 0
    counter: TokenCounter = field(default_factory=EstimateCounter)
    seed: int = 0
    requests: int = 0
    refusals: int = 0
    largest_request: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._rounds = 0
        self._calls = 0

    def __call__(self, request: list[Message]) -> tuple[Message, UsageReport]:
        tokens = count_tokens(request, self.counter) + self.hidden_tokens
        if faults := check_history(request):
            raise InvalidHistoryError(f"a provider would refuse this request: {faults[0]}", faults)
        if tokens > self.context_limit:
            self.refusals += 1
            raise ContextLimitError(f"{tokens} tokens exceed the window of {self.context_limit}")
        self.requests += 1
        self.largest_request = max(self.largest_request, tokens)
        if self._rounds < self._random.randint(0, self.tool_rounds):
            self._rounds += 1
            answer = Message(Role.MODEL, [Part(text="Let me look."), *self._some_calls()])
        else:
            self._rounds = 0
            answer = Message.from_text(Role.MODEL, self._words(60))
        return answer, UsageReport(tokens, count_tokens([answer], self.counter))

    def run_tool(self, call: FunctionCall) -> str:
        """Returns a random text as the result of a tool call."""
        return f"{call.name}: {self._words(self.result_words)}"

    def _some_calls(self) -> list[Part]:
        calls = []
        for _ in range(self._random.randint(1, 3)):
            self._calls += 1
            # Ids repeat, as with some providers.
            call_id = f"call_{self._calls % 11}"
            calls.append(Part(function_call=FunctionCall(call_id, "look", {"at": self._calls})))
        return calls

    def _words(self, most: int) -> str:
        words = ("the", "file", "holds", "nothing", "of", "interest", "today", "so", "far")
        return " ".join(self._random.choices(words, k=self._random.randint(1, most)))
