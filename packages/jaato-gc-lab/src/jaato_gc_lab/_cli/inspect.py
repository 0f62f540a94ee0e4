"""``jaato-gc inspect``: shows what fills a context, and what could be freed."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from jaato_gc import GCError, GCPolicy
from jaato_gc_lab._cli._context_picture import ContextPicture
from jaato_gc_lab._cli._drawing import draw, say, say_heading, say_item, say_json
from jaato_gc_lab._cli._numbers import TOKENS
from jaato_gc_lab._cli._options import EXISTING, conversation_option, format_option, json_option
from jaato_gc_lab._cli._subject_cell import subject_cell
from jaato_gc_lab._columns import Columns, Name
from jaato_gc_lab._figures import counted, number, percent
from jaato_gc_lab._findings import Finding, FindingKind
from jaato_gc_lab._inspect import Inspection, inspect_file
from jaato_gc_lab._largest import LargeMessage

POLICIES = {
    GCPolicy.EPHEMERAL: "removed first",
    GCPolicy.PARTIAL: "oldest turns first",
    GCPolicy.PRESERVABLE: "only under pressure",
    GCPolicy.LOCKED: "never removed",
}
KINDS = {
    FindingKind.SUPERSEDED: "Superseded",
    FindingKind.DUPLICATE: "Duplicates",
    FindingKind.FAILED: "Failed attempts",
    FindingKind.REPEATED: "Repeated lines",
    FindingKind.LONG: "Long results",
    FindingKind.STALE: "Stale reads",
}
FEW = 5
"""Maximum number of rows in a list. The rest is only counted."""
FEW_SUBJECTS = 3
"""Maximum number of subjects of one kind of finding."""
MOST_PROBLEMS = 10


@click.command("inspect")
@click.argument("file", type=EXISTING)
@click.option(
    "-l",
    "--context-limit",
    type=TOKENS,
    metavar="TOKENS",
    help="Window of the model, to show how full it is.",
)
@conversation_option
@format_option
@json_option
def command(
    file: Path,
    context_limit: int | None,
    conversation: int | None,
    format: str | None,
    as_json: bool,
) -> None:
    """Show what fills a context, and validate it.

    Draws all tokens by source and tool, and lists the largest messages, tool output that could be
    freed and by which rule, and problems that make a provider reject the context. A file with
    several conversations is summarized; use --conversation to show one of them. --json has all
    figures, also by role, policy and message.

    \b
    Examples:
      jaato-gc inspect session.jsonl
      jaato-gc inspect session.jsonl --context-limit 200k
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
        _show(file, chosen[0][1], context_limit or 0)
    else:
        _summarize(file, found)


def _data(position: int, found: Inspection) -> dict[str, Any]:
    return {
        "conversation": position,
        **dataclasses.asdict(found),
        "is_valid": found.is_valid,
        "freeable_tokens": found.freeable_tokens,
    }


def _summarize(file: Path, found: list[Inspection]) -> None:
    say(f"{file.name}: {counted(len(found), 'conversation')} in format {found[0].format}")
    say()
    rows = [
        (
            str(position),
            Name(each.name or "-"),
            number(each.tokens),
            number(each.freeable_tokens),
            number(each.messages),
            number(each.turns),
            number(len(each.problems) + len(each.violations)),
        )
        for position, each in enumerate(found, 1)
    ]
    headings = ("no.", "name", "tokens", "freeable", "messages", "turns", "problems")
    draw(Columns(rows, headings, flexible=1, drop=(5, 4, 3, 6)))
    say()
    say("Token counts are estimates. Use --conversation N to show one conversation.")


def _show(file: Path, found: Inspection, window: int) -> None:
    is_log = found.format != found.api
    format = f"{found.format}, converted to {found.api}" if is_log else found.format
    say(f"{file.name}: {format}")
    share = f" ({percent(found.tokens / window)} of {number(window)})" if window else ""
    say(
        f"about {number(found.tokens)} tokens{share} in {counted(found.messages, 'message')} and "
        f"{counted(found.turns, 'turn')} (counted within {found.tolerance:.0%})"
    )
    if found.compactions:
        times = counted(found.compactions, "time")
        say(f"compacted {times} by the agent; the figures include the compacted messages")
    say()
    draw(ContextPicture(found.slices, window))
    say()
    _show_reported(found)
    _show_policies(found)
    _show_largest(found.largest)
    _show_findings(found)
    _show_validity(found)


