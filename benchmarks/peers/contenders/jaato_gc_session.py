"""A session of jaato-gc in a host's own loop, with any strategy and counter."""

from collections.abc import Callable, Sequence
from functools import partial

from contender import TARGET, TRIGGER, WINDOW, Counts, Outcome, Run
from histories import Plain

from jaato_gc import (
    EstimateCounter,
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
    estimate_tokens,
)
from jaato_gc.plugin import TokenCounter

ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.MODEL, "tool": Role.TOOL}
NEVER_FULL = 10**12


class SessionContender:
    """A session with one of the strategies and one of the counters.

    Args:
        name: As in the table.
        distribution: The strategy's.
        make_plugin: The strategy's factory.
        counter: What counts.
    """

    statement = "from jaato_gc import GCSession"
    names_removed = True

    def __init__(
        self,
        name: str,
        distribution: str,
        make_plugin: Callable[[], GCPlugin],
        counter: TokenCounter,
    ) -> None:
        self.name = name
        self.distributions = ("jaato-gc", distribution)
        estimates = isinstance(counter, EstimateCounter)
        self.counts: Counts = "estimate" if estimates else "tokens"
        self.remark = "estimates are corrected by reported usage" if estimates else ""
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
        """Runs the loop of a host: append, `before_send`, `report_usage`, append, `after_turn`."""
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
        """Returns what the provider reports in each turn: the same in every run."""
        session = self._session(WINDOW)
        tokens: dict[str, int] = {}
        reports = []
        total = collections = 0

        def append(plain: Plain) -> None:
            nonlocal total
            text = _text_of(session.append(message_of(plain)))
            tokens[text] = plain.reported_tokens
            total += tokens[text]

        for request, *rest in turns:
            append(request)
            sent = session.before_send()
            if session.collection_count != collections:
                collections = session.collection_count
                for text in map(_text_of, sent):  # collections shorten results and add a ledger
                    if text not in tokens:
                        tokens[text] = estimate_tokens(text)
                total = sum(tokens[_text_of(each)] for each in sent)
            reports.append(total)
            session.report_usage(total)
            for plain in rest:
                append(plain)
            session.after_turn()
        return reports

    def outcome(self, returned: GCSession) -> Outcome:
        """Returns the texts in the session."""
        texts = [_text_of(message) for message in returned.history]
        return Outcome(texts, returned.collection_count)

    def hold(self, history: Sequence[Plain]) -> GCSession:
        """Returns a session that is never full."""
        session = self._session(NEVER_FULL)
        for message in self.bare(history):
            session.append(message)
        return session

    def bare(self, history: Sequence[Plain]) -> list[Message]:
        """Returns the messages, not counted."""
        return [message_of(plain) for plain in history]

    def _session(self, context_limit: int) -> GCSession:
        session = GCSession(
            context_limit=context_limit, counter=self._counter, registry=self._registry
        )
        config = GCConfig(threshold_percent=100 * TRIGGER, target_percent=100 * TARGET)
        session.set_gc_plugin(self._make_plugin(), config)
        return session


def message_of(plain: Plain) -> Message:
    """Returns a message of jaato-gc."""
    if plain.role == "tool":
        answer = ToolResult(plain.call_id or "", plain.call or "", plain.text)
        return Message(Role.TOOL, [Part(function_response=answer)])
    parts = [Part(text=plain.text)]
    if plain.call:
        call = FunctionCall(plain.call_id or "", plain.call, dict(plain.arguments or {}))
        parts.append(Part(function_call=call))
    policy = GCPolicy.PRESERVABLE if plain.preservable else None
    return Message(ROLES[plain.role], parts, policy=policy)


def _collect(session: GCSession, percent: float) -> GCSession:
    session.manual_gc(target_percent=percent)
    return session


def _text_of(message: Message) -> str:
    return "".join([message.text, *(str(each.result) for each in message.function_responses)])
