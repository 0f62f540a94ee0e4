"""How many of the identifiers that an agent went on to use a collection loses, at equal tokens.

Recorded runs are cut at the first request whose context has reached a number of tokens. A probe is
an identifier (a path, an id, a symbol) that a result, the user or the system showed before the cut,
that the agent used in a call after it, and that nothing showed again in between. Each strategy
collects what stands before the cut, to a share of the tokens at which it was cut. A probe is

    lost         if no result, user or system message that is left shows it,
    anywhere     if the model's own words and calls do not have it either,
    basename     if, of a path, not even its last part is shown any more.

"keep-last" is what would be lost by dropping the oldest messages, but the system's, until just as
many tokens are left as the strategy left. The cut rarely falls between two messages (a call and its
results go together): then it is interpolated between the one before and the one after it.

    python benchmarks/identifiers_lost.py
    python benchmarks/identifiers_lost.py --at 4000                      # short service dialogues
    python benchmarks/identifiers_lost.py --strategies gc_budget --at 32000 --verbose
"""

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from transcripts import SOURCES, Transcript, folder, read_transcripts

from jaato_gc import (
    EstimateCounter,
    GCConfig,
    GCOutcome,
    GCPlan,
    GCSession,
    GCTriggerReason,
    Message,
    PluginRegistry,
    Role,
    check_history,
    count_tokens,
    extractive_summary,
)
from jaato_gc.plugin import as_text, lay_out, message_tokens

COUNTER = EstimateCounter()
REGISTRY = PluginRegistry()
WORD = re.compile(r"[A-Za-z0-9_./#@:-]{6,120}")
MARK = re.compile(r"[0-9_/.]")
LETTER = re.compile(r"[A-Za-z]")
CAMEL = re.compile(r"[a-z][A-Z]")


# --- identifiers ---


@cache
def identifiers(text: str) -> frozenset[str]:
    """The words of a text that name something: with a digit, an underscore, a slash, a hump."""
    words = {word.strip("./:#-") for word in WORD.findall(text)}
    return frozenset(
        word
        for word in words
        if len(word) >= 6 and ((MARK.search(word) and LETTER.search(word)) or CAMEL.search(word))
    )


def shown(message: Message) -> Iterator[str]:
    """The texts of a message that are evidence: results, and what user and system say."""
    for part in message.parts:
        if part.function_response:
            yield as_text(part.function_response.result)
        if part.text and message.role is not Role.MODEL:
            yield part.text


def own_words(message: Message) -> Iterator[str]:
    """The texts of a message that the model wrote itself."""
    for part in message.parts:
        if part.text and message.role is Role.MODEL:
            yield part.text
        if part.thought:
            yield part.thought
        if part.function_call:
            yield from strings(part.function_call.args)


