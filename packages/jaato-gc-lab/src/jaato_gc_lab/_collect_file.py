"""Collecting a file: the plan, the file that it makes, and the way back."""

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaato_gc import (
    EstimateCounter,
    GCConfig,
    GCError,
    GCPlan,
    GCPlugin,
    GCTriggerReason,
    PluginRegistry,
    UndoError,
)
from jaato_gc_formats import ApiFormat, Conversation, from_messages, load
from jaato_gc_lab._files import FileExistsAlreadyError, refuse_overwriting, write_all
from jaato_gc_lab._inspect import new_session, tool_schemas

UNDO_SUFFIX = ".undo.json.gz"
UNDO_FORMAT = "jaato-gc undo"
GZIP = b"\x1f\x8b"
INDENT = 2


@dataclass(slots=True)
class FilePlan:
    """A collection of one conversation of a file, not done yet.

    Args:
        path: The file.
        content: Its bytes, when the plan was made.
        conversation: The conversation.
        conversations: How many the file has.
        plan: What would go; ``None`` if it is below the target already.
        limit: The window, in tokens.
        tokens: How much of it the conversation fills.
        target_tokens: Where a collection should end.
        is_api: Whether the file is in the format that the result is written in.
    """

    path: Path
    content: bytes
    conversation: Conversation
    conversations: int
    plan: GCPlan | None
    limit: int
    tokens: int
    target_tokens: int
    is_api: bool

    @property
    def changes_nothing(self) -> bool:
        """Whether there is nothing to write."""
        return self.plan is None or not self.plan.result.success or self.plan.changes_nothing

    def result(self, registry: PluginRegistry | None = None) -> Any:
        """What is left, in the shape of its provider's API."""
        history = self.conversation.messages
        left = self.plan.after if self.plan is not None and not self.changes_nothing else history
        # A list of messages has no place for a system prompt that stands beside them.
        like = history if history.request is not None or self.is_api else {}
        return from_messages(left, history.format, like=like, registry=registry)


def plan_file(
    path: str | Path,
    strategy: GCPlugin,
    *,
    limit: int,
    config: GCConfig,
    conversation: int | None = None,
    format: str | None = None,
    repair: bool = False,
    registry: PluginRegistry | None = None,
) -> FilePlan:
    """Work out what would go from a file to bring it down to the target.

    Args:
        path: The file.
        strategy: What chooses.
        limit: The model's window, in tokens.
        config: How far down, and what to leave alone.
        conversation: Which conversation, from 1 on; not needed where there is but one.
        format: The file's format; detected if not given.
        repair: Skip broken lines, and mend what the provider would refuse.
        registry: Where formats come from; all that are installed if not given.

    Raises:
        FormatError: The file can't be read.
        GCError: It has several conversations, and none was chosen.
    """
    path, registry = Path(path), registry or PluginRegistry()
    conversations = load(path, format, repair=repair, registry=registry)
    chosen = choose(conversations, conversation, path)
    counter, messages = EstimateCounter(), chosen.messages
    session = new_session(limit, messages, tool_schemas(messages.request, counter), counter)
    session.set_gc_plugin(strategy, config)
    tokens = session.budget.total_tokens()
    target = session.config.target_tokens(limit) or 0
    plan = session.plan_gc(GCTriggerReason.MANUAL) if tokens > target else None
    session.close()
    info = registry.formats().get(chosen.format)
    return FilePlan(
        path=path,
        content=path.read_bytes(),
        conversation=chosen,
        conversations=len(conversations),
        plan=plan,
        limit=limit,
        tokens=tokens,
        target_tokens=target,
        is_api=info is not None and isinstance(info.factory(), ApiFormat),
    )


def choose(conversations: list[Conversation], number: int | None, path: Path) -> Conversation:
    """One of a file's conversations, by its number from 1 on.

    Raises:
        GCError: There is no such one, or it has to be chosen and is not.
    """
    count = len(conversations)
    if number is None:
        if count > 1:
            raise GCError(
                f"{path} holds {count} conversations: choose one with --conversation N, from 1 to "
                f"{count} (jaato-gc inspect lists them)"
            )
        number = 1
    if not 1 <= number <= count:
        there = "one conversation" if count == 1 else f"{count} conversations"
        raise GCError(f"{path} holds {there}: there is no number {number}")
    return conversations[number - 1]


def apply_plan(
    plan: FilePlan,
    out: str | Path | None,
    *,
    in_place: bool = False,
    force: bool = False,
    registry: PluginRegistry | None = None,
) -> Path:
    """Write what is left, and beside it what it takes to undo that. Returns where it was written.

    Args:
        plan: What to do.
        out: The file to write; ``None`` with ``in_place``.
        in_place: Replace the file that was collected.
        force: Replace other files too.
        registry: Where formats come from; all that are installed if not given.

    Raises:
        GCError: It would overwrite something, or lose something.
    """
    place = _place(plan, out, in_place=in_place)
    if not in_place:
        refuse_overwriting([place], force=force)
    if plan.path.read_bytes() != plan.content:
        raise GCError(f"{plan.path} has changed while it was collected: try again")
    content = _encoded(plan.result(registry), plan, packed=place.name.endswith(".gz"))
    steps = _steps_to_keep(place, force=force) if in_place else []
    undo = undo_path(place)
    if not in_place and undo.exists() and not force:
        raise FileExistsAlreadyError(undo)
    steps.append(
        {
            "collected": _digest(content),
            "original": _digest(plan.content),
            "content": base64.b64encode(plan.content).decode(),
        }
    )
    mode = plan.path.stat().st_mode
    write_all({undo: _packed_steps(steps), place: content}, mode=mode)
    return place


