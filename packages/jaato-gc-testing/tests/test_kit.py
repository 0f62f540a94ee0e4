"""The conformance suite for strategies: correct ones pass, and every check catches a mutant."""

# ruff: noqa: ARG002  mutants have the signature of the method that they override

import random
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, given, is_hypothesis_test, settings
from pydantic import AfterValidator

from jaato_gc import (
    ContextUsage,
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    Message,
    Part,
    Role,
    SyntheticKind,
    count_tokens,
)
from jaato_gc.plugin import Collection, Hold, StrategySettings, lay_out, protect
from jaato_gc_testing import (
    NoGCPlugin,
    OldestFirst,
    Situation,
    StrategyConformance,
    situations,
)

CHECKS = [name for name in dir(StrategyConformance) if name.startswith("test_")]

CONVERSATION = InstructionSource.CONVERSATION

Answer = tuple[list[Message], GCResult]


# --- correct strategies ---


class FromTheReadme:
    """A plugin in the style of the seeds' README: no budget, no removal list, no base class."""

    @property
    def name(self) -> str:
        return "gc_custom"

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        self._config = config or {}

    def shutdown(self) -> None:
        pass

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        if context_usage.get("percent_used", 0) >= config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
    ) -> Answer:
        requests = [
            position
            for position, message in enumerate(history)
            if message.role is Role.USER
            and not any(part.function_response for part in message.parts)
        ]
        keep = min(len(requests), config.preserve_recent_turns)
        cut = requests[-keep] if keep else len(history)
        rules = [message for message in history[:cut] if message.role is Role.SYSTEM]
        before = context_usage.get("total_tokens", 0)
        return [*rules, *history[cut:]], GCResult(
            success=True,
            items_collected=len(requests) - keep,
            tokens_before=before,
            tokens_after=before // 2,
            plugin_name=self.name,
            trigger_reason=reason,
        )


class TestOldestFirst(StrategyConformance):
    uses_policies = False

    @staticmethod
    def factory() -> GCPlugin:
        return OldestFirst()


class TestOldestFirstWithNotice(StrategyConformance):
    uses_policies = False

    @staticmethod
    def factory() -> GCPlugin:
        plugin = OldestFirst()
        plugin.initialize({"notify_on_gc": True})
        return plugin


class TestFromTheReadme(StrategyConformance):
    uses_policies = False

    @staticmethod
    def factory() -> GCPlugin:
        # The protocol has a `budget` argument; the session accepts a collect without it.
        plugin: Any = FromTheReadme()
        plugin.initialize()
        return plugin  # type: ignore[no-any-return]


class TestNoGC(StrategyConformance):
    @staticmethod
    def factory() -> GCPlugin:
        return NoGCPlugin()

    @pytest.mark.xfail(reason="it removes nothing", raises=AssertionError)
    def test_follows_every_policy(self) -> None:
        super().test_follows_every_policy()

    @pytest.mark.xfail(reason="it removes nothing", raises=AssertionError)
    def test_survives_a_long_session(self) -> None:
        super().test_survives_a_long_session()


# --- mutants of collect ---


@dataclass
class Asked:
    """The arguments of a call of ``collect``."""

    history: list[Message]
    usage: ContextUsage
    config: GCConfig
    reason: GCTriggerReason
    budget: InstructionBudget | None

    def held(self, hold: Hold) -> list[Message]:
        """Returns the messages that are held for this reason."""
        layout = protect(lay_out(self.history), self.config, self.budget)
        return [each for group in layout.groups if group.hold is hold for each in group.messages]


class Mutant(OldestFirst):
    """Changes the answer of `OldestFirst` with its method ``spoil``."""

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Answer:
        after, result = super().collect(history, context_usage, config, reason, budget)
        return self.spoil(Asked(history, context_usage, config, reason, budget), after, result)

    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        raise NotImplementedError


def take(after: list[Message], result: GCResult, victims: Iterable[Message]) -> Answer:
    """Removes more messages, with a correct account."""
    ids = {message.message_id for message in victims}
    gone = [message for message in after if message.message_id in ids]
    if not gone:
        return after, result
    freed = count_tokens(gone)
    item = GCRemovalItem(
        CONVERSATION, "more", freed, "spoilt", [message.message_id for message in gone]
    )
    return [message for message in after if message.message_id not in ids], replace(
        result,
        tokens_after=result.tokens_after - freed,
        removal_list=[*result.removal_list, item],
        outcome=GCOutcome.REACHED,
    )


