"""Messages: types, JSON form, content digest, and the messages that collections write."""

from jaato_gc.messages.digest import stash_key
from jaato_gc.messages.json import message_from_dict, message_to_dict
from jaato_gc.messages.plain import plain_id, plain_json, plain_message, plain_text, serialised
from jaato_gc.messages.synthetic import (
    LEDGER_ID,
    NOTICE_ID,
    fenced,
    fill_template,
    is_ledger,
    is_notice,
    notice_message,
    summary_message,
    summary_text,
)
from jaato_gc.messages.types import (
    MODEL,
    SYSTEM,
    TOOL,
    USER,
    FunctionCall,
    InlineData,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    mint_message_id,
    seal,
)

__all__ = [
    "LEDGER_ID",
    "MODEL",
    "NOTICE_ID",
    "SYSTEM",
    "TOOL",
    "USER",
    "FunctionCall",
    "InlineData",
    "Message",
    "Part",
    "Role",
    "SyntheticKind",
    "ToolResult",
    "fenced",
    "fill_template",
    "is_ledger",
    "is_notice",
    "message_from_dict",
    "message_to_dict",
    "mint_message_id",
    "notice_message",
    "plain_id",
    "plain_json",
    "plain_message",
    "plain_text",
    "seal",
    "serialised",
    "stash_key",
    "summary_message",
    "summary_text",
]
