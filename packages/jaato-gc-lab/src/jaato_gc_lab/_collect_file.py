"""Plans, applies and undoes the collection of a file."""

import base64
import gzip
import hashlib
import json
import zlib
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
from jaato_gc.plugin import Limits
from jaato_gc_formats import ApiFormat, Conversation, from_messages, load
from jaato_gc_lab._figures import counted
from jaato_gc_lab._files import (
    FileExistsAlreadyError,
    read_whole,
    refuse_overwriting,
    unpacked,
    write_all,
)
from jaato_gc_lab._inspect import new_session, tool_schemas

UNDO_SUFFIX = ".undo.json.gz"
UNDO_FORMAT = "jaato-gc undo"
UNDO_VERSION = 1
STEP_KEYS = ("collected", "original", "content")
DAMAGE = (EOFError, KeyError, TypeError, ValueError, RecursionError, gzip.BadGzipFile, zlib.error)
"""The errors of reading a damaged undo file."""
GZIP = b"\x1f\x8b"
INDENT = 2


@dataclass(slots=True)
class FilePlan:
    """The plan to collect one conversation of a file.

    Args:
        path: The file.
        content: Content of the file when the plan was made.
        conversation: The conversation.
        conversations: Number of conversations in the file.
        plan: The plan; ``None`` if the conversation is already below the target.
        context_limit: Window size in tokens.
        tokens: Tokens of the conversation.
        target_tokens: Target of the collection, in tokens.
        is_api: Whether the file has the API format in which the result is written.
    """

    path: Path
    content: bytes
    conversation: Conversation
    conversations: int
    plan: GCPlan | None
    context_limit: int
    tokens: int
    target_tokens: int
    is_api: bool

    @property
    def changes_nothing(self) -> bool:
        """Whether the collection leaves the conversation unchanged."""
        return self.plan is None or not self.plan.result.success or self.plan.changes_nothing

    def result(self, registry: PluginRegistry | None = None) -> Any:
        """Returns the collected conversation in the API format of its provider."""
        history = self.conversation.messages
        after = self.plan.after if self.plan is not None and not self.changes_nothing else history
        # A plain list of messages can't contain a system prompt that is a field of the request.
        like = history if history.request is not None or self.is_api else {}
        return from_messages(after, history.format, like=like, registry=registry)


def plan_file(
    path: str | Path,
    strategy: GCPlugin,
    *,
    context_limit: int,
    config: GCConfig,
    conversation: int | None = None,
    format: str | None = None,
    repair: bool = False,
    registry: PluginRegistry | None = None,
) -> FilePlan:
    """Plans the collection of a conversation down to the target.

    Args:
        path: The file.
        strategy: The strategy.
        context_limit: Window size of the model, in tokens.
        config: Target and other collection settings.
        conversation: Number of the conversation, starting at 1; optional if there is only one.
        format: Format of the file; detected by default.
        repair: Skip invalid lines and repair content that the provider would reject.
        registry: Registry of formats; by default all installed ones.

    Raises:
        FormatError: The file can't be read.
        GCError: The file has several conversations and ``conversation`` is not given, or there is
            no conversation with that number.
    """
    path, registry = Path(path), registry or PluginRegistry()
    conversations = load(path, format, repair=repair, registry=registry)
    chosen = choose_conversation(conversations, conversation, path)
    counter, messages = EstimateCounter(), chosen.messages
    session = new_session(context_limit, messages, tool_schemas(messages.request, counter), counter)
    session.set_gc_plugin(strategy, config)
    tokens = session.budget.total_tokens()
    fixed = session.budget.fixed_tokens()
    target = Limits.of(session.config, context_limit, fixed).target_tokens or 0
    plan = session.plan_gc(GCTriggerReason.MANUAL) if tokens > target else None
    session.close()
    info = registry.formats().get(chosen.format)
    return FilePlan(
        path=path,
        content=read_whole(path),
        conversation=chosen,
        conversations=len(conversations),
        plan=plan,
        context_limit=context_limit,
        tokens=tokens,
        target_tokens=target,
        is_api=info is not None and isinstance(info.factory(), ApiFormat),
    )


def choose_conversation(
    conversations: list[Conversation], number: int | None, path: Path
) -> Conversation:
    """Returns a conversation of a file by its number, starting at 1.

    Raises:
        GCError: The number does not exist, or it is missing and there are several conversations.
    """
    count = len(conversations)
    if number is None:
        if count > 1:
            raise GCError(
                f"{path} has {count} conversations: choose one with --conversation N, from 1 to "
                f"{count} (jaato-gc inspect lists them)"
            )
        number = 1
    if not 1 <= number <= count:
        available = counted(count, "conversation")
        raise GCError(f"no conversation {number}: {path} has {available}")
    return conversations[number - 1]


