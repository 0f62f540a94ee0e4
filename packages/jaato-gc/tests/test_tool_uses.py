"""Tool uses: which tools an agent used, on which files, and whether they succeeded."""

from typing import Any

import pytest

from jaato_gc import FunctionCall, Message, Part, Role, ToolResult
from jaato_gc.collecting.shortening import shortened_text
from jaato_gc.plugin import (
    Group,
    Shortening,
    ToolKind,
    ToolNames,
    ToolUse,
    find_tool_uses,
    lay_out,
    names_in,
    places_by_touch,
    strings_in,
)

Call = tuple[str, dict[str, Any]]


def exchange(*uses: tuple[str, Any, Any], ids: list[str | None] | None = None) -> list[Message]:
    """Returns the messages of parallel calls with their results."""
    given = ids or [f"call_{number}" for number in range(len(uses))]
    calls = [
        Part(function_call=FunctionCall(call_id, name, args))
        for call_id, (name, args, _) in zip(given, uses, strict=True)
    ]
    results = [
        Message(Role.TOOL, [Part(function_response=ToolResult(call_id, name, result))])
        for call_id, (name, _, result) in zip(given, uses, strict=True)
    ]
    return [Message(Role.MODEL, calls), *results]


def groups_of(*uses: tuple[str, Any, Any]) -> tuple[Group, ...]:
    """Returns the groups of a conversation in which tools are used one after the other."""
    messages = [Message.from_text(Role.USER, "Make it work.")]
    for use in uses:
        messages += exchange(use)
    return lay_out(messages).groups


def use_of(name: str, args: Any, result: Any = "ok", names: ToolNames | None = None) -> ToolUse:
    """Returns the use of one tool."""
    [use] = find_tool_uses(groups_of((name, args, result)), names)
    return use


# --- the kind of a tool ---

