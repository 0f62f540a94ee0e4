"""No file is read without a bound, whatever it is and whatever is packed in it."""

import gzip
import json
from pathlib import Path

import pytest
from cli_samples import anthropic_request, run, write_json

from jaato_gc_lab import _files

SMALL = ("--context-limit", "2k", "--keep-turns", "1")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_undo_file_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Path("request.json")
    write_json(request, anthropic_request(8))
    assert run("collect", request, *SMALL, "--apply", "--in-place").exit_code == 0
    [undo] = Path().glob("*.undo.json.gz")
    collected = request.read_bytes()
    undo.write_bytes(gzip.compress(bytes(3_000_000)))
    monkeypatch.setattr(_files, "MAX_BYTES", 2_000_000)

    result = run("collect", "--undo", request)

    assert result.exit_code != 0
    assert f"{undo} is unpacked larger than 1 MiB" in result.output
    assert request.read_bytes() == collected


def test_a_file_that_is_too_large_to_collect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(Path("request.json"), anthropic_request(8))
    monkeypatch.setattr(_files, "MAX_BYTES", 1_000)

    result = run("collect", "request.json", *SMALL)

    assert result.exit_code != 0
    assert "request.json is larger than 0 MiB" in result.output


def test_a_stream_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "MAX_STREAM_BYTES", 2_000_000)

    result = run("inspect", "-", input=b" " * 3_000_000)

    assert result.exit_code != 0
    assert "stdin is larger than 1 MiB" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "--from", "endless"),
        ("replay", "request.json", "--prices", "endless"),
        ("replay", "request.json", "--config", "endless"),
        ("config", "validate", "endless"),
        ("inspect", "endless"),
        ("collect", "endless"),
    ],
    ids=" ".join,
)
def test_a_link_to_a_device_is_refused(arguments: tuple[str, ...]) -> None:
    Path("request.json").write_text(json.dumps(anthropic_request(8)))
    Path("endless").symlink_to("/dev/zero")

    result = run(*arguments)

    assert result.exit_code != 0
    assert "not a regular file" in result.output