def apply_plan(
    plan: FilePlan,
    out: str | Path | None,
    *,
    in_place: bool = False,
    force: bool = False,
    registry: PluginRegistry | None = None,
) -> Path:
    """Writes the collected conversation and an undo file, and returns the path of the result.

    Args:
        plan: The plan.
        out: Output file; ``None`` with ``in_place``.
        in_place: Replace the collected file.
        force: Replace other existing files.
        registry: Registry of formats; by default all installed ones.

    Raises:
        GCError: A file would be overwritten, or content would be lost.
    """
    place = _place(plan, out, in_place=in_place)
    if not in_place:
        refuse_overwriting([place], force=force)
    if read_whole(plan.path) != plan.content:
        raise GCError(f"{plan.path} changed during the collection: run the command again")
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
    """Restores the original content of a file that `apply_plan` wrote, byte for byte.

    Raises:
        UndoError: The undo file is missing or damaged, or the file was changed.
    """
    place = Path(path)
    undo = undo_path(place)
    if not place.is_file() or not undo.is_file():
        missing = undo if place.is_file() else place
        raise UndoError(
            f"{missing} does not exist: pass the file that 'jaato-gc collect --apply' wrote"
        )
    steps = _read_steps(undo)
    last = steps.pop()
    if _digest(read_whole(place)) != last["collected"]:
        raise UndoError(
            f"{place} was changed after the collection: undo would lose the change. Move the file "
            f"away; its content before the collection is in {undo}"
        )
    original = _decoded(last["content"])
    if original is None or _digest(original) != last["original"]:
        raise UndoError(f"{undo} is damaged: its content does not match its checksum")
    if steps:
        write_all({place: original, undo: _packed_steps(steps)})
    else:
        write_all({place: original})
        undo.unlink()
    return place


def undo_path(place: Path) -> Path:
    """Returns the path of the undo file for a collected file."""
    return place.with_name(place.name + UNDO_SUFFIX)


def _place(plan: FilePlan, out: str | Path | None, *, in_place: bool) -> Path:
    if in_place:
        if not plan.is_api:
            raise GCError(
                f"{plan.path} is a log ({plan.conversation.format}), but the result is written as "
                f"{plan.conversation.messages.format}, which the agent can't read: write it to "
                "another file with -o OUT"
            )
        if plan.conversations > 1:
            raise GCError(
                f"{plan.path} has {plan.conversations} conversations and the others would be lost: "
                "write this one to another file with -o OUT"
            )
        return plan.path
    if out is None:
        raise GCError("missing output file: use -o OUT or --in-place")
    place = Path(out)
    if place.exists() and place.samefile(plan.path):
        raise GCError(f"{place} is the collected file itself: use --in-place to replace it")
    return place


def _encoded(data: Any, plan: FilePlan, *, packed: bool) -> bytes:
    """Encodes data in the JSON style of the file: JSON Lines, one line, or indented."""
    text = plan.content
    if text.startswith(GZIP):
        text = unpacked(text, plan.path)
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
        except UnicodeEncodeError:  # a lone surrogate, which must be escaped
            continue
    raise AssertionError("ASCII can always be encoded")


def _steps_to_keep(place: Path, *, force: bool) -> list[dict[str, str]]:
    """Returns the undo steps of earlier collections that lead to the file's current content."""
    undo = undo_path(place)
    if not undo.exists():
        return []
    digest = _digest(read_whole(place))
    steps = _read_steps(undo)
    if steps[-1]["collected"] == digest:
        return steps
    if steps[-1]["original"] == digest:  # the last collection was interrupted after the undo file
        return steps[:-1]
    if force:
        return []
    raise GCError(
        f"{undo} belongs to an earlier version of {place.name}: move it away, or use --force to "
        "replace it"
    )


def _packed_steps(steps: list[dict[str, str]]) -> bytes:
    document = {"format": UNDO_FORMAT, "version": UNDO_VERSION, "steps": steps}
    return gzip.compress(json.dumps(document).encode(), mtime=0)


def _read_steps(undo: Path) -> list[dict[str, str]]:
    try:
        document = json.loads(unpacked(read_whole(undo), undo))
        if document["format"] != UNDO_FORMAT:
            raise UndoError(f"{undo} is not an undo file of jaato-gc")
        if document["version"] != UNDO_VERSION:
            raise UndoError(
                f"{undo} has version {document['version']!r:.80}, expected {UNDO_VERSION}: use the "
                "version of jaato-gc-lab that wrote it, or move the file away"
            )
        steps: list[dict[str, str]] = list(document["steps"])
        if steps and all(isinstance(step[key], str) for step in steps for key in STEP_KEYS):
            return steps
    except DAMAGE as error:
        raise UndoError(f"{undo} is damaged or not an undo file: {error}") from None
    raise UndoError(f"{undo} is damaged: it has no valid steps")


def _decoded(content: str) -> bytes | None:
    try:
        return base64.b64decode(content)
    except ValueError:
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
