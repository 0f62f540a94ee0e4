"""Turns three to five: an option of the import, a question, and a red pipeline."""

import random

from sample_run.ci_log import CiLog
from sample_run.clock_change import CLOCK, IMPORTS, SAMPLES, STORAGE
from sample_run.transcript import Transcript

CLI = "src/harbour/cli.py"
TEST_CLI = '''\
import io
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

from harbour.cli import main
from tests.samples import HEADER, row, utc

NOW = utc(2026, 1, 15, 3)


def run_import(*options: str) -> tuple[int, str, bool]:
    """Returns exit code, output without the file name, and whether the store was written."""
    with tempfile.TemporaryDirectory() as folder:
        file, store = Path(folder, "file.csv"), Path(folder, "calls.jsonl")
        lines = [HEADER, row("MNF-1", "15.01.2026 12:00", "15.01.2026 20:00")]
        file.write_text("\\n".join(lines), encoding="utf-8")
        printed = io.StringIO()
        with redirect_stdout(printed):
            code = main(["--store", str(store), "import", *options, str(file)], NOW)
        return code, printed.getvalue().partition(": ")[2].strip(), store.exists()


def test_import_writes_the_store() -> None:
    assert run_import() == (0, "stored=1 rejected=0 expired=0", True)


def test_dry_run_writes_nothing_and_says_so() -> None:
    assert run_import("--dry-run") == (0, "dry run: stored=1 rejected=0 expired=0", False)
'''


def add_a_dry_run(run: Transcript) -> None:
    """Adds a turn with a small feature, test first."""
    run.user(
        "Please add --dry-run to `harbour import`: read and check everything, write nothing, and "
        "say in the output that it was a dry run."
    )
    run.read("", CLI, IMPORTS)
    run.search("Are there tests of the command?", "harbour.cli")
    run.write("None. I'll start with them.", "tests/test_cli.py", TEST_CLI)
    run.edit(
        "The option:",
        CLI,
        '    importing.add_argument("files", type=Path, nargs="+")\n',
        '    importing.add_argument("files", type=Path, nargs="+")\n'
        '    importing.add_argument("--dry-run", action="store_true", help="write nothing")\n',
        "    if store.writes:\n        write_store(args.store, store)\n",
        "    if store.writes and not args.dry_run:\n        write_store(args.store, store)\n",
    )
    run.tests("", "cli")
    run.edit(
        "Nothing is written. The output has to say so.",
        CLI,
        '        print(f"{file}: {result.summary()}")\n',
        '        prefix = "dry run: " if args.dry_run else ""\n'
        '        print(f"{file}: {prefix}{result.summary()}")\n',
    )
    run.read("Is that readable as a whole?", CLI)
    run.tests("")
    run.commit("", "HB-4130: harbour import --dry-run")
    run.answer(
        "`harbour import --dry-run` reads and checks all files and writes nothing. Every line of "
        "its output begins with `dry run:` after the file name. The command has tests now."
    )


def answer_a_question(run: Transcript) -> None:
    """Adds a turn in which nothing changes."""
    run.user(
        "A question in between, don't change anything: who decides that a vessel needs a pilot, "
        "and do dangerous goods play a part in it?"
    )
    run.search("", "needs_pilot")
    run.read("", "src/harbour/vessels.py", "src/harbour/notices.py")
    run.answer(
        "`needs_pilot` in `src/harbour/vessels.py`: vessels from 90 m of length or 7 m of draught. "
        "Cargo plays no part. Dangerous goods need a permit, which `line_for` in `notices.py` "
        "mentions, and a berth with `allows_dangerous`. Dues use `needs_pilot` as well."
    )


def fix_the_pipeline(run: Transcript, rng: random.Random) -> None:
    """Adds a turn with a very long log, of which a few lines matter."""
    run.user("Pipeline 88213 is red since your last commit. Please look at its log.")
    log = CiLog(rng, run.workspace.files, run.workspace.test_names()).text()
    run.run("", "ci logs 88213", log)
    run.search(
        "Only the job for Python 3.10 fails: `datetime.UTC` exists since 3.11, and I run 3.12. "
        "Where is it used?",
        "import UTC",
    )
    run.run(
        "Is 3.10 required?",
        "grep -n requires-python pyproject.toml",
        '4:requires-python = ">=3.10"',
    )
    run.edit(
        "Yes. One name in one place, then.",
        CLOCK,
        "from datetime import UTC, datetime, timedelta\n",
        "from datetime import datetime, timedelta, timezone\n",
        "WINTER_OFFSET = timedelta(hours=1)\n",
        'UTC = timezone.utc\n"""As in `datetime` since Python 3.11."""\n'
        "WINTER_OFFSET = timedelta(hours=1)\n",
    )
    run.edit(
        "",
        STORAGE,
        "from datetime import UTC, datetime, timezone\n",
        "from datetime import datetime\n",
    )
    run.read("I had that line wrong.", STORAGE)
    run.edit(
        "",
        STORAGE,
        "from datetime import UTC, datetime\nfrom typing import Any\n\n",
        "from datetime import datetime\nfrom typing import Any\n\nfrom harbour.clock import UTC\n",
    )
    run.edit(
        "",
        SAMPLES,
        "from datetime import UTC, datetime, timedelta\n\n",
        "from datetime import datetime, timedelta\n\nfrom harbour.clock import UTC\n",
    )
    run.tests("")
    run.run(
        "And with the Python of the job that failed:",
        "python3.10 -m pytest -q",
        run.workspace.pytest(*run.workspace.test_files()),
    )
    run.commit("", "HB-3310: works on Python 3.10 again")
    run.answer(
        "`datetime.UTC` does not exist in Python 3.10, which `pyproject.toml` still allows. "
        "`harbour.clock` defines `UTC` now and everything imports it from there. All tests pass on "
        "3.10 and 3.12; pipeline 88213 can be started again."
    )
