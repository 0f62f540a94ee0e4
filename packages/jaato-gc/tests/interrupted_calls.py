"""The calls that tests interrupt, each on a session of its own that is quickly made."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCPolicy,
    GCSession,
    InstructionSource,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
)
from jaato_gc.plugin import Collection, Shortening
from jaato_gc_testing import COUNTER, MemoryStash, ScriptedStrategy

TEXT = "some output that is not needed any more " * 12


def _turn(number: int) -> list[Message]:
    """Returns a turn with a call of a tool that the ledger can list."""
    call = FunctionCall(f"call{number}", "bash", {"command": f"cat notes{number}.txt"})
    result = ToolResult(call.id, "bash", f"{number} {TEXT}")
    return [
        Message.from_text(Role.USER, f"question {number}", message_id=f"u{number}"),
        Message(Role.MODEL, [Part(function_call=call)], f"c{number}"),
        Message(Role.TOOL, [Part(function_response=result)], f"r{number}"),
        Message.from_text(Role.MODEL, f"answer {number}", message_id=f"a{number}"),
    ]


QUESTION, CALL, RESULT, _ = _turn(6)
_REGISTRY = PluginRegistry(load_installed=False)


class Prepared(NamedTuple):
    """A session, and the call of it that is interrupted."""

    session: GCSession
    call: Callable[[], object]


class _Stash(MemoryStash):
    def copy(self) -> "_Stash":
        copied = _Stash(self._clock)
        copied._entries = self._entries.copy()
        return copied


def _select(collection: Collection) -> None:
    """Makes edits of every kind: removed turns, shorter results, a ledger."""
    collection.leave_ledger()
    for group in collection.groups:
        collection.shorten(group, "shortened", Shortening(head=30))
    collection.remove_oldest(collection.turns[:2], "oldest", to_goal=False)


def restored(saved: str, stash: MemoryStash, **options: Any) -> GCSession:
    """Returns a saved session, with the strategy and the options of all sessions here."""
    return GCSession.restore(
        saved,
        strategy=ScriptedStrategy(_select),
        counter=COUNTER,
        registry=_REGISTRY,
        stash=stash,
        clock=lambda: 0.0,
        **options,
    )


@functools.cache
def _collected_once() -> tuple[str, _Stash]:
    """Returns a session with a collection in its journal, as text, and its stash."""
    stash = _Stash(clock=lambda: 0.0)
    session = GCSession(
        counter=COUNTER,
        registry=_REGISTRY,
        stash=stash,
        context_limit=5_000,
        clock=lambda: 0.0,
    )
    config = GCConfig(
        preserve_recent_turns=1, preserve_recent_groups=1, target_percent=10, ledger_percent=50
    )
    session.set_gc_plugin(ScriptedStrategy(_select), config)
    for number in range(1, 6):
        for message in _turn(number):
            session.append(message)
        if number == 3:
            session.manual_gc()
    session.before_send()
    session.report_usage(session.budget.total_tokens() + 10)
    session.pin("u4")
    return session.save(), stash


def _session(*messages: Message, **options: Any) -> GCSession:
    saved, stash = _collected_once()
    session = restored(saved, stash.copy(), **options)
    for message in messages:
        session.append(message)
    return session


def _collection() -> Prepared:
    session = _session()
    return Prepared(session, session.manual_gc)


def _automatic_collection() -> Prepared:
    session = _session()
    session.set_context_limit(700)
    for message in (QUESTION, CALL, RESULT):
        session.append(message)
    return Prepared(session, session.before_send)


def _plan() -> Prepared:
    session = _session()
    plan = session.plan_gc()
    return Prepared(session, lambda: session.apply(plan))


def _undo() -> Prepared:
    session = _session()
    return Prepared(session, session.undo)


def _stash_keys(session: GCSession) -> list[str]:
    return [key for item in session.get_gc_history()[0].removal_list for key in item.stash_keys]


def _restore_to_place() -> Prepared:
    session = _session()
    keys = _stash_keys(session)
    return Prepared(session, lambda: session.restore_stashed(keys))


def _restore_to_tail() -> Prepared:
    session = _session()
    keys = _stash_keys(session)[:1]
    return Prepared(session, lambda: session.restore_stashed(keys, at="tail"))


def _forget() -> Prepared:
    session = _session()
    session.manual_gc()  # replaces a ledger, which goes to the stash
    keys = _stash_keys(session)
    return Prepared(session, lambda: session.forget(keys))


def _remove() -> Prepared:
    session = _session()
    return Prepared(session, lambda: session.remove("c3"))


def _remove_pinned() -> Prepared:
    session = _session()
    return Prepared(session, lambda: session.remove("u4", force=True))


def _replace() -> Prepared:
    session = _session()
    return Prepared(session, lambda: session.replace("u5", QUESTION))


def _append() -> Prepared:
    session = _session()
    return Prepared(session, lambda: session.append(QUESTION))


def _append_after_undo() -> Prepared:
    session = _session()
    session.undo()
    return Prepared(session, lambda: session.append(QUESTION))


def _append_result() -> Prepared:
    session = _session(QUESTION, CALL)
    return Prepared(session, lambda: session.append(RESULT))


def _append_with_policy() -> Prepared:
    session = _session(QUESTION, CALL, tool_policies={"look": GCPolicy.LOCKED})
    return Prepared(session, lambda: session.append(RESULT))


def _repair() -> Prepared:
    session = _session(QUESTION, RESULT, repair=True)
    return Prepared(session, session.before_send)


def _pin() -> Prepared:
    session = _session()
    return Prepared(session, lambda: session.pin("u5"))


def _unpin() -> Prepared:
    session = _session()
    return Prepared(session, lambda: session.unpin("u4"))


def _report_usage() -> Prepared:
    session = _session(QUESTION)
    session.before_send()
    return Prepared(session, lambda: session.report_usage(session.budget.counted_tokens() + 20))


def _update_tokens() -> Prepared:
    session = _session()
    source = InstructionSource.ENRICHMENT
    return Prepared(session, lambda: session.budget.update_tokens(source, 20))


CALLS: dict[str, Callable[[], Prepared]] = {
    "manual_gc": _collection,
    "before_send that collects": _automatic_collection,
    "apply": _plan,
    "undo": _undo,
    "restore_stashed to its place": _restore_to_place,
    "restore_stashed to the tail": _restore_to_tail,
    "forget": _forget,
    "remove": _remove,
    "remove of a pinned message": _remove_pinned,
    "replace": _replace,
    "append": _append,
    "append after an undo": _append_after_undo,
    "append of a tool result": _append_result,
    "append under a tool's policy": _append_with_policy,
    "before_send that repairs": _repair,
    "pin": _pin,
    "unpin": _unpin,
    "report_usage": _report_usage,
    "update_tokens of the budget": _update_tokens,
}
"""Each makes a session and the call, the same every time."""
