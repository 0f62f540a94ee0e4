"""Claude Code's session logs: ``~/.claude/projects/…/*.jsonl``.

A session is a tree: each line names its parent, and going back to an earlier prompt starts a new
branch. One response is spread over several lines. The results of parallel calls are children of the
lines with their calls, so not all of them are on the active branch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaato_gc_formats._history import Problem
from jaato_gc_formats._log_format import Compaction, Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    Node,
    active_branch,
    answered_by,
    blocks_of,
    fields_in,
    moment_of,
    objects,
    resemblance,
    text_in,
    usage_of,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields

SPEAKERS = ("user", "assistant")
SENT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
RECEIVED = ("output_tokens",)
SYNTHETIC = "<synthetic>"
"""Model of the answers that Claude Code writes itself, without a request."""
NON_TREE_KINDS = {
    "file-history-snapshot": "snapshot",
    "queue-operation": "operation",
    "summary": "leafUuid",
}
"""Kinds of lines outside the tree, each with a field that only this log has."""


class ClaudeCode(LogFormat):
    """The active branch of a session, and a conversation for each subagent."""

    name = "claude-code"
    summary = "Claude Code session (JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=_is_like)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        for thread in _threads(records):
            yield thread.name, _dialogue(thread, records)


def _is_own(record: Fields) -> bool:
    mark = NON_TREE_KINDS.get(text_in(record.get("type")))
    if mark is not None and mark in record:
        return True
    is_message = record.get("type") in SPEAKERS and "content" in fields_in(record.get("message"))
    return is_message and any(key in record for key in ("uuid", "sessionId", "parentUuid"))


def _is_like(record: Fields) -> bool:
    known = ("uuid", "sessionId", "leafUuid", "agentId", "messageId")
    return isinstance(record.get("type"), str) and any(key in record for key in known)


@dataclass(slots=True)
class _Thread:
    """The lines of the main conversation or of a subagent's, without their content."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    answers: dict[int, str] = field(default_factory=dict)
    """Response id, by the number of the record that is a piece of the response."""
    last_piece: dict[str, int] = field(default_factory=dict)
    """Number of the record with the last piece, by response id."""
    results: dict[int, str] = field(default_factory=dict)
    """Id of the parent, by the number of the record with results."""

    def chosen(self) -> tuple[set[int], list[Problem]]:
        """Returns the numbers of the records in the conversation, and problems.

        These are the active branch, all pieces of its responses, and the results of its calls.
        """
        branch, problems = active_branch(self.nodes)
        said = {self.answers[number] for number in branch if number in self.answers}
        branch |= {number for number, answer in self.answers.items() if answer in said}
        ids = {node.id for node in self.nodes if node.number in branch}
        branch |= {number for number, parent in self.results.items() if parent in ids}
        return branch, problems


def _threads(records: Iterable[Record]) -> list[_Thread]:
    """Returns the threads of a file, with the ids that are needed to select their lines."""
    threads: dict[str, _Thread] = {}
    thread_of: dict[str, str] = {}
    previous = ""
    for number, (line, record) in enumerate(objects(records)):
        node_id = text_in(record.get("uuid")) or f"#{number}"
        if not _is_node(record) or node_id in thread_of:  # resuming a session copies its lines
            continue
        parent = record.get("parentUuid", previous or None)
        is_boundary = record.get("subtype") == "compact_boundary"
        if is_boundary:
            parent = record.get("logicalParentUuid") or previous or None
        key = ""
        if record.get("isSidechain") is True:
            key = text_in(record.get("agentId")) or thread_of.get(str(parent)) or f"#{line}"
        thread_of[node_id] = key
        name = text_in(record.get("sessionId"))
        thread = threads.setdefault(key, _Thread(f"{name}/{key}" if key else name))
        has_message = _has_message(record)
        parent = None if parent is None else str(parent)
        may_lack_parent = is_boundary or parent in thread_of
        thread.nodes.append(Node(number, line, node_id, parent, has_message, may_lack_parent))
        previous = node_id
        if not has_message:
            continue
        message = record["message"]
        if record["type"] == "assistant":
            answer = text_in(message.get("id")) or node_id
            thread.answers[number] = answer
            thread.last_piece[answer] = number
        elif _has_results(message):
            thread.results[number] = str(parent)
    return sorted(threads.values(), key=lambda thread: "/" in thread.name)


def _is_node(record: Fields) -> bool:
    return "uuid" in record or _has_message(record)


def _has_message(record: Fields) -> bool:
    if record.get("type") not in SPEAKERS or record.get("isApiErrorMessage") is True:
        return False
    return isinstance(fields_in(record.get("message")).get("content"), str | list)


def _has_results(message: Fields) -> bool:
    return any(
        fields_in(block).get("type") == "tool_result" for block in blocks_of(message["content"])
    )


def _dialogue(thread: _Thread, records: Iterable[Record]) -> Dialogue:
    chosen, problems = thread.chosen()
    yield from problems
    exchange = _Exchange()
    for number, (line, record) in enumerate(objects(records)):
        if number not in chosen:
            continue
        if record.get("subtype") == "compact_boundary":
            yield from exchange.items()
            exchange = _Exchange()
            yield Compaction()
        if not _has_message(record):
            continue
        message = record["message"]
        if record["type"] == "assistant":
            answer = thread.answers[number]
            if answer != exchange.answer:
                yield from exchange.items()
                exchange = _Exchange(answer, thread.last_piece[answer])
                if message.get("model") != SYNTHETIC:
                    exchange.time, exchange.model = record.get("timestamp"), message.get("model")
            exchange.pieces.append(Record(line, message))
        elif _has_results(message):
            exchange.results.append(Record(line, message))
        else:
            exchange.prompts.append(Record(line, message))
            if number > exchange.last_piece:
                yield from exchange.items()
                exchange = _Exchange()
    yield from exchange.items()


@dataclass(slots=True)
class _Exchange:
    """One response with its results and prompts, in the order of the requests."""

    answer: str = ""
    last_piece: int = -1
    time: Any = None
    """Time of the first piece in the log; ``None`` if there was no request."""
    model: Any = None
    """Model of the answer; ``None`` if there was no request."""
    pieces: list[Record] = field(default_factory=list)
    results: list[Record] = field(default_factory=list)
    prompts: list[Record] = field(default_factory=list)

    def items(self) -> Dialogue:
        if self.pieces:
            yield from usage_of(self.pieces[-1].value.get("usage"), SENT, RECEIVED)
            yield from moment_of(self.time)
            yield from answered_by(self.model)
            yield _join("assistant", self.pieces)
        if self.results:
            yield _join("user", self.results)
        for prompt in self.prompts:
            yield _join("user", [prompt])


def _join(role: str, lines: list[Record]) -> Record:
    content = lines[0].value["content"]
    if len(lines) > 1:
        content = [block for line in lines for block in blocks_of(line.value["content"])]
    return Record(lines[0].line, {"role": role, "content": content})
