"""One collection in progress: the mechanism that strategies are written with."""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from jaato_gc._account import cache_impact, outcome_of, shortfall_of
from jaato_gc._budget import InstructionBudget
from jaato_gc._clearing import STUB_ONLY, Clearing, cleared
from jaato_gc._config import GCConfig
from jaato_gc._errors import SummaryError
from jaato_gc._messages import Message, SyntheticKind
from jaato_gc._policies import GCPolicy, InstructionSource
from jaato_gc._protection import protect
from jaato_gc._results import GCOutcome, GCResult, GCTriggerReason, RemovalAction
from jaato_gc._stand_ins import StandIns
from jaato_gc._stash import stash_key
from jaato_gc._summaries import SUMMARIES_SHARE, SummaryWriter
from jaato_gc._summary_checks import NotShorterError
from jaato_gc._synthetic import fill_template, is_notice, notice_message, with_notice
from jaato_gc._takings import Takings
from jaato_gc._tokens import DEFAULT_COUNTER, count_tokens
from jaato_gc._triggers import ContextUsage, goal_of
from jaato_gc._turns import Group, Hold, Turn, lay_out

FEW_TOKENS = 100
"""What is no longer than this may well have no shorter summary."""


class Collection:
    """What may go, what has gone so far, and whether that is enough.

    A strategy makes one at the start of ``collect`` (with `GCStrategy.begin`), takes turns and
    groups from it in the order it thinks best while `needs_more`, and returns
    `finish`:

        collection = self.begin(history, context_usage, config, reason, budget)
        collection.remove_oldest(collection.turns, "truncated")
        return collection.finish()

    Protected groups can't be taken: they are left where they are. The history that was given is
    never changed.

    Args:
        plugin_name: Who collects, for the result.
        history: The history as it is.
        context_usage: How full the window is.
        config: The effective configuration.
        reason: Why the collection runs; it decides how much has to go.
        budget: The budget, if there is one: its policies, pins, counter and totals are used.
        everything: Take all that may go, whatever the reason asks for.
        notice: Template of a message to the model, if it is to be told.
    """

    def __init__(
        self,
        plugin_name: str,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
        *,
        everything: bool = False,
        notice: str | None = None,
    ) -> None:
        self.config = config
        self.reason = reason
        self.counter = budget.counter if budget else DEFAULT_COUNTER
        self.details: dict[str, Any] = {}
        """What the strategy wants to add to its result."""
        layout = lay_out(history)
        protect(layout, config, budget)
        self.turns: list[Turn] = list(layout.turns)
        self.groups: list[Group] = list(layout.groups)
        self._plugin_name = plugin_name
        self._history = history
        self._budget = budget
        self._tokens_before = count_tokens(history, self.counter)
        self.goal = goal_of(
            reason,
            context_usage,
            config,
            budget,
            history_tokens=self._tokens_before,
            turns=len(self.turns),
        )
        self._everything = everything or self.goal.tokens_to_free is None
        self._takings = Takings(history, self.counter)
        self._recall_keys: dict[str, str] = {}
        self._stand_ins = StandIns(self._takings, self.counter, self.details)
        self._notice = notice
        self._notice_cost = self._reserve_for_notice()

    @property
    def needs_more(self) -> bool:
        """Whether the goal is not reached yet."""
        if self._everything:
            return True
        if self.reason is GCTriggerReason.TURN_LIMIT:
            return self._takings.turns_removed < self.goal.turns_to_remove
        return self._needs_tokens

    @property
    def under_pressure(self) -> bool:
        """Whether even PRESERVABLE content may go: a refused request, or a window that is full.

        There is no pressure in continuous mode, and none is known without a budget.
        """
        percent = self.config.pressure_percent
        if not percent:
            return False
        if self.reason is GCTriggerReason.CONTEXT_LIMIT:
            return True
        window = self.config.window(self._budget.context_limit) if self._budget else None
        return bool(
            window and self._budget and self._budget.total_tokens() >= window * percent / 100
        )

    @property
    def _needs_tokens(self) -> bool:
        return self._wanted > 0 and self._takings.freed < self._wanted

    @property
    def _wanted(self) -> int:
        """Tokens to take in all: the goal, and what a notice will cost."""
        tokens = self.goal.tokens_to_free or 0
        return tokens + self._notice_cost if tokens else 0

    # --- removing ---

    def remove_oldest(
        self,
        turns: Iterable[Turn],
        reason: str,
        policies: Container[GCPolicy] = tuple(GCPolicy),
    ) -> None:
        """Take turns, oldest first, until the goal is reached.

        A turn whose user message must stay remains a turn, so TURN_LIMIT leaves all of it alone.

        Args:
            turns: The turns to take from.
            reason: Why they go.
            policies: Take only groups under one of these.
        """
        for turn in turns:
            if not self.needs_more:
                return
            groups = [group for group in self._takable(turn.groups) if group.policy in policies]
            if self.reason is not GCTriggerReason.TURN_LIMIT or _ends_turn(groups):
                self.take(groups, turn.key, reason)

    def take(
        self,
        groups: Iterable[Group],
        key: str,
        reason: str,
        action: RemovalAction = "remove",
        *,
        keep: bool = True,
    ) -> None:
        """Take some groups, as far as they may go, under one key of the removal list.

        Args:
            groups: The groups.
            key: The key that names them.
            reason: Why they go.
            action: What becomes of them.
            keep: False: not worth a place in the stash.
        """
        messages = [message for group in self._takable(groups) for message in group.messages]
        if messages:
            self._takings.remove(messages, key, reason, action, keep=keep)

    def take_source(
        self, source: InstructionSource, child_key: str | None, tokens: int, reason: str
    ) -> None:
        """Take something that is not in the history, such as enrichment; the host drops it."""
        self._takings.drop(source, child_key, tokens, reason)

    # --- clearing ---

    def clear(
        self,
        group: Group,
        reason: str,
        how: Clearing = STUB_ONLY,
        *,
        parts: Mapping[str, Container[int]] | None = None,
        key: str | None = None,
        keep: bool = True,
    ) -> None:
        """Shorten the results or the arguments of a call, as far as that is allowed.

        Args:
            group: The call with its results; left alone if it is protected, but for results and
                arguments of recent turns that are not of the last ``preserve_recent_groups`` calls.
            reason: Why.
            how: What becomes of them.
            parts: Clear only these parts, by message id; ``None``: all.
            key: The key of the removal list; by default every message has an item of its own.
            keep: False: not worth a place in the stash.
        """
        if not self.may_clear(group):
            return
        for message in group.messages:
            if parts is not None and message.message_id not in parts:
                continue
            smaller = cleared(
                self._takings.present(message),
                how,
                parts=None if parts is None else parts[message.message_id],
                key=self._recall_key(message) if keep else None,
            )
            item_key = key or message.message_id
            self._takings.clear(message, smaller, item_key, reason, keep=keep)

    def _recall_key(self, message: Message) -> str | None:
        """What the stash will know a message by, if there is one; made once, as it costs."""
        if self._budget is None or not self._budget.has_stash:
            return None
        if message.message_id not in self._recall_keys:
            self._recall_keys[message.message_id] = stash_key(message)
        return self._recall_keys[message.message_id]

    def may_clear(self, group: Group) -> bool:
        """Whether results and arguments of a group may be shortened."""
        if self._takings.includes(group.messages[0]):
            return False
        return not group.hold or (group.hold is Hold.RECENT and id(group) in self._old_calls)

    @property
    def _recent_turns(self) -> list[Turn]:
        """The turns that may hold something for being recent: the last one has the open calls."""
        return self.turns[-max(1, self.config.preserve_recent_turns) :]

    @cached_property
    def _old_calls(self) -> set[int]:
        """The calls in recent turns, but for the last ones."""
        calls = [
            group
            for turn in self._recent_turns
            for group in turn.groups
            if group.is_call and group.hold in (Hold.RECENT, Hold.OPEN_CALL)
        ]
        return set(map(id, calls[: max(0, len(calls) - self.config.preserve_recent_groups)]))

    def clear_recent_results(self) -> None:
        """The last resort: shorten old tool results in the turns that are too recent to remove.

        One turn of an agent can fill the window. User and model text stays, and so do the results
        of the last ``preserve_recent_groups`` calls. Where a request was refused or does not fit,
        and that is not enough, summaries that earlier collections left go too, oldest first.
        """
        for turn in self._recent_turns:
            for group in turn.groups:
                if group.hold is Hold.RECENT and id(group) in self._old_calls:
                    if not self._needs_tokens:
                        return
                    self.clear(group, "cleared_recent", key=turn.key)
        if self.reason is GCTriggerReason.CONTEXT_LIMIT and self.under_pressure:
            self._take_old_summaries()

    def _take_old_summaries(self) -> None:
        for group in self.groups:
            if not self._needs_tokens:
                return
            if group.messages[0].synthetic is SyntheticKind.SUMMARY:
                self.take([group], self.key_of(group), "preservable_under_pressure")

    # --- summarizing ---

    def summarize_oldest(self, turns: Sequence[Turn], writer: SummaryWriter, reason: str) -> None:
        """Put summaries in the place of turns, oldest first, until the goal is reached.

        What the writer's settings say of errors holds: with ``"truncate"``, turns that can't be
        summarized are removed.

        Raises:
            SummaryError: There is no summary.
        """
        while self.needs_more:
            chosen = self._choose_oldest(turns, writer.settings.summary_tokens)
            try:
                if not self._summarize(chosen, writer, reason):
                    break
            except SummaryError as error:
                if writer.settings.on_summarizer_error != "truncate":
                    raise
                self.details["summarizer_error"] = str(error)
                self.remove_oldest(chosen, "truncated_fallback")
        self._fold_summaries(writer)

    def _choose_oldest(self, turns: Iterable[Turn], room: int) -> list[Turn]:
        """The oldest turns that would do, and leave so much room for their summary."""
        chosen: list[Turn] = []
        freed, ended = self._takings.freed, self._takings.turns_removed
        for turn in turns:
            groups = self._takable(turn.groups)
            if self.reason is GCTriggerReason.TURN_LIMIT:
                if ended >= self.goal.turns_to_remove:
                    break
                if not _ends_turn(groups):
                    continue
            elif not self._everything and freed >= self._wanted + room:
                break
            if groups:
                chosen.append(turn)
                freed += sum(count_tokens(group.messages, self.counter) for group in groups)
                ended += _ends_turn(groups)
        return chosen

    def _summarize(self, turns: Sequence[Turn], writer: SummaryWriter, reason: str) -> bool:
        groups = [self._takable(turn.groups) for turn in turns]
        told = [[message for group in each for message in group.messages] for each in groups]
        if not told:
            return False
        try:
            summary = writer.write(told)
        except NotShorterError:
            if sum(count_tokens(messages, self.counter) for messages in told) > FEW_TOKENS:
                raise
            return False  # so little that no summary can be shorter: that is nobody's failure
        if not self._stand_ins.pays_off(summary, [message for each in told for message in each]):
            return False
        first = min(self._position(group) for each in groups for group in each)
        self._stand_ins.add(summary, self._outside_exchanges(first))
        for turn, takable in zip(turns, groups, strict=True):
            self.take(takable, turn.key, reason, "summarize")
        return True

    def _outside_exchanges(self, position: int) -> int:
        """Where a message can be put: not among results, where a stray one may have stood."""
        start = position
        while start > 0 and self._history[start].is_tool_output:
            start -= 1
        return start if self._history[start].function_calls else position

    def _fold_summaries(self, writer: SummaryWriter) -> None:
        """Fold the oldest summaries into one, if there are too many or they are too long.

        Raises:
            SummaryError: There is no summary of them.
        """
        old = {
            self._position(group): group
            for group in self._takable(self.groups)
            if group.messages[0].synthetic is SyntheticKind.SUMMARY
        }
        chain = {position: group.messages[0] for position, group in old.items()}
        chain = dict(sorted((chain | self._takings.inserted).items()))
        most = writer.settings.max_summaries_tokens
        if self.goal.target_tokens is not None:
            most = min(most, int(self.goal.target_tokens * SUMMARIES_SHARE))
        surplus = self._stand_ins.surplus(
            list(chain.values()), max_count=writer.settings.max_summaries, max_tokens=most
        )
        oldest = list(chain)[:surplus]
        if len(oldest) < 2:
            return
        messages = [chain[position] for position in oldest]
        reason, summary = "summarized", None
        try:
            summary = writer.write([[message] for message in messages])
            if not self._stand_ins.pays_off(summary, messages):
                raise SummaryError("the summarizer returned something no shorter than it folds")
        except SummaryError as error:
            if writer.settings.on_summarizer_error != "truncate":
                raise
            self.details["summarizer_error"] = str(error)
            reason, summary = "truncated_fallback", None
            oldest.pop()
        for position in oldest:
            if position in old:
                action: RemovalAction = "summarize" if summary else "remove"
                self.take([old[position]], self.key_of(old[position]), reason, action)
            else:
                self._stand_ins.withdraw(position)
        if summary:
            self._stand_ins.add(summary, oldest[0])

    # --- ending ---

    def finish(self) -> tuple[list[Message], GCResult]:
        """The history that remains, and the account of what happened."""
        takings = self._takings
        notice, history = self._with_notice(takings.remaining())
        tokens_after = count_tokens(history, self.counter)
        freed = self._tokens_before - tokens_after + takings.freed_elsewhere
        outcome = outcome_of(
            self.goal,
            freed=freed,
            turns_removed=takings.turns_removed,
            anything_taken=bool(takings.items),
        )
        shortfall = None
        if outcome in (GCOutcome.SHORT, GCOutcome.NO_GAIN):
            missing = max(0, (self.goal.tokens_to_free or 0) - freed)
            shortfall = shortfall_of(
                missing, self.groups, history, takings, self._budget, self.counter
            )
        # All else in the context stays as it is; without a budget nothing is known of it.
        rest = self._budget.total_tokens() - self._tokens_before if self._budget else 0
        return history, GCResult(
            success=True,
            items_collected=len(takings.items),
            tokens_before=self._tokens_before + rest,
            tokens_after=tokens_after + rest - takings.freed_elsewhere,
            plugin_name=self._plugin_name,
            trigger_reason=self.reason,
            notification=notice,
            details={
                "turns_before": len(self.turns),
                "turns_removed": takings.turns_removed,
                **self.details,
            },
            removal_list=takings.items,
            outcome=outcome,
            shortfall=shortfall,
            cache=cache_impact(self._history, history, self.counter),
            confidence=self.counter.confidence,
        )

    def fail(self, error: Exception) -> tuple[list[Message], GCResult]:
        """The account of a collection that could not be done: nothing has changed."""
        self._takings = Takings(self._history, self.counter)
        self.details.clear()
        history, result = self.finish()
        result.success, result.outcome, result.error = False, GCOutcome.FAILED, str(error)
        return history, result

    # --- helpers ---

    def key_of(self, group: Group) -> str:
        """The budget's key of a group, by which the removal list names it."""
        message_id = group.messages[0].message_id
        entry = self._budget.entry_of(message_id) if self._budget else None
        return (entry and entry.key) or message_id

    def _position(self, group: Group) -> int:
        """Where the first message of a group stands."""
        return self._positions[group.messages[0].message_id]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {message.message_id: place for place, message in enumerate(self._history)}

    def _takable(self, groups: Iterable[Group]) -> list[Group]:
        return [
            group
            for group in groups
            if not group.hold
            and not self._takings.includes(group.messages[0])
            and not is_notice(group.messages[0])  # replaced, never collected
        ]

    def _reserve_for_notice(self) -> int:
        """What the notice will cost at most, beyond the one it replaces."""
        if self._notice is None:
            return 0
        text = self._notice_text(len(self.turns), len(self.turns), self._tokens_before)
        old = count_tokens(filter(is_notice, self._history), self.counter)
        return max(0, count_tokens([notice_message(text)], self.counter) - old)

    def _with_notice(self, history: list[Message]) -> tuple[str | None, list[Message]]:
        """Text and history with the notice, if there is to be one and it does not cost too much."""
        takings, cost = self._takings, self._notice_cost
        spoils_goal = takings.freed - cost < (self.goal.tokens_to_free or 0) <= takings.freed
        if self._notice is None or takings.freed <= cost or spoils_goal:
            return None, history
        kept = len(self.turns) - takings.turns_removed
        text = self._notice_text(takings.turns_removed, kept, takings.freed)
        return text, with_notice(history, text)

    def _notice_text(self, removed: int, kept: int, freed: int) -> str:
        values = {
            "turns_removed": removed,
            "turns_kept": kept,
            "tokens_freed": freed,
            "plugin_name": self._plugin_name,
            "reason": self.reason.value,
        }
        return fill_template(self._notice or "", values)


def _ends_turn(groups: Iterable[Group]) -> bool:
    return any(message.opens_turn for group in groups for message in group.messages)
