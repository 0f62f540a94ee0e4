"""A session as a user drives it, in any order, with every strategy and with hostile ones.

Each machine performs random steps on a `GCSession` and checks after each step that the session is
what the steps make of it. The model is in `session_model`, the messages are in `session_messages`,
the settings in `session_settings`, and the hostile strategies in `hostile_plugins`.

Comments that begin with "Known fault" mark what the model does not demand yet.
"""

import functools
import importlib.metadata
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hostile_plugins import hostile_plugins
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from session_messages import (
    BROKEN_KINDS,
    CALL_IDS,
    FILINGS,
    LOCKED_TOOL,
    ODD_KINDS,
    POLICIES,
    RESULT_WORDS,
    TOOLS,
    TURNS,
    WORDS,
    Conversation,
    Filing,
    TurnShape,
)
from session_model import (
    COUNTER,
    Applied,
    Correction,
    Model,
    Observed,
    Planned,
    State,
    differences,
    form_of,
    tokens_of,
)
from session_settings import (
    BOOKINGS,
    CONFIGS,
    MEANWHILE,
    OURS,
    OVERFLOWS,
    OVERRIDES,
    POSITIONS,
    REASONS,
    REPORTED_SHARES,
    RESERVES,
    VARIANTS,
    WINDOWS,
    Booking,
    PluginMaker,
)

from jaato_gc import (
    ContextFloorError,
    GCConfig,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    InvalidHistoryError,
    Message,
    NotConfiguredError,
    PluginRegistry,
    Role,
    StalePlanError,
    UndoError,
    check_history,
)
from jaato_gc.plugin import hookimpl, lay_out
from jaato_gc_testing import MemoryStash, NoGCPlugin

HOSTILE = hostile_plugins()


@pytest.fixture(autouse=True, scope="module")
def _fast_rejections() -> Iterator[None]:
    """Caches what is installed: the error of a rejection names the distribution of the plugin."""
    with pytest.MonkeyPatch.context() as patch:
        installed = functools.cache(importlib.metadata.packages_distributions)
        patch.setattr(importlib.metadata, "packages_distributions", installed)
        yield


