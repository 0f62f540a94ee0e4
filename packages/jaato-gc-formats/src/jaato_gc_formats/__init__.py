"""Reads, writes and checks histories in the formats of LLM providers and agents.

Import everything public from here. Modules whose names start with an underscore are private.
"""

from jaato_gc_formats._answer_stream import AnswerStream, AsyncAnswerStream
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._collect import Collected, collect
from jaato_gc_formats._convert import (
    Detected,
    Format,
    check_request,
    detect,
    formats,
    from_messages,
    to_messages,
)
from jaato_gc_formats._counting import ProviderCounter, counter_for
from jaato_gc_formats._errors import FormatError
from jaato_gc_formats._history import Conversation, History, Moment, Problem, Usage
from jaato_gc_formats._load import iter_conversations, iter_messages, load
from jaato_gc_formats._log_format import AnsweredBy, Beside, Compaction, LogFormat
from jaato_gc_formats._plugin import jaato_gc_model_window, jaato_gc_register_formats
from jaato_gc_formats._provider_session import ProviderSession, ProviderTool
from jaato_gc_formats._records import Record
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._repair import repaired
from jaato_gc_formats._version import __version__

__all__ = [
    "AnswerStream",
    "AnsweredBy",
    "ApiFormat",
    "AsyncAnswerStream",
    "Beside",
    "Collected",
    "Compaction",
    "Conversation",
    "Detected",
    "Format",
    "FormatError",
    "History",
    "LogFormat",
    "Moment",
    "Problem",
    "ProviderCounter",
    "ProviderSession",
    "ProviderTool",
    "Record",
    "Refusal",
    "Usage",
    "__version__",
    "check_request",
    "collect",
    "counter_for",
    "detect",
    "formats",
    "from_messages",
    "iter_conversations",
    "iter_messages",
    "jaato_gc_model_window",
    "jaato_gc_register_formats",
    "load",
    "repaired",
    "to_messages",
]
