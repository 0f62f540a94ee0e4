"""Errors a user can meet. Each says what is wrong, where, and what to do about it."""

from typing import Any


class GCError(Exception):
    """Base of every error that jaato-gc raises on purpose."""


class GCConfigError(GCError):
    """A configuration value, file or environment variable can't be used as it is.

    The message names the place (file or variable), the key, the value and the remedy. Nothing was
    changed: the previous configuration, history and budget still hold.

    It is not a ``ValueError``, so that pydantic passes it on instead of wrapping it.
    """


class GCPluginError(GCError):
    """A plugin can't be used: broken, blocked, ambiguous or not installed.

    The fault lies with an installed distribution (named in the message) or with its absence.
    """


class TokenRanksError(GCError):
    """The exact tokenizer was asked for, but its ranks are not on this machine.

    jaato-gc never downloads them by itself; the message names the ways to get them.
    """


class SummaryError(GCError):
    """There is no summary: the summarizer failed, or what it returned is none."""


class StalePlanError(GCError):
    """A plan no longer fits: the part of the history that it speaks of has changed. Plan anew."""


class StashError(GCError):
    """A stash can't do what was asked: not reachable, full, or it does not hold that content."""


class UndoError(GCError):
    """A collection can't be undone: unknown, not the newest, or its content is no longer kept."""


class ContextFloorError(GCError):
    """The next request can't be made small enough to fit the window. It was not sent.

    What is left may not be removed. ``floor`` says how many tokens of it belong to each source and
    ``result`` is the account of the last attempt: lower ``preserve_recent_turns``, unpin something,
    shorten the system prompt or the tools, or use a larger window.
    """

    def __init__(self, message: str, floor: dict[str, int], result: Any = None) -> None:
        super().__init__(message)
        self.floor = floor
        self.result = result


class ContextLimitError(GCError):
    """To be raised by a host's provider callable: the provider refused the request as too long.

    The session then collects and tries once more.
    """


class InvalidHistoryError(GCError):
    """The history can't be sent as it is: a provider would refuse it. Nothing was sent.

    ``violations`` lists what is wrong and where. Mend it, or let the session do so (``repair``).
    """

    def __init__(self, message: str, violations: list[Any]) -> None:
        super().__init__(message)
        self.violations = violations
