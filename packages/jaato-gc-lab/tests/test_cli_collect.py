"""Tests of jaato-gc collect: plan, output file and undo."""

import gzip
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_samples import (
    anthropic_request,
    chat_messages,
    claude_code_lines,
    run,
    write_gzip,
    write_json,
    write_lines,
)

from jaato_gc_formats import check_request, load
from jaato_gc_lab import sample_path
from jaato_gc_lab._collect_file import undo_path

SMALL = ("--context-limit", "2k", "--keep-turns", "1")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def request_file() -> Path:
    return write_json(Path("request.json"), anthropic_request(), indent=2)


def collected(*args: object) -> str:
    result = run("collect", *args)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


# --- the plan ---


def test_plan_shows_removed_messages_reasons_and_cost(request_file: Path) -> None:
    shown = collected(request_file, *SMALL)

    assert "gc_budget would free" in shown
    assert "ephemeral" in shown
    assert "read_file src/module_0.py" in shown
    assert "are rewritten, which costs" in unwrapped(shown)
    assert "at the prices of claude-sonnet-4-5" in unwrapped(shown)
    assert "the collection pays off after" in unwrapped(shown)
    assert "Nothing was written" in shown


def test_plan_with_an_output_file_writes_nothing_without_apply(request_file: Path) -> None:
    before = request_file.read_bytes()

    collected(request_file, *SMALL, "-o", "out.json")

    assert files() == ["request.json"]
    assert request_file.read_bytes() == before


def test_conversation_below_the_target_needs_no_collection(request_file: Path) -> None:
    shown = collected(request_file, "--context-limit", "128k")

    assert "below the target" in shown
    assert "Lower --target" in unwrapped(shown)


def test_plan_is_available_as_json(request_file: Path) -> None:
    plan = json.loads(
        collected(request_file, "--context-limit", "3k", "--keep-turns", "1", "--json")
    )

    assert plan["needed"]
    assert plan["written_to"] is None
    assert plan["result"]["tokens_after"] <= plan["target_tokens"]
    assert plan["result"]["outcome"] == "reached"
    assert plan["cost"]["pays_after"] > 0
    assert plan["messages"][0]["role"] == "tool"
    assert plan["messages"][0]["tool"] == "read_file"
    assert plan["messages"][0]["about"].startswith("src/")


@pytest.mark.parametrize("strategy", ["budget", "gc_truncate", "marksweep", "summarize", "hybrid"])
def test_every_strategy_produces_a_valid_request(strategy: str) -> None:
    collected(sample_path(), "-s", strategy, "-l", "24k", "--apply", "-o", "out.json")

    assert check_request(json.loads(Path("out.json").read_bytes())) == []


def test_configuration_file_sets_the_strategy_and_its_options(request_file: Path) -> None:
    write_json(
        Path("gc.json"),
        {"plugin": "gc_truncate", "config": {"preserve_recent_turns": 1, "notify_on_gc": True}},
    )

    plan = json.loads(
        collected(request_file, "--context-limit", "2k", "--config", "gc.json", "--json")
    )

    assert plan["result"]["plugin_name"] == "gc_truncate"
    assert plan["result"]["notification"]


@pytest.mark.parametrize("quiet", [False, True])
def test_configuration_file_notifies_unless_it_says_otherwise(
    request_file: Path, quiet: bool
) -> None:
    document = {"type": "truncate", "preserve_recent_turns": 1}
    write_json(Path("gc.json"), document | ({"notify_on_gc": False} if quiet else {}))

    plan = json.loads(
        collected(request_file, "--context-limit", "2k", "--config", "gc.json", "--json")
    )

    assert bool(plan["result"]["notification"]) is not quiet


