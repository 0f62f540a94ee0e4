"""gc_truncate: what it removes, what it keeps, its result, its notice and its cost."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    Confidence,
    ContextUsage,
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCResult,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    check_history,
    count_tokens,
    split_into_turns,
)
from jaato_gc.plugin import Collection, Group, Hold, Limits, check_collection, message_tokens
from jaato_gc_testing import broken_histories, histories
from jaato_gc_truncate import TruncateGCPlugin, create_plugin

THRESHOLD, MANUAL, TURN_LIMIT, PRE_MESSAGE, CACHE_COLD, CONTEXT_LIMIT = GCTriggerReason
CONVERSATION = InstructionSource.CONVERSATION


class CountingCounter:
    """Counts a token per character, and records the texts."""

    name = "characters"
    confidence = Confidence.EXACT
    tolerance = 0.0

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count_text(self, text: str) -> int:
        self.asked.append(text)
        return len(text)


def budget_for(
    history: Iterable[Message],
    limit: int,
    *,
    locked: Iterable[str] = (),
    pinned: Iterable[str] = (),
    elsewhere: int = 0,
    unbooked: int = 0,
) -> InstructionBudget:
    """Returns a budget that holds a history as a session books it, and something beside it."""
    budget = InstructionBudget.create_default(context_limit=limit, counter=CountingCounter())
    budget.is_booked = True
    budget.update_tokens(InstructionSource.PLUGIN, elsewhere)
    for message in history:
        source = InstructionSource.SYSTEM if message.role is Role.SYSTEM else CONVERSATION
        budget.add_child(
            source,
            message.message_id,
            message_tokens(message, budget.counter),
            GCPolicy.LOCKED if message.message_id in locked else GCPolicy.PARTIAL,
            message_ids=[message.message_id],
        )
    budget.pinned_message_ids = set(pinned)
    budget.unbooked_tokens = unbooked
    return budget


def usage_of(
    history: list[Message], limit: int, budget: InstructionBudget | None = None
) -> ContextUsage:
    total = budget.total_tokens() if budget else count_tokens(history)
    return {
        "context_limit": limit,
        "total_tokens": total,
        "percent_used": 100 * total / limit,
        "tokens_remaining": max(0, limit - total),
        "turns": len(split_into_turns(history)),
    }


def plugin(**options: Any) -> TruncateGCPlugin:
    strategy = create_plugin()
    strategy.initialize(options)
    return strategy


# --- any history, any reason ---


@dataclass
class Case:
    """One collection."""

    history: list[Message]
    reason: GCTriggerReason
    config: GCConfig
    limit: int
    budget: InstructionBudget | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def collect(self) -> tuple[list[Message], GCResult]:
        usage = usage_of(self.history, self.limit, self.budget)
        return plugin(**self.options).collect(
            self.history, usage, self.config, self.reason, self.budget
        )

    def collection(self) -> Collection:
        """Returns protection and goal, as core works them out."""
        usage = usage_of(self.history, self.limit, self.budget)
        return Collection.of(self.history, usage, self.config, self.reason, self.budget)

    def holds(self) -> dict[str, Hold | None]:
        groups = self.collection().groups
        return {m.message_id: group.hold for group in groups for m in group.messages}

    def pieces(self) -> list[list[Group]]:
        """Returns what may go, in order: old turns as a whole, recent turns call by call."""
        collection = self.collection()
        recent = len(collection.turns) - self.recent_turns()
        found: list[list[Group]] = []
        for turn in collection.turns:
            groups = [group for group in turn.groups if not group.hold]
            if turn.index < recent:
                found.append(groups)
            else:
                found += [[group] for group in groups if group.is_call]
        return [groups for groups in found if groups]

    def recent_turns(self) -> int:
        """Returns how many turns are recent: the messages in them take at most a fifth."""
        turns = self.collection().turns
        for number in range(self.config.preserve_recent_turns, 1, -1):
            groups = [group for turn in turns[-number:] for group in turn.groups]
            plain = [m for group in groups if not group.is_call for m in group.messages]
            if 5 * self.count(plain) <= self.limit:
                return number
        return 1

    def fixed(self) -> list[Message]:
        """Returns the fixed messages, with the user message that has to come before them."""
        groups = [group for group in self.collection().groups if not is_system(group)]
        fixed = [group for group in groups if group.hold and group.hold.is_fixed]
        if fixed and not is_user(fixed[0]):
            before = groups[: groups.index(fixed[0])]
            fixed += [group for group in before if group.opens_turn][-1:]
        system = [message for message in self.history if message.role is Role.SYSTEM]
        return [*system, *(message for group in fixed for message in group.messages)]

    def last_calls(self) -> list[Message]:
        """Returns the messages of the last calls, except for fixed ones."""
        calls = [group for group in self.collection().groups if group.is_call]
        last = calls[max(0, len(calls) - self.config.preserve_recent_groups) :]
        fixed = {message.message_id for message in self.fixed()}
        return [m for group in last for m in group.messages if m.message_id not in fixed]

    def count(self, history: Iterable[Message]) -> int:
        return count_tokens(history, self.budget.counter) if self.budget else count_tokens(history)

    def elsewhere(self) -> int:
        """Returns the tokens of the context outside the history."""
        return self.budget.total_tokens() - self.count(self.history) if self.budget else 0

    @property
    def target(self) -> int:
        target = Limits.of(self.config, self.limit).target_tokens
        assert target is not None
        return target

    def after(self, history: list[Message]) -> "Case":
        """Returns the same case for the history that a collection left."""
        budget = self.budget
        if budget:
            locked = [
                m.message_id
                for m in history
                if (entry := budget.entry_of(m.message_id)) and entry.gc_policy is GCPolicy.LOCKED
            ]
            budget = budget_for(
                history,
                self.limit,
                locked=locked,
                pinned=budget.pinned_message_ids,
                elsewhere=budget.entries[InstructionSource.PLUGIN].tokens,
                unbooked=budget.unbooked_tokens,
            )
        return Case(history, self.reason, self.config, self.limit, budget, self.options)


def is_system(group: Group) -> bool:
    return group.messages[0].role is Role.SYSTEM


def is_user(group: Group) -> bool:
    return group.messages[0].role is Role.USER and not group.messages[0].is_tool_output


@st.composite
def cases(
    draw: st.DrawFn,
    reasons: Iterable[GCTriggerReason] = tuple(GCTriggerReason),
    *,
    pinned_turns: bool = True,
    notify: bool = True,
) -> Case:
    history = draw(st.one_of(histories(min_turns=0), broken_histories()))
    real = [message.message_id for message in history if not message.synthetic]
    ids = st.sets(st.sampled_from(real or [""]), max_size=2)
    budget = None
    if draw(st.booleans()):
        budget = budget_for(
            history,
            0,
            locked=draw(ids),
            pinned=draw(ids),
            elsewhere=draw(st.sampled_from([0, 40])),
            unbooked=draw(st.sampled_from([0, 25])),
        )
    total = budget.total_tokens() if budget else count_tokens(history)
    limit = max(1, total * 100 // draw(st.integers(10, 150)))
    if budget:
        budget.context_limit = limit
    config = GCConfig(
        threshold_percent=100.0,
        target_percent=float(draw(st.integers(1, 95))),
        preserve_recent_turns=draw(st.integers(0, 3)),
        preserve_recent_groups=draw(st.integers(0, 3)),
        max_turns=draw(st.integers(1, 4)),
        pinned_turn_indices=draw(st.lists(st.integers(0, 5), max_size=2)) if pinned_turns else [],
    )
    options = {"notify_on_gc": notify and draw(st.booleans()), "to_target": draw(st.booleans())}
    return Case(history, draw(st.sampled_from(list(reasons))), config, limit, budget, options)


any_case = settings(deadline=None, max_examples=50)


def relaxed_ids(result: GCResult) -> set[str]:
    """Returns the messages that core removed or shortened, not the strategy."""
    items = [item for item in result.removal_list if item.reason.startswith("fit_")]
    return {message_id for item in items for message_id in item.message_ids}


@any_case
@given(cases())
def test_a_collection_breaks_no_rule_and_never_grows_the_history(case: Case) -> None:
    after, result = case.collect()
    relaxed = relaxed_ids(result)
    held = [message_id for message_id, hold in case.holds().items() if hold]
    protected = [message_id for message_id in held if message_id not in relaxed]

    assert check_collection(case.history, after, result.removal_list, protected) == []
    assert case.count(after) <= case.count(case.history)


@any_case
@given(cases())
def test_protected_messages_are_unchanged_unless_core_makes_room(case: Case) -> None:
    after, result = case.collect()
    remaining = {message.message_id: message for message in after}
    relaxed, holds = relaxed_ids(result), case.holds()

    for message in case.history:
        hold, kept = holds[message.message_id], remaining.get(message.message_id)
        if hold and hold.is_fixed:
            assert kept is message
        elif message.message_id in relaxed:
            assert kept is not message
        elif hold:
            assert kept is message
        else:
            assert kept is message or kept is None


@any_case
@given(cases())
def test_the_request_fits_afterwards_or_nothing_changes(case: Case) -> None:
    after, result = case.collect()
    goal = case.collection().goal
    movable = case.count(case.history) - case.count(case.fixed())

    if result.details.get("fits") is False:
        assert movable < goal.overflow
        assert after == case.history
        assert result.removal_list == []
        assert result.tokens_freed == 0
    else:  # without room for undercounting, where fixed content leaves none
        assert result.tokens_freed >= goal.worst_overflow


@any_case
@given(cases())
def test_core_changes_nothing_in_a_request_that_fits_except_for_last_calls_above_their_share(
    case: Case,
) -> None:
    _, result = case.collect()
    if case.collection().goal.worst_overflow:
        return
    room = case.limit - case.count(case.fixed()) - case.elsewhere()

    assert result.details.get("relaxed", ["long_results"]) == ["long_results"]
    if 2 * case.count(case.last_calls()) <= room:
        assert "relaxed" not in result.details
    assert relaxed_ids(result) <= {message.message_id for message in case.last_calls()}
    assert {item.action for item in result.removal_list if item.reason != "truncated"} <= {
        "shorten"
    }


@any_case
@given(cases())
def test_the_removal_list_and_the_token_figures_are_exact(case: Case) -> None:
    after, result = case.collect()
    remaining = {message.message_id: message for message in after}
    removed = [
        i for item in result.removal_list if item.action == "remove" for i in item.message_ids
    ]
    shorter = [
        i for item in result.removal_list if item.action == "shorten" for i in item.message_ids
    ]
    fitted = [
        i for item in result.removal_list if item.reason[:4] == "fit_" for i in item.message_ids
    ]

    assert sorted(removed) == sorted(
        m.message_id
        for m in case.history
        if m.message_id not in remaining
        # Another notice replaces a notice, unless there was no room for one.
        if m.synthetic is not SyntheticKind.NOTICE or m.message_id in fitted
    )
    assert sorted(shorter) == sorted(
        m.message_id for m in case.history if remaining.get(m.message_id, m) is not m
    )
    assert result.success, result.error
    assert result.items_collected == len(result.removal_list)
    assert result.tokens_before == case.count(case.history) + case.elsewhere()
    assert result.tokens_after == case.count(after) + case.elsewhere()
    originals = {message.message_id: message for message in case.history}
    for item in result.removal_list:
        left = [remaining[i] for i in item.message_ids if i in remaining]
        taken = [originals[i] for i in item.message_ids]
        assert item.tokens_freed == case.count(taken) - case.count(left)


@any_case
@given(cases())
def test_collect_is_deterministic_and_does_not_change_its_input(case: Case) -> None:
    history, parts = list(case.history), deepcopy(case.history)
    budget = case.budget.snapshot() if case.budget else None
    first, second = case.collect(), case.collect()

    assert first == second
    assert [id(message) for message in case.history] == [id(message) for message in history]
    assert case.history == parts
    assert budget == (case.budget.snapshot() if case.budget else None)


@any_case
@given(cases([THRESHOLD, PRE_MESSAGE, TURN_LIMIT], pinned_turns=False))
def test_a_second_collection_changes_nothing(case: Case) -> None:
    once, first = case.collect()
    # Core stops when the request fits, and may leave the request of a call that it removed.
    assume("last_calls" not in first.details.get("relaxed", ()))
    twice, result = case.after(once).collect()

    assert twice == once
    assert result.removal_list == []


@any_case
@given(cases([THRESHOLD, PRE_MESSAGE]))
def test_the_target_is_reached_or_the_shortfall_adds_up(case: Case) -> None:
    case.options["to_target"] = True
    after, result = case.collect()

    if result.tokens_before <= case.target:
        assert result.outcome is GCOutcome.NOT_NEEDED
        assert after == case.history
    elif result.tokens_after <= case.target:
        assert result.outcome is GCOutcome.REACHED
        assert result.shortfall is None
    elif result.details.get("fits") is False:
        assert result.outcome is GCOutcome.NO_GAIN
        assert after == case.history
    else:
        assert result.outcome is (GCOutcome.SHORT if result.removal_list else GCOutcome.NO_GAIN)
        assert result.shortfall is not None
        assert result.shortfall.missing_tokens == result.tokens_after - case.target
        unbooked = case.budget.unbooked_tokens if case.budget else 0
        assert sum(result.shortfall.floor.values()) == result.tokens_after - unbooked
        held = {name for name, hold in case.holds().items() if hold}
        # A notice too, if it is the only user message.
        stays = [each for each in after if not each.synthetic or each.message_id in held]
        assert sum(result.shortfall.held.values()) == case.count(stays)


@any_case
@given(cases([THRESHOLD, PRE_MESSAGE, CONTEXT_LIMIT], notify=False))
def test_old_turns_go_before_calls_of_recent_turns_and_no_more_than_needed(case: Case) -> None:
    # A message that keeps its place goes with one beside it, whichever turn that is in.
    assume(not any(message.keeps_place for message in case.history))
    case.options["to_target"] = True
    _, result = case.collect()
    if not result.removal_list:
        return
    items = [item for item in result.removal_list if item.reason == "truncated"]
    expected = [
        [m.message_id for group in piece for m in group.messages] for piece in case.pieces()
    ]
    taken = [sorted(item.message_ids) for item in items]
    assert taken == [sorted(ids) for ids in expected[: len(taken)]]
    if "relaxed" in result.details:  # only then more than the strategy wanted
        return
    goal = case.collection().goal
    if result.outcome is GCOutcome.REACHED:
        assert result.tokens_freed - items[-1].tokens_freed < (goal.tokens_to_free or 0)
    else:
        assert len(taken) == len(expected)


@any_case
@given(cases([MANUAL, CONTEXT_LIMIT]))
def test_everything_unprotected_is_removed_without_to_target(case: Case) -> None:
    case.options["to_target"] = False
    after, result = case.collect()
    holds = case.holds()

    if result.details.get("fits") is False:
        assert after == case.history
    else:
        assert all(message.synthetic or holds[message.message_id] for message in after)


@any_case
@given(cases([TURN_LIMIT], notify=False))
def test_the_turn_limit_is_kept_or_only_held_user_messages_remain(case: Case) -> None:
    case.options["to_target"] = True
    after, result = case.collect()
    before, turns = split_into_turns(case.history), split_into_turns(after)
    most = case.config.max_turns
    assert most is not None

    holds = case.holds()
    if result.details.get("fits") is False:
        assert after == case.history
    elif "relaxed" in result.details:
        assert len(turns) <= len(before)
    elif len(before) <= most:
        assert result.outcome is GCOutcome.NOT_NEEDED
    elif result.outcome is GCOutcome.REACHED:
        assert len(turns) == most
    else:
        assert all(holds[message.message_id] for message in after if message.opens_turn)


# --- plain conversations ---


def user(number: int, text: str = "") -> Message:
    return Message.from_text(Role.USER, text or f"question {number} " * 5, message_id=f"u{number}")


def conversation(turns: int) -> list[Message]:
    """Returns turns of the same size: a question, a call, its result, an answer."""
    return [message for number in range(turns) for message in one_turn(number)]


def one_turn(number: int) -> Iterator[Message]:
    digits = f"{number:05}"
    yield Message.from_text(Role.USER, f"question {digits}", message_id=f"u{number}")
    yield from exchange(number, f"result {digits} " * 10)
    yield Message.from_text(Role.MODEL, f"answer {digits}", message_id=f"m{number}")


def exchange(number: int, result: str) -> Iterator[Message]:
    call = FunctionCall(f"call_{number}", "bash", {"n": f"{number:05}"})
    yield Message(Role.MODEL, [Part(function_call=call)], f"c{number}")
    # Each result is another one: copies of one are shortened before a strategy is asked.
    answer = ToolResult(call.id, call.name, f"{number:05}\n{result}")
    yield Message(Role.TOOL, [Part(function_response=answer)], f"r{number}")


def chat(turns: int, characters: int) -> list[Message]:
    """Returns turns without calls: a question and an answer, each with this much text."""
    return [
        Message.from_text(role, "x" * characters, message_id=f"{role.value[0]}{number}")
        for number in range(turns)
        for role in (Role.USER, Role.MODEL)
    ]


HISTORY = conversation(10)
TURN_TOKENS = count_tokens(HISTORY[:4])
LIMIT = 10 * TURN_TOKENS
"""A window that ten such turns just fill."""


def config(target_percent: float = 60.0, **fields: Any) -> GCConfig:
    fields = {"preserve_recent_turns": 2, "threshold_percent": 100.0} | fields
    return GCConfig(target_percent=target_percent, **fields)


def collect(
    reason: GCTriggerReason = THRESHOLD,
    *,
    history: list[Message] = HISTORY,
    settings: GCConfig | None = None,
    usage: ContextUsage | None = None,
    budget: InstructionBudget | None = None,
    **options: Any,
) -> tuple[list[Message], GCResult]:
    usage = usage_of(history, LIMIT, budget) if usage is None else usage
    return plugin(**options).collect(history, usage, settings or config(), reason, budget)


def ids_of(history: list[Message]) -> list[str]:
    return [message.message_id for message in history]


def turn_numbers(history: list[Message]) -> list[int]:
    return [int(message.message_id[1:]) for message in history if message.opens_turn]


def test_the_sample_turns_are_of_one_size() -> None:
    assert {count_tokens(one_turn(number)) for number in range(10)} == {TURN_TOKENS}
    assert check_history(HISTORY) == []


def test_create_plugin_returns_a_gc_plugin() -> None:
    assert isinstance(create_plugin(), GCPlugin)
    assert create_plugin().name == "gc_truncate"


def test_gc_truncate_removal_list() -> None:
    after, result = collect()

    assert [(item.source, item.child_key) for item in result.removal_list] == [
        (CONVERSATION, f"turn_{number}") for number in range(4)
    ]
    for number, item in enumerate(result.removal_list):
        assert item.reason == "truncated"
        assert item.action == "remove"
        assert item.tokens_freed == TURN_TOKENS
        assert item.message_ids == [f"{kind}{number}" for kind in "ucrm"]
    assert after == HISTORY[16:]
    assert (result.details["turns_before"], result.details["turns_removed"]) == (10, 4)
    assert (result.plugin_name, result.trigger_reason) == ("gc_truncate", THRESHOLD)


def test_the_result_of_a_collection() -> None:
    _, result = collect()

    assert (result.tokens_before, result.tokens_after) == (LIMIT, 6 * TURN_TOKENS)
    assert result.tokens_freed == 4 * TURN_TOKENS
    assert result.outcome is GCOutcome.REACHED
    assert result.confidence is Confidence.ESTIMATED
    assert result.notification is None
    assert result.cache is not None
    assert (result.cache.first_changed, result.cache.prefix_tokens) == (0, 0)
    assert result.cache.rewritten_tokens == 6 * TURN_TOKENS


def test_a_collection_below_the_target_changes_nothing() -> None:
    after, result = collect(settings=config(99.9), usage={"context_limit": LIMIT * 2})

    assert after == HISTORY
    assert result.outcome is GCOutcome.NOT_NEEDED
    assert result.cache is not None
    assert (result.cache.first_changed, result.cache.rewritten_tokens) == (None, 0)


def test_recent_turns_stay_even_if_the_target_is_missed() -> None:
    after, result = collect(settings=config(10.0, preserve_recent_groups=2))

    assert after == HISTORY[32:]
    assert result.outcome is GCOutcome.SHORT
    assert result.shortfall is not None
    assert result.shortfall.missing_tokens == TURN_TOKENS
    request = count_tokens(HISTORY[36:37])
    held = {"newest_user": request, "recent": 2 * TURN_TOKENS - request}
    assert result.shortfall.held == held
    assert result.shortfall.floor == {"system": 0, "conversation": 2 * TURN_TOKENS}
    assert result.shortfall.largest_movable in ("r8", "r9")


def test_the_outcome_is_no_gain_if_everything_is_protected() -> None:
    settings = config(5.0, preserve_recent_turns=10, preserve_recent_groups=10)
    after, result = collect(settings=settings, usage=usage_of(HISTORY, 2 * LIMIT))

    assert after == HISTORY
    assert (result.outcome, result.success) == (GCOutcome.NO_GAIN, True)
    assert result.shortfall is not None
    assert result.shortfall.missing_tokens == 9 * TURN_TOKENS


def test_the_last_calls_stay_wherever_they_are() -> None:
    after, _ = collect(settings=config(1.0, preserve_recent_turns=1, preserve_recent_groups=3))

    # The answers of turns 7 and 8 are old; the request of turn 7 stays, so that it comes first.
    assert ids_of(after) == ["u7", "c7", "r7", "c8", "r8", "u9", "c9", "r9", "m9"]
    assert check_history(after) == []


def test_old_calls_of_recent_turns_go_after_all_old_turns() -> None:
    after, result = collect(settings=config(15.0, preserve_recent_groups=1))

    assert ids_of(after) == ["u8", "m8", "u9", "c9", "r9", "m9"]
    assert [item.child_key for item in result.removal_list] == [
        *(f"turn_{number}" for number in range(8)),
        "c8",
    ]
    assert result.outcome is GCOutcome.REACHED


CHAT = chat(6, 300)
CHAT_TURN = count_tokens(CHAT[:2], CountingCounter())


def collect_chat(
    limit: int, reason: GCTriggerReason = THRESHOLD, **fields: Any
) -> tuple[list[int], GCResult]:
    """Collects six equal turns without calls. Returns the numbers of those that are left."""
    settings = config(**{"target_percent": 1.0, "preserve_recent_turns": 4} | fields)
    budget = budget_for(CHAT, limit)
    after, result = collect(reason, history=CHAT, budget=budget, settings=settings)
    return turn_numbers(after), result


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        (20 * CHAT_TURN, [2, 3, 4, 5]),  # a fifth has room for all four
        (20 * CHAT_TURN - 5, [3, 4, 5]),
        (15 * CHAT_TURN, [3, 4, 5]),
        (10 * CHAT_TURN, [4, 5]),
        (10 * CHAT_TURN - 5, [5]),
    ],
)
def test_recent_turns_are_those_whose_messages_take_a_fifth_of_the_window(
    limit: int, left: list[int]
) -> None:
    numbers, result = collect_chat(limit)

    assert numbers == left
    assert [(item.child_key, item.reason) for item in result.removal_list] == [
        (f"turn_{number}", "truncated") for number in range(6 - len(left))
    ]
    assert "relaxed" not in result.details


def test_a_small_turn_behind_a_large_one_is_old() -> None:
    history = [*chat(1, 5), user(1, "x" * 300), user(2, "short"), user(3, "short")]
    budget = budget_for(history, 1_000)
    settings = config(1.0, preserve_recent_turns=4)
    after, _ = collect(history=history, budget=budget, settings=settings)

    assert ids_of(after) == ["u2", "u3"]


def test_calls_of_recent_turns_are_not_part_of_their_share() -> None:
    """A turn with little text stays recent, although its calls take half of the window."""
    work = [message for number in range(3) for message in exchange(number, "x" * 300)]
    history = [user(8, "old"), user(9, "short"), *work, user(10, "short")]
    settings = config(1.0, preserve_recent_turns=2, preserve_recent_groups=0)
    after, result = collect(history=history, budget=budget_for(history, 2_000), settings=settings)

    assert ids_of(after) == ["u9", "u10"]
    keys = [item.child_key for item in result.removal_list]
    assert keys == ["turn_0", "c0", "c1", "c2"]


def test_under_the_turn_limit_long_recent_turns_stay() -> None:
    numbers, _ = collect_chat(7 * CHAT_TURN, TURN_LIMIT, max_turns=1)

    assert numbers == [2, 3, 4, 5]


def test_a_manual_collection_below_the_target_keeps_long_recent_turns() -> None:
    numbers, _ = collect_chat(7 * CHAT_TURN, MANUAL, target_percent=95.0)

    assert numbers == [2, 3, 4, 5]


def test_long_recent_turns_stay_if_the_window_is_unknown() -> None:
    settings = config(1.0, preserve_recent_turns=4)
    after, _ = collect(history=CHAT, usage={"percent_used": 90.0}, settings=settings)

    assert turn_numbers(after) == [2, 3, 4, 5]


@pytest.mark.parametrize("turns", [0, 1])
def test_the_running_turn_is_always_recent(turns: int) -> None:
    settings = config(0.0, preserve_recent_turns=turns, preserve_recent_groups=0)
    after, _ = collect(settings=settings, usage=usage_of(HISTORY, 2 * LIMIT))

    assert ids_of(after) == ["u9", "m9"]


def test_the_running_turn_is_recent_although_it_takes_more_than_a_fifth_of_the_window() -> None:
    numbers, _ = collect_chat(2 * CHAT_TURN)

    assert numbers == [5]


def test_pinned_turns_are_kept_in_place() -> None:
    after, _ = collect(settings=config(pinned_turn_indices=[0, 2]))

    assert turn_numbers(after) == [0, 2, 6, 7, 8, 9]


def test_pins_and_locks_of_a_budget_are_kept() -> None:
    budget = budget_for(HISTORY, 1_000_000, locked=["m1"], pinned=["r3"])
    after, result = collect(MANUAL, budget=budget)
    kept = [message.message_id for message in after]

    # The user message of the first turn that is partly kept stays too.
    assert kept[:4] == ["u1", "m1", "c3", "r3"]
    assert turn_numbers(after) == [1, 8, 9]
    assert check_history(after) == []
    assert result.confidence is Confidence.EXACT


def test_the_target_covers_the_whole_context_of_a_budget() -> None:
    total = budget_for(HISTORY, 0).total_tokens()
    budget = budget_for(HISTORY, 2 * total, elsewhere=total - 100, unbooked=100)
    after, result = collect(budget=budget, settings=config(90.0))

    assert result.tokens_before == 2 * total
    assert result.tokens_after == total + count_tokens(after, budget.counter)
    assert turn_numbers(after) == list(range(2, 10))
    assert result.outcome is GCOutcome.REACHED


def test_the_shortfall_includes_sources_outside_the_conversation() -> None:
    system = Message.from_text(Role.SYSTEM, "be kind", message_id="s")
    history = [system, *HISTORY]
    budget = budget_for(history, 1000, elsewhere=5000)
    _, result = collect(history=history, budget=budget)

    assert result.shortfall is not None
    assert result.shortfall.floor["plugin"] == 5000
    assert result.shortfall.floor["system"] == message_tokens(system, budget.counter)


# --- how much goes, by reason ---

LEFT = ["u7", "c7", "r7", *ids_of(HISTORY[32:])]
"""What stays if everything else goes: two turns and the last three calls."""


def test_the_turn_limit_removes_the_oldest_turns_regardless_of_their_size() -> None:
    after, result = collect(TURN_LIMIT, settings=config(max_turns=7), usage={"turns": 10})

    assert turn_numbers(after) == list(range(3, 10))
    assert result.outcome is GCOutcome.REACHED


def test_the_turn_limit_does_not_touch_turns_whose_user_message_is_held() -> None:
    settings = config(max_turns=3, pinned_turn_indices=[0, 1])
    after, result = collect(TURN_LIMIT, settings=settings)

    assert turn_numbers(after) == [0, 1, 8, 9]
    assert result.outcome is GCOutcome.SHORT


def test_the_turn_limit_touches_no_call_in_recent_turns() -> None:
    settings = config(max_turns=1, preserve_recent_groups=0)
    after, result = collect(TURN_LIMIT, settings=settings, usage={"turns": 10})

    assert after == HISTORY[32:]
    assert result.outcome is GCOutcome.SHORT


def test_the_turn_limit_without_max_turns_removes_nothing() -> None:
    after, result = collect(TURN_LIMIT, usage={"turns": 10})

    assert (after, result.outcome) == (HISTORY, GCOutcome.NOT_NEEDED)


def test_a_manual_collection_goes_down_to_the_target() -> None:
    assert turn_numbers(collect(MANUAL)[0]) == [4, 5, 6, 7, 8, 9]


def test_a_manual_collection_below_the_target_removes_everything_unprotected() -> None:
    after, result = collect(MANUAL, usage={"context_limit": 9 * LIMIT, "total_tokens": LIMIT})

    assert ids_of(after) == LEFT
    assert result.outcome is GCOutcome.REACHED


def test_a_refused_request_frees_something_even_below_the_target() -> None:
    usage: ContextUsage = {"context_limit": 9 * LIMIT, "total_tokens": LIMIT}
    after, result = collect(CONTEXT_LIMIT, usage=usage)

    assert turn_numbers(after) == [4, 5, 6, 7, 8, 9]
    assert result.outcome is GCOutcome.REACHED


def test_a_refused_request_without_any_figures_frees_down_to_the_target_share() -> None:
    assert turn_numbers(collect(CONTEXT_LIMIT, usage={})[0]) == [4, 5, 6, 7, 8, 9]


def test_a_percentage_alone_determines_the_goal() -> None:
    assert turn_numbers(collect(usage={"percent_used": 80.0})[0]) == [3, 4, 5, 6, 7, 8, 9]
    after, result = collect(usage={"percent_used": 60.0})
    assert (after, result.outcome) == (HISTORY, GCOutcome.NOT_NEEDED)


def test_a_percentage_with_a_window_is_taken_for_the_whole_context() -> None:
    # Half of what the window holds is not in the history: it can't be freed, but counts.
    usage: ContextUsage = {"context_limit": 2 * LIMIT, "percent_used": 70.0}

    assert turn_numbers(collect(usage=usage)[0]) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_a_cap_in_tokens_needs_no_window() -> None:
    settings = config(50.0, max_context_tokens=LIMIT)

    usages: list[ContextUsage] = [{}, {"percent_used": 90.0}, {"context_limit": 0}]
    for usage in usages:
        assert turn_numbers(collect(settings=settings, usage=usage)[0]) == [5, 6, 7, 8, 9]


def test_everything_unprotected_is_removed_without_any_usage_figures() -> None:
    for reason in (THRESHOLD, PRE_MESSAGE, MANUAL):
        assert ids_of(collect(reason, usage={})[0]) == LEFT


def test_room_for_the_answer_is_kept() -> None:
    total = budget_for(HISTORY, 0).total_tokens()
    budget = budget_for(HISTORY, total)
    settings = config(90.0, reserve_output_tokens=total // 2)

    assert turn_numbers(collect(settings=settings, budget=budget)[0]) == [6, 7, 8, 9]


def test_to_target_off_removes_everything_unprotected() -> None:
    for reason in (THRESHOLD, PRE_MESSAGE, MANUAL, CONTEXT_LIMIT):
        after, _ = collect(reason, to_target=False, settings=config(99.0))
        assert ids_of(after) == LEFT


def test_options_of_the_plugin_override_the_configuration() -> None:
    after, _ = collect(target_percent=30.0, preserve_recent_turns=1)

    assert turn_numbers(after) == [7, 8, 9]


def test_an_empty_history_is_accepted() -> None:
    for reason in GCTriggerReason:
        after, result = collect(reason, history=[], settings=config(max_turns=1), usage={})
        assert after == []
        assert result.success


# --- one turn that fills the window ---


def agent_turn(calls: int, result: str = "line of output\n" * 50) -> list[Message]:
    work = [message for number in range(calls) for message in exchange(number, result)]
    return [user(0, "do it"), *work, Message.from_text(Role.MODEL, "done", message_id="end")]


def collect_to_nothing(history: list[Message], **settings: Any) -> tuple[list[Message], GCResult]:
    """Collects as much as the strategy can; the request fits in any case."""
    usage = usage_of(history, 2 * count_tokens(history))
    return collect(history=history, settings=config(0.0, **settings), usage=usage)


def calls_in(history: list[Message]) -> list[int]:
    return [int(each.message_id[1:]) for each in history if each.function_calls]


def test_old_calls_of_one_large_turn_are_removed_and_its_text_is_kept() -> None:
    history = agent_turn(6)
    after, result = collect_to_nothing(history)

    assert after == [history[0], *history[7:]]
    assert [(item.child_key, item.message_ids) for item in result.removal_list] == [
        (f"c{number}", [f"c{number}", f"r{number}"]) for number in range(3)
    ]
    assert {(item.action, item.reason) for item in result.removal_list} == {("remove", "truncated")}
    assert check_history(after) == []
    assert result.outcome is GCOutcome.SHORT


@pytest.mark.parametrize("calls", [0, 1, 2, 3])
def test_the_last_calls_are_kept(calls: int) -> None:
    history = agent_turn(calls)
    after, result = collect_to_nothing(history)

    assert after == history
    assert result.outcome is GCOutcome.NO_GAIN


@pytest.mark.parametrize(
    ("keep", "left"), [(0, []), (1, [3]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3])]
)
def test_preserve_recent_groups_sets_how_many_calls_are_kept(keep: int, left: list[int]) -> None:
    after, _ = collect_to_nothing(agent_turn(4), preserve_recent_groups=keep)

    assert calls_in(after) == left
    assert {"u0", "end"} <= set(ids_of(after))


def test_an_open_call_counts_as_one_of_the_last_calls() -> None:
    history = agent_turn(4)[:-1]
    history += list(exchange(9, "missing"))[:1]
    after, _ = collect_to_nothing(history)

    assert calls_in(after) == [2, 3, 9]


def test_an_open_call_is_kept_even_if_no_call_is_recent() -> None:
    history = agent_turn(4)[:-1]
    history += list(exchange(9, "missing"))[:1]
    after, _ = collect_to_nothing(history, preserve_recent_groups=0)

    assert calls_in(after) == [9]


def test_parallel_calls_are_one_of_the_last_calls() -> None:
    calls = [FunctionCall(f"parallel_{number}", "bash", {}) for number in range(5)]
    together = Message(Role.MODEL, [Part(function_call=call) for call in calls], "c90")
    answers = [
        Message(
            Role.TOOL, [Part(function_response=ToolResult(each.id, "bash", "ok"))], f"p{each.id}"
        )
        for each in calls
    ]
    history = [*agent_turn(4)[:-1], together, *answers]
    after, _ = collect_to_nothing(history, preserve_recent_groups=2)

    assert after == [history[0], *history[7:]]


def test_text_and_thoughts_beside_a_call_go_with_it() -> None:
    call, answer = exchange(0, "line\n" * 100)
    call = Message(Role.MODEL, [Part(thought="hm"), Part(text="I look."), *call.parts], "c0")
    history = [user(0, "do it"), call, answer, *agent_turn(5)[3:]]
    after, _ = collect_to_nothing(history)

    assert after == [history[0], *history[-7:]]


def test_no_more_calls_are_removed_than_needed() -> None:
    history = agent_turn(9)
    total = count_tokens(history)
    usage: ContextUsage = {"context_limit": 2 * total, "total_tokens": total}
    target = 100 * (total - 2 * count_tokens(history[1:3])) / (2 * total)
    after, result = collect(history=history, settings=config(target), usage=usage)

    assert calls_in(after) == list(range(2, 9))
    assert result.outcome is GCOutcome.REACHED


def test_locked_and_pinned_calls_are_never_removed_or_changed() -> None:
    history = agent_turn(6)
    budget = budget_for(history, 100_000, locked=["r0"], pinned=["c1"])
    after, _ = collect(history=history, budget=budget, settings=config(0.0))

    assert after == [*history[:5], *history[7:]]


def test_whole_turns_are_removed_before_any_call_of_a_recent_turn() -> None:
    work = [message for number in range(10, 16) for message in exchange(number, "line\n" * 200)]
    history = [*conversation(3), *work]
    total = count_tokens(history)
    target = 100 * (total - TURN_TOKENS + 1) / (2 * total)
    settings = config(target, preserve_recent_turns=1)
    after, result = collect(history=history, settings=settings, usage=usage_of(history, 2 * total))

    assert after == history[4:]
    assert [item.child_key for item in result.removal_list] == ["turn_0"]


def test_a_manual_collection_below_the_target_removes_no_call_of_a_recent_turn() -> None:
    history = agent_turn(6)
    usage: ContextUsage = {"context_limit": 100 * LIMIT, "total_tokens": 10}

    assert collect(MANUAL, history=history, usage=usage)[0] == history


# --- requests that would not fit ---


def collect_overfull(
    history: list[Message], limit: int, **settings: Any
) -> tuple[list[str], GCResult]:
    """Collects in a window, with exact figures. Returns the ids that are left."""
    budget = budget_for(history, limit, locked=settings.pop("locked", ()))
    target = settings.pop("target_percent", 50.0)
    after, result = collect(history=history, budget=budget, settings=config(target, **settings))
    assert check_history(after) == []
    assert result.tokens_after == count_tokens(after, budget.counter)
    return ids_of(after), result


def test_the_middle_of_the_last_results_is_left_out_if_the_request_would_not_fit() -> None:
    history = agent_turn(2, "line of output\n" * 1_000)
    left, result = collect_overfull(history, 20_000)

    assert left == ids_of(history)
    assert {(item.reason, item.action) for item in result.removal_list} == {("fit_long", "shorten")}
    assert result.details["relaxed"] == ["long_results"]
    assert result.tokens_after <= 20_000


def test_long_results_of_the_last_calls_are_shortened_so_that_old_turns_may_stay() -> None:
    history = [*conversation(6)[8:], *agent_turn(2, "line of output\n" * 500)]
    left, result = collect_overfull(history, 20_000)

    assert left == ids_of(history)
    assert result.tokens_before <= 20_000
    assert {(item.reason, item.action) for item in result.removal_list} == {("fit_long", "shorten")}
    assert result.details["relaxed"] == ["long_results"]
    assert result.outcome is GCOutcome.REACHED


def test_results_of_the_last_calls_are_unchanged_if_they_take_half_of_the_window() -> None:
    history = [*conversation(6)[8:], *agent_turn(2, "line of output\n" * 320)]
    kept = {"preserve_recent_turns": 1, "preserve_recent_groups": 2}
    left, result = collect_overfull(history, 20_000, target_percent=1.0, **kept)

    assert left == ids_of(history[-6:])
    assert {item.reason for item in result.removal_list} == {"truncated"}
    assert "relaxed" not in result.details


def test_messages_of_recent_turns_are_removed_if_the_request_would_not_fit() -> None:
    history = [user(9, "x" * 1_300), *chat(4, 30)]
    left, result = collect_overfull(history, 1_500, preserve_recent_turns=4, locked=["u9"])

    assert left[0] == "u9"
    assert left[-2:] == ["u3", "m3"]
    assert "u0" not in left
    assert {item.reason for item in result.removal_list} == {"fit_messages"}
    assert result.details["relaxed"] == ["messages"]
    assert result.tokens_after <= 1_500


@pytest.mark.parametrize(("limit", "expected"), [(70, ["u0", "c2", "r2"]), (20, ["u0"])])
def test_the_last_calls_are_removed_if_the_request_would_not_fit_otherwise(
    limit: int, expected: list[str]
) -> None:
    history = agent_turn(3, "short")
    left, result = collect_overfull(history, limit)

    assert left == expected
    assert result.details["relaxed"] == ["newest_turn", "last_calls"]


def test_nothing_changes_if_fixed_content_alone_does_not_fit() -> None:
    history = [*agent_turn(6), user(1, "x" * 500)]
    left, result = collect_overfull(history, 400)

    assert left == ids_of(history)
    assert result.details["fits"] is False
    assert result.removal_list == []


def test_locked_content_stays_in_a_request_that_would_not_fit() -> None:
    history = agent_turn(3, "short")
    left, _ = collect_overfull(history, 80, locked=["r1"])

    assert left == ["u0", "c1", "r1"]


# --- the notice ---


def notices(history: list[Message]) -> list[Message]:
    return [message for message in history if message.synthetic is SyntheticKind.NOTICE]


def test_there_is_no_notice_by_default() -> None:
    after, result = collect()

    assert notices(after) == []
    assert result.notification is None


def test_the_notice_follows_the_first_user_message() -> None:
    after, result = collect(notify_on_gc=True, settings=config(45.0, pinned_turn_indices=[0]))

    assert [message.message_id for message in after[:3]] == ["u0", "gc_notice", "c0"]
    assert after[1].role is Role.USER
    assert result.notification
    assert after[1].text == f"<context-notice>\n{result.notification}\n</context-notice>"
    assert check_history(after) == []


def test_the_notice_is_left_out_if_it_alone_would_miss_the_target() -> None:
    after, result = collect(
        notify_on_gc=True,
        settings=config(30.0, pinned_turn_indices=[0], preserve_recent_groups=2),
    )

    assert result.outcome is GCOutcome.REACHED
    assert notices(after) == []


def test_the_target_is_reached_including_the_notice() -> None:
    _, result = collect(notify_on_gc=True)

    assert result.outcome is GCOutcome.REACHED
    assert result.tokens_after <= 0.6 * LIMIT


def test_without_a_user_message_the_notice_comes_first() -> None:
    system = Message.from_text(Role.SYSTEM, "be kind", message_id="s")
    late = Message.from_text(Role.SYSTEM, "be brief", message_id="late")
    work = [message for number in range(4) for message in exchange(number, "line\n" * 200)]
    history = [system, *work, late]
    after, result = collect_to_nothing(history)
    assert not notices(after)

    usage = usage_of(history, LIMIT)
    after, result = plugin(notify_on_gc=True).collect(history, usage, config(0.0), THRESHOLD)
    assert [message.message_id for message in after[:2]] == ["s", "gc_notice"]
    assert check_collection(history, after, result.removal_list) == []


def test_the_details_say_how_many_turns_went_and_which_had_to_stay() -> None:
    _, result = collect(settings=config(30.0, preserve_recent_turns=2, pinned_turn_indices=[1]))

    removed = result.details["turns_removed"]
    assert removed > 0
    assert result.details == {
        "turns_before": 10,
        "turns_after": 10 - removed,
        "turns_removed": removed,
        "turns_truncated": removed,
        "turns_summarized": 0,
        "preserve_count": 2,
        "preserved_indices": [1, 8, 9],
    }


def test_the_details_say_why_nothing_was_removed() -> None:
    _, below = collect(history=HISTORY[:8], settings=config())
    _, held = collect(settings=config(1.0, pinned_turn_indices=range(10)))

    assert below.details["message"] == "already below target, so nothing was removed"
    assert held.details["message"] == "nothing may be removed"


def test_the_notice_is_replaced_not_accumulated() -> None:
    options: dict[str, Any] = {
        "notify_on_gc": True,
        "notification_template": "{removed} went",
    }
    once, _ = collect(settings=config(pinned_turn_indices=[0]), **options)
    longer = [*once, *(message for number in range(10, 20) for message in one_turn(number))]
    twice, result = collect(history=longer, settings=config(pinned_turn_indices=[0]), **options)

    assert len(notices(once)) == len(notices(twice)) == 1
    assert twice.index(notices(twice)[0]) == 1
    assert result.details["turns_removed"] > 0
    assert f"{result.details['turns_removed']} went" in notices(twice)[0].text


def test_a_notice_that_stays_the_same_does_not_break_the_prompt_cache() -> None:
    settings = config(pinned_turn_indices=[0])
    once, _ = collect(notify_on_gc=True, settings=settings)
    longer = [*once, *(message for number in range(10, 20) for message in one_turn(number))]
    _, result = collect(history=longer, notify_on_gc=True, settings=settings)

    assert result.removal_list
    assert result.cache is not None
    assert result.cache.first_changed == 5  # behind the pinned turn and its notice
    assert result.cache.prefix_tokens == count_tokens(longer[:5])


def test_a_notice_that_costs_more_than_was_freed_is_left_out() -> None:
    history = [user(number, "a") for number in range(3)]
    after, result = collect(MANUAL, history=history, notify_on_gc=True)

    assert [message.message_id for message in after] == ["u1", "u2"]
    assert result.notification is None
    assert result.tokens_after < result.tokens_before


def test_the_notice_is_unchanged_if_nothing_is_removed() -> None:
    once, _ = collect(notify_on_gc=True)
    usage: ContextUsage = {"context_limit": 9 * LIMIT, "total_tokens": LIMIT}
    twice, result = collect(history=once, notify_on_gc=True, usage=usage)

    assert twice == once
    assert result.notification is None


def test_a_template_may_use_all_fields() -> None:
    template = (
        "{strategy} {reason}: {removed} {truncated} {summarized} {kept} {items} {freed} "
        "{tokens_freed} {0} {}"
    )
    settings = config(30.0, preserve_recent_groups=2)
    _, result = collect(notify_on_gc=True, notification_template=template, settings=settings)

    removed = result.details["turns_removed"]
    freed = removed * TURN_TOKENS
    assert result.notification == (
        f"gc_truncate threshold: {removed} {removed} 0 {10 - removed} {removed} {freed} "
        f"{freed} {{0}} {{}}"
    )


def test_a_template_with_an_unknown_field_is_an_error() -> None:
    for template in ("{turns}", "{reason.__class__}", "{removed:>10000}", "{reason!r}"):
        with pytest.raises(GCConfigError, match="unknown field"):
            plugin(notify_on_gc=True, notification_template=template)


def test_a_template_can_not_forge_the_fence() -> None:
    template = "a </context-notice> < / context-summary> <CONTEXT-SUMMARY> b {removed}"
    after, _ = collect(notify_on_gc=True, notification_template=template)

    text = notices(after)[0].text
    assert text.startswith("<context-notice>\n")
    assert text.endswith("\n</context-notice>")
    assert text.lower().count("context-notice>") == 3
    assert text.count("</context-notice>") == 1
    assert "<context-summary" not in text.lower()


# --- costs: counted, not timed ---


class WatchedMessage(Message):
    """Counts how often attributes of messages are read."""

    __slots__ = ()
    reads: ClassVar[int] = 0

    def __getattribute__(self, name: str) -> Any:
        WatchedMessage.reads += 1
        return super().__getattribute__(name)


def watched(history: list[Message]) -> list[Message]:
    return [WatchedMessage(m.role, m.parts, m.message_id) for m in history]


def reads_and_texts(history: list[Message]) -> tuple[int, list[str]]:
    """Returns how often messages are read in a collection, and the texts that it tokenizes."""
    budget = budget_for(history, limit=1)
    budget.context_limit = budget.total_tokens()
    counter = budget.counter
    assert isinstance(counter, CountingCounter)
    counter.asked.clear()
    WatchedMessage.reads = 0
    _, result = collect(history=history, budget=budget, notify_on_gc=True, settings=config(30.0))
    assert result.removal_list
    return WatchedMessage.reads, counter.asked


@pytest.mark.parametrize(
    "make",
    [lambda size: conversation(size // 4), lambda size: agent_turn(size // 2)],
    ids=["many turns", "one turn"],
)
def test_the_cost_of_a_collection_follows_the_length_of_the_history(
    make: Callable[[int], list[Message]],
) -> None:
    per_message = []
    for size in (2_000, 20_000):
        reads, _ = reads_and_texts(watched(make(size)))
        per_message.append(reads / size)

    assert per_message[1] <= 1.2 * per_message[0]
    assert per_message[1] < 120


@pytest.mark.parametrize("history", [conversation(500), agent_turn(500)], ids=["turns", "calls"])
def test_counted_messages_are_not_tokenized_again(history: list[Message]) -> None:
    _, texts = reads_and_texts(watched(history))

    assert len(texts) <= 2  # the notice: at its longest, and as it is
    assert all("context-notice" in text for text in texts)
