"""Tokens that a log does not show, and requests that find a cold cache."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_samples import run
from lab_runs import COUNTER, filler

from jaato_gc_formats import Conversation, load
from jaato_gc_lab import estimated_overhead, replay
from jaato_gc_lab._inspect import inspect_conversation


def line(number: int, role: str, text: str, minutes: float, tokens: int | None = None) -> Any:
    message: dict[str, Any] = {"role": role, "content": text}
    if tokens is not None:
        message["usage"] = {"input_tokens": tokens, "output_tokens": 5}
        message["id"] = f"m{number}"
    return {
        "type": role,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s",
        "timestamp": f"2026-01-01T{int(minutes) // 60:02}:{int(minutes) % 60:02}:00.000Z",
        "message": message,
    }


def log(folder: Path, reported: list[int | None], minutes: list[float]) -> Conversation:
    """Returns a log of Claude Code with one answer per reported usage."""
    lines = []
    for number, (tokens, at) in enumerate(zip(reported, minutes, strict=True)):
        lines.append(line(2 * number, "user", f"and {filler(200)}", at))
        lines.append(line(2 * number + 1, "assistant", f"yes {filler(100)}", at, tokens))
    path = folder / "session.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    [conversation] = load(path)
    return conversation


def test_overhead_is_the_difference_to_the_reported_usage(tmp_path: Path) -> None:
    conversation = log(tmp_path, [20_300, 20_650, 29_000, 31_000], [0, 1, 2, 3])

    overhead = estimated_overhead(conversation, 0, COUNTER)

    assert 19_900 < overhead < 20_400  # the median of the first three


def test_log_without_usage_has_no_overhead(tmp_path: Path) -> None:
    conversation = log(tmp_path, [None, None], [0, 1])

    assert estimated_overhead(conversation, 0, COUNTER) == 0
    assert estimated_overhead(conversation.messages, 0, COUNTER) == 0


def test_overhead_is_part_of_every_request(tmp_path: Path) -> None:
    conversation = log(tmp_path, [20_300, 20_650, 21_000], [0, 1, 2])
    overhead = estimated_overhead(conversation, 0, COUNTER)

    none = replay(conversation, "none", context_limit=10**6, overhead="none")
    auto = replay(conversation, "none", context_limit=10**6)
    some = replay(conversation, "none", context_limit=10**6, overhead=500)

    for without, estimated, given in zip(none.requests, auto.requests, some.requests, strict=True):
        assert estimated.tokens == without.tokens + overhead
        assert given.tokens == without.tokens + 500


def test_request_after_the_lifetime_of_the_cache_pays_for_everything(tmp_path: Path) -> None:
    quick = log(tmp_path, [20_300, 20_650, 21_000], [0, 4, 8])
    slow = log(tmp_path, [20_300, 20_650, 21_000], [0, 4, 20])

    warm = replay(quick, "none", context_limit=10**6)
    cold = replay(slow, "none", context_limit=10**6)

    assert [each.idle_seconds for each in warm.requests] == [None, 240, 240]
    assert [each.idle_seconds for each in cold.requests] == [None, 240, 960]
    last = cold.requests[-1]
    difference = last.cached_tokens * (2.50 - 0.20) / 1e6
    assert cold.cost == pytest.approx(warm.cost + difference)


def test_inspection_says_what_the_log_does_not_show(tmp_path: Path) -> None:
    conversation = log(tmp_path, [20_300, 20_650, 58_000], [0, 1, 2])
    counted = replay(conversation, "none", context_limit=10**6, overhead="none").requests[-1].tokens

    found = inspect_conversation(conversation)

    assert found.reported_tokens == 58_000
    assert found.hidden_tokens == round(58_000 - counted, -2)
    shown = " ".join(run("inspect", tmp_path / "session.jsonl").stdout.split())
    assert "The provider reported 58,000 tokens for the last request." in shown
    assert f"About {found.hidden_tokens:,} of them are not in the log" in shown
    assert f"not in the log {found.hidden_tokens:,}" in shown  # in the picture too
