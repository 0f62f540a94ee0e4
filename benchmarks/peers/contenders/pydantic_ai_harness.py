"""pydantic-ai-harness: `SlidingWindowCompaction`."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from contender import TARGET, TRIGGER, WINDOW, Contender, Counts, Outcome, Run
from histories import Plain
from pydantic_ai import RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage, RunUsage
from pydantic_ai_harness.compaction import (
    SlidingWindowCompaction,
    compact_now,
    estimate_context_tokens,
)

from contenders.shared import Provider, complete, count_tokens


class PydanticAIHarness:
    """The messages of a run, which the capability checks before a request."""

    name = "pydantic-ai-harness SlidingWindowCompaction"
    distributions: Sequence[str] = ("pydantic-ai-harness", "pydantic-ai-slim")
    statement = "from pydantic_ai_harness.compaction import SlidingWindowCompaction"
    counts: Counts = "tokens"
    names_removed = False
    remark = "keeps the first request; uses the provider's counts"
    tokenizer: Callable[[str], int] | None = staticmethod(count_tokens)
    """Counts the messages that the provider has not counted."""

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """The target is the same share of the history, in tokens as the library counts them.

        Warm are answers that say what the provider counted: nothing else is remembered.
        """
        messages = _answered(history) if warm else self.bare(history)
        model = TestModel()
        share = target / sum(plain.tokens for plain in history)
        own_target = int(share * estimate_context_tokens(messages, self.tokenizer))
        strategy = SlidingWindowCompaction[None](
            max_tokens=own_target, keep_tokens=own_target, tokenizer=self.tokenizer
        )

        def run() -> tuple[list[ModelMessage], int]:
            left = complete(compact_now(strategy, messages, model=model, tokenizer=self.tokenizer))
            return left, int(len(left) < len(messages))

        return run

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """The hook that an agent calls before a request; answers have the provider's count."""
        provider = Provider(turns)
        model = TestModel()

        async def run() -> tuple[list[ModelMessage], int]:
            strategy = SlidingWindowCompaction[None](
                max_tokens=int(TRIGGER * WINDOW),
                keep_tokens=int(TARGET * WINDOW),
                tokenizer=self.tokenizer,
            )
            messages: list[ModelMessage] = []
            context = RunContext[None](deps=None, model=model, usage=RunUsage(), messages=messages)
            collections = seen = 0
            for request, *rest in turns:
                messages.append(_message(request))
                before = len(messages)
                await strategy.before_model_request(
                    context,
                    ModelRequestContext(
                        model=model,
                        messages=messages,
                        model_settings=None,
                        model_request_parameters=ModelRequestParameters(),
                    ),
                )
                collections += len(messages) < before
                seen += 1
                for plain in rest:
                    sent = provider.tokens(seen, len(messages))
                    messages.append(_message(plain, sent))
                    seen += 1
            return messages, collections

        return lambda: complete(run())

    def outcome(self, returned: Any) -> Outcome:
        """Returns the texts that are left."""
        messages, collections = returned
        parts = chain.from_iterable(message.parts for message in messages)
        texts = [part.content for part in parts if not isinstance(part, ToolCallPart)]
        return Outcome(texts, collections)

    def hold(self, history: Sequence[Plain]) -> list[ModelMessage]:
        """Returns the messages: a history is a list of them."""
        return self.bare(history)

    def bare(self, history: Sequence[Plain]) -> list[ModelMessage]:
        """Returns the messages alone. The system prompt is a part of the first request."""
        system, first, *rest = history
        prompts = ModelRequest([SystemPromptPart(system.text), UserPromptPart(first.text)])
        return [prompts, *(_message(plain) for plain in rest)]


def _answered(history: Sequence[Plain]) -> list[ModelMessage]:
    provider = Provider([history])
    system, first, *rest = history
    messages: list[ModelMessage] = [
        ModelRequest([SystemPromptPart(system.text), UserPromptPart(first.text)])
    ]
    for seen, plain in enumerate(rest, 2):
        messages.append(_message(plain, provider.tokens(seen, seen)))
    return messages


def _message(plain: Plain, sent: int = 0) -> ModelMessage:
    if plain.role == "tool":
        result = ToolReturnPart(plain.call or "", plain.text, plain.call_id or "")
        return ModelRequest([result])
    if plain.role == "user":
        return ModelRequest([UserPromptPart(plain.text)])
    usage = RequestUsage(input_tokens=sent, output_tokens=plain.tokens if sent else 0)
    parts: list[TextPart | ToolCallPart] = [TextPart(plain.text)]
    if plain.call is not None:
        parts.append(ToolCallPart(plain.call, dict(plain.arguments or {}), plain.call_id or ""))
    return ModelResponse(parts, usage=usage)


def make() -> Contender:
    """Returns the contender."""
    return PydanticAIHarness()
