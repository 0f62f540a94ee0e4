"""Tests of the measures of loss, by hand and against an independent evaluation."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab_runs import COUNTER, STRATEGIES, exchange, filler, model, user
from lab_runs import watched_replay as watched

from jaato_gc import FunctionCall, Message, Part, Role, ToolResult
from jaato_gc.plugin import as_text
from jaato_gc_lab import ReplayReport, sample_conversation
from jaato_gc_lab._measures.names import names_in
from jaato_gc_lab._measures.rereads import Rereads
from jaato_gc_lab._recording import sendable

SAMPLE = sample_conversation()


def shown_by(messages: list[Message]) -> set[str]:
    """Returns the names that messages show."""
    names: set[str] = set()
    for message in messages:
        for part in message.parts:
            texts = [part.text or "", part.thought or ""]
            if part.function_response:
                texts.append(as_text(part.function_response.result))
            if part.function_call:
                texts += map(as_text, _leaves(part.function_call.args))
            for text in texts:
                names |= names_in(text)
    return names


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def check_losses(messages: list[Message], report: ReplayReport, sent: list[list[Message]]) -> None:
    """Checks that losses are the names in an answer that are recorded, but not in its request."""
    lost: list[tuple[str, int]] = []
    used = 0
    used_by: list[int] = []
    position = 0
    request = -1
    while position < len(messages):
        if messages[position].role is not Role.MODEL:
            position += 1
            continue
        end = position
        while end < len(messages) and messages[end].role is Role.MODEL:
            end += 1
        request += 1
        answer = [
            message.with_parts([part for part in message.parts if part.thought is None])
            for message in messages[position:end]
        ]
        names = shown_by(answer) & shown_by(messages[:position])
        used += len(names)
        used_by.append(len(names))
        lost += [(name, request) for name in sorted(names - shown_by(sent[request]))]
        position = end
    assert report.names_used == used
    before = report.refused_at if report.refused_at is not None else request + 1
    assert [(loss.name, loss.request) for loss in report.losses] == [
        (name, request) for name, request in lost if request < before
    ]
    after = sum(count for at, count in enumerate(used_by) if at >= before)
    assert report.names_lost == len(report.losses) + after
    for loss in report.losses:
        assert report.collections[loss.removed_at].request <= loss.request


@pytest.mark.parametrize("strategy", ["none", *STRATEGIES])
def test_losses_of_the_sample_run_match_its_requests(strategy: str) -> None:
    report, sent = watched(SAMPLE, strategy, 12_000)

    check_losses(sendable(SAMPLE.messages), report, sent)
    assert report.names_lost > 0


WORDS = st.lists(
    st.sampled_from(["src/a.py", "berth_7", "HB-4127", "20260329", "callSign", "yes", "all well"]),
    max_size=4,
).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=12),
    strategy=st.sampled_from(STRATEGIES),
    limit=st.integers(60, 600),
)
def test_losses_of_any_run_match_its_requests(
    texts: list[tuple[str, str, str]], strategy: str, limit: int
) -> None:
    messages = []
    for number, (asked, result, said) in enumerate(texts):
        messages.append(user(f"and {asked}"))
        messages += exchange(f"c{number}", "look", f"it is {result} {filler(15)}", at=asked)
        messages.append(model(f"well {said}"))

    report, sent = watched(messages, strategy, limit)

    check_losses(sendable(messages), report, sent)


def test_lost_name_counts_once_even_if_it_is_used_again() -> None:
    mention = user("look at src/harbour/berths.py please")
    more = [message for _ in range(8) for message in (user(filler(100)), model(filler(60)))]
    uses = [
        message
        for _ in range(3)
        for message in (user("and?"), model("It is in src/harbour/berths.py."))
    ]

    report, _ = watched(
        [user("hello"), model("hi"), mention, model("yes"), *more, *uses], "truncate", 900
    )

    assert [loss.name for loss in report.losses] == ["src/harbour/berths.py"]
    assert report.names_used == 3
    assert report.names_lost == 1


def test_name_that_a_later_message_shows_again_is_not_lost() -> None:
    mention = [user("it is src/harbour/berths.py"), model("yes")]
    more = [message for _ in range(8) for message in (user(filler(100)), model(filler(60)))]
    again = [user("I said src/harbour/berths.py"), model("So src/harbour/berths.py it is.")]

    report, _ = watched([user("hello"), model("hi"), *mention, *more, *again], "truncate", 900)

    assert report.collections
    assert report.losses == []
    assert report.names_used == 1


def test_name_that_the_model_mentions_first_is_not_a_use() -> None:
    report, _ = watched([user("hello"), model("I shall make src/new_file.py")], "truncate", 900)

    assert (report.losses, report.names_used) == ([], 0)


def test_numbers_in_call_arguments_are_uses_of_names() -> None:
    messages = [
        user("hello"), model("hi"), user("the fee is 4127 and the port 88213"), model("yes"),
        *(message for _ in range(8) for message in (user(filler(100)), model(filler(60)))),
        user("book it"), *exchange("c", "book", "done", fee=4127, to={"ports": ["88213"]}),
        model("done"),
    ]  # fmt: skip

    report, _ = watched(messages, "truncate", 900)

    assert [loss.name for loss in report.losses] == ["4127", "88213"]


def test_name_in_a_summary_is_not_lost() -> None:
    messages = [
        user("hello"), model("hi"), user("call it berth_q7_north"), model("yes"),
        *(message for _ in range(8) for message in (user(filler(100)), model(filler(60)))),
        user("and?"), model("It is berth_q7_north."),
    ]  # fmt: skip

    truncated, _ = watched(messages, "truncate", 900)
    summarized, sent = watched(messages, "summarize", 900)

    assert len(truncated.losses) == 1
    assert "berth_q7_north" in shown_by([each for each in sent[-1] if each.synthetic])
    assert summarized.losses == []


def test_paths_identifiers_and_numbers_are_names() -> None:
    text = "see ./src/a.py:12, callSign, HB-4127 on 2026-03-29 at 02:30; 1,5 or 12; or snake_case."

    assert names_in(text) == {
        "src/a.py:12", "callSign", "HB-4127", "2026-03-29", "02:30", "snake_case",
    }  # fmt: skip
    assert names_in("these are plain words, 123 and 99") == frozenset()


# --- rereads ---


def content(path: str, words: int = 150) -> str:
    """Returns the content of a file, which stands in no other file."""
    return f"{path.removeprefix('./')}: {filler(words)}"


def read(call_id: str, path: str, words: int = 150) -> list[Message]:
    return exchange(call_id, "read_file", content(path, words), path=path)


def edit(call_id: str, path: str) -> list[Message]:
    return exchange(call_id, "edit_file", "changed", path=path, old="a", new="b")


def pressure(first: int) -> list[Message]:
    return [
        message
        for number in range(first, first + 6)
        for message in exchange(f"p{number}", "run", content(f"log {number}"), command="make")
    ]


def rereads(*steps: list[Message], strategy: str = "budget") -> tuple[int, int]:
    """Returns the number of rereads and their tokens."""
    messages = [user("go"), *(message for step in steps for message in step), model("done")]
    report, _ = watched(messages, strategy, 1_000)
    assert report.collections
    assert (report.reread_tokens > 0) is (report.rereads > 0)
    return report.rereads, report.reread_tokens


def test_edit_of_a_removed_file_needs_a_reread() -> None:
    count, tokens = rereads(read("r", "a.py"), pressure(0), edit("e", "a.py"))

    assert count == 1
    assert 100 < tokens < 200


def test_several_edits_need_only_one_reread() -> None:
    steps = read("r", "a.py"), pressure(0), edit("e", "a.py"), edit("f", "a.py")

    assert rereads(*steps)[0] == 1


def test_file_that_the_recording_reads_again_needs_no_reread() -> None:
    assert rereads(read("r", "a.py"), pressure(0), read("s", "a.py"), edit("e", "a.py"))[0] == 0


def test_remaining_and_unrelated_files_need_no_reread() -> None:
    assert rereads(pressure(0), read("r", "a.py"), edit("e", "a.py"))[0] == 0
    assert rereads(read("r", "a.py"), pressure(0), edit("e", "b.py"))[0] == 0


def test_file_with_two_removed_reads_needs_one_reread() -> None:
    both = read("r", "a.py"), read("s", "./a.py")

    assert rereads(*both, pressure(0), edit("e", "a.py"))[0] == 1


def test_failed_read_needs_no_reread() -> None:
    call, _ = read("r", "a.py")
    error = ToolResult("r", "read_file", content("a.py"), is_error=True)
    failed = [call, Message(Role.TOOL, [Part(function_response=error)])]

    assert rereads(failed, pressure(0), edit("e", "a.py"))[0] == 0


def test_command_argument_tells_whether_an_editor_reads_or_edits() -> None:
    view = exchange("r", "str_replace_editor", content("a.py"), command="view", path="a.py")
    change = exchange("e", "str_replace_editor", "ok", command="str_replace", path="a.py")

    assert rereads(view, pressure(0), change)[0] == 1
    assert rereads(view, pressure(0), view, change)[0] == 0


LINES = [f"line {number} of the file" for number in range(4)]


def rereads_after(before: list[Message], removed: list[Message], added: list[Message]) -> int:
    """Returns the rereads of an edit after one collection."""
    rereads = Rereads(COUNTER)
    for message in before:
        rereads.use([message], 0)
        rereads.add(message)
    rereads.collected(removed, added)
    rereads.use(edit("e", "a.py"), 1)
    return rereads.count


@pytest.mark.parametrize(
    ("elsewhere", "count"),
    [([], 1), (LINES, 0), ([*LINES, "and one more line"], 0), (LINES[1:], 1), (LINES[:-1], 1)],
)
def test_removed_file_needs_no_reread_if_another_message_has_all_its_lines(
    elsewhere: list[str], count: int
) -> None:
    file = exchange("r", "read_file", "\n".join(LINES), path="a.py")
    other = exchange("o", "run", "\n".join(elsewhere), command="make")

    assert rereads_after([*file, *other], file, []) == count
    assert rereads_after([*other, *file], file, []) == count
    assert rereads_after([*file, *other], [*file, *other], []) == 1


@pytest.mark.parametrize(
    ("kept", "elsewhere", "count"),
    [(LINES, [], 0), (LINES[:2], [], 1), (LINES[:2], LINES[2:], 0), (LINES[:2], LINES[3:], 1)],
)
def test_shortened_file_needs_a_reread_if_a_line_of_it_stands_nowhere(
    kept: list[str], elsewhere: list[str], count: int
) -> None:
    call, result = exchange("r", "read_file", "\n".join(LINES), path="a.py")
    other = exchange("o", "run", "\n".join(elsewhere), command="make")
    answer = ToolResult("r", "read_file", "\n".join([*kept, "[some lines omitted]"]))
    shorter = replace(result, parts=[Part(function_response=answer)])

    assert rereads_after([call, result, *other], [result], [shorter]) == count


def test_file_without_telling_lines_needs_a_reread_as_soon_as_it_is_removed() -> None:
    file = exchange("r", "read_file", "{\n}\n", path="a.py")
    other = exchange("o", "run", "{\n}\n", command="make")

    assert rereads_after([*file, *other], other, []) == 0
    assert rereads_after([*file, *other], file, []) == 1


def test_parallel_reads_are_tracked_separately() -> None:
    calls = [
        Part(function_call=FunctionCall(f"r{n}", "read_file", {"path": f"{n}.py"})) for n in (1, 2)
    ]
    results = [*read("r1", "1.py", 300)[1].parts, *read("r2", "2.py", 5)[1].parts]
    parallel = [Message(Role.MODEL, calls), Message(Role.TOOL, results)]

    # The short result is not longer than its stub, so it is not shortened.
    steps = parallel, pressure(0), edit("e", "1.py"), edit("f", "2.py")
    assert rereads(*steps, strategy="clear-tool-results")[0] == 1
    assert rereads(*steps, strategy="marksweep")[0] == 2  # the whole exchange is removed
