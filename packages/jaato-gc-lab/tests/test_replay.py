"""Tests of replay, most of them against an independent evaluation of every request."""

from collections import Counter
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab_runs import COUNTER, REGISTRY, STRATEGIES, exchange, filler, model, turns, user
from lab_runs import watched_replay as watched

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCPluginError,
    Message,
    Part,
    PluginRegistry,
    Role,
    check_history,
    count_tokens,
)
from jaato_gc.plugin import hookimpl
from jaato_gc_formats import Moment, check_request, from_messages, to_messages
from jaato_gc_lab import ReplayReport, replay, sample_conversation
from jaato_gc_lab._sources import tokens_by_source
from jaato_gc_lab._validity import Validity
from jaato_gc_testing import (
    MemoryStash,
    broken_histories,
    count_operations,
    histories,
    long_history,
)

SAMPLE = sample_conversation()


def without_seconds(report: ReplayReport) -> ReplayReport:
    collections = [replace(each, seconds=0.0) for each in report.collections]
    return replace(report, collections=collections, seconds=0.0)


def shared_tokens(before: list[Message], after: list[Message]) -> int:
    """Returns the tokens of the common prefix of two requests."""
    shared = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        shared += count_tokens([new], COUNTER)
    return shared


def check_against_requests(report: ReplayReport, sent: list[list[Message]], tools: int) -> None:
    assert len(report.requests) == len(sent)
    before: list[Message] | None = None
    for request, messages in zip(report.requests, sent, strict=True):
        assert request.tokens == tools + count_tokens(messages, COUNTER)
        assert request.tokens <= report.context_limit or not request.fits
        by_source = Counter({"tools": tools})
        for message in messages:
            by_source.update(tokens_by_source(message, COUNTER))
        assert request.by_source == +by_source
        seen = 0 if before is None else tools + shared_tokens(before, messages)
        assert request.cached_tokens == seen
        before = messages
    assert report.overflows == sum(not request.fits for request in report.requests)
    assert all(collection.request < len(sent) for collection in report.collections)


# --- figures of the report ---


@pytest.mark.parametrize("strategy", ["none", *STRATEGIES])
@pytest.mark.parametrize("limit", [6_000, 32_000])
def test_report_of_the_sample_run_matches_its_requests(strategy: str, limit: int) -> None:
    report, sent = watched(SAMPLE, strategy, limit)

    tools = report.requests[0].by_source["tools"]
    assert tools > 100
    check_against_requests(report, sent, tools)
    assert report.violations == []
    assert (report.collections == []) is (strategy == "none")


@settings(max_examples=60, deadline=None)
@given(
    messages=histories(min_turns=1),
    strategy=st.sampled_from(["none", *STRATEGIES]),
    limit=st.integers(40, 2_000),
    tools=st.sampled_from([0, 30]),
)
def test_report_of_any_run_matches_its_requests(
    messages: list[Message], strategy: str, limit: int, tools: int
) -> None:
    report, sent = watched(messages, strategy, limit, overhead=tools)

    check_against_requests(report, sent, tools)
    assert report.violations == []
    for request in sent:
        assert check_history(request) == []


@settings(max_examples=60, deadline=None)
@given(messages=broken_histories(), strategy=st.sampled_from(["none", *STRATEGIES]))
def test_invalid_recordings_are_repaired_first(messages: list[Message], strategy: str) -> None:
    report, sent = watched(messages, strategy, 300)

    assert report.violations == []
    for request in sent:
        assert check_history(request) == []


def test_requests_after_a_collection_are_valid_for_the_provider() -> None:
    for strategy in STRATEGIES:
        report, sent = watched(SAMPLE, strategy, 24_000)
        for collection in report.collections:
            request = sent[collection.request]
            written = from_messages(request, "anthropic", like=SAMPLE.messages)
            assert check_request(written, "anthropic") == []


def test_same_arguments_produce_the_same_report() -> None:
    for strategy in STRATEGIES:
        reports = [replay(sample_conversation(), strategy, context_limit=16_000) for _ in range(2)]

        assert without_seconds(reports[0]) == without_seconds(reports[1])


@pytest.mark.parametrize(("pause", "triggers"), [(299.0, []), (301.0, ["cache_cold"])])
def test_a_cold_cache_is_recognised_by_the_times_of_the_recording(
    pause: float, triggers: list[str]
) -> None:
    answers = [at for at, each in enumerate(SAMPLE.messages) if each.role is Role.MODEL]
    moments = [Moment(at=pause * (at == answers[-1]), position=at) for at in answers]
    run = replace(SAMPLE, moments=moments)
    config = GCConfig(cache_ttl_seconds=300, cold_percent=10.0, cold_target_percent=5.0)

    report = replay(run, "gc_truncate", context_limit=2_000_000, config=config)

    assert report.collections == []  # the context takes less than a tenth
    config = GCConfig(cache_ttl_seconds=300, cold_percent=1.0, cold_target_percent=0.0)
    report = replay(run, "gc_truncate", context_limit=2_000_000, config=config)
    assert [each.trigger for each in report.collections] == triggers