PATH = "src/a.py"
READERS: list[Call] = [
    ("Read", {"file_path": PATH}),
    ("read_file", {"absolute_path": PATH}),
    ("read_file", {"path": PATH}),
    ("read", {"path": PATH}),
    ("view", {"path": PATH}),
    ("View", {"file_path": PATH}),
    ("open_file", {"filename": PATH}),
    ("NotebookRead", {"notebook_path": PATH}),
    ("str_replace_editor", {"command": "view", "path": PATH}),
    ("str_replace_based_edit_tool", {"command": "view", "path": PATH}),
    ("mcp__filesystem__read_text_file", {"path": PATH}),
    ("Bash", {"command": f"cat {PATH}"}),
    ("Bash", {"command": f"cat -n '{PATH}'"}),
    ("bash", {"command": f'cat "./{PATH}"'}),
    ("shell", {"command": ["bash", "-lc", f"cat {PATH}"]}),
    ("shell", {"command": ["cat", PATH]}),
    ("exec_command", {"cmd": f"nl {PATH}"}),
    ("run_shell_command", {"command": f"sed -n '1,200p' {PATH}"}),
    ("execute_command", {"command": f"head -n 20 {PATH}"}),
    ("execute_bash", {"command": f"tail -20 {PATH}"}),
]
EDITORS: list[Call] = [
    ("Write", {"file_path": PATH}),
    ("Edit", {"file_path": PATH}),
    ("MultiEdit", {"file_path": PATH}),
    ("NotebookEdit", {"notebook_path": PATH}),
    ("write_file", {"file_path": PATH}),
    ("replace", {"file_path": PATH}),
    ("write_to_file", {"path": PATH}),
    ("replace_in_file", {"path": PATH}),
    ("edit", {"path": PATH}),
    ("write", {"path": PATH}),
    ("create_file", {"path": PATH}),
    ("str_replace_editor", {"command": "create", "path": PATH}),
    ("str_replace_editor", {"command": "str_replace", "path": PATH}),
    ("str_replace_editor", {"command": "insert", "path": PATH}),
    ("str_replace_based_edit_tool", {"command": "str_replace", "path": PATH}),
    ("apply_patch", {"input": f"*** Begin Patch\n*** Update File: {PATH}\n@@"}),
    ("apply_diff", {"path": PATH}),
    ("mcp__filesystem__write_file", {"path": PATH}),
]
SHELLS: list[Call] = [
    ("Bash", {"command": "make"}),
    ("bash", {"command": "make"}),
    ("shell", {"command": ["make"]}),
    ("shell", {"command": ["bash", "-lc", "make"]}),
    ("local_shell", {"command": ["make"]}),
    ("exec_command", {"cmd": "make"}),
    ("run_shell_command", {"command": "make"}),
    ("execute_command", {"command": "make"}),
    ("execute_bash", {"command": "make"}),
    ("run_terminal_cmd", {"command": "make"}),
    ("run_in_terminal", {"command": "make"}),
    ("terminal", {"command": "make"}),
    ("run", {"command": "make"}),
    ("Bash", {"command": f"cat {PATH} | wc"}),
    ("Bash", {"command": f"cat {PATH} > b"}),
    ("Bash", {"command": f"cat {PATH} other"}),
    ("Bash", {"command": f"cat {PATH} && make"}),
    ("Bash", {"command": f"cat $(ls {PATH})"}),
    ("Bash", {"command": f"cat {PATH}\nmake"}),
    ("Bash", {"command": f"sed -i 's/a/b/' {PATH}"}),
    ("Bash", {"command": f"sed -n -i 's/a/b/p' {PATH}"}),
    ("Bash", {"command": f"cat '{PATH}"}),
]
SEARCHERS: list[Call] = [
    ("Glob", {"pattern": "*", "path": PATH}),
    ("Grep", {"pattern": "x", "path": PATH}),
    ("LS", {"path": PATH}),
    ("glob", {"pattern": "*", "path": PATH}),
    ("list_directory", {"path": PATH}),
    ("list_files", {"path": PATH}),
    ("search_files", {"path": PATH, "regex": "x"}),
    ("search_file_content", {"pattern": "x", "path": PATH}),
    ("search_direct_flight", {"origin": "A"}),
    ("find_user_id_by_email", {"email": PATH}),
]
OTHERS: list[Call] = [
    ("TodoWrite", {"todos": []}),
    ("WebFetch", {"url": PATH}),
    ("Task", {"prompt": PATH}),
    ("dispatch_agent", {"prompt": PATH}),
    ("BashOutput", {"bash_id": "1"}),
    ("write_stdin", {"chars": "x"}),
    ("create_reservation", {"user": PATH}),
    ("update_order", {"order": PATH}),
    ("update_reservation_flights", {"reservation_id": PATH}),
    ("get_user_details", {"user_id": PATH}),
    ("open_account", {"name": PATH}),
    ("read_email", {"id": PATH}),
    ("edit_booking", {"booking_id": PATH}),
    ("execute_sql", {"query": "select"}),
]


@pytest.mark.parametrize(
    ("name", "args", "kind"),
    [
        *[(*each, ToolKind.READ) for each in READERS],
        *[(*each, ToolKind.EDIT) for each in EDITORS],
        *[(*each, ToolKind.SHELL) for each in SHELLS],
        *[(*each, ToolKind.SEARCH) for each in SEARCHERS],
        *[(*each, ToolKind.OTHER) for each in OTHERS],
    ],
)
def test_common_tools_are_detected(name: str, args: dict[str, Any], kind: ToolKind) -> None:
    use = use_of(name, args)

    assert use.kind is kind
    if kind in (ToolKind.READ, ToolKind.EDIT):
        assert use.paths == (PATH,)


CUSTOM = ToolNames(
    read=["Show_*"],
    edit=["poke", "edit"],
    shell=["please"],
    path_arguments=["document", "file_path"],
)


OWN: list[tuple[str, dict[str, Any], str]] = [
    ("show_it", {"document": PATH}, "read"),
    ("POKE", {"document": PATH}, "edit"),
    ("mcp__desk__poke", {"document": PATH}, "edit"),
    ("please", {"command": "make"}, "shell"),
    ("poke", {"path": PATH}, "other"),
    ("Read", {"document": PATH}, "other"),
    ("Bash", {"command": "make"}, "other"),
]


@pytest.mark.parametrize(("name", "args", "kind"), OWN)
def test_tools_of_your_own_are_recognised_by_names(
    name: str, args: dict[str, Any], kind: str
) -> None:
    assert use_of(name, args, names=CUSTOM).kind == kind


