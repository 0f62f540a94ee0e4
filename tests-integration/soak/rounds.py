"""A round: one session from its first message to its last undo, by one seed."""

import random
from dataclasses import dataclass, field

from conversations import STRATEGIES, WIRES, talk
from loopback import running
from strict_loops import CLIENTS, Loop

from soak.alone import alone, begin, rest
from soak.chances import Setup
from soak.host import Host
from soak.killing import kill_and_restore
from soak.threads import noting_errors, together
from soak.turns import in_turns

KILLED = "killed"
"""The end of the seeds of rounds in which a process is killed."""
STRICT = "strict"
"""The end of the seeds of rounds with a strict provider."""
LOOP = "loop"
"""The end of the seeds of rounds with a strict provider and a provider's own client."""


@dataclass
class Tally:
    """What rounds did and found."""

    rounds: int = 0
    collections: int = 0
    requests: int = 0
    lengths: int = 0
    kills: int = 0
    interrupts: int = 0
    strict_requests: int = 0
    """Requests that were held against a strict provider."""
    findings: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Adds the figures of other rounds."""
        self.rounds += other.rounds
        self.collections += other.collections
        self.requests += other.requests
        self.lengths += other.lengths
        self.kills += other.kills
        self.interrupts += other.interrupts
        self.strict_requests += other.strict_requests
        self.findings += other.findings

    def __str__(self) -> str:
        mean = self.lengths / max(1, self.requests)
        return (
            f"{self.rounds:,} rounds, {self.collections:,} collections, {self.requests:,} requests "
            f"of {mean:.0f} messages, {self.strict_requests:,} to strict providers, "
            f"{self.kills:,} kills, {self.interrupts:,} interrupts, "
            f"{len(self.findings):,} findings"
        )


def run_round(seed: str) -> Tally:
    """Runs a round. Its choices follow from the seed; what threads make of them does not."""
    if seed.endswith(STRICT):
        return converse(seed)
    if seed.endswith(LOOP):
        return loop(seed)
    if is_killed := seed.endswith(KILLED):
        host = kill_and_restore(seed)
    else:
        host = Host(Setup(seed))
        with noting_errors(host):
            begin(host)
            alone(host, steps=20)
            together(host, threads=4, steps=10)
            in_turns(host, turns=4, threads=3)
            alone(host, steps=20)
            rest(host)
    witness, collections = host.witness, host.session.collection_count
    findings = [f"{seed}: {finding}" for finding in witness.findings]
    return Tally(
        1,
        collections,
        witness.requests,
        witness.lengths,
        int(is_killed),
        witness.interrupts,
        findings=findings,
    )


def converse(seed: str) -> Tally:
    """Runs a conversation with a strict provider in each format."""
    tally = Tally(1)
    for format in WIRES:
        done = talk(format, f"{seed}/{format}", requests=60)
        tally.strict_requests += done.requests
        tally.collections += done.collections
        tally.findings += [f"{seed}: {format}: {finding}" for finding in done.findings]
    return tally


def loop(seed: str) -> Tally:
    """Runs a loop around a client, with a strict provider behind a local server."""
    chance = random.Random(seed)
    format, strategy = chance.choice(list(CLIENTS)), chance.choice(STRATEGIES)
    with running() as providers:
        done = Loop(providers, format, strategy, seed)
        done.run(turns=60)
        findings = [f"{seed}: {format}, {strategy}: {each}" for each in providers.refusals]
        requests, collections = len(providers.requests), len(done.collections)
    return Tally(1, collections, strict_requests=requests, findings=findings)
