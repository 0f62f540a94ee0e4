"""gc_hybrid."""

from collections.abc import Sequence

from pydantic import NonNegativeInt

from jaato_gc import count_tokens
from jaato_gc.plugin import (
    Collection,
    GCStrategy,
    Piece,
    StrategyInfo,
    SummarySettings,
    TurnSummarizer,
    hookimpl,
)


class HybridSettings(SummarySettings):
    """Options of gc_hybrid."""

    summarize_middle_turns: NonNegativeInt = 10
    """The number of turns before the recent ones that are summarized; older ones are removed."""


class HybridGCPlugin(GCStrategy[HybridSettings]):
    """Removes what is ancient, summarizes what is in the middle, keeps what is recent.

    The middle are the turns before the recent ones. In a history of recent turns only, it is the
    newer half of the calls that must go. A ledger lists what was removed. Without a summarizer, the
    middle is removed too.
    """

    name = "gc_hybrid"
    settings_model = HybridSettings

    def select(self, collection: Collection) -> None:
        """Removes what is ancient, then summarizes the middle."""
        collection.details.update(
            preserve_recent=collection.config.preserve_recent_turns,
            summarize_middle=self.settings.summarize_middle_turns,
            had_summarizer=self.settings.can_summarize,
        )
        if not collection.needs_more:
            return
        collection.leave_ledger()
        ancient, middle = self._generations(collection)
        collection.remove_in_order(ancient, "ancient_truncated")
        self._summarize(collection, middle)
        recent = [turn for turn in collection.turns if collection.is_recent(turn)]
        collection.remove_oldest(recent, "recent_truncated")

    def _generations(self, collection: Collection) -> tuple[list[Piece], list[Piece]]:
        """Returns what is ancient and what is in the middle."""
        old = [turn for turn in collection.turns if not collection.is_recent(turn)]
        pieces = [piece for piece in collection.pieces(old) if _may_go(collection, piece)]
        if pieces:
            split = max(0, len(pieces) - self.settings.summarize_middle_turns)
        else:
            pieces = self._calls_that_must_go(collection)
            split = len(pieces) // 2
        return pieces[:split], pieces[split:]

    def _calls_that_must_go(self, collection: Collection) -> list[Piece]:
        """Returns the oldest calls of recent turns that free enough."""
        goal = collection.goal
        wanted = (goal.tokens_to_free or 0) + self.settings.expected_size(goal.target_tokens)
        chosen: list[Piece] = []
        for piece in collection.pieces(collection.turns):
            if wanted <= 0:
                break
            if _may_go(collection, piece):
                chosen.append(piece)
                wanted -= count_tokens(piece.groups[0].messages, collection.counter)
        return chosen

    def _summarize(self, collection: Collection, middle: Sequence[Piece]) -> None:
        if not middle:
            return
        if self.settings.can_summarize:
            TurnSummarizer(collection, self.settings).summarize(middle, "middle_summarized")
            return
        if collection.needs_more:
            collection.details["summarizer"] = "none, so the middle was truncated"
            collection.remove_in_order(middle, "truncated_fallback")


def _may_go(collection: Collection, piece: Piece) -> bool:
    return any(collection.may_remove(group) for group in piece.groups)


def create_plugin() -> HybridGCPlugin:
    """Returns a new instance; call ``initialize`` to set its options."""
    return HybridGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    """Registers gc_hybrid."""
    return [
        StrategyInfo(
            name=HybridGCPlugin.name,
            factory=create_plugin,
            summary="Removes ancient turns, summarizes middle ones, keeps recent ones.",
            config_model=HybridSettings,
        )
    ]
