"""Read-only lists and dicts, for messages, configurations, budgets, results and histories."""

from typing import Any, NoReturn

_COPY_IT = (
    "it belongs to a message, a configuration, a budget or a result: copy it, change the copy, and "
    "make another object from it"
)

ENTRIES_FOLLOW_THE_BUDGET = (
    "its budget keeps totals: empty a source with budget.clear_source(source), set tokens with "
    "update_tokens, change entries with set_entry, add_child and remove_child"
)


def _refuse(self: Any, *_arguments: Any, **_named: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__} is read-only, because {self._why}")


class FrozenDict(dict[Any, Any]):
    """A dict that can't be changed. Copies and pickles of it are plain dicts."""

    __slots__ = ()
    _why = _COPY_IT
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[dict[Any, Any]], tuple[dict[Any, Any]]]:
        return dict, (dict(self),)


class FrozenEntries(FrozenDict):
    """Entries of a budget by key. The budget itself changes them, and its totals with them."""

    __slots__ = ()
    _why = ENTRIES_FOLLOW_THE_BUDGET


class FrozenList(list[Any]):
    """A list that can't be changed. Copies and pickles of it are plain lists."""

    __slots__ = ()
    _why = _COPY_IT
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (list(self),)


class FrozenHistory(FrozenList):
    """The messages of a session. The session itself changes them, and its budget with them."""

    __slots__ = ()
    _why = (
        "it is a copy of the session's messages: add one with session.append(message), change "
        "others with session.replace and session.remove"
    )


_CONTAINERS = (dict, list, tuple)  # a union of types would be made at every call
_FROZEN = (FrozenDict, FrozenList)


def frozen(value: Any) -> Any:
    """Returns a read-only copy of a JSON-like value; the value itself if it has no containers.

    Values of other types are returned unchanged, and so is a value that contains itself.
    """
    if not isinstance(value, _CONTAINERS) or isinstance(value, _FROZEN):
        return value
    try:
        return _copy(value)
    except RecursionError:
        return value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return FrozenDict({key: _copy(each) for key, each in value.items()})
    if isinstance(value, list):
        return FrozenList(map(_copy, value))
    if type(value) is tuple:
        return tuple(map(_copy, value))
    return value