class SessionMachine(RuleBasedStateMachine):
    """Does with a session what a user may do."""

    own: ClassVar[Mapping[str, PluginMaker]]
    """The strategies that this machine uses most."""

    # --- setting up ---

    @initialize(
        data=st.data(),
        window=WINDOWS,
        config=CONFIGS,
        has_stash=st.booleans(),
        drops_sources=st.booleans(),
        is_careless=st.sampled_from([False, False, False, True]),
        on_overflow=OVERFLOWS,
        has_prompt=st.booleans(),
        bookings=st.lists(BOOKINGS, max_size=3),
        turns=st.lists(TURNS, min_size=1, max_size=6),
    )
    def start(
        self,
        data: st.DataObject,
        window: int,
        config: GCConfig,
        has_stash: bool,
        drops_sources: bool,
        is_careless: bool,
        on_overflow: str,
        has_prompt: bool,
        bookings: list[Booking],
        turns: list[TurnShape],
    ) -> None:
        self.model = Model()
        self.talk = Conversation()
        self.is_careless = is_careless
        self.on_overflow = on_overflow
        self.requests: list[tuple[list[Message], list[str]]] = []
        self.requested: int | None = None
        self.observed: list[Observed] = []
        self.dropped: list[tuple[InstructionSource, str | None]] = []
        self.observer_error: Exception | None = None
        registry = PluginRegistry(load_installed=False)
        registry.register(Observer(self), "observer")
        self.options: dict[str, Any] = {
            "counter": COUNTER,
            "registry": registry,
            "tool_policies": {LOCKED_TOOL: GCPolicy.LOCKED},
            "stash": MemoryStash() if has_stash else None,
            # With a stash, nothing is undone from memory.
            "journal_bytes": 0 if has_stash else 2_000_000,
            "on_source_removed": self.source_removed if drops_sources else None,
            "on_overflow": on_overflow,
        }
        self.session = GCSession(context_limit=window, **self.options)
        self.use(data.draw(st.sampled_from(sorted(self.own))), config)
        for booking in bookings:
            self.book(booking)
        if has_prompt:
            self.append(self.talk.say(Role.SYSTEM, 20))
        self.append_turns(turns)

    def use(self, name: str, config: GCConfig) -> None:
        self.make_plugin, self.config = {**OURS, **HOSTILE}[name], config
        self.session.set_gc_plugin(self.make_plugin(), config)

    @property
    def state(self) -> State:
        return self.model.state_of(self.session)

    def note_state(self) -> None:
        """Notes the state as the one before the next collection."""
        self.before, self.saved = self.state, self.session.save()
        self.dropped = []

    def note_collection(self, result: GCResult) -> None:
        """Notes a collection that has just ended."""
        dropped = tuple(self.dropped)
        self.observed.append(Observed(self.before, self.saved, self.state, result, dropped))

    def source_removed(self, source: InstructionSource, key: str | None) -> None:
        with self.keeping_errors():
            self.dropped.append((source, key))
            self.model.drop(source, key)

    @contextmanager
    def keeping_errors(self) -> Iterator[None]:
        """Keeps an error for `check_observer`: the session does not raise it."""
        try:
            yield
        except Exception as error:
            self.observer_error = self.observer_error or error

    def check_observer(self) -> None:
        if self.observer_error:
            raise AssertionError("an observer failed") from self.observer_error

    # --- appending ---

    def append(self, message: Message) -> None:
        taken = self.model.ids
        booked = self.session.append(message)
        if message.message_id in taken:
            assert booked.message_id not in taken
            assert form_of(replace(booked, message_id=message.message_id)) == form_of(message)
        else:
            assert form_of(booked) == form_of(message)
        self.model.append(booked)

    def append_turns(self, turns: list[TurnShape]) -> None:
        for shape in turns:
            for message in self.talk.turn(shape):
                self.append(message)

    @precondition(lambda self: not self.talk.open_calls)
    @rule(words=WORDS, policy=POLICIES)
    def ask(self, words: int, policy: GCPolicy | None) -> None:
        self.append(self.talk.say(Role.USER, words, policy=policy))

    @precondition(lambda self: not self.talk.open_calls)
    @rule(words=WORDS, policy=POLICIES)
    def answer(self, words: int, policy: GCPolicy | None) -> None:
        self.append(self.talk.say(Role.MODEL, words, policy=policy))

    @precondition(lambda self: not self.talk.open_calls)
    @rule(words=WORDS)
    def instruct(self, words: int) -> None:
        self.append(self.talk.say(Role.SYSTEM, words))

    @precondition(lambda self: not self.talk.open_calls)
    @rule(tools=st.lists(TOOLS, min_size=1, max_size=3), ids=CALL_IDS, policy=POLICIES)
    def call(self, tools: list[str], ids: str, policy: GCPolicy | None) -> None:
        self.append(self.talk.calls(tools, ids, policy))

    @precondition(lambda self: self.talk.open_calls)
    @rule(count=st.sampled_from([1, 3, 3]), words=RESULT_WORDS, filing=FILINGS, policy=POLICIES)
    def return_results(
        self, count: int, words: int, filing: Filing, policy: GCPolicy | None
    ) -> None:
        for message in self.talk.results(count, words, filing, policy):
            self.append(message)

    @precondition(lambda self: not self.talk.open_calls)
    @rule(turns=st.lists(TURNS, min_size=1, max_size=3))
    def take_turns(self, turns: list[TurnShape]) -> None:
        self.append_turns(turns)

    @precondition(lambda self: not self.talk.open_calls)
    @rule(kind=ODD_KINDS, policy=POLICIES)
    def append_an_odd_message(self, kind: str, policy: GCPolicy | None) -> None:
        self.append(self.talk.odd(kind, policy))

    @precondition(lambda self: self.is_careless)
    @rule(kind=BROKEN_KINDS)
    def append_a_broken_message(self, kind: str) -> None:
        self.append(self.talk.broken(kind))

    @precondition(lambda self: self.model.forms and not self.talk.open_calls)
    @rule(position=POSITIONS, of_removed=st.booleans())
    def use_an_id_again(self, position: int, of_removed: bool) -> None:
        ids = (of_removed and self.model.removed_ids) or self.model.ids
        message_id = ids[position % len(ids)]
        self.append(self.talk.say(Role.USER, 5, message_id=message_id))

    # --- the points of a turn ---

    @contextmanager
    def collecting(self, *, automatic: bool = False, alone: Collection[str] = ()) -> Iterator[None]:
        """Checks the collections that run in the block.

        Args:
            automatic: The session starts them, not the user.
            alone: Pinned messages that protect neither their call nor its results.
        """
        self.observed = []
        yield
        self.check_observer()
        for observed in self.observed:
            result = observed.result
            note(f"{result.plugin_name}, {result.trigger_reason}: {result.outcome} {result.error}")
            assert result in self.session.get_gc_history()
            if automatic and self.model.is_quiet:
                self.check_that_it_does_not_fit(observed.before)
            self.model.absorb(observed, alone)

    def check_that_it_does_not_fit(self, state: State) -> None:
        """Checks that a request may be too long if the counter is wrong by its tolerance."""
        limit = self.session.config.request_limit(state.snapshot["context_limit"]) or 0
        assert state.bound(state.counted) > limit

    def fits_without_what_may_go(self) -> bool:
        """Whether the request fits if only fixed messages are left, and the first request."""
        state = self.state
        limit = self.session.config.request_limit(state.snapshot["context_limit"]) or 0
        kept = self.model.fixed_ids(state)
        movable = sum(tokens_of(form) for each, form in state.by_id.items() if each not in kept)
        return state.bound(state.counted - movable) <= limit

    @precondition(lambda self: self.model.forms)
    @rule(share=st.none() | REPORTED_SHARES)
    def send(self, share: float | None) -> None:
        messages = self.model.messages
        is_open = any(group.is_open for group in lay_out(messages).groups)
        can_be_sent = not (is_open or check_history(messages))
        request: list[Message] | None = None
        floor: Mapping[str, int] | None = None
        with self.collecting(automatic=True):
            try:
                request = self.session.before_send()
            except InvalidHistoryError:
                assert not can_be_sent
                assert not self.observed
            except ContextFloorError as error:
                note(str(error))
                assert can_be_sent
                floor = error.floor
        if floor is not None:
            assert self.on_overflow != "send"
            assert sum(floor.values()) <= self.state.total
            self.check_that_it_does_not_fit(self.state)
            if self.on_overflow == "relax":
                if self.options["on_source_removed"] is None:
                    assert not self.observed, "no strategy is asked if what is fixed does not fit"
                assert not self.fits_without_what_may_go()
        if request is None:
            return
        assert can_be_sent
        budget = self.session.budget
        limit = self.session.config.request_limit(budget.context_limit) or 0
        if self.on_overflow != "send" or self.fits_without_what_may_go():
            # Reports alone, which may be wrong, refuse no request.
            assert min(budget.total_tokens(), budget.counted_tokens()) <= limit
        assert list(map(form_of, request)) == self.model.forms
        assert check_history(self.model.messages) == []
        self.requested = budget.counted_tokens()
        self.requests = [*self.requests[-1:], (request, list(self.model.forms))]
        if share:
            self.report_usage(share, output=10)

    @precondition(lambda self: self.requested)
    @rule(share=REPORTED_SHARES, output=st.integers(0, 500))
    def report_usage(self, share: float, output: int) -> None:
        assert self.requested is not None
        reported = math.ceil(self.requested * share)
        self.session.report_usage(reported, output)
        if reported > self.session.budget.context_limit:
            return  # it is not believed
        budget = self.session.budget
        self.model.correction = Correction(budget.ratio, budget.unbooked_tokens)
        assert self.model.correction.of(self.requested) == reported

    @rule()
    def end_the_turn(self) -> None:
        with self.collecting(automatic=True):
            self.session.after_turn()

    @rule()
    def refuse_the_request(self) -> None:
        total = self.state.total
        with self.collecting():
            assert self.session.recover_from_refusal() == (self.state.total < total)

    # --- collecting ---

    @rule(overrides=OVERRIDES)
    def collect(self, overrides: dict[str, Any]) -> None:
        with self.collecting():
            result = self.session.manual_gc(**overrides)
            assert result.trigger_reason is GCTriggerReason.MANUAL

    @rule(names=st.lists(st.sampled_from(sorted(HOSTILE)), max_size=8), overrides=OVERRIDES)
    def try_hostile_strategies(self, names: list[str], overrides: dict[str, Any]) -> None:
        for name in names:
            collections = len(self.model.applied)
            self.session.set_gc_plugin(HOSTILE[name](), self.config)
            self.collect(overrides)
            if len(self.model.applied) > collections:
                self.undo("newest")  # so that there is something left for the next one
        self.session.set_gc_plugin(self.make_plugin(), self.config)

    @rule()
    def remove_the_strategy_for_a_while(self) -> None:
        before = self.state
        self.session.remove_gc_plugin()
        with pytest.raises(NotConfiguredError):
            self.session.manual_gc()
        assert not self.session.recover_from_refusal()
        assert self.state == before
        self.session.set_gc_plugin(self.make_plugin(), self.config)

    @rule(reason=REASONS, overrides=OVERRIDES)
    def plan(self, reason: GCTriggerReason, overrides: dict[str, Any]) -> None:
        before = self.state
        plan = self.session.plan_gc(reason, **overrides)
        assert self.state == before
        assert plan.result.tokens_before == before.total
        planned = Planned(plan, before, set(self.model.pins), may_be_stale=False)
        self.model.plans = [*self.model.plans[-2:], planned]

    @precondition(lambda self: self.model.plans)
    @rule(position=POSITIONS)
    def apply(self, position: int) -> None:
        self.apply_plan(self.model.plans[position % len(self.model.plans)])

    def apply_plan(self, planned: Planned) -> None:
        self.note_state()
        before, pins = self.before, self.model.pins
        # Known fault: a pin that is newer than the plan does not protect the rest of its call.
        newer = pins.keys() - planned.pins - self.model.locked.keys()
        with self.collecting(alone=newer):
            try:
                self.session.apply(planned.plan)
            except StalePlanError:
                assert not planned.must_apply(before, pins)
                assert self.state == before
            else:
                assert not planned.must_be_stale(before, pins)

    @rule(
        reason=REASONS,
        overrides=OVERRIDES,
        meanwhile=MEANWHILE,
        position=POSITIONS,
        turns=st.lists(TURNS, min_size=1, max_size=2),
    )
    def apply_a_plan_later(
        self,
        reason: GCTriggerReason,
        overrides: dict[str, Any],
        meanwhile: str,
        position: int,
        turns: list[TurnShape],
    ) -> None:
        self.plan(reason, overrides)
        planned = self.model.plans[-1]
        if meanwhile == "append" and not self.talk.open_calls:
            self.append_turns(turns)
        elif meanwhile == "pin":
            self.pin_what_a_plan_takes(position)
        elif meanwhile == "collect":
            self.collect({})
        elif meanwhile == "undo":
            self.undo("newest")
        elif meanwhile == "restore":
            self.save_and_restore({})
        else:
            self.change_the_window(300)
        self.apply_plan(planned)

    @rule(which=st.sampled_from(["newest", "newest", "by id", "another"]))
    def undo(self, which: str) -> None:
        before = self.state
        newest = self.model.applied[-1].observed.result.gc_id if self.model.applied else None
        gc_id = {"newest": None, "by id": newest, "another": "gc_0"}[which]
        if which == "another" or not self.model.can_undo():
            with pytest.raises(UndoError):
                self.session.undo(gc_id)
            assert self.state == before
            return
        self.session.undo(gc_id)
        undone = self.model.undo()
        after, expected = self.state, self.without(undone)
        assert list(after.forms) == self.model.forms
        found = differences(after.snapshot, expected.snapshot)
        if self.is_careless:  # a result without a call is booked under the last call, if it is left
            found = [each for each in found if not each.startswith("/entries/conversation/")]
        assert not found, "; ".join(found)
        assert after.usage["turns"] == expected.usage["turns"]
        assert after.total == expected.total

    def without(self, undone: Applied) -> State:
        """Returns the state of a session in which a collection never took place."""
        options = {**self.options, "registry": PluginRegistry(load_installed=False)}
        saved = undone.observed.saved_before
        session = GCSession.restore(saved, strategy=NoGCPlugin(), **options)
        session.set_gc_plugin(NoGCPlugin(), GCConfig(auto_trigger=False))
        for step in undone.since:
            step(session)
        session.budget.ratio, session.budget.unbooked_tokens = self.model.correction
        return self.model.state_of(session)

    @precondition(lambda self: not self.talk.open_calls)
    @rule(overrides=OVERRIDES, turns=st.lists(TURNS, max_size=2))
    def collect_and_undo_later(self, overrides: dict[str, Any], turns: list[TurnShape]) -> None:
        self.collect(overrides)
        self.append_turns(turns)
        self.undo("newest")

    # --- settings ---

    def pin_one_of(self, ids: Sequence[str], position: int) -> None:
        if ids:
            message_id = ids[position % len(ids)]
            self.session.pin(message_id)
            self.model.pins[message_id] = None

    @rule(position=POSITIONS)
    def pin(self, position: int) -> None:
        self.pin_one_of(self.model.ids, position)

    @precondition(lambda self: self.model.plans)
    @rule(position=POSITIONS)
    def pin_what_a_plan_takes(self, position: int) -> None:
        """Pins a message that the newest plan lists, or one of the same call."""
        touched = self.model.plans[-1].touched()
        groups = lay_out(self.model.messages).groups
        ids = [[message.message_id for message in group.messages] for group in groups]
        taken = [each for each in ids if not touched.isdisjoint(each)]
        self.pin_one_of([each for group in taken for each in group], position)

    @precondition(lambda self: self.model.pins)
    @rule(position=POSITIONS)
    def unpin(self, position: int) -> None:
        message_id = list(self.model.pins)[position % len(self.model.pins)]
        self.session.unpin(message_id)
        del self.model.pins[message_id]

    @rule(booking=BOOKINGS)
    def book(self, booking: Booking) -> None:
        source, key, tokens, given = booking
        policy = given or GCPolicy.EPHEMERAL
        if policy is GCPolicy.LOCKED:  # a plan that removes it is stale from now on
            plans = self.model.plans
            self.model.plans = [each for each in plans if source not in each.sources()]
        self.session.budget.add_child(source, key, tokens, policy)
        self.model.booked[source, key] = tokens, policy
        self.model.happened(lambda session: session.budget.add_child(source, key, tokens, policy))

    @rule(window=WINDOWS)
    def change_the_window(self, window: int) -> None:
        self.model.happened(lambda session: session.set_context_limit(window))
        with self.collecting(automatic=True):
            self.session.set_context_limit(window)

    @rule(tokens=RESERVES)
    def change_the_room_for_the_answer(self, tokens: int) -> None:
        self.model.happened(lambda session: session.set_output_reserve(tokens))
        self.session.set_output_reserve(tokens)

    @rule(data=st.data(), config=CONFIGS)
    def switch_the_strategy(self, data: st.DataObject, config: GCConfig) -> None:
        self.use(data.draw(st.sampled_from([*sorted(self.own), *OURS])), config)

    @rule(overrides=OVERRIDES)
    def save_and_restore(self, overrides: dict[str, Any]) -> None:
        before, saved = self.state, self.session.save()
        restored = GCSession.restore(saved, strategy=self.make_plugin(), **self.options)
        assert restored.save() == saved
        results = [each.plan_gc(**overrides).result for each in (self.session, restored)]
        # What is odd about a hostile strategy is an object of its own in each session.
        first, second = (replace(result, details={}, error=None) for result in results)
        assert first == second
        self.session = restored
        assert self.state == before
        self.model.disturb_plans()

    # --- after every step ---

    @invariant()
    def is_as_modelled(self) -> None:
        self.check_observer()
        self.model.check(self.session)
        for request, forms in self.requests:
            assert list(map(form_of, request)) == forms
        assert len(self.session.history) == len(self.model.forms)


class Observer:
    """A plugin that tells a machine about the collections of its session."""

    def __init__(self, machine: SessionMachine) -> None:
        self.machine = machine

    @hookimpl
    def jaato_gc_before_collect(self) -> None:
        with self.machine.keeping_errors():
            self.machine.note_state()

    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult) -> None:
        with self.machine.keeping_errors():
            self.machine.note_collection(result)


def machine(name: str, own: Mapping[str, PluginMaker], examples: int) -> Any:
    """Returns the test case of a machine that mostly uses some strategies."""
    fields = {"own": own, "__module__": __name__}
    case: Any = getattr(type(name, (SessionMachine,), fields), "TestCase")  # noqa: B009 (for mypy)
    # JAATO_GC_EXAMPLES looks for other examples than the same ones in every run.
    explored = int(os.environ.get("JAATO_GC_EXAMPLES", "0"))
    case.settings = settings(
        max_examples=explored or examples,
        derandomize=not explored,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    return case


for _strategy, _variants in VARIANTS.items():
    _name = _strategy.removeprefix("gc_").title()
    globals()[f"Test{_name}"] = machine(_name, _variants, 50)
TestHostile = machine("Hostile", HOSTILE, 80)
