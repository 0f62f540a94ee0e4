"""Registers the formats of this distribution with core, and the windows of models."""

from collections.abc import Callable, Iterable
from functools import partial

from jaato_gc.plugin import FormatInfo, hookimpl
from jaato_gc_formats import _logs as logs
from jaato_gc_formats._anthropic import AnthropicMessages
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._gemini import GeminiContents
from jaato_gc_formats._log_format import LogFormat
from jaato_gc_formats._openai_chat import OpenAIChat
from jaato_gc_formats._openai_responses import OpenAIResponses
from jaato_gc_formats._windows import model_window

APIS: tuple[type[ApiFormat], ...] = (OpenAIChat, OpenAIResponses, AnthropicMessages, GeminiContents)
LOGS: dict[type[ApiFormat], tuple[type[LogFormat], ...]] = {
    AnthropicMessages: (logs.ClaudeCode, logs.Cline, logs.Cursor, logs.Pi),
    OpenAIResponses: (logs.CodexRollout,),
    GeminiContents: (logs.GeminiCli, logs.Qwen),
    OpenAIChat: (
        logs.Antigravity, logs.InspectLog, logs.LiteLLMLog, logs.OpenHands, logs.RoleLines,
        logs.SweAgent, logs.Tau2, logs.TauBench,
    ),
}  # fmt: skip
"""Log formats, by the API format that their messages are converted to."""


@hookimpl
def jaato_gc_register_formats() -> Iterable[FormatInfo]:
    """Registers the API formats and the log formats of this distribution."""
    yield from (FormatInfo(api.name, api, api.summary) for api in APIS)
    for api, kept in LOGS.items():
        yield from (FormatInfo(log.name, partial(_log, log, api), log.summary) for log in kept)
    yield FormatInfo(logs.HttpExchange.name, _exchange, logs.HttpExchange.summary)


@hookimpl
def jaato_gc_model_window(model: str) -> int | None:
    """Returns the window of a model, if it is in the table of this distribution."""
    return model_window(model)


def _log(log: type[LogFormat], api: Callable[[], ApiFormat]) -> LogFormat:
    return log(api())


def _exchange() -> logs.HttpExchange:
    return logs.HttpExchange([api() for api in APIS])