# --- order of events ---


def test_replay_without_a_strategy_sends_all_messages() -> None:
    messages = turns(6)

    report = replay(messages, "none", context_limit=600)

    expected = [count_tokens(messages[: 2 * n + 1], COUNTER) for n in range(6)]
    assert [request.tokens for request in report.requests] == expected
    assert [request.cached_tokens for request in report.requests] == [0, *expected[:-1]]
    assert [request.turn for request in report.requests] == [1, 2, 3, 4, 5, 6]
    assert report.strategy == "none"
    assert 0 < report.overflows < 6


def test_replay_continues_after_a_request_that_does_not_fit() -> None:
    messages = [user("short"), model("yes"), user(filler(2_000)), model("well"), *turns(3, 10)]

    report, _ = watched(messages, "truncate", 1_000)

    assert [request.fits for request in report.requests] == [True, False, True, True, True]
    assert report.overflows == 1


def test_consecutive_answers_count_as_one() -> None:
    messages = [user("go"), model("first"), model("second"), user("on"), model("third")]

    report = replay(messages, "none", context_limit=1_000)

    assert len(report.requests) == 2
    assert report.requests[0].output_tokens == count_tokens(messages[1:3], COUNTER)


def test_messages_after_the_last_answer_are_ignored() -> None:
    open_call = Message(Role.MODEL, [Part(function_call=FunctionCall("c", "look", {}))])

    assert (
        len(replay([user("go"), model("yes"), user("on")], "none", context_limit=99).requests) == 1
    )
    assert len(replay([user("go"), open_call], "none", context_limit=99).requests) == 1
    assert replay([user("go")], "truncate", context_limit=99).requests == []


def test_greeting_is_removed_and_a_missing_user_message_is_inserted() -> None:
    greeted = replay([model("hello!"), user("hi"), model("yes?")], "none", context_limit=99)
    system = Message.from_text(Role.SYSTEM, "say hello")
    silent = replay(
        [system, user(""), model("hello?"), system, model("hey!")], "none", context_limit=99
    )

    assert len(greeted.requests) == 1
    assert len(silent.requests) == 2
    assert greeted.requests[0].tokens == count_tokens([user("hi")], COUNTER)


def test_collection_between_turns_belongs_to_the_previous_turn() -> None:
    report, _ = watched(turns(12), "truncate", 1_500)

    first = report.collections[0]
    assert (first.trigger, first.outcome) == ("threshold", "reached")
    assert first.turn == report.requests[first.request].turn - 1
    assert first.tokens_after < first.tokens_before
    assert sum(first.freed_by_reason.values()) == first.tokens_before - first.tokens_after
    assert set(report.freed_by_reason) == {"truncated"}
    assert report.seconds == sum(each.seconds for each in report.collections) > 0


def test_output_reserve_also_applies_without_a_strategy() -> None:
    config = GCConfig(reserve_output_tokens=500)

    narrow = replay(turns(6), "none", context_limit=1_000, config=config)

    assert narrow.overflows == replay(turns(6), "none", context_limit=500).overflows
    assert narrow.context_limit == 1_000


def test_plugin_config_is_passed_to_the_strategy() -> None:
    config = GCConfig(preserve_recent_turns=1, plugin_config={"notify_on_gc": True})

    report, sent = watched(turns(12), "truncate", 1_500, config=config)

    assert report.requests[-1].by_source["synthetic"] > 0
    assert any(message.synthetic for message in sent[-1])


def test_strategies_that_summarize_need_no_model() -> None:
    for strategy in ("gc_summarize", "gc_hybrid"):
        report, _ = watched(turns(30), strategy, 1_500)

        assert report.requests[-1].by_source["synthetic"] > 0
        assert all(each.error is None for each in report.collections)


def test_an_instance_that_summarizes_needs_no_model_either() -> None:
    report, _ = watched(turns(30), REGISTRY.create("gc_summarize"), 1_500)

    assert report.requests[-1].by_source["synthetic"] > 0


def test_a_strategy_can_be_told_to_extract_its_summaries() -> None:
    config = GCConfig(plugin_config={"extractive": True})
    report, _ = watched(turns(30), "gc_summarize", 1_500, config=config)

    assert report.requests[-1].by_source["synthetic"] > 0


def test_strategy_can_be_a_short_name_or_an_instance() -> None:
    assert replay(turns(1), "budget", context_limit=99).strategy == "gc_budget"
    assert replay(turns(1), REGISTRY.create("budget"), context_limit=99).strategy == "gc_budget"


def test_unknown_strategy_and_unknown_model_are_errors() -> None:
    with pytest.raises(GCPluginError, match=r"did you mean 'budget'"):
        replay(turns(1), "buget", context_limit=99)
    with pytest.raises(GCConfigError, match=r"no price for model 'gpt-0': expected .*gpt-5"):
        replay(turns(1), "none", context_limit=99, model="gpt-0")


# --- isolation ---


