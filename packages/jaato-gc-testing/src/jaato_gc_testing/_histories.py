"""Random histories, like those of real agents and like those of hosts with bugs.

Every draw costs time, hundreds of times per check, so related choices are one draw.
"""

from dataclasses import replace
from itertools import product

from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCPolicy,
    InlineData,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
)
from jaato_gc.plugin import fenced


class _Repeated(str):
    """A long text with a short repr, for readable failures."""

    _look: str

    def __new__(cls, text: str, times: int = 1) -> "_Repeated":
        repeated = super().__new__(cls, text * times)
        repeated._look = f"{text!r} * {times}"
        return repeated

    def __repr__(self) -> str:
        return self._look


_HUGE = _Repeated("a line of a log file with nothing important in it\n", 500)
"""Longer than most histories: one message can fill a window."""

_SAMPLES = [
    "ok",
    "<|endoftext|><|im_start|>system",
    "</context-notice> <context-summary>",
    "読み込みに失敗しました。もう一度お試しください。",
    "这个函数返回一个列表。其中包含所有未使用的变量。",
    "👩‍👩‍👧‍👦🎉 ✅ deployed 🚀",
    "def f(x):\n    return {'a': [x] * 3}\n",
    '{"id": 17, "path": "/srv/app/config.yaml", "ok": true}',
    _Repeated("2026-01-05T10:11:12Z ERROR worker[4411]: timeout after 30000 ms\n", 5),
    _Repeated("lorem ipsum dolor sit amet ", 60),
    _HUGE,
]
_SOME_TEXTS = st.sampled_from(_SAMPLES)

# Listed, because the first draw from all of Unicode takes seconds.
_CHARACTERS = 'aZ9_.<>{}"\\\0\x1b \n\t\u00a0\u0301\u200d\u202e\ufffdßжשक漢あ한ﬁ🎉🇯'

TEXTS = st.one_of(
    _SOME_TEXTS,
    st.text(_CHARACTERS, min_size=1, max_size=40).filter(lambda text: not text.isspace()),
)
"""Texts of many scripts and shapes, including special tokens and fences."""

_RESULTS = st.one_of(
    TEXTS,
    st.sampled_from(
        [
            "",
            None,
            {"stdout": "done\n", "code": 0},
            {"stdout": _HUGE, "code": -9},
            ["a.py", "b.py"] * 5,
            {"matches": [{"path": "a.py", "lines": [3, 17]}]},
            _Repeated("x = 1\n", 400),
            _Repeated("0123456789abcdef", 150),
        ]
    ),
)
_POLICIES = st.sampled_from([*[None] * 8, *GCPolicy])
_IMAGES = st.builds(
    InlineData,
    mime_type=st.just("image/png"),
    data=st.sampled_from([b"\x89PNG\r\n\x1a\nnonsense", "bm90IGFuIGltYWdl", None]),
    width=st.sampled_from([None, 1, 800, 5000]),
    height=st.sampled_from([None, 1, 600, 5000]),
)

_CALLS = st.sampled_from(
    # Few ids, so that they repeat; None is for providers that give no ids.
    list(product(["call_1", "call_2", "toolu_a", None], ["read_file", "bash", "search"]))
)


def _with_different_ids(calls: list[tuple[str | None, str]]) -> list[tuple[str | None, str]]:
    """Returns parallel calls, without the ids that an earlier one of them has."""
    ids = [call_id for call_id, _ in calls]
    return [
        (None if call_id in ids[:place] else call_id, name)
        for place, (call_id, name) in enumerate(calls)
    ]


_PARALLEL_CALLS = st.lists(_CALLS, min_size=1, max_size=3).map(_with_different_ids)
_BEFORE_CALLS = st.sampled_from(list(product(["nothing", "text", "empty"], [False, True])))
"""The text of a model before its calls, and whether it has a thought."""
_PLACES_OF_RESULTS = st.sampled_from(
    # Some providers give results the role of the user.
    list(product(["together", "with image", "apart"], [Role.TOOL, Role.TOOL, Role.USER]))
)
"""Where results are: in one message or in several, and under which role."""


@st.composite
def _exchange(draw: st.DrawFn, *, answered: bool) -> list[Message]:
    """Draws a model message with parallel calls, and its results in one message or in several."""
    said, thinks = draw(_BEFORE_CALLS)
    parts = []
    if said != "nothing":
        parts.append(Part(text=draw(_SOME_TEXTS) if said == "text" else ""))
    if thinks:
        parts.append(Part(thought=draw(_SOME_TEXTS), extra={"signature": "c2ln"}))
    calls = [
        FunctionCall(call_id, name, {"path": draw(_SOME_TEXTS), "lines": [1, {"to": 40}]})
        for call_id, name in draw(_PARALLEL_CALLS)
    ]
    parts += [Part(function_call=call) for call in calls]
    answers = calls if answered else calls[: draw(st.integers(0, len(calls) - 1))]
    results = []
    for call in answers:
        answer = ToolResult(call.id, call.name, draw(_RESULTS), is_error=draw(st.booleans()))
        results.append(Part(function_response=answer))
    place, role = draw(_PLACES_OF_RESULTS)
    exchange = [Message(Role.MODEL, parts, policy=draw(_POLICIES))]
    if place == "apart":
        exchange += [Message(role, [part], policy=draw(_POLICIES)) for part in results]
    elif results:
        if place == "with image":
            results.append(Part(inline_data=draw(_IMAGES)))
        exchange.append(Message(role, results, policy=draw(_POLICIES)))
    return exchange


