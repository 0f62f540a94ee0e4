"""One collection in progress: the mechanism that strategies are written with."""

from collections.abc import Iterable, Sequence

from jaato_gc._budget import InstructionBudget
from jaato_gc._clearing import cleared
from jaato_gc._config import GCConfig
from jaato_gc._messages import Message, Role, SyntheticKind
from jaato_gc._policies import InstructionSource
from jaato_gc._protection import protect
from jaato_gc._results import (
    CacheImpact,
    GCOutcome,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    RemovalAction,
    Shortfall,
)
from jaato_gc._synthetic import fill_template, notice_message
from jaato_gc._tokens import DEFAULT_COUNTER, TokenCounter, count_tokens
from jaato_gc._triggers import ContextUsage, goal_of
from jaato_gc._turns import Group, Hold, Turn, lay_out


class Collection:
    """What may go, what has gone so far, and whether that is enough.

    A strategy makes one at the start of ``collect``, takes turns and groups from it in the order
    it thinks best while :attr:`needs_more`, and returns :meth:`finish`::

        collection = Collection(self.name, history, context_usage, config, reason, budget)
        for turn in collection.turns:
            if collection.needs_more:
                collection.remove(turn, "truncated")
        return collection.finish()

    Protected groups can't be taken: :meth:`remove` leaves them where they are. The history that
    was given is never changed.

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
        self._plugin_name = plugin_name
        self._history = history
        self._budget = budget
        self._counter = budget.counter if budget else DEFAULT_COUNTER
        self._layout = lay_out(history)
        protect(self._layout, config, budget)
        self.turns: list[Turn] = self._layout.turns
        self._tokens_before = count_tokens(history, self._counter)
        self.goal = goal_of(
            reason,
            context_usage,
            config,
            budget,
            history_tokens=self._tokens_before,
            turns=len(self.turns),
        )
        self._everything = everything or self.goal.tokens_to_free is None
        self._removed: set[str] = set()
        self._cleared: dict[str, Message] = {}
        self._items: dict[str, GCRemovalItem] = {}
        self._freed = 0
        self._turns_removed = 0
        self._notice = notice
        self._notice_cost = self._reserve_for_notice()

    @property
    def needs_more(self) -> bool:
        """Whether the goal is not reached yet."""
        if self._everything:
            return True
        if self.reason is GCTriggerReason.TURN_LIMIT:
            return self._turns_removed < self.goal.turns_to_remove
        return self._needs_tokens

    @property
    def _needs_tokens(self) -> bool:
        wanted = self.goal.tokens_to_free or 0
        return wanted > 0 and self._freed < wanted + self._notice_cost

    def tokens(self, messages: Iterable[Message]) -> int:
        """Tokens of some messages, counted as the budget counts."""
        return count_tokens(messages, self._counter)

    def remove(self, turn: Turn, reason: str) -> int:
        """Take what may go of a turn; returns the tokens that this freed.

        A turn whose user message must stay remains a turn, so TURN_LIMIT leaves all of it alone.
        """
        groups = [group for group in turn.groups if not group.hold and not self._is_gone(group)]
        ends_turn = any(message.opens_turn for group in groups for message in group.messages)
        if not groups or (self.reason is GCTriggerReason.TURN_LIMIT and not ends_turn):
            return 0
        self._turns_removed += ends_turn
        messages = [message for group in groups for message in group.messages]
        self._removed.update(message.message_id for message in messages)
        return self._book(turn, messages, self.tokens(messages), reason, "remove")

    def clear_recent_results(self) -> None:
        """The last resort: shorten old tool results in the turns that are too recent to remove.

        One turn of an agent can fill the window. User and model text stays, and so do the results
        of the last ``preserve_recent_groups`` calls.
        """
        calls = [
            (turn, group)
            for turn in self.turns
            for group in turn.groups
            if group.is_call and group.hold in (Hold.RECENT, Hold.OPEN_CALL)
        ]
        keep = self.config.preserve_recent_groups
        for turn, group in calls[: max(0, len(calls) - keep)]:
            if group.hold is Hold.RECENT and self._needs_tokens:
                self._clear(turn, group, "cleared_recent")

    def finish(self) -> tuple[list[Message], GCResult]:
        """The history that remains, and the account of what happened."""
        notice, history = self._compose()
        tokens_after = self.tokens(history)
        # All else in the context stays as it is; without a budget nothing is known of it.
        rest = self._budget.total_tokens() - self._tokens_before if self._budget else 0
        outcome = self._outcome(self._tokens_before - tokens_after)
        return history, GCResult(
            success=True,
            items_collected=len(self._items),
            tokens_before=self._tokens_before + rest,
            tokens_after=tokens_after + rest,
            plugin_name=self._plugin_name,
            trigger_reason=self.reason,
            notification=notice,
            details={"turns_before": len(self.turns), "turns_removed": self._turns_removed},
            removal_list=list(self._items.values()),
            outcome=outcome,
            shortfall=self._shortfall(tokens_after) if outcome in _GOAL_MISSED else None,
            cache=cache_impact(self._history, history, self._counter),
            confidence=self._counter.confidence,
        )

    # --- taking ---

    def _is_gone(self, group: Group) -> bool:
        return group.messages[0].message_id in self._removed

    def _clear(self, turn: Turn, group: Group, reason: str) -> None:
        shorter: list[Message] = []
        freed = 0
        for message in group.messages:
            smaller = cleared(message)
            gain = self.tokens([message]) - self.tokens([smaller])
            if gain > 0:
                shorter.append(smaller)
                freed += gain
        if shorter:
            self._cleared.update((message.message_id, message) for message in shorter)
            self._book(turn, shorter, freed, reason, "clear")

    def _book(
        self, turn: Turn, messages: list[Message], freed: int, reason: str, action: RemovalAction
    ) -> int:
        item = self._items.setdefault(
            turn.key,
            GCRemovalItem(InstructionSource.CONVERSATION, turn.key, reason=reason, action=action),
        )
        item.message_ids.extend(message.message_id for message in messages)
        item.tokens_freed += freed
        self._freed += freed
        return freed

    # --- telling the model ---

    def _reserve_for_notice(self) -> int:
        """What the notice will cost at most, beyond the one it replaces."""
        if self._notice is None:
            return 0
        text = self._notice_text(len(self.turns), len(self.turns), self._tokens_before)
        old = [message for message in self._history if _is_notice(message)]
        return max(0, self.tokens([notice_message(text)]) - self.tokens(old))

    def _notice_text(self, removed: int, kept: int, freed: int) -> str:
        values = {
            "turns_removed": removed,
            "turns_kept": kept,
            "tokens_freed": freed,
            "plugin_name": self._plugin_name,
            "reason": self.reason.value,
        }
        return fill_template(self._notice or "", values)

    def _compose(self) -> tuple[str | None, list[Message]]:
        history = [
            self._cleared.get(message.message_id, message)
            for message in self._history
            if message.message_id not in self._removed
        ]
        if self._notice is None or self._freed <= self._notice_cost:
            return None, history
        text = self._notice_text(
            self._turns_removed, len(self.turns) - self._turns_removed, self._freed
        )
        history = [message for message in history if not _is_notice(message)]
        history.insert(_after_first_user(history), notice_message(text))
        return text, history

    # --- accounting ---

    def _outcome(self, freed: int) -> GCOutcome:
        goal = self.goal
        wanted = goal.tokens_to_free is None or goal.tokens_to_free > 0 or goal.turns_to_remove > 0
        if not self._items:
            return GCOutcome.NO_GAIN if wanted else GCOutcome.NOT_NEEDED
        enough = freed >= (goal.tokens_to_free or 0)
        return (
            GCOutcome.REACHED
            if enough and self._turns_removed >= goal.turns_to_remove
            else GCOutcome.SHORT
        )

    def _shortfall(self, tokens_after: int) -> Shortfall:
        """Who holds what remains, so that a user can see what to change."""
        held: dict[str, int] = {}
        largest, largest_tokens = None, 0
        for group in self._layout.groups:
            if not group.hold:
                continue
            for message in group.messages:
                tokens = self.tokens([self._cleared.get(message.message_id, message)])
                held[group.hold.value] = held.get(group.hold.value, 0) + tokens
                if group.hold is Hold.RECENT and tokens > largest_tokens:
                    largest, largest_tokens = message.message_id, tokens
        system = self.tokens(m for m in self._history if m.role is Role.SYSTEM)
        floor = {"system": system, "conversation": tokens_after - system}
        if self._budget:
            for source, entry in self._budget.entries.items():
                if source is not InstructionSource.CONVERSATION:
                    floor[source.value] = entry.total_tokens()
        missing = max(0, (self.goal.tokens_to_free or 0) - (self._tokens_before - tokens_after))
        return Shortfall(missing, floor, held, largest, largest_tokens)


_GOAL_MISSED = (GCOutcome.SHORT, GCOutcome.NO_GAIN)


def cache_impact(
    before: Sequence[Message], after: Sequence[Message], counter: TokenCounter = DEFAULT_COUNTER
) -> CacheImpact:
    """Where two histories part, and what the next request has to write anew."""
    shared = 0
    for old, new in zip(before, after, strict=False):
        if old is not new and old != new:
            break
        shared += 1
    changed = shared < max(len(before), len(after))
    return CacheImpact(
        first_changed=shared if changed else None,
        prefix_tokens=count_tokens(after[:shared], counter),
        rewritten_tokens=count_tokens(after[shared:], counter),
    )


def _is_notice(message: Message) -> bool:
    return message.synthetic is SyntheticKind.NOTICE


def _after_first_user(history: Sequence[Message]) -> int:
    """Where a notice stands: behind the first user message, which rarely goes, so it rarely moves.

    Without any, it comes first itself, behind the system messages that open the history.
    """
    leading = 0
    for position, message in enumerate(history):
        if message.opens_turn:
            return position + 1
        if message.role is Role.SYSTEM and position == leading:
            leading += 1
    return leading
