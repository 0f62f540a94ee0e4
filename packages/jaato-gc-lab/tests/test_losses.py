"""Blind edits, lost context, refused runs and runs that cannot fit, each constructed by hand."""

from typing import Any

import pytest
from lab_runs import exchange, filler, model, user
from lab_runs import watched_replay as watched

from jaato_gc import FunctionCall, GCConfig, Message, Part, Role, SyntheticKind, ToolResult
from jaato_gc.plugin import Collection, GCStrategy, StrategySettings
from jaato_gc_lab import BlindEdit, ReplayReport, replay
from jaato_gc_lab._measures.edits import lines_in, quoted_lines, quoted_texts
from jaato_gc_lab._measures.names import places_in

SOURCE = "def berth(ship):\n    return harbour.find(ship)\n"


def read(path: str, text: str, call_id: str = "r") -> list[Message]:
    return exchange(call_id, "read_file", text, path=path)


def edit(old: str, call_id: str = "e", **arguments: Any) -> list[Message]:
    return exchange(call_id, "edit_file", "ok", old_string=old, new_string="pass", **arguments)


def pressure(count: int = 8) -> list[Message]:
    return [
        message
        for number in range(count)
        for message in (user(f"{number} {filler(100)}"), model(filler(60)))
    ]


def run(*steps: list[Message], strategy: str = "truncate", limit: int = 900) -> ReplayReport:
    first = [user("hello"), model("hi")]
    messages = [*first, *(message for step in steps for message in step), model("done")]
    report, _ = watched(messages, strategy, limit)
    return report


# --- blind edits ---


def test_edit_of_text_that_was_removed_is_blind() -> None:
    report = run([user("go")], read("a.py", SOURCE), pressure(), [user("now")], edit(SOURCE))

    assert report.collections
    assert report.edits == 1
    request = len(report.requests) - 2
    assert report.blind_edits == [BlindEdit("edit_file", request, "def berth(ship):")]


def test_edit_of_text_that_is_still_there_is_not_blind() -> None:
    report = run([user("go")], pressure(), read("a.py", SOURCE), edit(SOURCE))

    assert report.collections
    assert (report.edits, report.blind_edits) == (1, [])


def test_edit_of_text_that_was_read_again_is_not_blind() -> None:
    again = read("a.py", SOURCE, "r2")
    report = run([user("go")], read("a.py", SOURCE), pressure(), [user("now")], again, edit(SOURCE))

    assert (report.edits, report.blind_edits) == (1, [])


def test_edit_of_text_that_the_recording_never_showed_does_not_count() -> None:
    report = run([user("go")], read("a.py", SOURCE), pressure(), edit("def pier(ship):\n    pass"))

    assert report.edits == 0


def test_edit_is_blind_if_one_of_its_lines_is_missing() -> None:
    half = read("a.py", SOURCE.splitlines()[0], "r2")
    report = run([user("go")], read("a.py", SOURCE), pressure(), [user("now")], half, edit(SOURCE))

    assert [each.line for each in report.blind_edits] == ["return harbour.find(ship)"]


def test_text_that_the_model_wrote_itself_can_be_edited_later() -> None:
    written = exchange("w", "write_file", "ok", path="a.py", content=SOURCE)
    kept = run([user("go")], pressure(), written, edit(SOURCE))
    lost = run([user("go")], written, pressure(), [user("now")], edit(SOURCE))

    assert (kept.edits, len(kept.blind_edits)) == (1, 0)
    assert (lost.edits, len(lost.blind_edits)) == (1, 1)


def test_line_numbers_and_indentation_do_not_matter() -> None:
    numbered = "     1→def berth(ship):\n     2→        return harbour.find(ship)"

    assert quoted_lines(SOURCE) <= lines_in(numbered)
    assert quoted_lines(SOURCE) <= lines_in("12: def berth(ship):\n13|return  harbour.find(ship)")