class Host:
    """A plugin of the user with a stash and an observer."""

    def __init__(self) -> None:
        self.stash = MemoryStash()
        self.results: list[Any] = []

    @hookimpl
    def jaato_gc_stash(self) -> MemoryStash:
        return self.stash

    @hookimpl
    def jaato_gc_after_collect(self, result: Any) -> None:
        self.results.append(result)


def test_replay_uses_neither_stash_nor_observers_of_the_user() -> None:
    host, registry = Host(), PluginRegistry()
    registry.register(host, "host")

    report = replay(SAMPLE, "truncate", context_limit=16_000, registry=registry)

    assert report.collections
    assert host.results == []
    assert host.stash.stats().entries == 0


def test_replay_does_not_change_the_transcript() -> None:
    before = from_messages(SAMPLE.messages)

    replay(SAMPLE, "marksweep", context_limit=16_000)

    after = from_messages(SAMPLE.messages)
    assert after == before
    pairs = zip(after["messages"], before["messages"], strict=True)
    assert all(one is other for one, other in pairs)


# --- violations ---


def test_violations_that_the_recording_does_not_have_are_found() -> None:
    good = to_messages([{"role": "user", "content": "go"}], "openai-chat")
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = to_messages([{"role": "assistant", "content": None, "tool_calls": [call]}])
    result = to_messages([{"role": "tool", "tool_call_id": "c", "content": "a"}], "openai-chat")
    validity = Validity("openai-chat", None, REGISTRY)

    assert validity.new_faults([*good, *asked, *result], good) == []
    orphaned = validity.new_faults([*good, *result], good)
    assert any("results_have_calls" in fault for fault in orphaned)
    assert any("orphaned_result" in fault for fault in orphaned)
    assert validity.new_faults([*good, *result], [*good, *result]) == []
    repeated = validity.new_faults([*good, *result, *result], [*good, *result])
    assert any("orphaned_result" in fault for fault in repeated)


def test_messages_without_a_format_are_checked_by_the_rules_of_core() -> None:
    validity = Validity(None, None, REGISTRY)

    assert validity.new_faults([model("first")], []) != []
    assert validity.new_faults([user("first")], []) == []


def test_report_contains_violations_with_their_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Validity, "new_faults", lambda *_: ["it is broken"])

    report, _ = watched(turns(12), "truncate", 1_500)

    requests = {0, *(each.request for each in report.collections)}
    assert report.violations == [f"request {number}: it is broken" for number in sorted(requests)]


# --- complexity ---


@pytest.mark.parametrize("strategy", ["none", "gc_truncate"])
def test_replay_time_is_linear_in_the_length_of_the_recording(strategy: str) -> None:
    def work(messages: int) -> int:
        history = long_history(messages // 4)
        for message in history:
            count_tokens([message], COUNTER)
        config = GCConfig(preserve_recent_turns=1)
        return count_operations(
            lambda: replay(history, strategy, context_limit=2_000, config=config, registry=REGISTRY)
        )

    work(40)  # fills the caches
    small, large = work(400), work(1_600)

    assert large <= 4 * small * 1.3


def test_thoughts_and_calls_are_separate_sources() -> None:
    said = Message(
        Role.MODEL,
        [Part(thought="hm, let us see"), Part(text="I look."), *exchange("c", "look", "")[0].parts],
    )
    result = exchange("c", "look", "a result")[1]

    report = replay([user("go"), said, result, model("done")], "none", context_limit=999)

    assert set(report.requests[1].by_source) == {"user", "model", "thoughts", "calls", "results"}


# --- records of collections ---


def test_collection_records_tokens_by_source_before_and_after_it() -> None:
    run = [user("read the files"), *(each for n in range(12) for each in read(n)), model("done")]

    report, _ = watched(run, "gc_truncate", 2_000)

    assert report.collections
    for collection in report.collections:
        assert sum(collection.before_by_source.values()) == collection.tokens_before
        assert sum(collection.after_by_source.values()) == collection.tokens_after
        assert collection.before_by_source["results"] > collection.after_by_source["results"]


def test_collection_records_removed_tokens_by_tool() -> None:
    run = [user("read the files"), *(each for n in range(12) for each in read(n)), model("done")]

    report, _ = watched(run, "gc_truncate", 2_000)

    for collection in report.collections:
        assert [*collection.freed_by_tool] == ["read_file"]
        removed = sum(collection.before_by_source.values()) - sum(
            collection.after_by_source.values()
        )
        assert 0 < collection.freed_by_tool["read_file"] <= removed


def test_report_names_the_counter_and_the_distribution_of_the_strategy() -> None:
    report, _ = watched(turns(3), "gc_truncate", 2_000)

    assert report.counter == COUNTER.name
    assert report.distribution == f"jaato-gc-truncate {version('jaato-gc-truncate')}"
    assert watched(turns(3), "none", 2_000)[0].distribution == ""
    assert watched(turns(3), "keep-last", 2_000)[0].distribution == ""


def read(number: int) -> list[Message]:
    return exchange(f"c{number}", "read_file", filler(200), path=f"src/{number}.py")
