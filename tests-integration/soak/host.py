"""A host that uses a session in every way: each step is chosen at random and checked."""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import InitVar, dataclass, field
from typing import Any

from jaato_gc import (
    ContextFloorError,
    GCError,
    InvalidHistoryError,
    Message,
    MessageError,
    Part,
    Role,
    StalePlanError,
    StashError,
    ToolResult,
    UndoError,
)
from soak.chances import WINDOW, Setup, create
from soak.request_rules import form_of
from soak.witness import WatchedSession, Witness

LAST_EXCHANGE = 4
"""The messages that may belong to a call that still runs."""
Step = Callable[[random.Random], object]


@dataclass
class Host:
    """The host of one session. Several threads may share it.

    Args:
        setup: The settings of the round.
        witness: Knows what was said before.
        strategy: The strategy; chosen at random if not given.
        saved: The saved session; ``None``: a new one.
    """

    setup: Setup
    witness: Witness = field(default_factory=Witness)
    strategy: str = ""
    saved: InitVar[str | None] = None

    def __post_init__(self, saved: str | None) -> None:
        self.options = self.setup.options(self.witness)
        self.strategy = self.strategy or self.setup.strategy(self.setup.chance)
        if saved is None:
            self.session = WatchedSession(context_limit=WINDOW, **self.options)
            self.session.set_gc_plugin(create(self.strategy), self.setup.config)
        else:
            self.session = self.restored(saved, self.strategy, self.witness)
        self.strategies = threading.Lock()  # so that a saved session is restored with its own
        self.steps: dict[Step, tuple[type[GCError], ...]] = {
            self.collect: (),
            self.plan_and_apply: (StalePlanError, MessageError),
            self.end_turn: (),
            self.refuse: (),
            self.undo: (UndoError,),
            self.pin: (MessageError,),
            self.unpin: (),
            self.remove: (MessageError, StashError),
            self.replace: (MessageError, StashError),
            self.restore_stashed: (StashError, GCError),
            self.change_strategy: (),
            self.read: (),
            self.save: (),
        }
        if self.setup.forgets:
            self.steps[self.forget] = (StashError,)

    def step(self, chance: random.Random) -> None:
        """Does something that is neither appending nor sending."""
        step = chance.choice(list(self.steps))
        try:
            step(chance)
        except GCError as error:
            if type(error) not in self.steps[step]:  # no subclass: each is documented by its name
                raise

    # --- the points of a turn ---

    def add_turn(self) -> None:
        """Appends a turn that took place elsewhere."""
        with self.witness.appending:  # an exchange is one piece of work
            for message in self.setup.talk.next_turn():
                self.session.append(message)

    def send(self) -> None:
        """Makes a request and checks it, while other threads use the session."""
        try:
            self.send_alone()
        except (InvalidHistoryError, ContextFloorError):
            return  # a call waits for its result, or more came in than was removed

    def send_alone(self, _chance: random.Random | None = None) -> None:
        """Makes a request and checks it: there is one, unless the stash fails or a host forbids."""
        before = self.witness.expectation()
        try:
            request = self.session.before_send()
        except ContextFloorError as error:
            if self.setup.on_overflow == "raise" or "StashError" in str(error):
                return
            raise
        self.witness.check(request, before, self.setup.limit)

    def end_turn(self, _chance: random.Random) -> None:
        self.session.after_turn()

    def refuse(self, _chance: random.Random) -> None:
        self.session.recover_from_refusal()

    # --- collecting ---

    def collect(self, chance: random.Random) -> None:
        self.session.manual_gc(target_percent=chance.choice([0.0, 20.0, 40.0, 60.0]))

    def plan_and_apply(self, chance: random.Random) -> None:
        plan = self.session.plan_gc(target_percent=chance.choice([20.0, 50.0]))
        if chance.random() < 0.3:
            self.pin(chance)
        self.session.apply(plan)

    def undo(self, _chance: random.Random) -> None:
        with self.changing():
            try:
                self.session.undo()
            finally:
                self.witness.look_again(self.session.history)

    # --- protection, and edits of the host ---

    def changing(self) -> AbstractContextManager[object]:
        """Returns the block in which a host changes protection or history, alone or at once."""
        return nullcontext() if self.setup.at_once else self.witness.host

    def some_message(self, chance: random.Random) -> Message:
        history = self.session.history
        return chance.choice(history[:-LAST_EXCHANGE] or history[:1])

    def pin(self, chance: random.Random) -> None:
        message_id, witness = self.some_message(chance).message_id, self.witness
        with self.changing():
            if len(witness.pins) == self.setup.max_pins or message_id in witness.fixed:
                return
            self.session.pin(message_id)
            found = [each for each in self.session.history if each.message_id == message_id]
            if found:
                witness.pin(found[0])
            else:
                witness.find(f"{message_id} was pinned and is not there")

    def unpin(self, chance: random.Random) -> None:
        with self.witness.host:
            if self.witness.pins:
                message_id = chance.choice(sorted(self.witness.pins))
                self.witness.release(message_id)
                self.session.unpin(message_id)

    def remove(self, chance: random.Random) -> None:
        message = self.some_message(chance)
        if message.role is Role.USER and not message.function_responses:
            return  # the newest one must stay
        force = chance.random() < 0.1 and not self.setup.at_once
        with self.changing():
            self.session.remove(message.message_id, force=force)
            if force:
                present = {each.message_id for each in self.session.history}
                for message_id in self.witness.fixed.keys() - present:
                    self.witness.release(message_id)

    def replace(self, chance: random.Random) -> None:
        message = self.some_message(chance)
        if message.synthetic:
            return
        replacement = message.with_parts([_rewritten(part, chance) for part in message.parts])
        with self.changing():
            self.witness.allow(replacement)
            self.session.replace(message.message_id, replacement)

    # --- the stash ---

    def stashed_keys(self, chance: random.Random) -> list[str]:
        results = self.session.get_gc_history()
        items = [item for result in results[-30:] for item in result.removal_list]
        keys = sorted({key for item in items for key in item.stash_keys})
        return chance.sample(keys, min(len(keys), chance.randint(1, 3)))

    def restore_stashed(self, chance: random.Random) -> None:
        if keys := self.stashed_keys(chance):
            with self.changing():
                self.session.restore_stashed(keys, "place" if chance.random() < 0.7 else "tail")
                self.witness.look_again(self.session.history)

    def forget(self, chance: random.Random) -> None:
        if keys := self.stashed_keys(chance):
            with self.changing():
                self.session.forget(keys)
                self.witness.look_again(self.session.history)  # a ledger may be pinned

    # --- settings, reading, saving ---

    def change_strategy(self, chance: random.Random) -> None:
        strategy = self.setup.strategy(chance)
        with self.strategies:
            self.session.set_gc_plugin(create(strategy), self.setup.config)
            self.strategy = strategy

    def read(self, _chance: random.Random) -> None:
        usage = self.session.get_context_usage()
        if usage["total_tokens"] < 0 or usage["turns"] < 0:
            self.witness.find(f"usage: {usage}")
        self.session.budget.snapshot()

    def save(self, chance: random.Random) -> None:
        """Saves and restores the session. Whatever threads do meanwhile, it is one state."""
        with self.strategies:
            saved, strategy = self.session.save(), self.strategy
        if chance.random() < 0.8:
            return  # saving is fast, and restoring is not
        restored = self.restored(saved, strategy, Witness())
        if restored.save() != saved:
            self.witness.find("a restored session is not what was saved")

    def restored(self, saved: str, strategy: str, witness: Witness) -> WatchedSession:
        """Returns the session that was saved."""
        options: dict[str, Any] = {**self.options, "witness": witness}
        restored = WatchedSession.restore(saved, strategy=create(strategy), **options)
        assert isinstance(restored, WatchedSession)
        return restored


def _rewritten(part: Part, chance: random.Random) -> Part:
    """Returns a part with another text or result."""
    text = f"rewritten {chance.randrange(10**6)}"
    if result := part.function_response:
        return Part(function_response=ToolResult(result.call_id, result.name, text))
    return Part(text=text) if part.text and part == Part(text=part.text) else part


def forms(messages: Sequence[Message]) -> list[str]:
    """Returns messages as texts to compare."""
    return list(map(form_of, messages))
