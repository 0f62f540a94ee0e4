"""Summaries as messages: written under contract, with the facts that prose loses."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from jaato_gc._errors import SummaryError
from jaato_gc._extractive import extractive_summary
from jaato_gc._facts import extract_facts, facts_within, is_mentioned
from jaato_gc._messages import Message
from jaato_gc._strategy import StrategySettings
from jaato_gc._summarizer import Summarizer, SummarizerFunction
from jaato_gc._synthetic import summary_message
from jaato_gc._tokens import TokenCounter, count_tokens

FACTS_SHARE = 0.2
"""Facts never take more than this share of what is summarized."""
EXTRACT_SHARE = 0.25
"""Nor does a summary without a model, but for a few lines."""

SUMMARIES_SHARE = 0.25
"""Summaries together never take more than this share of the target."""


class SummarySettings(StrategySettings):
    """The options of strategies that summarize."""

    summarizer: SummarizerFunction | None = None
    """Writes summaries: of text, or of messages if its argument is called so; may be async."""
    summarizer_input_tokens: PositiveInt = 32_000
    """How much the summarizer can be shown at once; more is summarized part by part."""
    summarizer_timeout_seconds: PositiveFloat | None = None
    """How long one call of the summarizer may take."""
    on_summarizer_error: Literal["fail", "extract", "truncate"] = "fail"
    """When there is no summary: change nothing, extract one without a model, or do without."""
    summary_tokens: PositiveInt = 800
    """How long a summary is expected to be: so much more is removed to make room for it."""
    max_fact_tokens: NonNegativeInt = 300
    """How much of paths, commands, numbers and identifiers is carried beside a summary."""
    max_summaries: PositiveInt = 5
    """More summaries than this are folded, the oldest first."""
    max_summaries_tokens: PositiveInt = 6_000
    """Summaries longer than this together are folded, the oldest first.

    In a small window, so are those that take more than a quarter of the target.
    """


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary that is ready to stand for what it summarizes.

    Args:
        message: The message that does.
        facts_found: Durable facts in what was summarized.
        facts_kept: Those of them that the message still names.
        written_by: ``"summarizer"`` or ``"extract"``.
    """

    message: Message
    facts_found: int
    facts_kept: int
    written_by: str


@dataclass(frozen=True, slots=True)
class SummaryWriter:
    """Writes summaries as the settings say."""

    settings: SummarySettings
    counter: TokenCounter

    def write(self, turns: Sequence[Sequence[Message]]) -> Summary:
        """A summary of some turns.

        Raises:
            SummaryError: There is none.
        """
        messages = [message for turn in turns for message in turn]
        text, written_by = self._text(turns, messages)
        facts = extract_facts(messages)
        missing = [fact for fact in facts if not is_mentioned(fact, text)]
        cap = min(
            self.settings.max_fact_tokens, int(count_tokens(messages, self.counter) * FACTS_SHARE)
        )
        carried = facts_within(missing, cap, self.counter)
        ids = "\n".join(message.message_id for message in messages)
        digest = hashlib.sha256(ids.encode(errors="replace")).hexdigest()
        # In the order in which they came up, so that the latest are the latest again when folded.
        message = summary_message(text, carried[::-1], f"summary-{digest[:16]}")
        kept = len(facts) - len(missing) + len(carried)
        return Summary(message, len(facts), kept, written_by)

    def _text(
        self, turns: Sequence[Sequence[Message]], messages: Sequence[Message]
    ) -> tuple[str, str]:
        settings = self.settings
        if settings.summarizer is None:
            return self._extract(messages), "extract"
        summarizer = Summarizer(
            settings.summarizer,
            settings.summarizer_input_tokens,
            settings.summarizer_timeout_seconds,
            self.counter,
        )
        try:
            return summarizer.summarize(turns), "summarizer"
        except SummaryError:
            if settings.on_summarizer_error != "extract":
                raise
            return self._extract(messages), "extract"

    def _extract(self, messages: Sequence[Message]) -> str:
        """An extract that is worth its place: of many short messages, not each is quoted."""
        share = int(count_tokens(messages, self.counter) * EXTRACT_SHARE)
        most = min(self.settings.summary_tokens, share)
        return extractive_summary(messages, most, self.counter)
