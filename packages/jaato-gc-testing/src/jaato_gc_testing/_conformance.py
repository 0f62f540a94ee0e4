"""The conformance suite for strategies."""

import functools
import gc
import math
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeGuard

from hypothesis import HealthCheck, given, note, settings

from jaato_gc import (
    ContextUsage,
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCResult,
    GCTriggerReason,
    Message,
    SyntheticKind,
    count_tokens,
    split_into_turns,
)
from jaato_gc.plugin import (
    REMOVABLE_POLICIES,
    Collection,
    GCStrategy,
    Group,
    Limits,
    ReadOnlyBudget,
    check_collection,
)
from jaato_gc_testing._differences import difference
from jaato_gc_testing._generating import READABLE
from jaato_gc_testing._guard import refuse_silent_overrides
from jaato_gc_testing._host import DummyModel
from jaato_gc_testing._operations import count_operations, long_history
from jaato_gc_testing._options_files import through_a_file
from jaato_gc_testing._policy_cases import policy_cases
from jaato_gc_testing._read_only import copies, ids_of, look_of, watching
from jaato_gc_testing._sessions import COUNTER, new_session
from jaato_gc_testing._situations import (
    Answer,
    Situation,
    arguments,
    ask,
    assume_answer,
    situations,
)

_property = settings(
    max_examples=40,
    deadline=None,
    phases=READABLE,
    report_multiple_bugs=False,  # one failure is easier to read than a group of them
    suppress_health_check=[
        HealthCheck.differing_executors,  # every subclass runs the same checks, by design
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


def _in_any_situation(check: Callable[[Any, Situation], None]) -> Callable[[Any], None]:
    """Runs a check on generated situations, each with every trigger reason."""

    @functools.wraps(check)
    def for_every_reason(self: Any, situation: Situation) -> None:
        for reason in GCTriggerReason:
            note(f"the trigger reason is {reason.name}")
            check(self, replace(situation, reason=reason))

    checked: Callable[[Any], None] = _property(given(situations())(for_every_reason))
    return checked


class StrategyConformance(ABC):
    """Checks that any strategy has to pass. Subclass it and return your strategy from `factory`:

        class TestMine(StrategyConformance):
            @staticmethod
            def factory():
                return MyPlugin()

    A check that your strategy can't pass can be overridden only with
    ``@pytest.mark.xfail(reason="…")``.
    """

    uses_policies: ClassVar[bool] = True
    """False: the strategy removes PRESERVABLE content like the rest, also without pressure."""

    @staticmethod
    @abstractmethod
    def factory() -> GCPlugin:
        """Returns a new instance of the strategy, initialized for use."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuses subclasses that override a check without ``xfail`` and a reason."""
        super().__init_subclass__(**arguments)
        refuse_silent_overrides(StrategyConformance, cls)

    # --- the plugin ---

    def test_has_the_shape_of_a_plugin(self) -> None:
        """The strategy has a name and all methods of `GCPlugin`, and can be shut down."""
        strategy = self.factory()
        lacks = [each for each in _MEMBERS if not hasattr(strategy, each)]
        assert not lacks, f"{type(strategy).__name__} lacks {', '.join(lacks)}"
        for each in _MEMBERS[1:]:
            assert callable(getattr(strategy, each)), (
                f"{type(strategy).__name__}.{each} can't be called"
            )
        name = strategy.name
        is_a_name = isinstance(name, str) and bool(name)
        assert is_a_name, f"name is {name!r}: expected text such as 'gc_mine'"
        strategy.shutdown()

    def test_options_can_come_from_a_file(self) -> None:
        """The options, written as JSON into a configuration file and loaded, give equal settings.

        Functions are left out.
        """
        strategy = self.factory()
        if not isinstance(strategy, GCStrategy):
            return
        for key, value, read in through_a_file(strategy, self.factory):
            assert read == value, f"option {key} is {value!r}, and {read!r} from a file"

    def test_does_not_collect_far_below_every_limit(self) -> None:
        """``should_collect`` returns false for an almost empty window."""
        usage: ContextUsage = {
            "context_limit": 100_000,
            "total_tokens": 10,
            "percent_used": 0.01,
            "turns": 1,
        }
        due, reason = self.factory().should_collect(usage, GCConfig())
        assert not due, f"should_collect returned {reason} with 10 of 100,000 tokens in use"

    def test_collects_in_a_full_window(self) -> None:
        """``should_collect`` returns true for a full window, with a known reason or ``None``."""
        usage: ContextUsage = {
            "context_limit": 1000,
            "total_tokens": 1000,
            "percent_used": 100.0,
            "tokens_remaining": 0,
            "turns": 9,
        }
        due, reason = self.factory().should_collect(usage, GCConfig())
        assert due, "should_collect returned false with 1000 of 1000 tokens in use"
        known = ", ".join(GCTriggerReason)
        assert reason is None or reason in set(GCTriggerReason), (
            f"should_collect returned reason {reason!r}: expected one of {known}"
        )

    def test_leaves_an_empty_history_empty(self) -> None:
        """Collecting an empty history succeeds and adds nothing."""
        for reason in GCTriggerReason:
            answer = ask(self.factory(), Situation([], GCConfig(), reason, 1000))
            with_reason = f"with reason {reason.name}"
            assert answer.after == [], f"an empty history got {ids_of(answer.after)} {with_reason}"
            assert answer.result.success, f"it failed {with_reason}: {answer.result.error}"

    # --- a collection ---

    @_in_any_situation
    def test_breaks_no_invariant(self, situation: Situation) -> None:
        """A valid history stays valid, in the same order, with unchanged thoughts."""
        answer = ask(self.factory(), situation)
        broken = check_collection(answer.before, answer.after, answer.result.removal_list)
        assert not broken, "; ".join(map(str, broken))

    @_in_any_situation
    def test_keeps_what_is_protected(self, situation: Situation) -> None:
        """Fixed and recent messages and the last calls stay unchanged.

        Fixed are LOCKED, pinned and system messages, the newest user message and open calls. What
        is only recent may be missing if core removed or shortened it: the request did not fit, or
        the last calls took more than their share of the window.
        """
        answer = ask(self.factory(), situation)
        session, result = answer.session, answer.result
        # The session has converted pinned turns to message ids.
        config = session.config.model_copy(update={"pinned_turn_indices": ()})
        budget = ReadOnlyBudget(session.budget)
        usage = session.get_context_usage()
        given = Collection.of(answer.before, usage, config, situation.reason, budget)
        by_core: set[str] = set()
        if result.details.get("relaxed"):
            reason = "fit_" if given.goal.worst_overflow else "fit_long"
            for item in result.removal_list:
                by_core.update(item.message_ids if item.reason.startswith(reason) else ())
        after = {message.message_id: message for message in answer.after}
        for group in given.groups:
            if group.hold is None:
                continue
            for message in group.messages:
                is_kept = after.get(message.message_id) == message
                by_fitting = message.message_id in by_core and not group.hold.is_fixed
                assert is_kept or by_fitting, _lost(group, message)

    def test_follows_every_policy(self) -> None:
        """Content is removed as its policy says, if the target needs everything.

        LOCKED content stays. Of every policy in `REMOVABLE_POLICIES` something is removed or
        shortened. Other content stays without pressure, unless `uses_policies` is false.
        """
        for case in policy_cases():
            answer = ask(self.factory(), case.situation)
            after = {message.message_id: message for message in answer.after}
            changed = [
                message.message_id
                for message in answer.before
                if message.message_id in case.message_ids
                and after.get(message.message_id) != message
            ]
            if case.policy is GCPolicy.LOCKED:
                assert not changed, f"{changed} are LOCKED and were removed or changed"
            elif case.policy in REMOVABLE_POLICIES:
                left, goal = _left_and_goal(case.situation, answer)
                assert changed, (
                    f"{case.message_ids} are {case}, and none was removed or shortened: {left} "
                    f"tokens are left of at most {goal}"
                )
            elif self.uses_policies and not case.under_pressure:
                assert not changed, (
                    f"{changed} are {case}, and were removed or changed: keep them while "
                    "`under_pressure` is false, or set `uses_policies = False` in this class"
                )

    @_in_any_situation
    def test_removal_list_is_the_difference(self, situation: Situation) -> None:
        """The removal list has every removed or shortened message once, with the freed tokens."""
        answer = ask(self.factory(), situation)
        sizes, left = _sizes(answer.before), _sizes(answer.after)
        listed: list[str] = []
        for item in answer.result.removal_list:
            named = f"the item {item.child_key!r} of the removal list"
            assert item.source in answer.session.budget.collectable_sources, (
                f"{named} removes from {item.source}, which the host can't drop"
            )
            unknown = [each for each in item.message_ids if each not in sizes]
            assert not unknown, f"{named} has messages that were not in the history: {unknown}"
            freed = sum(sizes[each] - left.get(each, 0) for each in item.message_ids)
            assert item.tokens_freed == freed, (
                f"{named} has {item.tokens_freed} tokens, and its messages {item.message_ids} "
                f"freed {freed}"
            )
            listed += item.message_ids
        twice = [each for each, count in Counter(listed).items() if count > 1]
        assert not twice, f"messages are in the removal list twice: {twice}"
        changed = {each for each, size in sizes.items() if left.get(each) != size}
        # Synthetic messages may be in the list, but need not be.
        own = {message.message_id for message in answer.before if message.synthetic}
        missing = sorted(changed - own - set(listed))
        assert not missing, f"changed messages are not in the removal list: {missing}"
        unchanged = sorted(set(listed) - own - changed)
        assert not unchanged, f"unchanged messages are in the removal list: {unchanged}"

    @_in_any_situation
    def test_counts_are_honest(self, situation: Situation) -> None:
        """The token figures equal a recount, and the context never grows."""
        answer = ask(self.factory(), situation)
        before, after = (count_tokens(each, COUNTER) for each in (answer.before, answer.after))
        total = answer.session.budget.total_tokens()
        counted = {"tokens_before": total, "tokens_after": total - (before - after)}
        for figure, expected in counted.items():
            given = getattr(answer.result, figure)
            assert given == expected, f"{figure} is {given}, and a recount gives {expected}"
        assert after <= before, f"the history grew from {before} to {after} tokens"

    @_in_any_situation
    def test_outcome_is_honest(self, situation: Situation) -> None:
        """REACHED is at the goal, SHORT is above it, NOT_NEEDED and NO_GAIN change nothing."""
        answer = ask(self.factory(), situation)
        result, outcome = answer.result, answer.result.outcome
        assert result.success, f"the collection failed: {result.error}"
        says = f"the outcome is {outcome.name}"
        if outcome in (GCOutcome.NOT_NEEDED, GCOutcome.NO_GAIN):
            change = difference(answer.before, answer.after)
            assert not change, f"{says}, and the history changed: {change}"
        else:
            assert outcome in (GCOutcome.REACHED, GCOutcome.SHORT), f"{says}, without an error"
            assert result.tokens_freed > 0, f"{says}, and {result.tokens_freed} tokens were freed"
        if situation.reason in _GOAL_IS_PLAIN:
            reached = outcome in (GCOutcome.REACHED, GCOutcome.NOT_NEEDED)
            left, goal = _left_and_goal(situation, answer)
            assert reached == (left <= goal), f"{says}, with {left} of at most {goal} left"

    @_in_any_situation
    def test_leaves_its_input_alone(self, situation: Situation) -> None:
        """``collect`` does not change the history, its messages, usage, configuration or budget."""
        strategy = self.factory()
        session = situation.session(strategy)
        given = arguments(session, strategy, situation.reason)
        history, usage, config = given[:3]

        def look() -> dict[str, object]:
            return copies(
                history,
                {
                    "the usage": usage,
                    "the configuration": config.model_dump(),
                    "the budget": session.budget.snapshot(),
                },
            )

        with watching("collect", look):
            strategy.collect(*given)

    @_in_any_situation
    def test_select_only_reads(self, situation: Situation) -> None:
        """``select`` writes on no message, group or turn, nor on the collection or the budget.

        These are read-only, so a session discards a collection whose strategy writes on them.
        """
        strategy = self.factory()
        if _has_select(strategy):
            collection = _collection(strategy, situation)
            with watching("select", lambda: look_of(collection)):
                strategy.select(collection)

    def test_keeps_no_collection(self) -> None:
        """The strategy keeps no reference to a collection after ``select``: it is closed then."""
        strategy = self.factory()
        if not _has_select(strategy):
            return
        for reason in GCTriggerReason:
            collection = _collection(strategy, Situation(long_history(8), GCConfig(), reason, 300))
            strategy.select(collection)
            kept = weakref.ref(collection)
            del collection
            gc.collect()
            assert kept() is None, f"select keeps its collection, with reason {reason.name}"

    @_in_any_situation
    def test_works_the_same_without_a_session(self, situation: Situation) -> None:
        """``collect`` returns the history and the result that a session gets from ``select``."""
        strategy = self.factory()
        if not _has_select(strategy):
            return
        alone = ask(strategy, situation)
        plan = alone.session.plan_gc(situation.reason)
        assert plan.result.error is None, f"in a session it fails: {plan.result.error}"
        _assert_same("in a session", plan.after, plan.result, alone, "tokens_after")

    @_in_any_situation
    def test_is_deterministic(self, situation: Situation) -> None:
        """The same situation gives the same answer, from the same instance and from another."""
        strategy = self.factory()
        first = ask(strategy, situation)
        for who, other in (("the second time", strategy), ("in another instance", self.factory())):
            again = ask(other, situation)
            _assert_same(who, again.after, again.result, first)

    @_in_any_situation
    def test_is_idempotent_at_the_target(self, situation: Situation) -> None:
        """After a goal was reached, the same collection changes nothing."""
        reason = situation.reason
        if reason not in _GOAL_IS_PLAIN:
            return
        strategy = self.factory()
        session = situation.session(strategy)
        history = session.history
        result = session.apply(session.plan_gc(reason))
        assume_answer(strategy, history, result)
        if result.outcome is GCOutcome.REACHED:
            plan = session.plan_gc(reason)
            change = difference(plan.before, plan.after)
            assert not change, f"the same collection changed something again: {change}"

    @_in_any_situation
    def test_budget_follows(self, situation: Situation) -> None:
        """After a session applied it, the budget equals a recount, and undo restores everything."""
        strategy = self.factory()
        session = situation.session(strategy)
        history, budget = session.history, session.budget.snapshot()
        result = session.apply(session.plan_gc(situation.reason))
        assume_answer(strategy, history, result)
        counted = count_tokens(session.history, COUNTER) + situation.schema_tokens
        booked = session.budget.counted_tokens()
        assert booked == counted, f"the budget has {booked} tokens, and a recount gives {counted}"
        if session.history != history:
            session.undo()
        change = difference(history, session.history)
        assert not change, f"undo did not restore the history: {change}"
        assert session.budget.snapshot() == budget, "undo did not restore the budget"

    @_in_any_situation
    def test_says_who_and_why(self, situation: Situation) -> None:
        """The result has the name of the strategy and the given reason."""
        strategy = self.factory()
        result = ask(strategy, situation).result
        name, reason = result.plugin_name, result.trigger_reason
        assert name == strategy.name, f"plugin_name is {name!r}: expected {strategy.name!r}"
        assert reason is situation.reason, (
            f"trigger_reason is {reason!r}: expected {situation.reason!r}"
        )

    # --- long sessions and long histories ---

    def test_survives_a_long_session(self) -> None:
        """In 150 turns, no request is too long or invalid, and there is at most one notice.

        The strategy keeps the context small enough: core never has to remove recent content.
        """
        model = DummyModel(8_000, hidden_tokens=150)
        config = GCConfig(preserve_recent_turns=2)
        session = new_session(
            self.factory(), config, provider=model, tools=model.run_tool, context_limit=8_000
        )
        for turn in range(150):
            session.send_message(f"request {turn}")
            history = session.history
            booked, counted = session.budget.counted_tokens(), count_tokens(history, COUNTER)
            assert booked == counted, f"turn {turn}: the budget has {booked} tokens, not {counted}"
            notices = [each for each in history if each.synthetic is SyntheticKind.NOTICE]
            assert len(notices) <= 1, f"turn {turn}: there are {len(notices)} notices"
        assert model.refusals == 0, f"the model refused {model.refusals} requests"
        for number, result in enumerate(session.get_gc_history()):
            which = f"collection {number} of {result.plugin_name}"
            assert result.success, f"{which} failed: {result.error}"
            steps = result.details.get("relaxed")
            assert not steps, f"{which}: core had to make the request fit ({', '.join(steps)})"

    def test_work_grows_with_the_history_only(self) -> None:
        """A history four times as long takes about four times as many operations."""
        small, large = (self._operations(turns) for turns in (100, 400))
        assert large <= 4 * small * 1.3, (
            f"100 turns take {small} operations, and 400 turns {large}: {large / small:.1f} times "
            "as many"
        )

    def _operations(self, turns: int) -> int:
        history = long_history(turns)
        tokens = count_tokens(history, COUNTER)
        strategy = self.factory()
        session = Situation(history, GCConfig(), GCTriggerReason.THRESHOLD, tokens).session(
            strategy
        )
        given = arguments(session, strategy, GCTriggerReason.THRESHOLD)
        return count_operations(lambda: strategy.collect(*given))


_MEMBERS = ("name", "initialize", "shutdown", "should_collect", "collect")


def _assert_same(
    who: str, after: Sequence[Message], result: GCResult, first: Answer, *more: str
) -> None:
    """Fails if an answer differs from another one."""
    change = difference(first.after, after)
    assert not change, f"{who}, the history is another: {change}"
    for field in ("removal_list", "outcome", "notification", *more):
        other, own = getattr(first.result, field), getattr(result, field)
        assert own == other, f"{who}, {field} is {own!r:.300}, not {other!r:.300}"


_GOAL_IS_PLAIN = (
    GCTriggerReason.THRESHOLD,
    GCTriggerReason.PRE_MESSAGE,
    GCTriggerReason.TURN_LIMIT,
)
"""Reasons whose goal is a figure. Once it is reached, nothing more has to be removed."""


def _left_and_goal(situation: Situation, answer: Answer) -> tuple[int, float]:
    """Returns the turns or tokens that are left, and how many may be."""
    config = situation.config
    if situation.reason is GCTriggerReason.TURN_LIMIT:
        return len(split_into_turns(answer.after)), config.max_turns or math.inf
    fixed = answer.session.budget.fixed_tokens()
    target = Limits.of(config, situation.context_limit, fixed).target_tokens
    return answer.result.tokens_after, math.inf if target is None else target


def _sizes(history: Sequence[Message]) -> dict[str, int]:
    return {message.message_id: count_tokens([message], COUNTER) for message in history}


def _lost(group: Group, message: Message) -> str:
    return f"{message.message_id} is protected ({group.hold}) and was removed or changed"


def _has_select(strategy: GCPlugin) -> TypeGuard[GCStrategy[Any]]:
    """Returns whether a session calls ``select`` of a strategy, not its ``collect``."""
    return isinstance(strategy, GCStrategy) and type(strategy).collect is GCStrategy.collect


def _collection(strategy: GCStrategy[Any], situation: Situation) -> Collection:
    """Returns a collection like the one that a session gives to a strategy."""
    return Collection.of(*arguments(situation.session(strategy), strategy, situation.reason))
