"""The suite that a strategy has to pass."""

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    EstimateCounter,
    GCConfig,
    GCOutcome,
    GCPlan,
    GCPlugin,
    GCSession,
    GCTriggerReason,
    Message,
    PluginRegistry,
    check_collection,
    count_tokens,
    lay_out,
    protect,
)
from jaato_gc_testing._histories import broken_histories, histories
from jaato_gc_testing._host import DummyModel
from jaato_gc_testing._operations import count_operations, long_history

_COUNTER = EstimateCounter()


@dataclass
class Situation:
    """A history in a session, and what is asked of the strategy there."""

    history: list[Message]
    config: GCConfig
    reason: GCTriggerReason
    context_limit: int

    def session(self, plugin: GCPlugin) -> GCSession:
        """A session that holds the history and would collect with the strategy."""
        session = GCSession(
            context_limit=self.context_limit,
            counter=_COUNTER,
            registry=PluginRegistry(load_installed=False),
        )
        for message in self.history:
            session.append(message)
        session.set_gc_plugin(plugin, self.config)
        return session


@st.composite
def situations(
    draw: st.DrawFn, *, reasons: Iterable[GCTriggerReason] = tuple(GCTriggerReason)
) -> Situation:
    """Histories of all kinds, from half empty to overfull windows."""
    history = draw(st.one_of(histories(), broken_histories()))
    tokens = count_tokens(history, _COUNTER)
    return Situation(
        history,
        GCConfig(
            threshold_percent=80.0,
            target_percent=draw(st.sampled_from([5.0, 30.0, 60.0])),
            preserve_recent_turns=draw(st.integers(0, 3)),
            preserve_recent_groups=draw(st.integers(0, 2)),
            pinned_turn_indices=draw(st.lists(st.integers(0, 4), max_size=1)),
            max_turns=draw(st.sampled_from([None, 1, 3])),
        ),
        draw(st.sampled_from(list(reasons))),
        max(1, int(tokens * draw(st.sampled_from([0.7, 1.0, 1.6])))),
    )


_GOAL_STAYS_REACHED = (
    GCTriggerReason.THRESHOLD,
    GCTriggerReason.PRE_MESSAGE,
    GCTriggerReason.TURN_LIMIT,
)
"""Reasons whose goal, once reached, asks for nothing more."""

_property = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.differing_executors,  # one suite, many subclasses: that is the point
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


