"""OpenAI Responses: lossless round trips, valid requests, predicted refusals."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import FunctionCall as Call
from jaato_gc import (
    GCPolicy,
    GCSession,
    InlineData,
    Message,
    Part,
    Role,
    ToolResult,
    check_history,
    message_from_dict,
    message_to_dict,
    repair_history,
    split_into_turns,
)
from jaato_gc.plugin import Shortening, message_tokens, shortened
from jaato_gc_formats import (
    FormatError,
    ProviderSession,
    check_request,
    detect,
    from_messages,
    to_messages,
)
from jaato_gc_formats._openai_responses import OpenAIResponses
from jaato_gc_formats._wire import READ_AS

Item = dict[str, Any]
TRANSCRIPTS = Path(
    os.environ.get("JAATO_GC_TRANSCRIPTS")
    or Path(__file__).parents[3].parent / "shared" / "transcripts"
)
NEEDS_TRANSCRIPTS = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason=f"no recorded transcripts in {TRANSCRIPTS}"
)
FORMAT = "openai-responses"
API = OpenAIResponses()
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg=="
)
IMAGE_URL = f"data:image/png;base64,{PIXEL}"


def user(text: str = "Go on.") -> Item:
    return {"role": "user", "content": text}


def said(text: str = "Done.", **fields: Any) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content, **fields}


def reasoning(number: int = 1, **fields: Any) -> Item:
    return {
        "type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "x" * 400,
    } | fields  # fmt: skip


def call(call_id: str = "call_1", **fields: Any) -> Item:
    return {
        "type": "function_call", "call_id": call_id, "name": "read", "arguments": '{"path":"a"}',
    } | fields  # fmt: skip


def output(call_id: str = "call_1", content: Any = "contents", **fields: Any) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": content} | fields


EXCHANGES: dict[str, list[Item]] = {
    "easy": [user(), {"role": "assistant", "content": "Yes."}, user()],
    "two easy answers": [
        user(), {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"},
    ],
    "typed": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        said("Hi", id="msg_1", status="completed", phase="final_answer"),
    ],
    "content of one block": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    ],
    "no content": [user(), {"role": "assistant", "content": []}, user()],
    "developer": [
        {"role": "developer", "content": "Be brief."}, {"role": "system", "content": "Be kind."},
        user(),
    ],
    "refusal": [
        user(),
        {
            "type": "message", "id": "msg_1", "role": "assistant",
            "content": [{"type": "refusal", "refusal": "I can't."}],
        },
    ],
    "attachments": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": IMAGE_URL, "detail": "low"},
                {"type": "input_image", "image_url": "https://example.org/a.png"},
                {"type": "input_image", "file_id": "file-1", "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:a/b;base64,AAAA"},
                {"type": "input_file", "filename": "b.pdf", "file_data": "AAAA"},
                {"type": "input_file", "file_url": "https://example.org/a.pdf"},
                {"type": "input_file", "file_id": "file-2"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "input_hologram", "data": [1, 2]},
            ],
        },
    ],
    "reasoning and parallel calls": [
        user(), reasoning(), call("call_1", id="fc_1", status="completed"),
        call("call_2", id="fc_2", namespace="files", arguments='{ "path": "b" }'),
        output("call_1"), output("call_2", [{"type": "input_text", "text": "two"}]),
        reasoning(2, summary=[{"type": "summary_text", "text": "Now I know."}]), said(id="msg_2"),
    ],
    "odd arguments": [
        user(), call("call_1", arguments="{broken"), call("call_2", arguments=None),
        call("call_3", arguments={"a": 1}), call("call_4", arguments=""),
        output("call_1"), output("call_2"), output("call_3"), output("call_4"),
    ],
    "custom tool": [
        user(), {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
    ],
    "result with an image": [
        user(), call(),
        output(content=[
            {"type": "input_text", "text": "seen"},
            {"type": "input_image", "image_url": IMAGE_URL},
            {"type": "input_text", "text": "twice"},
        ]),
    ],
    "result that is an object": [user(), call(), output(content={"type": "odd"})],
    "computer": [
        user(),
        {
            "type": "computer_call", "id": "cu_1", "call_id": "c", "status": "completed",
            "pending_safety_checks": [], "action": {"type": "click", "x": 1, "y": 2},
        },
        {
            "type": "computer_call_output", "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": IMAGE_URL},
        },
    ],
    "local shell": [
        user(),
        {
            "type": "local_shell_call", "id": "lsh_1", "call_id": "c", "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        {"type": "local_shell_call_output", "id": "c", "output": "a.txt"},
    ],
    "shell": [
        user(), {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {
            "type": "shell_call_output", "call_id": "c", "max_output_length": 100,
            "output": [
                {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            ],
        },
    ],
    "hosted shell": [
        user(), reasoning(),
        {
            "type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]},
            "environment": {"type": "container_reference", "container_id": "cntr_1"},
        },
        {
            "type": "shell_call_output", "call_id": "c",
            "output": [
                {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            ],
        },
        said(),
    ],
    "apply patch": [
        user(),
        {
            "type": "apply_patch_call", "call_id": "c", "status": "completed",
            "operation": {"type": "update_file", "path": "a", "diff": "+ b"},
        },
        {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": None},
        {
            "type": "apply_patch_call", "call_id": "d", "status": "completed",
            "operation": {"type": "delete_file", "path": "a"},
        },
        {"type": "apply_patch_call_output", "call_id": "d", "status": "completed"},
    ],
    "tool search of the client": [
        user(),
        {
            "type": "tool_search_call", "call_id": "c", "execution": "client",
            "status": "completed", "arguments": {"queries": ["weather"]},
        },
        {
            "type": "tool_search_output", "call_id": "c", "execution": "client",
            "status": "completed", "tools": [{"type": "function", "name": "get_weather"}],
        },
    ],
    "run by OpenAI": [
        user(), reasoning(),
        {
            "type": "tool_search_call", "id": "tsc_1", "call_id": None, "execution": "server",
            "status": "completed", "arguments": {"paths": ["weather"]},
        },
        {
            "type": "tool_search_output", "id": "tso_1", "call_id": None, "execution": "server",
            "status": "completed", "tools": [{"type": "function", "name": "get_weather"}],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"q": "a"}},
        {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"]},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": None},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL},
        {"type": "image_generation_call", "id": "ig_2", "status": "failed", "result": None},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []},
        {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "n", "arguments": "{}"},
        {"type": "brand_new_call", "id": "bn_1", "stuff": [1]},
        call(), output(), said(),
    ],
    "approval": [
        user(),
        {
            "type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "rm",
            "arguments": "{}",
        },
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    ],
    "program": [
        user(),
        {"type": "program", "id": "p_1", "call_id": "p", "code": "f()", "fingerprint": "x"},
        call(caller={"type": "program", "caller_id": "p"}), output(),
        {
            "type": "program_output", "id": "po_1", "call_id": "p", "result": "1",
            "status": "completed",
        },
    ],
    "references": [
        user(), {"type": "item_reference", "id": "rs_1"}, {"id": "fc_1"}, output("call_9"), user(),
    ],
    "compaction": [
        user("First"), {"type": "compaction", "id": "cmp_1", "encrypted_content": "y" * 400},
        user(), said(),
    ],
    "added tools": [
        user(), {"type": "additional_tools", "role": "developer", "tools": [{"name": "a"}]}, said(),
    ],
}  # fmt: skip
every_exchange = pytest.mark.parametrize("items", EXCHANGES.values(), ids=EXCHANGES)


def written_after_restoring(messages: list[Message]) -> list[Any]:
    """Writes messages after saving and restoring them, which drops their original objects."""
    saved = json.loads(json.dumps([message_to_dict(message) for message in messages]))
    items: list[Any] = API.from_messages([message_from_dict(each) for each in saved], None)
    return items


class TestRoundTrip:
    @every_exchange
    def test_unchanged_items_are_written_as_the_original_objects(self, items: list[Item]) -> None:
        back = from_messages(to_messages(items, FORMAT))

        assert len(back) == len(items)
        assert all(one is other for one, other in zip(back, items, strict=True))

    @every_exchange
    def test_saved_and_restored_messages_are_written_unchanged(self, items: list[Item]) -> None:
        assert written_after_restoring(to_messages(items, FORMAT)) == items

    @every_exchange
    def test_items_are_recognized(self, items: list[Item]) -> None:
        is_easy = all("type" not in item and item.get("role") for item in items)
        is_list = any(isinstance(item.get("content"), list) and item["content"] for item in items)

        assert API.recognize(items) == (0.4 if is_easy and not is_list else 0.95)

    @every_exchange
    def test_a_request_keeps_its_other_fields(self, items: list[Item]) -> None:
        request = {"model": "m", "instructions": "Be brief.", "input": items, "store": False}

        history = to_messages(request)

        assert history[0].role is Role.SYSTEM
        assert from_messages(history) == request
        saved = [message_from_dict(message_to_dict(message)) for message in history]
        assert from_messages(saved, FORMAT, like=request) == request

    def test_input_that_is_a_string_is_written_as_a_string(self) -> None:
        request = {"model": "m", "input": "Hello"}

        history = to_messages(request, FORMAT)

        assert [message.text for message in history] == ["Hello"]
        assert from_messages(history) == request

    def test_instructions_that_are_a_list_are_written_unchanged(self) -> None:
        request = {"input": [user()], "instructions": [user("Be brief.")]}

        history = [replace(each, origin=None) for each in to_messages(request, FORMAT)]

        assert from_messages(history, FORMAT, like=request) == request


class TestMessages:
    def test_the_items_of_a_response_are_one_message(self) -> None:
        history = to_messages(EXCHANGES["reasoning and parallel calls"], FORMAT)

        assert [message.role for message in history] == ["user", "model", "tool", "tool", "model"]
        assert history[1].parts[0].thought == ""
        assert [each.id for each in history[1].function_calls] == ["call_1", "call_2"]
        assert [each.function_responses[0].name for each in history[2:4]] == ["read", "read"]
        assert history[4].parts[0].thought == "Now I know."
        assert history[4].text == "Done."

    def test_calls_that_openai_runs_are_part_of_the_models_message(self) -> None:
        searched = to_messages(EXCHANGES["run by OpenAI"], FORMAT)
        ran = to_messages(EXCHANGES["hosted shell"], FORMAT)

        assert [message.role for message in searched] == ["user", "model", "tool", "model"]
        assert [message.role for message in ran] == ["user", "model"]

    @pytest.mark.parametrize(
        "name",
        [
            "custom tool", "computer", "local shell", "shell", "apply patch", "approval",
            "tool search of the client", "program",
        ],
    )  # fmt: skip
    def test_calls_of_every_type_are_paired_with_their_outputs(self, name: str) -> None:
        history = to_messages(EXCHANGES[name], FORMAT)

        assert not check_history(history)
        assert any(message.function_calls for message in history)
        assert all(group.is_call for turn in split_into_turns(history) for group in turn.groups[1:])

    def test_an_output_with_status_failed_is_an_error(self) -> None:
        history = to_messages(EXCHANGES["apply patch"], FORMAT)

        flags = [answer.is_error for each in history for answer in each.function_responses]
        assert flags == [True, False]

    def test_a_program_is_bound_to_its_calls_and_its_output(self) -> None:
        history = to_messages([*EXCHANGES["program"], user()], FORMAT)

        [turn, _] = split_into_turns(history)

        assert [message.role for message in history] == ["user", "model", "tool", "model", "user"]
        assert [len(group.messages) for group in turn.groups] == [1, 3]

    def test_reasoning_belongs_to_its_call_if_they_are_appended_one_by_one(self) -> None:
        agent = ProviderSession(FORMAT, GCSession(context_limit=20_000))
        for item in (user(), reasoning(1), call(), output(), said(), user()):
            agent.append(item)

        agent.session.remove(agent.session.history[2].message_id)

        kinds = [item.get("type", "message") for item in agent.request()["input"]]
        assert kinds == ["message", "message", "message"]

    def test_a_compaction_is_locked_and_belongs_to_no_turn(self) -> None:
        history = to_messages(EXCHANGES["compaction"], FORMAT)

        assert (history[1].role, history[1].policy) == (Role.SYSTEM, GCPolicy.LOCKED)
        assert all(history[1] not in turn.messages for turn in split_into_turns(history))
        items = EXCHANGES["compaction"]
        assert from_messages([history[1], *history[2:]], FORMAT) == items[1:]

    def test_references_and_outputs_without_a_visible_call_are_locked(self) -> None:
        history = to_messages(EXCHANGES["references"], FORMAT)

        policies = [message.policy for message in history]
        assert policies == [None, GCPolicy.LOCKED, GCPolicy.LOCKED, None]

    def test_tools_found_by_a_search_are_preservable_and_never_shortened(self) -> None:
        items = EXCHANGES["tool search of the client"]
        history = to_messages(items, FORMAT)

        assert history[2].policy is GCPolicy.PRESERVABLE
        assert written_after_restoring([shortened(message) for message in history]) == items

    def test_payloads_and_encrypted_content_are_not_counted_as_text(self) -> None:
        items = [
            reasoning(encrypted_content="x" * 90_000),
            {"type": "image_generation_call", "id": "ig_1", "result": PIXEL + "A" * 90_000},
            {"type": "compaction", "encrypted_content": "x" * 90_000},
            {"type": "agent_message", "content": [{"encrypted_content": "x" * 90_000}]},
            {"type": "code_interpreter_call", "outputs": [{"url": "data:a/b," + "A" * 90_000}]},
        ]

        for message in to_messages(items, FORMAT):
            assert message_tokens(message) < 500


class TestClearing:
    @every_exchange
    def test_the_api_accepts_shortened_results_and_arguments(self, items: list[Item]) -> None:
        before = {"input": items}
        known = set(map(str, check_request(before, FORMAT)))
        history = to_messages(items, FORMAT)

        for how in (Shortening(), Shortening(what="arguments"), Shortening(head=2, tail=2)):
            after = from_messages([shortened(message, how) for message in history], FORMAT)
            assert {str(each) for each in check_request(after, FORMAT)} <= known
            assert [each.get("type") for each in after] == [each.get("type") for each in items]
            assert [each.get("call_id") for each in after] == [
                each.get("call_id") for each in items
            ]
            assert written_after_restoring(to_messages(after, FORMAT)) == after

    def test_a_shortened_list_of_blocks_becomes_a_list_with_one_text_block(self) -> None:
        items = [user(), call(), output(content=[{"type": "input_text", "text": "a" * 500}])]

        after = written_after_restoring(
            [shortened(message) for message in to_messages(items, FORMAT)]
        )

        [block] = after[2]["output"]
        assert block["type"] == "input_text"
        assert block["text"].startswith("[500 characters cleared")

    def test_a_removed_image_in_a_result_becomes_a_text(self) -> None:
        items = EXCHANGES["result with an image"]

        after = written_after_restoring(
            [shortened(message) for message in to_messages(items, FORMAT)]
        )

        assert {block["type"] for block in after[2]["output"]} == {"input_text"}
        assert PIXEL not in json.dumps(after)

    def test_a_shortened_screenshot_is_replaced_by_a_tiny_image(self) -> None:
        history = to_messages(EXCHANGES["computer"], FORMAT)
        large = InlineData("image/png", data=IMAGE_URL, width=1000, height=1000)
        history[2] = history[2].with_parts(
            [history[2].parts[0], Part(inline_data=large, extra=history[2].parts[1].extra)]
        )

        short = shortened(history[2])

        assert message_tokens(short) < 60
        [item] = written_after_restoring([short])
        assert item["output"]["type"] == "computer_screenshot"
        assert item["output"]["image_url"].startswith("data:image/png;base64,")

    def test_a_shortened_shell_output_keeps_its_structure(self) -> None:
        items = [
            user(), {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
            {
                "type": "shell_call_output", "call_id": "c",
                "output": [
                    {"stdout": "a" * 500, "stderr": "", "outcome": {"type": "timeout"}},
                ],
            },
        ]  # fmt: skip

        [chunk] = written_after_restoring([shortened(each) for each in to_messages(items, FORMAT)])[
            2
        ]["output"]

        assert "characters cleared" in chunk["stdout"]
        assert chunk["outcome"] == {"type": "timeout"}

    def test_calls_after_encrypted_reasoning_can_be_shortened(self) -> None:
        long = json.dumps({"text": "a" * 500})
        items = [user(), reasoning(), call(id="fc_1", arguments=long), output()]

        after = from_messages(
            [shortened(each, Shortening(what="arguments")) for each in to_messages(items, FORMAT)],
            FORMAT,
        )

        assert after[1] == items[1]
        assert after[2]["id"] == "fc_1"
        assert "characters cleared" in json.loads(after[2]["arguments"])["text"]
        assert not list(API.check({"input": after}, before={"input": items}))


class TestForeign:
    """Messages that were read from another format or created by core."""

    def written(self, *messages: Message) -> list[Item]:
        items: list[Item] = from_messages(messages, FORMAT)
        assert not check_request(items, FORMAT)
        return items

    def test_messages_with_one_text_are_written_with_string_content(self) -> None:
        system = Message.from_text(Role.SYSTEM, "Be brief.")
        asked = Message.from_text(Role.USER, "Hello")
        two = Message(Role.MODEL, [Part(text="a"), Part(text="b")])

        assert self.written(system, asked, two) == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
            {
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "a"},
                    {"type": "output_text", "text": "b"},
                ],
            },
        ]

    def test_thoughts_of_other_providers_are_not_written(self) -> None:
        thought = Part(thought="hm", extra={"signature": "s"})
        foreign = Message(Role.MODEL, [thought, Part(text="a")], extra={READ_AS: "anthropic"})
        silent = Message(Role.MODEL, [thought], extra={READ_AS: "anthropic"})
        asked = Message.from_text(Role.USER, "?")

        items = self.written(asked, foreign, silent)

        assert items[1:] == [{"role": "assistant", "content": "a"}]

    def test_calls_without_ids_and_their_results_get_equal_ids(self) -> None:
        calls = [Part(function_call=Call(None, "look", {"at": n})) for n in range(2)]
        results = [Part(function_response=ToolResult(None, "look", f"r{n}")) for n in range(2)]
        asked = Message.from_text(Role.USER, "?")

        items = self.written(asked, Message(Role.MODEL, calls), Message(Role.USER, results))

        assert [each["arguments"] for each in items[1:3]] == ['{"at":0}', '{"at":1}']
        assert [each["output"] for each in items[3:]] == ["r0", "r1"]
        assert [each["call_id"] for each in items[1:3]] == [each["call_id"] for each in items[3:]]

    def test_images_stay_in_results_and_user_texts_follow_them(self) -> None:
        image = Part(inline_data=InlineData("image/png", data=PIXEL), extra={"inside": True})
        result = Part(function_response=ToolResult("c", "look", "seen"))
        asked = Message.from_text(Role.USER, "?")
        called = Message(Role.MODEL, [Part(function_call=Call("c", "look"))])
        answered = Message(Role.USER, [result, image, Part(text="And now?")])

        items = self.written(asked, called, answered)

        assert items[2]["output"] == [
            {"type": "input_text", "text": "seen"},
            {"type": "input_image", "detail": "auto", "image_url": IMAGE_URL},
        ]
        assert items[3] == {"role": "user", "content": "And now?"}

    def test_attachments_are_written_only_to_user_messages(self) -> None:
        pdf = Part(inline_data=InlineData("application/pdf", data=b"1"))
        link = Part(inline_data=InlineData("application/pdf", uri="https://example.org/a.pdf"))
        far = Part(inline_data=InlineData("image/png", uri="gs://bucket/a.png"))
        image = Part(inline_data=InlineData("image/png", data=PIXEL))

        asked, answered = self.written(
            Message(Role.USER, [pdf, link, far, image]), Message(Role.MODEL, [image])
        )

        kinds = [block["type"] for block in asked["content"]]
        assert kinds == ["input_file", "input_file", "input_text", "input_image"]
        assert answered["content"] == "[image/png attachment that can't be shown here]"

    @pytest.mark.parametrize(
        "name",
        [
            "custom tool", "computer", "local shell", "shell", "apply patch", "approval",
            "tool search of the client", "reasoning and parallel calls",
        ],
    )  # fmt: skip
    def test_repair_adds_outputs_of_the_type_that_the_call_requires(self, name: str) -> None:
        items = EXCHANGES[name]
        history = to_messages(items, FORMAT)
        unanswered = [message for message in history if message.role is not Role.TOOL]

        repaired = repair_history([*unanswered, Message.from_text(Role.USER, "Well?")])

        written = self.written(*repaired)
        kinds = [each["type"] for each in items if "output" in each.get("type", "")]
        assert [each["type"] for each in written if "output" in each.get("type", "")] == kinds


class TestRecognition:
    @pytest.mark.parametrize(
        "data",
        [
            [{"role": "user", "content": "Hi"}],
            [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            [{"role": "assistant", "content": None, "tool_calls": []}],
            [{"type": "response_item", "payload": {}}],
            [{"type": "user", "message": {}}],
            [{"role": "user", "parts": [{"text": "Hi"}]}],
            [{"messages": [{"role": "user", "content": "Hi"}]}],
            [{"input": [1]}],
            [],
            ["text"],
        ],
    )
    def test_ambiguous_data_is_recognized_with_low_confidence(self, data: list[Any]) -> None:
        assert API.recognize(data) < 0.5

    @pytest.mark.parametrize(
        "data",
        [
            [user(), call(), output()],
            [said()],
            {"input": [user()], "model": "m"},
            {"input": "Hi", "model": "m"},
        ],
    )
    def test_items_and_requests_are_detected(self, data: Any) -> None:
        assert detect(data).format == FORMAT


class TestAnswers:
    def test_items_of_a_response_have_only_fields_that_can_be_sent(self) -> None:
        parsed = [{"type": "output_text", "text": "{}", "annotations": [], "parsed": {}}]
        response = {
            "id": "resp_1", "object": "response",
            "output": [
                reasoning(status=None, content=None, encrypted_content=None),
                call(parsed_arguments={"path": "a"}, status="completed", namespace=None),
                {"type": "web_search_call", "id": "ws", "action": {"type": "a", "query": None}},
                {"type": "message", "id": "msg", "role": "assistant", "content": parsed},
                {"type": "tool_search_call", "call_id": None, "created_by": "x", "arguments": {}},
            ],
        }  # fmt: skip

        thought, called, searched, answered, found = API.answer_items(response)

        assert thought == {"type": "reasoning", "id": "rs_1", "summary": []}
        assert called == call(status="completed")
        assert searched["action"] == {"type": "a"}
        assert answered["content"] == [{"type": "output_text", "text": "{}", "annotations": []}]
        assert found == {"type": "tool_search_call", "call_id": None, "arguments": {}}

    def test_items_are_accepted_in_place_of_a_response(self) -> None:
        assert API.answer_items(output()) == [output()]
        assert API.answer_items([call()]) == [call()]

    def test_sdk_objects_are_written_as_the_original_objects(self) -> None:
        responses = pytest.importorskip("openai.types.responses", reason="openai is not installed")
        items = [
            responses.ResponseReasoningItem(id="rs_1", summary=[], type="reasoning"),
            responses.ParsedResponseFunctionToolCall(
                arguments="{}", call_id="c", name="n", type="function_call", parsed_arguments={}
            ),
        ]

        history = to_messages([user(), *items, output("c")], FORMAT)
        back = from_messages(history)

        assert back[1] is items[0]
        assert not check_request(written_after_restoring(history), FORMAT)
        assert [each.id for each in history[1].function_calls] == ["c"]


def rules(request: Any, before: Any = None) -> list[tuple[str, str]]:
    request = request if isinstance(request, dict) else {"input": request}
    before = {"input": before} if before else None
    found = API.check(request, before)
    return [(refusal.rule, refusal.message) for refusal in found]


REASONED_CALL = [user(), reasoning(), call(id="fc_1"), output()]
REFUSED: dict[str, tuple[Any, Any, str, str]] = {
    "orphaned function_call_output": (
        [user(), output()], None, "orphaned_result",
        "No tool call found for function call output with call_id call_1",
    ),
    "dangling function_call": (
        [user(), call(), user()], None, "dangling_call",
        "No tool output found for function call call_1",
    ),
    "function_call kept, its reasoning item dropped": (
        [user(), call(id="fc_1"), output()], REASONED_CALL, "missing_reasoning",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: "
        "'rs_1'.",
    ),
    "reasoning kept, its following item dropped": (
        [user(), reasoning(), user()], None, "reasoning_alone",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ),
    "an item between function_call and its output": (
        {"model": "deepseek-x", "input": [user(), call(), said(), output()]}, None,
        "dangling_call", "No tool output found for tool call call_1",
    ),
    "reasoning at the end": (
        [user(), reasoning(), reasoning(2)], None, "reasoning_alone", "Item 'rs_1'",
    ),
    "reasoning followed by another item than before": (
        [user(), reasoning(), call(id="fc_1"), output()],
        [user(), reasoning(), said(id="msg_1"), call(id="fc_1"), output()],
        "reasoning_alone", "Item 'rs_1'",
    ),
    "message without its reasoning": (
        [user(), said(id="msg_1")], [user(), reasoning(), said(id="msg_1")],
        "missing_reasoning", "Item 'msg_1' of type 'message'",
    ),
    "dangling custom tool call": (
        [user(), {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": ""}], None,
        "dangling_call", "No tool output found for custom tool call c",
    ),
    "answered twice": (
        [user(), call(id="fc_1"), output(), call("call_2", id="fc_1"), output("call_2")], None,
        "duplicate_ids", "Duplicate item found with id fc_1",
    ),
    "no input": ({"input": []}, None, "no_input", "must be provided"),
    "unknown role": ([{"role": "tool", "content": ""}], None, "unknown_role", "'tool'"),
    "no content": ([{"role": "user", "content": None}], None, "empty_content", "input[0].content"),
    "input in an answer": (
        [{"role": "assistant", "content": [{"type": "input_text", "text": ""}]}], None,
        "wrong_content", "'output_text' and 'refusal'",
    ),
    "output in a question": (
        [{"role": "user", "content": [{"type": "output_text", "text": ""}]}], None,
        "wrong_content", "'input_text'",
    ),
    "parsed arguments": (
        [call(parsed_arguments={}), output()], None, "unknown_parameter",
        "Unknown parameter: 'input[0].parsed_arguments'.",
    ),
    "status of reasoning": (
        [reasoning(status=None), said()], None, "unknown_parameter", "'input[0].status'",
    ),
}  # fmt: skip


class TestRules:
    @pytest.mark.parametrize(
        ("request_", "before", "rule", "phrase"), REFUSED.values(), ids=REFUSED
    )
    def test_each_broken_rule_reports_the_error_message_of_the_api(
        self, request_: Any, before: Any, rule: str, phrase: str
    ) -> None:
        found = rules(request_, before)

        assert [each for each, _ in found if each != rule] == []
        assert phrase in found[0][1]

    @pytest.mark.parametrize(
        "name", [name for name in EXCHANGES if name not in ("no content", "references")]
    )
    def test_valid_exchanges_are_not_refused(self, name: str) -> None:
        assert rules(EXCHANGES[name], EXCHANGES[name]) == []

    def test_content_stored_on_the_server_is_not_checked(self) -> None:
        assert rules({"previous_response_id": "resp_1", "input": [output()]}) == []
        assert rules({"previous_response_id": "resp_1"}) == []
        assert rules([user(), {"type": "item_reference", "id": "fc_1"}, output()]) == []
        assert rules({"input": "Hello"}) == []

    def test_reasoning_without_an_id_may_be_alone(self) -> None:
        alone = {"type": "reasoning", "summary": [], "encrypted_content": "x"}

        assert rules([user(), alone, user()]) == []

    def test_deepseek_accepts_parallel_calls(self) -> None:
        items = [user(), call(), call("call_2"), output("call_2"), output(), user()]

        assert rules({"model": "deepseek-x", "input": items}) == []

    @NEEDS_TRANSCRIPTS
    def test_every_known_error_of_the_api_is_predicted(self) -> None:
        recorded = json.loads((TRANSCRIPTS / "edge" / "api_errors.json").read_text())["errors"]
        for error in recorded:
            if "responses" in error["provider"]:
                request, before, rule, _ = REFUSED[error["case"]]
                words = re.escape(error["message"]).replace(re.escape("..."), ".*")
                assert re.match(words, dict(rules(request, before))[rule]), error["case"]


# --- generated histories ---

TEXT = st.text(max_size=40).map("x{}".format)
LONG = st.one_of(TEXT, st.integers(50, 400).map(lambda n: "long " * n))

KEYS = st.sampled_from(
    ["type", "role", "content", "id", "call_id", "name", "arguments", "output", "summary", "action"]
)
KINDS = st.sampled_from(
    ["message", "function_call", "shell_call_output", "reasoning", "odd", "user"]
)
ODD = st.recursive(
    st.none() | st.integers() | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@st.composite
def answered_calls(draw: st.DrawFn, number: int) -> tuple[Item, Item]:
    call_id = f"call_{number}"
    long, result = draw(LONG), draw(LONG)
    kind = draw(st.sampled_from(["function", "custom_tool", "local_shell", "shell", "apply_patch"]))
    ask: Item = {"type": f"{kind}_call", "call_id": call_id, "id": f"fc_{number}"}
    reply: Item = {"type": f"{kind}_call_output", "call_id": call_id, "output": result}
    if kind == "function":
        ask |= {"name": "f", "arguments": json.dumps({"a": long, "b": [1, {"c": long}]})}
        blocks = [{"type": "input_text", "text": result}]
        if draw(st.booleans()):
            blocks.insert(draw(st.integers(0, 1)), {"type": "input_image", "image_url": IMAGE_URL})
        reply["output"] = draw(st.sampled_from([result, blocks]))
    elif kind == "custom_tool":
        ask |= {"name": "f", "input": long}
    elif kind == "apply_patch":
        operation = {"type": "update_file", "path": "a", "diff": long}
        ask |= {"status": "completed", "operation": operation}
        reply |= {"status": "completed"}
    elif kind == "shell":
        ask |= {"action": {"commands": [long]}}
        outcome = {"type": "exit", "exit_code": 0}
        reply["output"] = [{"stdout": result, "stderr": "", "outcome": outcome}]
    else:
        ask |= {"status": "completed", "action": {"type": "exec", "command": [long], "env": {}}}
    return ask, reply


@st.composite
def exchanges(draw: st.DrawFn) -> list[Item]:
    """Draws the items of a valid history: prompts, responses with and without reasoning, calls."""
    items: list[Item] = []
    number = 0
    for turn in range(draw(st.integers(1, 4))):
        text = draw(TEXT)
        typed = {"type": "message", "content": [{"type": "input_text", "text": text}]}
        items.append(draw(st.sampled_from([user(text), {**user(), **typed}])))
        for step in range(draw(st.integers(0, 3))):
            if draw(st.booleans()):
                items.append(reasoning(10 * turn + step, id=f"rs_{turn}_{step}"))
            pairs = []
            if draw(st.booleans()):
                items.append({"type": "web_search_call", "id": f"ws_{turn}_{step}", "action": {}})
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                pairs.append(draw(answered_calls(number)))
            items += [ask for ask, _ in pairs]
            items += draw(st.permutations([reply for _, reply in pairs]))
        ending = said(draw(TEXT), id=f"msg_{turn}", phase="final_answer")
        items.append(draw(st.sampled_from([ending, {"role": "assistant", "content": "Fin."}])))
    return items


class TestAnyHistory:
    @settings(deadline=None)
    @given(exchanges())
    def test_any_history_is_written_unchanged(self, items: list[Item]) -> None:
        history = API.to_history(items)

        assert API.from_messages(history, None) == items
        assert written_after_restoring(history) == items
        assert not check_history(history)
        assert not rules(items)

    @settings(deadline=None)
    @given(exchanges(), st.data())
    def test_any_history_is_valid_after_shortening_and_removing(
        self, items: list[Item], data: Any
    ) -> None:
        history = API.to_history(items)
        what = st.sampled_from(["keep", "results", "arguments", "drop"])
        left: list[Message] = []
        for turn in split_into_turns(history):
            for group in turn.groups:
                fate = data.draw(what)
                if fate == "drop" and group.is_call:
                    continue
                how = Shortening(what="arguments" if fate == "arguments" else "results")
                change = fate in ("results", "arguments")
                left += [shortened(each, how) if change else each for each in group.messages]

        after = API.from_messages(left, None)

        assert rules(after, items) == []
        assert written_after_restoring(left) == after

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


def recorded_requests() -> Iterator[tuple[str, dict[str, Any], int, str]]:
    for path in sorted(TRANSCRIPTS.rglob("*.exchange.json")):
        for exchange in json.loads(path.read_text()):
            request = exchange.get("request")
            is_ours = isinstance(request, dict) and isinstance(request.get("input"), list)
            if is_ours and exchange["uri"].endswith("/responses"):
                answer = json.dumps(exchange["response"])
                yield path.name, request, exchange["status"]["code"], answer


def recorded_items() -> Iterator[tuple[str, list[Item]]]:
    for name, request, _, _ in recorded_requests():
        yield name, request["input"]
    folders = ("codex-rollout", "edge/agent-sessions/codex")
    for folder in folders:
        for path in sorted((TRANSCRIPTS / folder).rglob("*.jsonl")):
            items = []
            for line in path.read_text().splitlines():
                if not line.startswith("{"):
                    continue
                record = json.loads(line)
                payload = record.get("payload") or {}
                if record.get("type") == "response_item":
                    items.append(payload)
                elif record.get("type") == "compacted":
                    yield path.name, payload.get("replacement_history") or []
            yield path.name, items


@NEEDS_TRANSCRIPTS
class TestRecorded:
    def test_recorded_items_are_written_unchanged(self) -> None:
        found = 0
        for name, items in recorded_items():
            history = to_messages(items, FORMAT)
            back = from_messages(history)
            assert all(one is other for one, other in zip(back, items, strict=True)), name
            assert written_after_restoring(history) == items, name
            found += len(items)
        assert found > 300

    def test_recorded_requests_are_refused_exactly_if_the_api_refused_them(self) -> None:
        outcomes = []
        for name, request, status, answer in recorded_requests():
            found = rules(request)
            if status == 200:
                assert not found, name
                assert not check_history(to_messages(request)), name
            elif "temperature" not in answer:
                assert any(message in answer for _, message in found), name
            outcomes.append(status)
        assert set(outcomes) == {200, 400}

    def test_recorded_requests_are_not_refused_after_a_collection(self) -> None:
        for name, request, status, _ in recorded_requests():
            if status != 200:
                continue
            history = to_messages(request)
            for group in split_into_turns(history)[0].groups[1:]:
                left = [message for message in history if message not in group.messages]
                after = from_messages(left, FORMAT, like=request)
                assert not rules(after, request["input"]), name

    def test_items_of_recorded_responses_can_be_sent_back(self) -> None:
        found = 0
        for path in sorted((TRANSCRIPTS / FORMAT).rglob("*.exchange.json")):
            for exchange in json.loads(path.read_text()):
                response = exchange["response"]
                if isinstance(response, dict) and "output" in response:
                    items = API.answer_items(response)
                    assert written_after_restoring(to_messages(items, FORMAT)) == items
                    assert {rule for rule, _ in rules(items)} <= {"dangling_call"}
                    assert API.usage(response) is not None
                    found += 1
        assert found > 5
