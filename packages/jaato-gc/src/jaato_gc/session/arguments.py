"""Checks of what the host gives to a session: numbers, ids, choices and functions."""

import math
from collections.abc import Iterable, Mapping, Sequence

from jaato_gc.collecting import GCPlan
from jaato_gc.config import GCConfig
from jaato_gc.deadline import LONGEST_WAIT
from jaato_gc.errors import GCConfigError, GCError, MessageError
from jaato_gc.messages import plain_integer
from jaato_gc.policies import GCPolicy
from jaato_gc.stash import Stash
from jaato_gc.tokens import TokenCounter


def window(context_limit: object) -> int:
    """Returns a window in tokens.

    Raises:
        GCConfigError: It is not a positive integer.
    """
    tokens = plain_integer(context_limit)
    if tokens is None or tokens <= 0:
        raise GCConfigError(
            f"context_limit={context_limit!r:.80}: expected a positive integer, the model's window "
            "in tokens"
        )
    return tokens


def check_counter(counter: TokenCounter) -> None:
    """Checks the tolerance of a token counter. What it counts is checked with every text.

    Raises:
        GCConfigError: It is not a finite number of 0 or more.
    """
    tolerance = _number(getattr(counter, "tolerance", None))
    if tolerance is None or not 0 <= tolerance < math.inf:
        found = getattr(counter, "tolerance", None)
        raise GCConfigError(
            f"token counter {getattr(counter, 'name', counter)!r:.80} has tolerance={found!r:.80}: "
            "expected a relative error of 0 or more, such as 0.05"
        )


def count(name: str, value: object) -> int:
    """Returns a number of things.

    Raises:
        GCConfigError: It is not an integer, or negative.
    """
    number = plain_integer(value)
    if number is None or number < 0:
        raise GCConfigError(f"{name}={value!r:.80}: expected an integer of 0 or more")
    return number


def time_limit(deadline_seconds: object) -> float | None:
    """Returns the time limit of a strategy; ``None``: no limit.

    Raises:
        GCConfigError: It is not a positive number, or too large to wait for.
    """
    if deadline_seconds is None:
        return None
    seconds = _number(deadline_seconds)
    if seconds is None or not 0 < seconds <= LONGEST_WAIT:
        raise GCConfigError(
            f"deadline_seconds={deadline_seconds!r:.80}: expected a positive number of seconds, or "
            "None for no limit"
        )
    return seconds


def usage(input_tokens: object, output_tokens: object) -> tuple[float, float]:
    """Returns the usage that a provider reports.

    Raises:
        GCError: ``input_tokens`` is not a positive number, or ``output_tokens`` is negative or not
            a number.
    """
    read, written = _number(input_tokens), _number(output_tokens)
    if read is None or not 0 < read < math.inf:
        raise GCError(f"input_tokens={input_tokens!r:.80}: expected a positive number")
    if written is None or not 0 <= written < math.inf:
        raise GCError(f"output_tokens={output_tokens!r:.80}: expected a number of 0 or more")
    return read, written


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Checks that a value is one of some texts.

    Raises:
        GCConfigError: It is not.
    """
    if value not in choices:
        expected = ", ".join(map(repr, choices))
        raise GCConfigError(f"{name}={value!r:.80}: expected one of {expected}")


def check_config(config: object) -> None:
    """Checks that something is a configuration, or ``None``.

    Raises:
        GCConfigError: It is not.
    """
    if not (config is None or isinstance(config, GCConfig)):
        remedy = "GCConfig(**config)" if isinstance(config, dict) else "GCConfig(…)"
        kind = type(config).__name__
        raise GCConfigError(f"config: expected a GCConfig, got {kind} {config!r:.80}: use {remedy}")


def check_functions(**functions: object) -> None:
    """Checks that arguments can be called, or are ``None``.

    Raises:
        GCConfigError: One of them is something else.
    """
    for name, value in functions.items():
        if not (value is None or callable(value)):
            hint = "; for the client of a provider, use jaato_gc_formats.ProviderSession"
            hint = hint if name == "provider" else ""
            raise GCConfigError(f"{name}={value!r:.80}: expected a function{hint}")


def check_stash(stash: object) -> None:
    """Checks that something is a stash, or ``None``.

    Raises:
        GCConfigError: It is not.
    """
    if not (stash is None or isinstance(stash, Stash)):
        remedy = "a stash such as jaato_gc_stash.SqlStash(path)"
        raise GCConfigError(f"stash={stash!r:.80}: expected {remedy}")


def check_policies(tool_policies: Mapping[str, object] | None) -> None:
    """Checks the policies of tools.

    Raises:
        GCConfigError: One of them is not a policy.
    """
    for name, policy in (tool_policies or {}).items():
        check_choice(f"tool_policies[{name!r}]", policy, [each.value for each in GCPolicy])


def check_plan(plan: object) -> None:
    """Checks that something is a plan.

    Raises:
        GCError: It is not.
    """
    if not isinstance(plan, GCPlan):
        raise GCError(f"expected a GCPlan, got {type(plan).__name__}: give what plan_gc() returned")


def message_id(given: object) -> str:
    """Returns the id of a message.

    Raises:
        MessageError: It is not text.
    """
    if not isinstance(given, str):
        hint = "give message.message_id"
        raise MessageError(f"expected a message id, got {given!r:.80}: {hint}")
    return given


def stash_keys(keys: object) -> list[str]:
    """Returns distinct keys of a stash, in their order.

    Raises:
        GCError: They are not a list of texts.
    """
    wanted = list(keys) if isinstance(keys, Iterable) and not isinstance(keys, str) else [None]
    found = [key for key in wanted if isinstance(key, str)]
    if len(found) < len(wanted):
        raise GCError(f"keys={keys!r:.80}: expected a list of keys")
    return list(dict.fromkeys(found))


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return plain_integer(value)
