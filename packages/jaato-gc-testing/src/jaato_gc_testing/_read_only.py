"""Detects that a strategy writes on what it may only read."""

import copy
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import jaato_gc
from jaato_gc import Message, ReadOnlyError
from jaato_gc.plugin import Collection


@contextmanager
def watching(method: str, look: Callable[[], Mapping[str, object]]) -> Iterator[None]:
    """Fails if the strategy writes on a read-only object, also if it ignores the error of that."""
    before, error = look(), None
    try:
        yield
    except Exception as raised:
        error = raised
    after = look()
    changed = [name for name, value in before.items() if after.get(name, value) != value]
    if changed:
        raise AssertionError(f"{method} wrote on {', '.join(changed)}") from error
    if isinstance(error, AttributeError | TypeError | ReadOnlyError):
        raise AssertionError(
            f"{method} wrote on a read-only object, or failed otherwise: "
            f"{type(error).__name__}: {error}\n{_place_of(error)}"
        ) from error
    if error:
        raise error


def _place_of(error: Exception) -> str:
    """Returns the last line of the strategy's own code in a traceback."""
    core = Path(jaato_gc.__file__).parent
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.line and core not in Path(frame.filename).parents
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}"


def look_of(collection: Collection) -> dict[str, object]:
    """Returns a copy of everything that a strategy reads of a collection."""
    groups = {
        f"the group of message {group.messages[0].message_id}": (ids_of(group.messages), group[1:])
        for group in collection.groups
    }
    turns = {
        f"turn {number}": (turn.index, [ids_of(group.messages) for group in turn.groups])
        for number, turn in enumerate(collection.turns)
    }
    others = {
        "the list of groups": list(groups),
        "the list of turns": list(turns),
        "the goal of the collection": collection.goal,
        "the reason of the collection": collection.reason,
        "the configuration": collection.config.model_dump(),
        "the budget": collection.budget and collection.budget.snapshot(),
    }
    return copies(collection.history, {**groups, **turns, **others})


def copies(history: Iterable[Message], others: Mapping[str, object]) -> dict[str, object]:
    """Returns copies of messages and other objects, by the names that a failure gives them."""
    messages = {f"message {message.message_id}": message for message in history}
    return copy.deepcopy({**messages, "the history": list(messages), **others})


def ids_of(messages: Iterable[Message]) -> list[str]:
    """Returns the ids of messages."""
    return [message.message_id for message in messages]
