"""Claude Code's session logs: ``~/.claude/projects/…/*.jsonl``.

A session is a tree: each line names its parent, and going back to an earlier prompt leaves a dead
branch behind. One answer is spread over several lines. Results of parallel calls hang beside the
branch, on the line of their call.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaato_gc_formats._history import Problem
from jaato_gc_formats._log_format import Compaction, Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    Node,
    active_branch,
    blocks_of,
    fields_in,
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
BESIDE_THE_TREE = {
    "file-history-snapshot": "snapshot",
    "queue-operation": "operation",
    "summary": "leafUuid",
}
"""Kinds of lines that only this log has, and a field by which they are told."""


class ClaudeCode(LogFormat):
    """A whole session, dead branches left out; what was said to each subagent on its own."""

    name = "claude-code"
    summary = "Claude Code session (JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=_is_like)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        for thread in _threads(records):
            yield thread.name, _dialogue(thread, records)


def _is_own(record: Fields) -> bool:
    mark = BESIDE_THE_TREE.get(text_in(record.get("type")))
    if mark is not None and mark in record:
        return True
    is_speech = record.get("type") in SPEAKERS and "content" in fields_in(record.get("message"))
    return is_speech and any(key in record for key in ("uuid", "sessionId", "parentUuid"))


def _is_like(record: Fields) -> bool:
    known = ("uuid", "sessionId", "leafUuid", "agentId", "messageId")
    return isinstance(record.get("type"), str) and any(key in record for key in known)


@dataclass(slots=True)
class _Thread:
    """The main conversation, or that of a subagent: what is kept of its lines."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    answers: dict[int, str] = field(default_factory=dict)
    """By number of the line: the answer that it is a piece of."""
    last_piece: dict[str, int] = field(default_factory=dict)
    """By answer: the line of its last piece."""
    results: dict[int, str] = field(default_factory=dict)
    """By number of a line with results: the line that it hangs on."""

    def chosen(self) -> tuple[set[int], list[Problem]]:
        """The lines of the conversation: the active branch, and what hangs on it."""
        branch, problems = active_branch(self.nodes)
        said = {self.answers[number] for number in branch if number in self.answers}
        branch |= {number for number, answer in self.answers.items() if answer in said}
        ids = {node.id for node in self.nodes if node.number in branch}
        branch |= {number for number, parent in self.results.items() if parent in ids}
        return branch, problems


def _threads(records: Iterable[Record]) -> list[_Thread]:
    """What is needed of each line to choose those that belong together."""
    threads: dict[str, _Thread] = {}
    thread_of: dict[str, str] = {}
    previous = ""
    for number, (line, record) in enumerate(objects(records)):
        node_id = text_in(record.get("uuid")) or f"#{number}"
        if not _is_node(record) or node_id in thread_of:  # resuming copies lines
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
        speaks = _speaks(record)
        parent = None if parent is None else str(parent)
        stands_alone = is_boundary or parent in thread_of
        thread.nodes.append(Node(number, line, node_id, parent, speaks, stands_alone))
        previous = node_id
        if not speaks:
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
    return "uuid" in record or _speaks(record)


def _speaks(record: Fields) -> bool:
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
            yield from exchange.said()
            exchange = _Exchange()
            yield Compaction()
        if not _speaks(record):
            continue
        message = record["message"]
        if record["type"] == "assistant":
            answer = thread.answers[number]
            if answer != exchange.answer:
                yield from exchange.said()
                exchange = _Exchange(answer, thread.last_piece[answer])
            exchange.pieces.append(Record(line, message))
        elif _has_results(message):
            exchange.results.append(Record(line, message))
        else:
            exchange.prompts.append(Record(line, message))
            if number > exchange.last_piece:
                yield from exchange.said()
                exchange = _Exchange()
    yield from exchange.said()


@dataclass(slots=True)
class _Exchange:
    """One answer and what was said to it, in the order in which it stood in requests."""

    answer: str = ""
    last_piece: int = -1
    pieces: list[Record] = field(default_factory=list)
    results: list[Record] = field(default_factory=list)
    prompts: list[Record] = field(default_factory=list)

    def said(self) -> Dialogue:
        if self.pieces:
            yield from usage_of(self.pieces[-1].value.get("usage"), SENT, RECEIVED)
            yield _joined("assistant", self.pieces)
        if self.results:
            yield _joined("user", self.results)
        for prompt in self.prompts:
            yield _joined("user", [prompt])


def _joined(role: str, lines: list[Record]) -> Record:
    content = lines[0].value["content"]
    if len(lines) > 1:
        content = [block for line in lines for block in blocks_of(line.value["content"])]
    return Record(lines[0].line, {"role": role, "content": content})