def _show_reported(found: Inspection) -> None:
    if not found.reported_tokens:
        return
    reported = f"The provider reported {number(found.reported_tokens)} tokens for the last request."
    if found.hidden_tokens:
        reported += (
            f" About {number(found.hidden_tokens)} of them are not in the log: system prompt, "
            "tools. No strategy frees them."
        )
    say(reported)


def _show_policies(found: Inspection) -> None:
    shares = [
        f"{policy.value} {percent(tokens / found.tokens)} ({POLICIES[policy]})"
        for policy in reversed(GCPolicy)
        if (tokens := found.by_policy[policy.value])
    ]
    if shares:
        say(f"By policy: {', '.join(shares)}.")


def _show_largest(largest: Sequence[LargeMessage]) -> None:
    if not largest:
        return
    say_heading("Largest messages")
    rows = [
        (
            number(each.tokens),
            "-" if each.turn is None else str(each.turn),
            str(each.position),
            _content(each),
        )
        for each in largest[:FEW]
    ]
    draw(Columns(rows, ("tokens", "turn", "no.", "content"), flexible=3, drop=(2, 1)))


def _content(message: LargeMessage) -> Name:
    if message.tool is None:
        return Name(f"{message.role}:", message.about)
    return subject_cell(message.tool, message.about, message.more)


def _show_findings(found: Inspection) -> None:
    by_kind: dict[FindingKind, list[Finding]] = defaultdict(list)
    for finding in found.findings:
        by_kind[finding.kind].append(finding)
    for kind, title in KINDS.items():
        if of_kind := by_kind[kind]:
            _show_kind(title, of_kind)
    say()
    if found.freeable_tokens:
        share = percent(found.freeable_tokens / found.tokens)
        say(
            f"Together, {number(found.freeable_tokens)} tokens ({share}) can be freed without "
            "removing a message."
        )
    if missing := [title.lower() for kind, title in KINDS.items() if not by_kind[kind]]:
        say(f"None found: {', '.join(missing)}.")


def _show_kind(title: str, findings: Sequence[Finding]) -> None:
    first = findings[0]
    total = sum(map(_size, findings))
    if first.reason:
        rule = f"{first.strategy} frees {number(total)} tokens ({first.reason})"
    else:
        rule = f"{number(total)} tokens of files edited later (no rule frees them)"
    say_heading(f"{title}: {counted(len(findings), 'result')}, {rule}")
    by_subject: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in findings:
        by_subject[each.tool, each.about].append(_size(each))
    largest = sorted(by_subject.items(), key=lambda each: -sum(each[1]))
    rows = [
        (number(sum(sizes)), f"{len(sizes)}x", subject_cell(*subject))
        for subject, sizes in largest[:FEW_SUBJECTS]
    ]
    draw(Columns(rows, flexible=2, drop=(1,)))
    if rest := largest[FEW_SUBJECTS:]:
        left = sum(sum(sizes) for _, sizes in rest)
        say(f"and {number(left)} tokens of {counted(len(rest), 'other')}")


def _size(finding: Finding) -> int:
    """Returns the tokens that a rule frees; without a rule, those of the result."""
    return finding.freed_tokens if finding.reason else finding.tokens


def _show_validity(found: Inspection) -> None:
    problems = [*map(str, found.problems), *found.violations]
    if not problems:
        say(f"Valid: a provider would accept it ({found.api}).")
        return
    say_heading(f"Invalid: {counted(len(problems), 'problem')}")
    for problem in problems[:MOST_PROBLEMS]:
        say_item(problem)
    if len(problems) > MOST_PROBLEMS:
        say(f"and {number(len(problems) - MOST_PROBLEMS)} more")
    if found.repaired:
        say("Invalid lines were skipped, and other problems were repaired where possible.")
