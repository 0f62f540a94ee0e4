"""The histories that every contender gets: the same for all, and the same on every machine.

Standard library only: this is imported in each peer's own environment.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

MESSAGES_A_TURN = 4
FRAME, CALL_FRAME = 4, 8
"""Tokens of the frame of a message, and of a call or a result."""
PRESERVABLE_TURNS = 10
MOST_PRESERVABLE = 100
"""In a session, preservable messages stay, so an unlimited number would fill the window."""
_SEED = 20260101
_LINES = 4_000
_WORDS = [
    "parser", "lock", "queue", "worker", "retry", "cache", "header", "socket", "buffer",
    "schema", "index", "cursor", "token", "batch", "handler", "config", "session", "request",
    "answer", "timeout", "signal", "thread", "branch", "commit", "module", "import", "column",
    "matrix", "vector", "kernel", "driver", "packet", "router", "cluster", "replica", "shard",
    "journal", "segment",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plain:
    """A message that belongs to no library. Each contender creates its own from it.

    ``role`` is system, user, assistant or tool. An assistant's message with ``call`` asks for a
    tool, and the tool's message after it answers under the same ``call_id``. Every tenth answer is
    ``preservable``: contenders that have such a setting remove it last.
    """

    role: str
    text: str
    call_id: str | None = None
    call: str | None = None
    arguments: dict[str, str] | None = None
    tokens: int = 0
    preservable: bool = False

    @property
    def reported_tokens(self) -> int:
        """Tokens that a provider reports for it: those of the texts and of their frames."""
        return self.tokens + FRAME + (CALL_FRAME if self.call else 0)


def make_turns(
    turns: int, count: Callable[[str], int], most_preservable: int | None = None
) -> list[list[Plain]]:
    """Turns of an agent: a request, a call, its result (most of the tokens), an answer.

    Args:
        turns: How many.
        count: The tokenizer that all contenders share; each message says what it has by it.
        most_preservable: The maximum number of preservable messages; ``None``: no limit.
    """
    return [list(each) for each in islice(_turns(count, most_preservable), turns)]


def make_history(messages: int, count: Callable[[str], int]) -> list[Plain]:
    """The first messages of such a run, whole turns only, after a system prompt."""
    system = "You are a careful engineer. Read before you write, and run the tests."
    turns = make_turns(max(1, (messages - 1) // MESSAGES_A_TURN), count)
    return [Plain("system", system, tokens=count(system)), *chain.from_iterable(turns)]


def _turns(
    count: Callable[[str], int], most_preservable: int | None
) -> Iterator[tuple[Plain, Plain, Plain, Plain]]:
    random_ = random.Random(_SEED)
    lines = [_line(random_) for _ in range(_LINES)]
    # Counted once per line, which is faster. The sum is that of the text, within a few tokens.
    tokens = [count(line + "\n") for line in lines]
    number = 0
    while True:
        number += 1
        path = f"src/{random_.choice(_WORDS)}/{random_.choice(_WORDS)}_{number}.py"
        first = random_.randrange(_LINES)
        size = min(int(random_.expovariate(1 / 12)) + 1, 80)
        shown = [(first + step) % _LINES for step in range(size)]
        ask = f"Request {number}: why does {path} fail when the {random_.choice(_WORDS)} is held?"
        thought = f"I will read {path} first."
        answer = (
            f"The {random_.choice(_WORDS)} in {path} is taken before the "
            f"{random_.choice(_WORDS)} is ready. Swap the two lines and run it again."
        )
        call_id, arguments = f"call_{number}", {"path": path}
        is_preservable = number % PRESERVABLE_TURNS == 0
        if most_preservable is not None:
            is_preservable = is_preservable and number <= most_preservable * PRESERVABLE_TURNS
        yield (
            Plain("user", ask, tokens=count(ask)),
            Plain(
                "assistant", thought, call_id, "read_file", arguments, count(thought) + count(path)
            ),
            Plain(
                "tool",
                f"# {path}\n" + "\n".join(lines[line] for line in shown),
                call_id,
                "read_file",
                tokens=count(path) + sum(tokens[line] for line in shown),
            ),
            Plain("assistant", answer, tokens=count(answer), preservable=is_preservable),
        )


def _line(random_: random.Random) -> str:
    name, other, third = (random_.choice(_WORDS) for _ in range(3))
    return random_.choice(
        (
            f"    {name}_{random_.randrange(999)} = self.{other}.{third}({random_.random():.4f})",
            f"2026-01-{random_.randrange(1, 29):02} ERROR {name}: {other} {third} not ready",
            f'  {{"{name}": {random_.randrange(10**6)}, "{other}": "{third}"}},',
            f"The {name} waits for the {other} until the {third} has been written.",
        )
    )
