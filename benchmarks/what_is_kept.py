"""What strategies keep of what an agent uses next, compared at equal tokens.

Recorded coding runs are cut at the first request whose context has reached a number of tokens. Each
contender collects what is before the cut, to a percentage of these tokens. The rest of the run
says what the agent needed:

    names    a name in a later call that was shown before the cut and not again in between;
             lost if no message that is left shows it
    context  the same names; lost if none is next to the same text as in the original
    edits    a later edit quotes text from before the cut; blind if a line of it is missing

Every figure is a ratio: what the contender loses, divided by what dropping the oldest exchanges
would lose until the same number of tokens is left (interpolated between two exchanges). Below 1 is
better than that. The interval covers 90 % of 2,000 resamples of the runs. "oracle" knows the rest
of the run and removes the exchanges with the least need per token: no strategy can know that much.

Cuts whose last three calls alone take more than 90 % of the target are left out.

    python benchmarks/what_is_kept.py
    python benchmarks/what_is_kept.py --strategies gc_budget,head-tail --at 32000,64000 --keep 60
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from transcripts import Transcript, read_transcripts

from jaato_gc import (
    EstimateCounter,
    GCConfig,
    GCSession,
    GCTriggerReason,
    Message,
    PluginRegistry,
    Role,
    check_history,
    count_tokens,
)
from jaato_gc.plugin import Group, lay_out, message_tokens
from jaato_gc_lab import CONTENDERS
from jaato_gc_lab._measures.edits import lines_in
from jaato_gc_lab._measures.losses import names_in_call, quoted_in_call
from jaato_gc_lab._measures.names import Place, names_in, places_in
from jaato_gc_lab._measures.texts import shown_texts
from jaato_gc_lab._replay import make_strategy

COUNTER = EstimateCounter()
REGISTRY = PluginRegistry()
ORACLE = "oracle"
CUTS = (16_000, 24_000, 32_000, 48_000, 64_000, 80_000, 96_000, 112_000, 128_000, 160_000)
KEEPS = (60.0, 40.0)
MEASURES = ("names", "context", "edits")
LAST_CALLS = 3
RESAMPLES = 2_000
EDIT_WEIGHT = 5
"""How many names one edit is worth to the oracle."""


class Lost(NamedTuple):
    """What is lost, by measure."""

    names: float
    context: float
    edits: float


@dataclass(frozen=True)
class Shown:
    """What some messages show of what is needed."""

    names: frozenset[str] = frozenset()
    places: frozenset[Place] = frozenset()
    lines: frozenset[str] = frozenset()

    def __or__(self, other: "Shown") -> "Shown":
        return Shown(self.names | other.names, self.places | other.places, self.lines | other.lines)


@dataclass
class Case:
    """A recorded run that is cut.

    Args:
        transcript: The run.
        at: The number of tokens at which it is cut.
        cut: The number of messages before the cut.
    """

    transcript: Transcript
    at: int
    cut: int
    _shown: dict[int, Shown] = field(default_factory=dict)

    @cached_property
    def history(self) -> list[Message]:
        """The messages before the cut."""
        return self.transcript.messages[: self.cut]

    @cached_property
    def _own(self) -> set[int]:
        return set(map(id, self.history))

    @cached_property
    def groups(self) -> Sequence[Group]:
        """The groups of the history."""
        return lay_out(self.history).groups

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that later calls use, shown before the cut and not again in between."""
        before = _names_in(self.history)
        settled: set[str] = set()
        needed: set[str] = set()
        for message in self.transcript.messages[self.cut :]:
            for call in message.function_calls:
                needed |= (names_in_call(call) & before) - settled
            settled |= _names_in([message])
        return frozenset(needed)

    @cached_property
    def edits(self) -> list[frozenset[str]]:
        """The lines from before the cut that each later edit quotes."""
        before = _lines_in(self.history)
        since: set[str] = set()
        edits: list[frozenset[str]] = []
        for message in self.transcript.messages[self.cut :]:
            for call in message.function_calls:
                edits += [
                    frozenset(lines - since)
                    for lines in quoted_in_call(call)
                    if lines <= before | since and not lines <= since
                ]
            since |= _lines_in([message])
        return edits

    @cached_property
    def _lines(self) -> frozenset[str]:
        return frozenset().union(*self.edits)

    @cached_property
    def _places(self) -> frozenset[Place]:
        return self.shown_by(self.history).places

    def shown_by(self, messages: Iterable[Message]) -> Shown:
        """Returns what messages show of what is needed."""
        found = [self._shown_by_one(message) for message in messages]
        return Shown(
            frozenset().union(*(each.names for each in found)),
            frozenset().union(*(each.places for each in found)),
            frozenset().union(*(each.lines for each in found)),
        )

    def _shown_by_one(self, message: Message) -> Shown:
        known = self._shown.get(id(message))
        if known is None:
            texts = list(shown_texts(message))
            names = frozenset().union(*map(names_in, texts)) & self.names
            known = Shown(names)
            if message.synthetic is None:
                places = {place for text in texts for place in places_in(text, self.names)}
                lines = frozenset().union(*map(lines_in, texts)) & self._lines
                known = Shown(names, frozenset(places), lines)
            if id(message) in self._own:  # others may be gone, and their ids used again
                self._shown[id(message)] = known
        return known

    def lost(self, shown: Shown) -> Lost:
        """Returns what is needed and not shown."""
        standing = {name for name, _ in shown.places & self._places}
        return Lost(
            len(self.names - shown.names),
            len(self.names - standing),
            sum(not lines <= shown.lines for lines in self.edits),
        )

    @cached_property
    def _suffixes(self) -> list[tuple[int, Lost]]:
        """Tokens and losses of the last 0, 1, 2, … groups with the system messages."""
        system = [message for message in self.history if message.role is Role.SYSTEM]
        shown, tokens = self.shown_by(system), count_tokens(system, COUNTER)
        suffixes = [(tokens, self.lost(shown))]
        for group in reversed(self.groups):
            if group.messages[0].role is not Role.SYSTEM:
                shown |= self.shown_by(group.messages)
                tokens += count_tokens(group.messages, COUNTER)
                suffixes.append((tokens, self.lost(shown)))
        return suffixes

    def keep_last(self, tokens: int) -> Lost:
        """Returns what is lost if the newest exchanges of this many tokens are kept."""
        below = max(
            (each for each in self._suffixes if each[0] <= tokens), default=self._suffixes[0]
        )
        above = min((each for each in self._suffixes if each[0] > tokens), default=below)
        share = (tokens - below[0]) / (above[0] - below[0]) if above[0] > below[0] else 0.0
        pairs = zip(below[1], above[1], strict=True)
        return Lost(*(few + (many - few) * (1 - share) for many, few in pairs))

    def is_out_of_reach(self, keep: float) -> bool:
        """Returns whether the last calls alone take most of the target."""
        calls = [group for group in self.groups if group.is_call][-LAST_CALLS:]
        floor = sum(count_tokens(group.messages, COUNTER) for group in calls)
        return floor > 0.9 * self.at * keep / 100

    def oracle(self, target: int) -> list[Message]:
        """Returns the history without the exchanges that are needed least per token."""
        newest: dict[object, int] = {}
        for number, group in enumerate(self.groups):
            shown = self.shown_by(group.messages)
            newest |= dict.fromkeys([name for name, _ in shown.places], number)
            newest |= dict.fromkeys([("line", line) for line in shown.lines], number)
        value: Counter[int] = Counter(newest[name] for name in self.names if name in newest)
        for lines in self.edits:
            for number in {newest[key] for line in lines if (key := ("line", line)) in newest}:
                value[number] += EDIT_WEIGHT
        calls = [number for number, group in enumerate(self.groups) if group.is_call]
        requests = [number for number, group in enumerate(self.groups) if group.opens_turn]
        fixed = {*calls[-LAST_CALLS:], *requests[:1], *requests[-1:]}
        sizes = [count_tokens(group.messages, COUNTER) for group in self.groups]
        candidates = [
            number
            for number, group in enumerate(self.groups)
            if number not in fixed and group.messages[0].role is not Role.SYSTEM
        ]
        tokens, removed = sum(sizes), set()
        for number in sorted(candidates, key=lambda each: value[each] / sizes[each]):
            if tokens <= target:
                break
            tokens -= sizes[number]
            removed.add(number)
        kept = [group for number, group in enumerate(self.groups) if number not in removed]
        chosen = {id(message) for group in kept for message in group.messages}
        return [message for message in self.history if id(message) in chosen]


