"""Tests of the budget panel at any width, with and without colours, for any snapshot."""

import io
import json
import re
from typing import Any

import pytest
from cli_samples import HOSTILE, RAW
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live

from jaato_gc import (
    GC_POLICY_INDICATORS,
    FunctionCall,
    GCConfig,
    GCError,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    Message,
    Part,
    Role,
    load_gc_plugin,
)
from jaato_gc_lab import BudgetPanel

WIDTHS = (40, 60, 80, 120, 200)


def printed(panel: BudgetPanel, width: int = 80, **options: Any) -> str:
    file = io.StringIO()
    Console(file=file, width=width, **options).print(panel)
    return file.getvalue()


def model(request: list[Message]) -> Message:
    if request[-1].role is Role.USER:
        call = FunctionCall("call_1", "read_file", {"path": f"src/module_{len(request)}.py"})
        return Message(Role.MODEL, [Part(function_call=call)])
    return Message.from_text(Role.MODEL, "It looks fine.")


@pytest.fixture(scope="module")
def session() -> GCSession:
    """A session in a window of 8,000 tokens, after some collections."""
    session = GCSession(
        model, tools=lambda _: "value = compute(retries=3)\n" * 60, context_limit=8000
    )
    session.append(Message.from_text(Role.SYSTEM, "You are a careful reviewer. " * 20))
    session.budget.add_child(InstructionSource.PLUGIN, "read_file", 300, GCPolicy.LOCKED)
    session.budget.add_child(InstructionSource.PLUGIN, "search", 200, GCPolicy.EPHEMERAL)
    session.set_gc_plugin(load_gc_plugin("gc_budget"), GCConfig(preserve_recent_turns=2))
    for turn in range(20):
        session.send_message(f"Please review module {turn}.")
    assert session.get_gc_history()
    return session


def snapshot_of(**values: Any) -> dict[str, Any]:
    """Returns a small snapshot with some values replaced."""
    entries = {
        "system": {"tokens": 1000, "gc_policy": "locked"},
        "conversation": {
            "tokens": 0,
            "total_tokens": 3000,
            "gc_policy": "partial",
            "children": {
                "turn_0": {"tokens": 500, "gc_policy": "preservable"},
                "turn_1": {"tokens": 1500, "gc_policy": "ephemeral"},
                "turn_2": {"tokens": 1000, "gc_policy": "ephemeral"},
            },
        },
    }
    given = {"agent_id": "main", "context_limit": 10_000, "total_tokens": 4000, "entries": entries}
    return given | values


def lines_of(panel: BudgetPanel, width: int = 80, **options: Any) -> list[str]:
    return printed(panel, width, **options).splitlines()


def test_panel_shows_tokens_share_and_policy_of_every_source() -> None:
    title, bar, system, conversation = lines_of(BudgetPanel(snapshot_of()))

    assert title == "main: 4,000 of 10,000 tokens (40%)"
    assert bar == "█" * 8 + "░" * 24 + "·" * 48
    assert system.split() == ["██", "system", "1,000", "10%", "███", "locked", "🔒"]
    assert conversation.split()[:4] == ["░░", "conversation", "3,000", "30%"]
    assert conversation.endswith(" partial ◐")


def test_children_are_collapsed_unless_some_are_asked_for() -> None:
    collapsed = printed(BudgetPanel(snapshot_of()))
    expanded = lines_of(BudgetPanel(snapshot_of(), children=2))

    assert "turn_" not in collapsed
    names = [line.split()[0] for line in expanded[4:]]
    assert names == ["turn_1", "turn_2", "1"]
    assert expanded[-1].split()[:4] == ["1", "more", "500", "5.0%"]


def test_threshold_and_target_are_marked() -> None:
    config = GCConfig(threshold_percent=80, target_percent=60)
    _, bar, marks, named, *_ = lines_of(BudgetPanel(snapshot_of(), config=config), 100)

    assert len(bar) == 100
    assert [at for at, each in enumerate(marks, 1) if each == "▲"] == [60, 80]
    assert named == "target 6,000 (60%), threshold 8,000 (80%)"


def test_total_beyond_the_window_is_drawn_with_a_mark_at_the_window() -> None:
    title, bar, marks, named, *_ = lines_of(BudgetPanel(snapshot_of(context_limit=2000)), 100)

    assert title == "main: 4,000 of 2,000 tokens (200%)"
    assert "·" not in bar
    assert marks.index("▲") == 49
    assert named == "window 2,000 (100%)"