def strings(value: Any) -> Iterator[str]:
    """The strings in a call's arguments: as they are, no keys, nothing escaped."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def in_texts(texts: Iterable[str]) -> set[str]:
    """The identifiers in any of some texts."""
    return set().union(*map(identifiers, texts))


def basename(identifier: str) -> str:
    """The last part of a path; anything else as it is."""
    return identifier.rpartition("/")[2]


# --- cases ---


@dataclass(frozen=True)
class Probe:
    """An identifier that is needed after the cut."""

    identifier: str
    evidence: Message
    """The newest message that shows it."""
    used_by: str
    """The tool that it is used with first."""


class Lost(NamedTuple):
    """How many probes are lost."""

    shown: float
    anywhere: float
    basename: float


@dataclass
class Left:
    """What is left in some messages."""

    evidence: set[str] = field(default_factory=set)
    anywhere: set[str] = field(default_factory=set)
    basenames: set[str] = field(default_factory=set)

    def add(self, messages: Iterable[Message]) -> None:
        """Read messages."""
        for message in messages:
            evidence = in_texts(shown(message))
            self.evidence |= evidence
            self.anywhere |= evidence | in_texts(own_words(message))
            self.basenames.update(map(basename, evidence))

    def lost(self, probes: Iterable[Probe]) -> Lost:
        """How many probes are not in them."""
        words = [probe.identifier for probe in probes]
        return Lost(
            sum(word not in self.evidence for word in words),
            sum(word not in self.anywhere for word in words),
            sum(basename(word) not in self.basenames for word in words),
        )


@dataclass
class Case:
    """A recorded run, cut."""

    transcript: Transcript
    at: int
    cut: int

    @cached_property
    def history(self) -> list[Message]:
        """What stands before the cut."""
        return self.transcript.messages[: self.cut]

    @cached_property
    def session(self) -> GCSession:
        """A session with that history, to plan collections in."""
        session = GCSession(context_limit=self.at, counter=COUNTER, registry=REGISTRY)
        for message in self.history:
            session.append(message)
        return session

    @cached_property
    def probes(self) -> list[Probe]:
        """What the agent goes on to use."""
        newest = {word: message for message in self.history for word in in_texts(shown(message))}
        settled: set[str] = set()
        probes: list[Probe] = []
        for message in self.transcript.messages[self.cut :]:
            for call in message.function_calls:
                wanted = (in_texts(strings(call.args)) - settled) & newest.keys()
                settled |= wanted
                probes.extend(Probe(word, newest[word], call.name) for word in sorted(wanted))
            settled |= in_texts(shown(message))
        return probes

    @cached_property
    def tool_of(self) -> dict[str, str]:
        """Which tool a message of results comes from, by the message's id."""
        return {
            message.message_id: ", ".join(
                sorted({call.name for call in group.messages[0].function_calls})
            )
            for group in lay_out(self.history).groups
            for message in group.messages[1:]
        }

    def origin(self, message: Message) -> str:
        """The tool that a message's results come from, or who speaks."""
        said_by = message.synthetic or message.role
        return self.tool_of.get(message.message_id) or said_by.value

    @cached_property
    def back(self) -> dict[str, int]:
        """How many tokens stand behind a message, by its id."""
        sizes = [message_tokens(message, COUNTER) for message in reversed(self.history)]
        behind = accumulate(sizes, initial=0)
        return {
            message.message_id: tokens
            for message, tokens in zip(reversed(self.history), behind, strict=False)
        }

    @cached_property
    def suffixes(self) -> list[tuple[int, Lost]]:
        """Tokens and losses of the last 0, 1, 2, … groups with the system's messages."""
        system = [message for message in self.history if message.role is Role.SYSTEM]
        left, tokens = Left(), count_tokens(system, COUNTER)
        left.add(system)
        suffixes = [(tokens, left.lost(self.probes))]
        for group in reversed(lay_out(self.history).groups):
            if group.messages[0].role is not Role.SYSTEM:
                left.add(group.messages)
                tokens += count_tokens(group.messages, COUNTER)
                suffixes.append((tokens, left.lost(self.probes)))
        return suffixes

    def keep_last(self, tokens: int) -> Lost:
        """What is lost if the newest messages of so many tokens are kept."""
        below = max((each for each in self.suffixes if each[0] <= tokens), default=self.suffixes[0])
        above = min((each for each in self.suffixes if each[0] > tokens), default=below)
        share = (tokens - below[0]) / (above[0] - below[0]) if above[0] > below[0] else 0.0
        return Lost(
            *(
                few + (many - few) * (1 - share)
                for many, few in zip(below[1], above[1], strict=True)
            )
        )


def cases(transcripts: Iterable[Transcript], at: int) -> Iterator[Case]:
    """The runs that reach a number of tokens, cut before the next request."""
    for transcript in transcripts:
        messages = transcript.messages
        running = accumulate(message_tokens(message, COUNTER) for message in messages)
        cut = next((i for i, tokens in enumerate(running, 1) if tokens >= at), len(messages))
        while cut < len(messages) and messages[cut].is_tool_output:
            cut += 1  # the exchange has to be complete
        if cut < len(messages) and not check_history(messages[:cut]):
            yield Case(transcript, at, cut)


