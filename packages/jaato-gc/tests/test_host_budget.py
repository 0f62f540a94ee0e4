"""Budgets that no session made: hosts with figures and keys of their own."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCPolicy,
    GCResult,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    Message,
    Part,
    Role,
    SourceEntry,
    ToolResult,
    count_tokens,
)
from jaato_gc.plugin import Collection, GCStrategy, Shortening, StrategySettings

CONVERSATION = InstructionSource.CONVERSATION
LOCKED, PARTIAL, EPHEMERAL = GCPolicy.LOCKED, GCPolicy.PARTIAL, GCPolicy.EPHEMERAL
LAST_ONLY = GCConfig(preserve_recent_turns=1, preserve_recent_groups=0)


class Oldest(GCStrategy[StrategySettings]):
    """Removes the oldest turns."""

    name = "gc_oldest"

    def select(self, collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "old")


class Shorter(GCStrategy[StrategySettings]):
    """Shortens every result to its first ten characters."""

    name = "gc_shorter"

    def select(self, collection: Collection) -> None:
        for group in collection.groups:
            collection.shorten(group, "long", Shortening("long", 10, 0))


def turn(number: int, text: str = "some words about the build") -> list[Message]:
    return [
        Message(Role.USER, [Part(text=text)], message_id=f"u{number}"),
        Message(Role.MODEL, [Part(text=text)], message_id=f"a{number}"),
    ]


def turns(count: int) -> list[Message]:
    return [message for number in range(count) for message in turn(number)]


def ids(messages: Iterable[Message]) -> list[str]:
    return [message.message_id for message in messages]


def collect(
    history: list[Message],
    budget: InstructionBudget,
    config: GCConfig = LAST_ONLY,
    strategy: type[GCStrategy[StrategySettings]] = Oldest,
) -> tuple[list[Message], GCResult]:
    reason = GCTriggerReason.THRESHOLD
    after, result = strategy().collect(history, {}, config, reason, budget)
    assert result.success, result.error
    return after, result


def test_the_figures_of_the_host_decide_how_much_goes() -> None:
    budget = InstructionBudget.create_default(context_limit=1_000)
    for number in range(4):
        budget.add_child(
            CONVERSATION, f"turn_{number}", 240, PARTIAL, message_ids=[f"u{number}", f"a{number}"]
        )

    after, result = collect(turns(4), budget)

    assert (result.tokens_before, result.tokens_after) == (960, 480)
    assert [(item.child_key, item.tokens_freed) for item in result.removal_list] == [
        ("turn_0", 240),
        ("turn_1", 240),
    ]
    assert ids(after) == ["u2", "a2", "u3", "a3"]


def test_figures_of_the_host_below_the_counted_ones_are_believed_too() -> None:
    history = turns(4)
    budget = InstructionBudget.create_default(context_limit=10)
    for number in range(4):
        budget.add_child(
            CONVERSATION, f"turn_{number}", 2, PARTIAL, message_ids=[f"u{number}", f"a{number}"]
        )
    assert count_tokens(history) > 10

    after, result = collect(history, budget)

    assert (result.tokens_before, result.tokens_after) == (8, 6)
    assert ids(after) == ids(history[2:])


def test_a_turn_without_message_ids_is_found_by_its_number() -> None:
    budget = InstructionBudget.create_default(context_limit=1_000)
    for number, policy in enumerate([LOCKED, PARTIAL, PARTIAL, PARTIAL]):
        budget.add_child(CONVERSATION, f"turn_{number}", 240, policy)

    after, result = collect(turns(4), budget)

    assert ids(after) == ["u0", "a0", "u3", "a3"]
    assert [(item.child_key, item.tokens_freed) for item in result.removal_list] == [
        ("turn_1", 240),
        ("turn_2", 240),
    ]


def test_messages_that_no_entry_names_share_the_tokens_of_the_conversation() -> None:
    budget = InstructionBudget.create_default(context_limit=1_000)
    budget.set_entry(CONVERSATION, 800, PARTIAL)

    after, result = collect(turns(4), budget)

    assert (result.tokens_before, result.tokens_after) == (800, 600)
    assert ids(after) == ["u1", "a1", "u2", "a2", "u3", "a3"]


def test_a_locked_conversation_protects_messages_that_no_entry_names() -> None:
    budget = InstructionBudget.create_default(context_limit=1_000)
    budget.set_entry(CONVERSATION, 800, LOCKED)

    after, _ = collect(turns(4), budget)

    assert ids(after) == ids(turns(4))


def test_items_have_the_keys_of_the_host_after_its_turns_have_moved() -> None:
    """The host removed turns 0 to 2 before, and its entries keep their keys."""
    history = [message for number in range(3, 7) for message in turn(number)]
    budget = InstructionBudget.create_default(context_limit=1_000)
    for number in range(3, 7):
        budget.add_child(
            CONVERSATION, f"turn_{number}", 240, PARTIAL, message_ids=[f"u{number}", f"a{number}"]
        )

    _, result = collect(history, budget)
    for item in result.removal_list:
        assert budget.remove_child(item.source, item.child_key or "")

    assert budget.total_tokens() == result.tokens_after == 480


def test_entries_of_single_messages_are_removed_one_by_one() -> None:
    budget = InstructionBudget.create_default(context_limit=1_000)
    for message in turns(4):
        key = f"entry of {message.message_id}"
        budget.add_child(CONVERSATION, key, 120, PARTIAL, message_ids=[message.message_id])

    _, result = collect(turns(4), budget)

    assert [item.child_key for item in result.removal_list] == [
        f"entry of {each}" for each in ("u0", "a0", "u1", "a1")
    ]


def test_a_shortened_result_frees_its_share_of_the_figure() -> None:
    history = [
        *turn(0),
        Message(Role.USER, [Part(text="Read it.")], message_id="u1"),
        Message(Role.MODEL, [Part(function_call=FunctionCall("c", "read", {}))], message_id="c"),
        Message(
            Role.TOOL,
            [Part(function_response=ToolResult("c", "read", "word " * 400))],
            message_id="r",
        ),
        *turn(2),
    ]
    budget = InstructionBudget.create_default(context_limit=1_000)
    budget.is_recounted = True
    budget.add_child(CONVERSATION, "result", 900, EPHEMERAL, message_ids=["r"])

    _, result = collect(history, budget, strategy=Shorter)

    [item] = result.removal_list
    assert item.action == "shorten"
    assert 600 < item.tokens_freed < 900


def test_the_host_s_figures_are_not_written_into_its_messages_and_budget() -> None:
    history = turns(4)
    budget = InstructionBudget.create_default(context_limit=1_000)
    budget.set_entry(CONVERSATION, 800, PARTIAL)
    counted, before = count_tokens(history), budget.snapshot()

    collect(history, budget)

    assert count_tokens(history) == counted
    assert budget.snapshot() == before


@given(
    texts=st.lists(st.text(max_size=40), min_size=2, max_size=12),
    figures=st.lists(st.integers(0, 10_000), min_size=12, max_size=12),
    per_entry=st.integers(1, 4),
)
def test_whole_entries_free_exactly_what_they_say(
    texts: list[str], figures: list[int], per_entry: int
) -> None:
    history = [
        Message(Role.USER, [Part(text=f"{text} ?")], message_id=f"u{number}")
        for number, text in enumerate(texts)
    ]
    budget = InstructionBudget.create_default(context_limit=1)
    for start in range(0, len(history), per_entry):
        key, members = f"entry_{start}", ids(history[start : start + per_entry])
        budget.add_child(CONVERSATION, key, figures[start], PARTIAL, message_ids=members)

    after, result = collect(history, budget)

    left = set(ids(after))
    for item in result.removal_list:
        entry = budget.get_child(CONVERSATION, item.child_key)
        assert entry is not None
        if left.isdisjoint(entry.message_ids) and entry.tokens:
            assert item.tokens_freed == entry.tokens


@pytest.mark.parametrize("source", [InstructionSource.PLUGIN, InstructionSource.ENRICHMENT])
def test_a_host_can_say_which_sources_it_can_drop(source: InstructionSource) -> None:
    budget = InstructionBudget.create_default()
    assert source in budget.collectable_sources

    budget.collectable_sources -= {source}

    assert source not in InstructionBudget.from_snapshot(budget.snapshot()).collectable_sources


def test_the_children_of_a_source_are_not_copied_for_every_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[SourceEntry] = []
    children = SourceEntry.children

    def read(entry: SourceEntry) -> object:
        reads.append(entry)
        return children.__get__(entry)

    monkeypatch.setattr(SourceEntry, "children", property(read))

    def reads_in_a_collection(count: int) -> int:
        budget = InstructionBudget.create_default(context_limit=100 * count)
        for number in range(count):
            ids = [f"u{number}", f"a{number}"]
            budget.add_child(CONVERSATION, f"turn_{number}", 90, PARTIAL, message_ids=ids)
        reads.clear()
        collect(turns(count), budget)
        return len(reads)

    assert reads_in_a_collection(200) == reads_in_a_collection(50)
