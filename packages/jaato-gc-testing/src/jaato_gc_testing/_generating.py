"""How the checks of the suites generate examples."""

from hypothesis import HealthCheck, Phase, settings

READABLE = [phase for phase in Phase if phase is not Phase.explain]
"""All phases but the last: its explanation names lines of core."""

few = settings(
    max_examples=30,
    deadline=None,
    phases=READABLE,
    report_multiple_bugs=False,  # one failure is easier to read than a group of them
    suppress_health_check=[
        HealthCheck.differing_executors,  # every subclass runs the same checks, by design
        HealthCheck.function_scoped_fixture,  # examples may share what is tested
        HealthCheck.too_slow,
    ],
)
"""For checks that need only a few examples."""