# --- measuring ---


@dataclass
class Figures:
    """What is left after collections, and what is not."""

    transcripts: int = 0
    probes: int = 0
    window: int = 0
    tokens: int = 0
    lost: float = 0
    lost_anywhere: float = 0
    lost_basename: float = 0
    keep_last_lost: float = 0
    keep_last_lost_anywhere: float = 0
    keep_last_lost_basename: float = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: "Figures") -> "Figures":
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    @property
    def out_of_reach(self) -> int:
        """How many collections missed the target."""
        return self.transcripts - self.outcomes["reached"] - self.outcomes["not_needed"]


@dataclass
class LostProbe:
    """A probe that a strategy lost, and how: for authors of strategies."""

    strategy: str
    transcript: str
    at: int
    keep: float
    identifier: str
    used_by: str
    shown_by: str
    """The tool or the role that showed it last."""
    tokens: int
    """The size of that message."""
    tokens_back: int
    """How far it stood before the cut."""
    fate: str
    """What became of it."""
    still: str
    """Where it can be found all the same."""


class Benchmark:
    """Runs strategies over cases.

    Args:
        recent_turns: How many turns are never removed.
        options: Options of strategies, by name.
    """

    def __init__(self, recent_turns: int, options: dict[str, dict[str, Any]]) -> None:
        self.recent_turns = recent_turns
        self.options = options
        self.figures: defaultdict[tuple[int, float, str, str], Figures] = defaultdict(Figures)
        self.origins: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.lost_probes: list[LostProbe] = []
        self.errors: list[str] = []

    def run(self, case: Case, strategy: str, keep: float) -> None:
        """Let a strategy collect to a share of the tokens, and see what is lost."""
        options = dict(self.options.get(strategy, {}))
        if REGISTRY.strategies()[strategy].needs_summarizer:
            options = {"summarizer": extractive_summary, **options}
        case.session.set_gc_plugin(
            REGISTRY.create(strategy, options),
            GCConfig(
                threshold_percent=100.0,
                target_percent=keep,
                preserve_recent_turns=self.recent_turns,
            ),
        )
        plan = case.session.plan_gc(GCTriggerReason.THRESHOLD)
        outcome = plan.result.outcome or GCOutcome.FAILED
        if not plan.result.success:
            self.errors.append(f"{strategy} on {case.transcript.name}: {plan.result.error}")
        tokens = count_tokens(plan.after, COUNTER)
        left = Left()
        left.add(plan.after)
        figures = Figures(
            1, len(case.probes), case.at, tokens, *left.lost(case.probes), *case.keep_last(tokens),
            Counter([outcome.value]),
        )  # fmt: skip
        for source in (case.transcript.source, "total"):
            self.figures[case.at, keep, strategy, source] += figures
        for probe in case.probes:
            origin = self.origins[strategy, case.origin(probe.evidence)]
            origin["probes"] += 1
            if probe.identifier not in left.evidence:
                origin["lost"] += 1
                self.lost_probes.append(_explain(probe, case, strategy, keep, plan, left))
        for moment, messages in (("before", case.history), ("after", plan.after)):
            for message in messages:
                tokens = message_tokens(message, COUNTER)
                self.origins[strategy, case.origin(message)][moment] += tokens


def _explain(
    probe: Probe, case: Case, strategy: str, keep: float, plan: GCPlan, left: Left
) -> LostProbe:
    message, word = probe.evidence, probe.identifier
    fates = [
        f"{item.action}: {item.reason}"
        for item in plan.result.removal_list
        if message.message_id in item.message_ids
    ]
    own = "model's words" if word in left.anywhere else ""
    return LostProbe(
        strategy=strategy,
        transcript=case.transcript.name,
        at=case.at,
        keep=keep,
        identifier=word,
        used_by=probe.used_by,
        shown_by=case.origin(message),
        tokens=message_tokens(message, COUNTER),
        tokens_back=case.back[message.message_id],
        fate="; ".join(fates) or "?",
        still=own or ("basename" if basename(word) in left.basenames else "-"),
    )


