"""Generates the sample run of jaato-gc-lab: an agent that works on a small code base.

The harbour, its software and its logs are fictional. The code base is in `sample_run/project`; the
turns of the run are functions in the modules beside it. Reads show the files as the edits before
them left them, and tests really run on them. The same seed always produces the same run. The
English inside the run is data: changing it changes all figures in the documentation.

    python packages/jaato-gc-lab/tools/make_sample.py
"""

import gzip
import json
import random
from pathlib import Path
from typing import Any

from sample_run import clock_change, dry_run, office
from sample_run.transcript import Transcript
from sample_run.workspace import Workspace

SEED = 20261118
OUTPUT = Path(__file__).parents[1] / "src" / "jaato_gc_lab" / "sample" / "run.json.gz"

TOOLS = {
    "read_file": ("Show a text file with line numbers.", ("path",)),
    "edit_file": ("Replace a text that occurs once in a file.", ("path", "old", "new")),
    "write_file": ("Write a whole file.", ("path", "content")),
    "search": ("List the lines that contain a text.", ("pattern", "path")),
    "run_command": ("Run a shell command and show its output.", ("command",)),
}
SYSTEM = """You are a careful engineer who works on the code base in /srv/harbour with the tools \
you are given. Read a file before you change it. Write a failing test before you fix a bug, and \
run the tests after every change. Keep changes small. When you are done, say briefly what you did \
and what you left alone.

House rules: type hints, no new dependencies without asking. Ticket numbers (HB-…) belong into \
commit messages and into the change log."""


def make() -> dict[str, Any]:
    """Returns the last request of the run."""
    rng = random.Random(SEED)
    run = Transcript(Workspace(rng))
    clock_change.find_the_bug(run)
    clock_change.make_times_aware(run)
    dry_run.add_a_dry_run(run)
    dry_run.answer_a_question(run)
    dry_run.fix_the_pipeline(run, rng)
    office.show_arrivals(run)
    office.explain_an_invoice(run)
    office.rename_the_readers(run)
    office.close_a_berth(run)
    office.review_the_import(run)
    office.change_the_import_time(run)
    office.write_the_change_log(run)
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 8192,
        "system": SYSTEM,
        "tools": [
            {
                "name": name,
                "description": what,
                "input_schema": {
                    "type": "object",
                    "properties": {each: {"type": "string"} for each in arguments},
                    "required": list(arguments),
                },
            }
            for name, (what, arguments) in TOOLS.items()
        ],
        "messages": run.messages,
    }


def packed(run: dict[str, Any]) -> bytes:
    """Returns the compressed run, which is the same every time."""
    text = json.dumps(run, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)


if __name__ == "__main__":
    OUTPUT.write_bytes(packed(make()))
