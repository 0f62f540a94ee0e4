"""The driver's side of a worker: a process in the environment of its contender."""

import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ANSWER_SECONDS = 300.0
# Without the settings of Python in this shell, such as PYTHONDONTWRITEBYTECODE.
VARIABLES = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


class WorkerProcess:
    """A process that runs ``worker.py`` for one contender.

    Args:
        contender: The name of the contender's module.
        python: The interpreter of its environment.
    """

    def __init__(self, contender: str, python: Path) -> None:
        self._command = [str(python), str(HERE / "worker.py"), contender]
        self._process: subprocess.Popen[str] | None = None
        # Closed by `close`: it has to outlive the process that writes into it.
        self._errors = tempfile.TemporaryFile(  # noqa: SIM115
            "w+", encoding="utf-8", errors="replace"
        )

    def start(self) -> dict[str, Any]:
        """Starts the process; returns the description of the contender, or an error."""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                encoding="utf-8",
                env=VARIABLES,
            )
        except OSError as error:
            return {"error": f"{type(error).__name__}: it has no environment"}
        return self._read()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sends a request; returns the answer, or an error."""
        if self._process is None and "error" in (answer := self.start()):
            return answer
        assert self._process
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            return self._stopped()
        return self._read()

    def close(self) -> None:
        """Ends the process."""
        self._stop()
        self._errors.close()

    def _stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
            self._process = None

    def _read(self) -> dict[str, Any]:
        assert self._process
        assert self._process.stdout
        timer = threading.Timer(ANSWER_SECONDS, self._process.kill)
        timer.start()
        start = time.monotonic()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line:
            is_late = time.monotonic() - start >= ANSWER_SECONDS
            return self._stopped(f"stopped after {ANSWER_SECONDS:g} s" if is_late else "")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _stopped(self, error: str = "") -> dict[str, Any]:
        """Ends the process; returns an error, or the last line that the process wrote."""
        self._stop()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        return {"error": error or (lines or ["the process ended without a message"])[-1]}
