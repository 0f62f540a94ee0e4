"""Taking from a history: what may go, what has gone so far, whether that is enough."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from jaato_gc._budget import InstructionBudget
from jaato_gc._clearing import STUB_ONLY, Clearing, cleared
from jaato_gc._config import GCConfig
from jaato_gc._messages import Message, SyntheticKind
from jaato_gc._policies import GCPolicy, InstructionSource
from jaato_gc._protection import protect
from jaato_gc._results import GCTriggerReason, RemovalAction
from jaato_gc._stash import stash_key
from jaato_gc._synthetic import is_notice
from jaato_gc._takings import Takings
from jaato_gc._tokens import DEFAULT_COUNTER, count_tokens
from jaato_gc._triggers import ContextUsage, goal_of
from jaato_gc._turns import Group, Hold, Turn, lay_out


class Taking:
    """Removes and clears what may go.

    Args:
        history: The history as it is.
        context_usage: How full the window is.
        config: The effective configuration.
        reason: Why the collection runs; it decides how much has to go.
        budget: The budget, if there is one.
        everything: Take all that may go, whatever the reason asks for.
    """

    def __init__(
        self,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None,
        *,
        everything: bool,
    ) -> None:
        self.config = config
        self.reason = reason
        self.counter = budget.counter if budget else DEFAULT_COUNTER
        self.details: dict[str, Any] = {}
        """What the strategy wants to add to its result."""
        layout = lay_out(history)
        protect(layout, config, budget)
        self.turns: Sequence[Turn] = layout.turns
        self.groups: list[Group] = layout.groups
        self._history = history
        self._budget = budget
        self._tokens_before = count_tokens(history, self.counter)
        self.goal = goal_of(reason, context_usage, config, budget, history, len(self.turns))
        self._everything = everything or self.goal.tokens_to_free is None
        self._wanted = self.goal.tokens_to_free or 0
        """Tokens to take in all."""
        self._takings = Takings(history, self.counter)
        self._recall_keys: dict[str, str] = {}

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
            if self.reason is not GCTriggerReason.TURN_LIMIT or ends_turn(groups):
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
        if takable := self._takable(groups):
            self._takings.remove(takable, key, reason, action, keep=keep)

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
            parts: Clear only these parts, by the ids of messages in this group; ``None``: all.
            key: The key of the removal list; by default every message has an item of its own.
            keep: False: not worth a place in the stash.
        """
        if not self.may_clear(group):
            return
        for message in group.messages if parts is None else self._named(parts, group):
            smaller = cleared(
                self._takings.present(message),
                how,
                parts=None if parts is None else parts[message.message_id],
                key=self._recall_key(message) if keep else None,
            )
            item_key = key or message.message_id
            self._takings.clear(message, smaller, item_key, reason, keep=keep)

    def _named(self, message_ids: Iterable[str], group: Group) -> Iterator[Message]:
        """The messages of a group that have these ids: a group may have hundreds of results."""
        for message_id in message_ids:
            message, its_group = self._by_id.get(message_id, (None, None))
            if message is not None and its_group is group:
                yield message

    @cached_property
    def _by_id(self) -> dict[str, tuple[Message, Group]]:
        return {
            message.message_id: (message, group)
            for group in self.groups
            for message in group.messages
        }

    def _recall_key(self, message: Message) -> str | None:
        """What the stash will know a message by, if there is one; made once, as it costs."""
        if self._budget is None or not self._budget.has_stash:
            return None
        if message.message_id not in self._recall_keys:
            self._recall_keys[message.message_id] = stash_key(message)
        return self._recall_keys[message.message_id]

    def may_clear(self, group: Group) -> bool:
        """Whether results and arguments of a group may be shortened."""
        if self._takings.includes(group):
            return False
        return not group.hold or (group.hold is Hold.RECENT and id(group) in self._old_calls)

    @property
    def _recent_turns(self) -> Sequence[Turn]:
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
        gone = self._takings.removed_groups
        return [
            group
            for group in groups
            if not group.hold
            and id(group) not in gone
            and not (group.stands_apart and is_notice(group.messages[0]))  # replaced, not collected
        ]


def ends_turn(groups: Iterable[Group]) -> bool:
    """Whether a turn is over without these groups: one of them opens it."""
    return any(group.opens_turn for group in groups)
