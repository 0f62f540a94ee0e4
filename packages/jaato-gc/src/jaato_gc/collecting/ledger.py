"""Writes the ledger: one message that lists what removed exchanges were about.

Without it, an agent reads the same files again and repeats commands that failed, because it does
not know that it did so before. A stub for every removed result would tell it too, but stubs add up;
the size of the ledger is limited. A new kind of entry belongs in `HEADINGS`, its share in `SHARES`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

from jaato_gc.collecting.draft import Draft
from jaato_gc.collecting.repeated_lines import is_omission
from jaato_gc.facts import ToolKind, ToolUse, find_tool_uses, names_in, texts_of, words_in
from jaato_gc.history import Group, apply_edits
from jaato_gc.messages import LEDGER_ID, Message, Role, SyntheticKind, fenced, is_ledger, seal
from jaato_gc.tokens import TokenCounter, message_tokens, text_tokens

REMOVED = "Earlier exchanges were removed to free context space."
PREAMBLE = f"{REMOVED} A record, newest first:"
HEADINGS = {
    "changed": "Files changed",
    "read": "Files read",
    "ran": "Commands",
    "name": "Names mentioned",
}
"""The kinds of entries, in the order in which they are listed."""
SHARES = {"changed": 0.15, "read": 0.15, "ran": 0.25}
"""The share of the ledger that a kind may take; names take the rest."""
LONGEST_ENTRY = 120
"""Characters of one entry."""
LONGEST_NAME = 80
ARROW = " → "
"""Between a command and its outcome."""

_MEASURE = re.compile(r"\d[\d.]*(?:ns|us|ms|s|min|h|k|[kKMG]?B)")
"""A duration or a size, which no later call refers to."""
_LINE_NUMBER = re.compile(r"[:-]\d+(?:[:-]\w*)*$")


class LedgerEntry(NamedTuple):
    """One line of the ledger.

    Args:
        kind: A key of `HEADINGS`.
        text: A path, a command with its outcome, or a name.
        message_ids: The messages that it comes from: one, or a call and its result.
    """

    kind: str
    text: str
    message_ids: tuple[str, ...]


def reserve_ledger(draft: Draft, removed: Group) -> None:
    """Reserves the tokens that a removed group adds to the ledger at most, if one was asked for.

    They are freed beyond the goal, so reserving all that the ledger may take would remove content
    for nothing wherever there is little to list.
    """
    if not draft.ledger_tokens or removed.is_outside_turns:
        return
    counter = draft.counter
    place = draft.positions.get(LEDGER_ID)
    earlier = 0 if place is None else message_tokens(draft.history[place], counter)
    most = max(0, draft.ledger_tokens - earlier)
    growth = draft.ledger_reserve
    listed: set[str] = set()
    for entry in chain(_entries_of_uses([removed]), _names_of([removed])):
        if growth >= most:
            break
        if not (growth or earlier):
            headings = "\n".join(HEADINGS.values())
            growth = message_tokens(_message([]), counter) + text_tokens(headings, counter)
        if entry.text not in listed:
            listed.add(entry.text)
            growth += text_tokens(f", {entry.text}", counter)
    draft.ledger_reserve = min(growth, most)


def add_ledger(draft: Draft) -> None:
    """Adds the ledger, if one was asked for and whole groups go without a summary."""
    if not draft.ledger_tokens or LEDGER_ID in draft.must_stay:
        return  # not wanted, or the earlier one is LOCKED or pinned
    edits = draft.edits
    summarized = {edit.message_id for edit in edits if edit.action == "summarize"}
    removed = [
        group
        for group in draft.groups
        if draft.is_removed(group) and not group.is_outside_turns
        if group.messages[0].message_id not in summarized
    ]
    if not removed:
        return
    place = draft.positions.get(LEDGER_ID)
    earlier = None if place is None else draft.history[place]
    if earlier is not None and not is_ledger(earlier):
        return  # the host uses this id
    room = draft.freed - max(1, draft.goal.worst_overflow)
    left = []
    for message in apply_edits(draft.history, edits):
        if message.message_id == LEDGER_ID:
            room += message_tokens(message, draft.counter)  # it is replaced
        else:
            left.append(message)
    most = min(draft.ledger_tokens, room)
    ledger = ledger_message(earlier, removed, left, most, draft.counter)
    if ledger is None or message_tokens(ledger, draft.counter) > room:
        return
    if earlier is None:
        draft.insert(ledger, draft.position_before(removed))
    else:
        draft.replace_synthetic(earlier, ledger)


def ledger_message(
    earlier: Message | None,
    removed: Sequence[Group],
    left: Iterable[Message],
    max_tokens: int,
    counter: TokenCounter,
) -> Message | None:
    """Returns the ledger of everything removed so far, or ``None`` if it has no entries.

    Args:
        earlier: The ledger so far, if there is one.
        removed: The groups that this collection removes, oldest first.
        left: The messages that stay. The ledger does not repeat names in them.
        max_tokens: The most tokens that the ledger may take.
        counter: Counts the tokens.
    """
    past = list(_entries_in(earlier))
    uses = [*_entries_of_uses(removed), *past]
    known = set(words_in("\n".join(text for message in left for text in texts_of(message))))
    known |= {entry.text.lstrip("/") for entry in uses if entry.kind in ("changed", "read")}
    names = (entry for entry in chain(_names_of(removed), past) if entry.text not in known)
    candidates = dict.fromkeys(SHARES, uses) | {"name": names}
    chosen = _within(candidates, max_tokens, counter)
    return _message(chosen) if chosen else None


def without_messages(ledger: Message, message_ids: Set[str]) -> Message:
    """Returns a ledger without the entries of some messages, or the same one if it has none.

    A ledger that loses all entries stays in the history, so that later collections can be undone.
    """
    entries = list(_entries_in(ledger))
    kept = [entry for entry in entries if message_ids.isdisjoint(entry.message_ids)]
    return ledger if len(kept) == len(entries) else _message(kept)


def _message(entries: Sequence[LedgerEntry]) -> Message:
    body = [PREAMBLE if entries else REMOVED]
    for kind, heading in HEADINGS.items():
        texts = [entry.text for entry in entries if entry.kind == kind]
        if texts and kind == "ran":
            body.append("\n- ".join([f"{heading}:", *texts]))
        elif texts:
            body.append(f"{heading}: {', '.join(texts)}")
    text = "\n".join(body).encode(errors="replace").decode()
    listed = [[entry.kind, entry.text, *entry.message_ids] for entry in entries]
    message = Message.from_text(
        Role.USER,
        fenced(SyntheticKind.LEDGER, text),
        message_id=LEDGER_ID,
        synthetic=SyntheticKind.LEDGER,
        extra={"entries": listed},
    )
    seal(message)
    return message


def _within(
    candidates: Mapping[str, Iterable[LedgerEntry]], max_tokens: int, counter: TokenCounter
) -> list[LedgerEntry]:
    """Returns as many entries of each kind as fit, without duplicates.

    No more candidates are read than fit, because finding names in removed text is slow.
    """
    room = max_tokens - text_tokens(fenced(SyntheticKind.LEDGER, PREAMBLE), counter)
    chosen: list[LedgerEntry] = []
    for kind, heading in HEADINGS.items():
        own = int(max_tokens * SHARES[kind]) if kind in SHARES else room
        own = min(own, room) - text_tokens(f"\n{heading}:", counter)
        listed: set[str] = set()
        for entry in candidates[kind]:
            subject = entry.text.partition(ARROW)[0]  # the newest run of a command counts
            if entry.kind == kind and subject not in listed:
                cost = text_tokens(f", {entry.text}", counter)
                if cost > own:
                    break
                own, room = own - cost, room - cost
                listed.add(subject)
                chosen.append(entry)
    return chosen


def _entries_in(ledger: Message | None) -> Iterator[LedgerEntry]:
    """Yields the entries of a ledger, except damaged ones."""
    extra: Mapping[str, Any] = (ledger and ledger.extra) or {}
    listed = extra.get("entries")
    for fields in listed if isinstance(listed, list) else ():
        is_entry = isinstance(fields, list) and len(fields) > 2
        if is_entry and all(isinstance(field, str) for field in fields):
            kind, text, *message_ids = fields
            yield LedgerEntry(kind, text, tuple(message_ids))


def _names_of(groups: Sequence[Group]) -> Iterator[LedgerEntry]:
    """Yields the names in some groups: those that the model used, then all others, newest first."""
    messages = [message for group in reversed(groups) for message in reversed(group.messages)]
    messages.sort(key=lambda message: message.role is not Role.MODEL)
    for message in messages:
        for text in texts_of(message):
            for name in map(_without_line_number, names_in(text)):
                if len(name) <= LONGEST_NAME and not _MEASURE.fullmatch(name):
                    yield LedgerEntry("name", name, (message.message_id,))


def _without_line_number(name: str) -> str:
    """Returns the file of ``src/a.py:12``; the name itself if what is left is not a name."""
    bare = _LINE_NUMBER.sub("", name)
    return bare if bare != name and bare in names_in(bare) else name


def _entries_of_uses(groups: Sequence[Group]) -> Iterator[LedgerEntry]:
    """Yields the files and commands of some groups, newest first."""
    for use in reversed(find_tool_uses(groups)):
        yield from _entries_of_use(use)


def _entries_of_use(use: ToolUse) -> Iterator[LedgerEntry]:
    call, result = use.call_at[0], use.result_at[0]
    if use.kind is ToolKind.SHELL:
        outcome = "failed" if use.failed else _last_line(use.text)
        line = f"{_one_line(use.command)}{ARROW}{_one_line(outcome)}"
        yield LedgerEntry("ran", line, (call, result))
    elif not use.failed:
        kind = "changed" if use.kind is ToolKind.EDIT else "read"
        for path in use.paths:
            if len(path) <= LONGEST_ENTRY:
                yield LedgerEntry(kind, path, (call,))


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not is_omission(line)]
    return lines[-1] if lines else "no output"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_ENTRY else line[: LONGEST_ENTRY - 1] + "…"
