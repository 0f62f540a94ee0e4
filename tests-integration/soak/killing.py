"""A process that uses a session is killed, and the session restored from what it saved last.

The module is also the program of that process:

    python -m soak.killing SEED FOLDER

It uses a session with an SQLite stash in one thread, saves it again and again in another one, and
prints a line after each time. The saved session and what its witness knows are in one file.
"""

import contextlib
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from soak.alone import alone, begin, rest
from soak.chances import Setup
from soak.host import Host
from soak.threads import noting_errors
from soak.witness import Witness

ROOT = Path(__file__).parents[1]
FILE = "saved.json"


def kill_and_restore(seed: str) -> Host:
    """Kills a process at a random moment. Returns the host of its session, checked and used."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = [sys.executable, "-m", "soak.killing", seed, name]
        with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(chance.randint(1, 30)):
                process.stdout.readline()
            time.sleep(chance.random() * 0.05)  # somewhere between two saves
            process.kill()
        if process.returncode > 0:
            raise RuntimeError(f"the process ended by itself with {process.returncode}")
        saved = json.loads((folder / FILE).read_text(encoding="utf-8"))
        witness = Witness.from_state(saved["witness"])
        host = Host(Setup(seed, folder), witness, saved["strategy"], saved["session"])
        host.setup.talk.continue_from(10**6)
        with noting_errors(host):
            if host.session.save() != saved["session"]:
                host.witness.find("the session of a killed process is not what was saved")
            alone(host, steps=10)
            rest(host)
        if host.setup.stash:
            host.setup.stash.close()
    return host


def run(seed: str, folder: Path) -> None:
    """Uses a session until the process is killed."""
    host = Host(Setup(seed, folder))
    begin(host)

    def use() -> None:
        with noting_errors(host):
            while not host.witness.findings:
                host.add_turn()
                host.send()
                host.step(host.setup.chance)
        sys.stderr.write("\n".join(host.witness.findings))
        os._exit(1)

    threading.Thread(target=use, daemon=True).start()
    while True:
        save(host, folder)
        sys.stdout.write("saved\n")
        sys.stdout.flush()


def save(host: Host, folder: Path) -> None:
    """Saves the session and what its witness knows at this moment."""
    witness = host.witness
    with host.strategies, witness.appending, witness.host:
        state = {
            "session": host.session.save(),
            "strategy": host.strategy,
            "witness": witness.state(),
        }
    written = folder / "written.json"
    written.write_text(json.dumps(state), encoding="utf-8")
    written.replace(folder / FILE)


if __name__ == "__main__":
    logging.getLogger("jaato_gc").setLevel(logging.CRITICAL)
    with contextlib.suppress(BrokenPipeError):
        run(sys.argv[1], Path(sys.argv[2]))
