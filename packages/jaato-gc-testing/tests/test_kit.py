"""The suite itself: right strategies pass it, and each of its checks catches a wrong one."""

# ruff: noqa: ARG002  a mutant has its signature from what it mutates

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, given, is_hypothesis_test, settings

from jaato_gc import (
    Collection,
    ContextFloorError,
    ContextUsage,
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCRemovalItem,
    GCResult,
    GCStrategy,
    GCTriggerReason,
    Hold,
    InstructionBudget,
    InstructionSource,
    Message,
    Part,
    Role,
    StrategySettings,
    SyntheticKind,
    ToolResult,
    count_tokens,
    lay_out,
    protect,
)
from jaato_gc_testing import NoGCPlugin, Situation, StrategyConformance, situations

CHECKS = [name for name in dir(StrategyConformance) if name.startswith("test_")]

CONVERSATION = InstructionSource.CONVERSATION

Answer = tuple[list[Message], GCResult]


# --- right strategies ---


class Reference(GCStrategy[StrategySettings]):
    """The oldest turns go."""

    name = "gc_reference"

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Answer:
        collection = Collection(
            self.name,
            history,
            context_usage,
            self.effective(config),
            reason,
            budget,
            notice=self.settings.notice_template,
        )
        collection.remove_oldest(collection.turns, "truncated")
        collection.clear_recent_results()
        return collection.finish()


class FromTheReadme:
    """As the seeds' README says: no budget, no removal list, no outcome, nothing of core's."""

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


class TestReference(StrategyConformance):
    @staticmethod
    def factory() -> GCPlugin:
        return Reference()


class TestReferenceWithNotice(StrategyConformance):
    @staticmethod
    def factory() -> GCPlugin:
        plugin = Reference()
        plugin.initialize({"notify_on_gc": True})
        return plugin


class TestFromTheReadme(StrategyConformance):
    @staticmethod
    def factory() -> GCPlugin:
        # No `budget`: the protocol has it, and the session makes do without.
        plugin: Any = FromTheReadme()
        plugin.initialize()
        return plugin  # type: ignore[no-any-return]


class TestNoGC(StrategyConformance):
    @staticmethod
    def factory() -> GCPlugin:
        return NoGCPlugin()

    @pytest.mark.xfail(reason="it frees nothing", raises=ContextFloorError)
    def test_survives_a_long_session(self) -> None:
        super().test_survives_a_long_session()


# --- wrong ones ---


@dataclass
class Asked:
    """What a strategy was called with."""

    history: list[Message]
    usage: ContextUsage
    config: GCConfig
    reason: GCTriggerReason
    budget: InstructionBudget | None

    def held(self, hold: Hold) -> list[Message]:
        """The messages that are kept for this reason."""
        layout = lay_out(self.history)
        protect(layout, self.config, self.budget)
        return [each for group in layout.groups if group.hold is hold for each in group.messages]


class Mutant(Reference):
    """The reference, whose answer is then spoilt."""

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
    """Remove some more, and account for it as one should."""
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
    """Put a message in the place of another, and account for it as one should."""
    freed = count_tokens([old]) - count_tokens([new])
    item = GCRemovalItem(CONVERSATION, "new", freed, "spoilt", [old.message_id], action="clear")
    return [new if message is old else message for message in after], replace(
        result,
        tokens_after=result.tokens_after - freed,
        removal_list=[*result.removal_list, item],
        outcome=GCOutcome.REACHED,
    )


MUTANTS: list[tuple[str, type[Reference], type[Exception]]] = []


def caught_by(
    *checks: str, by: type[Exception] = AssertionError
) -> Callable[[type[Reference]], type[Reference]]:
    """Enter a mutant into the table: which checks catch it, and with which error."""

    def enter(mutant: type[Reference]) -> type[Reference]:
        MUTANTS.extend((check, mutant, by) for check in checks)
        return mutant

    return enter


# What a strategy is.


@caught_by("test_has_the_shape_of_a_plugin")
class CannotBeShutDown(Reference):
    shutdown = None  # type: ignore[assignment]


