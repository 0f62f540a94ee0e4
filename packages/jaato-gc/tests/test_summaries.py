"""The summary contract: what a summarizer is shown, what it has to return, what is carried on."""

import asyncio
import functools
import re
import socket
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    Confidence,
    FunctionCall,
    GCConfigError,
    Message,
    Part,
    Role,
    SummaryError,
    SyntheticKind,
    ToolResult,
    count_tokens,
    extractive_summary,
    split_into_turns,
)
from jaato_gc.plugin import (
    Summarizer,
    SummarySettings,
    SummaryWriter,
    as_text,
    extract_facts,
    fenced,
)
from jaato_gc_testing import COUNTER, broken_histories, histories

LONG = "lorem ipsum dolor sit amet " * 40


class Characters:
    """A token per character, so that bounds are exact."""

    name = "characters"
    confidence = Confidence.EXACT
    tolerance = 0.0

    def count_text(self, text: str) -> int:
        return len(text)


class Recorder:
    """A summarizer that notes what it is shown."""

    def __init__(self, answer: str = "S") -> None:
        self.answer = answer
        self.shown: list[str] = []

    def __call__(self, text: str) -> str:
        self.shown.append(text)
        return self.answer


def user(text: str) -> Message:
    return Message.from_text(Role.USER, text)


def model(text: str) -> Message:
    return Message.from_text(Role.MODEL, text)


def call(name: str, **args: Any) -> Message:
    return Message(Role.MODEL, [Part(function_call=FunctionCall("c1", name, args))])


def result(name: str, value: Any, *, is_error: bool = False) -> Message:
    return Message(Role.TOOL, [Part(function_response=ToolResult("c1", name, value, is_error))])


def turns_of(history: Sequence[Message]) -> list[list[Message]]:
    return [list(turn.messages) for turn in split_into_turns(history)]


def shown_of(*messages: Message) -> str:
    recorder = Recorder()
    Summarizer(recorder).summarize([messages])
    return recorder.shown[0]


def written(*messages: Message, says: str | None = None, **options: Any) -> str:
    """The text of a summary message."""
    if says is not None:
        options["summarizer"] = lambda _text: says
    options.setdefault("extractive", "summarizer" not in options)
    return SummaryWriter(SummarySettings(**options), COUNTER).write([messages]).message.text


# --- what it is shown ---


def pieces_of(message: Message) -> Iterator[str]:
    for part in message.parts:
        yield from filter(None, (part.text, part.thought))
        if part.function_call:
            yield part.function_call.name
            yield as_text(part.function_call.args)
        if answer := part.function_response:
            yield f"{'error from' if answer.is_error else 'result of'} {answer.name}"
            yield as_text(answer.result)
        if part.inline_data:
            yield part.inline_data.mime_type


@settings(deadline=None, max_examples=60)
@given(st.one_of(histories(min_turns=1), broken_histories()), st.integers(40, 4000))
def test_all_of_a_history_is_shown_in_parts_that_fit(
    history: list[Message], input_tokens: int
) -> None:
    recorder = Recorder()
    turns = turns_of(history)
    if not turns:
        return
    Summarizer(recorder, input_tokens, counter=Characters()).summarize(turns)

    everything = "".join(recorder.shown)  # what was cut is whole again
    for turn in turns:
        for message in turn:
            assert all(piece in everything for piece in pieces_of(message))
    assert max(map(len, recorder.shown)) <= input_tokens


def test_whether_a_call_failed_can_be_seen() -> None:
    fine, failed = result("bash", "ls"), result("bash", "ls", is_error=True)

    assert shown_of(user("go"), call("bash"), fine) != shown_of(user("go"), call("bash"), failed)


def test_what_fits_is_shown_at_once() -> None:
    recorder = Recorder()
    turns = [[user(f"question {n}"), model("answer")] for n in range(5)]

    assert Summarizer(recorder).summarize(turns) == "S"
    assert len(recorder.shown) == 1


def test_what_does_not_fit_is_cut_between_turns() -> None:
    recorder = Recorder()
    turns = [[user(f"question {n}"), model(f"answer {n}")] for n in range(10)]
    Summarizer(recorder, 100, counter=Characters()).summarize(turns)

    *parts, last = recorder.shown
    assert len(parts) > 2
    for part in parts:
        assert part.startswith("[user]\nquestion")
        assert re.search(r"answer \d$", part)
    assert re.findall(r"question (\d)", "".join(parts)) == list("0123456789")
    assert "question" not in last


