"""``jaato-gc inspect``: shows the contents of a context."""

import dataclasses
from pathlib import Path
from typing import Any

import click

from jaato_gc import GC_POLICY_INDICATORS, GCError, GCPolicy
from jaato_gc_lab._cli._drawing import (
    bar,
    is_plain,
    say,
    say_heading,
    say_item,
    say_json,
    say_table,
)
from jaato_gc_lab._cli._options import EXISTING, format_option, json_option
from jaato_gc_lab._cli._text import percent
from jaato_gc_lab._figures import counted, number
from jaato_gc_lab._inspect import Inspection, inspect_file

TIERS = {
    GCPolicy.LOCKED: "never removed",
    GCPolicy.PRESERVABLE: "removed only under pressure",
    GCPolicy.PARTIAL: "oldest turns first",
    GCPolicy.EPHEMERAL: "removed first",
}
FEW = 10
"""Maximum number of rows in a list. The rest is only counted."""


@click.command("inspect")
@click.argument("file", type=EXISTING)
@click.option(
    "-c",
    "--conversation",
    type=click.IntRange(1),
    metavar="N",
    help="Number of the conversation, if there are several.",
)
@format_option
@json_option
def command(file: Path, conversation: int | None, format: str | None, as_json: bool) -> None:
    """Show what fills a context, and validate it.

    Shows tokens by source, role, tool and policy, the largest messages, duplicates, and problems
    that make a provider reject the context. A file with several conversations is summarized; use
    --conversation to show one of them.

    \b
    Examples:
      jaato-gc inspect session.jsonl
      jaato-gc inspect requests.jsonl --conversation 3
      jaato-gc inspect session.jsonl --json | jq '.conversations[0].by_source'
    """
    found = inspect_file(file, format)
    if conversation is not None:
        if conversation > len(found):
            available = counted(len(found), "conversation")
            raise GCError(f"no conversation {conversation}: {file} has {available}")
        chosen = [(conversation, found[conversation - 1])]
    else:
        chosen = list(enumerate(found, 1))
    if as_json:
        say_json({"file": str(file), "conversations": [_data(*each) for each in chosen]})
    elif len(chosen) == 1:
        _show(file, chosen[0][1])
    else:
        _summarize(file, found)


def _data(position: int, found: Inspection) -> dict[str, Any]:
    return {
        "conversation": position,
        **dataclasses.asdict(found),
        "is_valid": found.is_valid,
        "repeated_tokens": found.repeated_tokens,
    }


def _summarize(file: Path, found: list[Inspection]) -> None:
    say(f"{file.name}: {counted(len(found), 'conversation')} in format {found[0].format}")
    say()
    say_table(
        ["no.", "name", "messages", "turns", "tokens", "duplicates", "problems"],
        [
            (
                position,
                each.name or "-",
                number(each.messages),
                number(each.turns),
                number(each.tokens),
                number(each.repeated_tokens),
                len(each.problems) + len(each.violations) or "-",
            )
            for position, each in enumerate(found, 1)
        ],
        left=(1,),
        flexible=1,
    )
    say()
    say("Token counts are estimates. Use --conversation N to show one conversation.")


def _show(file: Path, found: Inspection) -> None:
    is_log = found.format != found.api
    format = f"{found.format}, converted to {found.api}" if is_log else found.format
    say(f"{file.name}: {format}")
    say(
        f"about {number(found.tokens)} tokens (within {found.tolerance:.0%}) in "
        f"{counted(found.messages, 'message')} and {counted(found.turns, 'turn')}"
    )
    if found.reported_tokens:
        say(f"the provider reported {number(found.reported_tokens)} tokens for the last request")
    if found.hidden_tokens:
        say(f"not in the log: about {number(found.hidden_tokens)}: system prompt, tools")
    if found.compactions:
        times = counted(found.compactions, "time")
        say(f"compacted {times} by the agent; the figures include the compacted messages")
    _show_shares("source", found.by_source, found.tokens)
    _show_shares("role", found.by_role, found.tokens)
    _show_tools(found)
    _show_policies(found)
    _show_biggest(found)
    _show_repeats(found)
    _show_validity(found)


def _show_shares(category: str, tokens: dict[str, int], total: int) -> None:
    say_heading(f"By {category}")
    say_table(
        [category, "tokens", "share", ""],
        [
            (name, number(each), percent(each / total), bar(each / total))
            for name, each in tokens.items()
        ],
        left=(0, 3),
    )


def _show_tools(found: Inspection) -> None:
    if not found.by_tool:
        return
    say_heading("By tool")
    say_table(
        ["tool", "calls", "schema tokens", "call tokens", "result tokens", "share"],
        [
            (
                tool.name,
                number(tool.calls),
                number(tool.schema_tokens),
                number(tool.call_tokens),
                number(tool.result_tokens),
                percent(tool.tokens / found.tokens),
            )
            for tool in found.by_tool[:FEW]
        ],
        flexible=0,
    )
    _say_rest(len(found.by_tool), "tool")


def _show_policies(found: Inspection) -> None:
    say_heading("By policy")
    say_table(
        ["policy", "tokens", "share", "", "meaning"],
        [
            (
                f"{_sign(policy)}{policy.value}",
                number(found.by_policy[policy.value]),
                percent(found.by_policy[policy.value] / found.tokens),
                bar(found.by_policy[policy.value] / found.tokens),
                meaning,
            )
            for policy, meaning in TIERS.items()
        ],
        left=(0, 3, 4),
    )


def _sign(policy: GCPolicy) -> str:
    # The padlock has a different width on different terminals.
    sign = GC_POLICY_INDICATORS[policy]
    return "" if is_plain() or policy is GCPolicy.LOCKED else f"{sign} "


def _show_biggest(found: Inspection) -> None:
    say_heading("Largest messages")
    say_table(
        ["no.", "role", "tokens", "content"],
        [(each.position, each.role, number(each.tokens), each.what) for each in found.biggest],
        left=(1, 3),
        flexible=3,
    )


def _show_repeats(found: Inspection) -> None:
    say_heading("Duplicates")
    if not found.repeats:
        say("none: no result is repeated and no file is read twice")
        return
    say(
        f"{counted(len(found.repeats), 'result')} with {number(found.repeated_tokens)} tokens "
        f"({percent(found.repeated_tokens / found.tokens)}) repeated by a later result"
    )
    largest = sorted(found.repeats, key=lambda each: (-each.tokens, each.position))
    say_table(
        ["no.", "kind", "tokens", "tool", "subject"],
        [
            (each.position, each.kind, number(each.tokens), each.tool, each.about)
            for each in largest[:FEW]
        ],
        left=(1, 3, 4),
        flexible=4,
    )
    _say_rest(len(found.repeats), "result")


def _show_validity(found: Inspection) -> None:
    say_heading("Validity")
    problems = [*map(str, found.problems), *found.violations]
    if not problems:
        say(f"valid: a provider would accept it ({found.api})")
    for problem in problems[:FEW]:
        say_item(problem)
    _say_rest(len(problems), "problem")
    if found.repaired:
        say("invalid lines were skipped, and other problems were repaired where possible")


def _say_rest(count: int, noun: str) -> None:
    if count > FEW:
        say(f"and {counted(count - FEW, f'more {noun}')}")
