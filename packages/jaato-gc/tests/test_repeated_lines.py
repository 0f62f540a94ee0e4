"""Repeated lines: what older results lose because a later message has it too."""

from typing import Any

import pytest

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCPolicy,
    GCSession,
    Message,
    Part,
    Role,
    ToolResult,
    count_tokens,
)
from jaato_gc.plugin import Collection, Shortening
from jaato_gc_testing import COUNTER, ScriptedStrategy, assert_in_step, new_session

FILE = [f"    value_{number} = compute_the_value_of(number={number})" for number in range(20)]


def called(name: str, result: Any, **fields: Any) -> list[Message]:
    call = FunctionCall(name, "read", {"path": "a.py"})
    answer = Part(function_response=ToolResult(name, "read", result))
    return [
        Message(Role.MODEL, [Part(function_call=call)], f"c{name}"),
        Message(Role.TOOL, [answer], f"r{name}", **fields),
    ]


def asked(name: str, text: str = "go on") -> Message:
    return Message.from_text(Role.USER, text, message_id=name, policy=GCPolicy.PARTIAL)


def drop(collection: Collection) -> None:
    collection.drop_repeated_lines()


def session_of(*messages: Message, script: Any = drop, groups: int = 0) -> GCSession:
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=groups, target_percent=1)
    session = new_session(ScriptedStrategy(script), config, context_limit=20_000)
    for message in messages:
        session.append(message)
    return session


def result_of(session: GCSession, message_id: str) -> Any:
    message = next(each for each in session.history if each.message_id == message_id)
    return message.function_responses[0].result


def test_a_run_that_occurs_again_leaves_the_older_result() -> None:
    older = "\n".join(["# before", *FILE, "# after"])
    session = session_of(asked("u"), *called("0", older), *called("1", "\n".join(FILE)))
    before = session.history

    result = session.manual_gc()

    assert result_of(session, "r0") == "# before\n[20 lines omitted: repeated later]\n# after"
    assert session.history[3:] == before[3:], "the later copy stays"
    (item,) = result.removal_list
    assert (item.reason, item.action) == ("repeated_lines", "shorten")
    assert item.message_ids == ["r0"]
    assert item.tokens_freed == count_tokens(before, COUNTER) - count_tokens(
        session.history, COUNTER
    )
    assert_in_step(session)
    session.undo()
    assert session.history == before


@pytest.mark.parametrize(
    "copy",
    [
        "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(FILE, 1)),
        "\n".join(f"{number:>6}→{line}" for number, line in enumerate(FILE, 1)),
        "\n\n".join(FILE),
        "\n\n".join(f"{number:>6}\t{line}" for number, line in enumerate(FILE, 1)),
        " \r\n".join(FILE),
    ],
    ids=[
        "numbered",
        "numbered with arrows",
        "with blank lines",
        "numbered with blank lines",
        "with trailing whitespace",
    ],
)
def test_line_numbers_and_whitespace_do_not_count(copy: str) -> None:
    session = session_of(asked("u"), *called("0", "\n".join(FILE)), *called("1", copy))
    session.manual_gc()
    assert result_of(session, "r0") == "[20 lines omitted: repeated later]"


def test_a_blank_line_before_a_numbered_one_counts_as_a_line_of_its_own() -> None:
    numbered = "\n\n".join(f"{number:>6}\t{line}" for number, line in enumerate(FILE, 1))
    older = f"# before\n\n{numbered}\n# after"
    session = session_of(asked("u"), *called("0", older), *called("1", "\n".join(FILE)))
    session.manual_gc()
    assert result_of(session, "r0") == "# before\n\n[39 lines omitted: repeated later]\n# after"


@pytest.mark.parametrize(
    "copy",
    [
        "\n".join(line.strip() for line in FILE),
        "\n".join(f"{number}: {line}" for number, line in enumerate(FILE, 2_001)),
    ],
    ids=["other indentation", "other numbers before a colon"],
)
def test_lines_that_differ_are_not_repeated(copy: str) -> None:
    old = "\n".join(f"{number}: {line}" for number, line in enumerate(FILE, 1_001))
    session = session_of(asked("u"), *called("0", old), *called("1", copy))
    session.manual_gc()
    assert "repeated later" not in str(session.history)


@pytest.mark.parametrize(
    "later",
    [
        asked("later", "\n".join(FILE)),
        Message.from_text(Role.MODEL, "\n".join(FILE), message_id="later"),
        Message(
            Role.MODEL,
            [
                Part(
                    function_call=FunctionCall("w", "write", {"files": [{"text": "\n".join(FILE)}]})
                )
            ],
            "later",
        ),
    ],
    ids=["user", "model", "arguments"],
)
def test_a_copy_may_be_in_any_later_message(later: Message) -> None:
    session = session_of(asked("u"), *called("0", "\n".join(FILE)), later)
    session.manual_gc()
    assert result_of(session, "r0") == "[20 lines omitted: repeated later]"


