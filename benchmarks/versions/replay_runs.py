"""Replays recorded runs with the version of jaato-gc that is installed, for `two_versions.py`.

    PYTHON benchmarks/versions/replay_runs.py FOLDER

Prints JSON, one object per line: each run as it was read, then each replay of it.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from either_version import as_json, collection_count, new_session, public, size_of, use_strategy

from jaato_gc import GCConfig, GCSession, Message, Part, Role
from jaato_gc_formats import FormatError, load


def summarize(text: str) -> str:
    """A summarizer without a model: the beginning of the text and its digest."""
    return f"Notes {digest_of(text)}: {text[: min(400, len(text) // 10)]}"


def summarize_or_fail(text: str) -> str:
    """A summarizer that fails for a third of the texts, the same ones every time."""
    if int(digest_of(text), 16) % 3 == 0:
        raise RuntimeError("this summarizer fails for a third of the texts")
    return summarize(text)


# The name of each strategy in the tables, with its package and options.
STRATEGIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gc_truncate": ("gc_truncate", {}),
    "gc_summarize": ("gc_summarize", {"summarizer": summarize}),
    "gc_summarize, extractive": ("gc_summarize", {"extractive": True}),
    "gc_summarize, failing": ("gc_summarize", {"summarizer": summarize_or_fail}),
    "gc_hybrid": ("gc_hybrid", {"summarizer": summarize}),
    "gc_hybrid, no summarizer": ("gc_hybrid", {}),
    "gc_budget": ("gc_budget", {}),
    "gc_marksweep": ("gc_marksweep", {}),
}


@dataclass(frozen=True)
class Setting:
    """A window and a configuration.

    Args:
        name: Its name in the tables.
        window: Tokens; ``None`` for half of the run, so that short runs collect, too.
        config: Settings of `GCConfig`.
        options: Options of the strategy.
        host: What the host does beside its loop: ``pin``, ``policies``, ``report`` or ``undo``.
    """

    name: str
    window: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    host: str = ""


SETTINGS = (
    Setting("32k", 32_000),
    Setting("128k", 128_000),
    Setting("half of the run"),
    # Most short runs have no more turns than are preserved by default.
    Setting("half, one recent turn", config={"preserve_recent_turns": 1}),
)
MORE_SETTINGS = (
    Setting("preserve_recent_turns=2", config={"preserve_recent_turns": 2}),
    Setting("continuous mode", config={"pressure_percent": None}),
    Setting("max_turns=10", config={"max_turns": 10}),
    Setting("notify_on_gc", options={"notify_on_gc": True}),
    Setting("every 7th pinned", host="pin"),
    Setting("policies", host="policies"),
    Setting("usage reported", host="report"),
    Setting("manual_gc and undo", host="undo"),
)
COMPLETE = "end of the run"
SMALLEST_WINDOW = 100
RUNS_PER_FORMAT = 5
"""The further settings are for the largest runs of each format."""


@dataclass
class Run:
    """A recorded run whose messages have the ids m0, m1, and so on."""

    name: str
    format: str
    messages: list[Message]

    @cached_property
    def tokens(self) -> int:
        """Tokens of the whole run, the same in every version."""
        return sum(map(size_of, self.messages))


def read_runs(folder: Path) -> Iterator[Run]:
    """Every conversation in a folder, from the first request on; files without one are empty."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        try:
            conversations = load(path, repair=True) if path.is_file() else []
        except FormatError:
            yield Run(name, "no conversation", [])
            continue
        for number, conversation in enumerate(conversations):
            said = [each for each in conversation.messages if any(map(has_content, each.parts))]
            opening = next((i for i, each in enumerate(said) if is_request(each)), len(said))
            begin = [each for each in said[:opening] if each.role == Role.SYSTEM]
            messages = [
                replace(message, message_id=f"m{index}")
                for index, message in enumerate([*begin, *said[opening:]])
            ]
            yield Run(f"{name}#{number}", conversation.format, messages)


def is_request(message: Message) -> bool:
    """Whether a turn begins with this message."""
    return message.role == Role.USER and not message.function_responses


def has_content(part: Part) -> bool:
    """Whether a part has anything in it that a provider accepts."""
    text = (part.text or part.thought or "").strip()
    return any((text, part.function_call, part.function_response, part.inline_data, part.extra))


