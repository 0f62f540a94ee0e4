"""OpenAI Chat Completions: lossless round trips, valid requests, predicted refusals."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    InlineData,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    check_history,
    message_from_dict,
    message_to_dict,
    repair_history,
    split_into_turns,
)
from jaato_gc import FunctionCall as Call
from jaato_gc.plugin import Shortening, message_tokens, shortened
from jaato_gc_formats import FormatError
from jaato_gc_formats._openai_chat import OpenAIChat
from jaato_gc_formats._wire import READ_AS

Item = dict[str, Any]
TRANSCRIPTS = Path(
    os.environ.get("JAATO_GC_TRANSCRIPTS")
    or Path(__file__).parents[3].parent / "shared" / "transcripts"
)
NEEDS_TRANSCRIPTS = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason=f"no recorded transcripts in {TRANSCRIPTS}"
)
API = OpenAIChat()
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg=="
)
IMAGE_URL = f"data:image/png;base64,{PIXEL}"
USER = {"role": "user", "content": "Go on."}


def call(call_id: str = "call_1", args: str = '{"path":"a"}', **fields: Any) -> Item:
    function = {"name": "read", "arguments": args}
    return {"id": call_id, "type": "function", "function": function, **fields}


def calling(*calls: Item, **fields: Any) -> Item:
    return {"role": "assistant", "tool_calls": list(calls), **fields}


def result(call_id: str = "call_1", content: Any = "contents", **fields: Any) -> Item:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **fields}


EXCHANGES: dict[str, list[Item]] = {
    "texts": [
        {"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."},
        USER, {"role": "assistant", "content": "Yes.", "name": "helper"},
    ],
    "lists": [
        {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I can't."}]},
    ],
    "attachments": [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": IMAGE_URL, "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"filename": "a", "file_data": "data:a/b;base64,AA"}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
            ],
        },
    ],
    "parallel calls": [
        USER, calling(call(), call("call_2", '{ "path": "b" }'), content=None),
        result(), result("call_2", [{"type": "text", "text": "two"}], name="read"),
        {"role": "assistant", "content": "Done.", "refusal": None, "annotations": []},
    ],
    "ids used again": [USER, calling(call()), result(), calling(call()), result(content="other")],
    "odd arguments": [
        USER, calling(call(args="{broken"), call("call_2", ""), content=""),
        result(), result("call_2", ""),
    ],
    "custom tool": [
        USER,
        calling({"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}),
        result("c"),
    ],
    "legacy function call": [
        USER,
        {
            "role": "assistant", "content": None,
            "function_call": {"name": "read", "arguments": "{}"},
        },
        {"role": "function", "name": "read", "content": "contents"},
    ],
    "thoughts": [
        USER, calling(call(), reasoning_content="Let me see.", content=""), result(),
        {"role": "assistant", "content": "Done.", "reasoning": "I know."},
    ],
    "refused": [USER, {"role": "assistant", "content": None, "refusal": "I can't."}],
    "result with an image": [
        USER, calling(call()),
        result(content=[
            {"type": "text", "text": "seen"},
            {"type": "image_url", "image_url": {"url": IMAGE_URL}},
        ]),
    ],
    "signed call": [
        USER,
        calling(call(args='{"a":"' + "x" * 400 + '"}', extra_content={"thought_signature": "s"})),
        result(),
    ],
}  # fmt: skip
every_exchange = pytest.mark.parametrize("items", EXCHANGES.values(), ids=EXCHANGES)


def written_after_restoring(messages: list[Message]) -> list[Any]:
    """Writes messages after saving and restoring them, which drops their original objects."""
    saved = json.loads(json.dumps([message_to_dict(message) for message in messages]))
    return API.write([message_from_dict(each) for each in saved])


def rules(messages: list[Item]) -> list[tuple[str, str]]:
    return [(each.rule, each.message) for each in API.check({"messages": messages})]


class TestRoundTrip:
    @every_exchange
    def test_unchanged_messages_are_written_as_the_original_objects(
        self, items: list[Item]
    ) -> None:
        back = API.write(API.to_history(items))

        assert all(one is other for one, other in zip(back, items, strict=True))

    @every_exchange
    def test_saved_and_restored_messages_are_written_unchanged(self, items: list[Item]) -> None:
        history = API.to_history(items)

        assert written_after_restoring(history) == items
        assert not check_history(history)
        assert not rules(items)

    @every_exchange
    def test_the_api_accepts_shortened_messages(self, items: list[Item]) -> None:
        for how in (Shortening(), Shortening(what="arguments"), Shortening(head=2, tail=2)):
            after = written_after_restoring(
                [shortened(message, how) for message in API.to_history(items)]
            )
            assert not rules(after)
            assert [each["role"] for each in after] == [each["role"] for each in items]
            assert written_after_restoring(API.to_history(after)) == after

    def test_a_removed_image_in_a_result_becomes_a_text(self) -> None:
        items = EXCHANGES["result with an image"]

        after = written_after_restoring([shortened(message) for message in API.to_history(items)])

        assert [block["type"] for block in after[2]["content"]] == ["text", "text"]
        assert PIXEL not in json.dumps(after)

    def test_signed_calls_are_never_shortened(self) -> None:
        items = EXCHANGES["signed call"]
        how = Shortening(what="arguments")

        assert (
            written_after_restoring([shortened(message, how) for message in API.to_history(items)])
            == items
        )


class TestAnswers:
    def test_the_first_choice_of_a_response_is_its_only_item(self) -> None:
        message = {"role": "assistant", "content": "{}", "parsed": {"a": 1}}
        answer = {"choices": [{"message": message}], "usage": {"prompt_tokens": 3}}

        assert API.answer_items(answer) == [{"role": "assistant", "content": "{}"}]
        assert API.answer_items({"choices": []}) == []
        assert API.answer_items(message) == [message]

    def test_sdk_objects_are_written_as_the_original_objects(self) -> None:
        chat = pytest.importorskip("openai.types.chat", reason="openai is not installed")
        asked = chat.ChatCompletionMessage.model_validate(calling(call(), content=None))

        history = API.to_history([USER, asked, result()])

        assert API.write(history)[1] is asked
        assert written_after_restoring(history) == [USER, calling(call(), content=None), result()]

    def test_fields_added_by_the_sdks_parse_are_not_written(self) -> None:
        chat = pytest.importorskip("openai.types.chat", reason="openai is not installed")
        asked = chat.ParsedChatCompletionMessage(role="assistant", content="{}", parsed={"a": 1})

        [item] = written_after_restoring(API.to_history([asked]))

        assert "parsed" not in item


class TestForeign:
    """Messages that were read from another format or created by core."""

    CALLED = Message(Role.MODEL, [Part(function_call=Call("c", "look", {"at": "a"}))])
    ASKED = Message.from_text(Role.USER, "?")

    def written(self, *messages: Message) -> list[Item]:
        items = API.write(messages)
        assert not rules(items)
        return items

    def test_messages_created_by_core_are_written_as_text(self) -> None:
        system = Message.from_text(Role.SYSTEM, "Be brief.")
        summary = Message.from_text(Role.USER, "So far.", synthetic=SyntheticKind.SUMMARY)

        assert self.written(system, summary) == [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "So far."},
        ]  # fmt: skip

    def test_thoughts_of_other_providers_are_not_written(self) -> None:
        thought = Part(thought="hm", extra={"signature": "s"})
        foreign = Message(Role.MODEL, [thought, Part(text="a")], extra={READ_AS: "anthropic"})
        silent = Message(Role.MODEL, [thought], extra={READ_AS: "anthropic"})

        items = self.written(self.ASKED, foreign, silent)

        assert items[1:] == [{"role": "assistant", "content": "a"}]

    def test_each_result_of_a_message_is_written_as_a_tool_message(self) -> None:
        calls = Message(Role.MODEL, [Part(function_call=Call(n, "look")) for n in "ab"])
        results = [Part(function_response=ToolResult(n, "look", {"of": n})) for n in "ab"]

        items = self.written(
            self.ASKED, calls, Message(Role.USER, [*results, Part(text="And now?")])
        )

        assert items[2:] == [
            result("a", '{"of":"a"}'), result("b", '{"of":"b"}'),
            {"role": "user", "content": "And now?"},
        ]  # fmt: skip

    def test_calls_without_ids_and_their_results_get_equal_ids(self) -> None:
        calls = [Part(function_call=Call(None, "look", {"at": n})) for n in range(2)]
        results = [Part(function_response=ToolResult(None, "look", f"r{n}")) for n in range(2)]
        turns = [Message(*said) for said in [(Role.MODEL, calls), (Role.USER, results)] * 2]

        items = self.written(self.ASKED, *turns)

        ids = [each["id"] for item in items for each in item.get("tool_calls", ())]
        assert ids == [item["tool_call_id"] for item in items if item["role"] == "tool"]
        assert len(set(ids)) == 4
        assert [item["content"] for item in items if item["role"] == "tool"] == ["r0", "r1"] * 2

    def test_images_in_results_are_written_after_all_results(self) -> None:
        image = Part(inline_data=InlineData("image/png", data=PIXEL), extra={"inside": True})
        calls = Message(Role.MODEL, [Part(function_call=Call(n, "look")) for n in "ab"])
        answers = [
            Message(Role.TOOL, [Part(function_response=ToolResult(n, "look", "seen")), image])
            for n in "ab"
        ]

        items = self.written(self.ASKED, calls, *answers, Message.from_text(Role.MODEL, "I see."))

        assert items[2:4] == [result("a", "seen"), result("b", "seen")]
        shown = {"type": "image_url", "image_url": {"url": IMAGE_URL}}
        assert items[4] == {"role": "user", "content": [shown, shown]}

    def test_a_removed_image_in_a_foreign_result_becomes_a_text(self) -> None:
        image = Part(inline_data=InlineData("image/png", data=PIXEL), extra={"inside": True})
        answered = Message(Role.TOOL, [Part(function_response=ToolResult("c", "look", "")), image])

        items = self.written(self.ASKED, self.CALLED, shortened(answered))

        assert len(items) == 3
        assert {block["type"] for block in items[2]["content"]} == {"text"}

    def test_attachments_are_written_only_to_user_messages(self) -> None:
        pdf = Part(inline_data=InlineData("application/pdf", data=b"1"))
        far = Part(inline_data=InlineData("image/png", uri="gs://bucket/a.png"))
        lost = Part(inline_data=InlineData("image/png"))
        image = Part(inline_data=InlineData("image/png", data=PIXEL))

        asked, answered = self.written(
            Message(Role.USER, [pdf, far, lost, image]), Message(Role.MODEL, [image])
        )

        assert [block["type"] for block in asked["content"]] == [
            "file",
            "text",
            "text",
            "image_url",
        ]
        assert answered["content"] == "[image/png attachment that can't be shown here]"

    def test_failed_results_are_written_as_their_text(self) -> None:
        failed = Part(function_response=ToolResult("c", "look", "no such file", is_error=True))

        items = self.written(self.ASKED, self.CALLED, Message(Role.TOOL, [failed]))

        assert items[2] == result("c", "no such file")

    def test_the_api_accepts_a_repaired_history(self) -> None:
        broken = API.to_history([USER, calling(call(), call("call_2")), result(), USER])

        assert not rules(API.write(repair_history(broken)))


class TestRecognition:
    @pytest.mark.parametrize(
        "data",
        [
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}],
            [{"role": "user", "content": [{"type": "image", "source": {}}]}],
            [{"role": "assistant", "content": [{"type": "thinking", "thinking": ""}]}],
            [{"role": "user", "content": [{"type": "input_text", "text": ""}]}],
            [{"type": "function_call", "call_id": "c"}],
            [{"role": "user", "content": "Hi", "type": "message"}],
            [{"role": "user", "parts": [{"text": "Hi"}]}],
            [{"role": "toolResult", "content": "Hi"}],
            [],
            ["text"],
        ],
    )
    def test_messages_of_other_apis_are_not_recognized(self, data: list[Any]) -> None:
        assert API.recognize(data) == 0.0

    @pytest.mark.parametrize(
        "data",
        [
            [USER, calling({"id": "a", "name": "b", "arguments": {}})],
            [USER, {"role": "tool", "id": "a", "content": ""}],
            [{**USER, "agent": "main", "message_type": "observation"}, calling(call())],
            [USER],
        ],
    )
    def test_dialects_are_recognized_with_low_confidence(self, data: list[Any]) -> None:
        assert 0.5 <= API.recognize(data) <= 0.6

    @every_exchange
    def test_chat_messages_are_recognized(self, items: list[Item]) -> None:
        roles = {item["role"] for item in items}
        is_plain = roles <= {"user", "assistant"} and "tool_calls" not in json.dumps(items)

        assert API.recognize(items) == (0.55 if is_plain else 0.95)
        assert API.recognize([{"messages": items, "model": "m"}]) == API.recognize(items)


REFUSED: dict[str, tuple[list[Item], str, str]] = {
    "orphaned tool message": (
        [USER, result()], "orphaned_result",
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'",
    ),
    "dangling tool_calls": (
        [USER, calling(call(), call("call_2")), result("call_2"), USER], "dangling_call",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1",
    ),
    "result before its call": (
        [USER, result(), calling(call()), result()], "orphaned_result", "preceeding message",
    ),
    "answered twice": (
        [USER, calling(call()), result(), result()], "duplicate_ids",
        "Duplicate value for 'tool_call_id' of 'call_1', in messages[2] and messages[3]",
    ),
    "same id twice": ([USER, calling(call(), call()), result()], "duplicate_ids", "'id'"),
    "no messages": ([], "no_messages", "empty array"),
    "null content": ([{"role": "user", "content": None}], "empty_content", "got null"),
    "silent assistant": ([USER, {"role": "assistant"}], "empty_content", "got null"),
    "empty content": ([{"role": "user", "content": []}], "empty_content", "messages[0].content"),
    "no calls": (
        [USER, calling(content="")], "empty_calls", "Invalid 'messages[1].tool_calls': empty array",
    ),
    "function without a name": (
        [USER, {"role": "function", "content": ""}], "missing_name",
        "messages with role 'function' must have a 'name'",
    ),
    "function call in a user message": (
        [{**USER, "function_call": {"name": "f", "arguments": "{}"}}], "wrong_role",
        "only messages with role 'assistant' can have a function call",
    ),
    "unknown role": ([{"role": "critic", "content": ""}], "unknown_role", "'critic'"),
}  # fmt: skip


class TestRules:
    @pytest.mark.parametrize(("messages", "rule", "phrase"), REFUSED.values(), ids=REFUSED)
    def test_each_broken_rule_reports_the_error_message_of_the_api(
        self, messages: list[Item], rule: str, phrase: str
    ) -> None:
        [(found, message)] = rules(messages)

        assert found == rule
        assert phrase in message

    def test_a_tool_message_without_a_call_id_is_refused(self) -> None:
        found = dict(rules([USER, calling(call()), {"role": "tool", "content": ""}]))

        assert "must have a 'tool_call_id'" in found["missing_tool_call_id"]

    @NEEDS_TRANSCRIPTS
    def test_every_known_error_of_the_api_is_predicted(self) -> None:
        recorded = json.loads((TRANSCRIPTS / "edge" / "api_errors.json").read_text())["errors"]
        cases = [error for error in recorded if error["provider"] == "openai-chat"]
        for error in cases:
            messages, rule, _ = REFUSED[error["case"]]
            assert error["message"] in dict(rules(messages))[rule]
        assert cases


# --- generated histories ---

TEXT = st.text(max_size=40).map("x{}".format)
LONG = st.one_of(TEXT, st.integers(50, 400).map(lambda n: "long " * n))

KEYS = st.sampled_from(
    ["type", "role", "content", "tool_calls", "id", "function", "function_call", "name", "text"]
)
KINDS = st.sampled_from(["user", "assistant", "tool", "function", "text", "custom"])
ODD = st.recursive(
    st.none() | st.integers() | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Item]:
    """Draws a valid history with prompts, responses and parallel calls."""
    items: list[Item] = []
    for _ in range(draw(st.integers(1, 4))):
        items.append({"role": "user", "content": draw(TEXT)})
        for _ in range(draw(st.integers(0, 3))):
            numbers = range(draw(st.integers(1, 3)))
            args = [{"a": draw(LONG), "b": [1, {"c": draw(LONG)}]} for _ in numbers]
            calls = [call(f"call_{n}", json.dumps(args[n])) for n in numbers]
            choices: list[Item] = [{}, {"content": None}, {"reasoning_content": "hm"}]
            fields = draw(st.sampled_from(choices))
            items.append(calling(*calls, **fields))
            for n in draw(st.permutations(numbers)):
                text = draw(LONG)
                blocks = [
                    {"type": "text", "text": text},
                    {"type": "image_url", "image_url": {"url": IMAGE_URL}},
                ]
                items.append(result(f"call_{n}", draw(st.sampled_from([text, blocks]))))
        items.append({"role": "assistant", "content": draw(TEXT)})
    return items


class TestAnyHistory:
    @settings(deadline=None)
    @given(exchanges())
    def test_any_history_is_written_unchanged(self, items: list[Item]) -> None:
        history = API.to_history(items)

        assert API.write(history) == items
        assert written_after_restoring(history) == items
        assert not check_history(history)
        assert not rules(items)

    @settings(deadline=None)
    @given(exchanges(), st.data())
    def test_any_history_is_valid_after_shortening_and_removing(
        self, items: list[Item], data: Any
    ) -> None:
        history = API.to_history(items)
        left: list[Message] = []
        for turn in split_into_turns(history):
            for group in turn.groups:
                fate = data.draw(st.sampled_from(["keep", "results", "arguments", "drop"]))
                if fate == "drop" and group.is_call:
                    continue
                how = Shortening(what="arguments" if fate == "arguments" else "results")
                change = fate in ("results", "arguments")
                left += [shortened(each, how) if change else each for each in group.messages]

        after = API.write(left)

        assert not rules(after)
        assert written_after_restoring(left) == after
        assert sum(map(message_tokens, left)) <= sum(map(message_tokens, history))

    @settings(deadline=None)
    @given(st.lists(st.dictionaries(KEYS, ODD), min_size=1, max_size=3))
    def test_malformed_data_raises_a_format_error_or_is_written_unchanged(
        self, items: list[Item]
    ) -> None:
        list(API.check({API.items_key: items}))
        assert 0 <= API.recognize(items) <= 1
        try:
            history = API.to_history(items)
        except FormatError:
            return
        assert API.from_messages(history, None) == items
        written_after_restoring([shortened(message) for message in history])


# --- recorded requests and logs ---


def recorded_requests() -> Iterator[tuple[str, Item, int]]:
    for path in sorted(TRANSCRIPTS.rglob("*.exchange.json")):
        for exchange in json.loads(path.read_text()):
            if exchange["uri"].endswith("/chat/completions"):
                yield path.name, exchange["request"], exchange["status"]["code"]


def recorded_messages() -> Iterator[tuple[str, list[Item]]]:
    for name, request, status in recorded_requests():
        if status == 200:
            yield name, request["messages"]
    folder = TRANSCRIPTS / "openai-chat"
    for path in sorted((folder / "openhands-sdk-llm-logs").glob("*.json")):
        yield path.name, json.loads(path.read_text())["messages"]
    for path in sorted((folder / "tau-bench").glob("*.json.gz")):
        for dialogue in json.loads(gzip.decompress(path.read_bytes())):
            yield f"{path.name} {dialogue['task_id']}", dialogue["traj"]


@NEEDS_TRANSCRIPTS
class TestRecorded:
    def test_recorded_messages_are_written_unchanged_and_not_refused(self) -> None:
        found = 0
        for name, items in recorded_messages():
            history = API.to_history(items)
            back = API.write(history)
            assert all(one is other for one, other in zip(back, items, strict=True)), name
            assert written_after_restoring(history) == items, name
            assert not rules(items), name
            found += len(items)
        assert found > 2000

    def test_recorded_messages_are_not_refused_after_shortening(self) -> None:
        for name, items in recorded_messages():
            for how in (Shortening(), Shortening(what="arguments")):
                after = [shortened(message, how) for message in API.to_history(items)]
                assert not rules(API.write(after)), name

    def test_recorded_dialects_are_recognized_with_low_confidence(self) -> None:
        folder = TRANSCRIPTS / "openai-chat"
        for path in sorted((folder / "swe-agent").glob("*.traj")):
            assert API.recognize(json.loads(path.read_text())["history"]) <= 0.6
        for path in sorted((folder / "tau2-bench").glob("*.json.gz")):
            for simulation in json.loads(gzip.decompress(path.read_bytes()))["simulations"]:
                assert API.recognize(simulation["messages"]) <= 0.6


def test_generated_call_ids_do_not_change_when_earlier_messages_are_removed() -> None:
    history = [
        message
        for number in range(3)
        for message in (
            Message(Role.MODEL, [Part(function_call=FunctionCall(None, "read", {"n": number}))]),
            Message(Role.TOOL, [Part(function_response=ToolResult(None, "read", f"{number}"))]),
        )
    ]

    whole, rest = API.write(history), API.write(history[2:])

    assert rest == whole[2:]
    assert len({item["tool_call_id"] for item in whole if item["role"] == "tool"}) == 3
    assert not list(API.check({"messages": whole}))
