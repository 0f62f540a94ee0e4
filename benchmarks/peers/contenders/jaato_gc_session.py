"""What the contenders of this project have in common: a session in a host's own loop."""

import json
from collections.abc import Callable, Sequence
from functools import partial

from contender import TARGET, TRIGGER, WINDOW, Conversion, Outcome, Run
from histories import Plain

import jaato_gc_formats
from contenders.wire import anthropic_request, openai_request
from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCPlugin,
    GCPolicy,
    GCSession,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
)
from jaato_gc.plugin import TokenCounter

ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.MODEL, "tool": Role.TOOL}
FRAME, CALL_FRAME = 4, 8
"""What a provider counts beside the texts of a message, and of a call or a result."""
NEVER_FULL = 10**12


class SessionContender:
    """A session with one of the strategies and one of the counters.

    Args:
        name: As in the table.
        distribution: The strategy's.
        make_plugin: The strategy's factory.
        counter: What counts.
        does_less: What it does not do, or does beside.
    """

    module = "jaato_gc"

    def __init__(
        self,
        name: str,
        distribution: str,
        make_plugin: Callable[[], GCPlugin],
        counter: TokenCounter,
        does_less: str = "",
    ) -> None:
        self.name = name
        self.distributions = ("jaato-gc", distribution)
        self.does_less = does_less
        self._make_plugin = make_plugin
        self._counter = counter
        # Looking for plugins is done once in a process, not in every session.
        self._registry = PluginRegistry()
        self._reports: dict[int, list[int]] = {}

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run:
        """`manual_gc` of a session; cold, after appending everything to a new one."""
        percent = 100 * target / sum(plain.tokens for plain in history)
        counted = self.hold(history)
        full = counted.budget.counted_tokens()
        if warm:
            counted.budget.context_limit = full
            return partial(_collect, counted, percent)
        messages = self.bare(history)

        def count_and_collect() -> GCSession:
            session = self._session(full)
            for message in messages:
                session.append(message)
            return _collect(session, percent)

        return count_and_collect

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """The loop of a host: append, `before_send`, `report_usage`, append, `after_turn`."""
        if len(turns) not in self._reports:
            self._reports[len(turns)] = self._rehearse(turns)
        reports = self._reports[len(turns)]

        def run_turns() -> GCSession:
            session = self._session(WINDOW)
            for turn, report in zip(turns, reports, strict=True):
                request, *rest = turn
                session.append(message_of(request))
                session.before_send()
                session.report_usage(report)
                for plain in rest:
                    session.append(message_of(plain))
                session.after_turn()
            return session

        return run_turns

    def _rehearse(self, turns: Sequence[Sequence[Plain]]) -> list[int]:
        """What the provider reports in each turn: the same in every run, as all else is."""
        session = self._session(WINDOW)
        tokens: dict[str, int] = {}
        reports = []
        total = collections = 0

        def append(plain: Plain) -> None:
            nonlocal total
            tokens[session.append(message_of(plain)).message_id] = reported_tokens(plain)
            total += reported_tokens(plain)

        for request, *rest in turns:
            append(request)
            sent = session.before_send()
            if session.budget.collections != collections:
                collections = session.budget.collections
                total = sum(tokens[each.message_id] for each in sent)
            reports.append(total)
            session.report_usage(total)
            for plain in rest:
                append(plain)
            session.after_turn()
        return reports

    def outcome(self, returned: GCSession) -> Outcome:
        """What the session holds."""
        texts = [_text_of(message) for message in returned.history]
        return Outcome(texts, returned.collection_count)

    def save(self, history: Sequence[Plain]) -> Run:
        """`GCSession.save`."""
        return self.hold(history).save

    def restore(self, history: Sequence[Plain]) -> Run:
        """`GCSession.restore`, with counter and strategy as before."""
        saved = self.hold(history).save()
        return lambda: GCSession.restore(
            saved, plugin=self._make_plugin(), counter=self._counter, registry=self._registry
        )

    def hold(self, history: Sequence[Plain]) -> GCSession:
        """A session that is never full."""
        session = self._session(NEVER_FULL)
        for message in self.bare(history):
            session.append(message)
        return session

    def bare(self, history: Sequence[Plain]) -> list[Message]:
        """The messages, not counted."""
        return [message_of(plain) for plain in history]

    def conversions(self, history: Sequence[Plain]) -> list[Conversion]:
        """Requests of two providers, read, written, and written back."""
        conversions = []
        for format, request in (
            ("openai-chat", openai_request(history)),
            ("anthropic", anthropic_request(history)),
        ):
            data = len(json.dumps(request, ensure_ascii=False))
            read = partial(jaato_gc_formats.to_messages, request, format)
            untouched = partial(jaato_gc_formats.from_messages, read())
            write = partial(
                jaato_gc_formats.from_messages, self.bare(history), format, like={"model": "any"}
            )
            conversions += [
                Conversion(f"{format}, read", data, read),
                Conversion(f"{format}, written from scratch", data, write),
                Conversion(f"{format}, written back untouched", data, untouched),
            ]
        return conversions

    def _session(self, context_limit: int) -> GCSession:
        session = GCSession(
            context_limit=context_limit, counter=self._counter, registry=self._registry
        )
        config = GCConfig(threshold_percent=100 * TRIGGER, target_percent=100 * TARGET)
        session.set_gc_plugin(self._make_plugin(), config)
        return session


def message_of(plain: Plain) -> Message:
    """A message of ours."""
    if plain.role == "tool":
        answer = ToolResult(plain.call_id or "", plain.call or "", plain.text)
        return Message(Role.TOOL, [Part(function_response=answer)])
    parts = [Part(text=plain.text)]
    if plain.call:
        call = FunctionCall(plain.call_id or "", plain.call, dict(plain.arguments or {}))
        parts.append(Part(function_call=call))
    policy = GCPolicy.PRESERVABLE if plain.preservable else None
    return Message(ROLES[plain.role], parts, policy=policy)


def reported_tokens(plain: Plain) -> int:
    """What a provider would report for a message."""
    return plain.tokens + FRAME + (CALL_FRAME if plain.call else 0)


def _collect(session: GCSession, percent: float) -> GCSession:
    session.manual_gc(target_percent=percent)
    return session


def _text_of(message: Message) -> str:
    return "".join([message.text, *(str(each.result) for each in message.function_responses)])