def _names_in(messages: Iterable[Message]) -> set[str]:
    return set().union(*(names_in(text) for each in messages for text in shown_texts(each)))


def _lines_in(messages: Iterable[Message]) -> set[str]:
    return set().union(*(lines_in(text) for each in messages for text in shown_texts(each)))


def cases(transcript: Transcript, cuts: Iterable[int]) -> Iterator[Case]:
    """Yields a run cut before the first request that has reached each number of tokens."""
    messages = transcript.messages
    running = list(accumulate(message_tokens(message, COUNTER) for message in messages))
    for at in cuts:
        cut = next((i for i, tokens in enumerate(running, 1) if tokens >= at), len(messages))
        while cut < len(messages) and messages[cut].is_tool_output:
            cut += 1  # the exchange has to be complete
        if cut < len(messages) and not check_history(messages[:cut]):
            yield Case(transcript, at, cut)


class Row(NamedTuple):
    """What one contender kept of one case."""

    strategy: str
    keep: float
    at: int
    run: str
    tokens: int
    needed: tuple[int, ...]
    lost: Lost
    keep_last: Lost
    error: str | None = None


def measure(transcript: Transcript, arguments: argparse.Namespace) -> list[Row]:
    """Lets every contender collect every cut of one run."""
    rows = []
    for case in cases(transcript, arguments.at):
        session = GCSession(context_limit=case.at, counter=COUNTER, registry=REGISTRY)
        for message in case.history:
            session.append(message)
        for keep in arguments.keep:
            if case.is_out_of_reach(keep):
                continue
            for name in arguments.strategies:
                error = None
                if name == ORACLE:
                    after = case.oracle(int(case.at * keep / 100))
                else:
                    after, error = _collected(session, name, keep, arguments.config)
                tokens = count_tokens(after, COUNTER)
                needed = (len(case.names), len(case.names), len(case.edits))
                lost = case.lost(case.shown_by(after))
                simple = case.keep_last(tokens)
                run = transcript.name
                rows.append(Row(name, keep, case.at, run, tokens, needed, lost, simple, error))
    return rows


