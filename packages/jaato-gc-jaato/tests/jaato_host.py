"""jaato-server of either line of versions, with a model that follows a script."""

import importlib
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

VERSION = version("jaato-server")
ROOT = "jaato_server.shared" if int(VERSION.partition(".")[0]) else "shared"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of jaato-server's own imports
    gc = importlib.import_module(f"{ROOT}.plugins.gc")
    budgets = importlib.import_module(f"{ROOT}.instruction_budget")
    gc_support = importlib.import_module(f"{ROOT}.gc_support")
    invariant = importlib.import_module(f"{ROOT}.history_invariant")
    JaatoSession = importlib.import_module(f"{ROOT}.jaato_session").JaatoSession
    JaatoRuntime = importlib.import_module(f"{ROOT}.jaato_runtime").JaatoRuntime
    types = importlib.import_module("jaato_sdk.plugins.model_provider.types")

Message, Part, Role = types.Message, types.Part, types.Role
FunctionCall, ToolResult, Attachment = types.FunctionCall, types.ToolResult, types.Attachment

STRATEGIES = (
    "gc_jg_truncate",
    "gc_jg_summarize",
    "gc_jg_hybrid",
    "gc_jg_budget",
    "gc_jg_marksweep",
)


class Model:
    """A model provider: answers every request with the same text, and calls a tool if asked to.

    Args:
        context_limit: The window.
    """

    name = "scripted"

    def __init__(self, context_limit: int) -> None:
        self.context_limit = context_limit
        self.requests: list[list[Any]] = []
        self.reported_tokens = 0
        """What it reports as usage."""
        self.steps = 0
        """How many times it calls a tool before it answers."""

    def get_context_limit(self) -> int:
        return self.context_limit

    def supports_streaming(self) -> bool:
        return True

    def complete(self, messages: Sequence[Any], **options: Any) -> Any:
        self.requests.append(list(messages))
        usage = types.TokenUsage(self.reported_tokens, 0, self.reported_tokens)
        if options.get("on_usage_update"):
            options["on_usage_update"](usage)
        parts = [Part.from_text("Noted. " * 10)]
        finished = types.FinishReason.STOP
        if self.steps:
            self.steps -= 1
            number = len(self.requests)
            args = {"number": number}
            parts.append(Part.from_function_call(FunctionCall(f"step-{number}", "look", args)))
            finished = types.FinishReason.TOOL_USE
        response = types.ProviderResponse(parts=parts, usage=usage, finish_reason=finished)
        return types.TurnResult.from_provider_response(response)


def new_session(model: Model, history: Sequence[Any] = ()) -> Any:
    """Returns a session of jaato-server with a history that is booked in its budget."""
    runtime = JaatoRuntime(provider_name=model.name)
    runtime.create_provider = lambda *_, **__: model
    session = JaatoSession(runtime, "scripted-1")
    session.configure()
    session._ensure_provider()
    if history:
        session.reset_session(list(history))
        session._update_conversation_budget()
    return session


def use(session: Any, name: str, plugin_config: dict[str, Any] | None = None, **config: Any) -> Any:
    """Gives a plugin to a session, as a gc.json of jaato-server would. Returns the plugin."""
    plugin = gc.load_gc_plugin(name, {"notify_on_gc": False, **(plugin_config or {})})
    settings: dict[str, Any] = {"pressure_percent": 90.0, **config}
    session.set_gc_plugin(plugin, gc.GCConfig(plugin_config=plugin_config or {}, **settings))
    return plugin


def user(text: str, **fields: Any) -> Any:
    return Message(Role.USER, [Part.from_text(text)], **fields)


def model(text: str, **fields: Any) -> Any:
    return Message(Role.MODEL, [Part.from_text(text)], model="m", provider="p", **fields)


def call(call_id: str, name: str = "readFile", **args: Any) -> Any:
    return Message(Role.MODEL, [Part.from_function_call(FunctionCall(call_id, name, args))])


def result(call_id: str, value: Any, name: str = "readFile", **fields: Any) -> Any:
    answer = ToolResult(call_id, name, value, **fields)
    return Message(Role.TOOL, [Part.from_function_response(answer)])


def a_file(number: int, lines: int = 40) -> str:
    return "\n".join(f"{number}.{line}: def function_{number}_{line}():" for line in range(lines))


def conversation(turns: int = 30, *, lines: int = 40) -> list[Any]:
    """Returns turns of a request, a call with its result, and an answer."""
    history: list[Any] = []
    for turn in range(turns):
        call_id = f"call-{turn}"
        history += [
            user(f"Request {turn}: please look at the file and tell me what it does."),
            call(call_id, path=f"src/file_{turn}.py"),
            result(call_id, {"content": a_file(turn, lines)}),
            model(f"Answer {turn}: it defines functions, and each of them does something."),
        ]
    return history


def recounted(session: Any) -> int:
    """Returns the total after jaato-server has counted its history again, as in every turn."""
    session._update_conversation_budget()
    total: int = session._instruction_budget.total_tokens()
    return total