@pytest.mark.parametrize("args", [None, "text", ["a"], 7])
def test_arguments_that_are_not_an_object_make_a_tool_of_kind_other(args: Any) -> None:
    use = use_of("Read", args)

    assert (use.kind, use.paths, use.command) == (ToolKind.OTHER, (), "")


# --- files ---


@pytest.mark.parametrize(
    ("name", "args", "is_whole"),
    [
        ("Read", {"file_path": PATH}, True),
        ("Read", {"file_path": PATH, "offset": None, "limit": -1}, True),
        ("Read", {"file_path": PATH, "offset": 1}, False),
        ("Read", {"file_path": PATH, "limit": 9}, False),
        ("view", {"path": PATH, "view_range": [1, 9]}, False),
        ("read_file", {"path": PATH, "start_line": 1, "end_line": 9}, False),
        ("Bash", {"command": f"cat {PATH}"}, True),
        ("Bash", {"command": f"head -n 9 {PATH}"}, False),
        ("Bash", {"command": f"sed -n '1,9p' {PATH}"}, False),
        ("Edit", {"file_path": PATH}, False),
    ],
)
def test_a_read_without_a_range_shows_the_whole_file(
    name: str, args: dict[str, Any], is_whole: bool
) -> None:
    assert use_of(name, args).whole_file is is_whole


@pytest.mark.parametrize(
    ("name", "args", "paths"),
    [
        ("Read", {"file_path": f"./{PATH}"}, (PATH,)),
        ("Read", {"uri": f"file://{PATH}"}, (PATH,)),
        ("apply_patch", {"diff": "+++ b/b.py\n--- a/a.py\n+++ b/a.py"}, ("b.py", "a.py")),
        ("apply_patch", {"diff": "--- a/b.py\n+++ /dev/null\n+++ b/c.py"}, ("c.py",)),
        ("apply_patch", {"input": "*** Add File: a.py\n*** Delete File: b.py"}, ("a.py", "b.py")),
        ("shell", {"command": ["apply_patch", "\n*** Update File: a.py\n"]}, ("a.py",)),
        ("Grep", {"pattern": "x", "path": PATH}, (PATH,)),
        ("Bash", {"command": "make"}, ()),
    ],
)  # fmt: skip
def test_the_files_of_a_call_are_found(
    name: str, args: dict[str, Any], paths: tuple[str, ...]
) -> None:
    assert use_of(name, args).paths == paths


def test_a_group_about_a_file_stands_half_way_to_the_last_touch_of_that_file() -> None:
    groups = groups_of(
        ("Read", {"file_path": "a.py"}, "x"),
        ("Read", {"file_path": "b.py"}, "y"),
        ("Bash", {"command": "make"}, "ok"),
        ("Edit", {"file_path": "./a.py"}, "ok"),
        ("Bash", {"command": "make"}, "ok"),
    )

    assert places_by_touch(groups, find_tool_uses(groups)) == [0.0, 2.5, 2.0, 3.0, 4.0, 5.0]


def test_a_group_about_several_files_stands_by_the_one_touched_last() -> None:
    patch = "+++ b/a.py\n+++ b/b.py"
    groups = groups_of(
        ("apply_patch", {"diff": patch}, "ok"),
        ("Read", {"file_path": "a.py"}, "x"),
        ("Bash", {"command": "make"}, "ok"),
        ("Bash", {"command": "make"}, "ok"),
        ("Read", {"file_path": "b.py"}, "y"),
    )

    assert places_by_touch(groups, find_tool_uses(groups)) == [0.0, 3.0, 2.0, 3.0, 4.0, 5.0]


# --- calls and their results ---


def test_parallel_calls_are_paired_by_id() -> None:
    uses = [("Read", {"file_path": path}, path) for path in ("a", "b", "c")]
    call, *results = exchange(*uses)
    groups = lay_out([Message.from_text(Role.USER, "Go."), call, *reversed(results)]).groups

    found = find_tool_uses(groups)

    assert [(use.paths[0], use.text) for use in found] == [("c", "c"), ("b", "b"), ("a", "a")]
    for use in found:
        assert use.call_at == (call.message_id, int("abc".index(use.text)))
        assert use.result_at == (results["abc".index(use.text)].message_id, 0)


