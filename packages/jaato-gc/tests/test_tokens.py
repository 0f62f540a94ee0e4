"""Counting tokens: what counts, how often, and with what is on the machine."""

import base64
import hashlib
import json
import math
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    Confidence,
    EstimateCounter,
    FunctionCall,
    InlineData,
    Message,
    Part,
    Role,
    TiktokenCounter,
    TokenRanksError,
    ToolResult,
    choose_counter,
    count_tokens,
    estimate_tokens,
)
from jaato_gc.plugin import (
    ESTIMATE_TOLERANCE,
    TokenCounter,
    as_text,
    image_tokens,
    message_tokens,
    shortened,
)
from jaato_gc_testing import histories

LARGEST_IMAGE = math.ceil(1568 * 1568 / 750)


class CountingCounter:
    """Counts characters, and how often it was asked."""

    confidence = Confidence.EXACT
    tolerance = 0.0

    def __init__(self, name: str = "characters") -> None:
        self.name = name
        self.asked: list[str] = []

    def count_text(self, text: str) -> int:
        self.asked.append(text)
        return len(text)


def tokens_of(part: Part) -> int:
    """What a part adds to its message, counted in characters."""
    counter = CountingCounter()
    alone = message_tokens(Message(Role.MODEL, []), counter)
    return message_tokens(Message(Role.MODEL, [part]), counter) - alone


# --- counters ---


def test_the_estimate_is_a_counter_that_says_how_far_it_may_be_off() -> None:
    counter = EstimateCounter()

    assert isinstance(counter, TokenCounter)
    assert counter.confidence is Confidence.ESTIMATED
    assert counter.tolerance == ESTIMATE_TOLERANCE
    assert counter.count_text("some words") == estimate_tokens("some words")


@pytest.fixture(scope="module")
def exact() -> TiktokenCounter:
    try:
        return TiktokenCounter()
    except TokenRanksError as error:
        pytest.skip(str(error))


def test_tiktoken_counts_exactly(exact: TiktokenCounter) -> None:
    assert isinstance(exact, TokenCounter)
    assert (exact.confidence, exact.tolerance) == (Confidence.EXACT, 0.0)
    assert exact.count_text("hello world") == 2
    assert exact.count_text("") == 0


def test_special_token_text_is_text(exact: TiktokenCounter) -> None:
    for counter in (exact, EstimateCounter()):
        assert counter.count_text("<|endoftext|>") > 1
        assert counter.count_text("<|im_start|>system<|im_end|>") > 3


@given(st.text(st.characters(exclude_categories=())))
@settings(deadline=None)
def test_any_text_can_be_counted_exactly(exact: TiktokenCounter, text: str) -> None:
    assert exact.count_text(text) >= bool(text)


def test_a_model_of_this_encoding_is_counted_exactly(exact: TiktokenCounter) -> None:
    chosen = choose_counter("gpt-4")

    assert (chosen.name, chosen.confidence) == (exact.name, Confidence.EXACT)


@pytest.mark.parametrize("model", [None, "claude-sonnet-4", "gemini-2.5-flash"])
def test_a_model_of_an_unknown_encoding_is_only_estimated(
    exact: TiktokenCounter, model: str | None
) -> None:
    chosen = choose_counter(model)

    assert chosen.name == exact.name
    assert chosen.confidence is Confidence.ESTIMATED
    assert chosen.tolerance > 0


def test_unknown_encodings_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(TokenRanksError, match=r"get_encoding\('no_such_base'\)") as raised:
        TiktokenCounter("no_such_base")
    assert "[offline]" not in str(raised.value)  # it has another encoding


# --- counting with what is on the machine; in a process of its own, where nothing is loaded yet ---

WITHOUT_NETWORK = """
import json, logging, socket
import tiktoken
from jaato_gc import choose_counter

def refuse(*args, **kwargs):
    raise AssertionError("a socket was opened")

socket.socket = socket.create_connection = socket.getaddrinfo = refuse
names = [name for name in tiktoken.list_encoding_names() if not name.endswith("_offline")]
tiktoken.list_encoding_names = lambda: names
lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
logging.getLogger("jaato_gc").addHandler(handler)
models = [None, "gpt-4", "gpt-4o", "claude-sonnet-4", "gpt-4"]
print(json.dumps({"counters": [choose_counter(model).name for model in models], "lines": lines}))
"""
CL100K_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"


def choose_without_network(**environment: str) -> tuple[list[str], list[str]]:
    inherited = {
        key: value
        for key, value in os.environ.items()
        if key not in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
    }
    command = [sys.executable, "-c", WITHOUT_NETWORK]
    answer = json.loads(subprocess.check_output(command, env=inherited | environment))
    return answer["counters"], answer["lines"]


def assert_estimates_after_one_line(counters: list[str], lines: list[str]) -> None:
    assert set(counters) == {"estimate"}
    [line] = lines
    assert "jaato-gc[offline]" in line


