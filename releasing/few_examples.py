"""A pytest plugin that reduces the examples of each Hypothesis property, to run many suites.

`JAATO_GC_EXAMPLES` sets the maximum. It also lowers the limits that the conformance kit sets, in
any release of the kit.
"""

import os
from typing import Any

import hypothesis

MOST = int(os.environ.get("JAATO_GC_EXAMPLES", "3"))

_init = hypothesis.settings.__init__


def _init_with_fewer(
    self: hypothesis.settings, parent: hypothesis.settings | None = None, **options: Any
) -> None:
    if isinstance(asked := options.get("max_examples"), int):
        options["max_examples"] = min(asked, MOST)
    _init(self, parent, **options)


setattr(hypothesis.settings, "__init__", _init_with_fewer)  # noqa: B010 (mypy rejects an assignment)
hypothesis.settings.register_profile("few", max_examples=MOST)
hypothesis.settings.load_profile("few")