def exchange(after: list[Message], result: GCResult, old: Message, new: Message) -> Answer:
    """Replaces a message by another, with a correct account."""
    freed = count_tokens([old]) - count_tokens([new])
    item = GCRemovalItem(CONVERSATION, "new", freed, "spoilt", [old.message_id], action="shorten")
    return [new if message is old else message for message in after], replace(
        result,
        tokens_after=result.tokens_after - freed,
        removal_list=[*result.removal_list, item],
        outcome=GCOutcome.REACHED,
    )


MUTANTS: list[tuple[str, type[OldestFirst], type[Exception]]] = []


def caught_by(
    *checks: str, by: type[Exception] = AssertionError
) -> Callable[[type[OldestFirst]], type[OldestFirst]]:
    """Adds a mutant to the table: which checks catch it, and with which error."""

    def enter(mutant: type[OldestFirst]) -> type[OldestFirst]:
        MUTANTS.extend((check, mutant, by) for check in checks)
        return mutant

    return enter


# The plugin.


@caught_by("test_has_the_shape_of_a_plugin")
class CannotBeShutDown(OldestFirst):
    shutdown = None  # type: ignore[assignment]


@caught_by("test_has_the_shape_of_a_plugin", by=RuntimeError)
class FailsToShutDown(OldestFirst):
    def shutdown(self) -> None:
        raise RuntimeError("it is closed already")


@caught_by("test_has_the_shape_of_a_plugin")
class HasNoName(OldestFirst):
    name = ""


class Patterns(StrategySettings):
    """An option whose validator does not accept its own result."""

    pattern: Annotated[str, AfterValidator(re.compile)] = "a*"


@caught_by("test_options_can_come_from_a_file")
class ReadsItsOptionsOnce(OldestFirst):
    settings_model = Patterns


class Counted(StrategySettings):
    """An option that is not the same when it is read again."""

    depth: Annotated[int, AfterValidator(lambda depth: depth + 1)] = 1


@caught_by("test_options_can_come_from_a_file")
class ChangesItsOptions(OldestFirst):
    settings_model = Counted


@caught_by("test_does_not_collect_far_below_every_limit")
class AlwaysWantsTo(OldestFirst):
    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return True, GCTriggerReason.THRESHOLD


@caught_by("test_collects_in_a_full_window")
class NeverWantsTo(OldestFirst):
    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return False, None


@caught_by("test_collects_in_a_full_window")
class ReturnsAnUnknownReason(OldestFirst):
    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return True, "my own reason"  # type: ignore[return-value]


@caught_by("test_leaves_an_empty_history_empty", by=IndexError)
class RaisesOnAnEmptyHistory(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, notification=asked.history[0].text)


@caught_by("test_leaves_an_empty_history_empty")
class FailsOnAnEmptyHistory(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, success=bool(asked.history))