def undo_file(path: str | Path) -> Path:
    """Make a file that `apply_plan` wrote what it was collected from, byte for byte.

    Raises:
        UndoError: There is nothing to undo it with, or the file has changed since.
    """
    place = Path(path)
    undo = undo_path(place)
    if not place.is_file() or not undo.is_file():
        missing = undo if place.is_file() else place
        raise UndoError(
            f"{missing} is not there: name the file that 'jaato-gc collect --apply' wrote"
        )
    steps = _read_steps(undo)
    last = steps.pop()
    if _digest(place.read_bytes()) != last["collected"]:
        raise UndoError(
            f"{place} has changed since it was collected: undoing that would lose the change. Move "
            f"it away and take its content before the collection from {undo}"
        )
    original = base64.b64decode(last["content"])
    if _digest(original) != last["original"]:
        raise UndoError(f"{undo} is damaged: what it holds is not what was collected")
    if steps:
        write_all({place: original, undo: _packed_steps(steps)})
    else:
        write_all({place: original})
        undo.unlink()
    return place


def undo_path(place: Path) -> Path:
    """Where it is kept what it takes to undo the collection of a file."""
    return place.with_name(place.name + UNDO_SUFFIX)


def _place(plan: FilePlan, out: str | Path | None, *, in_place: bool) -> Path:
    if in_place:
        if not plan.is_api:
            raise GCError(
                f"{plan.path} is a log ({plan.conversation.format}), and what is left is written "
                f"as {plan.conversation.messages.format}, which its agent could not read: "
                "write it to another file, with -o OUT"
            )
        if plan.conversations > 1:
            raise GCError(
                f"{plan.path} holds {plan.conversations} conversations, and the others would be "
                "lost: write this one to another file, with -o OUT"
            )
        return plan.path
    if out is None:
        raise GCError("where to? Name a file with -o OUT, or give --in-place")
    place = Path(out)
    if place.exists() and place.samefile(plan.path):
        raise GCError(f"{place} is the file that is collected: give --in-place if it is meant")
    return place


def _encoded(data: Any, plan: FilePlan, *, packed: bool) -> bytes:
    """Data in the kind of JSON that the file was: lines, one line, or indented."""
    text = plan.content
    if text.startswith(GZIP):
        text = gzip.decompress(text)
    text = text.strip()
    is_list_of_lines = isinstance(data, list) and plan.is_api and not text.startswith(b"[")
    if is_list_of_lines:
        content = b"".join(_json(item, None) for item in data)
    else:
        content = _json(data, INDENT if b"\n" in text and plan.is_api else None)
    return gzip.compress(content, mtime=0) if packed else content


def _json(data: Any, indent: int | None) -> bytes:
    separators = (",", ": ") if indent else (",", ":")
    for ascii_only in (False, True):
        text = json.dumps(data, ensure_ascii=ascii_only, indent=indent, separators=separators)
        try:
            return text.encode() + b"\n"
        except UnicodeEncodeError:  # half a character, which only an escape can say
            continue
    raise AssertionError("ASCII can always be encoded")


def _steps_to_keep(place: Path, *, force: bool) -> list[dict[str, str]]:
    """What undoes earlier collections of the same file, if it is as they left it."""
    undo = undo_path(place)
    if not undo.exists():
        return []
    digest = _digest(place.read_bytes())
    steps = _read_steps(undo)
    if steps[-1]["collected"] == digest:
        return steps
    if steps[-1]["original"] == digest:  # written, but the collection was cut off
        return steps[:-1]
    if force:
        return []
    raise GCError(
        f"{undo} undoes the collection of an earlier {place.name}: move it away, or give --force "
        "to replace it"
    )


def _packed_steps(steps: list[dict[str, str]]) -> bytes:
    document = {"format": UNDO_FORMAT, "version": 1, "steps": steps}
    return gzip.compress(json.dumps(document).encode(), mtime=0)


def _read_steps(undo: Path) -> list[dict[str, str]]:
    try:
        document = json.loads(gzip.decompress(undo.read_bytes()))
        steps = document["steps"]
        if document["format"] == UNDO_FORMAT and all(
            isinstance(step[key], str)
            for step in steps
            for key in ("collected", "original", "content")
        ):
            return list(steps) or _nothing_in(undo)
    except (EOFError, KeyError, TypeError, ValueError, gzip.BadGzipFile, RecursionError) as error:
        raise UndoError(f"{undo} is damaged, or nothing that jaato-gc wrote: {error}") from None
    return _nothing_in(undo)


def _nothing_in(undo: Path) -> list[dict[str, str]]:
    raise UndoError(f"{undo} is nothing that jaato-gc wrote")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