def test_calls_without_ids_are_paired_by_name_and_order() -> None:
    uses = [("Read", {"file_path": path}, path) for path in ("a", "b")]
    messages = exchange(*uses, ("LS", {}, "list"), ids=[None, None, None])
    groups = lay_out([Message.from_text(Role.USER, "Go."), *messages]).groups

    assert [(use.call.name, use.text) for use in find_tool_uses(groups)] == [
        ("Read", "a"), ("Read", "b"), ("LS", "list"),
    ]  # fmt: skip


def test_a_call_without_a_result_is_no_tool_use() -> None:
    messages = exchange(("Read", {"file_path": "a"}, "x"))[:1]
    assert find_tool_uses(lay_out([Message.from_text(Role.USER, "Go."), *messages]).groups) == []


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ("ok", False),
        ("The error was fixed.", False),
        ("Error: no match", True),
        ("  <tool_use_error>gone</tool_use_error>", True),
        ("Traceback (most recent call last):\n  File", True),
        ("fatal: not a git repository", True),
        ("Exit code 2\nmake failed", True),
        ("exit code: 0", False),
        ("bash: nope: command not found", True),
        ("ls: a: No such file or directory", True),
        ("fine\nError: in the second line", False),
        ("errors: 0", False),
        ({"error": None}, False),
    ],
)
def test_failures_are_recognised_by_the_beginning_of_a_result(result: Any, failed: bool) -> None:
    assert use_of("Bash", {"command": "make"}, result).failed is failed


def test_the_error_flag_of_the_provider_marks_a_failure() -> None:
    call, _ = exchange(("Read", {"file_path": "a"}, "x"))
    answer = ToolResult("call_0", "Read", "x", is_error=True)
    result = Message(Role.TOOL, [Part(function_response=answer)])
    groups = lay_out([Message.from_text(Role.USER, "Go."), call, result]).groups

    assert [use.failed for use in find_tool_uses(groups)] == [True]


def test_a_shortened_result_is_not_intact() -> None:
    text = "\n".join(f"line number {number}" for number in range(50))

    assert use_of("Bash", {"command": "make"}, text).is_intact
    for how in (Shortening(), Shortening("the middle", 100, 100)):
        assert not use_of("Bash", {"command": "make"}, shortened_text(text, how)).is_intact


def test_a_shortened_failure_is_still_a_failure() -> None:
    how = Shortening("this attempt failed and a later one succeeded")
    stub = shortened_text("Error: it went wrong\n" * 20, how)

    assert use_of("Bash", {"command": "make"}, stub).failed


# --- equal calls ---


def test_the_order_of_arguments_does_not_matter_for_the_signature() -> None:
    first = use_of("Grep", {"pattern": "x", "path": "a"})
    second = use_of("Grep", {"path": "a", "pattern": "x"})
    other = use_of("Grep", {"path": "a", "pattern": "y"})

    assert first.signature == second.signature != other.signature


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (("Read", {"file_path": "a"}), ("Read", {"file_path": "./a", "limit": 9}), True),
        (("Edit", {"file_path": "a", "new": "x"}), ("Edit", {"file_path": "a", "new": "y"}), True),
        (("Edit", {"file_path": "a"}), ("Edit", {"file_path": "b"}), False),
        (("Bash", {"command": "cd /r && make"}), ("Bash", {"command": "make"}), True),
        (("Bash", {"command": "make -k"}), ("Bash", {"command": "make -j"}), True),
        (("Bash", {"command": "npm run build"}), ("Bash", {"command": "npm run lint"}), False),
        (("Bash", {"command": "a\nb"}), ("Bash", {"command": "a\nc"}), False),
        (("book", {"seat": 1}), ("book", {"seat": 2}), False),
    ],
)
def test_calls_with_the_same_goal_are_the_same_attempt(
    first: Call, second: Call, is_same: bool
) -> None:
    assert (use_of(*first).attempt == use_of(*second).attempt) is is_same


# --- text ---


def test_strings_are_found_at_any_depth() -> None:
    value = {"a": "one", "b": [{"c": "two"}, "three", 4], "d": None, "e": True}

    assert list(strings_in(value)) == ["one", "two", "three"]


def test_names_are_found_once_in_the_order_of_the_text() -> None:
    text = "see src/app/main.py, parse_header and HttpClient: parse_header, not ordinary words"

    assert names_in(f"{text} or 2026.12.31") == ["src/app/main.py", "parse_header", "HttpClient"]