@pytest.mark.parametrize("limit", [0, None, -1])
def test_agent_without_a_window_has_shares_of_the_total(limit: int | None) -> None:
    panel = BudgetPanel(snapshot_of(context_limit=limit), config=GCConfig())
    title, bar, system, _ = lines_of(panel)

    assert title == "main: 4,000 tokens, window unknown"
    assert "·" not in bar
    assert system.split()[2:4] == ["1,000", "25%"]


def test_difference_to_the_reported_total_is_a_correction() -> None:
    more = lines_of(BudgetPanel(snapshot_of(total_tokens=4100)))[-1]
    less = lines_of(BudgetPanel(snapshot_of(total_tokens=3900)))[-1]

    assert more.split()[1:4] == ["correction", "100", "1.0%"]
    assert less.split()[1:] == ["correction", "-100", "-1.0%"]


def test_last_collection_is_shown_with_what_it_freed() -> None:
    result = GCResult(True, 3, 9000, 4000, "gc_budget", GCTriggerReason.THRESHOLD)
    failed = GCResult(
        False, 0, 9000, 9000, "gc_todo", GCTriggerReason.MANUAL, error="[red]no\x1b[31m"
    )

    shown = lines_of(BudgetPanel(snapshot_of(), collected=result))[-1]
    assert shown == "last collection: 5,000 tokens freed (gc_budget, threshold, reached)"
    shown = printed(BudgetPanel(snapshot_of(), collected=failed))
    assert "gc_todo (manual): failed, nothing changed: [red]no" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("color_system", [None, "standard", "truecolor"])
def test_panel_of_a_session_survives_json_at_any_width(
    width: int, color_system: Any, session: GCSession
) -> None:
    snapshot = json.loads(json.dumps(session.budget.snapshot()))
    options: dict[str, Any] = {
        "config": session.config,
        "collected": session.get_gc_history()[-1],
        "children": 3,
    }
    terminal = {"color_system": color_system, "force_terminal": color_system is not None}

    shown = printed(BudgetPanel(snapshot, **options), width, **terminal)

    assert shown == printed(BudgetPanel(session.budget.snapshot(), **options), width, **terminal)
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert all(cell_len(line) <= width for line in plain.splitlines())
    for name in ("system", "plugin", "conversation", "read_file", "search", "freed"):
        assert name in plain
    assert (plain == shown) is (color_system is None)


@pytest.mark.parametrize("width", WIDTHS)
def test_signs_are_last_so_that_their_width_moves_nothing(width: int, session: GCSession) -> None:
    """Some terminals draw a padlock in one cell, others in two."""
    shown = printed(BudgetPanel(session.budget.snapshot(), children=9), width)

    signs = "".join(GC_POLICY_INDICATORS.values())
    with_sign = [line for line in shown.splitlines() if re.search(f"[{signs}]", line)]
    assert len(with_sign) > 3
    assert all(re.fullmatch(f"[^{signs}]*[{signs}]", line) for line in with_sign)
    assert (
        len({cell_len(re.split(f"[{signs}]|[a-z]+ [{signs}]", line)[0]) for line in with_sign}) == 1
    )


def test_segments_without_colours_have_different_characters(session: GCSession) -> None:
    plain = lines_of(BudgetPanel(session.budget.snapshot()))
    no_color = printed(BudgetPanel(session.budget.snapshot()), force_terminal=True, no_color=True)

    assert len(set(plain[1])) == 4  # three sources, and what is free
    assert plain[1] in no_color


def test_terminal_without_unicode_gets_ascii_only() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=file, width=80)
    panel = BudgetPanel(snapshot_of(agent_id="naïve"), config=GCConfig(), children=1)

    console.print(panel)

    file.seek(0)
    shown = file.read()
    assert shown.startswith("na?ve: 4,000 of 10,000 tokens (40%)")
    assert "locked" in shown


def test_usage_alone_has_no_sources(session: GCSession) -> None:
    shown = lines_of(BudgetPanel(session.get_context_usage(), config=session.config))

    assert len(shown) == 4
    assert shown[0].endswith(f"of 8,000 tokens ({session.budget.utilization_percent():.0f}%)")


