"""Runs rounds in several processes for some minutes: see `python -m soak --help`."""

import argparse
import os
import random
import sys

from soak.workers import be_quiet, run_rounds, show, watched


def main() -> None:
    """Reads the arguments and runs the soak."""
    parser = argparse.ArgumentParser(
        "soak", description="Uses sessions at random, and checks every request."
    )
    minutes = float(os.environ.get("JAATO_GC_SOAK_MINUTES") or 10)
    parser.add_argument("--minutes", type=float, default=minutes, help="default: %(default)s")
    parser.add_argument(
        "--strict-requests",
        type=int,
        default=20_000,
        help="go on until so many requests were held against strict providers (%(default)s)",
    )
    parser.add_argument("--seed", default=str(random.randrange(10**9)), help="default: random")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--round", help="repeat one round, by the seed that a finding begins with")
    given = parser.parse_args()
    if given.round:
        be_quiet()
        tally = watched(given.round)
        show(*tally.findings)
    else:
        repeat = f"nox -s soak -- --seed {given.seed} --minutes {given.minutes:g}"
        show(f"seed {given.seed}: repeat it with {repeat}")
        tally = run_rounds(given.seed, given.minutes, given.workers, given.strict_requests)
    show(str(tally))
    sys.exit(bool(tally.findings))


if __name__ == "__main__":
    main()
