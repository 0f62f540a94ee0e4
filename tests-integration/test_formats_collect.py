"""Collecting histories in the shape of their provider: what comes out is what its API accepts.

Recorded runs are read where they lie: in the folder that the environment variable
JAATO_GC_TRANSCRIPTS names, or beside the repository. Set JAATO_GC_ALL_TRANSCRIPTS to collect all of
them rather than a sample.
"""

import copy
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import (
    EstimateCounter,
    GCConfig,
    GCOutcome,
    GCPluginError,
    PluginRegistry,
    discover_gc_plugins,
    extractive_summary,
)
from jaato_gc.plugin import FormatInfo, hookimpl
from jaato_gc_formats import (
    Conversation,
    FormatError,
    History,
    check_request,
    collect,
    detect,
    from_messages,
    load,
    to_messages,
)

STRATEGIES = sorted(discover_gc_plugins())
WINDOWS = [8_000, 32_000]
COUNTER = EstimateCounter()
ALL = bool(os.environ.get("JAATO_GC_ALL_TRANSCRIPTS"))
PER_FILE = 3
"""The maximum number of dialogues from one file in the sample."""


def folder() -> Path:
    beside = Path(__file__).parents[2] / "shared" / "transcripts"
    return Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or beside)


@cache
def recorded() -> list[tuple[str, Conversation]]:
    """Returns the conversations that are long enough to collect, or a sample of them."""
    return [
        (f"{path.name}#{number}", conversation)
        for path in chosen_files()
        for number, conversation in enumerate(conversations(path))
        if ALL or number < PER_FILE
    ]


def chosen_files() -> Iterator[Path]:
    by_folder: dict[Path, list[Path]] = {}
    for path in sorted(folder().rglob("*")):
        if path.is_file():
            by_folder.setdefault(path.parent, []).append(path)
    for paths in by_folder.values():
        paths.sort(key=lambda path: -path.stat().st_size)
        yield from paths if ALL else paths[::4]


def conversations(path: Path) -> list[Conversation]:
    try:
        return load(path, repair=True)
    except FormatError:  # test_formats_on_transcripts lists the files without a conversation
        return []


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_recorded_runs_are_collected_to_what_their_provider_accepts(
    strategy: str, window: int
) -> None:
    if not recorded():
        pytest.skip(f"no recorded runs at {folder()}: set JAATO_GC_TRANSCRIPTS")
    collected = 0
    for name, conversation in recorded():
        history = conversation.messages
        before = from_messages(history)
        assert check_request(before, history.format) == [], name

        after, result = collect(
            history,
            context_limit=window,
            strategy=strategy,
            counter=COUNTER,
            summarizer=extractive_summary,
        )

        assert result.success, (name, result.error)
        assert check_request(after, history.format, before=before) == [], name
        assert from_messages(history) == before, name
        collected += result.tokens_freed > 0
    assert collected > 5


# --- one call ---

QUESTION = "Which files are there, and what do they say? " * 20


def long_run(turns: int = 12) -> list[dict[str, Any]]:
    """Returns a run in OpenAI's format that does not fit into a small window."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are careful."}]
    for turn in range(turns):
        call = {
            "id": f"call_{turn}",
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"path":"file_{turn}.py"}}'},
        }
        messages += [
            {"role": "user", "content": f"{turn}: {QUESTION}", "name": "ann"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": "line\n" * 200},
            {"role": "assistant", "content": f"It says so {turn} times."},
        ]
    return messages


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_collect_returns_the_messages_in_their_format_and_the_result(strategy: str) -> None:
    messages = long_run()
    untouched = copy.deepcopy(messages)

    left, result = collect(
        messages, context_limit=4_000, strategy=strategy, summarizer=extractive_summary
    )

    assert messages == untouched
    assert result.plugin_name == strategy
    assert result.outcome in (GCOutcome.REACHED, GCOutcome.SHORT)
    assert result.tokens_after < result.tokens_before
    assert check_request(left) == []
    assert left[0] is messages[0]
    assert left[-1] is messages[-1]
    assert sum(any(each is one for one in messages) for each in left) > len(left) / 2


def test_a_request_that_fits_is_returned_unchanged() -> None:
    messages = long_run(2)
    left, result = collect(messages, context_limit=100_000, strategy="gc_budget")

    assert left == messages
    assert result.outcome is GCOutcome.NOT_NEEDED
    assert result.tokens_freed == 0
    assert result.tokens_before > 0


def test_a_whole_request_keeps_its_other_fields_and_its_tools_count() -> None:
    messages = long_run()
    request = {"model": "gpt-4o", "messages": messages, "temperature": 0.5}
    described = {"type": "object", "description": "what it does " * 200}
    tool = {"type": "function", "function": {"name": "read", "parameters": described}}

    plain = collect(request, context_limit=8_000, strategy="gc_budget")
    with_tools = collect({**request, "tools": [tool]}, context_limit=8_000, strategy="gc_budget")

    assert plain.request["temperature"] == 0.5
    assert with_tools.request["tools"] == [tool]
    assert with_tools.result.tokens_before > plain.result.tokens_before + 300
    assert len(with_tools.request["messages"]) < len(messages)


def test_the_configuration_is_applied() -> None:
    messages = long_run()

    def left_at(target: float) -> int:
        config = GCConfig(target_percent=target, preserve_recent_turns=1)
        made = collect(messages, context_limit=8_000, strategy="gc_budget", config=config)
        return made.result.tokens_after

    assert left_at(30.0) < 8_000 * 0.4 < left_at(75.0)


def test_the_error_for_an_unknown_strategy_names_the_strategies() -> None:
    with pytest.raises(GCPluginError, match="gc_budget"):
        collect(long_run(), context_limit=4_000, strategy="gc_bugdet")


# --- third-party formats ---


class Haiku:
    """A format of three lines."""

    name = "haiku"
    summary = "Poems"

    def recognize(self, records: list[Any]) -> float:
        return 0.99 if [record for record in records if record == {"haiku": 1}] else 0.0

    def conversations(self, records: Any) -> Iterator[Conversation]:
        lines = [record.value for record in records if "line" in record.value]
        said = [{"role": "user", "content": each["line"]} for each in lines]
        yield Conversation("poem", self.name, to_messages(said, "openai-chat"))


def test_a_third_party_can_add_a_format(tmp_path: Path) -> None:
    class Plugin:
        @hookimpl
        def jaato_gc_register_formats(self) -> list[FormatInfo]:
            return [FormatInfo("haiku", Haiku, "Poems")]

    registry = PluginRegistry()
    registry.register(Plugin(), "haiku-plugin")
    poem = tmp_path / "poem.jsonl"
    poem.write_text('{"haiku": 1}\n{"line": "old pond"}\n{"line": "a frog"}\n', encoding="utf-8")

    [conversation] = load(poem, registry=registry)

    assert detect([{"haiku": 1}], registry=registry).format == "haiku"
    assert isinstance(conversation.messages, History)
    assert [message.text for message in conversation.messages] == ["old pond", "a frog"]
    assert from_messages(conversation.messages)[0] == {"role": "user", "content": "old pond"}
    with pytest.raises(FormatError, match="read-only"):
        from_messages(conversation.messages, "haiku", registry=registry)
