"""States of a session, compared: as before an interrupted call, or as after it."""

import json
import re
import threading
from collections.abc import Callable, Container, Mapping

from interrupted_calls import Prepared, restored

from jaato_gc import GCSession, Message, Role, UndoError
from jaato_gc_testing import MemoryStash

SECONDS = 5.0
"""The time that another thread gets. It needs milliseconds, unless a lock is held."""

AHEAD = {
    "plans_made": "numbers ids, and a number may be left out",
    "threshold_told": "the host is told before the collection that follows",
    "stashed_ledgers": "has the keys of what the stash has stored already",
}
"""Figures that may be as after a call while the rest is as before it, and why."""

BEHIND = {
    "counted_at_request": "belongs to a request that was never returned",
    "requested_at": "as above",
    "threshold_crossed": "at worst, one more collection is tried",
    "waits_until": "as above",
}
"""Figures that may be as before a call while the rest is as after it, and why."""

State = Mapping[str, object]
"""The parts of a state, by name."""

_TIME = re.compile(r'"created_at":[^,]+')
_COLLECTION_ID = re.compile(r'"gc_\d+"')
_MESSAGE_ID = re.compile(r'"msg-[0-9a-f]+-\d+"')


def state_of(session: GCSession) -> State:
    """Returns what a host can see of a session. Minted ids and times are normalized."""
    length = len(session.history)  # first: any call of the session completes what was interrupted
    saved = json.loads(_normalized(session.save()))
    state = {
        "history": (length, saved.pop("history")),
        "budget": (session.budget.total_tokens(), saved.pop("budget")),
        "usage": session.get_context_usage(),
        "journal": (list(map(str, session.get_gc_history())), saved.pop("recorded")),
        "undo": (_removed(session), saved.pop("journal")),
    }
    return {**state, **saved}


def ways_on(session: GCSession) -> list[State]:
    """Uses a session in another thread, then undoes everything. Returns the state at each step.

    Raises:
        TimeoutError: The other thread does not get on, because a lock is held.
    """
    _in_another_thread(lambda: _go_on(session))
    states = [state_of(session)]
    while _undo(session):
        states.append(state_of(session))
    session.append(Message.from_text(Role.USER, "and then?", message_id="last"))
    return [*states, state_of(session)]


class Expectation:
    """What an interrupted call may leave behind: the state before it, or the state after it.

    Args:
        prepare: Makes a session and a call, the same every time.
    """

    def __init__(self, prepare: Callable[[], Prepared]) -> None:
        before, after = prepare(), prepare()
        after.call()
        self._before, self._after = state_of(before.session), state_of(after.session)
        assert self._before != self._after
        self._from_before, self._from_after = ways_on(before.session), ways_on(after.session)

    def fault_of(self, session: GCSession) -> str:
        """Returns what is wrong about a session after an interrupt; empty if nothing is."""
        try:
            found = state_of(session)
            is_before = not self._differences(found, self._before, self._after, AHEAD)
            if not is_before and self._differences(found, self._after, self._before, BEHIND):
                return self._comparison(found)
            if state_of(restored(session.save(), _stash_of(session))) != found:
                return "differs once it is saved and restored"
            expected = self._from_before if is_before else self._from_after
            if any(map(_differ, ways_on(session), expected)):
                return "goes on in another way"
        except TimeoutError:
            return "holds a lock: another thread waits for ever"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def _differences(
        self, found: State, expected: State, other: State, lax: Container[str]
    ) -> list[str]:
        return [
            name
            for name in expected
            if found[name] != expected[name]
            if name not in lax or found[name] != other[name]
        ]

    def _comparison(self, found: State) -> str:
        """Returns which parts are as before, which as after, and which are neither."""
        sides: dict[str, list[str]] = {}
        for name, part in found.items():
            before, after = self._before[name], self._after[name]
            if part == before != after:
                sides.setdefault("before", []).append(name)
            elif part == after != before:
                sides.setdefault("after", []).append(name)
            elif part != before:
                sides.setdefault("neither", []).append(name)
        return "; ".join(f"as {side}: {', '.join(names)}" for side, names in sides.items())


def _differ(found: State, expected: State) -> bool:
    """Compares states after the same further calls. Figures that were ahead or behind still are."""
    return any(
        found[name] != expected[name]
        for name in expected
        if name not in AHEAD and name not in BEHIND
    )


def _go_on(session: GCSession) -> None:
    session.append(Message.from_text(Role.USER, "go on", message_id="next"))
    session.save()
    session.manual_gc()


def _in_another_thread(work: Callable[[], object]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        raise TimeoutError
    if errors:
        raise errors[0]


def _undo(session: GCSession) -> bool:
    try:
        session.undo()
    except UndoError:
        return False
    return True


def _removed(session: GCSession) -> int | None:
    try:
        return len(session.get_removed())
    except UndoError:
        return None


def _stash_of(session: GCSession) -> MemoryStash:
    assert isinstance(session.stash, MemoryStash)
    return session.stash


def _normalized(saved: str) -> str:
    names: dict[str, str] = {}
    for minted in (_COLLECTION_ID, _MESSAGE_ID):
        saved = minted.sub(lambda found: names.setdefault(found[0], f'"id {len(names)}"'), saved)
    return _TIME.sub('"created_at":0', saved)