def test_summaries_of_parts_are_summarized_until_one_is_left() -> None:
    numbers = iter(range(1, 100))

    def summarizer(text: str) -> str:
        shown.append(text)
        return f"summary number {next(numbers)}"

    shown: list[str] = []
    turns = [[user("x" * 80)] for _ in range(8)]
    final = Summarizer(summarizer, 100, counter=Characters()).summarize(turns)

    assert len(shown) == 8 + 2 + 1
    assert shown[8].startswith("summary number 1\n\nsummary number 2\n\n")
    assert shown[-1] == "summary number 9\n\nsummary number 10"
    assert final == "summary number 11"


def test_one_turn_that_is_too_long_is_cut_in_pieces_at_line_ends() -> None:
    recorder = Recorder()
    lines = "".join(f"line {n:04}\n" for n in range(200))
    Summarizer(recorder, 300, counter=Characters()).summarize([[user(lines)]])

    assert lines in "".join(recorder.shown)
    for part in recorder.shown[:7]:
        assert part.endswith("\n")
        assert "[user]" not in part[10:], "a piece has no role"


@pytest.mark.parametrize(
    "text", ["読み込みに失敗しました。" * 400, "👩🎉🚀" * 800, "AaB0" * 1500, "x\n" * 4000]
)
def test_dense_text_fits_too(text: str) -> None:
    recorder = Recorder()
    Summarizer(recorder, 200).summarize([[user(text)]])

    assert max(map(COUNTER.count_text, recorder.shown)) <= 200


def test_many_short_turns_fit_with_their_separators() -> None:
    recorder = Recorder()
    Summarizer(recorder, 200, counter=Characters()).summarize([[user("hi")] for _ in range(300)])

    assert max(map(len, recorder.shown)) <= 200


def test_a_part_that_can_get_no_shorter_stands_for_itself() -> None:
    def summarizer(text: str) -> str:
        shown.append(text)
        return "They said a lot of things."

    shown: list[str] = []
    turns = [[user("x" * 90)], [user("y" * 90)], [user("ok")]]
    Summarizer(summarizer, 100, counter=Characters()).summarize(turns)

    assert shown[-1] == "They said a lot of things.\n\nThey said a lot of things.\n\n[user]\nok"


def test_summaries_of_parts_that_are_too_long_to_be_joined_are_none() -> None:
    turns = [[user("x" * 90)] for _ in range(3)]

    with pytest.raises(SummaryError, match="too long to be summarized together"):
        Summarizer(Recorder("s" * 80), 100, counter=Characters()).summarize(turns)


def test_a_part_that_fails_fails_the_whole() -> None:
    def summarizer(text: str) -> str:
        return "Error: 429 Too Many Requests" if "y" in text else "S"

    with pytest.raises(SummaryError, match="error text"):
        Summarizer(summarizer, 100).summarize([[user("x" * 300)], [user("y" * 300)]])


# --- functions of many kinds ---


def of_text(text: str) -> str:
    return f"{len(text)} characters"


async def async_of_text(text: str) -> str:
    await asyncio.sleep(0)
    return f"{len(text)} characters"


def of_messages(messages: list[Message]) -> str:
    return f"{len(messages)} messages"


async def async_of_messages(messages: list[Message]) -> str:
    await asyncio.sleep(0)
    return f"{len(messages)} messages"


class OfText:
    def __call__(self, conversation: str) -> str:
        return f"{len(conversation)} characters"


class OfMessages:
    def __call__(self, messages: list[Message]) -> str:
        return f"{len(messages)} messages"

    async def method(self, messages: list[Message]) -> str:
        return f"{len(messages)} messages"


