"""The smallest host there is: a pretend model that is as strict as a real provider."""

import random
from dataclasses import dataclass, field

from jaato_gc import (
    ContextLimitError,
    ContextUsage,
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCResult,
    GCStrategy,
    GCTriggerReason,
    InstructionBudget,
    InvalidHistoryError,
    Message,
    Part,
    Role,
    StrategySettings,
    TokenCounter,
    UsageReport,
    check_history,
    count_tokens,
)


class NoGCPlugin(GCStrategy[StrategySettings]):
    """A strategy that never removes anything: the first one to port a host against."""

    name = "gc_none"

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        return self.begin(history, context_usage, config, reason, budget).finish()


@dataclass
class DummyModel:
    """A provider that answers nonsense but refuses what a real one would refuse.

    Give it to a `GCSession` as ``provider``, and its `run_tool` as ``tools``. The same seed
    gives the same conversation.

    Args:
        context_limit: Longer requests are refused with `ContextLimitError`.
        tool_rounds: How many rounds of tool calls come before an answer, at most.
        result_words: How long a tool's result is, in words, at most.
        hidden_tokens: What the provider adds to every request (its own prompt), unseen by the host.
        counter: What it counts tokens with.
        seed: Where its randomness starts.
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
            raise InvalidHistoryError(f"a provider would refuse this: {faults[0]}", faults)
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
        """Answer a tool call with some text."""
        return f"{call.name}: {self._words(self.result_words)}"

    def _some_calls(self) -> list[Part]:
        calls = []
        for _ in range(self._random.randint(1, 3)):
            self._calls += 1
            # Ids come round again, as some providers' do.
            call_id = f"call_{self._calls % 11}"
            calls.append(Part(function_call=FunctionCall(call_id, "look", {"at": self._calls})))
        return calls

    def _words(self, most: int) -> str:
        words = ("the", "file", "holds", "nothing", "of", "interest", "today", "so", "far")
        return " ".join(self._random.choices(words, k=self._random.randint(1, most)))
