"""How far counted tokens are from those that providers reported, by provider.

Recorded requests are counted as a whole, with their tools. Logs of agents do not say what the
system prompt and the tools were; but those are the same in every request of a conversation, so what
is compared there is by how much one request is longer than the one before it ("growth").

    counter     what counts the texts, and whose figures are taken for all else: core's alone, or
                the provider's, as jaato_gc_formats.counter_for gives them
    total       error of the sum of all figures
    half, 9/10  of the single figures: half, and nine in ten, are off by no more than this
    anchored    the same nine in ten, but of the whole request: what a session is off by that was
                told the usage of the request before

Growth is left out where a provider reported fewer tokens than before: the agent, or the provider,
had dropped something from the context.

    python benchmarks/provider_counts.py
    python benchmarks/provider_counts.py --markdown    # the table of the documentation
"""

import argparse
import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from transcripts import folder

from jaato_gc import EstimateCounter, Message, PluginRegistry, TiktokenCounter, TokenRanksError
from jaato_gc.plugin import TokenCounter, hookimpl
from jaato_gc_formats import (
    Conversation,
    FormatError,
    Record,
    counter_for,
    formats,
    iter_conversations,
)
from jaato_gc_formats._counting import request_tokens, tools_of

SOURCES = {
    "claude-code": "Claude Code",
    "pi": "pi",
    "gemini-cli": "Gemini CLI",
    "openhands": "OpenHands",
    "inspect": "Inspect",
    "litellm": "OpenHands SDK",
}
"""Logs whose figures can be compared. Those of Codex and Cline can't: see the documentation."""
WHOLE = ("litellm", "http-exchange")
"""Recordings that have all of each request."""
RECORDED = "recorded requests"
WHOLE_SOURCES = (RECORDED, SOURCES["litellm"])
MODELS = {
    "pi": "claude-sonnet-4-5",
    "claude-code": "claude",
    "gemini-cli": "gemini-2.5-flash",
    "openhands": "llama-4-maverick",
    "inspect": "gpt-4o-mini",
    "litellm": "claude-sonnet-4",
}
"""What was spoken to where the log does not keep it with the conversation."""


class Request(NamedTuple):
    """Something that a provider reported the tokens of."""

    provider: str
    source: str
    held_out: bool
    api: str
    model: str
    messages: list[Message]
    """The messages of the request, or those that it has more than the one before."""
    tools: list[Any]
    reported: int
    whole: int
    """Tokens of the whole request."""


# --- what is recorded ---


def requests(paths: Iterable[Path]) -> Iterator[Request]:
    """All that can be compared in some files."""
    logs: dict[str, int] = {}
    for path in sorted(paths):
        if "edge" in path.parts:  # made by hand, as are the figures in them
            continue
        if path.name.endswith(".exchange.json"):
            yield from _exchanges(path)
            continue
        try:
            conversations = list(iter_conversations(path))
        except FormatError:
            continue
        source = conversations[0].format
        if source not in SOURCES:
            continue
        logs[source] = logs.get(source, -1) + 1
        for conversation in conversations:
            if source in WHOLE:
                yield from _whole(conversation, SOURCES[source], MODELS[source])
            else:
                yield from _growth(conversation, held_out=bool(logs[source] % 2))


def _exchanges(path: Path) -> Iterator[Request]:
    recorded = json.loads(path.read_text())
    reader = formats()["http-exchange"]
    for number, exchange in enumerate(recorded, 1):
        for conversation in reader.conversations([Record(number, exchange)]):
            in_address = exchange["uri"].rpartition("/")[2].partition(":")[0]
            model = (conversation.messages.request or {}).get("model") or in_address
            yield from _whole(conversation, RECORDED, model)


def _whole(conversation: Conversation, source: str, model: str) -> Iterator[Request]:
    history = conversation.messages
    api, provider = history.format, _provider(history.format, model)
    for usage in conversation.usage:
        tokens, sent = usage.input_tokens, history[: usage.position]
        tools = tools_of(history.request)
        if not any(map(_runs_at_the_provider, tools)) and not _hides_something(sent):
            yield Request(provider, source, False, api, model, sent, tools, tokens, tokens)


def _runs_at_the_provider(tool: Any) -> bool:
    """Whether the provider runs a tool itself, and its own requests are in the figures."""
    return "tool_search" in str(tool.get("type"))


def _hides_something(messages: Iterable[Message]) -> bool:
    """Whether there is a sound or a document in them of which only the address was recorded."""
    attached = [part.inline_data for message in messages for part in message.parts]
    return any(
        data and data.data is None and not data.mime_type.startswith("image/") for data in attached
    )


def _growth(conversation: Conversation, *, held_out: bool) -> Iterator[Request]:
    source = conversation.format
    api, model = conversation.messages.format, MODELS[source]
    provider = _provider(api, model)
    for segment in conversation.segments():
        for before, after in pairwise(segment.usage):
            grown = after.input_tokens - before.input_tokens
            added = segment.messages[before.position : after.position]
            if source == "gemini-cli":
                added = [_without_thoughts(message) for message in added]
            if grown > 0:
                whole = after.input_tokens
                name = SOURCES[source]
                yield Request(provider, name, held_out, api, model, added, [], grown, whole)


