"""The suite that a strategy has to pass."""

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, note, settings

from jaato_gc import (
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCResult,
    GCSession,
    GCTriggerReason,
    Group,
    Hold,
    Message,
    PluginRegistry,
    SyntheticKind,
    check_collection,
    count_tokens,
    lay_out,
    never_cleared,
    protect,
    split_into_turns,
)
from jaato_gc_testing._guard import refuse_silent_overrides
from jaato_gc_testing._host import DummyModel
from jaato_gc_testing._operations import count_operations, long_history
from jaato_gc_testing._situations import (
    COUNTER,
    Situation,
    arguments,
    ask,
    assume_answer,
    situations,
)

_property = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.differing_executors,  # one suite, many subclasses: that is the point
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


def _in_any_situation(check: Callable[[Any, Situation], None]) -> Callable[[Any], None]:
    """Run a check on many situations, each with every reason there is."""

    @functools.wraps(check)
    def for_every_reason(self: Any, situation: Situation) -> None:
        for reason in GCTriggerReason:
            note(f"asked to collect because of {reason.name}")
            check(self, replace(situation, reason=reason))

    checked: Callable[[Any], None] = _property(given(situations())(for_every_reason))
    return checked


class StrategyConformance(ABC):
    """Checks for any strategy. Subclass it in a test module and say how to make yours:

        class TestMine(StrategyConformance):
            @staticmethod
            def factory():
                return MyPlugin()

    A check that yours can't pass may be overridden only with ``@pytest.mark.xfail(reason="…")``.
    """

    @staticmethod
    @abstractmethod
    def factory() -> GCPlugin:
        """Make the strategy, initialized as you would use it."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Let no check be switched off in silence."""
        super().__init_subclass__(**arguments)
        refuse_silent_overrides(StrategyConformance, cls)

    # --- what a strategy is ---

    def test_has_the_shape_of_a_plugin(self) -> None:
        """It has a name and all methods, and can be shut down."""
        plugin = self.factory()
        assert isinstance(plugin, GCPlugin)
        assert plugin.name
        assert isinstance(plugin.name, str)
        plugin.shutdown()

    def test_does_not_collect_far_below_every_limit(self) -> None:
        """An almost empty window is no reason to collect."""
        usage = {"context_limit": 100_000, "total_tokens": 10, "percent_used": 0.01, "turns": 1}
        due, _ = self.factory().should_collect(usage, GCConfig())
        assert not due

    def test_collects_in_a_full_window(self) -> None:
        """A full window is one, and the reason it names is one that there is."""
        usage = {
            "context_limit": 1000,
            "total_tokens": 1000,
            "percent_used": 100.0,
            "tokens_remaining": 0,
            "turns": 9,
        }
        due, reason = self.factory().should_collect(usage, GCConfig())
        assert due
        assert reason is None or GCTriggerReason(reason)

    def test_leaves_an_empty_history_empty(self) -> None:
        """There is nothing to remove, and that is no error."""
        for reason in GCTriggerReason:
            answer = ask(self.factory(), Situation([], GCConfig(), reason, 1000))
            assert answer.after == []
            assert answer.result.success

    # --- what a collection has to keep to ---

    @_in_any_situation
    def test_breaks_no_invariant(self, situation: Situation) -> None:
        """What could be sent before can be sent after, in the same order, thoughts untouched."""
        answer = ask(self.factory(), situation)
        assert check_collection(answer.before, answer.after, answer.result.removal_list) == []

    @_in_any_situation
    def test_keeps_what_is_protected(self, situation: Situation) -> None:
        """LOCKED, pinned and recent messages and open calls stay as they are.

        Only results and arguments in recent turns may be cleared, and not those of the last calls.
        """
        answer = ask(self.factory(), situation)
        session = answer.session
        layout = lay_out(answer.before)
        # Pins are message ids by now: the session has resolved the indices.
        config = session.config.model_copy(update={"pinned_turn_indices": []})
        protect(layout, config, session.budget)
        keep = config.preserve_recent_groups
        last_calls = [group for group in layout.groups if group.is_call][-keep:] if keep else []
        after = {message.message_id: message for message in answer.after}
        for group in layout.groups:
            if not group.hold:
                continue
            may_clear = group.hold is Hold.RECENT and all(group is not each for each in last_calls)
            for message in group.messages:
                left = after.get(message.message_id)
                assert left is not None, _lost(group, message)
                if may_clear:
                    assert never_cleared(left) == never_cleared(message), _lost(group, message)
                else:
                    assert left == message, _lost(group, message)

    @_in_any_situation
    def test_removal_list_is_the_difference(self, situation: Situation) -> None:
        """What went is listed, what is listed went, and with the tokens that it had."""
        answer = ask(self.factory(), situation)
        sizes, left = _sizes(answer.before), _sizes(answer.after)
        listed: list[str] = []
        for item in answer.result.removal_list:
            assert item.source in answer.session.budget.collectable_sources, item
            assert all(each in sizes for each in item.message_ids), item
            freed = sum(sizes[each] - left.get(each, 0) for each in item.message_ids)
            assert item.tokens_freed == freed, item
            listed += item.message_ids
        assert len(listed) == len(set(listed)), "a message is listed twice"
        changed = {each for each, size in sizes.items() if left.get(each) != size}
        # Synthetic messages may be listed, but need not be.
        own = {message.message_id for message in answer.before if message.synthetic}
        assert set(listed) - own == changed - own

    @_in_any_situation
    def test_counts_are_honest(self, situation: Situation) -> None:
        """The figures are those of a recount, and the context never grows."""
        answer = ask(self.factory(), situation)
        before, after = (count_tokens(each, COUNTER) for each in (answer.before, answer.after))
        total = answer.session.budget.total_tokens()
        assert answer.result.tokens_before == total
        assert answer.result.tokens_after == total - (before - after)
        assert after <= before

    @_in_any_situation
    def test_outcome_is_honest(self, situation: Situation) -> None:
        """It says REACHED when it is, SHORT when it is not, and nothing went when it says so."""
        answer = ask(self.factory(), situation)
        result, outcome = answer.result, answer.result.outcome
        assert result.success
        if outcome in (GCOutcome.NOT_NEEDED, GCOutcome.NO_GAIN):
            assert answer.after == answer.before
        else:
            assert outcome in (GCOutcome.REACHED, GCOutcome.SHORT)
            assert result.tokens_freed > 0
        if situation.reason in _GOAL_IS_PLAIN:
            reached = outcome in (GCOutcome.REACHED, GCOutcome.NOT_NEEDED)
            assert reached == _is_at_goal(situation, answer.after, result)

    @_in_any_situation
    def test_leaves_its_input_alone(self, situation: Situation) -> None:
        """History, messages, usage, configuration and budget are as they were."""
        plugin = self.factory()
        session = situation.session(plugin)
        given = arguments(session, plugin, situation.reason)
        seen = copy.deepcopy(given[:4]), session.budget.snapshot()
        plugin.collect(*given)
        assert (given[:4], session.budget.snapshot()) == seen

    @_in_any_situation
    def test_is_deterministic(self, situation: Situation) -> None:
        """The same again gives the same again, from the same instance and from another."""
        plugin = self.factory()
        first = ask(plugin, situation)
        for again in (ask(plugin, situation), ask(self.factory(), situation)):
            assert again.after == first.after
            assert again.result.removal_list == first.result.removal_list
            assert again.result.outcome is first.result.outcome
            assert again.result.notification == first.result.notification

    @_in_any_situation
    def test_is_idempotent_at_the_target(self, situation: Situation) -> None:
        """A goal that is reached is not reached again."""
        reason = situation.reason
        if reason not in _GOAL_IS_PLAIN:
            return
        session = situation.session(self.factory())
        result = session.apply(session.plan_gc(reason))
        if result.outcome is GCOutcome.REACHED:
            assert session.plan_gc(reason).changes_nothing

    @_in_any_situation
    def test_budget_follows(self, situation: Situation) -> None:
        """A session can apply it, the budget equals a recount, and undo gives all of it back."""
        plugin = self.factory()
        session = situation.session(plugin)
        history, budget = session.history, session.budget.snapshot()
        result = session.apply(session.plan_gc(situation.reason))
        assume_answer(plugin, history, result)
        counted = count_tokens(session.history, COUNTER) + situation.schema_tokens
        assert session.budget.counted_tokens() == counted
        if session.history != history:
            session.undo()
        assert session.history == history
        assert session.budget.snapshot() == budget

    @_in_any_situation
    def test_says_who_and_why(self, situation: Situation) -> None:
        """The result names the strategy and the reason it was given."""
        plugin = self.factory()
        result = ask(plugin, situation).result
        assert result.plugin_name == plugin.name
        assert result.trigger_reason is situation.reason

    # --- over time, and at size ---

    def test_survives_a_long_session(self) -> None:
        """Many turns in a small window: nothing too long or invalid is sent, notices replaced."""
        model = DummyModel(8_000, hidden_tokens=150)
        session = GCSession(
            model,
            tools=model.run_tool,
            context_limit=8_000,
            counter=COUNTER,
            registry=PluginRegistry(load_installed=False),
        )
        session.set_gc_plugin(self.factory(), GCConfig(preserve_recent_turns=2))
        for turn in range(150):
            session.send_message(f"request {turn}")
            history = session.history
            assert session.budget.counted_tokens() == count_tokens(history, COUNTER)
            assert sum(each.synthetic is SyntheticKind.NOTICE for each in history) <= 1
        assert model.refusals == 0
        assert all(result.success for result in session.get_gc_history())

    def test_work_grows_with_the_history_only(self) -> None:
        """Four times the history is about four times the operations."""
        small, large = (self._operations(turns) for turns in (100, 400))
        assert large <= 4 * small * 1.3

    def _operations(self, turns: int) -> int:
        history = long_history(turns)
        tokens = count_tokens(history, COUNTER)
        plugin = self.factory()
        session = Situation(history, GCConfig(), GCTriggerReason.THRESHOLD, tokens).session(plugin)
        given = arguments(session, plugin, GCTriggerReason.THRESHOLD)
        return count_operations(lambda: plugin.collect(*given))


_GOAL_IS_PLAIN = (
    GCTriggerReason.THRESHOLD,
    GCTriggerReason.PRE_MESSAGE,
    GCTriggerReason.TURN_LIMIT,
)
"""Reasons whose goal is a figure, which, once reached, asks for nothing more."""


def _is_at_goal(situation: Situation, after: list[Message], result: GCResult) -> bool:
    config = situation.config
    if situation.reason is GCTriggerReason.TURN_LIMIT:
        return config.max_turns is None or len(split_into_turns(after)) <= config.max_turns
    target = config.target_tokens(situation.context_limit)
    return target is None or result.tokens_after <= target


def _sizes(history: list[Message]) -> dict[str, int]:
    return {message.message_id: count_tokens([message], COUNTER) for message in history}


def _lost(group: Group, message: Message) -> str:
    return f"{message.message_id} is protected ({group.hold}) and was removed or altered"
