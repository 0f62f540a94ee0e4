"""Tests of the whole command: help, imports, errors, exit codes and output."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from cli_samples import (
    HOSTILE,
    RAW,
    anthropic_request,
    command_line,
    environment,
    run,
    run_in_a_process,
    write_json,
)

from jaato_gc import GCConfig
from jaato_gc_lab import __version__
from jaato_gc_lab._cli import COMMANDS, cli
from jaato_gc_lab._cli._numbers import PERCENT, TOKENS, CommaSeparated, OverheadType
from jaato_gc_lab._figures import counted, money, percent, seconds, short
from jaato_gc_lab._text import clean

CONTEXT = click.Context(cli)


def command(name: str) -> click.Command:
    found = cli.get_command(CONTEXT, name)
    assert found
    return found


def with_subcommands(name: str) -> list[list[str]]:
    found = command(name)
    below = found.commands if isinstance(found, click.Group) else {}
    return [[name], *([name, each] for each in below)]


# --- help ---


def test_version_option_prints_the_version() -> None:
    result = run("--version")

    assert result.exit_code == 0
    assert result.stdout == f"jaato-gc {__version__}\n"


@pytest.mark.parametrize("args", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(args: list[str]) -> None:
    result = run(*args)

    assert result.exit_code == 0
    assert all(f"  {name} " in result.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_has_examples_and_fits_into_80_columns(name: str) -> None:
    for path in with_subcommands(name):
        result = run(*path, "--help")

        assert result.exit_code == 0
        assert "Examples:" in result.stdout
        assert f"jaato-gc {name}" in result.stdout
        assert all(len(line) <= 80 for line in result.stdout.splitlines()), path


@pytest.mark.parametrize("name", COMMANDS)
def test_list_of_commands_repeats_the_first_help_line_of_each_command(name: str) -> None:
    assert (command(name).help or "").splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name: str) -> None:
    options = [each for each in command(name).params if isinstance(each, click.Option)]

    assert all(option.help for option in options)


def test_help_shows_the_default_settings_of_core(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THRESHOLD", "TARGET"):
        monkeypatch.delenv(f"JAATO_GC_{name}", raising=False)
    shown, config = run("collect", "--help").stdout, GCConfig()

    for option, value in (
        ("--threshold", config.threshold_percent),
        ("--target", config.target_percent),
        ("--keep-turns", config.preserve_recent_turns),
    ):
        [line] = [line for line in shown.splitlines() if line.strip().startswith(option)]
        assert f"({value:g})." in line


# --- imports ---

HEAVY = ("rich", "jinja2", "tiktoken", "asyncio", "jaato_gc_lab._cli.demo")


@pytest.mark.parametrize("args", [["--version"], ["--help"], []])
def test_help_and_version_import_no_heavy_modules(args: list[str], tmp_path: Path) -> None:
    program = (
        "import sys\nfrom jaato_gc_lab._cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip

    assert done.stderr.strip() == "[]"


def test_inspect_imports_neither_jinja_nor_tiktoken(tmp_path: Path) -> None:
    write_json(tmp_path / "request.json", anthropic_request())
    program = (
        "import sys\nfrom jaato_gc_lab._cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('jinja2' in sys.modules, 'tiktoken' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "inspect", "request.json"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip

    assert done.stderr.strip() == "False False"


# --- errors ---


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["colect"], ["unknown command 'colect'", "did you mean 'collect'"]),
        (["xyz"], ["unknown command 'xyz'", "demo, inspect"]),
        (["inspect"], ["missing argument 'FILE'", "jaato-gc inspect --help"]),
        (["inspect", "nowhere.json"], ["nowhere.json", "no such file"]),
        (["inspect", "request.json", "--jsn"], ["--jsn", "--json"]),
        (["inspect", "request.json", "-c", "9"], ["no conversation 9", "has 1 conversation"]),
        (["collect", "request.json", "-c", "9"], ["no conversation 9", "has 1 conversation"]),
        (["inspect", "."], ["folder"]),
        (["inspect", "request.json", "--format", "nope"], ["unknown format 'nope'", "anthropic"]),
        (["collect", "request.json", "--strategy", "bugdet"], ["'bugdet'", "did you mean"]),
        (["collect", "request.json", "--strategy", "none"], ["choose another strategy"]),
        (["collect", "request.json", "--context-limit", "12x"], ["'12x'", "8000, 128k or 1M"]),
        (["collect", "request.json", "--target", "0.6"], ["60%", "0.6%"]),
        (["collect", "request.json", "--target", "90", "--threshold", "50"], ["lower the target"]),
        (["collect", "request.json", "--apply"], ["-o FILE", "--in-place"]),
        (["collect", "request.json", "--in-place"], ["--apply"]),
        (["collect", "request.json", "--undo"], ["request.json.undo.json.gz does not exist"]),
        (["collect", "request.json", "--undo", "--apply"], ["--undo can't be combined"]),
        (["collect", "request.json", "--model", "gpt-0"], ["'gpt-0'", "price"]),
        (["collect", "request.json", "--config", "no.json"], ["no.json does not exist"]),
        (["replay", "nowhere.json"], ["nowhere.json"]),
        (["replay", "empty.json"], ["no conversation to replay", "empty.json"]),
        (["replay"], ["missing argument"]),
        (["compare", "nowhere"], ["nowhere does not exist", "files or folders"]),
        (["compare", "request.json", "--context-limit", "8k,,9k"], ["commas"]),
        (["compare", "request.json", "--strategies", "nope"], ["unknown strategy 'nope'"]),
        (["compare", "request.json", "--prices", "no.toml"], ["no.toml", "price table"]),
        (["compare", "request.json", "--report", "no/report.html"], ["folder no does not exist"]),
        (["compare", "request.json", "--report", "request.json"], ["already exists", "--force"]),
        (["report"], ["pass files", "--from FILE"]),
        (["report", "--from", "request.json"], ["not a saved comparison", "compare"]),
        (["report", "--from", "broken.json"], ["invalid JSON", "compare"]),
        (["report", "--from", "nowhere.json"], ["nowhere.json"]),
        (["check", "request.json", "--max-lost-context", "200"], ["from 0 to 100"]),
        (["config", "show", "nowhere.json"], ["nowhere.json does not exist"]),
        (["config", "show", "broken.json"], ["broken.json", "line 1"]),
        (["config", "show", "--profile", "x", "broken.json"], ["not both"]),
        (["config", "validate"], [".jaato/gc.json does not exist"]),
        (["config", "nope"], ["nope"]),
    ],
)
def test_invalid_input_prints_one_line_with_the_remedy(
    args: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_json(Path("request.json"), anthropic_request())
    Path("broken.json").write_text('{"type": ', encoding="utf-8")
    Path("empty.json").write_text("", encoding="utf-8")
    before = sorted(tmp_path.iterdir())

    result = run(*args)

    assert result.exit_code == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("jaato-gc: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert all(word in result.stderr for word in words), result.stderr
    assert sorted(tmp_path.iterdir()) == before


FUZZ = [
    b"",
    b"\n\n",
    b"{",
    b"[]",
    b"{}",
    b"null",
    b"42",
    b'"text"',
    b"[1, 2, 3]",
    b'{"messages": null}',
    b'{"messages": 5}',
    b'{"messages": [[]]}',
    b'{"messages": [{"role": "user"}]}',
    b'{"messages": [{"role": 7, "content": {}}]}',
    b'[{"role": "unknown", "content": "x"}]',
    b'{"role": "user", "content": "\\ud800"}\n',
    b'{"contents": [{"parts": 3}]}',
    b'{"input": [{"type": "function_call_output"}]}',
    b"\xff\xfe\x00",
    b"\x1f\x8b\x08broken",
    b"PK\x03\x04",
    b"[" * 5000,
    b'{"a":' * 2000,
    b'{"role": "user", "content": "x"}\n{broken\n{"role": "assistant", "content": "y"}\n',
]


@pytest.mark.parametrize("content", FUZZ, ids=lambda content: repr(content[:30]))
@pytest.mark.parametrize("args", [["inspect"], ["collect", "--context-limit", "1"], ["replay"]])
def test_malformed_files_cause_no_internal_error(
    content: bytes, args: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "file.json"
    file.write_bytes(content)

    result = run(args[0], file, *args[1:])

    assert result.exit_code in (0, 2), result.output
    assert "Traceback" not in result.output
    assert "internal error" not in result.output


def test_internal_error_prints_one_line_unless_a_traceback_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError(f"oh {HOSTILE}")

    monkeypatch.setattr("jaato_gc_lab._cli.inspect.inspect_file", fails)

    result = run("inspect", tmp_path)
    traced = run("--traceback", "inspect", tmp_path)

    assert result.exit_code == 70
    assert result.stderr.count("\n") == 1
    assert "internal error: RuntimeError: oh" in result.stderr
    assert not any(character in result.stderr for character in RAW)
    assert "Traceback" in traced.stderr


@pytest.mark.parametrize("args", [["inspect"], ["collect", "--context-limit", "1k"], ["replay"]])
def test_content_of_a_transcript_can_not_control_the_terminal(
    args: list[str], tmp_path: Path
) -> None:
    request = anthropic_request(text=HOSTILE)
    for message in request["messages"]:
        if isinstance(message["content"], list):
            for block in message["content"]:
                if block["type"] == "tool_use":
                    block["name"] = f"read{HOSTILE}"
                    block["input"]["path"] = HOSTILE
    request["messages"][0]["content"] = HOSTILE * 500
    name = HOSTILE.replace("\x00", "").replace("/", "")
    file = write_json(tmp_path / name, request)

    result = run(args[0], file, *args[1:])

    assert result.exit_code == 0, result.stderr
    assert not any(character in result.output for character in RAW)


def test_file_names_in_errors_can_not_control_the_terminal(tmp_path: Path) -> None:
    result = run("inspect", tmp_path / HOSTILE.replace("\x00", ""))

    assert result.exit_code == 2
    assert not any(character in result.output for character in RAW)


# --- output ---


def test_output_to_a_pipe_has_80_columns_and_no_escape_codes(tmp_path: Path) -> None:
    write_json(tmp_path / "request.json", anthropic_request(20))
    for args in (
        ["inspect", "request.json"],
        ["collect", "request.json", "--context-limit", "4k"],
        ["replay", "request.json", "--context-limit", "4k"],
        ["plugins"],
        ["config", "show"],
    ):
        done = run_in_a_process(*args, cwd=tmp_path)

        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 80, args


def test_output_is_ascii_if_the_encoding_supports_nothing_else(tmp_path: Path) -> None:
    request = anthropic_request(text="日本語 ▁▂▃ é\n")
    write_json(tmp_path / "request.json", request)
    for args in (["inspect", "request.json"], ["replay", "request.json", "--context-limit", "2k"]):
        done = run_in_a_process(*args, cwd=tmp_path, PYTHONUTF8="0", PYTHONIOENCODING="ascii")

        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()
        assert "#" in done.stdout


def test_terminal_output_is_styled_unless_no_color_is_set(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="this platform has no pseudo-terminals")
    import os

    write_json(tmp_path / "request.json", anthropic_request())

    def on_a_terminal(**variables: str) -> str:
        master, slave = pty.openpty()
        done = subprocess.Popen(
            command_line("inspect", "request.json"),
            cwd=tmp_path, env=environment(TERM="xterm-256color", **variables),
            stdout=slave, stderr=slave, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(slave)
        shown = b""
        while True:
            try:
                some = os.read(master, 65536)
            except OSError:
                break
            if not some:
                break
            shown += some
        assert done.wait(timeout=120) == 0
        os.close(master)
        return shown.decode()

    assert "\x1b[1m" in on_a_terminal()
    assert "\x1b[3" not in on_a_terminal(NO_COLOR="1")


# --- numbers ---


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("8000", 8000), ("128k", 128_000), ("128K", 128_000), ("1M", 1_000_000), ("1.5m", 1_500_000),
     ("32_000", 32_000), (" 8k ", 8_000), ("0.5k", 500)],
)  # fmt: skip
def test_token_counts_accept_units_and_separators(text: str, tokens: int) -> None:
    assert TOKENS.convert(text, None, None) == tokens


@pytest.mark.parametrize("text", ["", "k", "-8k", "8kk", "8%", "0", "1.5", "1e6", "9999M"])
def test_invalid_token_counts_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"expected .*tokens.*, got "):
        TOKENS.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [("60", 60), ("60%", 60), ("60 %", 60), ("0", 0), ("2.5%", 2.5), ("0.5%", 0.5)],
)
def test_percentages_are_accepted_with_and_without_a_sign(text: str, value: float) -> None:
    assert PERCENT.convert(text, None, None) == value


@pytest.mark.parametrize("text", ["", "%", "-1", "101", "60k", "0.6", "half"])
def test_invalid_percentages_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"expected a percentage.*, got "):
        PERCENT.convert(text, None, None)


def test_overhead_is_a_word_or_a_number_of_tokens() -> None:
    found = [OverheadType().convert(each, None, None) for each in ("auto", "none", "0", "20k")]

    assert found == ["auto", "none", 0, 20_000]
    with pytest.raises(click.BadParameter, match="expected tokens"):
        OverheadType().convert("some", None, None)


def test_comma_separated_values_have_no_duplicates() -> None:
    assert CommaSeparated(TOKENS).convert("8k, 32k,8000", None, None) == [8_000, 32_000]


def test_numbers_are_formatted_with_few_digits() -> None:
    assert [short(n) for n in (950, 8_200, 128_000, 1_250_000)] == ["950", "8.2k", "128k", "1.25M"]
    assert [percent(n) for n in (0, 0.005, 0.61, -0.05, None)] == [
        "0%",
        "0.5%",
        "61%",
        "-5.0%",
        "-",
    ]
    assert [money(n) for n in (0, 0.012, 0.89, 12, 1234)] == [
        "0.00",
        "0.012",
        "0.89",
        "12.00",
        "1,234",
    ]
    assert [seconds(n) for n in (0.0014, 0.014, 3.24, 240)] == ["1.4ms", "14ms", "3.2s", "4min"]
    assert [counted(n, "strategy") for n in (1, 1200)] == ["1 strategy", "1,200 strategies"]
    assert counted(2, "replay") == "2 replays"


def test_cleaning_keeps_readable_text_and_removes_control_characters() -> None:
    assert clean("  a\tb\nc  ") == "a b c"
    assert clean("naïve 日本 🔒") == "naïve 日本 🔒"
    assert clean("abcdef", 4) == "abc…"
    assert not any(character in clean(HOSTILE) for character in RAW)
    json.dumps(clean("\ud800")).encode()
