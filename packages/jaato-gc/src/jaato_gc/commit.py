"""One commit point for everything that a session changes.

A user presses Ctrl-C at any line. History, budget, pins and journal must then be as before the call
or as after it, never between. So a change is prepared first, on values of its own, where anything
may fail or be interrupted. Then one assignment makes it count: from there on it is finished, if not
by its own thread, then by the next one that takes the lock.

Every write of a commit sets a final value, so writing it twice does no harm.
"""

import contextvars
import threading
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from jaato_gc.errors import GCError

P = ParamSpec("P")
R = TypeVar("R")


class Commit:
    """Changes that take effect together: they are collected here, and written at the end."""

    __slots__ = ("_writes",)

    def __init__(self) -> None:
        self._writes: list[Callable[[], object]] = []

    def then(self, write: Callable[[], object]) -> None:
        """Calls a function that sets final values, and does nothing else."""
        self._writes.append(write)

    def assign(self, owner: object, **values: Any) -> None:
        """Sets attributes of an object."""
        self.then(partial(_assign, owner, values))

    def write(self) -> None:
        """Makes all changes. May be interrupted, and called again."""
        for write in self._writes:
            write()


class _AtOnce(Commit):
    """Changes that take effect as soon as they are known."""

    __slots__ = ()

    def then(self, write: Callable[[], object]) -> None:
        """Calls the function."""
        write()


AT_ONCE = _AtOnce()
"""For copies that are put in place later, and for changes that only a host makes."""


def _assign(owner: object, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(owner, name, value)


_ASKING: contextvars.ContextVar["Guard | None"] = contextvars.ContextVar(
    "jaato_gc_asking", default=None
)
"""The guard that calls a function of the host."""


class Guard:
    """The lock of a session's state, and the commit that is being written.

    Take ``lock`` with a plain ``with`` statement, whose entry and exit can't be interrupted, and
    call `recover` first. `guarded` does both for a method.
    """

    __slots__ = ("_pending", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._pending: Commit | None = None

    def ask(self, function: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Calls a function of the host for a commit that is being prepared.

        The function can't change the state, because the commit is prepared for the state as it is.
        """

        # In a context of its own, so that an interrupt can't leave it set.
        context = contextvars.copy_context()
        context.run(_ASKING.set, self)
        return context.run(function, *args, **named)

    def commit(self, commit: Commit) -> None:
        """Makes changes, as a whole. The lock must be held.

        Raises:
            GCError: A function of the host makes them while it is asked for another change.
        """
        if _ASKING.get() is self:
            raise GCError(
                "policy_of can't change its session, because it is called while a message is "
                "added: make the change before or after that"
            )
        self._pending = commit
        self.recover()

    def recover(self) -> None:
        """Finishes a commit that was interrupted. The lock must be held."""
        if self._pending is not None:
            self._pending.write()
            self._pending = None


class _Guarded(Protocol):
    @property
    def _guard(self) -> Guard: ...


G = TypeVar("G", bound=_Guarded)


def guarded(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """Makes a method run under the lock of its object's guard, on a state that is whole."""

    @wraps(method)
    def run(self: G, /, *args: P.args, **named: P.kwargs) -> R:
        guard = self._guard
        with guard.lock:
            if guard._pending is not None:
                guard.recover()
            return method(self, *args, **named)

    return run
