"""A changed document of a saved session is refused with one error, or its session works.

Every field is changed in turn. `JAATO_GC_DOCUMENTS` sets the number of documents.
"""

import copy
import json
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCError,
    GCPolicy,
    GCSession,
    InlineData,
    InstructionSource,
    Message,
    Part,
    PluginRegistry,
    Role,
    SavedSessionError,
    SyntheticKind,
    ToolResult,
)
from jaato_gc.plugin import Collection, GCStrategy, StrategyInfo, StrategySettings, fenced, hookimpl
from jaato_gc_testing import COUNTER, MemoryStash, new_session, speak

DOCUMENTS = int(os.environ.get("JAATO_GC_DOCUMENTS", "3000"))

USER, MODEL, TOOL, SYSTEM = Role


class Summarizing(GCStrategy[StrategySettings]):
    """Replaces the oldest turns by a summary."""

    name = "gc_summarizing"

    def select(self, collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "oldest")
        if any(each.action == "remove" for each in collection.items):
            text = fenced(SyntheticKind.SUMMARY, "much was said")
            collection.insert(Message.from_text(USER, text, synthetic=SyntheticKind.SUMMARY), 1)


class Strategies:
    """The plugin with the strategy."""

    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo("gc_summarizing", Summarizing)]


def registry() -> PluginRegistry:
    plugins = PluginRegistry(load_installed=False)
    plugins.register(Strategies(), "mine")
    return plugins


STASH = MemoryStash()


def rich_session() -> GCSession:
    """Returns a session whose saved document has every field."""
    config = GCConfig(
        preserve_recent_turns=1,
        target_percent=30.0,
        max_turns=50,
        pinned_turn_indices=[1, 40],
        cache_ttl_seconds=300.0,
    )
    session = new_session(
        Summarizing(),
        config,
        registry=registry(),
        context_limit=3_000,
        stash=STASH,
        session_id="s",
        journal_bytes=2_500,
    )
    session.append(Message(SYSTEM, [Part(text="Be exact.")], "system", policy=GCPolicy.LOCKED))
    session.append(
        Message(
            USER,
            [
                Part(text="look", extra={"cache_control": {"type": "ephemeral"}}),
                Part(inline_data=InlineData("image/png", b"\x89PNG", width=64, height=48)),
                Part(inline_data=InlineData("image/png", "QUJD", "https://x.org/a.png", 64, 64)),
            ],
            "first",
            extra={"name": "somebody"},
        )
    )
    call = FunctionCall("c", "look", {"path": "a.py", "lines": [1, 2.5, None, True]})
    thought = Part(thought="hm", extra={"signature": "x"})
    session.append(Message(MODEL, [thought, Part(function_call=call)], "call"))
    answer = ToolResult("c", "look", {"found": ["b"]}, is_error=True)
    session.append(Message(TOOL, [Part(function_response=answer)], "result"))
    speak(session, *range(1, 8), calls=1)
    session.budget.add_child(
        InstructionSource.ENRICHMENT, "notes", 50, GCPolicy.EPHEMERAL, metadata={"of": ["a"]}
    )
    session.before_send()
    session.report_usage(session.get_context_usage()["total_tokens"] + 20)
    session.manual_gc()
    speak(session, *range(8, 14), calls=1)
    session.manual_gc()
    session.manual_gc()
    speak(session, 14, 15, calls=1)
    session.remove(session.history[-1].message_id)
    session.undo()
    session.before_send()
    session.pin(session.history[-1].message_id)
    return session


def saved_sessions() -> dict[str, dict[str, Any]]:
    plain = new_session(context_limit=3_000)
    speak(plain, 0, 1, calls=1)
    rich = rich_session()
    return {"rich": json.loads(rich.save()), "plain": json.loads(plain.save())}


SAVED = saved_sessions()