def test_the_newest_copy_stays_and_all_older_ones_go() -> None:
    text = "\n".join(FILE)
    session = session_of(asked("u"), *(each for name in "0123" for each in called(name, text)))
    session.manual_gc()
    assert [result_of(session, f"r{name}") == text for name in "0123"] == [False] * 3 + [True]


@pytest.mark.parametrize(
    ("older", "later"),
    [
        (FILE, FILE[::2]),
        (FILE[:2], FILE),
        (["a", "b", "c"], ["a", "b", "c"]),
        (["", "", "", "", ""] * 10, ["", "", "", "", ""] * 10),
    ],
    ids=["no run", "two lines", "nothing to gain", "blank lines"],
)
def test_a_run_that_frees_nothing_stays(older: list[str], later: list[str]) -> None:
    session = session_of(asked("u"), *called("0", "\n".join(older)), *called("1", "\n".join(later)))
    before = session.history
    session.manual_gc()
    assert session.history == before


def test_a_copy_that_precedes_does_not_count() -> None:
    session = session_of(asked("u", "\n".join(FILE)), *called("0", "\n".join(FILE)))
    before = session.history
    session.manual_gc()
    assert session.history == before


def test_results_of_the_last_calls_and_fixed_ones_lose_nothing() -> None:
    text = "\n".join(FILE)
    session = session_of(
        *(asked("u"), *called("0", text, policy=GCPolicy.LOCKED), *called("1", text)),
        *(*called("2", text), *called("3", text), *called("4", text)),
        groups=2,
    )
    session.pin("c1")
    session.manual_gc()
    assert [result_of(session, f"r{name}") == text for name in "01234"] == [
        *(True, True, False, True, True)
    ]


def test_a_result_that_is_not_text_loses_nothing() -> None:
    session = session_of(asked("u"), *called("0", {"stdout": FILE}), *called("1", "\n".join(FILE)))
    before = session.history
    session.manual_gc()
    assert session.history == before


def test_a_copy_that_is_removed_or_shortened_before_does_not_count() -> None:
    def shorten_first(collection: Collection) -> None:
        group = next(each for each in collection.groups if each.messages[0].message_id == "c1")
        collection.shorten(group, "shorter", Shortening("long"))
        collection.drop_repeated_lines()

    text = "\n".join(FILE)
    later = f"again:\n{text}"  # identical results would be shortened before the strategy is asked
    session = session_of(asked("u"), *called("0", text), *called("1", later), script=shorten_first)
    session.manual_gc()
    assert result_of(session, "r0") == text
    assert result_of(session, "r1") != later


def test_a_copy_stays_unchanged_for_the_rest_of_the_collection() -> None:
    def shorten_all(collection: Collection) -> None:
        collection.drop_repeated_lines()
        for group in collection.groups:
            collection.shorten(group, "shorter", Shortening("long"))
        collection.remove(collection.groups, "all", "all")

    text = "\n".join(FILE)
    later = f"again:\n{text}"
    session = session_of(asked("u"), *called("0", text), *called("1", later), script=shorten_all)
    session.manual_gc()
    assert result_of(session, "r1") == later


def test_an_identical_result_is_whole_again_if_its_newest_copy_is_removed() -> None:
    def remove_the_newest(collection: Collection) -> None:
        collection.remove([collection.groups[2]], "newest", "newest")

    text = "\n".join(FILE)
    history = [asked("u"), *called("0", text), *called("1", text)]
    session = session_of(*history, script=remove_the_newest)
    result = session.manual_gc()
    assert [item.reason for item in result.removal_list] == ["newest"]
    assert result_of(session, "r0") == text


def test_the_newest_of_identical_results_is_not_shortened() -> None:
    def shorten_the_newest(collection: Collection) -> None:
        collection.shorten(collection.groups[2], "shorter", Shortening("long"))

    text = "\n".join(FILE)
    history = [asked("u"), *called("0", text), *called("1", text)]
    session = session_of(*history, script=shorten_the_newest)
    session.manual_gc()
    assert result_of(session, "r0") != text
    assert result_of(session, "r1") == text


def test_it_stops_at_the_goal() -> None:
    text = "\n".join(FILE)
    other = text.replace("value", "other")
    history = [
        asked("u"),
        *called("0", text),
        *called("1", other),
        *called("2", text + "\n" + other),
    ]
    total = count_tokens(history, COUNTER)
    session = session_of(*history)
    session.manual_gc(target_percent=100 * (total - 10) / 20_000)
    assert result_of(session, "r0") != text
    assert result_of(session, "r1") == other
