"""The table of model windows, and the window of a `ProviderSession`."""

from typing import Any

import pytest

from jaato_gc import GCSession, PluginRegistry
from jaato_gc_formats import ProviderSession, collect
from jaato_gc_testing import OldestFirst


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-opus-5-5", 1_000_000),
        ("claude-sonnet-5", 1_000_000),
        ("claude-haiku-5-5", 1_000_000),
        ("claude-fable-5-1", 1_000_000),
        ("us.anthropic.claude-opus-4-6-v1:0", 1_000_000),
        ("anthropic/claude-sonnet-4.6", 1_000_000),
        ("claude-haiku-4-5-20251001", 200_000),
        ("claude-sonnet-4-20250514", 200_000),
        ("claude-3-5-haiku-latest", 200_000),
        ("gpt-6.1-sol", 922_000),
        ("openai/gpt-5.4", 922_000),
        ("gpt-5.4-mini", 272_000),
        ("gpt-5", 272_000),
        ("gpt-5-2025-08-07", 272_000),
        ("gpt-5.2-codex", 272_000),
        ("gpt-5.1-chat-latest", 128_000),
        ("gpt-4.1-mini", 1_047_576),
        ("gpt-4o-mini", 128_000),
        ("o3", 200_000),
        ("o4-mini", 200_000),
        ("gemini-4-argon", 1_048_576),
        ("gemini-3.1-pro-preview", 1_048_576),
        ("models/gemini-2.5-flash", 1_048_576),
        ("gemini-2.5-flash-image", None),
        ("gemini-2.5-flash-preview-tts", None),
        ("claude-mythos-9", None),
        ("gpt-7", None),
        ("gpt-4", None),
        ("o1-mini", None),
        ("qwen3-coder", None),
        ("foo3", None),
    ],
)
def test_the_window_of_a_model_is_known_or_not(model: str, window: int | None) -> None:
    assert PluginRegistry().model_window(model) == window


def test_a_session_has_the_window_of_the_model_that_it_calls() -> None:
    agent = ProviderSession.open(
        "anthropic", call={"model": "claude-haiku-4-5"}, strategy=OldestFirst()
    )
    assert agent.session.budget.context_limit == 200_000
    assert GCSession(model="claude-haiku-4-5").budget.context_limit == 200_000

    given = ProviderSession.open(
        "anthropic", context_limit=9_000, call={"model": "claude-haiku-4-5"}, strategy=OldestFirst()
    )
    assert given.session.budget.context_limit == 9_000


def test_a_sub_agent_with_another_model_has_its_window() -> None:
    agent = ProviderSession.open(
        "anthropic", call={"model": "claude-opus-5-5"}, strategy=OldestFirst()
    )

    assert agent.child().session.budget.context_limit == 1_000_000
    other = agent.child(call={"model": "claude-haiku-4-5"})
    assert other.session.budget.context_limit == 200_000
    unknown = agent.child(call={"model": "acme-1"})
    assert unknown.session.budget.context_limit == 1_000_000
    given = agent.child(call={"model": "claude-haiku-4-5"}, context_limit=9_000)
    assert given.session.budget.context_limit == 9_000


def test_collect_uses_the_window_of_the_model_of_the_request() -> None:
    said = "word " * 4_000
    request = {
        "model": "gpt-4o",
        "messages": [
            {"role": role, "content": said} for _ in range(30) for role in ("user", "assistant")
        ],
    }

    def left(request: dict[str, Any], **options: Any) -> int:
        return len(collect(request, strategy=OldestFirst(), **options).request["messages"])

    assert left(request) < 60
    assert left(request, context_limit=1_000_000) == 60
    assert left(request, model="gpt-4.1") == 60
    assert left({**request, "model": "gpt-4.1"}) == 60
