"""The log formats of agents, with one module each."""

from jaato_gc_formats._logs._antigravity import Antigravity
from jaato_gc_formats._logs._claude_code import ClaudeCode
from jaato_gc_formats._logs._cline import Cline
from jaato_gc_formats._logs._codex_rollout import CodexRollout
from jaato_gc_formats._logs._cursor import Cursor
from jaato_gc_formats._logs._gemini_cli import GeminiCli
from jaato_gc_formats._logs._http_exchange import HttpExchange
from jaato_gc_formats._logs._inspect import InspectLog
from jaato_gc_formats._logs._litellm import LiteLLMLog
from jaato_gc_formats._logs._openhands import OpenHands
from jaato_gc_formats._logs._pi import Pi
from jaato_gc_formats._logs._qwen import Qwen
from jaato_gc_formats._logs._role_lines import RoleLines
from jaato_gc_formats._logs._swe_agent import SweAgent
from jaato_gc_formats._logs._tau import Tau2, TauBench

__all__ = [
    "Antigravity",
    "ClaudeCode",
    "Cline",
    "CodexRollout",
    "Cursor",
    "GeminiCli",
    "HttpExchange",
    "InspectLog",
    "LiteLLMLog",
    "OpenHands",
    "Pi",
    "Qwen",
    "RoleLines",
    "SweAgent",
    "Tau2",
    "TauBench",
]