class StrategyConformance(ABC):
    """Checks for any strategy. Subclass it in a test module and say how to make yours::

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
        for name in dir(StrategyConformance):
            if not name.startswith("test_"):
                continue
            check = getattr(cls, name, None)
            if check is getattr(StrategyConformance, name):
                continue
            marks = [mark for mark in getattr(check, "pytestmark", ()) if mark.name == "xfail"]
            if not any(mark.kwargs.get("reason") for mark in marks):
                raise TypeError(
                    f"{cls.__name__} overrides {name}: a check may only be overridden with "
                    '@pytest.mark.xfail(reason="…")'
                )

    # --- what a strategy is ---

    def test_has_the_shape_of_a_plugin(self) -> None:
        """It has a name and all methods, and can be set up and shut down."""
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
        """A full window is."""
        usage = {
            "context_limit": 1000,
            "total_tokens": 1000,
            "percent_used": 100.0,
            "tokens_remaining": 0,
            "turns": 9,
        }
        due, reason = self.factory().should_collect(usage, GCConfig())
        assert due
        assert reason is None or reason in GCTriggerReason

    def test_leaves_an_empty_history_empty(self) -> None:
        """There is nothing to remove, and that is no error."""
        for reason in GCTriggerReason:
            plan = _plan(self.factory(), Situation([], GCConfig(), reason, 1000))
            assert plan.after == []
            assert plan.result.success

    # --- what a collection has to keep to ---

    @_property
    @given(situations())
    def test_breaks_no_invariant(self, situation: Situation) -> None:
        """What could be sent before can be sent after, in the same order, thoughts untouched."""
        before, after, plan = self._collect(situation)
        assert check_collection(before, after, plan.result.removal_list) == []

    @_property
    @given(situations())
    def test_keeps_what_is_protected(self, situation: Situation) -> None:
        """LOCKED, pinned and recent messages and open calls stay."""
        plugin = self.factory()
        session = situation.session(plugin)
        layout = lay_out(session.history)
        protect(
            layout, session.config.model_copy(update={"pinned_turn_indices": []}), session.budget
        )
        held = {
            message.message_id
            for group in layout.groups
            if group.hold
            for message in group.messages
        }
        after = {message.message_id for message in _ask(plugin, session, situation).after}
        assert held <= after

    @_property
    @given(situations())
    def test_removal_list_is_the_difference(self, situation: Situation) -> None:
        """What went is listed, what is listed went, and with the tokens that it had."""
        before, after, plan = self._collect(situation)
        sizes = {each.message_id: count_tokens([each], _COUNTER) for each in before}
        left = {each.message_id: count_tokens([each], _COUNTER) for each in after}
        for item in plan.result.removal_list:
            freed = sum(sizes[each] - left.get(each, 0) for each in item.message_ids)
            assert item.tokens_freed == freed, item
        listed = {each for item in plan.result.removal_list for each in item.message_ids}
        changed = {each for each, size in sizes.items() if left.get(each) != size}
        assert listed == changed

    @_property
    @given(situations())
    def test_counts_are_honest(self, situation: Situation) -> None:
        """The figures are those of a recount, and the context never grows."""
        before, after, plan = self._collect(situation)
        result = plan.result
        assert result.tokens_before == count_tokens(before, _COUNTER)
        assert result.tokens_after == count_tokens(after, _COUNTER)
        assert result.tokens_after <= result.tokens_before

    @_property
    @given(situations())
    def test_outcome_is_honest(self, situation: Situation) -> None:
        """It says REACHED when it is, SHORT when it is not, and nothing went when it says so."""
        before, after, plan = self._collect(situation)
        result = plan.result
        assert result.success
        target = situation.config.target_tokens(situation.context_limit) or 0
        to_target = result.trigger_reason in (
            GCTriggerReason.THRESHOLD,
            GCTriggerReason.PRE_MESSAGE,
        )
        if result.outcome is GCOutcome.REACHED and to_target:
            assert result.tokens_after <= target
        if result.outcome is GCOutcome.SHORT and to_target:
            assert result.tokens_after > target
        if result.outcome in (GCOutcome.NOT_NEEDED, GCOutcome.NO_GAIN):
            assert after == before
        else:
            assert result.tokens_freed > 0

    @_property
    @given(situations())
    def test_leaves_its_input_alone(self, situation: Situation) -> None:
        """History, messages, usage and budget are as they were."""
        plugin = self.factory()
        session = situation.session(plugin)
        history, usage = session.history, session.get_context_usage()
        seen = copy.deepcopy((history, usage, session.budget.snapshot()))
        arguments = [history, usage, session.config, situation.reason]
        if _takes_budget(plugin):
            arguments.append(session.budget)
        plugin.collect(*arguments)  # type: ignore[arg-type]
        assert (history, usage, session.budget.snapshot()) == seen

    @_property
    @given(situations())
    def test_is_deterministic(self, situation: Situation) -> None:
        """The same again gives the same again, from the same instance and from another."""
        plugin = self.factory()
        first = _plan(plugin, situation)
        for again in (_plan(plugin, situation), _plan(self.factory(), situation)):
            assert again.after == first.after
            assert again.result.removal_list == first.result.removal_list

    @_property
    @given(situations(reasons=_GOAL_STAYS_REACHED))
    def test_is_idempotent_at_the_target(self, situation: Situation) -> None:
        """A goal that is reached is not reached again."""
        session = situation.session(self.factory())
        result = session.apply(session.plan_gc(situation.reason))
        if result.outcome is GCOutcome.REACHED:
            assert session.plan_gc(situation.reason).changes_nothing

    @_property
    @given(situations())
    def test_budget_follows(self, situation: Situation) -> None:
        """A session can apply it, the budget equals a recount, and undo gives all of it back."""
        session = situation.session(self.factory())
        history, budget = session.history, session.budget.snapshot()
        result = session.apply(session.plan_gc(situation.reason))
        assert result.success, result.error
        assert session.budget.counted_tokens() == count_tokens(session.history, _COUNTER)
        if session.history != history:
            session.undo()
            assert session.history == history
            assert session.budget.snapshot() == budget

    @_property
    @given(situations())
    def test_says_who_and_why(self, situation: Situation) -> None:
        """The result names the strategy and the reason it was given."""
        plugin = self.factory()
        result = _plan(plugin, situation).result
        assert result.plugin_name == plugin.name
        assert result.trigger_reason is situation.reason

    # --- over time, and at size ---

    def test_survives_a_long_session(self) -> None:
        """Hundreds of turns in a small window: nothing too long or invalid is ever sent."""
        model = DummyModel(8_000, hidden_tokens=150)
        session = GCSession(
            model,
            tools=model.run_tool,
            context_limit=8_000,
            counter=_COUNTER,
            registry=PluginRegistry(load_installed=False),
        )
        session.set_gc_plugin(self.factory(), GCConfig(preserve_recent_turns=2))
        for turn in range(150):
            session.send_message(f"request {turn}")
            assert session.budget.counted_tokens() == count_tokens(session.history, _COUNTER)
        assert model.refusals == 0
        assert all(result.success for result in session.get_gc_history())

    def test_work_grows_with_the_history_only(self) -> None:
        """Four times the history is about four times the operations."""
        small, large = (self._operations(turns) for turns in (250, 1000))
        assert large <= 4 * small * 1.3

    # --- helpers ---

    def _operations(self, turns: int) -> int:
        history = long_history(turns)
        tokens = count_tokens(history, _COUNTER)
        situation = Situation(history, GCConfig(), GCTriggerReason.THRESHOLD, tokens)
        plugin = self.factory()
        session = situation.session(plugin)
        arguments: list[Any] = [
            session.history,
            session.get_context_usage(),
            session.config,
            situation.reason,
        ]
        if _takes_budget(plugin):
            arguments.append(session.budget)
        return count_operations(lambda: plugin.collect(*arguments))

    def _collect(self, situation: Situation) -> tuple[list[Message], list[Message], GCPlan]:
        plan = _plan(self.factory(), situation)
        return plan.before, plan.after, plan


def _plan(plugin: GCPlugin, situation: Situation) -> GCPlan:
    return _ask(plugin, situation.session(plugin), situation)


def _ask(plugin: GCPlugin, session: GCSession, situation: Situation) -> GCPlan:
    """What the strategy itself answers.

    One that knows nothing of a budget answers through the session, which looks after locks and pins
    for it.
    """
    if not _takes_budget(plugin):
        return session.plan_gc(situation.reason)
    history = session.history
    after, result = plugin.collect(
        list(history),
        session.get_context_usage(),
        session.config,
        situation.reason,
        session.budget,
    )
    return GCPlan("", history, after, result)


def _takes_budget(plugin: GCPlugin) -> bool:
    return "budget" in inspect.signature(plugin.collect).parameters