def test_without_ranks_tokens_are_estimated_after_one_log_line(tmp_path: Path) -> None:
    assert_estimates_after_one_line(*choose_without_network(TIKTOKEN_CACHE_DIR=str(tmp_path)))


def test_damaged_ranks_are_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / CL100K_FILE).write_bytes(b"IQ== 0\nIg== 1\n")

    assert_estimates_after_one_line(*choose_without_network(TIKTOKEN_CACHE_DIR=str(tmp_path)))


@pytest.fixture(scope="module")
def rank_file(exact: TiktokenCounter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that tiktoken would download, written from the ranks that are installed."""
    ranks = exact._encoding._mergeable_ranks
    lines = [
        b"%s %d\n" % (base64.b64encode(token), rank)
        for token, rank in sorted(ranks.items(), key=lambda item: item[1])
    ]
    folder = tmp_path_factory.mktemp("ranks") / "data-gym-cache"
    folder.mkdir()
    file = folder / CL100K_FILE
    file.write_bytes(b"".join(lines))
    if not hashlib.sha256(file.read_bytes()).hexdigest().startswith("223921b7"):
        pytest.skip("the installed ranks are not those that tiktoken downloads")
    return file


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_downloaded_ranks_are_used(rank_file: Path, variable: str) -> None:
    counters, _ = choose_without_network(**{variable: str(rank_file.parent)})

    assert set(counters) == {"tiktoken:cl100k_base"}


def test_ranks_are_not_looked_for_where_tiktoken_was_told_to_keep_none(rank_file: Path) -> None:
    environment = {"TMPDIR": str(rank_file.parent.parent), "TIKTOKEN_CACHE_DIR": ""}

    assert_estimates_after_one_line(*choose_without_network(**environment))


def test_importing_core_does_not_load_tiktoken() -> None:
    script = "import sys, jaato_gc; print('tiktoken' in sys.modules)"

    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False\n"


# --- one message is counted once ---


def test_a_message_is_tokenised_once_per_counter() -> None:
    message = Message.from_text(Role.USER, "hello")
    first, second = CountingCounter("first"), CountingCounter("second")

    assert message_tokens(message, first) == message_tokens(message, first)
    assert first.asked == ["hello"]
    message_tokens(message, second)
    assert second.asked == ["hello"]


def test_counters_of_one_name_share_their_counts() -> None:
    message = Message.from_text(Role.USER, "hello")
    first, second = CountingCounter(), CountingCounter()

    assert message_tokens(message, first) == message_tokens(message, second)
    assert second.asked == []


def test_a_changed_message_is_counted_again() -> None:
    counter = CountingCounter()
    message = Message.from_text(Role.USER, "hello")
    before = message_tokens(message, counter)

    after = message_tokens(message.with_parts([Part(text="hi")]), counter)
    assert before - after == len("hello") - len("hi")


@settings(deadline=None, max_examples=50)
@given(histories(min_turns=0))
def test_a_total_is_the_sum_of_its_messages_and_costs_nothing_the_second_time(
    history: list[Message],
) -> None:
    counter = CountingCounter()
    total = count_tokens(history, counter)
    asked = len(counter.asked)

    assert total == sum(message_tokens(message, counter) for message in history)
    assert count_tokens(reversed(history), counter) == total
    assert len(counter.asked) == asked


# --- what counts ---


def test_an_empty_message_costs_its_frame() -> None:
    assert message_tokens(Message(Role.USER, [])) > 0


def test_text_and_thoughts_count() -> None:
    assert tokens_of(Part(text="four")) == 4
    assert tokens_of(Part(thought="three")) == 5
    assert tokens_of(Part(text="four", thought="three")) == 9


def test_names_and_arguments_of_calls_count() -> None:
    short = tokens_of(Part(function_call=FunctionCall("c", "bash", {})))

    assert short > len("bash")
    assert tokens_of(Part(function_call=FunctionCall("c", "bash_2", {}))) == short + 2
    argued = tokens_of(Part(function_call=FunctionCall("c", "bash", {"a": "x" * 100})))
    assert argued >= short + 100


@pytest.mark.parametrize("result", ["x" * 100, {"a": "x" * 100}, ["x" * 100], [{"a": ["x" * 100]}]])
def test_results_count(result: Any) -> None:
    assert tokens_of(Part(function_response=ToolResult("c", "bash", result))) >= 100


def test_non_ascii_arguments_count_as_the_text_they_are() -> None:
    assert as_text({"a": "日本"}) == '{"a":"日本"}'


def test_clearing_a_long_result_makes_a_message_cheaper() -> None:
    part = Part(function_response=ToolResult("c", "bash", "x" * 1000))
    message = Message(Role.TOOL, [part])

    assert count_tokens([shortened(message)]) < count_tokens([message])


# --- odd tool results ---


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {"text": "x" * 50}
    value["itself"] = value
    return value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "result",
    [
        None,
        endless(),
        b"\xff\x00raw",
        {"body": b"\xff"},
        {(1, 2): "odd key", frozenset(): 1},
        nested(200),
        nested(100_000),
        float("nan"),
        {1, 2},
        object(),
        Unprintable(),
        {"inside": Unprintable()},
        "\ud800",
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_tool_result_can_be_counted(result: Any) -> None:
    message = Message(Role.TOOL, [Part(function_response=ToolResult("c", "bash", result))])

    assert message_tokens(message) > 0
    assert message_tokens(shortened(message)) > 0


def test_what_a_cycle_holds_still_counts() -> None:
    assert tokens_of(Part(function_response=ToolResult("c", "bash", endless()))) >= 50


# --- images ---


def png(width: int, height: int) -> bytes:
    header = struct.pack(">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + header + b"\0\0\0\0"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0)


def jpeg(width: int, height: int) -> bytes:
    preface = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0\1\1\0\0\1\0\1\0\0"
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\1\x22\0" * 3
    return b"\xff\xd8" + preface + frame + b"\xff\xd9"


FORMATS = [png, gif, jpeg]


def image(data: bytes | str | None = None, **fields: Any) -> InlineData:
    return InlineData("image/png", data, **fields)


@pytest.mark.parametrize("encode", FORMATS)
def test_an_image_costs_its_area_not_its_payload(encode: Any) -> None:
    small, large = encode(750, 400), encode(750, 400) + bytes(500_000)

    assert image_tokens(image(small)) == image_tokens(image(large)) == 400


@pytest.mark.parametrize("encode", FORMATS)
def test_an_image_may_come_as_base64_or_data_uri(encode: Any) -> None:
    text = base64.b64encode(encode(1500, 500)).decode()

    assert image_tokens(image(text)) == 1000
    assert image_tokens(image(text.rstrip("="))) == 1000
    assert image_tokens(image(f"data:image/png;base64,{text}")) == 1000


def test_base64_may_be_broken_into_lines() -> None:
    payload = base64.encodebytes(png(1500, 500) + bytes(200_000)).decode()

    assert image_tokens(image(payload)) == 1000


def test_given_dimensions_need_no_payload() -> None:
    assert image_tokens(image(width=750, height=400)) == 400
    assert image_tokens(image(png(10, 10), width=750, height=400)) == 400
    assert image_tokens(image(uri="https://example.com/a.png", width=750, height=400)) == 400


def test_a_large_image_is_scaled_down_first() -> None:
    assert image_tokens(image(png(15680, 15680))) == LARGEST_IMAGE
    assert image_tokens(image(png(3136, 1568))) == math.ceil(1568 * 784 / 750)


def test_no_image_is_free() -> None:
    assert 0 < image_tokens(image(png(1, 1))) < 100


@pytest.mark.parametrize(
    "data",
    [None, b"", "", b"nonsense", "not base64 at all!", "data:image/png;base64,", "data:,", "日本"],
)
def test_an_image_of_unknown_size_counts_as_the_largest(data: bytes | str | None) -> None:
    assert image_tokens(image(data)) == LARGEST_IMAGE


@pytest.mark.parametrize(
    "data",
    [
        png(2**32 - 1, 2**32 - 1),
        png(2**32 - 1, 1),
        png(0, 100),
        png(100, 0),
        png(100, 100)[:20],
        gif(0, 0),
        jpeg(100, 100)[:6],
        b"\xff\xd8" + b"\xff\xe0\0\0" * 2_000,
        b"\xff\xd8" + b"\xff" * 100_000,
        b"<svg xmlns='http://www.w3.org/2000/svg' width='nan' height='-5'/>",
        b"<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY a 'aaaa'>]><svg width='&a;' height='1'/>",
        b"II*\0" + b"\xff" * 60,
        b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(40),
        b"P6\n99999999999999999999 1\n255\n",
    ],
)
def test_a_hostile_header_costs_no_more_than_the_largest_image(data: bytes) -> None:
    assert 0 < image_tokens(image(data)) <= LARGEST_IMAGE
    assert image_tokens(image(base64.b64encode(data).decode())) == image_tokens(image(data))


@settings(deadline=None)
@given(st.sampled_from([b"", png(9, 9)[:12], gif(9, 9)[:6], jpeg(9, 9)[:4], b"BM"]), st.binary())
def test_no_payload_trips_the_counting(start: bytes, rest: bytes) -> None:
    assert 0 < image_tokens(image(start + rest)) <= LARGEST_IMAGE


def test_images_in_messages_count() -> None:
    assert tokens_of(Part(inline_data=image(png(750, 400)))) == 400


def test_a_cleared_attachment_costs_less() -> None:
    parts = [
        Part(function_response=ToolResult("c", "screenshot", "taken")),
        Part(inline_data=image(png(1500, 1000))),
    ]
    message = Message(Role.TOOL, parts)

    assert count_tokens([shortened(message)]) < 100
    assert shortened(shortened(message)) == shortened(message)