# --- printing ---

HEADINGS = (
    f"{'':39}{'the strategy':>34}{'keep-last':>29}\n"
    f"{'':26}{'runs':>5}{'probes':>8}{'kept':>8}{'lost':>8}{'anywhere':>9}{'basename':>9}"
    f"{'lost':>11}{'anywhere':>9}{'basename':>9}{'ratio':>8}{'missed':>8}"
)


def print_tables(benchmark: Benchmark) -> None:
    """One table per cut and share."""
    for at, keep in dict.fromkeys((at, keep) for at, keep, *_ in benchmark.figures):
        print(f"\ncut at {at:,} tokens, to keep {keep:g} %\n{HEADINGS}")
        rows = {key[2:]: each for key, each in benchmark.figures.items() if key[:2] == (at, keep)}
        for strategy in dict.fromkeys(strategy for strategy, _ in rows):
            for source in (*SOURCES, "total"):
                if figures := rows.get((strategy, source)):
                    print(f"{strategy:14}{source:12}{_cells(figures)}")


def _cells(row: Figures) -> str:
    def share(count: float, of: int) -> str:
        return f"{100 * count / of:.1f}%" if of else "-"

    ratio = f"{row.lost / row.keep_last_lost:.2f}" if row.keep_last_lost else "-"
    return (
        f"{row.transcripts:5}{row.probes:8,}{share(row.tokens, row.window):>8}"
        f"{share(row.lost, row.probes):>8}{share(row.lost_anywhere, row.probes):>9}"
        f"{share(row.lost_basename, row.probes):>9}{share(row.keep_last_lost, row.probes):>11}"
        f"{share(row.keep_last_lost_anywhere, row.probes):>9}"
        f"{share(row.keep_last_lost_basename, row.probes):>9}{ratio:>8}{row.out_of_reach:8}"
    )


def print_origins(benchmark: Benchmark) -> None:
    """Where tokens and probes stood, and what a strategy left of them."""
    for strategy in dict.fromkeys(strategy for strategy, _ in benchmark.origins):
        print(f"\n{strategy}: tokens, and probes by their newest evidence")
        print(f"{'before':>12}{'after':>12}{'left':>7}{'probes':>8}{'lost':>7}  from")
        rows = [
            (name, row) for (owner, name), row in benchmark.origins.items() if owner == strategy
        ]
        for name, row in sorted(rows, key=lambda item: -item[1]["before"]):
            left = f"{row['after'] / row['before']:.0%}" if row["before"] else "new"
            counts = f"{row['before']:12,}{row['after']:12,}{left:>7}"
            print(f"{counts}{row['probes']:8,}{row['lost']:7,}  {name}")


def print_lost(lost: Sequence[LostProbe]) -> None:
    """What was lost: first by what became of it and who had shown it, then one by one."""
    for strategy in dict.fromkeys(each.strategy for each in lost):
        own = [each for each in lost if each.strategy == strategy]
        print(f"\n{strategy}: {len(own):,} probes lost, by what became of their newest evidence")
        print(f"{'probes':>8}{'gone':>7}{'messages':>10}{'tokens':>10}  fate, shown by")
        by_fate: defaultdict[tuple[str, str], list[LostProbe]] = defaultdict(list)
        for each in own:
            by_fate[each.fate, each.shown_by].append(each)
        for (fate, shown_by), some in sorted(by_fate.items(), key=lambda item: -len(item[1])):
            sizes = {(e.transcript, e.at, e.keep, e.tokens_back): e.tokens for e in some}
            gone = sum(each.still == "-" for each in some)
            counts = f"{len(some):8,}{gone:7,}{len(sizes):10,}{sum(sizes.values()):10,}"
            print(f"{counts}  {fate}, {shown_by}")
        print("gone: not in the model's own words either, not even by basename")
        for (name, at, keep), some in _by_run(own).items():
            print(f"\n{name}, {strategy}, cut at {at:,}, to keep {keep:g} %")
            print(
                f"{'size':>8}{'back':>8}  {'shown by':14}{'fate':34}{'used by':12}{'still in':15}"
            )
            for each in sorted(some, key=lambda each: (-each.tokens_back, each.identifier)):
                print(
                    f"{each.tokens:8,}{each.tokens_back:8,}  {each.shown_by:13.13} "
                    f"{each.fate:33.33} {each.used_by:11.11} {each.still:14} {each.identifier}"
                )