@st.composite
def _turn(draw: st.DrawFn, turn_number: int) -> list[Message]:
    """Draws a request, some exchanges, and usually an answer.

    Sometimes reminders are between them, or the exchanges belong together.
    """
    exchanges, is_answered, has_image = draw(_TURN_SHAPES)
    reminds, is_bound = draw(_TURN_EXTRAS)
    request = [Part(text=draw(TEXTS))]
    if has_image:
        request.append(Part(inline_data=draw(_IMAGES)))
    extra = {"cache_control": {"type": "ephemeral"}} if has_image else None
    turn = [Message(Role.USER, request, policy=draw(_POLICIES), extra=extra)]
    for number in range(exchanges):
        if reminds and number != 1:
            turn.append(draw(_reminder()))
        exchange = draw(_exchange(answered=True))
        if is_bound:
            exchange[0] = replace(exchange[0], bonds=[f"code of turn {turn_number}"])
        turn += exchange
    if is_answered:
        if reminds:
            turn.append(draw(_reminder()))
        turn.append(Message(Role.MODEL, [Part(text=draw(_SOME_TEXTS))], policy=draw(_POLICIES)))
    return turn


@st.composite
def _reminder(draw: st.DrawFn) -> Message:
    """Draws a system message that its provider accepts only where it is."""
    policy = draw(st.sampled_from([None, None, None, GCPolicy.LOCKED]))
    return Message(Role.SYSTEM, [Part(text=draw(TEXTS))], policy=policy, keeps_place=True)


_TURN_EXTRAS = st.sampled_from([(False, False)] * 4 + [(True, False), (False, True), (True, True)])
_TURN_SHAPES = st.sampled_from(
    list(product([0, 1, 2], [True, True, False], [False, False, False, True]))
)


@st.composite
def _interjection(draw: st.DrawFn) -> Message:
    """Draws a message between turns: a system message, a notice or a summary."""
    kind = draw(st.sampled_from([None, SyntheticKind.NOTICE, SyntheticKind.SUMMARY]))
    if kind is None:
        return Message.from_text(Role.SYSTEM, draw(TEXTS))
    return Message.from_text(Role.USER, fenced(kind, draw(TEXTS)), synthetic=kind)


def _numbered(messages: list[Message]) -> list[Message]:
    """Returns messages with short ids in order, so that a failing example is readable."""
    return [replace(message, message_id=f"m{at}") for at, message in enumerate(messages)]


@st.composite
def histories(draw: st.DrawFn, *, min_turns: int = 1, max_turns: int = 5) -> list[Message]:
    """Generates valid histories, with parallel and open calls, repeated ids, thoughts and images.

    Args:
        min_turns: The minimum number of turns. A history without a turn can't be sent.
        max_turns: The maximum number of turns.
    """
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(Message.from_text(Role.SYSTEM, draw(TEXTS)))
    turns = draw(st.integers(min_turns, max_turns))
    interjected_after = draw(st.integers(0, 9))
    for turn in range(turns):
        messages += draw(_turn(turn))
        if turn == interjected_after:
            messages.append(draw(_interjection()))
    if turns and draw(st.booleans()):
        messages += draw(_exchange(answered=False))
    return _numbered(messages)


def _of_another_tool(part: Part) -> Part:
    answer = part.function_response
    return replace(part, function_response=replace(answer, name="other")) if answer else part


@st.composite
def broken_histories(draw: st.DrawFn) -> list[Message]:
    """Generates histories of a host with bugs.

    Messages are missing, misplaced or empty, or have a wrong role, one call twice, or the result of
    another tool. A new invariant adds here what breaks it.
    """
    messages = draw(histories(min_turns=0))
    for _ in range(draw(st.integers(1, 4)) if messages else 0):
        position = draw(st.integers(0, len(messages) - 1))
        damage = draw(st.sampled_from(["drop", "move", "empty", "twice", "rename", *Role]))
        damaged = messages[position]
        if damage == "empty":
            messages[position] = Message(damaged.role, [Part(text="")])
        elif damage == "twice":
            calls = [part for part in damaged.parts if part.function_call]
            messages[position] = damaged.with_parts([*damaged.parts, *calls])
        elif damage == "rename":
            messages[position] = damaged.with_parts(map(_of_another_tool, damaged.parts))
        elif isinstance(damage, Role):
            if not damaged.synthetic:  # those are not the host's
                messages[position] = replace(damaged, role=damage)
        elif len(messages) > 1:
            message = messages.pop(position)
            if damage == "move":
                messages.insert(draw(st.integers(0, len(messages))), message)
    return _numbered(messages)
