"""Summaries as messages, with the facts that their text does not mention."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from jaato_gc.config import StrategySettings
from jaato_gc.deadline import LONGEST_WAIT
from jaato_gc.errors import GCConfigError, SummaryError
from jaato_gc.facts import extract_facts, extractive_summary, facts_within, is_mentioned
from jaato_gc.messages import Message, summary_message
from jaato_gc.summaries.summarizer import Summarizer, SummarizerFunction
from jaato_gc.tokens import TokenCounter, count_tokens

MAX_FACT_TOKENS = 300
"""The size of the paths, commands, numbers and identifiers that are kept beside a summary."""
FACTS_SHARE = 0.2
"""Facts never take more than this share of the summarized content."""
EXTRACT_SHARE = 0.25
"""A summary without a model never takes more than this share, except for a few lines."""
NO_SUMMARIZER = (
    "give one to GCSession(summarizer=…) or to the strategy, as its option 'summarizer'; "
    "with the option extractive=True, summaries are written without a model"
)
"""What to do about a missing summarizer."""
EXPECTED_SHARE = 0.1
"""The largest share of the target that is freed for a summary."""


class SummarySettings(StrategySettings):
    """The options of strategies that summarize."""

    summarizer: SummarizerFunction | None = None
    """Writes a summary of text, or of messages if its argument is named so. May be async.

    Without one, the strategy uses the summarizer of its session. A file names one
    that a plugin registered or the host gave.
    """
    extractive: bool = False
    """Write summaries without a model: lines that are selected from the content."""
    summarizer_input_tokens: PositiveInt = 32_000
    """The size of the summarizer's input; longer content is summarized part by part."""
    summarizer_timeout_seconds: Annotated[PositiveFloat, Field(le=LONGEST_WAIT)] | None = None
    """The time limit of one call of the summarizer."""
    on_summarizer_error: Literal["fail", "extract", "truncate"] = "fail"
    """Without a summary: change nothing, extract one without a model, or remove the turns."""
    summary_tokens: PositiveInt = 800
    """The expected size of a summary, at most a tenth of the target. That much more is removed."""
    max_summaries: PositiveInt = 5
    """If there are more summaries than this, all but the newest are folded into one."""

    @model_validator(mode="after")
    def _one_way_to_summarize(self) -> Self:
        if self.extractive and self.summarizer is not None:
            raise GCConfigError("there is a summarizer and extractive=True: keep one of them")
        return self

    @property
    def can_summarize(self) -> bool:
        """Whether a summary can be written: there is a summarizer, or none is needed."""
        return self.extractive or self.summarizer is not None

    def expected_size(self, target_tokens: int | None) -> int:
        """Returns the tokens to free for a summary, if the context is collected to a target."""
        if target_tokens is None:
            return self.summary_tokens
        return min(self.summary_tokens, int(target_tokens * EXPECTED_SHARE))

    def served_by(self, summarizer: SummarizerFunction | None) -> Self:
        """Returns these settings with the summarizer of a session."""
        return self.model_copy(update={"summarizer": summarizer})


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of some messages.

    Args:
        message: The message that replaces them.
        facts_found: The number of facts in the summarized messages.
        facts_kept: The number of those that the message still mentions.
        written_by: ``"summarizer"`` or ``"extract"``.
    """

    message: Message
    facts_found: int
    facts_kept: int
    written_by: str


@dataclass(frozen=True, slots=True)
class SummaryWriter:
    """Writes summaries.

    Args:
        settings: The options of the strategy.
        counter: Counts the tokens.
        present: The ids of synthetic messages in the history. A summary of the same messages gets
            another id if one of them is there already.

    Raises:
        GCConfigError: There is no summarizer, and ``extractive`` is off.
    """

    settings: SummarySettings
    counter: TokenCounter
    present: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.settings.can_summarize:
            raise GCConfigError(f"there is no summarizer: {NO_SUMMARIZER}")

    def write(self, turns: Sequence[Sequence[Message]]) -> Summary:
        """Returns a summary of some turns.

        Raises:
            SummaryError: The summarizer failed or returned no usable summary.
        """
        messages = [message for turn in turns for message in turn]
        text, written_by = self._text(turns, messages)
        facts = extract_facts(messages)
        missing = [fact for fact in facts if not is_mentioned(fact, text)]
        cap = min(MAX_FACT_TOKENS, int(count_tokens(messages, self.counter) * FACTS_SHARE))
        carried = facts_within(missing, cap, self.counter)
        ids = "\n".join([*self.present, *(message.message_id for message in messages)])
        digest = hashlib.sha256(ids.encode(errors="replace")).hexdigest()
        # Oldest first, so that the newest facts are the newest again when summaries are folded.
        message = summary_message(text, carried[::-1], f"summary-{digest[:16]}")
        kept = len(facts) - len(missing) + len(carried)
        return Summary(message, len(facts), kept, written_by)

    def _text(
        self, turns: Sequence[Sequence[Message]], messages: Sequence[Message]
    ) -> tuple[str, str]:
        settings = self.settings
        if settings.extractive or settings.summarizer is None:
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
        """Returns an extract whose size is in proportion to the content."""
        share = int(count_tokens(messages, self.counter) * EXTRACT_SHARE)
        most = min(self.settings.summary_tokens, share)
        return extractive_summary(messages, most, self.counter)
