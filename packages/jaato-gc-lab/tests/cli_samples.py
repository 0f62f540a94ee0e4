"""Sample files in several formats and helpers that run the command."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jaato_gc_lab._cli import cli

HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202egnp.exe \x00"
"""Escape sequences that set colours, set the title, clear the screen or reverse the text."""
RAW = ("\x1b", "\x07", "\x9b", "\u202e", "\x00", "\x7f")


def run(*args: object, input: str | bytes | None = None) -> Result:
    """Runs the command in this process, with its output captured."""
    return CliRunner().invoke(cli, list(map(str, args)), input=input)


def run_in_a_process(
    *args: object, cwd: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command in a new process."""
    return subprocess.run(
        command_line(*args),
        cwd=cwd,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


class Terminal(io.TextIOWrapper):
    """Collects what a command prints, and looks like a terminal to it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


def run_on_a_terminal(*args: object, columns: int = 80, **variables: str) -> tuple[int, str]:
    """Runs the command in this process on a terminal, and returns exit code and output."""
    terminal = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NO_COLOR", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        for name, value in {"TERM": "xterm-256color", "COLUMNS": str(columns), **variables}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdout", terminal)
        with pytest.raises(SystemExit) as ended:
            cli.main(list(map(str, args)), prog_name="jaato-gc")
    code = ended.value.code
    assert isinstance(code, int)
    return code, terminal.shown()


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def command_line(*args: object) -> list[str]:
    program = "from jaato_gc_lab._cli import main; main()"
    return [sys.executable, "-c", program, *map(str, args)]


def environment(**variables: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("JAATO_GC_") and name not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")
    }
    return {**kept, "PYTHONUTF8": "1", **variables}


def anthropic_request(
    turns: int = 6, text: str = "GET /health 200 from harbour\n"
) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for number in range(turns):
        path = f"src/module_{number % 2}.py"
        messages += [
            {"role": "user", "content": f"Please look at {path}, request {number}."},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": f"I read {path}."},
                    {
                        "type": "tool_use",
                        "id": f"toolu_{number}",
                        "name": "read_file",
                        "input": {"path": path},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": f"toolu_{number}",
                        "content": f"{path}\n" + text * 40,
                    }
                ],
            },
            {"role": "assistant", "content": f"Module {number} is in order."},
        ]
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 1024,
        "system": "You are careful.",
        "tools": [{"name": "read_file", "description": "Show a file.", "input_schema": {}}],
        "messages": messages,
    }


def chat_messages(turns: int = 6) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are careful."}]
    for number in range(turns):
        call = {"name": "read_log", "arguments": json.dumps({"name": f"service-{number}"})}
        messages += [
            {"role": "user", "content": f"How is service-{number}?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}],
            },
            {
                "role": "tool",
                "tool_call_id": f"call_{number}",
                "content": f"line of service-{number}\n" * 60,
            },
            {"role": "assistant", "content": f"service-{number} is fine."},
        ]
    return messages


def claude_code_lines(turns: int = 4) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    parent = None
    for position, message in enumerate(anthropic_request(turns)["messages"]):
        kind = message["role"]
        content = message["content"]
        if kind == "assistant":
            blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
            message = {"id": f"msg_{position}", "type": "message", **message, "content": blocks}
        lines.append(
            {
                "type": kind,
                "uuid": f"u{position}",
                "parentUuid": parent,
                "sessionId": "s1",
                "isSidechain": False,
                "version": "2.0.0",
                "cwd": "/repo",
                "timestamp": f"2026-01-01T00:00:{position:02}Z",
                "message": message,
            }
        )
        parent = f"u{position}"
    return lines


def write_json(path: Path, data: Any, indent: int | None = None) -> Path:
    path.write_text(json.dumps(data, indent=indent), encoding="utf-8")
    return path


def write_lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    return path


def write_gzip(path: Path, data: Any) -> Path:
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    return path