def _collected(
    session: GCSession, name: str, keep: float, config: dict[str, Any]
) -> tuple[list[Message], str | None]:
    settings: dict[str, Any] = {"threshold_percent": 100.0, "target_percent": keep, **config}
    plugin = make_strategy(name, GCConfig(), REGISTRY)
    assert plugin is not None
    session.set_gc_plugin(plugin, GCConfig(**settings))
    plan = session.plan_gc(GCTriggerReason.THRESHOLD)
    return plan.after, plan.result.error


# --- tables ---


class Ratio(NamedTuple):
    """A ratio to keep-last, with the interval of its resamples; ``None`` without any loss."""

    value: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.value is None or self.low is None or self.high is None:
            return "-"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def ratio(rows: Sequence[Row], measure: int) -> Ratio:
    """Returns what is lost, divided by what keep-last loses, resampled by run."""
    by_run: dict[str, tuple[float, float]] = {}
    for row in rows:
        lost, simple = by_run.get(row.run, (0.0, 0.0))
        by_run[row.run] = (lost + row.lost[measure], simple + row.keep_last[measure])
    pairs = list(by_run.values())
    random = Random(1)
    found = sorted(
        each
        for _ in range(RESAMPLES)
        if (each := _quotient(random.choices(pairs, k=len(pairs)))) is not None
    )
    if not found:
        return Ratio(None, None, None)
    return Ratio(_quotient(pairs), found[len(found) // 20], found[-len(found) // 20 - 1])


def _quotient(pairs: Iterable[tuple[float, float]]) -> float | None:
    lost, simple = map(sum, zip(*pairs, strict=True))
    return lost / simple if simple else None


def print_tables(rows: Sequence[Row], arguments: argparse.Namespace) -> None:
    """Prints one table per percentage, as in the documentation."""
    for keep in arguments.keep:
        kept = [row for row in rows if row.keep == keep]
        first = [row for row in kept if row.strategy == arguments.strategies[0]]
        needed = [sum(row.needed[n] for row in first) for n in range(len(MEASURES))]
        runs = len({row.run for row in first})
        numbers = f"{runs} runs, {len(first)} cuts, {needed[0]:,} names, {needed[2]:,} edits"
        print(f"\nCollected to {keep:g} %: {numbers}\n")
        print("| strategy | kept | lost names | lost context | blind edits |")
        print("|---|--:|--:|--:|--:|")
        for name in arguments.strategies:
            own = [row for row in kept if row.strategy == name]
            share = sum(row.tokens for row in own) / (sum(row.at for row in own) or 1)
            cells = " | ".join(str(ratio(own, n)) for n in range(len(MEASURES)))
            print(f"| {name} | {share:.0%} | {cells} |")


def as_json(rows: Sequence[Row], arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns all figures."""
    figures = []
    for keep in arguments.keep:
        for name in arguments.strategies:
            own = [row for row in rows if (row.strategy, row.keep) == (name, keep)]
            figures.append(
                {
                    "strategy": name,
                    "keep": keep,
                    "runs": len({row.run for row in own}),
                    "cuts": len(own),
                    "tokens": sum(row.tokens for row in own),
                    "cut_tokens": sum(row.at for row in own),
                    **{
                        each: {
                            "needed": sum(row.needed[n] for row in own),
                            "lost": sum(row.lost[n] for row in own),
                            "keep_last": sum(row.keep_last[n] for row in own),
                            **ratio(own, n)._asdict(),
                        }
                        for n, each in enumerate(MEASURES)
                    },
                }
            )
    return {"counter": COUNTER.name, "rows": figures, "errors": errors(rows)}


def errors(rows: Iterable[Row]) -> list[str]:
    """Returns the errors of strategies."""
    return [f"{row.strategy} on {row.run}: {row.error}" for row in rows if row.error]


def listed(kind: type) -> Any:
    """Returns a converter of comma-separated values."""
    return lambda text: [kind(each) for each in text.split(",")]


def parse() -> argparse.Namespace:
    """Parses the command line."""
    every = [*sorted(REGISTRY.strategies()), *CONTENDERS, ORACLE]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--at", type=listed(int), default=list(CUTS), metavar="TOKENS,…")
    add("--keep", type=listed(float), default=list(KEEPS), metavar="PERCENT,…")
    add("--strategies", type=listed(str), default=every, metavar="NAME,…")
    add("--config", type=json.loads, default={}, metavar="JSON", help="other settings of GCConfig")
    add("--service", action="store_true", help="service dialogues instead of coding runs")
    add("--workers", type=int, default=2)
    add("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Prints the tables or the figures as JSON."""
    arguments = parse()
    runs = [each for each in read_transcripts() if (each.source == "service") == arguments.service]
    with ProcessPoolExecutor(arguments.workers) as pool:
        jobs = [pool.submit(measure, run, arguments) for run in runs]
        rows = [row for job in jobs for row in job.result()]
    if arguments.json:
        json.dump(as_json(rows, arguments), sys.stdout, indent=2)
        return
    print_tables(rows, arguments)
    for error in errors(rows)[:10]:
        print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
