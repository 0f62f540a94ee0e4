"""A stash may fail in any way and take long: the session is unchanged, and nothing waits for it."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jaato_gc import (
    GCConfig,
    GCError,
    GCPolicy,
    GCSession,
    Message,
    PluginRegistry,
    Role,
    StashError,
    UndoError,
)
from jaato_gc.plugin import Stash, StashEntry, hookimpl, recall_tool
from jaato_gc_testing import MemoryStash, OldestFirst, new_session, saved_state, speak

Method = Callable[..., Any]


class OddStash(MemoryStash):
    """A stash whose methods can be replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.odd: dict[str, Callable[[Method], Any]] = {}
        """Called instead of a method, with the usual answer as a function."""

    def _answer(self, method: str, usual: Callable[[], Any]) -> Any:
        return self.odd[method](usual) if method in self.odd else usual()

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        usual = super().put
        answer: list[str] = self._answer("put", lambda: usual(gc_id, messages))
        return answer

    def get(self, key: str) -> StashEntry | None:
        usual = super().get
        answer: StashEntry | None = self._answer("get", lambda: usual(key))
        return answer

    def restore(self, keys: Sequence[str]) -> list[Message]:
        usual = super().restore
        answer: list[Message] = self._answer("restore", lambda: usual(keys))
        return answer

    def forget(self, keys: Iterable[str] | None = None) -> int:
        usual = super().forget
        answer: int = self._answer("forget", lambda: usual(keys))
        return answer

    def for_agent(self, agent: str) -> MemoryStash:
        usual = super().for_agent
        answer: MemoryStash = self._answer("for_agent", lambda: usual(agent))
        return answer


def session_with(stash: Stash) -> GCSession:
    """Returns a session with a collection whose content is only in the stash."""
    config = GCConfig(preserve_recent_turns=1, target_percent=20)
    session = new_session(
        OldestFirst(), config, stash=stash, journal_bytes=1_000, context_limit=2_000
    )
    speak(session, *range(12), calls=1)
    assert session.manual_gc().removal_list
    return session


def keys_of(session: GCSession) -> list[str]:
    results = session.get_gc_history()
    return [key for result in results for item in result.removal_list for key in item.stash_keys]


def replace_last(session: GCSession) -> None:
    last = session.history[-1]
    session.replace(last.message_id, Message.from_text(last.role, "short"))


ACTIONS: dict[str, Callable[[GCSession], object]] = {
    "remove": lambda session: session.remove(session.history[-1].message_id),
    "replace": replace_last,
    "undo": lambda session: session.undo(),
    "restore_stashed": lambda session: session.restore_stashed(keys_of(session)[:1]),
    "restore_stashed at the tail": lambda session: session.restore_stashed(
        keys_of(session)[:1], at="tail"
    ),
    "forget": lambda session: session.forget(keys_of(session)[:1]),
    "get_removed": lambda session: session.get_removed("gc_1"),
}
CASES = [
    *(("remove", "put"), ("replace", "put"), ("undo", "restore"), ("get_removed", "restore")),
    *(("restore_stashed", "restore"), ("restore_stashed at the tail", "restore")),
    *(("forget", "get"), ("forget", "forget")),
]


def raising(error: BaseException) -> Callable[[Method], Any]:
    def fail(_usual: Method) -> Any:
        raise error

    return fail


ODD_ANSWERS: dict[str, Callable[[Method], Any]] = {
    "SystemExit": raising(SystemExit("done")),
    "KeyError": raising(KeyError("odd")),
    "OSError": raising(OSError("disk")),
    "a text": lambda _usual: "odd",
    "a list": lambda _usual: [5, 5],
    "an object": lambda _usual: object(),
}


@pytest.mark.parametrize(("action", "method"), CASES)
@pytest.mark.parametrize("answer", ODD_ANSWERS)
def test_a_stash_that_fails_is_one_error_and_changes_nothing(
    action: str, method: str, answer: str
) -> None:
    stash = OddStash()
    session = session_with(stash)
    before = saved_state(session)
    stash.odd[method] = ODD_ANSWERS[answer]

    with pytest.raises((StashError, UndoError)) as caught:
        ACTIONS[action](session)

    assert caught.value.__cause__ is not None
    after = saved_state(session)
    assert (after["history"], after["journal"]) == (before["history"], before["journal"])
    stash.odd.clear()
    ACTIONS[action](session)