def test_lines_of_a_diff_show_the_lines_without_their_marks() -> None:
    assert "return harbour.find(ship)" in lines_in("@@ -1 +1 @@\n-    return harbour.find(ship)")


def test_short_lines_do_not_count() -> None:
    assert quoted_lines("}\n  );\nelse:\n----------") == frozenset()


def test_result_that_is_json_text_shows_its_lines() -> None:
    escaped = exchange(
        "r", "shell", '{"output": "def berth(ship):\\n    return harbour.find(ship)"}'
    )
    report = run([user("go")], escaped, edit(SOURCE))

    assert (report.edits, report.blind_edits) == (1, [])


PATCH = """*** Begin Patch
*** Add File: b.py
+import harbour_master
*** Update File: a.py
@@ def berth(ship):
 def berth(ship):
-    return harbour.find(ship)
+    return harbour.seek(ship)
*** End Patch"""
DIFF = """--- a/a.py
+++ b/a.py
@@ -1,2 +1,2 @@
 def berth(ship):
-    return harbour.find(ship)
+    return harbour.seek(ship)
"""
BLOCK = f"<<<<<<< SEARCH\n{SOURCE}=======\ndef pier(ship): pass\n>>>>>>> REPLACE"


@pytest.mark.parametrize(
    "arguments",
    [
        {"old_string": SOURCE, "new_string": "x"},
        {"old_str": SOURCE, "command": "str_replace"},
        {"path": "a.py", "edits": [{"oldText": SOURCE, "newText": "x"}]},
        {"search": SOURCE, "replace": "x"},
        {"TargetContent": SOURCE},
        {"input": PATCH},
        {"command": ["apply_patch", PATCH]},
        {"diff": BLOCK},
        {"patch": DIFF},
    ],
    ids=["claude", "openhands", "pi", "search", "windsurf", "codex", "shell", "cline", "diff"],
)
def test_quoted_text_is_found_as_each_agent_writes_it(arguments: dict[str, Any]) -> None:
    [text] = quoted_texts(arguments)

    assert quoted_lines(text) == {"def berth(ship):", "return harbour.find(ship)"}


def test_search_is_no_edit() -> None:
    assert list(quoted_texts({"search": "def berth(ship):", "path": "."})) == []
    assert list(quoted_texts({"command": "grep -n 'def berth' a.py"})) == []


# --- lost context ---


def test_name_in_a_call_needs_its_original_surroundings() -> None:
    mention = [user("the port is berth_q7_north, beside the old crane"), model("yes")]
    use = exchange("u", "book", "ok", port="berth_q7_north")
    kept = run(mention, [user("go")], use)
    lost = run(mention, pressure(), [user("go")], use)

    assert (kept.context_used, kept.context_lost) == (1, 0)
    assert (lost.context_used, lost.context_lost) == (1, 1)


def test_name_in_a_summary_keeps_the_name_but_not_the_context() -> None:
    mention = [user("the port is berth_q7_north, beside the old crane"), model("yes")]
    use = exchange("u", "book", "ok", port="berth_q7_north")
    report = run(mention, pressure(), [user("go")], use, strategy="summarize")

    assert report.collections
    assert report.names_lost == 0
    assert (report.context_used, report.context_lost) == (1, 1)


class WordList(GCStrategy[StrategySettings]):
    """Removes the oldest turns and leaves a list of all names, one to a line."""

    name = "gc_word_list"

    def select(self, collection: Collection) -> None:
        collection.remove_oldest(collection.turns, "truncated")
        listed = Message.from_text(
            Role.USER,
            "src/berths.py",
            message_id="words",
            synthetic=SyntheticKind.SUMMARY,
        )
        if "words" not in {message.message_id for message in collection.history}:
            collection.insert(listed, 2)


def test_list_of_words_keeps_no_context_even_if_the_original_was_a_list() -> None:
    listing = exchange("l", "list_files", "src/berths.py\nsrc/cranes.py")
    use = exchange("u", "stat", "ok", path="src/berths.py")
    messages = [user("hello"), model("hi"), user("go"), *listing, *pressure(), user("now"), *use]
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=0)

    report = replay([*messages, model("done")], WordList(), context_limit=900, config=config)

    assert report.collections
    assert report.names_lost == 0
    assert (report.context_used, report.context_lost) == (1, 1)


