"""Sixty turns with the real clients and a strict provider: no request is refused."""

import os

import pytest
from conversations import STRATEGIES
from loopback import Loopback
from strict_loops import CLIENTS, Loop

ALL = [(format, strategy) for format in CLIENTS for strategy in STRATEGIES]
SAMPLE = [(list(CLIENTS)[at % len(CLIENTS)], strategy) for at, strategy in enumerate(STRATEGIES)]
"""Each strategy and each API once. `JAATO_GC_ALL_LOOPS=1` runs all pairs, and so does the soak."""


@pytest.mark.parametrize(
    ("format", "strategy"), ALL if os.environ.get("JAATO_GC_ALL_LOOPS") else SAMPLE
)
def test_a_streamed_loop_of_sixty_turns_is_never_refused(
    format: str, strategy: str, providers: Loopback
) -> None:
    loop = Loop(providers, format, strategy, seed="1")

    loop.run(turns=60)

    assert providers.refusals == []
    assert len(providers.requests) > 100
    assert len(loop.collections) >= 4