@caught_by("test_leaves_an_empty_history_empty", "test_counts_are_honest")
class AlwaysAddsANotice(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        notice = Message.from_text(Role.USER, "tidied", synthetic=SyntheticKind.NOTICE)
        return [*after, notice], result


# Invariants.


@caught_by("test_breaks_no_invariant")
class RemovesACallWithoutItsResult(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, [each for each in after if each.function_calls][:1])


@caught_by("test_breaks_no_invariant")
class RemovesAResultWithoutItsCall(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, [each for each in after if each.is_tool_output][:1])


@caught_by("test_breaks_no_invariant")
class SplitsAParallelBatch(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in after:
            if len(message.function_responses) > 1:
                return exchange(after, result, message, message.with_parts(message.parts[1:]))
        return after, result


@caught_by("test_breaks_no_invariant")
class MovesResults(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        results = [each for each in after if each.is_tool_output]
        return [each for each in after if not each.is_tool_output] + results, result


@caught_by("test_breaks_no_invariant")
class Reorders(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        turns = [list(turn.messages) for turn in lay_out(after).turns]
        rest = [each for each in after if all(each not in turn for turn in turns)]
        return rest + [each for turn in reversed(turns) for each in turn], result


@caught_by("test_breaks_no_invariant")
class ChangesAThought(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in after:
            if any(part.thought for part in message.parts):
                parts = [replace(part, thought=part.thought and "…") for part in message.parts]
                return exchange(after, result, message, message.with_parts(parts))
        return after, result


@caught_by("test_breaks_no_invariant")
class ChangesTextWithoutAnItem(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return [
            message.with_parts([replace(message.parts[0], text="OK"), *message.parts[1:]])
            if message.text
            else message
            for message in after
        ], result


@caught_by("test_breaks_no_invariant")
class LeavesAnEmptyMessage(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in after:
            if message.role is Role.MODEL and not message.function_calls:
                return exchange(after, result, message, message.with_parts([]))
        return after, result


@caught_by("test_breaks_no_invariant")
class AddsAUserMessage(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return [*after, Message.from_text(Role.USER, "and hurry up")], result


@caught_by("test_breaks_no_invariant")
class RepeatsAMessage(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after + after[:1], result


@caught_by("test_breaks_no_invariant")
class StartsWithTheModel(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, [each for each in after if each.opens_turn][:1])


# Protection.


class RemovesHeld(Mutant):
    hold: ClassVar[Hold]

    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, asked.held(self.hold))


@caught_by("test_keeps_what_is_protected")
class RemovesLocked(RemovesHeld):
    hold = Hold.LOCKED


@caught_by("test_keeps_what_is_protected")
class RemovesPinned(RemovesHeld):
    hold = Hold.PINNED


@caught_by("test_keeps_what_is_protected")
class RemovesRecent(RemovesHeld):
    hold = Hold.RECENT


@caught_by("test_keeps_what_is_protected")
class RemovesTheNewestUserMessage(RemovesHeld):
    hold = Hold.NEWEST_USER


@caught_by("test_keeps_what_is_protected")
class NamesItsRemovalsLikeCore(RemovesHeld):
    hold = Hold.RECENT

    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        after, result = super().spoil(asked, after, result)
        result.removal_list = [replace(item, reason="fit_messages") for item in result.removal_list]
        return after, result


@caught_by("test_keeps_what_is_protected")
class RemovesOpenCalls(RemovesHeld):
    hold = Hold.OPEN_CALL


@caught_by("test_keeps_what_is_protected")
class RemovesSystemMessages(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, [each for each in after if each.role is Role.SYSTEM])


@caught_by("test_keeps_what_is_protected")
class IgnoresPinnedMessages(OldestFirst):
    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Answer:
        if budget:
            budget = budget.copy()
            budget._tree.fixed.pinned.clear()
        return super().collect(history, context_usage, config, reason, budget)


@caught_by("test_keeps_what_is_protected", "test_follows_every_policy")
class IgnoresPolicies(OldestFirst):
    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Answer:
        without = [replace(each, policy=GCPolicy.EPHEMERAL) for each in history]
        after, result = super().collect(without, context_usage, config, reason, budget)
        policies = {message.message_id: message.policy for message in history}
        return [replace(message, policy=policies[message.message_id]) for message in after], result


@caught_by("test_keeps_what_is_protected")
class ShortensTheLastResults(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in reversed(after):
            if message.function_responses:
                parts = [
                    replace(part, function_response=replace(part.function_response, result="…"))
                    if part.function_response
                    else part
                    for part in message.parts
                ]
                return exchange(after, result, message, message.with_parts(parts))
        return after, result


@caught_by("test_keeps_what_is_protected")
class ShortensRecentAnswers(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in asked.held(Hold.RECENT):
            if message.role is Role.MODEL and not message.function_calls and message in after:
                return exchange(after, result, message, message.with_parts([Part(text="…")]))
        return after, result


# Policies.


class RemovesOnly(OldestFirst):
    """Has its own list of policies."""

    policies: ClassVar[tuple[GCPolicy, ...]]

    def select(self, collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "oldest", self.policies)


@caught_by("test_follows_every_policy")
class NeverRemovesEphemeral(RemovesOnly):
    policies = (GCPolicy.PARTIAL,)


@caught_by("test_follows_every_policy")
class NeverRemovesPartial(RemovesOnly):
    policies = (GCPolicy.EPHEMERAL,)


@caught_by("test_follows_every_policy")
class RemovesPreservableWithoutPressure(RemovesOnly):
    policies = tuple(GCPolicy)


# The result.


@caught_by("test_removal_list_is_the_difference")
class OmitsAnItem(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, removal_list=result.removal_list[1:])


@caught_by("test_removal_list_is_the_difference")
class OmitsAMessage(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        items = [replace(item, message_ids=item.message_ids[1:]) for item in result.removal_list]
        return after, replace(result, removal_list=items)


@caught_by("test_removal_list_is_the_difference")
class ListsRemainingMessages(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        ids = [message.message_id for message in after]
        item = GCRemovalItem(CONVERSATION, "rest", 0, "truncated", ids)
        return after, replace(result, removal_list=[*result.removal_list, item])


@caught_by("test_removal_list_is_the_difference")
class ListsAMessageTwice(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        again = [replace(item, child_key="again") for item in result.removal_list]
        return after, replace(result, removal_list=result.removal_list + again)


@caught_by("test_removal_list_is_the_difference")
class MiscountsAnItem(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        items = [replace(item, tokens_freed=item.tokens_freed + 1) for item in result.removal_list]
        return after, replace(result, removal_list=items)


@caught_by("test_removal_list_is_the_difference", "test_budget_follows")
class RemovesToolSchemas(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        item = GCRemovalItem(InstructionSource.PLUGIN, "schemas", 0, "ephemeral")
        return after, replace(result, removal_list=[*result.removal_list, item])


@caught_by("test_counts_are_honest")
class MiscountsTheTotal(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, tokens_after=result.tokens_after - bool(result.removal_list))


@caught_by("test_counts_are_honest")
class CountsTheHistoryAlone(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(
            result, tokens_before=count_tokens(asked.history), tokens_after=count_tokens(after)
        )


@caught_by("test_counts_are_honest")
class EnlargesTheContext(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        text = "What was removed was important. " * 2000
        summary = Message.from_text(Role.USER, text, synthetic=SyntheticKind.SUMMARY)
        more = count_tokens([summary])
        return [*after, summary], replace(result, tokens_after=result.tokens_after + more)


@caught_by("test_outcome_is_honest")
class AlwaysSaysReached(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, outcome=GCOutcome.REACHED)


@caught_by("test_outcome_is_honest")
class SaysReachedWhenShort(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        short = result.outcome is GCOutcome.SHORT
        return after, replace(result, outcome=GCOutcome.REACHED if short else result.outcome)


@caught_by("test_outcome_is_honest")
class SaysShortWhenReached(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        reached = result.outcome is GCOutcome.REACHED
        return after, replace(result, outcome=GCOutcome.SHORT if reached else result.outcome)


@caught_by("test_outcome_is_honest")
class AlwaysSaysNotNeeded(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, outcome=GCOutcome.NOT_NEEDED)


@caught_by("test_outcome_is_honest")
class ChangesNothingAndSaysNotNeeded(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return asked.history, replace(
            result, outcome=GCOutcome.NOT_NEEDED, tokens_after=result.tokens_before, removal_list=[]
        )


@caught_by("test_outcome_is_honest")
class StopsAtTheTurnLimitPlusOne(OldestFirst):
    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Answer:
        turns = config.max_turns and config.max_turns + 1
        config = config.model_copy(update={"max_turns": turns})
        return super().collect(history, context_usage, config, reason, budget)


@caught_by("test_outcome_is_honest")
class SaysThatItFailed(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, success=False)


@caught_by("test_says_who_and_why")
class ReturnsAnotherName(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, plugin_name="gc_budget")


@caught_by("test_says_who_and_why")
class AlwaysReturnsThreshold(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, trigger_reason=GCTriggerReason.THRESHOLD)


# The arguments.


@caught_by("test_leaves_its_input_alone")
class ShortensTheListItIsGiven(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        asked.history[:] = after
        return asked.history, result


@caught_by("test_leaves_its_input_alone")
class MarksMessages(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in after:
            message.extra = {**(message.extra or {}), "kept": True}  # type: ignore[misc]
        return after, result


@caught_by("test_leaves_its_input_alone")
class ShortensInPlace(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in asked.history:
            for answer in message.function_responses:
                answer.result = "…"  # type: ignore[misc]
        return after, result


@caught_by("test_leaves_its_input_alone")
class WritesIntoTheUsage(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        usage: Any = asked.usage
        usage["total_tokens"] = result.tokens_after
        return after, result


@caught_by("test_leaves_its_input_alone")
class WritesIntoTheConfig(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        asked.config.plugin_config["collections"] = 1
        return after, result


@caught_by("test_leaves_its_input_alone", "test_budget_follows")
class UpdatesTheBudget(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        left = {message.message_id for message in after}
        gone = [each for each in asked.history if each.message_id not in left]
        if asked.budget:
            asked.budget.remove_messages({each.message_id: count_tokens([each]) for each in gone})
        return after, result


@caught_by("test_budget_follows")
class ReplacesIds(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return [replace(message, message_id="") for message in after], result


@caught_by("test_is_deterministic")
class ChoosesAtRandom(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, random.sample(after, min(1, len(after))))


@caught_by("test_is_deterministic")
class CountsItsCalls(Mutant):
    calls = 0

    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        self.calls += 1
        return take(after, result, after[:1]) if self.calls > 1 else (after, result)


@caught_by("test_is_deterministic")
class CountsItsInstances(Mutant):
    instances: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        CountsItsInstances.instances += 1

    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, notification=f"collector {self.instances}")


@caught_by("test_is_idempotent_at_the_target")
class RemovesOneMoreTurnEachTime(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        if "relaxed" in result.details:  # a session rejects that, which would hide the fault
            return asked.history, replace(result, removal_list=[], outcome=GCOutcome.NO_GAIN)
        layout = protect(lay_out(after), asked.config, asked.budget)
        for turn in layout.turns:
            if not any(group.hold for group in turn.groups):
                return take(after, result, turn.messages)
        return after, result


@caught_by("test_is_idempotent_at_the_target")
class ReplacesItsNoticeEachTime(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        others = [each for each in after if each.synthetic is not SyntheticKind.NOTICE]
        if len(others) == len(after) and result.tokens_freed < 20:
            return after, result
        text = f"{len(asked.history)} messages before"
        notice = Message.from_text(Role.USER, text, synthetic=SyntheticKind.NOTICE)
        return [*others, notice], result


# Long sessions and long histories.


@caught_by("test_survives_a_long_session")
class RemovesNothing(NoGCPlugin, OldestFirst):
    pass


@caught_by("test_survives_a_long_session")
class AddsANoticeEachTime(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        if not result.removal_list:
            return after, result
        notice = Message.from_text(Role.USER, "tidied", synthetic=SyntheticKind.NOTICE)
        return [*after, notice], result


@caught_by("test_work_grows_with_the_history_only")
class SearchesAListOfIds(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        gone = [each for item in result.removal_list for each in item.message_ids]
        return [each for each in asked.history if each.message_id not in gone], result


@caught_by("test_work_grows_with_the_history_only")
class SearchesAListOfMessages(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return [each for each in asked.history if each in after], result


@caught_by("test_work_grows_with_the_history_only")
class RecountsForEachTurn(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for _ in result.removal_list:
            count_tokens(asked.history)
        return after, result


# --- mutants of select ---


@caught_by("test_works_the_same_without_a_session")
class CollectsDifferentlyAlone(OldestFirst):
    """Replaces ``collect`` of the instance, so that a session and another host differ."""

    def __init__(self) -> None:
        super().__init__()
        self.collect = self.collect_nothing  # type: ignore[method-assign]

    def collect_nothing(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Answer:
        return NoGCPlugin().collect(history, context_usage, config, reason, budget)


@caught_by("test_works_the_same_without_a_session")
class RemovesAllOnEverySecondCall(OldestFirst):
    calls = 0

    def select(self, collection: Collection) -> None:
        self.calls += 1
        collection.remove_oldest(collection.turns, "oldest", to_goal=self.calls % 2 == 0)


@caught_by("test_keeps_no_collection")
class KeepsItsCollection(OldestFirst):
    def select(self, collection: Collection) -> None:
        self.last = collection
        super().select(collection)


@caught_by("test_keeps_no_collection")
class KeepsAMethodOfItsCollection(OldestFirst):
    def select(self, collection: Collection) -> None:
        super().select(collection)
        self.shorten_later = collection.shorten


Write = Callable[[Collection], object]


def messages_with(collection: Collection, name: str) -> Iterable[Message]:
    """Returns the messages whose property ``name`` is not empty."""
    return (message for message in collection.history if getattr(message, name))


def set_field(objects: str, name: str, value: object = None) -> Write:
    """Returns a function that writes on a field of all objects in a property of a collection."""

    def write(collection: Collection) -> None:
        for each in getattr(collection, objects):
            setattr(each, name, value)

    return write


def budget_of(collection: Collection) -> Any:
    assert collection.budget is not None
    return collection.budget


def entries_of(collection: Collection) -> list[Any]:
    found = (budget_of(collection).entry_of(each.message_id) for each in collection.history)
    return [entry for entry in found if entry]


def write_argument(collection: Collection) -> None:
    for message in messages_with(collection, "function_calls"):
        message.function_calls[0].args["path"] = "…"


def write_nested_argument(collection: Collection) -> None:
    for message in messages_with(collection, "function_calls"):
        message.function_calls[0].args.get("lines", []).append(2)


def write_result(collection: Collection) -> None:
    for message in messages_with(collection, "function_responses"):
        if isinstance(message.function_responses[0].result, dict):
            message.function_responses[0].result.clear()


def write_extra(collection: Collection) -> None:
    for message in messages_with(collection, "extra"):
        message.extra["cache_control"]["type"] = "none"  # type: ignore[index]


def write_signature(collection: Collection) -> None:
    for message in collection.history:
        for part in message.parts:
            if part.extra:
                part.extra.pop("signature")


def write_metadata(collection: Collection) -> None:
    for entry in entries_of(collection):
        entry.metadata["kept"] = True


def write_entry(collection: Collection) -> None:
    for entry in entries_of(collection):
        entry.tokens = 0


WRITES: dict[str, Write] = {
    "hold of a group": set_field("groups", "hold"),
    "policy of a group": set_field("groups", "policy", GCPolicy.EPHEMERAL),
    "groups of a turn": set_field("turns", "groups", ()),
    "parts of a message": set_field("history", "parts", ()),
    "policy of a message": set_field("history", "policy"),
    "config of the collection": lambda each: setattr(each, "config", GCConfig()),
    "list of groups": lambda each: each.groups.clear(),  # type: ignore[attr-defined]
    "list of messages": lambda each: each.history.clear(),  # type: ignore[attr-defined]
    "argument": write_argument,
    "nested argument": write_nested_argument,
    "result": write_result,
    "extra of a message": write_extra,
    "extra of a part": write_signature,
    "limit of the budget": lambda each: setattr(each.budget, "context_limit", 1),
    "pins of the budget": lambda each: setattr(budget_of(each), "pinned_message_ids", ()),
    "method of the budget": lambda each: budget_of(each).clear_source(CONVERSATION),
    "entries of the budget": lambda each: budget_of(each).entries.clear(),
    "entry of the budget": write_entry,
    "metadata of an entry": write_metadata,
}


def force_hold(collection: Collection) -> None:
    groups = tuple(group._replace(hold=None) for group in collection.groups)
    collection._draft.groups = groups


def force_groups(collection: Collection) -> None:
    collection._draft.groups = collection.groups[1:]


def force_turn(collection: Collection) -> None:
    for turn in collection.turns:
        object.__setattr__(turn, "groups", ())


def force_text(collection: Collection) -> None:
    for message in collection.history:
        object.__setattr__(message.parts[0], "text", "…")


def force_argument(collection: Collection) -> None:
    for message in messages_with(collection, "function_calls"):
        dict.clear(message.function_calls[0].args)


def force_result(collection: Collection) -> None:
    for message in messages_with(collection, "function_responses"):
        object.__setattr__(message.function_responses[0], "result", "…")


def force_entry(collection: Collection) -> None:
    for entry in entries_of(collection):
        entry._tokens += 1


FORCED_WRITES: list[tuple[str, Write]] = [
    ("message m", force_text),
    ("message m", force_argument),
    ("message m", force_result),
    ("the group of message m", force_hold),
    ("the list of groups", force_groups),
    ("turn 0", force_turn),
    ("the history", lambda each: setattr(each._draft, "history", ())),
    ("the configuration", lambda each: setattr(each._draft, "config", GCConfig(max_turns=7))),
    ("the configuration", lambda each: dict.update(each.config.plugin_config, kept=True)),
    ("the budget", lambda each: vars(each.budget).update(context_limit=1)),
    ("the budget", lambda each: vars(each.budget)["_tree"].fixed.pinned.update(m9=None)),
    ("the budget", force_entry),
]


@caught_by("test_select_only_reads")
class Writes(OldestFirst):
    """Writes on something that it is given, before it removes anything."""

    def __init__(self, write: Write = WRITES["hold of a group"]) -> None:
        super().__init__()
        self.write = write

    def select(self, collection: Collection) -> None:
        self.write(collection)
        super().select(collection)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_strategy_that_writes_on_a_read_only_object_is_caught(write: Write) -> None:
    with pytest.raises(AssertionError, match="select wrote on a read-only object") as caught:
        run("test_select_only_reads", lambda: Writes(write))

    assert f"{__file__}:" in str(caught.value)


@pytest.mark.parametrize(("place", "write"), FORCED_WRITES)
def test_a_strategy_that_writes_without_an_error_is_caught(place: str, write: Write) -> None:
    with pytest.raises(AssertionError, match=f"select wrote on {place}"):
        run("test_select_only_reads", lambda: Writes(write))


def test_a_strategy_that_ignores_the_error_of_a_write_is_caught_if_it_changed_something() -> None:
    def write(collection: Collection) -> None:
        with suppress(AttributeError):
            for part in (each.parts[0] for each in collection.history):
                object.__setattr__(part, "text", "…")
                part.text = "…"  # type: ignore[misc]

    with pytest.raises(AssertionError, match="select wrote on message m0"):
        run("test_select_only_reads", lambda: Writes(write))


# --- running the checks ---


def suite_of(factory: Callable[[], GCPlugin]) -> StrategyConformance:
    suite: type[StrategyConformance] = type(
        "TestSome", (StrategyConformance,), {"factory": staticmethod(factory)}
    )
    return suite()


def run(check: str, factory: Callable[[], GCPlugin]) -> None:
    """Runs one check on the same examples every time, without shrinking a failure."""
    suite = suite_of(factory)
    method = getattr(suite, check)
    if not is_hypothesis_test(method):
        method()
        return

    @settings(
        max_examples=100,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(situations())
    def on_examples(situation: Situation) -> None:
        method.hypothesis.inner_test(suite, situation)

    on_examples()


@pytest.mark.parametrize(
    ("check", "mutant", "error"),
    [pytest.param(*each, id=f"{each[1].__name__}-{each[0]}") for each in MUTANTS],
)
def test_each_check_catches_its_mutants(
    check: str, mutant: type[OldestFirst], error: type[Exception]
) -> None:
    with pytest.raises(error):
        run(check, mutant)


def test_every_check_has_a_mutant() -> None:
    assert {check for check, _, _ in MUTANTS} == set(CHECKS)


# --- the guard ---


def test_a_check_cannot_be_overridden_without_xfail() -> None:
    with pytest.raises(TypeError, match=r"TestMine overrides test_is_deterministic: .*xfail"):

        class TestMine(StrategyConformance):
            def test_is_deterministic(self) -> None:
                pass


def test_a_check_cannot_be_deleted() -> None:
    with pytest.raises(TypeError, match="TestMine overrides test_counts_are_honest"):

        class TestMine(StrategyConformance):
            test_counts_are_honest = None  # type: ignore[assignment]


def test_a_check_cannot_be_replaced_by_another_name() -> None:
    with pytest.raises(TypeError, match="TestMine overrides test_budget_follows"):

        class TestMine(StrategyConformance):
            check_of_the_budget = StrategyConformance.test_budget_follows
            test_budget_follows = property(check_of_the_budget)


def test_a_check_cannot_be_overridden_by_a_mixin() -> None:
    class Lenient:
        def test_is_deterministic(self) -> None:
            pass

    with pytest.raises(TypeError, match="TestMine overrides test_is_deterministic"):

        class TestMine(Lenient, StrategyConformance):
            pass


@pytest.mark.parametrize(
    "mark", [pytest.mark.xfail, pytest.mark.xfail(reason=""), pytest.mark.skip(reason="flaky")]
)
def test_an_override_needs_xfail_with_a_reason(mark: pytest.MarkDecorator) -> None:
    with pytest.raises(TypeError, match="overrides test_is_deterministic"):

        class TestMine(StrategyConformance):
            @mark
            def test_is_deterministic(self) -> None:
                pass


def test_an_override_with_a_reason_is_accepted_and_inherited() -> None:
    class TestMine(StrategyConformance):
        @staticmethod
        def factory() -> GCPlugin:
            return OldestFirst()

        @pytest.mark.xfail(reason="it calls a model")
        def test_is_deterministic(self) -> None:
            super().test_is_deterministic()

    class TestMineToo(TestMine):
        pass

    [mark] = getattr(TestMineToo.test_is_deterministic, "pytestmark")  # noqa: B009
    assert (mark.name, mark.kwargs) == ("xfail", {"reason": "it calls a model"})
    TestMineToo().test_has_the_shape_of_a_plugin()


def test_a_suite_needs_a_factory() -> None:
    class TestMine(StrategyConformance):
        pass

    with pytest.raises(TypeError, match="factory"):
        TestMine()  # type: ignore[abstract]