def test_places_have_neighbours_on_the_same_line_only() -> None:
    found = dict(places_in("above\n  see   src/a.py now\nbelow", {"src/a.py"}))

    assert found == {"src/a.py": "see src/a.py now"}


# --- refused runs ---


def huge(call_id: str = "h") -> list[Message]:
    return exchange(call_id, "run", filler(3_000))


def test_everything_after_a_refused_request_is_lost() -> None:
    mention = [user("the port is berth_q7_north"), model("yes")]
    use = exchange("u", "book", "ok", port="berth_q7_north")
    steps = mention, read("a.py", SOURCE), [user("go")]
    before = run(*steps, use, edit(SOURCE), strategy="none")
    after = run(*steps, huge(), use, edit(SOURCE), strategy="none")

    assert before.refused_at is None
    assert before.played == 1
    assert (before.names_lost, before.context_lost, before.blind_edits) == (0, 0, [])
    assert after.refused_at == 3
    assert after.played == pytest.approx(3 / len(after.requests))
    assert after.names_lost == after.names_used == before.names_used
    assert after.context_lost == after.context_used == before.context_used > 0
    assert len(after.blind_edits) == after.edits == 1


def test_nothing_is_looked_up_after_a_refused_request() -> None:
    """The run ends there, so blind edits after it cost nothing."""
    again = [user("go")], read("a.py", SOURCE), pressure(), [user("now")], edit(SOURCE)
    lost = run(*again)
    refused = run([user("go")], read("a.py", SOURCE), huge(), edit(SOURCE), strategy="none")

    assert lost.blind_edits
    assert lost.lookup_cost > 0
    assert refused.blind_edits
    assert refused.lookup_cost == 0


def test_result_larger_than_the_window_is_shortened_and_the_run_goes_on() -> None:
    messages = [
        user("hello"),
        *read("a.py", SOURCE),
        model("yes"),
        user("go"),
        *huge(),
        model("ok"),
    ]
    report = replay(messages, "truncate", context_limit=900)

    assert report.refused_at is None
    assert report.overflows == 0
    assert any("fit_long" in each.freed_by_reason for each in report.collections)


def test_run_without_collection_is_refused_where_it_overflows() -> None:
    report = run([user("go")], pressure(), [user("now")], strategy="none")

    assert report.refused_at == next(
        position for position, each in enumerate(report.requests) if each.tokens > 900 / 1.05
    )
    assert report.overflows == len(report.requests) - report.refused_at


# --- runs that cannot fit ---


def test_run_with_a_request_larger_than_the_window_cannot_fit() -> None:
    large = [user(filler(1_500)), model("yes")]

    assert run(large).cannot_fit
    assert not run(large, limit=4_000).cannot_fit
    assert not run(huge()).cannot_fit  # a result could be shortened


def test_overhead_counts_as_fixed_content() -> None:
    messages = [user("hello"), model("hi")]

    assert not replay(messages, "truncate", context_limit=900, overhead="none").cannot_fit
    assert replay(messages, "truncate", context_limit=900, overhead=1_000).cannot_fit


# --- parallel calls ---


def test_edits_of_parallel_calls_are_counted_one_by_one() -> None:
    calls = [
        Part(function_call=FunctionCall(f"e{n}", "edit_file", {"old_string": line}))
        for n, line in enumerate(SOURCE.splitlines())
    ]
    results = [Part(function_response=ToolResult(f"e{n}", "edit_file", "ok")) for n in (0, 1)]
    both = [Message(Role.MODEL, calls), Message(Role.TOOL, results)]
    report = run([user("go")], read("a.py", SOURCE), pressure(), [user("now")], both)

    assert (report.edits, len(report.blind_edits)) == (2, 2)