def test_configuration_file_can_name_a_summarizer(
    request_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_summaries.py").write_text("def brief(text): return 'All of it, in brief.'")
    monkeypatch.syspath_prepend(tmp_path)
    write_json(
        Path("gc.json"),
        {"type": "summarize", "preserve_recent_turns": 1, "summarizer": "my_summaries:brief"},
    )

    options = ("--context-limit", "2k", "--config", "gc.json", "--json")
    assert "names code" in run("collect", request_file, *options).output
    assert "my_summaries" not in sys.modules
    plan = json.loads(collected(request_file, *options, "--allow-code"))

    assert plan["result"]["plugin_name"] == "gc_summarize"
    assert plan["result"]["success"]


def test_invalid_history_is_reported_and_can_be_repaired(request_file: Path) -> None:
    request = anthropic_request()
    del request["messages"][2]
    write_json(request_file, request)

    assert "--repair" in collected(request_file, *SMALL)
    collected(request_file, *SMALL, "--repair", "--apply", "-o", "out.json")
    assert check_request(json.loads(Path("out.json").read_bytes())) == []


# --- the output file ---


def test_collected_request_keeps_all_fields_except_messages(request_file: Path) -> None:
    request = anthropic_request()
    for number, message in enumerate(request["messages"][2::4]):  # copies would be shortened
        message["content"][0]["content"] += f"version {number}"
    write_json(request_file, request, indent=2)
    # Half of this window has room for the last three calls, so none of them is shortened.
    whole = ("--context-limit", "2600", "--keep-turns", "1", "--strategy", "truncate")
    collected(request_file, *whole, "--apply", "-o", "out.json")

    before, after = json.loads(request_file.read_bytes()), json.loads(Path("out.json").read_bytes())
    assert {**after, "messages": 0} == {**before, "messages": 0}
    assert len(after["messages"]) < len(before["messages"])
    assert all(message in before["messages"] for message in after["messages"])
    assert check_request(after) == []
    assert Path("out.json").read_text(encoding="utf-8").startswith('{\n  "model"')


@pytest.mark.parametrize("kind", ["one line", "list", "lines", "gzip", "log"])
def test_output_file_has_the_json_style_of_the_input_file(kind: str) -> None:
    makers = {
        "one line": lambda: write_json(Path("in.json"), anthropic_request()),
        "list": lambda: write_json(Path("in.json"), chat_messages()),
        "lines": lambda: write_lines(Path("in.jsonl"), chat_messages()),
        "gzip": lambda: write_gzip(Path("in.json.gz"), anthropic_request()),
        "log": lambda: write_lines(Path("in.jsonl"), claude_code_lines(8)),
    }
    source = makers[kind]()
    out = Path("out" + "".join(source.suffixes))

    collected(source, *SMALL, "--apply", "-o", out)

    content = out.read_bytes()
    if kind == "gzip":
        content = gzip.decompress(content)
    if kind == "lines":
        parsed: Any = [json.loads(line) for line in content.splitlines()]
        assert parsed[0]["role"] == "system"
    else:
        parsed = json.loads(content)
        assert content.count(b"\n") == 1
    if kind == "log":
        assert parsed.keys() >= {"messages"}
    [before], [after] = load(source), load(out)
    assert len(after.messages) < len(before.messages)
    assert after.messages.format == before.messages.format
    assert after.problems == []


def test_lone_surrogates_are_preserved() -> None:
    request = anthropic_request()
    request["messages"][-1]["content"] = "half \ud83d"
    source = write_json(Path("in.json"), request)

    collected(source, *SMALL, "--apply", "-o", "out.json")

    assert json.loads(Path("out.json").read_bytes())["messages"][-1]["content"] == "half \ud83d"


def test_file_with_several_conversations_requires_a_conversation_number() -> None:
    source = write_lines(Path("in.jsonl"), [anthropic_request(2), anthropic_request(7)])

    refused = run("collect", source, *SMALL)
    collected(source, *SMALL, "-c", 2, "--apply", "-o", "out.json")

    assert refused.exit_code == 2
    assert "has 2 conversations: choose one with --conversation N" in refused.stderr
    assert "request 6" in Path("out.json").read_text(encoding="utf-8")


# --- existing files ---


@pytest.mark.parametrize("present", ["out.json", "out.json.undo.json.gz"])
def test_existing_files_are_replaced_only_with_force(present: str, request_file: Path) -> None:
    Path(present).write_text("existing", encoding="utf-8")

    refused = run("collect", request_file, *SMALL, "--apply", "-o", "out.json")

    assert refused.exit_code == 2
    assert "already exists" in refused.stderr
    assert "--force" in refused.stderr
    assert files() == sorted([present, "request.json"])
    assert Path(present).read_text(encoding="utf-8") == "existing"

    collected(request_file, *SMALL, "--apply", "-o", "out.json", "--force")
    assert Path("out.json").read_bytes().startswith(b"{")


def test_collected_file_is_replaced_only_with_in_place(request_file: Path) -> None:
    before = request_file.read_bytes()
    Path("link.json").symlink_to("request.json")

    for out in ("request.json", "./request.json", "link.json"):
        refused = run("collect", request_file, *SMALL, "--apply", "-o", out, "--force")
        assert refused.exit_code == 2
        assert "--in-place" in refused.stderr
    assert request_file.read_bytes() == before


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
@pytest.mark.parametrize("name", ["out.json", "out.json.undo.json.gz"])
@pytest.mark.parametrize("target", ["missing.json", "missing/out.json", "itself"])
def test_link_without_a_target_is_refused(
    target: str, name: str, force: tuple[str, ...], request_file: Path
) -> None:
    Path(name).symlink_to(name if target == "itself" else target)

    refused = run("collect", request_file, *SMALL, "--apply", "-o", "out.json", *force)

    assert refused.exit_code == 2
    assert f"{name} is a link to a file that does not exist" in refused.stderr
    assert files() == sorted([name, "request.json"])


def test_logs_and_files_with_several_conversations_are_never_replaced() -> None:
    log = write_lines(Path("log.jsonl"), claude_code_lines(8))
    many = write_lines(Path("many.jsonl"), [anthropic_request(7), anthropic_request(7)])

    for file in (log, many):
        before = file.read_bytes()
        refused = run("collect", file, "-c", "1", *SMALL, "--apply", "--in-place", "--force")
        assert refused.exit_code == 2
        assert "-o OUT" in refused.stderr
        assert file.read_bytes() == before


def test_full_disk_leaves_no_incomplete_files(
    request_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    refused = run("collect", request_file, *SMALL, "--apply", "-o", "out.json")

    assert refused.exit_code == 2
    assert "No space left" in refused.stderr
    assert "out.json" in refused.stderr
    assert ".part" not in refused.stderr
    assert files() == ["request.json"]


@pytest.mark.parametrize("fails_at", [1, 2])
def test_interrupt_while_renaming_leaves_no_incomplete_files(
    fails_at: int, request_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renames = []
    rename = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        renames.append(target)
        if len(renames) == fails_at:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    result = run("collect", request_file, *SMALL, "--apply", "-o", "out.json")

    assert result.exit_code == 130
    assert files() == ["request.json"]


def test_output_files_have_the_permissions_of_the_input_file(request_file: Path) -> None:
    request_file.chmod(0o600)

    collected(request_file, *SMALL, "--apply", "-o", "out.json")

    for path in (Path("out.json"), undo_path(Path("out.json"))):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


# --- undo ---


@pytest.mark.parametrize("how", ["out", "in place"])
@pytest.mark.parametrize("name", ["request.json", "request.json.gz"])
def test_undo_restores_the_original_bytes(how: str, name: str) -> None:
    write = write_gzip if name.endswith(".gz") else write_json
    source = write(Path(name), anthropic_request())
    before = source.read_bytes()
    out = source if how == "in place" else Path("out.json")
    where = ["--in-place"] if how == "in place" else ["-o", out]

    collected(source, *SMALL, "--apply", *where)
    assert out.read_bytes() != before
    collected(out, "--undo")

    assert out.read_bytes() == before
    assert not undo_path(out).exists()


def test_undo_command_is_quoted_for_the_shell(request_file: Path) -> None:
    shown = run("collect", request_file, *SMALL, "--apply", "-o", "my file.json").stdout

    assert "jaato-gc collect 'my file.json' --undo" in unwrapped(shown)


def test_collections_in_place_are_undone_newest_first(request_file: Path) -> None:
    states = [request_file.read_bytes()]
    small = ("--context-limit", "3k", "--keep-turns", "1")
    for target in ("80", "60", "50"):
        collected(request_file, *small, "--target", target, "--apply", "--in-place")
        states.append(request_file.read_bytes())
    assert len(set(states)) == 4

    for state in reversed(states[:-1]):
        collected(request_file, "--undo")
        assert request_file.read_bytes() == state
    assert run("collect", request_file, "--undo").exit_code == 2


def test_file_below_the_target_is_not_changed_in_place(request_file: Path) -> None:
    collected(request_file, "--context-limit", "128k", "--apply", "--in-place")

    assert files() == ["request.json"]


def test_undo_refuses_to_overwrite_a_changed_file(request_file: Path) -> None:
    collected(request_file, *SMALL, "--apply", "-o", "out.json")
    changed = Path("out.json").read_bytes() + b" "
    Path("out.json").write_bytes(changed)

    refused = run("collect", "out.json", "--undo")

    assert refused.exit_code == 2
    assert "was changed after the collection" in refused.stderr
    assert Path("out.json").read_bytes() == changed
    assert undo_path(Path("out.json")).exists()


def test_undo_file_of_an_earlier_version_is_kept(request_file: Path) -> None:
    collected(request_file, *SMALL, "--apply", "--in-place")
    write_json(request_file, anthropic_request(9))
    kept = undo_path(request_file).read_bytes()

    refused = run("collect", request_file, *SMALL, "--apply", "--in-place")

    assert refused.exit_code == 2
    assert "belongs to an earlier version of request.json" in refused.stderr
    assert undo_path(request_file).read_bytes() == kept


@pytest.mark.parametrize(
    "content",
    [b"", b"\x1f\x8b", b"not gzip", gzip.compress(b"[]"), gzip.compress(b'{"format": "x"}'),
     gzip.compress(b'{"format": "jaato-gc undo", "steps": []}'),
     gzip.compress(b'{"format": "jaato-gc undo", "steps": [{"collected": 1}]}')],
    ids=["empty", "truncated", "not gzip", "list", "other format", "no steps", "invalid step"],
)  # fmt: skip
def test_damaged_undo_file_is_refused(content: bytes, request_file: Path) -> None:
    collected(request_file, *SMALL, "--apply", "-o", "out.json")
    before = Path("out.json").read_bytes()
    undo_path(Path("out.json")).write_bytes(content)

    refused = run("collect", "out.json", "--undo")

    assert refused.exit_code == 2
    assert "undo.json.gz is" in refused.stderr
    assert Path("out.json").read_bytes() == before


def rewrite_undo(change: dict[str, Any], path: Path) -> None:
    """Changes fields of an undo file."""
    undo = undo_path(path)
    document = json.loads(gzip.decompress(undo.read_bytes())) | change
    undo.write_bytes(gzip.compress(json.dumps(document).encode()))


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_undo_file_of_another_version_is_refused(version: object, request_file: Path) -> None:
    collected(request_file, *SMALL, "--apply", "--in-place")
    before = request_file.read_bytes()
    rewrite_undo({"version": version}, request_file)

    smaller = ("--context-limit", "1k", "--keep-turns", "1", "--apply", "--in-place")
    for arguments in (("--undo",), smaller):
        refused = run("collect", request_file, *arguments)
        assert refused.exit_code == 2
        assert f"has version {version!r}" in refused.stderr
        assert "use the version of jaato-gc-lab that wrote it" in refused.stderr
    assert request_file.read_bytes() == before


def test_undo_file_with_a_changed_byte_is_refused_or_restores_the_original(
    request_file: Path,
) -> None:
    original = request_file.read_bytes()
    collected(request_file, *SMALL, "--apply", "-o", "out.json")
    before, undo = Path("out.json").read_bytes(), undo_path(Path("out.json"))
    content = undo.read_bytes()
    for position in range(0, len(content), 7):
        changed = bytearray(content)
        changed[position] ^= 0x55
        Path("out.json").write_bytes(before)
        undo.write_bytes(changed)

        result = run("collect", "out.json", "--undo")

        assert result.exit_code in (0, 2), result.stderr
        after = original if result.exit_code == 0 else before
        assert Path("out.json").read_bytes() == after


def test_undo_file_with_invalid_content_is_refused(request_file: Path) -> None:
    collected(request_file, *SMALL, "--apply", "-o", "out.json")
    document = json.loads(gzip.decompress(undo_path(Path("out.json")).read_bytes()))
    document["steps"][0]["content"] = "n"
    rewrite_undo(document, Path("out.json"))

    refused = run("collect", "out.json", "--undo")

    assert refused.exit_code == 2
    assert "is damaged" in refused.stderr


def test_undo_file_with_a_wrong_checksum_is_refused(request_file: Path) -> None:
    collected(request_file, *SMALL, "--apply", "-o", "out.json")
    undo = undo_path(Path("out.json"))
    document = json.loads(gzip.decompress(undo.read_bytes()))
    document["steps"][0]["content"] = "e30="
    undo.write_bytes(gzip.compress(json.dumps(document).encode()))

    refused = run("collect", "out.json", "--undo")

    assert refused.exit_code == 2
    assert "is damaged" in refused.stderr