def test_panel_can_be_updated_in_place() -> None:
    file = io.StringIO()
    console = Console(file=file, width=60, force_terminal=True)
    with Live(BudgetPanel(snapshot_of()), console=console, auto_refresh=False) as live:
        live.update(BudgetPanel(snapshot_of(total_tokens=5000)), refresh=True)

    assert "5,000 of 10,000 tokens" in file.getvalue()


@pytest.mark.parametrize(
    ("snapshot", "error"),
    [
        ({}, r"invalid budget snapshot: total_tokens.*: pass budget.snapshot\(\)"),
        (snapshot_of(total_tokens=-1), "total_tokens=-1: .*greater than or equal to 0"),
        (snapshot_of(total_tokens="many"), "total_tokens='many': .*integer"),
        (snapshot_of(entries={"system": 12}), "entries.system=12: "),
        (
            snapshot_of(entries={"x": {"children": {"y": {"tokens": None}}}}),
            "entries.x.children.y.tokens=None: ",
        ),
        (None, r"expected a budget snapshot, got NoneType: pass budget.snapshot\(\)"),
    ],
)
def test_invalid_snapshot_is_refused_with_the_place(snapshot: Any, error: str) -> None:
    with pytest.raises(GCError, match=error):
        BudgetPanel(snapshot)


# --- any snapshot ---

TOKENS = st.integers(0, 10**12) | st.integers(0, 10_000)
NAMES = st.text(max_size=60) | st.sampled_from(
    ["[red]x[/red]", "[/]", HOSTILE, "日本語" * 12, "🔒🔒", ":lock:", "a\nb", "x" * 300, ""]
)
POLICIES = st.sampled_from([*GCPolicy]).map(str) | NAMES
CHILD = st.fixed_dictionaries(
    {"tokens": TOKENS, "gc_policy": POLICIES},
    optional={"label": st.none() | NAMES, "total_tokens": TOKENS, "new_key": st.none()},
)
ENTRY = st.tuples(CHILD, st.dictionaries(NAMES, CHILD, max_size=5)).map(
    lambda pair: pair[0] | {"children": pair[1]}
)
SNAPSHOTS = st.fixed_dictionaries(
    {"total_tokens": TOKENS},
    optional={
        "agent_id": NAMES,
        "context_limit": st.none() | st.integers(-5, 10**12) | st.integers(0, 10_000),
        "entries": st.dictionaries(NAMES, ENTRY, max_size=12),
    },
)


@given(
    snapshot=SNAPSHOTS,
    width=st.integers(40, 200),
    children=st.integers(-1, 6),
    color_system=st.sampled_from([None, "truecolor"]),
    has_config=st.booleans(),
)
def test_any_snapshot_fits_any_width(
    snapshot: dict[str, Any], width: int, children: int, color_system: Any, has_config: bool
) -> None:
    config = GCConfig(pressure_percent=0) if has_config else None
    panel = BudgetPanel(snapshot, config=config, children=children)

    shown = printed(panel, width, color_system=color_system, force_terminal=bool(color_system))

    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert not any(character in plain for character in RAW)
    assert all(cell_len(line) <= width for line in plain.splitlines())


@given(snapshot=SNAPSHOTS)
def test_shares_add_up_to_the_share_in_the_title(snapshot: dict[str, Any]) -> None:
    snapshot["agent_id"] = "main"
    for number, key in enumerate(list(snapshot.get("entries", {}))):
        entry = snapshot["entries"].pop(key)
        entry["label"] = f"source{number}"
        entry["gc_policy"] = "partial"
        snapshot["entries"][key] = entry
    rows = lines_of(BudgetPanel(snapshot), 200)
    shares = [
        float(match[1])
        for row in rows
        if (match := re.match(r"(?:\S{2}) +(?:source\d+|correction) +-?[\d,]+ +(-?[\d.]+)%", row))
    ]
    total, window = snapshot["total_tokens"], max(0, snapshot.get("context_limit") or 0)
    whole = 100 * total / (window or total or 1)
    if shares:
        assert sum(shares) == pytest.approx(whole, abs=0.5 * len(shares) + 0.5)


@given(name=NAMES)
def test_name_is_shown_literally_and_whole(name: str) -> None:
    assume(name.isprintable() and name.split(" ") == name.split() and 0 < cell_len(name) < 100)
    snapshot = snapshot_of(entries={"system": {"tokens": 4000, "label": name}})

    assert f"██  {name}  4,000" in printed(BudgetPanel(snapshot), 200)
