"""The strategies and settings that `test_session_machine` chooses from."""

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st
from repository import own_strategies
from session_messages import POLICIES

from jaato_gc import GCConfig, GCPlugin, GCPolicy, GCTriggerReason, InstructionSource

PluginMaker = Callable[[], GCPlugin]


def summarizer(text: str) -> str:
    """Writes a short summary; fails on some texts, and always on the same ones."""
    if len(text) % 5 == 0:
        raise RuntimeError("the model is overloaded")
    return f"Notes on {len(text)} characters."


def initialized(create: PluginMaker, **options: Any) -> PluginMaker:
    """Returns a function that makes a strategy with these options."""

    def make() -> GCPlugin:
        plugin = create()
        plugin.initialize(options)
        return plugin

    return make


WRITTEN: dict[str, Any] = {"summarizer": summarizer, "summary_tokens": 40, "max_summaries": 2}

OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "gc_summarize": {
        "gc_summarize": WRITTEN,
        "gc_summarize or extract": {**WRITTEN, "on_summarizer_error": "extract"},
    },
    "gc_hybrid": {
        "gc_hybrid": {**WRITTEN, "summarize_middle_turns": 2},
        "gc_hybrid or truncate": {
            **WRITTEN,
            "summarize_middle_turns": 1,
            "on_summarizer_error": "truncate",
            "notify_on_gc": True,
        },
    },
}
"""The variants of strategies that need options. The others are used with and without a notice."""
VARIANTS: dict[str, dict[str, PluginMaker]] = {
    name: {
        variant: initialized(info.factory, **options)
        for variant, options in OPTIONS.get(
            name, {name: {}, f"{name} with a notice": {"notify_on_gc": True}}
        ).items()
    }
    for name, info in own_strategies().items()
}
"""The variants of every strategy, by its name."""
OURS = {name: make for variants in VARIANTS.values() for name, make in variants.items()}

_configs = partial(
    st.builds,
    GCConfig,
    threshold_percent=st.sampled_from([60.0, 80.0]),
    target_percent=st.sampled_from([10.0, 40.0, 55.0]),
    pressure_percent=st.sampled_from([90.0, 90.0, None]),
    max_turns=st.sampled_from([None, None, 2, 4]),
    auto_trigger=st.sampled_from([True, True, True, False]),
    check_before_send=st.sampled_from([True, True, True, False]),
    preserve_recent_turns=st.integers(0, 3),
    preserve_recent_groups=st.integers(0, 2),
    max_context_tokens=st.sampled_from([None, None, 900]),
)
RESERVES = st.sampled_from([0, 100])
CONFIGS = _configs() | _configs(reserve_output_tokens=RESERVES)
OVERRIDES = st.fixed_dictionaries(
    {},
    optional={
        "target_percent": st.sampled_from([0.0, 20.0, 50.0]),
        "preserve_recent_turns": st.integers(0, 2),
        "preserve_recent_groups": st.integers(0, 1),
        "pinned_turn_indices": st.lists(st.integers(0, 3), max_size=1),
        "pressure_percent": st.sampled_from([90.0, None]),
    },
)
OVERFLOWS = st.sampled_from(["relax", "relax", "relax", "raise", "send"])
REASONS = st.sampled_from(GCTriggerReason)
WINDOWS = st.sampled_from([300, 800, 2_000, 6_000])
REPORTED_SHARES = st.sampled_from([0.8, 1.0, 1.05, 1.3])
"""How much a provider reports, as a share of what was counted."""
POSITIONS = st.integers(0, 40)
SOURCES = st.sampled_from([InstructionSource.PLUGIN, InstructionSource.ENRICHMENT])
Booking = tuple[InstructionSource, str, int, GCPolicy | None]
BOOKINGS = st.tuples(SOURCES, st.sampled_from("abc"), st.integers(0, 60), POLICIES)
MEANWHILE = st.sampled_from(["append", "pin", "collect", "undo", "restore", "narrow the window"])
