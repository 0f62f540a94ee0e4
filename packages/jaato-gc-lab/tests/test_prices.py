"""Tests of the price table and the cost of a run."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_runs import turns

from jaato_gc import GCConfig, GCConfigError
from jaato_gc_lab import Price, ReplayedRequest, load_prices, replay

PRICE = Price(
    models=["m"], input=2.0, output=10.0, cache_read=0.2, cache_write=2.5, date=date(2026, 11, 16)
)
FREE_WRITES = PRICE.model_copy(update={"cache_write": None})


def request(tokens: int, cached: int = 0, output: int = 0) -> ReplayedRequest:
    return ReplayedRequest(1, tokens, {}, cached, output)


# --- pricing requests ---


def test_cached_prefix_is_read_and_the_rest_is_written() -> None:
    run = [request(1_000_000), request(1_500_000, cached=1_000_000, output=100_000)]

    assert PRICE.cost(run) == pytest.approx(2.5 + 0.2 + 0.5 * 2.5 + 0.1 * 10)
    assert FREE_WRITES.cost(run) == pytest.approx(2.0 + 0.2 + 0.5 * 2.0 + 0.1 * 10)


def test_prefix_below_the_minimum_is_not_cached() -> None:
    short = PRICE.model_copy(update={"min_cached_tokens": 1_000})

    assert short.cost([request(900, cached=500)]) == pytest.approx(900 * 2.0 / 1e6)
    assert short.cost([request(1_200, cached=500)]) == pytest.approx(1_200 * 2.5 / 1e6)
    assert short.cost([request(1_200, cached=1_000)]) == pytest.approx(
        (1_000 * 0.2 + 200 * 2.5) / 1e6
    )


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1), st.integers(0, 10**5)), max_size=8)
)
def test_caching_never_increases_the_cost(run: list[tuple[int, float, int]]) -> None:
    cold = [request(tokens, 0, output) for tokens, _, output in run]
    warm = [request(tokens, int(tokens * share), output) for tokens, share, output in run]

    assert PRICE.cost(warm) <= PRICE.cost(cold) + 1e-9


def test_repeated_lookup_costs_one_more_request_and_the_reread_tokens() -> None:
    run = [request(1_000_000), request(2_000_000)]

    assert PRICE.lookup_cost(run, set(), 0) == 0
    one = PRICE.lookup_cost(run, {1}, 0)
    assert one == pytest.approx(2_000_000 * 0.2 / 1e6 + 100 * 10 / 1e6)
    assert PRICE.lookup_cost(run, {1}, 1_000_000) == pytest.approx(one + 2.5)


def test_collection_can_cost_more_than_it_saves() -> None:
    # One collection just before the end: the rewritten cache is never read.
    messages = turns(40, 200)
    tokens = replay(messages, "none", context_limit=10**6).peak_tokens
    late = GCConfig(threshold_percent=96.0, target_percent=90.0, preserve_recent_turns=1)

    none = replay(messages, "none", context_limit=tokens)
    truncated = replay(messages, "truncate", context_limit=tokens, config=late)

    assert truncated.input_tokens < none.input_tokens
    assert truncated.cost > none.cost


# --- the table ---


def test_every_bundled_price_has_a_date_and_a_source() -> None:
    prices = load_prices()

    assert {"claude-sonnet-5-5", "gpt-5", "gemini-2.5-pro"} <= set(prices.by_model)
    for price in prices.by_model.values():
        assert price.source.startswith("https://")
        assert price.date >= date(2026, 1, 1)
        assert price.currency == "USD"
        assert price.cache_read < price.input <= (price.cache_write or price.input) < price.output


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic/claude-opus-4-20250514", "claude-opus-4"),
        ("GPT-5-2025-08-07", "gpt-5"),
        ("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("litellm_proxy/claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("vertex_ai/claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("openai.gpt-5-mini", "gpt-5-mini"),
        ("anthropic/claude-opus-4.8", "claude-opus-4-8"),
        ("claude-3.7-sonnet", "claude-3-7-sonnet"),
    ],
)
def test_model_names_may_be_spelled_as_each_provider_does(name: str, known: str) -> None:
    assert load_prices().known(name) == known


@pytest.mark.parametrize(
    "name",
    [
        "anthropic/claude-opus-4.8-fast", "gpt-5.1-codex", "gpt-5.2", "gpt-4o-mini-2024-07-18",
        "gemini-2.5-flash-lite", "gpt-5:free", "gpt-5-v2", "claude-sonnet-4-5-5", "gpt-51",
        "", "/", ".", "cursor-auto",
    ],
)  # fmt: skip
def test_other_models_with_similar_names_have_no_price(name: str) -> None:
    assert load_prices().find(name) is None


def test_exact_name_in_a_table_takes_precedence(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE.replace('"mine", "gpt-5"', '"mine", "gpt-5-2025-08-07", "eu.mine"'))

    prices = load_prices(path)

    assert prices.known("gpt-5-2025-08-07") == "gpt-5-2025-08-07"
    assert prices.known("openai/gpt-5-2025-08-07") == "gpt-5-2025-08-07"
    assert prices.known("gpt-5-2025-09-09") == "gpt-5"
    assert prices.known("eu.mine") == "eu.mine"
    assert prices.known("us.mine") == "mine"


@given(st.sampled_from(sorted(load_prices().by_model)))
def test_price_of_one_model_is_found_as_in_the_whole_table(name: str) -> None:
    prices = load_prices()

    assert prices.find(name) == name
    assert prices.only(name).find(f"x/{name}-20260101") == name


def test_unknown_model_is_an_error_that_lists_the_known_models() -> None:
    for name in ("gpt-5.9", "claude-sonnet-4-50", "llama"):
        with pytest.raises(
            GCConfigError, match=r"expected one of claude-sonnet-5-5, .*gpt-5.*your own"
        ):
            load_prices().of(name)


TABLE = """
default = "mine"

[[prices]]
models = ["mine", "gpt-5"]
input = 1
output = 2
cache_read = 0.5
currency = "EUR"
date = 2026-01-02
"""


def test_custom_price_table_overrides_the_bundled_one(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE, encoding="utf-8")

    prices = load_prices(path)

    assert prices.of().currency == "EUR"
    assert prices.of("gpt-5").input == 1
    assert prices.of("gpt-5-mini") == load_prices().of("gpt-5-mini")
    report = replay(turns(3), "none", context_limit=999, prices=prices)
    assert (report.model, report.currency) == ("mine", "EUR")
    assert report.cost == pytest.approx(prices.of().cost(report.requests))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("=", "invalid TOML"),
        ("price = 1", "unknown key 'price'"),
        (TABLE.replace("input", "inptu"), "entry 1.*did you mean 'input'"),
        (TABLE.replace("0.5", "-1"), "entry 1: cache_read"),
        (TABLE.replace('"mine", ', ""), "no price for model 'mine'"),
    ],
)
def test_invalid_price_table_is_an_error_with_the_position(
    tmp_path: Path, text: str, what: str
) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(GCConfigError, match=what):
        load_prices(path)
    with pytest.raises(GCConfigError, match=r"nowhere: can't read the price table"):
        load_prices(tmp_path / "nowhere")