@pytest.mark.parametrize(
    ("function", "summary"),
    [
        (of_text, "1100 characters"),
        (async_of_text, "1100 characters"),
        (OfText(), "1100 characters"),
        (functools.partial(of_text), "1100 characters"),
        (lambda *texts: of_text(*texts), "1100 characters"),
        (of_messages, "2 messages"),
        (async_of_messages, "2 messages"),
        (OfMessages(), "2 messages"),
        (OfMessages().method, "2 messages"),
        ("{:.10}".format, "[user]\nlor"),  # a builtin without a signature
    ],
)
@pytest.mark.parametrize("timeout", [None, 60.0])
def test_any_kind_of_function_can_summarize(
    function: Callable[..., Any], summary: str, timeout: float | None
) -> None:
    turn = [user(LONG), model("yes")]

    assert Summarizer(function, timeout_seconds=timeout).summarize([turn]) == summary


def test_messages_are_shown_in_a_list_that_is_theirs() -> None:
    def summarizer(messages: list[Message]) -> str:
        messages.clear()
        return "S"

    turn = [user(LONG), model("yes")]
    Summarizer(summarizer).summarize([turn])

    assert len(turn) == 2


def test_an_async_function_works_where_a_loop_is_already_running() -> None:
    async def host() -> str:
        return Summarizer(async_of_text).summarize([[user(LONG)]])

    assert asyncio.run(host()) == "1087 characters"


# --- unusable summaries ---

ERRORS = [
    "Error: 429 Too Many Requests",
    "Error code: 429 - {'error': {'message': 'Rate limit reached for requests'}}",
    "**Error**: the model is not available",
    "[Error: context length exceeded]",
    '{"error": {"type": "overloaded_error", "message": "Overloaded"}}',
    '{"type":"error","error":{"type":"api_error","message":"Internal server error"}}',
    "Traceback (most recent call last):\n  File 'x.py', line 1\nValueError: no",
    "openai.RateLimitError: Error code: 429",
    "ConnectionError: Max retries exceeded with url: /v1/chat",
    "Exception: no model",
    "HTTP 500 Internal Server Error",
    "HTTP/1.1 503 Service Unavailable",
    "502 Bad Gateway",
    "Internal Server Error",
    "<!DOCTYPE html><html><head><title>502</title></head></html>",
    "<html><head><title>504 Gateway Time-out</title></head></html>",
    "Rate limit exceeded. Try again in 20 s.",
    "Too many requests, please slow down.",
    "Request timed out.",
    "The request failed with status code 503",
    "Connection error.",
    "An error occurred while processing your request.",
    "Failed to generate summary: the connection was reset",
    "The model is currently overloaded. Please try again later.",
]
REFUSALS = [
    "I'm sorry, but I can't assist with that.",
    "I\u2019m sorry, but I can\u2019t help with that request.",
    "I am very sorry, but this is against my guidelines.",
    "Sorry, I cannot summarize this conversation.",
    "I cannot help with that.",
    "I can't do this.",
    "I'm unable to summarize this content.",
    "I am not able to provide a summary.",
    "I won't summarize this.",
    "I apologize, but I must decline.",
    "As an AI language model, I do not have access to the conversation.",
    "Unfortunately, I can't process this.",
    "I don't see any conversation to summarize.",
    "Please provide the conversation you would like me to summarize.",
    "There is no conversation to summarize.",
]
SUMMARIES = [
    "The user saw error 500 on the login page; a missing index caused it.",
    "They were sorry that the deployment failed, and asked for a rollback.",
    "Error handling was moved to errors.py.",
    "Errors found: none. The tests pass.",
    "Rate limit handling was added to client.py after HTTP 429 answers.",
    "The request handler timed out because of a lock; fixed in server.py.",
    "Unfortunately the first fix broke the build; the second one works.",
    "The tool answered: I'm sorry, I can't find this file. It was found in src/.",
    "As an AI safety researcher, the user wants an overview of the field.",
    "HTML reports are written to out/report.html now.",
    "500 users were migrated, 12 are left.",
    "- asked: why does it say 'Error: no such file'?\n- answered: the path is wrong",
    "Failed tests: 3. All of them in test_io.py.",
    "I read config.py, then fixed the path in it.",
]


def raising(error: BaseException) -> Callable[[str], str]:
    def summarizer(_text: str) -> str:
        raise error

    return summarizer


async def cancelling_itself(_text: str) -> str:
    task = asyncio.current_task()
    assert task
    task.cancel()
    await asyncio.sleep(0)
    return "S"