@caught_by("test_has_the_shape_of_a_plugin", by=RuntimeError)
class FailsToShutDown(Reference):
    def shutdown(self) -> None:
        raise RuntimeError("there is nothing to close")


@caught_by("test_has_the_shape_of_a_plugin")
class HasNoName(Reference):
    name = ""


@caught_by("test_does_not_collect_far_below_every_limit")
class AlwaysWantsTo(Reference):
    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return True, GCTriggerReason.THRESHOLD


@caught_by("test_collects_in_a_full_window")
class NeverWantsTo(Reference):
    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return False, None


@caught_by("test_collects_in_a_full_window", by=ValueError)
class HasAReasonOfItsOwn(Reference):
    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return True, "felt like it"  # type: ignore[return-value]


@caught_by("test_leaves_an_empty_history_empty", by=IndexError)
class StumblesOverAnEmptyHistory(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, notification=asked.history[0].text)


@caught_by("test_leaves_an_empty_history_empty")
class FailsOnAnEmptyHistory(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, success=bool(asked.history))


@caught_by("test_leaves_an_empty_history_empty", "test_counts_are_honest")
class AlwaysSaysSomething(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        notice = Message.from_text(Role.USER, "tidied", synthetic=SyntheticKind.NOTICE)
        return [*after, notice], result


# What a collection has to keep to: invariants.


@caught_by("test_breaks_no_invariant")
class OrphansAResult(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, [each for each in after if each.function_calls][:1])


@caught_by("test_breaks_no_invariant")
class DropsAResult(Mutant):
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
class PutsResultsInAnotherPlace(Mutant):
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
class AltersAThought(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in after:
            if any(part.thought for part in message.parts):
                parts = [replace(part, thought=part.thought and "…") for part in message.parts]
                return exchange(after, result, message, message.with_parts(parts))
        return after, result


@caught_by("test_breaks_no_invariant")
class AltersTextInSilence(Mutant):
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
class SmugglesAMessageIn(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return [*after, Message.from_text(Role.USER, "and hurry up")], result


@caught_by("test_breaks_no_invariant")
class SaysAMessageTwice(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after + after[:1], result


@caught_by("test_breaks_no_invariant")
class StartsWithTheModel(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, [each for each in after if each.opens_turn][:1])


# What is protected.


class DropsHeld(Mutant):
    hold: ClassVar[Hold]

    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, asked.held(self.hold))


@caught_by("test_keeps_what_is_protected")
class DropsLocked(DropsHeld):
    hold = Hold.LOCKED


@caught_by("test_keeps_what_is_protected")
class DropsPinned(DropsHeld):
    hold = Hold.PINNED


@caught_by("test_keeps_what_is_protected")
class DropsRecent(DropsHeld):
    hold = Hold.RECENT


@caught_by("test_keeps_what_is_protected")
class DropsOpenCalls(DropsHeld):
    hold = Hold.OPEN_CALL


@caught_by("test_keeps_what_is_protected")
class DropsSystemMessages(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, [each for each in after if each.role is Role.SYSTEM])


@caught_by("test_keeps_what_is_protected")
class KnowsPinnedTurnsOnly(Reference):
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
            budget.pinned_message_ids.clear()
        return super().collect(history, context_usage, config, reason, budget)


@caught_by("test_keeps_what_is_protected")
class KnowsNoPolicies(Reference):
    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> Answer:
        forgetful = [replace(each, policy=GCPolicy.EPHEMERAL) for each in history]
        after, result = super().collect(forgetful, context_usage, config, reason, budget)
        policies = {message.message_id: message.policy for message in history}
        return [replace(message, policy=policies[message.message_id]) for message in after], result


@caught_by("test_keeps_what_is_protected")
class ClearsTheLastResults(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in reversed(after):
            if answers := message.function_responses:
                parts = [
                    Part(function_response=ToolResult(answer.call_id, answer.name, "…"))
                    for answer in answers
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


# The account.


@caught_by("test_removal_list_is_the_difference")
class ForgetsAnItem(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, removal_list=result.removal_list[1:])


@caught_by("test_removal_list_is_the_difference")
class ForgetsAMessage(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        items = [replace(item, message_ids=item.message_ids[1:]) for item in result.removal_list]
        return after, replace(result, removal_list=items)


@caught_by("test_removal_list_is_the_difference")
class ListsWhatIsStillThere(Mutant):
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
class LiesAboutTheTokensOfAnItem(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        items = [replace(item, tokens_freed=item.tokens_freed + 1) for item in result.removal_list]
        return after, replace(result, removal_list=items)


@caught_by("test_removal_list_is_the_difference", "test_budget_follows")
class TakesToolSchemas(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        item = GCRemovalItem(InstructionSource.PLUGIN, "schemas", 0, "ephemeral")
        return after, replace(result, removal_list=[*result.removal_list, item])


@caught_by("test_counts_are_honest")
class SubtractsALittleWrong(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, tokens_after=result.tokens_after - bool(result.removal_list))


@caught_by("test_counts_are_honest")
class CountsTheHistoryAlone(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(
            result, tokens_before=count_tokens(asked.history), tokens_after=count_tokens(after)
        )


@caught_by("test_counts_are_honest")
class MakesTheContextLarger(Mutant):
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
class SaysThatNothingHadToGo(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, outcome=GCOutcome.NOT_NEEDED)


@caught_by("test_outcome_is_honest")
class GivesUpAndSaysNothingHadToGo(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return asked.history, replace(
            result, outcome=GCOutcome.NOT_NEEDED, tokens_after=result.tokens_before, removal_list=[]
        )


@caught_by("test_outcome_is_honest")
class StopsAtTheTurnLimitPlusOne(Reference):
    def effective(self, config: GCConfig) -> Any:
        turns = config.max_turns and config.max_turns + 1
        return super().effective(config).model_copy(update={"max_turns": turns})


@caught_by("test_outcome_is_honest")
class SaysThatItFailed(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, success=False)


@caught_by("test_says_who_and_why")
class PosesAsAnother(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, plugin_name="gc_budget")


@caught_by("test_says_who_and_why")
class AlwaysNamesTheThreshold(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return after, replace(result, trigger_reason=GCTriggerReason.THRESHOLD)


# Purity.


@caught_by("test_leaves_its_input_alone")
class ShortensTheListItIsGiven(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        asked.history[:] = after
        return asked.history, result


@caught_by("test_leaves_its_input_alone")
class MarksMessages(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in after:
            message.extra = {**(message.extra or {}), "survived": True}
        return after, result


@caught_by("test_leaves_its_input_alone")
class ClearsInPlace(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for message in asked.history:
            for answer in message.function_responses:
                answer.result = "…"
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
class KeepsTheBudgetItself(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        left = {message.message_id for message in after}
        gone = [each for each in asked.history if each.message_id not in left]
        if asked.budget:
            asked.budget.remove_messages({each.message_id: count_tokens([each]) for each in gone})
        return after, result


@caught_by("test_budget_follows")
class GivesNewIds(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return [replace(message, message_id="") for message in after], result


@caught_by("test_is_deterministic")
class TossesACoin(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return take(after, result, random.sample(after, min(1, len(after))))


@caught_by("test_is_deterministic")
class RemembersTheLastTime(Mutant):
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
class TakesATurnMoreEachTime(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        layout = lay_out(after)
        protect(layout, asked.config, asked.budget)
        for turn in layout.turns:
            if not any(group.hold for group in turn.groups):
                return take(after, result, turn.messages)
        return after, result


@caught_by("test_is_idempotent_at_the_target")
class RenewsItsNoticeEachTime(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        if any(message.synthetic for message in after):
            return [replace(each) if each.synthetic else each for each in after], result
        if result.tokens_freed < 20:
            return after, result
        notice = Message.from_text(Role.USER, "tidied", synthetic=SyntheticKind.NOTICE)
        cost = count_tokens([notice])
        return [*after, notice], replace(result, tokens_after=result.tokens_after + cost)


# Over time, and at size.


@caught_by("test_survives_a_long_session", by=ContextFloorError)
class FreesNothing(NoGCPlugin, Reference):
    pass


@caught_by("test_survives_a_long_session")
class PilesUpNotices(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        if not result.removal_list:
            return after, result
        notice = Message.from_text(Role.USER, "tidied", synthetic=SyntheticKind.NOTICE)
        return [*after, notice], result


@caught_by("test_work_grows_with_the_history_only")
class LooksForEachIdInAList(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        gone = [each for item in result.removal_list for each in item.message_ids]
        return [each for each in asked.history if each.message_id not in gone], result


@caught_by("test_work_grows_with_the_history_only")
class LooksForEachMessageInAList(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        return [each for each in asked.history if each in after], result


@caught_by("test_work_grows_with_the_history_only")
class CountsAllOverAgainForEachTurn(Mutant):
    def spoil(self, asked: Asked, after: list[Message], result: GCResult) -> Answer:
        for _ in result.removal_list:
            count_tokens(asked.history)
        return after, result


def suite_of(factory: Callable[[], GCPlugin]) -> StrategyConformance:
    suite: type[StrategyConformance] = type(
        "TestSome", (StrategyConformance,), {"factory": staticmethod(factory)}
    )
    return suite()


def run(check: str, factory: Callable[[], GCPlugin]) -> None:
    """Run one check: always on the same examples, and only up to the first that fails."""
    suite = suite_of(factory)
    method = getattr(suite, check)
    if not is_hypothesis_test(method):
        method()
        return

    @settings(
        max_examples=40,
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
def test_check_catches_mutant(check: str, mutant: type[Reference], error: type[Exception]) -> None:
    with pytest.raises(error):
        run(check, mutant)


def test_every_check_has_a_mutant() -> None:
    assert {check for check, _, _ in MUTANTS} == set(CHECKS)


# --- the guard ---


def test_check_cannot_be_overridden_in_silence() -> None:
    with pytest.raises(TypeError, match=r"TestMine overrides test_is_deterministic: .*xfail"):

        class TestMine(StrategyConformance):
            def test_is_deterministic(self) -> None:
                pass


def test_check_cannot_be_deleted() -> None:
    with pytest.raises(TypeError, match="TestMine overrides test_counts_are_honest"):

        class TestMine(StrategyConformance):
            test_counts_are_honest = None  # type: ignore[assignment]


def test_check_cannot_be_renamed_away() -> None:
    with pytest.raises(TypeError, match="TestMine overrides test_budget_follows"):

        class TestMine(StrategyConformance):
            check_of_the_budget = StrategyConformance.test_budget_follows
            test_budget_follows = property(check_of_the_budget)


def test_check_cannot_be_overridden_by_a_mixin() -> None:
    class Lenient:
        def test_is_deterministic(self) -> None:
            pass

    with pytest.raises(TypeError, match="TestMine overrides test_is_deterministic"):

        class TestMine(Lenient, StrategyConformance):
            pass


@pytest.mark.parametrize(
    "mark", [pytest.mark.xfail, pytest.mark.xfail(reason=""), pytest.mark.skip(reason="flaky")]
)
def test_override_needs_xfail_with_a_reason(mark: pytest.MarkDecorator) -> None:
    with pytest.raises(TypeError, match="overrides test_is_deterministic"):

        class TestMine(StrategyConformance):
            @mark
            def test_is_deterministic(self) -> None:
                pass


def test_override_with_a_reason_is_accepted_and_inherited() -> None:
    class TestMine(StrategyConformance):
        @staticmethod
        def factory() -> GCPlugin:
            return Reference()

        @pytest.mark.xfail(reason="it asks a model")
        def test_is_deterministic(self) -> None:
            super().test_is_deterministic()

    class TestMineToo(TestMine):
        pass

    TestMineToo().test_has_the_shape_of_a_plugin()


def test_suite_needs_a_factory() -> None:
    class TestMine(StrategyConformance):
        pass

    with pytest.raises(TypeError, match="factory"):
        TestMine()  # type: ignore[abstract]
