"""The ledger: one message that lists what removed exchanges were about."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from jaato_gc.collecting.draft import Draft
from jaato_gc.collecting.repeated_lines import is_omission
from jaato_gc.facts import ToolKind, ToolUse, find_tool_uses, names_in, texts_of
from jaato_gc.history import Group, apply_edits
from jaato_gc.messages import LEDGER_ID, Message, Role, SyntheticKind, fenced, is_ledger, seal
from jaato_gc.tokens import TokenCounter, message_tokens

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
"""A duration or a size: it is no name that a later call could use."""
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


def add_ledger(draft: Draft) -> None:
    """Adds the ledger, if one was asked for and whole groups go without a summary."""
    if not draft.ledger_tokens or LEDGER_ID in draft.held:
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
    earlier = next((each for each in draft.history if each.message_id == LEDGER_ID), None)
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
    """Returns the ledger of all that was removed; ``None`` if there is nothing to say.

    Args:
        earlier: The ledger so far, if there is one.
        removed: The groups that this collection removes, oldest first.
        left: The messages that stay. Names in them are left out.
        max_tokens: The size of the ledger.
        counter: Counts the tokens.
    """
    entries = [*_entries_of(removed), *_entries_in(earlier)]
    known = {name for message in left for text in texts_of(message) for name in names_in(text)}
    known |= {entry.text.lstrip("/") for entry in entries if entry.kind in ("changed", "read")}
    unique: dict[tuple[str, str], LedgerEntry] = {}
    for entry in entries:
        if entry.kind != "name" or entry.text not in known:
            subject = entry.text.partition(ARROW)[0]  # of several runs, the newest counts
            unique.setdefault((entry.kind, subject), entry)
    chosen = _within(list(unique.values()), max_tokens, counter)
    return _message(chosen) if chosen else None


def without_messages(ledger: Message, message_ids: Set[str]) -> Message:
    """Returns a ledger without what came from some messages; the same one if nothing did.

    A ledger without entries keeps its place, so that collections since can be undone.
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
    entries: Sequence[LedgerEntry], max_tokens: int, counter: TokenCounter
) -> list[LedgerEntry]:
    """Returns as many entries of each kind as fit."""
    room = max_tokens - counter.count_text(fenced(SyntheticKind.LEDGER, PREAMBLE))
    chosen: list[LedgerEntry] = []
    for kind, heading in HEADINGS.items():
        own = int(max_tokens * SHARES[kind]) if kind in SHARES else room
        own = min(own, room) - counter.count_text(f"\n{heading}:")
        for entry in entries:
            if entry.kind == kind:
                cost = counter.count_text(f", {entry.text}")
                if cost > own:
                    break
                own, room = own - cost, room - cost
                chosen.append(entry)
    return chosen


def _entries_in(ledger: Message | None) -> Iterator[LedgerEntry]:
    """Yields the entries of a ledger. Damaged ones are left out."""
    extra: Mapping[str, Any] = (ledger and ledger.extra) or {}
    listed = extra.get("entries")
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, list) and len(entry) > 2 and all(isinstance(e, str) for e in entry):
            kind, text, *message_ids = entry
            yield LedgerEntry(kind, text, tuple(message_ids))


def _entries_of(groups: Sequence[Group]) -> Iterator[LedgerEntry]:
    """Yields the entries for some groups, newest first; names that the model used come first."""
    uses = find_tool_uses(groups)
    for use in reversed(uses):
        yield from _entries_of_use(use)
    used: list[LedgerEntry] = []
    shown: list[LedgerEntry] = []
    for group in reversed(groups):
        for message in reversed(group.messages):
            is_own = message.role is Role.MODEL
            for text in texts_of(message):
                for name in names_in(text):
                    bare = _LINE_NUMBER.sub("", name)  # of src/a.py:12, the file is enough
                    name = bare if bare in names_in(bare) else name
                    if len(name) <= LONGEST_NAME and not _MEASURE.fullmatch(name):
                        entry = LedgerEntry("name", name, (message.message_id,))
                        (used if is_own else shown).append(entry)
    yield from used
    yield from shown


def _entries_of_use(use: ToolUse) -> Iterator[LedgerEntry]:
    call, result = use.call_at[0], use.result_at[0]
    if use.kind is ToolKind.SHELL:
        outcome = "failed" if use.failed else _last_line(use.text)
        command, outcome = (_one_line(each, LONGEST_ENTRY) for each in (use.command, outcome))
        line = f"{command}{ARROW}{outcome}"
        yield LedgerEntry("ran", line, (call, result))
    elif not use.failed:
        kind = "changed" if use.kind is ToolKind.EDIT else "read"
        for path in use.paths:
            if len(path) <= LONGEST_ENTRY:
                yield LedgerEntry(kind, path, (call,))


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not is_omission(line)]
    return lines[-1] if lines else "no output"


def _one_line(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
