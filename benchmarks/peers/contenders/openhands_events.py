"""openhands-sdk: `LLMSummarizingCondenser`, by the number of events, with a stub."""

from collections.abc import Sequence
from itertools import chain

from contender import TRIGGER, WINDOW, Contender, Counts, Run
from histories import Plain

from contenders.openhands import OpenHands, condense, make_condenser, run_session
from contenders.shared import messages_in


class OpenHandsEvents(OpenHands):
    """The same by events."""

    name = "openhands LLMSummarizingCondenser by events"
    counts: Counts = "messages"

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:  # noqa: ARG002
        """Nothing is counted: there is only one case."""
        if warm:
            return None
        view = self.hold(history)
        condenser = make_condenser(1, max_size=len(view) - 1, max_tokens=None)
        return lambda: condense(condenser, view, None)

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """The trigger is in events."""
        history = list(chain.from_iterable(turns))
        trigger = messages_in(TRIGGER * WINDOW, history)
        condenser = make_condenser(len(turns), max_size=trigger, max_tokens=None)
        return lambda: run_session(turns, condenser, None)


def make() -> Contender:
    """Returns the contender."""
    return OpenHandsEvents()
