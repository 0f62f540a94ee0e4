"""What was lost: against a plain look at every request, and by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab_runs import STRATEGIES, exchange, filler, model, user
from lab_runs import watched_replay as watched

from jaato_gc import FunctionCall, Message, Part, Role, as_text
from jaato_gc_lab import ReplayReport, sample_conversation
from jaato_gc_lab._regret import names_in
from jaato_gc_lab._replay import sendable

SAMPLE = sample_conversation()


def shown_by(messages: list[Message]) -> set[str]:
    """The names in some messages."""
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


def check_by_looking(
    messages: list[Message], report: ReplayReport, sent: list[list[Message]]
) -> None:
    """Every name that an answer has, that was told before, and that its request did not show."""
    lost: list[tuple[str, int]] = []
    used = 0
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
        said = [
            message.with_parts([part for part in message.parts if part.thought is None])
            for message in messages[position:end]
        ]
        names = shown_by(said) & shown_by(messages[:position])
        used += len(names)
        lost += [(name, request) for name in sorted(names - shown_by(sent[request]))]
        position = end
    assert report.names_used == used
    assert [(loss.name, loss.request) for loss in report.losses] == lost
    for loss in report.losses:
        assert report.collections[loss.removed_at].request <= loss.request


@pytest.mark.parametrize("strategy", ["none", *STRATEGIES])
def test_losses_are_what_a_look_at_every_request_finds(strategy: str) -> None:
    report, sent = watched(SAMPLE, strategy, 12_000)

    check_by_looking(sendable(SAMPLE.messages), report, sent)
    assert bool(report.losses) is (strategy != "none")
    assert 0 <= report.regret < 1


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
def test_losses_of_any_run(texts: list[tuple[str, str, str]], strategy: str, limit: int) -> None:
    messages = []
    for number, (asked, result, said) in enumerate(texts):
        messages.append(user(f"and {asked}"))
        messages += exchange(f"c{number}", "look", f"it is {result} {filler(15)}", at=asked)
        messages.append(model(f"well {said}"))

    report, sent = watched(messages, strategy, limit)

    check_by_looking(sendable(messages), report, sent)


def test_a_name_is_lost_once_however_often_it_is_said() -> None:
    told = user("look at src/harbour/berths.py please")
    more = [message for _ in range(8) for message in (user(filler(100)), model(filler(60)))]
    said = [
        message
        for _ in range(3)
        for message in (user("and?"), model("It is in src/harbour/berths.py."))
    ]

    report, _ = watched(
        [user("hello"), model("hi"), told, model("yes"), *more, *said], "truncate", 900
    )

    assert [loss.name for loss in report.losses] == ["src/harbour/berths.py"]
    assert report.names_used == 3
    assert report.regret == pytest.approx(1 / 3)


def test_a_name_that_is_told_again_is_not_lost() -> None:
    told = [user("it is src/harbour/berths.py"), model("yes")]
    more = [message for _ in range(8) for message in (user(filler(100)), model(filler(60)))]
    again = [user("I said src/harbour/berths.py"), model("So src/harbour/berths.py it is.")]

    report, _ = watched([user("hello"), model("hi"), *told, *more, *again], "truncate", 900)

    assert report.collections
    assert report.losses == []
    assert report.names_used == 1


def test_a_name_that_the_model_says_first_is_no_loss() -> None:
    report, _ = watched([user("hello"), model("I shall make src/new_file.py")], "truncate", 900)

    assert (report.losses, report.names_used) == ([], 0)


def test_arguments_of_calls_are_uses_and_numbers_are_names() -> None:
    messages = [
        user("hello"), model("hi"), user("the fee is 4127 and the port 88213"), model("yes"),
        *(message for _ in range(8) for message in (user(filler(100)), model(filler(60)))),
        user("book it"), *exchange("c", "book", "done", fee=4127, to={"ports": ["88213"]}),
        model("done"),
    ]  # fmt: skip

    report, _ = watched(messages, "truncate", 900)

    assert [loss.name for loss in report.losses] == ["4127", "88213"]


def test_what_a_stub_or_a_summary_still_shows_is_not_lost() -> None:
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


def test_names() -> None:
    text = "see ./src/a.py:12, callSign, HB-4127 on 2026-03-29 at 02:30; 1,5 or 12; or snake_case."

    assert names_in(text) == {
        "src/a.py:12", "callSign", "HB-4127", "2026-03-29", "02:30", "snake_case",
    }  # fmt: skip
    assert names_in("these are plain words, 123 and 99") == frozenset()


# --- files to read again ---


def read(call_id: str, path: str, words: int = 150) -> list[Message]:
    return exchange(call_id, "read_file", filler(words), path=path)


def edit(call_id: str, path: str) -> list[Message]:
    return exchange(call_id, "edit_file", "changed", path=path, old="a", new="b")


def pressure(first: int) -> list[Message]:
    return [
        message
        for number in range(first, first + 6)
        for message in exchange(f"p{number}", "run", filler(150), command="make")
    ]


def rereads(*steps: list[Message], strategy: str = "budget") -> tuple[int, int]:
    """How many reads, and whether a collection had taken anything."""
    messages = [user("go"), *(message for step in steps for message in step), model("done")]
    report, _ = watched(messages, strategy, 1_000)
    assert report.collections
    assert (report.reread_tokens > 0) is (report.rereads > 0)
    return report.rereads, report.reread_tokens


def test_an_edit_of_a_file_whose_read_was_taken_needs_another() -> None:
    count, tokens = rereads(read("r", "a.py"), pressure(0), edit("e", "a.py"))

    assert count == 1
    assert 100 < tokens < 200


def test_one_read_does_for_several_edits() -> None:
    steps = read("r", "a.py"), pressure(0), edit("e", "a.py"), edit("f", "a.py")

    assert rereads(*steps)[0] == 1


def test_what_the_recording_reads_again_itself_is_not_missing() -> None:
    assert rereads(read("r", "a.py"), pressure(0), read("s", "a.py"), edit("e", "a.py"))[0] == 0


def test_what_is_still_there_need_not_be_read_again() -> None:
    assert rereads(pressure(0), read("r", "a.py"), edit("e", "a.py"))[0] == 0
    assert rereads(read("r", "a.py"), pressure(0), edit("e", "b.py"))[0] == 0


def test_a_file_that_was_shown_twice_is_gone_when_both_are() -> None:
    both = read("r", "a.py"), read("s", "./a.py")

    assert rereads(*both, pressure(0), edit("e", "a.py"))[0] == 1


def test_a_read_that_failed_showed_nothing() -> None:
    failed = read("r", "a.py")
    failed[1].parts[0].function_response.is_error = True  # type: ignore[union-attr]

    assert rereads(failed, pressure(0), edit("e", "a.py"))[0] == 0


def test_editors_that_do_several_things_are_told_by_their_command() -> None:
    view = exchange("r", "str_replace_editor", filler(150), command="view", path="a.py")
    change = exchange("e", "str_replace_editor", "ok", command="str_replace", path="a.py")

    assert rereads(view, pressure(0), change)[0] == 1
    assert rereads(view, pressure(0), view, change)[0] == 0


def test_of_parallel_reads_only_those_that_were_taken_are_missing() -> None:
    calls = [
        Part(function_call=FunctionCall(f"r{n}", "read_file", {"path": f"{n}.py"})) for n in (1, 2)
    ]
    results = [*read("r1", "1.py", 300)[1].parts, *read("r2", "2.py", 5)[1].parts]
    parallel = [Message(Role.MODEL, calls), Message(Role.TOOL, results)]

    # The short result is no longer than its stub, so it stays.
    steps = parallel, pressure(0), edit("e", "1.py"), edit("f", "2.py")
    assert rereads(*steps, strategy="marksweep")[0] == 1
