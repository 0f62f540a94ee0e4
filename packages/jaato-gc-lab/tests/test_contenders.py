"""The contenders do what their names say, in a session like every strategy."""

import pytest
from lab_runs import COUNTER, exchange, filler, user, watched_replay

from jaato_gc import GCConfig, GCSession, Message, count_tokens
from jaato_gc.plugin import GCPlugin
from jaato_gc_lab import CONTENDERS, KEEP_LAST, replay, sample_conversation
from jaato_gc_lab._recording import sendable

SAMPLE = sample_conversation()


def collected(plugin: GCPlugin, messages: list[Message], limit: int) -> list[Message]:
    session = GCSession(context_limit=limit, counter=COUNTER)
    for message in messages:
        session.append(message)
    session.set_gc_plugin(plugin, GCConfig())
    session.manual_gc()
    return [*session.history]


def one_long_turn(calls: int, words: int = 60) -> list[Message]:
    """Returns one request and many calls."""
    return [
        user("go"),
        *(
            message
            for number in range(calls)
            for message in exchange(f"c{number}", "run", f"{number}: {filler(words)}")
        ),
    ]


def results(messages: list[Message]) -> list[str]:
    return [str(each.result) for message in messages for each in message.function_responses]


@pytest.mark.parametrize("name", CONTENDERS)
def test_contender_is_replayed_like_a_strategy(name: str) -> None:
    report, sent = watched_replay(SAMPLE, name, 32_000)

    assert report.strategy == name
    assert report.collections
    assert report.violations == []
    assert all(request.fits or request.tokens > 30_000 for request in report.requests)
    assert sent[0] == sendable(SAMPLE.messages)[: len(sent[0])]


def test_keep_last_removes_the_oldest_exchanges_of_a_running_turn() -> None:
    messages = one_long_turn(20)
    after = collected(CONTENDERS[KEEP_LAST](), messages, 1_200)

    assert after[0] == messages[0]
    assert after[1:] == messages[-len(after) + 1 :]
    assert 3 <= len(results(after)) < 20


def test_clear_tool_results_leaves_the_last_three() -> None:
    messages = one_long_turn(20, words=120)
    after = collected(CONTENDERS["clear-tool-results"](), messages, 2_400)

    assert len(after) == len(messages)
    assert ["cleared" in each for each in results(after)] == [True] * 17 + [False] * 3


def test_mask_observations_leaves_the_last_ten_before_every_request() -> None:
    messages = [*one_long_turn(20, words=120), *exchange("last", "run", "ok")]
    report, sent = watched_replay(messages, "mask-observations", 100_000)

    for request in sent:
        whole = [each for each in results(request) if "cleared" not in each]
        assert len(whole) == min(len(results(request)), 10)
    assert len(report.collections) >= 10


def test_head_tail_shortens_long_results_before_it_removes_any() -> None:
    messages = one_long_turn(8, words=3_000)
    limit = count_tokens(messages, COUNTER) * 10 // 7  # so that a seventh has to go
    few = collected(CONTENDERS["head-tail"](), messages, limit)

    assert len(few) == len(messages)
    shortened = [each for each in results(few) if "cleared" in each]
    assert 0 < len(shortened) <= 5
    assert all(each.startswith(f"{n}: ") for n, each in enumerate(shortened))


def test_contenders_ignore_the_options_of_a_strategy() -> None:
    config = GCConfig(plugin_config={"max_result_tokens": 10})

    assert replay(SAMPLE, KEEP_LAST, context_limit=32_000, config=config).requests
