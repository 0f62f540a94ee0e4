"""Messages for tests of a stash: every kind of part, and values that are hard to store."""

from typing import Any

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

ODD_TEXTS = [
    "",
    " \n\t",
    "\0",
    "lone \ud800 surrogate \udfff",
    "e\u0301 is not é",
    "quote ' \" ` \\ %s :name ?1 $1 {}",
    "読み込み 👩‍👩‍👧‍👦 \u202e\ufeff\uffff",
    "\r\n line ends \u2028 \x85",
]
"""Texts that a faulty store changes, refuses or interprets as syntax."""

ODD_RESULTS: list[Any] = [
    None,
    "",
    0,
    False,
    -0.1,
    10**30,
    [],
    {},
    [[], {}, None, ""],
    {"": {"\0": ["\ud800"]}, "a.b": None, "$ref": "#", "function_response": {"result": 1}},
]
"""Tool results: every JSON type, and several empty values."""


def odd_messages() -> list[Message]:
    """Returns a message for each unusual value, and one with every kind of part."""
    messages = [Message.from_text(Role.USER, text) for text in ODD_TEXTS]
    messages += [
        Message(Role.TOOL, [Part(function_response=ToolResult("call_1", "read", result))])
        for result in ODD_RESULTS
    ]
    attachments = [
        InlineData("image/png", bytes(range(256)), width=3, height=4),
        InlineData("image/png", b""),
        InlineData("image/png", "bm90IGFuIGltYWdl"),
        InlineData("application/pdf", uri="https://example.org/a.pdf"),
    ]
    messages += [Message(Role.USER, [Part(inline_data=each)]) for each in attachments]
    messages.append(Message(Role.MODEL, []))
    messages.append(Message(Role.MODEL, [Part()]))
    messages.append(
        Message(
            Role.MODEL,
            [
                Part(thought="why?", extra={"signature": "c2ln", "deep": [{"er": None}]}),
                Part(text="Because."),
                Part(text="Because."),
                Part(function_call=FunctionCall(None, "bash", {"command": "ls", "n": [1.5]})),
                Part(function_response=ToolResult(None, "bash", {"code": 1}, is_error=True)),
            ],
            message_id="an id with 'quotes' and \ud800",
            synthetic=SyntheticKind.SUMMARY,
            policy=GCPolicy.LOCKED,
            extra={"cache": {"ttl": 5}, "empty": {}},
        )
    )
    return messages


# A fixed alphabet, because the first draw from all of Unicode takes seconds.
_TEXT = st.text("aZ9_./<>{}[]()\"'\\%:;*^~-+|&!\0 \n\u00a0\u0301ß漢あ한🎉\ud800\udfff", max_size=30)
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_EXTRA = st.none() | st.dictionaries(_TEXT, _JSON, max_size=2)
_PARTS = st.one_of(
    st.builds(Part, text=_TEXT, extra=_EXTRA),
    st.builds(Part, thought=_TEXT, extra=_EXTRA),
    st.builds(
        Part,
        function_call=st.builds(
            FunctionCall, st.none() | _TEXT, _TEXT, st.dictionaries(_TEXT, _JSON, max_size=3)
        ),
    ),
    st.builds(
        Part,
        function_response=st.builds(ToolResult, st.none() | _TEXT, _TEXT, _JSON, st.booleans()),
    ),
    st.builds(
        Part,
        inline_data=st.builds(InlineData, _TEXT, st.none() | st.binary(max_size=20) | _TEXT),
    ),
)


def stash_messages() -> st.SearchStrategy[Message]:
    """Returns a Hypothesis strategy for messages with any parts, JSON values and texts.

    The messages are not necessarily valid for a provider.
    """
    return st.builds(
        Message,
        st.sampled_from(Role),
        st.lists(_PARTS, max_size=3),
        synthetic=st.none() | st.sampled_from(SyntheticKind),
        policy=st.none() | st.sampled_from(GCPolicy),
        extra=_EXTRA,
    )