@pytest.mark.parametrize(("action", "method"), CASES)
def test_a_stash_is_never_asked_while_the_state_is_locked(action: str, method: str) -> None:
    stash = OddStash()
    session = session_with(stash)
    asked, go_on = threading.Event(), threading.Event()

    def wait(usual: Method) -> Any:
        asked.set()
        assert go_on.wait(60)
        return usual()

    stash.odd[method] = wait
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(ACTIONS[action], session)
        assert asked.wait(60)
        message = Message.from_text(Role.USER, "meanwhile")
        appended = pool.submit(session.append, message).result(60)
        session.get_context_usage()
        go_on.set()
        running.result(60)

    assert appended in session.history
    session.before_send()


def test_what_changes_while_the_stash_is_asked_is_stored_too() -> None:
    stash = OddStash()
    session = session_with(stash)
    last = session.history[-1].message_id

    def change_first(usual: Method) -> Any:
        del stash.odd["put"]
        replace_last(session)
        return usual()

    stash.odd["put"] = change_first
    session.remove(last)

    result = session.get_gc_history()[-1]
    [item] = result.removal_list
    stored = stash.get(item.stash_keys[-1])
    assert stored
    assert stored.message.text == "short"
    session.undo()
    assert session.history[-1].text == "short"


def test_an_undo_undoes_what_is_newest_when_its_content_was_read() -> None:
    stash = OddStash()
    session = session_with(stash)

    def remove_first(usual: Method) -> Any:
        del stash.odd["restore"]
        ACTIONS["remove"](session)
        return usual()

    stash.odd["restore"] = remove_first
    session.undo()

    states = [entry.state for entry in session._journal.entries]
    assert states[-1] == "undone"
    assert "applied" in states


def test_a_child_whose_stash_fails_is_one_error() -> None:
    stash = OddStash()
    session = session_with(stash)
    stash.odd["for_agent"] = raising(SystemExit("done"))

    with pytest.raises(StashError, match="SystemExit: done"):
        session.child()


def test_the_recall_tool_answers_even_if_the_stash_wants_to_end_the_process() -> None:
    stash = OddStash()
    stash.odd["get"] = raising(SystemExit("done"))

    assert "done" in recall_tool(stash).handler({"key": "x"})


@pytest.mark.parametrize("hook", ["jaato_gc_stash", "jaato_gc_token_counter"])
def test_a_plugin_that_wants_to_end_the_process_is_broken(hook: str) -> None:
    class Leaving:
        @hookimpl
        def jaato_gc_stash(self, agent_id: str) -> None:
            raise SystemExit(agent_id)

        @hookimpl
        def jaato_gc_token_counter(self, model: str | None) -> None:
            raise SystemExit(model)

    registry = PluginRegistry(load_installed=False)
    registry.register(Leaving(), "leaving")
    ask = {"jaato_gc_stash": registry.stash, "jaato_gc_token_counter": registry.token_counter}
    ask[hook]()

    [plugin] = registry.plugins()
    assert "SystemExit" in (plugin.cause or "")


# --- functions of the host ---


def meddling(change: Callable[[GCSession], object], found: list[GCSession]) -> Any:
    def policy_of(message: Message) -> GCPolicy | None:
        if message.text == "once":
            change(found[0])
        return None

    return policy_of


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session.append(Message.from_text(Role.USER, "another")),
        lambda session: session.remove("a1"),
        lambda session: session.budget.add_child("enrichment", "x", 5, GCPolicy.EPHEMERAL),
        lambda session: session.manual_gc(),
        lambda session: session.undo(),
    ],
)
def test_policy_of_can_not_change_its_session(change: Callable[[GCSession], object]) -> None:
    found: list[GCSession] = []
    session = new_session(OldestFirst(), policy_of=meddling(change, found), context_limit=2_000)
    found.append(session)
    speak(session, *range(3))
    session.remove("a2")
    before = saved_state(session)

    with pytest.raises(GCError, match="policy_of can't change its session"):
        session.append(Message.from_text(Role.USER, "once"))

    after = saved_state(session)
    for key in ("history", "budget", "turns", "journal"):
        assert after[key] == before[key]
    session.append(Message.from_text(Role.USER, "again"))
    assert session.history[-1].text == "again"
