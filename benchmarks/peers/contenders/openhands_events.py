"""openhands-sdk: `LLMSummarizingCondenser`, by the number of events, with a stub as well."""

from collections.abc import Sequence
from itertools import chain

from contender import TRIGGER, WINDOW, Contender, Run
from histories import Plain

from contenders.openhands import OpenHands, condense, make_condenser, run_session
from contenders.shared import messages_in


class OpenHandsEvents(OpenHands):
    """The same, but for what is counted."""

    name = "openhands LLMSummarizingCondenser by events"
    does_less = "counts events, not tokens; " + OpenHands.does_less

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:  # noqa: ARG002
        """Nothing is counted, so that cold and warm are the same."""
        if warm:
            return None
        view = self.hold(history)
        condenser = make_condenser(1, max_size=len(view) - 1, max_tokens=None)
        return lambda: condense(condenser, view, None)

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run | None:
        """Trigger in events."""
        history = list(chain.from_iterable(turns))
        trigger = messages_in(TRIGGER * WINDOW, history)
        condenser = make_condenser(len(turns), max_size=trigger, max_tokens=None)
        return lambda: run_session(turns, condenser, None)


def make() -> Contender:
    """The contender."""
    return OpenHandsEvents()