def _by_run(lost: Sequence[LostProbe]) -> dict[tuple[str, int, float], list[LostProbe]]:
    runs: defaultdict[tuple[str, int, float], list[LostProbe]] = defaultdict(list)
    for each in lost:
        runs[each.transcript, each.at, each.keep].append(each)
    return runs


def as_json(benchmark: Benchmark) -> dict[str, Any]:
    """All figures and all lost probes."""
    rows = [
        {"at": at, "keep": keep, "strategy": strategy, "source": source, **vars(figures)}
        for (at, keep, strategy, source), figures in benchmark.figures.items()
    ]
    return {
        "counter": COUNTER.name,
        "preserve_recent_turns": benchmark.recent_turns,
        "rows": rows,
        "lost_probes": [asdict(each) for each in benchmark.lost_probes],
        "errors": benchmark.errors,
    }


# --- the command ---


def parse() -> argparse.Namespace:
    """The command line."""

    def listed(kind: type) -> Any:
        return lambda text: [kind(each) for each in text.split(",")]

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--at", type=listed(int), default=[32_000, 64_000], metavar="TOKENS,…")
    add("--keep", type=listed(float), default=[50.0], metavar="PERCENT,…")
    add(
        "--strategies", type=listed(str), metavar="NAME,…", help="default: all without a summarizer"
    )
    add("--option", action="append", default=[], metavar="STRATEGY.KEY=VALUE", help="VALUE is JSON")
    add("--recent-turns", type=int, default=1, metavar="TURNS", help="preserve_recent_turns")
    add("--transcript", default="", metavar="TEXT", help="only runs that have this in their name")
    add("--verbose", action="store_true", help="list the lost probes and what became of them")
    add("--json", action="store_true")
    return parser.parse_args()


def read_options(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Options of strategies, by name."""
    options: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for text in texts:
        name, _, value = text.partition("=")
        strategy, _, key = name.partition(".")
        options[strategy][key] = json.loads(value)
    return options


def main() -> None:
    """Measure, and print the tables."""
    wanted = parse()
    if not folder().is_dir():
        print("there are no transcripts: set JAATO_GC_TRANSCRIPTS to a folder of them")
        return
    installed = REGISTRY.strategies()
    by_default = [name for name, info in installed.items() if not info.needs_summarizer]
    strategies = wanted.strategies or sorted(by_default)
    if unknown := set(strategies) - installed.keys():
        raise SystemExit(f"not installed: {', '.join(sorted(unknown))}")

    transcripts = [each for each in read_transcripts() if wanted.transcript in each.name]
    benchmark = Benchmark(wanted.recent_turns, read_options(wanted.option))
    for at in wanted.at:
        for case in cases(transcripts, at):
            for keep in wanted.keep:
                for strategy in strategies:
                    benchmark.run(case, strategy, keep)

    for error in benchmark.errors:
        print(error, file=sys.stderr)
    if wanted.json:
        print(json.dumps(as_json(benchmark), indent=1))
        return
    read = Counter(each.source for each in transcripts)
    print(f"{len(transcripts)} transcripts: {', '.join(f'{read[s]} {s}' for s in SOURCES)}")
    print(f"tokens by the {COUNTER.name} counter; preserve_recent_turns={wanted.recent_turns}")
    print_tables(benchmark)
    print("\nkept: of the tokens of the cut; ratio: lost, to keep-last's; missed: off the target")
    if wanted.verbose:
        print_origins(benchmark)
        print_lost(benchmark.lost_probes)


if __name__ == "__main__":
    main()