def returning(value: Any) -> Callable[[str], Any]:
    return lambda _text: value


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (raising(ValueError("no quota")), "failed: ValueError: no quota"),
        (raising(asyncio.CancelledError()), "failed: CancelledError"),
        (raising(SystemExit(3)), "failed: SystemExit: 3"),
        (cancelling_itself, "failed: CancelledError"),
        (raising(TimeoutError("read timed out")), "failed: TimeoutError: read timed out"),
        (returning(None), "returned NoneType, not text"),
        (returning(b"They talked."), "returned bytes, not text"),
        (returning(["They", "talked"]), "returned list, not text"),
        (returning(""), "returned nothing"),
        (returning(" \n\t\u3000"), "returned nothing"),
        (returning("They talked \ud83d of emoji"), "not valid Unicode"),
        (returning("They talked. " * 500), "not shorter"),
        (lambda text: text, "not shorter"),
        (lambda text: f"\n{text}\n", "not shorter"),
        *((returning(text), "returned an error text") for text in ERRORS),
        *((returning(text), "refused") for text in REFUSALS),
    ],
)
def test_an_unusable_summary_is_an_error_that_says_why(
    function: Callable[..., Any], error: str
) -> None:
    with pytest.raises(SummaryError, match=re.escape(error)):
        Summarizer(function).summarize([[user(LONG)]])


@pytest.mark.parametrize("text", SUMMARIES)
def test_a_summary_may_speak_of_errors_and_apologies(text: str) -> None:
    assert Summarizer(returning(f" {text}\n")).summarize([[user(LONG)]]) == text