def _without_thoughts(message: Message) -> Message:
    """Gemini CLI logs what it shows of thoughts, and does not send it."""
    return message.with_parts([part for part in message.parts if part.thought is None])


def _provider(api: str, model: str) -> str:
    name = counter_for(api, model, registry=counted_with("estimate")).name.rpartition("/")[2]
    return {"other": f"other ({model.partition('-')[0]})"}.get(name, name)


# --- counting ---


class _CountedWith:
    """A plugin that has texts counted by one counter, whatever the model."""

    def __init__(self, name: str) -> None:
        self._name = name

    @hookimpl
    def jaato_gc_token_counter(self, model: str | None) -> TokenCounter:
        if self._name == "estimate":
            return EstimateCounter()
        return TiktokenCounter(self._name, model=model or "unknown")


@cache
def counted_with(name: str) -> PluginRegistry:
    """A registry in which texts are counted by one counter."""
    registry = PluginRegistry(load_installed=False)
    registry.register(_CountedWith(name), "texts")
    return registry


class Counting:
    """A way to count: the texts with one counter, all else by core's figures or the provider's."""

    def __init__(self, texts: str, *, as_provider: bool) -> None:
        self.name = f"{texts}, {'provider' if as_provider else 'core'}"
        self._as_provider = as_provider
        self._registry = counted_with(texts)

    def count(self, request: Request) -> int:
        """Tokens of a request."""
        counter = (
            counter_for(request.api, request.model, registry=self._registry)
            if self._as_provider
            else self._registry.token_counter(request.model)
        )
        return request_tokens(request.messages, request.tools, counter)


def ways() -> list[Counting]:
    """The ways to count that this machine has what it takes for."""
    texts = ["estimate", "cl100k_base"]
    try:
        TiktokenCounter("cl100k_base")
    except TokenRanksError:
        del texts[1]
    return [Counting(name, as_provider=as_p) for name in texts for as_p in (False, True)]


# --- figures ---


@dataclass
class Row:
    """What was found for one provider, source and way to count."""

    provider: str
    source: str
    counter: str
    figures: int = 0
    reported: int = 0
    counted: int = 0
    errors: list[float] = field(default_factory=list)
    """Of the single figures, as shares of what was reported."""
    anchored: list[float] = field(default_factory=list)
    """The same, as shares of the whole request."""

    def add(self, request: Request, counted: int) -> None:
        """Compare one figure."""
        error = abs(counted - request.reported)
        self.figures += 1
        self.reported += request.reported
        self.counted += counted
        self.errors.append(error / request.reported)
        self.anchored.append(error / request.whole)

    def summary(self) -> dict[str, Any]:
        """The figures of the table."""
        nine_tenths = statistics.quantiles(self.errors, n=10, method="inclusive")[-1]
        anchored = statistics.quantiles(self.anchored, n=10, method="inclusive")[-1]
        return {
            "provider": self.provider,
            "source": self.source,
            "counter": self.counter,
            "figures": self.figures,
            "reported": self.reported,
            "counted": self.counted,
            "total_error": self.counted / self.reported - 1,
            "median_error": statistics.median(self.errors),
            "nine_tenths": nine_tenths,
            "worst": max(self.errors),
            "anchored": None if self.source in WHOLE_SOURCES else anchored,
        }


def measure(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The rows of the table."""
    counters = ways()
    rows: dict[tuple[str, str, str], Row] = {}
    for request in requests(paths):
        source = request.source
        if source == SOURCES["claude-code"]:
            source += ", held out" if request.held_out else ", fitted"
        for way in counters:
            key = (request.provider, source, way.name)
            rows.setdefault(key, Row(*key)).add(request, way.count(request))
    return [rows[key].summary() for key in sorted(rows, key=lambda key: key[:2])]


# --- the command ---

HEADS = (
    "provider", "source", "counter", "figures", "reported", "counted", "total", "half", "9/10",
    "worst", "anchored",
)  # fmt: skip


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table, as text."""
    shares = [row[name] for name in ("median_error", "nine_tenths", "worst", "anchored")]
    return [
        *(row[name] for name in ("provider", "source", "counter")),
        *(f"{row[name]:,}" for name in ("figures", "reported", "counted")),
        f"{row['total_error']:+.1%}",
        *("-" if share is None else f"{share:.1%}" for share in shares),
    ]


def print_table(rows: list[dict[str, Any]], *, markdown: bool) -> None:
    """Print all rows, for people or for the documentation."""
    table = [list(HEADS), *map(cells, rows)]
    if markdown:
        table.insert(1, [*["---"] * 3, *["--:"] * (len(HEADS) - 3)])
        for line in table:
            print(f"| {' | '.join(line)} |")
        return
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        left = [text.ljust(width) for text, width in zip(line[:3], widths[:3], strict=True)]
        right = [text.rjust(width) for text, width in zip(line[3:], widths[3:], strict=True)]
        print("  ".join(left + right))


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    if not folder().is_dir():
        print("there are no transcripts: set JAATO_GC_TRANSCRIPTS to a folder of them")
        return
    rows = measure(path for path in folder().rglob("*") if path.is_file())
    if wanted.json:
        print(json.dumps(rows, indent=1))
    else:
        print_table(rows, markdown=wanted.markdown)


if __name__ == "__main__":
    main()
