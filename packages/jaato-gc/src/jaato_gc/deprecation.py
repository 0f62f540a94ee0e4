"""Deprecated functions of core, which warn until 1.0 removes them."""

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def deprecated_since(version: str, remedy: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function or method warn with the place that calls it.

    Args:
        version: The release of core that deprecates it, such as ``"0.2"``.
        remedy: The replacement, such as ``"use Collection.remove_oldest"``.
    """

    def deprecate(function: Callable[P, R]) -> Callable[P, R]:
        # `nox -s compat` recognises these warnings by their first word.
        message = (
            f"jaato-gc {version} deprecates {function.__qualname__}, and 1.0 removes it: {remedy}"
        )

        @functools.wraps(function)
        def warn_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warn_and_call

    return deprecate