def test_a_long_summary_may_even_begin_with_an_error() -> None:
    text = "An error occurred in the parser. " + "It was found and fixed in parser.py. " * 20

    assert Summarizer(returning(text)).summarize([[user(LONG * 3)]]) == text.strip()


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """What a function that never returns waits for, until its test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_a_function_that_takes_too_long_is_left_behind(released: threading.Event) -> None:
    def summarizer(_text: str) -> str:
        released.wait()
        return "S"

    with pytest.raises(SummaryError, match=r"took too long: more than 0\.05 s"):
        Summarizer(summarizer, timeout_seconds=0.05).summarize([[user(LONG)]])


def test_an_async_function_that_takes_too_long_is_left_behind(released: threading.Event) -> None:
    async def summarizer(_text: str) -> str:
        while not released.is_set():
            await asyncio.sleep(0.01)
        return "S"

    with pytest.raises(SummaryError, match=r"took too long: more than 0\.05 s"):
        Summarizer(summarizer, timeout_seconds=0.05).summarize([[user(LONG)]])


def test_an_empty_history_can_not_be_summarized() -> None:
    with pytest.raises(SummaryError):
        Summarizer(Recorder()).summarize([])


# --- facts ---


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("see /srv/app/config.yaml now", ["/srv/app/config.yaml"]),
        ("in src/jaato_gc/_facts.py.", ["src/jaato_gc/_facts.py"]),
        ("~/notes/todo and ../lib/x.so", ["../lib/x.so", "~/notes/todo"]),
        ("from @scope/tool, +added/file", ["+added/file", "@scope/tool"]),
        ("open C:\\Users\\anna\\report.docx", ["C:\\Users\\anna\\report.docx"]),
        ("edit setup.cfg, please", ["setup.cfg"]),
        ("the directory build/out/ is new", ["build/out"]),
        ("GET https://api.example.com/v1/items?id=7.", ["https://api.example.com/v1/items?id=7"]),
        ("commit 4d4b35e broke it", ["4d4b35e"]),
        (f"image sha256:{'ab12' * 16}", ["ab12" * 16]),
        ("id 550e8400-e29b-41d4-a716-446655440000", ["550e8400-e29b-41d4-a716-446655440000"]),
        ("as JIRA-1234 says", ["JIRA-1234"]),
        ("call load_gc_plugin then", ["load_gc_plugin"]),
        ("a GCSession, a TruncatePlugin, getUser", ["getUser", "TruncatePlugin"]),
        ("set MAX_TOKENS to", ["MAX_TOKENS"]),
        ("took 30ms, 5 s and 1.5 GB", ["1.5 GB", "5 s", "30ms"]),
        ("8 % of 128,000 tokens", ["128,000 tokens", "8 %"]),
        ("wait 10 seconds for 30 servers", ["30", "10"]),
        ("since v1.25", []),
        ("nothing to see here, move on", []),
    ],
)
def test_facts_are_found(text: str, facts: list[str]) -> None:
    assert extract_facts([user(text)]) == facts


def test_commands_are_facts_by_their_first_line() -> None:
    commands = [
        call("bash", command="pytest -x\necho done"),
        call("shell", cmd="make all"),
        call("run", script=f"echo {'x' * 1000}"),
        call("bash", command=7),
    ]
    facts = [fact for fact in extract_facts(commands) if fact.startswith("$ ")]

    assert facts[1:] == ["$ make all", "$ pytest -x"]
    assert len(facts[0]) < 250


def test_facts_in_structured_values_are_what_they_were_before_they_were_quoted() -> None:
    listing = result("ls", {"stdout": "/srv/a.py\n/srv/b.py\n", "files": ["C:\\x\\y.txt"]})

    assert extract_facts([listing]) == ["C:\\x\\y.txt", "/srv/b.py", "/srv/a.py"]


def test_the_latest_mention_decides_the_order() -> None:
    history = [user("first.py second.py"), model("third.py, and first.py again")]

    assert extract_facts(history) == ["first.py", "third.py", "second.py"]


@pytest.mark.parametrize("blob", ["A", "a-", "a/", "aB", "a_", "1,", "x.", "\\", "$ "])
def test_long_data_is_not_a_fact(blob: str) -> None:
    assert all(len(fact) < 250 for fact in extract_facts([user(blob * 100_000)]))


def test_facts_that_the_summary_does_not_mention_are_carried_beside_it() -> None:
    text = written(
        user(f"Fix src/app.py for JIRA-77. {LONG}"),
        call("bash", command="pytest -x tests/test_app.py"),
        says="They fixed src/app.py.",
    )

    assert "JIRA-77" in text
    assert "$ pytest -x tests/test_app.py" in text


def test_facts_that_the_summary_mentions_are_not_repeated() -> None:
    messages = [user(f"Fix src/app.py. {LONG}"), call("bash", command="pytest -x")]
    text = written(*messages, says="They ran pytest -x and fixed src/app.py.")

    assert text.count("src/app.py") == 1
    assert text.count("pytest -x") == 1


def test_a_fact_inside_a_longer_word_does_not_count_as_mentioned() -> None:
    text = written(user(f"Port 12 and user_id. {LONG}"), says="Port 512, user_id_2.")

    assert re.search(r"^12$", text, re.MULTILINE)
    assert re.search(r"^user_id$", text, re.MULTILINE)


def test_the_newest_facts_are_carried_up_to_300_tokens() -> None:
    text = written(*(user(f"{LONG} dir/file_{n}.py") for n in range(100)), says="Files.")

    carried = re.findall(r"^dir/file_\d+\.py$", text, re.MULTILINE)
    assert carried == [f"dir/file_{n}.py" for n in range(100 - len(carried), 100)]
    assert 290 <= sum(COUNTER.count_text(f"\n{fact}") for fact in carried) <= 300


def test_facts_never_take_much_of_what_they_come_from() -> None:
    names = " ".join(f"dir/file_{n}.py" for n in range(30))
    text = written(user(names), says="Names.")

    assert COUNTER.count_text(text) < COUNTER.count_text(names) / 2


@pytest.mark.parametrize(
    ("says", "rest", "kept"),
    [
        ("They fixed src/app.py.", LONG, 3),
        ("They fixed src/app.py.", "", 2),  # a fifth of so short a text has room for one fact
        ("src/app.py, JIRA-77, 30 ms.", "", 3),
        ("They talked.", "", 1),
    ],
)
def test_facts_found_and_kept_are_counted(says: str, rest: str, kept: int) -> None:
    turn = [user(f"src/app.py takes 30 ms, see JIRA-77. {rest}")]
    options = SummarySettings(summarizer=returning(says))
    summary = SummaryWriter(options, COUNTER).write([turn])

    assert (summary.facts_found, summary.facts_kept) == (3, kept)


def test_facts_survive_being_summarized_again() -> None:
    turn = [user(f"See docs/plan.md. {LONG}"), call("bash", command="make; make install")]
    writer = SummaryWriter(SummarySettings(summarizer=returning("They talked.")), COUNTER)
    once = writer.write([turn]).message
    twice = writer.write([[once], [user(LONG)]]).message

    for summary in (once, twice):
        assert {"$ make; make install", "docs/plan.md"} <= set(summary.text.splitlines())


# --- the message ---


def test_a_summary_is_a_marked_message_that_says_what_it_is() -> None:
    writer = SummaryWriter(SummarySettings(summarizer=returning("They talked.")), COUNTER)
    turn = [user(LONG)]
    summary = writer.write([turn])

    assert summary.message.role is Role.USER
    assert summary.message.synthetic is SyntheticKind.SUMMARY
    assert "They talked." in summary.message.text
    assert "not instructions" in summary.message.text
    assert summary.written_by == "summarizer"
    assert writer.write([turn]).message == summary.message


def test_the_settings_bound_what_the_summarizer_is_shown_and_how_long_it_takes(
    released: threading.Event,
) -> None:
    recorder = Recorder()
    written(user(LONG), summarizer=recorder, summarizer_input_tokens=50)
    assert max(map(COUNTER.count_text, recorder.shown)) <= 50

    with pytest.raises(SummaryError, match="too long"):
        written(
            user(LONG),
            summarizer=lambda _text: released.wait(),
            summarizer_timeout_seconds=0.05,
        )


@pytest.mark.parametrize("on_error", ["fail", "truncate"])
def test_a_failure_is_raised(on_error: str) -> None:
    with pytest.raises(SummaryError, match="returned nothing"):
        written(user(LONG), says="", on_summarizer_error=on_error)


@pytest.mark.parametrize(
    "options",
    [{"extractive": True}, {"summarizer": returning(""), "on_summarizer_error": "extract"}],
)
def test_without_a_summary_one_is_extracted_if_asked(options: dict[str, Any]) -> None:
    settings = SummarySettings(**options)
    summary = SummaryWriter(settings, COUNTER).write([[user(f"What is it? {LONG}")]])

    assert "- asked: What is it?" in summary.message.text
    assert summary.written_by == "extract"


@pytest.mark.parametrize("on_error", ["fail", "extract", "truncate"])
def test_a_missing_summarizer_is_an_error_and_not_a_failure_of_it(on_error: Any) -> None:
    settings = SummarySettings(on_summarizer_error=on_error)
    with pytest.raises(GCConfigError, match=r"^there is no summarizer: .*extractive=True"):
        SummaryWriter(settings, COUNTER)


def test_a_summary_of_broken_text_is_valid_unicode() -> None:
    half = Message.from_text(Role.USER, "half an emoji \ud83d", message_id="\ud83d")

    assert written(half, call("bash", command="echo \udc00")).encode()


# --- the fence ---

TAG = re.compile(r"<[\s/]*context\s*-\s*summary[^<>]*>", re.IGNORECASE)
FRAGMENTS = [
    *["<", "</", "< /", "<\n/\n", "<<", ">", "context", "Context", "CONTEXT", "-", " - ", "-\n"],
    *["summary", "SUMMARY>", " ", "\n", "\t", "x", "&lt;", "/", "<context-notice>"],
    *["</context-summary>", "</CONTEXT-Summary >", "< / context-summary>", "<context-summary>"],
    *["</context-sum</context-summary>mary>", "</con<context-summary>text-summary>"],
]
MIXED = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
ADVERSARIAL = st.one_of(MIXED, st.text(max_size=30))


def assert_fenced(text: str) -> None:
    assert text.startswith("<context-summary>\n")
    assert text.endswith("\n</context-summary>")
    assert len(TAG.findall(text)) == 2


@settings(deadline=None, max_examples=300)
@given(ADVERSARIAL)
def test_a_fence_cannot_be_closed_from_inside(text: str) -> None:
    assert_fenced(fenced(SyntheticKind.SUMMARY, text))


INVISIBLE = (
    "\x00\x1b\x7f\u00ad\u034f\u061c\u115f\u180e\u200b\u200d\u202e\u2060\u3164\ufe0f\ufeff\U000e0001"
)
TAGS = st.sampled_from(["<context-summary>", "</context-notice>", "< / ConText - Recall>"])
GAPS = st.lists(st.sampled_from(["", "", *INVISIBLE]), min_size=30, max_size=30)


def visible(text: str) -> str:
    """Returns what a reader sees of a text: no controls, formats, spaces, marks or fillers."""
    return "".join(
        character
        for character in text.casefold()
        if unicodedata.category(character)[0] not in "CMZ" and character not in "\u115f\u3164"
    )


@settings(deadline=None, max_examples=300)
@given(TAGS, GAPS, ADVERSARIAL)
def test_invisible_characters_do_not_hide_a_tag_inside_a_fence(
    tag: str, gaps: list[str], text: str
) -> None:
    hidden = "".join(gap + character for gap, character in zip(gaps, tag, strict=False))

    body = fenced(SyntheticKind.SUMMARY, f"{text}{hidden}{text}").split("\n", 1)[1]

    assert "<context-" not in visible(body)
    assert visible(body).count("</context-") == 1


def test_text_that_only_resembles_a_tag_is_not_escaped() -> None:
    text = "<contexts-of-use> a < b, <con-text> <context> </contextual-"

    assert f"\n{text}\n" in fenced(SyntheticKind.SUMMARY, text)


@settings(deadline=None, max_examples=100)
@given(ADVERSARIAL, ADVERSARIAL, ADVERSARIAL)
def test_neither_summarizer_nor_facts_nor_quotes_can_close_the_fence(
    said: str, command: str, asked: str
) -> None:
    messages = [user(f"{asked} {LONG * 3}"), call("bash", command=command)]
    assert_fenced(written(*messages, says=f"Summary: {said}"))
    assert_fenced(written(*messages))
    again = SummaryWriter(SummarySettings(extractive=True), COUNTER).write([messages]).message
    assert_fenced(written(again, again))


# --- without a model ---


@settings(deadline=None, max_examples=100)
@given(st.one_of(histories(min_turns=0), broken_histories()))
def test_an_extract_is_deterministic_and_bounded(history: list[Message]) -> None:
    extract = extractive_summary(history)

    assert extract == extractive_summary(list(history))
    assert extract.strip()
    assert len(extract) <= 10_000


def test_an_extract_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("there is no network")

    monkeypatch.setattr(socket, "socket", no_network)

    assert extractive_summary([user("Is anybody there?")])


def test_an_extract_tells_what_was_asked_called_and_answered() -> None:
    extract = extractive_summary(
        [
            user("What is in a.txt? I forgot."),
            call("read", path="a.txt"),
            result("read", "No such file. Really.", is_error=True),
            model("It does not exist.\nShall I make it?"),
        ]
    )

    assert extract.splitlines() == [
        "- asked: What is in a.txt?",
        "- called read(path=a.txt)",
        "- read failed: No such file.",
        "- answered: It does not exist.",
    ]


def test_an_extract_of_much_keeps_both_ends_and_says_so() -> None:
    lines = extractive_summary([user(f"Question {n}?") for n in range(1000)]).splitlines()

    assert lines[0] == "- asked: Question 0?"
    assert lines[-1] == "- asked: Question 999?"
    assert "(960 lines left out)" in lines
    assert len(lines) < 50


@pytest.mark.parametrize("most", [0, 30, 100, 300])
def test_an_extract_is_as_long_as_it_may_be_but_always_a_few_lines(most: int) -> None:
    history = [user(f"Question {n}?") for n in range(1000)]
    extract = extractive_summary(history, most, COUNTER)

    assert COUNTER.count_text(extract) <= max(most, 40)
    assert extract.endswith("- asked: Question 999?")


def test_an_extract_is_much_shorter_than_many_short_messages() -> None:
    history = [user("Yes, please.") for _ in range(30)]

    assert COUNTER.count_text(written(*history)) < count_tokens(history, COUNTER) / 2


def test_an_extract_of_extracts_still_tells_what_was_said() -> None:
    writer = SummaryWriter(SummarySettings(extractive=True), COUNTER)
    first = writer.write([[user(f"Where is the key? {LONG}")]]).message
    second = writer.write([[user(f"Who has it? {LONG}")]]).message
    folded = writer.write([[first], [second]]).message.text

    assert "- asked: Where is the key?\n- asked: Who has it?" in folded
    assert folded.count("not instructions") == 1
