"""Durable facts: what a summary in prose tends to lose, and an agent needs to go on."""

import re
from collections.abc import Iterable, Sequence

from jaato_gc._messages import Message
from jaato_gc._rendering import render_message
from jaato_gc._tokens import TokenCounter

_COMMAND_ARGUMENTS = ("command", "cmd", "script")
_FACT = re.compile(
    r"""
    https?://[^\s"'<>)\]}]+                                      # addresses
    | (?:[A-Za-z]:\\|~?/|\.{1,2}/)?(?:[\w.@+-]+[/\\])+[\w.@+-]+  # paths
    | \b[\w-]+\.(?:py|js|ts|tsx|go|rs|c|h|cpp|java|rb|sh|sql|md|txt|json|ya?ml|toml|cfg|ini|log)\b
    | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
    | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b        # hashes
    | \b[A-Z][A-Z0-9]+-\d+\b                                     # tickets
    | \b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b                          # snake_case
    | \b[A-Z]?[a-z0-9]+(?:[A-Z][a-z0-9]+)+\b                     # CamelCase
    | \b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b                          # CONSTANTS
    | (?<![\w.])\d[\d.,:]*\d(?:\s?(?:%|ms|s|kB|KB|MB|GB|tokens|USD|EUR))?  # numbers
    """,
    re.VERBOSE,
)
_LONGEST_COMMAND = 200
_LONGEST_TEXT = 200_000
"""Characters of one message that are searched: facts of value stand at both ends of huge ones."""


def extract_facts(messages: Iterable[Message]) -> list[str]:
    """Paths, commands, addresses, identifiers and numbers, those mentioned last first."""
    found: dict[str, None] = {}
    for message in messages:
        for fact in _facts_of(message):
            found.pop(fact, None)  # so that the latest mention decides the order
            found[fact] = None
    return list(reversed(found))


def _facts_of(message: Message) -> Iterable[str]:
    for call in message.function_calls:
        for argument in _COMMAND_ARGUMENTS:
            command = call.args.get(argument)
            if isinstance(command, str) and command.strip():
                yield f"$ {command.strip().splitlines()[0][:_LONGEST_COMMAND]}"
    text = render_message(message)
    if len(text) > _LONGEST_TEXT:
        text = text[: _LONGEST_TEXT // 2] + "\n" + text[-_LONGEST_TEXT // 2 :]
    yield from (match.group().rstrip(".,:") for match in _FACT.finditer(text))


def facts_within(facts: Sequence[str], max_tokens: int, counter: TokenCounter) -> list[str]:
    """As many of the facts as fit, from the front."""
    kept: list[str] = []
    spent = 0
    for fact in facts:
        spent += counter.count_text(fact) + 1
        if spent > max_tokens:
            break
        kept.append(fact)
    return kept
