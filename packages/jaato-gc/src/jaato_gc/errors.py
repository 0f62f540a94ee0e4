"""The errors that jaato-gc raises: what is wrong, where, and what to do about it."""

from typing import Any


class GCError(Exception):
    """Base class of every error that jaato-gc raises on purpose."""


class GCConfigError(GCError):
    """A configuration value, file or environment variable is invalid.

    The message names the place (file or variable), the key, the value and the remedy. The previous
    configuration, the history and the budget are unchanged.

    It is not a ``ValueError``, because pydantic would wrap that instead of passing it on.
    """


class GCPluginError(GCError):
    """A plugin is broken, blocked, ambiguous or not installed.

    The cause is an installed distribution, which the message names, or a missing one.
    """


class NotConfiguredError(GCError):
    """The session lacks something that this call needs: a provider, a strategy or a stash."""


class MessageError(GCError):
    """A value is not a `Message` of this session: a wrong type, or an unknown message id."""


class ReadOnlyError(GCError):
    """Something that was handed out for reading was changed, or used after it was closed."""


class ProviderError(GCError):
    """The provider callable returned something that is not an answer of the model."""


class TokenRanksError(GCError):
    """The exact tokenizer needs ranks that are not on this machine.

    jaato-gc never downloads them. The message names the ways to get them.
    """


class SummaryError(GCError):
    """The summarizer failed or returned no usable summary."""


class StalePlanError(GCError):
    """A message that the plan changes was changed, pinned or removed since. Make a new plan."""


class StashError(GCError):
    """A stash is unreachable, full or damaged, or does not hold the requested content."""


class UndoError(GCError):
    """A collection can't be undone: unknown, not the newest, or its content is no longer kept."""


class SavedSessionError(GCError):
    """A session can't be saved as JSON, or a saved one can't be restored."""


class ContextFloorError(GCError):
    """The next request does not fit the window, and nothing more can be removed. It was not sent.

    Only fixed content is left: system messages, the newest user message, LOCKED and pinned content,
    open calls, tools. Unpin something, shorten the largest of it, or use a larger window. Or the
    collection failed, for example because the stash did: ``result.error`` names the cause.

    Args:
        message: The error text.
        floor: Tokens of what is left, by source.
        result: The result of the last collection, if there was one.
    """

    def __init__(self, message: str, floor: dict[str, int], result: Any = None) -> None:
        super().__init__(message)
        self.floor = floor
        self.result = result


class ContextLimitError(GCError):
    """Raised by a provider callable when the provider refused the request as too long.

    The session then collects and tries once more.
    """


class InvalidHistoryError(GCError):
    """A provider would refuse the history. Nothing was sent.

    Correct the history, or create the session with ``repair=True``. With it, this is raised if a
    repair is not possible, for example because a LOCKED or pinned message is at fault.

    Args:
        message: The error text.
        violations: The broken rules, each with the message at fault.
    """

    def __init__(self, message: str, violations: list[Any]) -> None:
        super().__init__(message)
        self.violations = violations