def digest_of(text: str) -> str:
    """Returns a short digest."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


class Recorder:
    """Drives a session through a run and notes each collection.

    Args:
        run: The recorded run.
        session: An empty session with a strategy.
        host: See `Setting`.
    """

    def __init__(self, run: Run, session: GCSession, host: str) -> None:
        self.collections: list[dict[str, Any]] = []
        self.texts: dict[str, str] = {}
        """Messages that a collection wrote or changed, by digest."""
        self._run = run
        self._session = session
        self._host = host
        self._recorded = {id(message) for message in run.messages}
        # Keeps the messages alive, so that no id is used twice.
        self._described: dict[int, tuple[Message, str]] = {}

    def play(self) -> dict[str, Any]:
        """Plays the run as a host with its own loop does; returns the record of it."""
        end, why = COMPLETE, ""
        try:
            self._loop()
        except Exception as error:  # the type is compared, the wording is not
            end, why = type(error).__name__, str(error)
        self._note()
        return {"collections": self.collections, "end": end, "why": why, "texts": self.texts}

    def _loop(self) -> None:
        session, answered, before = self._session, False, None
        for number, message in enumerate(self._run.messages):
            if answered and is_request(message):
                session.after_turn()
                self._note()
                answered = False
            if message.role == Role.MODEL and before != Role.MODEL:
                session.before_send()
                self._note()
                if self._host == "report":
                    tokens = sum(map(size_of, session.history))
                    session.report_usage(tokens, size_of(message))
                answered = True
            if self._host == "policies" and number % 5 == 0:
                policy = "locked" if number % 25 == 0 else "preservable"
                message = replace(message, policy=public("GCPolicy")(policy))
            session.append(message)
            before = message.role
            if self._host == "pin" and number % 7 == 0:
                session.pin(message.message_id)
            elif self._host == "undo" and answered and number % 20 == 0:
                self._collect_and_undo(number)
        session.after_turn()

    def _collect_and_undo(self, number: int) -> None:
        self._session.manual_gc(target_percent=30.0)
        self._note()
        if number % 40 == 0 and self.collections[-1]["removed"]:
            self._session.undo()
            self.collections[-1]["undone"] = list(map(self._describe, self._session.history))

    def _note(self) -> None:
        results = self._session.get_gc_history()
        new = collection_count(self._session) - len(self.collections)
        for result in results[len(results) - new :]:
            removed = [
                [
                    str(item.source),
                    item.child_key,
                    item.reason,
                    list(item.message_ids),
                    item.tokens_freed,
                    str(item.action).replace("clear", "shorten"),
                ]
                for item in result.removal_list
            ]
            noted = {  # in this order, so that the cause of a difference is found before its effect
                "trigger": str(result.trigger_reason),
                "tokens_before": result.tokens_before,
                "removed": removed,
                "history": list(map(self._describe, self._session.history)),
                "tokens_after": result.tokens_after,
                "outcome": str(result.outcome),
            }
            self.collections.append(noted)

    def _describe(self, message: Message) -> str:
        """Returns id, role and a digest of the content."""
        if id(message) not in self._described:
            said = as_json(message)
            digest = digest_of(said)
            described = f"{message.message_id} {message.role} {digest}"
            self._described[id(message)] = (message, described)
            if id(message) not in self._recorded:
                self.texts[digest] = said
        return self._described[id(message)][1]


def record_all(folder: Path) -> Iterator[dict[str, Any]]:
    """Every run with every strategy in every setting, the largest runs first."""
    place: Counter[str] = Counter()
    for run in sorted(read_runs(folder), key=lambda run: run.tokens, reverse=True):
        answered = any(message.role == Role.MODEL for message in run.messages)
        # Compared first: versions that read a run differently also collect differently.
        read = [f"{message.role} {digest_of(as_json(message))}" for message in run.messages]
        yield {"run": run.name, "format": run.format, "replayed": answered, "read": read}
        if not answered:
            continue
        place[run.format] += 1
        is_large = place[run.format] <= RUNS_PER_FORMAT
        for setting in chain(SETTINGS, MORE_SETTINGS if is_large else ()):
            for strategy, (package, options) in STRATEGIES.items():
                session = new_session(setting.window or max(SMALLEST_WINDOW, run.tokens // 2))
                config = GCConfig(**setting.config)
                use_strategy(session, package, {**options, **setting.options}, config)
                record = Recorder(run, session, setting.host).play()
                yield {"run": run.name, "strategy": strategy, "setting": setting.name, **record}


if __name__ == "__main__":
    for line in record_all(Path(sys.argv[1])):
        print(json.dumps(line))
