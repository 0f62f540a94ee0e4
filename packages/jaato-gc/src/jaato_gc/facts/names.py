"""Finds paths, commands, identifiers and numbers in messages.

A summary in prose tends to lose them, and later calls need them exactly. Summaries carry facts
(`extract_facts`), and the ledger lists names (`names_in`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc.messages import Message
from jaato_gc.tokens import TokenCounter, as_text, text_tokens

_NAME = re.compile(r"[A-Za-z0-9_](?:[\w./:@#-]{4,118}\w)")
_IS_NAME = re.compile(r"(?=.*[A-Za-z]).*[0-9_/.]|.*[a-z][A-Z]")
"""Matches a letter with a digit or a separator, or camel case, which ordinary words don't have."""

_COMMAND_ARGUMENTS = ("command", "cmd", "script")
# Possessive quantifiers: trying a long blob from each of its positions would take too long. For the
# same reason, one check rejects positions within a word before the alternatives are tried.
# Compiled on first use, because most programs that import this never summarise.
_FACT = r"""(?xm)
    ^\$\ \S[^\n]*+                                               # commands
    | https?://[^\s"'<>)\]}]++                                   # addresses
    | (?<!\w)(?=[\w./~@+-])(?:                                   # all others start a word
      (?<![.@+-])(?:[A-Za-z]:\\|~?/|\.{1,2}/)?(?:[\w.@+-]++[/\\])+[\w.@+-]++  # paths
    | (?<!-)[\w-]++\.(?:py|js|ts|tsx|go|rs|c|h|cpp|java|rb|sh|sql
        |md|txt|json|ya?ml|toml|cfg|ini|log)\b                   # files
    | [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
    | (?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b          # hashes
    | [A-Z][A-Z0-9]+-\d+\b                                       # tickets
    | [a-z][a-z0-9]*(?:_[a-z0-9]+)+\b                            # snake_case
    | [A-Z]?[a-z0-9]+(?:[A-Z][a-z0-9]+)+\b                       # CamelCase
    | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b                            # CONSTANTS
    | (?<!\.)\d(?:[\d.,:]*\d)?[ ]?(?:%|(?:ms|s|min|h|kB|KB|MB|GB|TB|tokens|USD|EUR)\b)
    | (?<!\.)\d[\d.,:]*\d                                        # numbers
    )
    """
_COMMAND = "$ "
_LONGEST_FACT = 200
"""Characters: commands are cut there, and anything else of this length is data, not a fact."""
_BLANKS = {"n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = r'\\(["\\/nrt])'
_LONGEST_TEXT = 200_000
"""Characters of one message that are searched, at both ends of a longer one."""


def extract_facts(messages: Iterable[Message]) -> list[str]:
    """Returns paths, commands, addresses, identifiers and numbers, the last mentioned first."""
    found: dict[str, None] = {}
    for message in messages:
        for fact in _facts_of(message):
            found.pop(fact, None)  # the latest mention decides the order
            found[fact] = None
    return list(reversed(found))


def _facts_of(message: Message) -> Iterable[str]:
    for call in message.function_calls:
        for argument in _COMMAND_ARGUMENTS:
            command = call.args.get(argument)
            if isinstance(command, str) and command.strip():
                yield _COMMAND + command.strip().splitlines()[0][:_LONGEST_FACT]
    text = "\n".join(texts_of(message))
    if len(text) > _LONGEST_TEXT:
        text = text[: _LONGEST_TEXT // 2] + "\n" + text[-_LONGEST_TEXT // 2 :]
    for match in re.finditer(_FACT, text):
        fact = match.group().rstrip(".,: \r")
        if fact.startswith(_COMMAND):
            fact = fact[: len(_COMMAND) + _LONGEST_FACT]
        elif len(fact) > _LONGEST_FACT:
            continue
        yield fact


def texts_of(message: Message) -> Iterator[str]:
    """Yields all texts of a message: thoughts, text, calls and results."""
    for part in message.parts:
        yield from filter(None, (part.thought, part.text))
        if call := part.function_call:
            yield call.name
            yield _unescaped(call.args)
        if answer := part.function_response:
            yield answer.name
            yield _unescaped(answer.result)


def _unescaped(value: Any) -> str:
    """Returns arguments or results as text, with escaped line ends and backslashes restored."""
    if isinstance(value, str):
        return value
    return re.sub(_ESCAPED, lambda match: _BLANKS.get(match[1], match[1]), as_text(value))


def is_mentioned(fact: str, text: str) -> bool:
    """Returns whether a text mentions a fact, not only a longer word that contains it."""
    fact = fact.removeprefix(_COMMAND)
    return fact in text and bool(re.search(rf"(?<!\w){re.escape(fact)}(?!\w)", text))


def facts_within(facts: Sequence[str], max_tokens: int, counter: TokenCounter) -> list[str]:
    """Returns as many of the first facts as fit, one to a line."""
    kept: list[str] = []
    spent = 0
    for fact in facts:
        spent += text_tokens(f"\n{fact}", counter)
        if spent > max_tokens:
            break
        kept.append(fact)
    return kept


def names_in(text: str) -> list[str]:
    """Returns the distinct names in a text, in order of first occurrence: paths, symbols, ids."""
    return list(filter(_IS_NAME.match, dict.fromkeys(words_in(text))))


def words_in(text: str) -> list[str]:
    """Returns everything in a text that may be a name. Faster than `names_in`, to look names up."""
    return _NAME.findall(text)
