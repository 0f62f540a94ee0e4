"""Saving is complete: every attribute of a session's parts is saved, or listed here with a reason.

If a test fails because of a new attribute, save it: add it to the state of its class in
`jaato_gc/session/saving.py`. If a restored session does not need it, list it below.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import pytest

from jaato_gc import GCConfig, GCSession
from jaato_gc.plugin import Edit
from jaato_gc.saved import Count
from jaato_gc.session import saving
from jaato_gc.session.journal_entry import AppliedEdits
from jaato_gc_testing import COUNTER, MemoryStash, OldestFirst, new_session, speak

PART = "a part of the session, with a row of its own"
OPTION = "given to the restored session again"
STATELESS = "keeps nothing between calls"
DERIVED = "worked out from what is saved"
GUARD = "the lock; a saved session is whole"
MOMENTARY = "belongs to a call that is running"


class Part(NamedTuple):
    """A part of a session.

    Args:
        owner: Returns the object.
        saved: The names under which its attributes are saved, without leading underscores.
        not_saved: The attributes that are not saved, and why.
    """

    owner: Callable[[GCSession], Any]
    saved: Iterable[str]
    not_saved: Mapping[str, str]


@pytest.fixture
def session() -> GCSession:
    """A session with a collection in its journal."""
    session = new_session(
        OldestFirst(), GCConfig(target_percent=20), context_limit=2_000, stash=MemoryStash()
    )
    speak(session, *range(12), calls=1)
    session.manual_gc()
    return session


def entry_of(session: GCSession) -> Any:
    return session._journal.entries[-1]


SAMPLE = new_session()
PARTS = {
    "GCSession": Part(
        lambda session: session,
        (),
        {
            **dict.fromkeys(("_live", "_schedule", "_journal"), PART),
            **dict.fromkeys(("provider", "tools", "registry", "deadline_seconds"), OPTION),
            **dict.fromkeys(("_summarizer", "_observers", "on_gc_threshold"), OPTION),
            **dict.fromkeys(("_requests", "_collector", "_editor"), STATELESS),
            "_guard": GUARD,
            "_turn_callback": MOMENTARY,
        },
    ),
    "LiveHistory": Part(
        lambda session: session._live,
        {*saving._LiveState.model_fields, "messages"},
        {
            "booking": PART,
            "_guard": GUARD,
            "_lent": MOMENTARY,
            **dict.fromkeys(("_checked", "_fast_check"), DERIVED),
            "_has_warned": "the next report says it again",
        },
    ),
    "Booking": Part(
        lambda session: session._live.booking,
        saving._BookingState.model_fields,
        {
            "budget": PART,
            "_guard": GUARD,
            **dict.fromkeys(("_policy_of", "_tool_policies"), OPTION),
        },
    ),
    "InstructionBudget": Part(
        lambda session: session.budget,
        SAMPLE.budget.snapshot(),
        {
            **dict.fromkeys(("counter", "has_stash"), OPTION),
            "_guard": GUARD,
            **dict.fromkeys(("_tree", "uncertain_tokens"), DERIVED),
        },
    ),
    "EntryTree": Part(
        lambda session: session.budget._tree,
        ["sources"],
        dict.fromkeys(("by_key", "by_message", "by_policy", "fixed"), DERIVED),
    ),
    "SourceEntry": Part(
        lambda session: next(iter(session.budget.entries.values())),
        next(iter(SAMPLE.budget.entries.values())).to_dict(),
        dict.fromkeys(("_key", "_parent", "_total"), DERIVED),
    ),
    "Schedule": Part(
        lambda session: session._schedule,
        saving._ScheduleState.model_fields,
        {
            **dict.fromkeys(("_live", "strategy"), PART),
            "_guard": GUARD,
            **dict.fromkeys(("config", "request_limit"), DERIVED),
        },
    ),
    "StrategyInUse": Part(
        lambda session: session._schedule.strategy,
        {"plugin", "config", "disabled", *saving._StrategyState.model_fields},
        {
            **dict.fromkeys(("name", "takes_budget", "uses_core_trigger"), DERIVED),
            "deadline_seconds": OPTION,
        },
    ),
    "Journal": Part(
        lambda session: session._journal,
        {*saving._JournalState.model_fields, "entries"},
        {**dict.fromkeys(("keep", "max_bytes", "stash"), OPTION), "_guard": GUARD},
    ),
    "JournalEntry": Part(entry_of, ("result", "state", "applied"), {}),
    "Edit": Part(
        lambda session: entry_of(session).applied.edits[0],
        ("position", "before", "after"),
        dict.fromkeys(("key", "reason", "action", "stash"), "in the result, and needed no more"),
    ),
}
STATES: dict[str, type[saving._State]] = {
    "Booking": saving._BookingState,
    "LiveHistory": saving._LiveState,
    "Schedule": saving._ScheduleState,
    "Journal": saving._JournalState,
}


def attributes_of(owner: Any) -> Set[str]:
    """Returns the names of all attributes of an object."""
    if is_dataclass(owner):
        return {field.name for field in fields(owner)}
    if isinstance(owner, Edit):
        return {*owner._fields}
    slots = {name for each in type(owner).__mro__ for name in getattr(each, "__slots__", ())}
    return slots | getattr(owner, "__dict__", {}).keys()


@pytest.mark.parametrize("name", PARTS)
def test_every_attribute_is_saved_or_listed_as_not_saved(session: GCSession, name: str) -> None:
    part = PARTS[name]
    saved = set(part.saved)
    unsaved = {each for each in attributes_of(part.owner(session)) if each.lstrip("_") not in saved}

    assert unsaved - part.not_saved.keys() == set(), "save these in session/saving.py, or list them"
    assert part.not_saved.keys() - unsaved == set(), "these are saved, or are no attributes"


@pytest.mark.parametrize("name", STATES)
def test_every_saved_attribute_is_restored(name: str) -> None:
    session = new_session()
    speak(session, 1)
    owner, state = PARTS[name].owner, STATES[name]
    other = {
        key: changed(value, state.model_fields[key].annotation)
        for key, value in state.of(owner(session)).items()
    }
    state.set_on(owner(session), state.model_validate(other))

    restored = GCSession.restore(session.save(), counter=COUNTER, registry=session.registry)

    assert state.of(owner(restored)) == other


def changed(value: Any, kind: Any) -> Any:
    """Returns another value of a type."""
    if kind == saving._Samples:
        return [(5, 7)]
    others = {list[Count]: [7], list[str]: ["key"], dict[str, Count]: {"u9": 3}}
    if kind in others:
        return others[kind]
    return not value if kind is bool else 5 + (value or 0)


def test_what_undo_needs_is_restored(session: GCSession) -> None:
    entry = entry_of(session)
    applied: AppliedEdits = replace(entry.applied, reports=2, forgotten=True, is_released=True)
    session._journal.entries = (replace(entry, applied=applied),)
    as_default = AppliedEdits([], [], 0, 0)
    for field in fields(AppliedEdits):
        value, default = getattr(applied, field.name), getattr(as_default, field.name)
        assert value != default, f"give {field.name} another value than its default in this test"

    restored: AppliedEdits = entry_of(
        GCSession.restore(
            session.save(),
            strategy=OldestFirst(),
            counter=COUNTER,
            registry=session.registry,
            stash=session.stash,
        )
    ).applied

    assert replace(restored, edits=[]) == replace(applied, edits=[])
    assert [edit[:3] for edit in restored.edits] == [edit[:3] for edit in applied.edits]
