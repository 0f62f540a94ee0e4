"""Random histories, as real agents make them and as broken hosts hand them over."""

from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCPolicy,
    InlineData,
    Message,
    Part,
    Role,
    ToolResult,
)

TEXTS = st.one_of(
    st.sampled_from(
        [
            "ok",
            "<|endoftext|><|im_start|>system",
            "</context-notice> <context-summary>",
            "読み込みに失敗しました。もう一度お試しください。",
            "这个函数返回一个列表。其中包含所有未使用的变量。",
            "👩‍👩‍👧‍👦🎉 ✅ deployed 🚀",
            "def f(x):\n    return {'a': [x] * 3}\n",
            '{"id": 17, "path": "/srv/app/config.yaml", "ok": true}',
            "2026-01-05T10:11:12Z ERROR worker[4411]: timeout after 30000 ms\n" * 5,
            "lorem ipsum dolor sit amet " * 60,
        ]
    ),
    st.text(min_size=1, max_size=40).filter(lambda text: not text.isspace()),
)
"""Texts of many scripts and shapes, special-token and fence text among them."""

_CALL_IDS = st.sampled_from(["call_1", "call_2", "call_3", "", "toolu_a"])
"""Few, so that they repeat; the empty one stands for providers that give none."""
_TOOLS = st.sampled_from(["read_file", "bash", "search"])
_RESULTS = st.one_of(
    TEXTS,
    st.dictionaries(st.sampled_from(["stdout", "code"]), st.one_of(TEXTS, st.integers())),
    st.none(),
    st.sampled_from(["x = 1\n" * 400, "0123456789abcdef" * 150]),
)
_POLICIES = st.one_of(
    *[st.none()] * 6, st.sampled_from([GCPolicy.LOCKED, GCPolicy.PRESERVABLE, GCPolicy.EPHEMERAL])
)
_IMAGES = st.builds(
    InlineData,
    mime_type=st.just("image/png"),
    data=st.sampled_from([b"\x89PNG\r\n\x1a\nnonsense", "bm90IGFuIGltYWdl", None]),
    width=st.sampled_from([None, 1, 800, 5000]),
    height=st.sampled_from([None, 1, 600, 5000]),
)


@st.composite
def _calls(draw: st.DrawFn) -> list[FunctionCall]:
    return [
        FunctionCall(draw(_CALL_IDS) or None, draw(_TOOLS), {"path": draw(TEXTS)})
        for _ in range(draw(st.integers(1, 3)))
    ]


@st.composite
def _exchange(draw: st.DrawFn, *, answered: bool) -> list[Message]:
    """A model message with parallel calls, and its results in one message or in several."""
    calls = draw(_calls())
    parts = [Part(function_call=call) for call in calls]
    if draw(st.booleans()):
        parts.insert(0, Part(thought=draw(TEXTS), extra={"signature": "c2ln"}))
    if draw(st.booleans()):
        parts.insert(0, Part(text=draw(TEXTS)))
    answers = calls if answered else calls[: draw(st.integers(0, len(calls) - 1))]
    results = [
        Part(
            function_response=ToolResult(
                call.id, call.name, draw(_RESULTS), is_error=draw(st.booleans())
            )
        )
        for call in answers
    ]
    exchange = [Message(Role.MODEL, parts, policy=draw(_POLICIES))]
    if draw(st.booleans()):
        exchange += [Message(Role.TOOL, [part], policy=draw(_POLICIES)) for part in results]
    elif results:
        if draw(st.booleans()):
            results.append(Part(inline_data=draw(_IMAGES)))
        exchange.append(Message(Role.TOOL, results, policy=draw(_POLICIES)))
    return exchange


@st.composite
def _turn(draw: st.DrawFn) -> list[Message]:
    request = [Part(text=draw(TEXTS))]
    if draw(st.integers(0, 5)) == 0:
        request.append(Part(inline_data=draw(_IMAGES)))
    turn = [Message(Role.USER, request, policy=draw(_POLICIES))]
    for _ in range(draw(st.integers(0, 2))):
        turn += draw(_exchange(answered=True))
    if draw(st.booleans()):
        turn.append(Message(Role.MODEL, [Part(text=draw(TEXTS))], policy=draw(_POLICIES)))
    return turn


def _numbered(messages: list[Message]) -> list[Message]:
    """With short ids in order, so that a failing example can be read."""
    for number, message in enumerate(messages):
        message.message_id = f"m{number}"
    return messages


@st.composite
def histories(draw: st.DrawFn, *, min_turns: int = 0, max_turns: int = 5) -> list[Message]:
    """Sendable histories: parallel calls, repeated or missing ids, thoughts, images, open calls."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(Message.from_text(Role.SYSTEM, draw(TEXTS)))
    turns = draw(st.integers(min_turns, max_turns))
    for _ in range(turns):
        messages += draw(_turn())
    if turns and draw(st.booleans()):
        messages += draw(_exchange(answered=False))
    return _numbered(messages)


@st.composite
def broken_histories(draw: st.DrawFn) -> list[Message]:
    """Histories as a careless host hands them over: pieces missing, out of place or empty."""
    messages = draw(histories(min_turns=1))
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(messages) - 1))
        damage = draw(st.sampled_from(["drop", "move", "empty"]))
        if damage == "empty":
            messages[position] = Message(messages[position].role, [Part(text="")])
        elif len(messages) > 1:
            message = messages.pop(position)
            if damage == "move":
                messages.insert(draw(st.integers(0, len(messages))), message)
    return _numbered(messages)
