"""Messages that core accepts as one and that providers want apart, or the other way round."""

from typing import Any

import pytest

from jaato_gc import FunctionCall, InlineData, Message, Part, PluginRegistry, Role, ToolResult
from jaato_gc_formats import _plugin as plugin
from jaato_gc_formats import check_request, from_messages

FORMATS = ["anthropic", "gemini", "openai-chat", "openai-responses"]
REGISTRY = PluginRegistry(load_installed=False)
REGISTRY.register(plugin, "formats")
USER = Message.from_text(Role.USER, "Look", message_id="u")


def call(call_id: str | None, name: str = "look") -> Part:
    return Part(function_call=FunctionCall(call_id, name))


def result(call_id: str | None, name: str = "look", value: str = "ok") -> Part:
    return Part(function_response=ToolResult(call_id, name, value))


def written(format: str, *messages: Message) -> Any:
    """Returns the messages in a format, after a check of its rules."""
    request = from_messages([USER, *messages], format, like={}, registry=REGISTRY)
    assert check_request(request, format, registry=REGISTRY) == []
    return request


@pytest.mark.parametrize("format", FORMATS)
def test_a_call_and_its_result_in_one_message_are_written_apart(format: str) -> None:
    text = Part(text="then")
    parts = [call("x"), call("y"), result("y"), result("x"), text, call("z"), result("z")]
    request = written(format, Message(Role.MODEL, parts, "m"))

    if format == "anthropic":
        assert [item["role"] for item in request["messages"]] == [
            "user", "assistant", "user", "assistant", "user",
        ]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_a_text_between_the_results_of_a_message_is_written_before_them(format: str) -> None:
    between = Part(text="in between")
    parts = [
        call("x"), call("y"), result("x", value="seen"), between, result("y"), Part(text="done")
    ]  # fmt: skip

    request = str(written(format, Message(Role.MODEL, parts, "m")))

    assert request.index("in between") < request.index("seen") < request.index("done")


@pytest.mark.parametrize("format", FORMATS)
def test_every_content_of_a_part_is_written(format: str) -> None:
    both = Part("first", FunctionCall("x", "look"), ToolResult("x", "look", "seen"))
    request = str(written(format, Message(Role.MODEL, [both], "m")))

    assert request.index("first") < request.index("seen")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("missing", ["", None])
def test_calls_without_an_id_are_answered_in_their_order(format: str, missing: str | None) -> None:
    calls = Message(Role.MODEL, [call(missing), call(missing)], "m")
    results = Message(Role.TOOL, [result(missing, value="1"), result(missing, value="2")], "r")

    request = str(written(format, calls, results))

    assert request.index("'1'") < request.index("'2'")


def test_ids_that_become_equal_get_a_number_in_anthropics_format() -> None:
    ids = ["x.1", "x_1", "x_1_m_1", "x_1_m_1_2"]
    calls = Message(Role.MODEL, [call(each) for each in ids], "m")

    request = written("anthropic", calls, Message(Role.TOOL, [result(each) for each in ids], "r"))

    *_, answer, results = request["messages"] if isinstance(request, dict) else request
    used = [block["id"] for block in answer["content"]]
    assert len(set(used)) == len(ids)
    assert [block["tool_use_id"] for block in results["content"]] == used


def test_calls_join_the_texts_of_the_model_before_them_in_geminis_format() -> None:
    texts = [Message.from_text(Role.MODEL, text, message_id=text) for text in ("a", "b")]
    request = written(
        "gemini", *texts, Message(Role.MODEL, [call("x")], "m"), Message(Role.TOOL, [result("x")])
    )

    assert [len(content["parts"]) for content in request["contents"]] == [1, 3, 1]


def test_texts_of_the_model_are_not_joined_in_geminis_format() -> None:
    texts = [Message.from_text(Role.MODEL, text, message_id=text) for text in ("a", "b")]

    assert len(written("gemini", *texts)["contents"]) == 3


@pytest.mark.parametrize("parts", [[Part(text="so ")], [Part(text="a"), Part(text="so \n")]])
def test_a_final_text_of_the_model_has_no_trailing_whitespace_in_anthropics_format(
    parts: list[Part],
) -> None:
    request = written("anthropic", Message(Role.MODEL, parts, "m"))
    assert request["messages"][-1]["content"][-1]["text"] == "so"

    request = written("anthropic", Message(Role.MODEL, parts, "m"), USER)
    assert request["messages"][1]["content"][-1]["text"] == parts[-1].text


@pytest.mark.parametrize("format", FORMATS)
def test_an_attachment_without_content_is_written_as_a_note(format: str) -> None:
    lost = Message(Role.USER, [Part(inline_data=InlineData("image/png", width=8, height=8))])

    assert "image/png attachment" in str(written(format, lost))


@pytest.mark.parametrize("format", FORMATS)
def test_a_thought_in_a_system_message_is_not_written(format: str) -> None:
    system = Message(Role.SYSTEM, [Part(thought="secret"), Part(text="be kind")])

    request = str(written(format, system))

    assert "be kind" in request
    assert "secret" not in request
