"""Errors a user can meet. Each says what is wrong, where, and what to do about it."""


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
