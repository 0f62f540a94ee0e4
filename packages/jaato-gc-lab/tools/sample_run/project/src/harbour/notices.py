"""Notices to shipping agents about their calls."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from harbour import clock
from harbour.vessels import Call, needs_pilot

FOOTER = "Harbour office, quay 1. Please do not answer this message."
MAX_LINES = 40


@dataclass(frozen=True)
class Notice:
    """A message to one agent."""

    recipient: str
    subject: str
    body: str


def line_for(call: Call) -> str:
    """Returns the line of a notice about a call."""
    parts = [clock.format_time(call.arrival), call.vessel.name, call.berth]
    if needs_pilot(call.vessel):
        parts.append("pilot required")
    if call.is_dangerous:
        parts.append("permit required")
    parts += call.remarks
    return ", ".join(parts)


def notices_for(calls: Iterable[Call]) -> list[Notice]:
    """Returns one notice per agent. Calls without an agent get none."""
    by_agent: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.vessel.agent:
            by_agent[call.vessel.agent].append(call)
    notices = []
    for agent, own in sorted(by_agent.items()):
        ordered = sorted(own, key=lambda call: call.arrival)
        lines = [line_for(call) for call in ordered[:MAX_LINES]]
        if len(ordered) > MAX_LINES:
            lines.append(f"and {len(ordered) - MAX_LINES} more")
        subject = f"{len(ordered)} call" + ("s" if len(ordered) > 1 else "")
        notices.append(Notice(agent, subject, "\n".join([*lines, "", FOOTER])))
    return notices
