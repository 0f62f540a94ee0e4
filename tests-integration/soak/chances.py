"""Everything that a round chooses at random: strategies, settings, messages, failures."""

import asyncio
import itertools
import random
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hostile_plugins import hostile_plugins
from session_messages import LOCKED_TOOL, Conversation, Filing, TurnShape
from session_settings import OURS, PluginMaker, initialized

import jaato_gc_hybrid
import jaato_gc_summarize
from jaato_gc import GCConfig, GCPlugin, GCPolicy, Message, PluginRegistry, Role, StashError
from jaato_gc.plugin import Stash, StashEntry, StashHit, StashStats
from jaato_gc_stash import SqlStash
from jaato_gc_testing import MemoryStash
from soak.request_rules import Words
from soak.witness import Witness

WINDOW = 6_000
COUNTER = Words()


async def summarize_slowly(text: str) -> str:
    """Writes a short summary, or fails. Its turn can be cancelled meanwhile."""
    await asyncio.sleep(0.002)
    if len(text) % 7 == 0:
        raise RuntimeError("the model is overloaded")
    return f"Notes on {len(text)} characters."


SUMMARIES = {"summarizer": summarize_slowly, "summary_tokens": 60}
ASYNC: dict[str, PluginMaker] = {
    "gc_summarize, async": initialized(jaato_gc_summarize.create_plugin, **SUMMARIES),
    "gc_hybrid, async": initialized(jaato_gc_hybrid.create_plugin, **SUMMARIES),
}
HONEST: dict[str, PluginMaker] = {**OURS, **ASYNC}
HOSTILE: dict[str, PluginMaker] = hostile_plugins()


class FlakyStash:
    """A stash that fails now and then, before or after its work.

    Args:
        stash: The stash that does the work.
        seed: Decides when it fails.
    """

    def __init__(self, stash: Stash, seed: int) -> None:
        self.stash = stash
        self.fails = 0.1
        self.failures = 0
        self._chance = random.Random(seed)
        self._lock = threading.Lock()

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        self._fail()
        keys = self.stash.put(gc_id, messages)
        self._fail()  # it was stored, and the answer was lost
        return keys

    def get(self, key: str) -> StashEntry | None:
        self._fail()
        return self.stash.get(key)

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        self._fail()
        return self.stash.search(query, limit)

    def restore(self, keys: Sequence[str]) -> list[Message]:
        self._fail()
        return self.stash.restore(keys)

    def forget(self, keys: Iterable[str] | None = None) -> int:
        self._fail()
        return self.stash.forget(keys)

    def for_agent(self, agent: str) -> Stash:
        return self.stash.for_agent(agent)

    def stats(self) -> StashStats:
        return self.stash.stats()

    def close(self) -> None:
        if isinstance(self.stash, SqlStash):
            self.stash.close()

    def _fail(self) -> None:
        with self._lock:
            if self._chance.random() < self.fails:
                self.failures += 1
                raise StashError("the connection was lost")


class Talk(Conversation):
    """Messages with results of many lines, some of which occur again."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance

    def text(self, words: int) -> str:
        number = next(self._numbers)
        lines = [f"text {number}"]
        while words > 0:
            subject = self.chance.randrange(40)
            lines.append(f"line {subject}: the value of item_{subject} in module_{subject} is set")
            words -= 11
        return "\n".join(lines)

    def continue_from(self, number: int) -> None:
        """Makes no message again that an earlier conversation with the same seed made."""
        self._numbers = itertools.count(number)

    def next_turn(self) -> list[Message]:
        """Returns the messages of a turn."""
        chance = self.chance
        tools = chance.choices(["read_file", "bash", "search"], k=chance.choice([0, 1, 1, 2, 3]))
        if tools and chance.random() < 0.02:
            tools[0] = LOCKED_TOOL
        shape = TurnShape(
            tools,
            parallel=chance.random() < 0.4,
            call_ids=chance.choice(["unique", "unique", "repeated", "none"]),
            result_words=chance.choice([10, 80, 80, 120]),
            filing=Filing(chance.choice([Role.TOOL, Role.TOOL, Role.USER]), chance.random() < 0.7),
            policy=chance.choices(
                [None, GCPolicy.LOCKED, GCPolicy.PRESERVABLE, GCPolicy.EPHEMERAL],
                [100, 1, 5, 5],
            )[0],
        )
        messages = self.turn(shape)
        if chance.random() < 0.1:
            messages.append(self.odd(chance.choice(["thought", "empty parts"])))
        return messages


class Setup:
    """The settings of one round, made from its seed.

    Args:
        seed: The seed.
        folder: Where the stash is; ``None``: in memory, if there is one. With a folder, all removed
            content is there alone, and none of it is forgotten.
    """

    def __init__(self, seed: str, folder: Path | None = None) -> None:
        chance = self.chance = random.Random(seed)
        self.talk = Talk(random.Random(chance.random()))
        self.on_overflow = chance.choice(["relax", "relax", "relax", "raise", "send"])
        self.reports = chance.random() < 0.5
        """Whether the provider reports usage; then only turns send requests."""
        self.at_once = chance.random() < 0.3
        """Whether threads undo, restore and edit at the same time; then nothing is pinned."""
        self.max_pins = 0 if self.at_once else 4
        self.forgets = chance.random() < 0.25 and not folder
        """Whether content is forgotten or trimmed; then not everything can be undone."""
        self.stash: FlakyStash | None = None
        self.journal_bytes = 10**9
        if folder or chance.random() < 0.7:
            stash = SqlStash(folder / "stash.db") if folder else MemoryStash()
            self.stash = FlakyStash(stash, chance.randrange(10**9))
            self.journal_bytes = 0 if folder else chance.choice([0, 6_000, 10**9])
        self.deadline_seconds = chance.choice([None, None, 60])
        self.is_hostile = chance.random() < 0.5
        self.config = GCConfig(
            threshold_percent=chance.choice([70.0, 80.0]),
            target_percent=chance.choice([40.0, 55.0, 65.0]),
            pressure_percent=chance.choice([90.0, None]),
            preserve_recent_turns=chance.randint(0, 4),
            preserve_recent_groups=chance.randint(0, 3),
            max_turns=chance.choice([None, None, 40]),
            reserve_output_tokens=chance.choice([0, 200]),
            check_before_send=chance.random() < 0.9,
        )

    @property
    def limit(self) -> int | None:
        """The largest request; ``None`` if the host sends larger ones too."""
        if self.on_overflow == "send":
            return None
        return WINDOW - self.config.reserve_output_tokens

    def options(self, witness: Witness) -> dict[str, Any]:
        """Returns the arguments of a session, a new or a restored one."""
        return {
            "witness": witness,
            "counter": COUNTER,
            "registry": PluginRegistry(load_installed=False),
            "stash": self.stash,
            "journal_bytes": self.journal_bytes,
            "keep_collections": 100_000,
            "deadline_seconds": self.deadline_seconds,
            "on_overflow": self.on_overflow,
            "tool_policies": {LOCKED_TOOL: GCPolicy.LOCKED},
        }

    def strategy(self, chance: random.Random) -> str:
        """Returns the name of a strategy for this round."""
        if self.is_hostile and chance.random() < 0.7:
            return chance.choice(sorted(HOSTILE))
        return chance.choice(sorted(HONEST if chance.random() < 0.7 else ASYNC))


def create(strategy: str) -> GCPlugin:
    """Returns a new strategy by its name here."""
    return (HONEST | HOSTILE)[strategy]()