JUNK: tuple[Any, ...] = (
    *(None, True, False, "", "x", "1", "\ud800", "user", [], {}, [[]], [None], {"x": 1}),
    *(0, 1, -1, 3, 10**6, 2**53, 2**63, -(2**63), 10**400, -(10**400), 0.0, 1.5, 1e308),
    *(
        float("nan"),
        float("inf"),
        -float("inf"),
        ["a", "a"],
        {"": {"": [{}]}},
        [0],
        [-1],
        [10**400],
    ),
)
"""What a field is replaced by."""


BY_ID = ("places", "stash_keys", "children", "entries")
"""Mappings by the ids of messages and the keys of entries."""


class Place(NamedTuple):
    """A place in a document: the keys that lead to it."""

    document: str
    path: tuple[str | int, ...]

    @property
    def shape(self) -> tuple[str, ...]:
        """The path without indices and ids: the same for all elements of a list or a mapping."""
        steps = zip(("", *self.path), self.path, strict=False)
        return (
            self.document,
            *("*" if isinstance(key, int) or above in BY_ID else key for above, key in steps),
        )


def places(document: str, value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Yields the places of everything in a document."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield Place(document, (*path, key))
        if isinstance(value[key], dict | list):
            yield from places(document, value[key], (*path, key))


class Change(NamedTuple):
    """A change of one document at one place."""

    place: Place
    action: str
    value: Any = None

    def changed(self) -> str:
        """Returns the changed document."""
        document = copy.deepcopy(SAVED[self.place.document])
        *outer, last = self.place.path
        container: Any = document
        for key in outer:
            container = container[key]
        if self.action == "replace":
            container[last] = self.value
        elif self.action == "remove":
            del container[last]
        elif self.action == "repeat":
            container[last] = container[last] * 2
        elif self.action == "cut":
            container[last] = container[last][1:]
        else:
            container[last]["unknown"] = self.value
        return json.dumps(document)


def changes() -> list[Change]:
    """Returns all changes: first those of each kind of place, then those of equal places."""
    by_shape: dict[tuple[str, ...], list[Place]] = {}
    for name, document in SAVED.items():
        for place in places(name, document):
            by_shape.setdefault(place.shape, []).append(place)
    found: list[list[Change]] = []
    for alike in by_shape.values():
        for number, place in enumerate(alike):
            value: Any = SAVED[place.document]
            for key in place.path:
                value = value[key]
            here = [Change(place, "replace", junk) for junk in JUNK]
            here.append(Change(place, "remove"))
            if isinstance(value, list):
                here += [Change(place, "repeat"), Change(place, "cut")]
            if isinstance(value, dict):
                here.append(Change(place, "add", 1))
            found += [[]] * (number + 1 - len(found))
            found[number] = found[number] + here
    chance = random.Random(7)
    for alternatives in found:
        chance.shuffle(alternatives)
    return [change for alternatives in found for change in alternatives]


CHANGES = changes()[:DOCUMENTS]


def restored(saved: str) -> GCSession:
    return GCSession.restore(saved, counter=COUNTER, registry=registry(), stash=STASH)


def use(session: GCSession) -> None:
    """Does everything that a session can do. It may refuse what can't be done, with its errors."""
    session.append(Message.from_text(USER, "go on"))
    call = FunctionCall("later", "look", {})
    session.append(Message(MODEL, [Part(function_call=call)], "later"))
    session.append(Message(TOOL, [Part(function_response=ToolResult("later", "look", "seen"))]))
    for step in (session.before_send, session.manual_gc, session.undo, session.undo):
        with suppress(GCError):
            step()
    list(map(str, session.get_gc_history()))
    session.get_context_usage()
    session.after_turn()
    again = restored(session.save())
    assert again.history == session.history
    with suppress(GCError):
        again.before_send()


@pytest.mark.parametrize("part", range(8))
def test_a_changed_document_is_refused_or_its_session_works(part: int) -> None:
    failures = []
    for change in CHANGES[part::8]:
        try:
            session = restored(change.changed())
        except SavedSessionError:
            continue
        except Exception as error:
            failures.append((change, "restore", repr(error)))
            continue
        try:
            use(session)
        except Exception as error:
            failures.append((change, "use", repr(error)))
    assert not failures, "\n".join(f"{each}" for each in failures[:20]) + f"\n{len(failures)}"
