"""The conformance suite for observers of sessions."""

import inspect
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from jaato_gc import GCConfig, GCResult, GCSession, Message, PluginRegistry
from jaato_gc.plugin import Collection
from jaato_gc_testing._guard import refuse_silent_overrides
from jaato_gc_testing._memory_stash import MemoryStash
from jaato_gc_testing._sessions import OldestFirst, ScriptedStrategy, new_session, speak

_CONFIG = GCConfig(preserve_recent_turns=1)
_SESSIONS = 8


class ObserverConformance(ABC):
    """Checks that any observer has to pass. Subclass it and return yours from `factory`:

        class TestMine(ObserverConformance):
            @staticmethod
            def factory():
                return MyObserver()

    An observer is a module or an object with observing hooks. A check that yours can't pass can be
    overridden only with ``@pytest.mark.xfail(reason="…")``.
    """

    @staticmethod
    @abstractmethod
    def factory() -> object:
        """Returns the observer."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses subclasses that override a check without ``xfail`` and a reason."""
        super().__init_subclass__(**arguments)
        refuse_silent_overrides(ObserverConformance, cls)

    def test_observes_something(self) -> None:
        """The observer can be registered, and implements an observing hook."""
        registry = _registry(self.factory())
        observing = [hook for hook, names in registry.hooks().items() if "session_id" in names]
        found = [hook for hook in observing if registry.is_observed(hook)]
        assert found, f"no hook is implemented: expected one of {', '.join(observing)}"

    def test_names_only_existing_arguments(self) -> None:
        """Every argument of an implementation is one of its hook, also if it has a default.

        An unknown argument with a default never gets a value: it may be misspelled.
        """
        observer = self.factory()
        for hook, known in _registry(observer).hooks().items():
            implementation = getattr(observer, hook, None)
            if not callable(implementation):
                continue
            for each in inspect.signature(implementation).parameters.values():
                is_named = each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
                assert not is_named or each.name in known, (
                    f"{hook} has no argument {each.name!r}: it has {', '.join(known)}"
                )

    def test_never_fails(self) -> None:
        """No hook raises: in a session that collects, fails, restores, undoes and ends."""
        with _errors() as errors:
            _run(_registry(self.factory()))
        assert not errors, "; ".join(errors)

    def test_changes_nothing(self) -> None:
        """A session with the observer has the same history, budget and results as one without."""
        without = _run(PluginRegistry(load_installed=False))
        with_observer = _run(_registry(self.factory()))
        for what, value in without.items():
            other = with_observer[what]
            assert other == value, f"{what} is {other!r:.300}, and {value!r:.300} without it"

    def test_serves_many_sessions_at_once(self) -> None:
        """Eight sessions in eight threads share the observer, and no hook raises."""
        registry, start = _registry(self.factory()), threading.Barrier(_SESSIONS)

        def work(number: int) -> None:
            start.wait()
            _run(registry, agent_id=f"agent {number}")

        with _errors() as errors, ThreadPoolExecutor(_SESSIONS) as threads:
            list(threads.map(work, range(_SESSIONS)))
        assert not errors, "; ".join(errors)


def _registry(observer: object) -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    registry.register(observer, "yours")
    return registry


def _run(registry: PluginRegistry, agent_id: str = "main") -> dict[str, object]:
    """Returns what a session is after every step that an observer hears of."""
    session = new_session(
        OldestFirst(),
        _CONFIG,
        registry=registry,
        agent_id=agent_id,
        session_id="s-1",
        context_limit=2_000,
        stash=MemoryStash(),
    )
    with session:
        speak(session, 0, 1, 2, calls=1)
        session.report_usage(1_900)
        result = session.manual_gc(target_percent=10)
        session.restore_stashed([key for item in result.removal_list for key in item.stash_keys])
        session.undo()
        session.set_gc_plugin(ScriptedStrategy(_fail), _CONFIG)
        session.manual_gc()
        return _state(session)


def _fail(collection: Collection) -> None:
    raise RuntimeError(f"a strategy that fails, with {len(collection.history)} messages")


def _state(session: GCSession) -> dict[str, object]:
    history: Sequence[Message] = session.history
    results: list[GCResult] = session.get_gc_history()
    return {
        "the history": [(each.message_id, each.role, list(each.parts)) for each in history],
        "the budget": session.budget.total_tokens(),
        "the usage": session.get_context_usage(),
        "the results": [
            (each.outcome, each.tokens_before, each.tokens_after, each.error, each.details)
            for each in results
        ],
        "the removal lists": [each.removal_list for each in results],
    }


@contextmanager
def _errors() -> Iterator[list[str]]:
    """Yields a list of the errors of observers that the registry logs."""
    errors: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            cause = record.exc_info[1] if record.exc_info else None
            errors.append(f"{record.getMessage()}: {type(cause).__name__}: {cause}")

    logger, handler = logging.getLogger("jaato_gc"), Collector(logging.ERROR)
    logger.addHandler(handler)
    try:
        yield errors
    finally:
        logger.removeHandler(handler)
