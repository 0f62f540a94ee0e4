"""gc_marksweep: garbage first, then the smallest loss, and no more than needed."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    Confidence,
    ContextUsage,
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCOutcome,
    GCPlan,
    GCPolicy,
    GCResult,
    GCTriggerReason,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    check_history,
    load_gc_from_file,
)
from jaato_gc.plugin import as_text, lay_out
from jaato_gc_marksweep import create_plugin
from jaato_gc_testing import MemoryStash, count_operations, long_history, new_session

LOCKED, PRESERVABLE = GCPolicy.LOCKED, GCPolicy.PRESERVABLE
PARTIAL, EPHEMERAL = GCPolicy.PARTIAL, GCPolicy.EPHEMERAL
THRESHOLD, TURN_LIMIT = GCTriggerReason.THRESHOLD, GCTriggerReason.TURN_LIMIT

DEAD = ("cleared_superseded", "cleared_failed", "identical")
GARBAGE = (*DEAD, "cleared_repeated", "cleared_long")
UNDER_PRESSURE: dict[str, Any] = {"limit": 20_000, "pressure_percent": 1.0}


class Quarters:
    """Counts a token per four characters, like the estimate of the strategy."""

    name = "quarters"
    confidence = Confidence.EXACT
    tolerance = 0.0

    def count_text(self, text: str) -> int:
        return (len(text) + 3) // 4


def body(name: str, length: int = 800) -> str:
    """Returns lines of text without names."""
    line = f"some words about {name}\n"
    return (line * (length // len(line) + 1))[:length]


def lines(name: str, count: int = 40) -> str:
    """Returns different lines of text."""
    return "\n".join(f"line {number} of {name}" for number in range(count))


Use = tuple[str, dict[str, Any], Any]


class Agent:
    """A session with gc_marksweep in which tools are used."""

    def __init__(
        self,
        options: dict[str, Any] | None = None,
        *,
        limit: int | None = None,
        stash: MemoryStash | None = None,
        **config: Any,
    ) -> None:
        self.has_fixed_limit = limit is not None
        plugin = create_plugin()
        plugin.initialize(options)
        self.session = new_session(
            plugin,
            GCConfig(**{"preserve_recent_turns": 1, **config}),
            context_limit=limit or 1_000_000,
            counter=Quarters(),
            stash=stash,
        )
        self.calls = 0
        self.ask("Make it work.")

    def ask(self, text: str = "Go on.", **fields: Any) -> str:
        return self.session.append(Message.from_text(Role.USER, text, **fields)).message_id

    def say(self, text: str = "Done.", **fields: Any) -> str:
        return self.session.append(Message.from_text(Role.MODEL, text, **fields)).message_id

    def use(self, name: str, args: dict[str, Any], result: Any, **fields: Any) -> str:
        """Calls a tool. Returns the id of the message with its result."""
        return self.use_at_once((name, args, result), **fields)[0]

    def use_at_once(
        self,
        *uses: Use,
        failed: bool = False,
        in_one_message: bool = False,
        extra: dict[str, Any] | None = None,
        call_ids: Iterable[str | None] | None = None,
        policy: GCPolicy | None = None,
    ) -> list[str]:
        """Calls tools in parallel. Returns the ids of the messages with their results."""
        ids = list(call_ids or (f"call_{self.calls + number}" for number in range(len(uses))))
        self.calls += len(uses)
        calls = [
            Part(function_call=FunctionCall(call_id, name, args), extra=extra)
            for call_id, (name, args, _) in zip(ids, uses, strict=True)
        ]
        results = [
            Part(function_response=ToolResult(call_id, name, result, failed))
            for call_id, (name, _, result) in zip(ids, uses, strict=True)
        ]
        self.session.append(Message(Role.MODEL, calls, policy=policy))
        batches = [results] if in_one_message else [[each] for each in results]
        return [self.session.append(Message(Role.TOOL, each)).message_id for each in batches]

    @property
    def tokens(self) -> int:
        return self.session.budget.total_tokens()

    def plan(self, free: int, reason: GCTriggerReason = THRESHOLD) -> GCPlan:
        """Returns a plan of a collection that has to free that many tokens.

        The window is twice as large as the history, so that core has nothing to fit.
        """
        if not self.has_fixed_limit:
            self.session.budget.context_limit = 2 * self.tokens
        return self.session.plan_gc(reason, target_percent=self.target(free))

    def target(self, free: int) -> float:
        """Returns the target of a collection that has to free that many tokens."""
        percent = 100 * (self.tokens - free + 0.5) / self.session.budget.context_limit
        return percent if percent >= 1 else 0.0

    def collect(self, free: int, reason: GCTriggerReason = THRESHOLD) -> GCResult:
        result = self.session.apply(self.plan(free, reason))
        assert result.success, result.error
        assert check_history(self.session.history) == []
        return result

    def collect_only(self, *reasons: str) -> dict[str, str]:
        """Collects as much as goes for these reasons only. Returns the reason of each message."""
        last, free = None, 1
        while True:
            plan = self.plan(free)
            if not plan.result.removal_list or not set(why(plan.result).values()) <= {*reasons}:
                break
            last = plan
            if plan.result.outcome is not GCOutcome.REACHED:
                break
            free = plan.result.tokens_freed + 1
        return why(self.session.apply(last)) if last else {}

    def message(self, message_id: str) -> Message:
        [found] = [each for each in self.session.history if each.message_id == message_id]
        return found

    def text(self, message_id: str, index: int = 0) -> str:
        """Returns the current text of a result."""
        return as_text(self.message(message_id).function_responses[index].result)

    def args(self, result_id: str) -> dict[str, Any]:
        """Returns the current arguments of the call before a result."""
        ids = [each.message_id for each in self.session.history]
        return self.session.history[ids.index(result_id) - 1].function_calls[0].args


def why(result: GCResult) -> dict[str, str]:
    """Returns the reason for which each message was removed or shortened."""
    return {each: item.reason for item in result.removal_list for each in item.message_ids}


def read(path: str, **args: Any) -> tuple[str, dict[str, Any]]:
    return "Read", {"file_path": path, **args}


def edit(path: str, new: str = "new", **args: Any) -> tuple[str, dict[str, Any]]:
    return "Edit", {"file_path": path, "old_string": "old", "new_string": new, **args}


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "Bash", {"command": command}


def enough_calls_to_be_recent(agent: Agent) -> None:
    """Makes calls, so that earlier ones are not among the last ones."""
    agent.ask()
    for number in range(3):
        agent.use("Bash", {"command": f"true {number}"}, "")


# --- rung 1: dead ---


def dead_results(*uses: Use, options: dict[str, Any] | None = None) -> list[str | None]:
    """Uses tools in sequence. Returns why rung 1 shortened each result, or `None`."""
    agent = Agent(options)
    ids = [agent.use(*each) for each in uses]
    enough_calls_to_be_recent(agent)
    reasons = agent.collect_only(*DEAD)
    return [reasons.get(each) for each in ids]


FIRST, SECOND = body("the first"), body("the second")


@pytest.mark.parametrize(
    ("first", "second", "is_dead"),
    [
        (read("a.py"), read("a.py"), True),
        (read("a.py", offset=1, limit=9), read("a.py", limit=9, offset=1), True),
        (read("a.py", offset=1, limit=9), read("a.py"), True),
        (read("a.py"), read("./a.py"), True),
        (read("a.py"), bash("cat a.py"), True),
        (bash("sed -n '1,9p' a.py"), read("a.py"), True),
        (read("a.py"), read("a.py", offset=1, limit=9), False),
        (read("a.py", offset=1, limit=9), read("a.py", offset=2, limit=9), False),
        (read("a.py"), bash("head -n 5 a.py"), False),
        (read("a.py"), read("b.py"), False),
        (read("a.py"), read("lib/a.py"), False),
        (("LS", {"path": "src"}), ("LS", {"path": "src"}), True),
        (("LS", {"path": "src"}), ("LS", {"path": "lib"}), False),
        (("Grep", {"pattern": "x"}), ("Grep", {"pattern": "x"}), True),
        (("Grep", {"pattern": "x"}), ("Grep", {"pattern": "y"}), False),
        (bash("make test"), bash("make test"), True),
        (bash("make test"), bash("make tests"), False),
        (("get_order", {"id": 7}), ("get_order", {"id": 7}), True),
        (("get_order", {"id": 7}), ("get_order", {"id": 8}), False),
    ],
)
def test_a_result_is_dead_after_the_same_content_was_shown_again(
    first: tuple[str, dict[str, Any]], second: tuple[str, dict[str, Any]], is_dead: bool
) -> None:
    expected = "cleared_superseded" if is_dead else None
    assert dead_results((*first, FIRST), (*second, SECOND)) == [expected, None]


def test_the_last_of_several_reads_is_kept() -> None:
    uses = [(*read("a.py"), body(f"version {number}")) for number in range(5)]
    assert dead_results(*uses) == ["cleared_superseded"] * 4 + [None]


@pytest.mark.parametrize(
    "failure", ["Error: no such file", "<tool_use_error>gone</tool_use_error>"]
)
def test_a_failed_call_supersedes_nothing(failure: str) -> None:
    assert dead_results((*read("a.py"), FIRST), (*read("a.py"), failure)) == [None, None]


FAILURE = "Error: it went wrong\n" + body("a failure")


@pytest.mark.parametrize(
    ("first", "second", "is_dead"),
    [
        (read("a.py"), read("a.py", offset=1, limit=9), True),
        (edit("a.py", "one"), edit("a.py", "two"), True),
        (bash("make test"), bash("make test -k"), True),
        (bash("cd /repo && npm run build"), bash("npm run build --verbose"), True),
        (bash("python -m pytest -x"), bash("python -m pytest -x -v"), True),
        (("book", {"seat": 1}), ("book", {"seat": 1}), True),
        (read("a.py"), read("b.py"), False),
        (edit("a.py"), edit("b.py"), False),
        (edit("a.py"), read("a.py"), False),
        (bash("cd /repo && make test"), bash("cd /repo && ls"), False),
        (bash("npm run build"), bash("npm run lint"), False),
        (bash("python -m pytest"), bash("python -m mypy"), False),
        (bash("import x\nimport y\nx()"), bash("import x\nimport y\ny()"), False),
        (("Grep", {"pattern": "[", "path": "a"}), ("Grep", {"pattern": "x", "path": "a"}), False),
        (("book", {"seat": 1}), ("book", {"seat": 2}), False),
        (("execute_sql", {"query": "selec 1"}), ("execute_sql", {"query": "drop"}), False),
        (
            ("str_replace_editor", {"command": "str_replace", "path": "a.py", "old_str": "x"}),
            ("str_replace_editor", {"command": "view", "path": "a.py"}),
            False,
        ),
    ],
)  # fmt: skip
def test_a_failure_is_dead_after_the_same_call_succeeded(
    first: tuple[str, dict[str, Any]], second: tuple[str, dict[str, Any]], is_dead: bool
) -> None:
    expected = "cleared_failed" if is_dead else None
    assert dead_results((*first, FAILURE), (*second, "fine")) == [expected, None]
    assert dead_results((*first, FAILURE), (*second, FAILURE + "!")) == [None, None]
    assert dead_results((*first, "fine " + FIRST), (*second, FAILURE))[0] is None


def test_the_error_flag_of_the_provider_marks_a_failure() -> None:
    agent = Agent()
    failed = agent.use_at_once((*read("a.py"), body("refusal")), failed=True)[0]
    agent.use(*read("a.py"), "fine")
    enough_calls_to_be_recent(agent)

    assert agent.collect_only(*DEAD) == {failed: "cleared_failed"}


@pytest.mark.parametrize(("length", "expected"), [(400, "identical"), (399, None)])
def test_a_repeated_text_is_kept_once(length: int, expected: str | None) -> None:
    text = body("the same", length)
    uses = [("Grep", {"pattern": "x"}, text), ("WebFetch", {"url": "y"}, text)]
    assert dead_results(*uses) == [expected, None]


def test_the_newest_of_equal_results_stays_even_if_a_later_call_replaces_it() -> None:
    """Otherwise the last output of ``make`` would be lost."""
    uses = [(*bash("make"), FIRST), (*read("log"), FIRST), (*read("log"), SECOND)]
    assert dead_results(*uses) == ["identical", None, None]


def test_the_last_output_of_a_command_is_kept() -> None:
    agent = Agent()
    first = agent.use(
        *bash("git push"), body("objects") + "\nTo origin\n   1a2b..3c4d  main -> main"
    )
    agent.use(*bash("git push"), "Everything up-to-date")
    other = agent.use("LS", {"path": "."}, FIRST)
    agent.use("LS", {"path": "."}, SECOND)
    enough_calls_to_be_recent(agent)
    agent.collect_only(*DEAD)

    assert agent.text(first).startswith("[")
    assert agent.text(first).endswith("\nTo origin\n   1a2b..3c4d  main -> main")
    assert agent.text(other) == "[800 characters cleared: the same call was made again later]"


# --- rung 1 keeps the newest evidence ---

FILES = ["a.py", "b.py", "c.py"]
TEXTS = [body(each, 260) for each in "xyz"] + ["ok", FAILURE, body("w", 240)]
CALLS = st.one_of(
    st.builds(read, st.sampled_from(FILES)),
    st.builds(read, st.sampled_from(FILES), offset=st.just(1), limit=st.integers(1, 2)),
    st.builds(edit, st.sampled_from(FILES)),
    st.builds(lambda path: ("LS", {"path": path}), st.sampled_from(["src", "lib"])),
    st.builds(bash, st.sampled_from(["make", "make test", "cat a.py", "head a.py", "cat b | wc"])),
)
USES = st.tuples(CALLS, st.sampled_from(TEXTS)).map(lambda each: (*each[0], each[1]))
BATCHES = st.lists(
    st.tuples(
        st.lists(USES, min_size=1, max_size=3),
        st.booleans(),
        st.sampled_from(["new ids", "same ids", "no ids"]),
    ),
    max_size=12,
)


class History:
    """The uses of tools in order, and which results remain."""

    def __init__(self, batches: list[tuple[list[Use], bool, str]]) -> None:
        self.agent = Agent()
        self.uses: list[tuple[Use, str, int]] = []
        for uses, in_one_message, ids in batches:
            given: list[str | None] | None = None
            if ids != "new ids":
                given = [f"id_{n}" if ids == "same ids" else None for n in range(len(uses))]
            messages = self.agent.use_at_once(*uses, in_one_message=in_one_message, call_ids=given)
            for number, use in enumerate(uses):
                place = (messages[0], number) if in_one_message else (messages[number], 0)
                self.uses.append((use, *place))
        enough_calls_to_be_recent(self.agent)

    def left(self) -> Iterator[tuple[Use, bool]]:
        """Returns all uses, newest first, and whether each result is still there."""
        for use, message, index in reversed(self.uses):
            yield use, self.agent.text(message, index) == use[2]


def has_failed(use: Use) -> bool:
    return bool(use[2].startswith("Error"))


def file_shown(use: Use) -> str | None:
    if use[0] == "Read":
        return str(use[1]["file_path"])
    match = re.fullmatch(r"(?:cat|head) (\S+)", use[1].get("command", ""))
    return match[1] if match else None


def shows_all(use: Use) -> bool:
    return "limit" not in use[1] and not use[1].get("command", "").startswith("head")


@settings(max_examples=150, deadline=None)
@given(BATCHES)
def test_the_newest_evidence_survives_rung_1(batches: list[tuple[list[Use], bool, str]]) -> None:
    history = History(batches)
    reasons = history.agent.collect_only(*DEAD)

    left = list(history.left())
    texts = {use[2] for use, is_left in left if is_left}
    shown: set[str | None] = set()
    shown_whole: set[str | None] = set()
    asked: set[str] = set()
    for use, is_left in left:
        if has_failed(use):
            continue
        assert is_left or use[0] != "Edit"
        path, signature = file_shown(use), json.dumps(use[:2])
        if (path and path not in shown) or (signature not in asked and path not in shown_whole):
            assert is_left or use[2] in texts, use  # the same text may be elsewhere
        asked.add(signature)
        if path:
            shown.add(path)
            shown_whole.update([path] if shows_all(use) else [])
    alone = {message for _, message, index in history.uses if index == 0}
    alone -= {message for _, message, index in history.uses if index > 0}
    for use, message, _ in history.uses:
        if message in alone and reasons.get(message) == "identical":
            assert use[2] in texts


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.integers(1, 2_000))
def test_every_collection_leaves_a_sendable_history_and_can_be_undone(
    batches: list[tuple[list[Use], bool, str]], free: int
) -> None:
    agent = History(batches).agent
    before = agent.session.history

    result = agent.collect(free)

    assert (result.outcome is GCOutcome.REACHED) == (result.tokens_freed >= free)
    if result.removal_list:
        agent.session.undo()
    assert agent.session.history == before


# --- rung 1: repeated lines ---


def test_lines_that_occur_again_later_leave_the_older_result() -> None:
    agent = Agent()
    search = agent.use("Grep", {"pattern": "x"}, f"Found:\n{lines('ship')}\nEnd.")
    page = agent.use("WebFetch", {"url": "u"}, f"A page\n{lines('ship')}\nThe end.")
    enough_calls_to_be_recent(agent)
    before = agent.session.history

    assert agent.collect_only(*GARBAGE) == {search: "cleared_repeated"}
    assert agent.text(search) == "Found:\n[40 lines omitted: repeated later]\nEnd."
    assert agent.text(page) == f"A page\n{lines('ship')}\nThe end."
    agent.session.undo()
    assert agent.session.history == before


@pytest.mark.parametrize("where", ["arguments", "request", "answer"])
def test_lines_that_occur_again_in_any_later_message_are_repeated(where: str) -> None:
    agent = Agent()
    search = agent.use("Grep", {"pattern": "x"}, lines("ship", 15))
    if where == "arguments":
        agent.use("Task", {"prompt": lines("ship", 15)}, "ok")
    elif where == "request":
        agent.ask(lines("ship", 15))
    else:
        agent.say(lines("ship", 15))
    enough_calls_to_be_recent(agent)

    assert agent.collect_only(*GARBAGE) == {search: "cleared_repeated"}


def test_a_long_result_that_repeats_older_lines_is_not_shortened_with_them() -> None:
    """Otherwise lines of which only one copy is left would be lost."""
    agent = Agent({"max_result_tokens": 100})
    search = agent.use("Grep", {"pattern": "x"}, lines("ship", 15))
    page = agent.use("WebFetch", {"url": "u"}, lines("ship", 100))
    enough_calls_to_be_recent(agent)

    assert agent.collect_only(*GARBAGE) == {search: "cleared_repeated"}
    assert agent.text(page) == lines("ship", 100)


def test_the_last_calls_lose_no_repeated_lines() -> None:
    agent = Agent(preserve_recent_groups=2)
    first = agent.use("Grep", {"pattern": "x"}, lines("ship"))
    agent.use("WebFetch", {"url": "u"}, f"A page\n{lines('ship')}")

    assert agent.collect_only(*GARBAGE) == {}
    assert agent.text(first) == lines("ship")


def test_preservable_results_lose_repeated_lines_only_under_pressure() -> None:
    for config, goes in (({"pressure_percent": 90.0}, False), (UNDER_PRESSURE, True)):
        agent = Agent(**config)
        use: Use = ("Grep", {"pattern": "x"}, lines("ship"))
        [first] = agent.use_at_once(use, policy=PRESERVABLE)
        agent.use("WebFetch", {"url": "u"}, f"A page\n{lines('ship')}")
        enough_calls_to_be_recent(agent)
        expected = {first: "cleared_repeated"} if goes else {}
        assert agent.collect_only(*GARBAGE) == expected


def test_a_result_with_the_lines_of_an_older_one_stays_in_that_collection() -> None:
    """What an agent reads again is what it works with. The next collection may remove it."""
    agent = Agent(ledger_percent=0.0)
    search = agent.use("Grep", {"pattern": "x"}, f"Found:\n{lines('ship')}")
    page = agent.use("WebFetch", {"url": "u"}, f"A page\n{lines('ship')}")
    enough_calls_to_be_recent(agent)

    first = agent.collect(agent.tokens)
    assert why(first)[search] == "swept"
    assert agent.text(page) == f"A page\n{lines('ship')}"
    assert first.shortfall is not None
    assert first.shortfall.held["strategy"] > 0

    assert why(agent.collect(agent.tokens))[page] == "swept"


# --- rung 2: long results ---


def test_a_long_result_keeps_whole_lines_of_head_and_tail() -> None:
    agent = Agent({"max_result_tokens": 100})
    lines = [f"line number {number:03}" for number in range(100)]
    long = agent.use("WebFetch", {"url": "u"}, "\n".join(lines))
    short = agent.use("WebFetch", {"url": "v"}, body("short", 400))
    enough_calls_to_be_recent(agent)

    assert agent.collect_only("cleared_long") == {long: "cleared_long"}
    (
        *head,
        stub,
    ) = agent.text(long).partition("\n[")[0].splitlines(), agent.text(long).split("\n")
    kept = [line for line in stub if line in lines]
    assert kept == lines[: len(head[0])] + lines[-(len(kept) - len(head[0])) :]
    assert 300 <= len("\n".join(kept)) <= 400
    assert len(head[0]) > len(kept) - len(head[0]) > 0
    [note] = [line for line in stub if line not in lines]
    assert note.endswith("cleared: the middle of a long result, made again by the same call]")
    assert agent.text(short) == body("short", 400)


# --- arguments of edits ---


def test_arguments_of_edits_are_whole_as_long_as_their_groups_are_there() -> None:
    """What an agent wrote is what it edits next."""
    agent = Agent(ledger_percent=0.0)
    uses = [(*edit(f"{name}.py", body(name, 4_000)), "ok") for name in ("a", "b", "c")]
    done = [agent.use(*each) for each in uses]
    enough_calls_to_be_recent(agent)
    assert agent.collect_only(*GARBAGE) == {}

    assert why(agent.collect(1_500)).keys() & set(done) == set(done[:2])
    assert agent.args(done[2]) == uses[2][1]


# --- reads of edited files ---


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (edit("a.py"), "ok"),
        (("Write", {"file_path": "a.py", "content": "x"}), "ok"),
        (("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n"}), "ok"),
        (("shell", {"command": ["apply_patch", "\n*** Update File: a.py\n"]}), "ok"),
        (edit("a.py"), "Error: no match"),
    ],
)
def test_a_read_is_no_garbage_because_its_file_was_edited_later(
    change: tuple[str, dict[str, Any]], outcome: str
) -> None:
    """What an agent read and edited is what it edits next."""
    agent = Agent()
    first = agent.use(*read("a.py", limit=50), FIRST)
    agent.use(*change, outcome)
    enough_calls_to_be_recent(agent)

    assert agent.collect_only(*GARBAGE) == {}
    assert agent.text(first) == FIRST


# --- all rungs ---


def a_ladder(limit: int | None = None, **options: Any) -> Agent:
    """Returns a session with something for each rung, the most expensive first."""
    agent = Agent(options, limit=limit, preserve_recent_groups=1)
    agent.use("WebFetch", {"url": "u"}, body("a page"))
    agent.use("Grep", {"pattern": "x"}, lines("a search"))
    agent.use(*read("a.py", limit=90), body("a.py"))
    agent.use(*edit("a.py", body("new", 1_000)), "ok")
    agent.use("Task", {"prompt": "p"}, body("a report", 12_000))
    agent.use("WebFetch", {"url": "v"}, f"A page\n{lines('a search')}")
    agent.use(*bash("make"), body("make"))
    agent.use(*bash("make"), "fine")
    agent.say("So far, so good.")
    agent.ask("And now?")
    agent.say("Now the rest.")
    agent.ask()
    for number in range(3):
        agent.use("WebFetch", {"url": number}, body(f"page {number}"))
    return agent


LADDER = ["cleared_superseded", "cleared_repeated", "cleared_long", "swept"]


def repeating(history: Sequence[Message]) -> Sequence[Message]:
    """Returns the exchange whose lines an older result loses."""
    [place] = [at for at, each in enumerate(history) if "A page" in str(each.function_responses)]
    return history[place - 1 : place + 1]


def test_the_cheapest_loss_is_taken_first() -> None:
    agent = a_ladder()
    seen: dict[str, None] = {}
    for free in range(1, agent.tokens, 50):
        seen |= dict.fromkeys(why(agent.plan(free).result).values())

    assert list(seen) == LADDER


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.1, 0.4, 0.5, 0.6, 0.63, 0.7, 0.75])
def test_no_more_is_removed_than_needed(share: float) -> None:
    agent = a_ladder()
    free = int(agent.tokens * share)
    ledger = int((agent.tokens - free) * 0.03)  # ledger_percent

    result = agent.collect(free)

    assert result.tokens_freed >= free
    if result.removal_list:
        needed = free + (ledger if "swept" in why(result).values() else 0)
        assert result.tokens_freed - result.removal_list[-1].tokens_freed < needed
    else:
        assert free == 0
        assert result.outcome is GCOutcome.NOT_NEEDED


def test_the_last_calls_and_recent_text_are_unchanged() -> None:
    agent = a_ladder()
    before = agent.session.history

    result = agent.collect(agent.tokens)

    assert result.outcome is GCOutcome.SHORT
    assert agent.session.history == [before[0], *repeating(before), before[-7], *before[-2:]]


def test_older_calls_of_the_running_turn_are_swept_one_by_one() -> None:
    """One turn of an agent can be the whole run."""
    agent = Agent(preserve_recent_groups=2, ledger_percent=0.0)
    ids = [agent.use("lookup", {"n": number}, body(f"item {number}")) for number in range(6)]
    said = agent.say("Half of it is done.")

    assert why(agent.plan(1).result).keys() & set(ids) == {ids[0]}
    agent.collect(agent.tokens)

    left = [each.message_id for each in agent.session.history]
    assert [each in left for each in (*ids, said)] == [False] * 4 + [True] * 3
    assert left[0] == agent.session.history[0].message_id


def test_a_group_whose_file_was_touched_later_is_kept_longer() -> None:
    agent = Agent(ledger_percent=0.0)
    worked_with = agent.use(*read("a.py", limit=90), FIRST)
    forgotten = [agent.use(*read(f"{name}.py"), body(name)) for name in ("b", "c")]
    for number in range(5):
        agent.say(f"Step number {number}.")
    agent.use(*edit("a.py"), "ok")
    enough_calls_to_be_recent(agent)
    taken: list[str] = []
    for free in range(1, agent.tokens, 100):
        taken += [each for each in why(agent.plan(free).result) if each not in taken]

    order = [each for each in taken if each in (worked_with, *forgotten)]
    assert order == [*forgotten, worked_with]


# --- the ledger ---


def ledgers(agent: Agent) -> list[Message]:
    return [each for each in agent.session.history if each.synthetic is SyntheticKind.LEDGER]


def test_the_ledger_lists_what_was_swept() -> None:
    agent = Agent(ledger_percent=10.0)
    agent.use(*read("src/ship.py"), "def set_sail(): ...\n" + body("ship"))
    agent.use(*edit("src/harbour.py"), "ok " + body("harbour"))
    agent.use(*bash("make test"), body("make") + "\n7 passed")
    agent.use("lookup", {"n": 1}, "The ticket is ABC_1234.\n" + body("one"))
    enough_calls_to_be_recent(agent)
    agent.say(body("the recent past", 20_000))
    before = agent.session.history

    result = agent.collect(700)

    assert set(why(result).values()) == {"swept"}
    [ledger] = ledgers(agent)
    assert agent.session.history[1] == ledger
    for expected in ("src/ship.py", "src/harbour.py", "make test → 7 passed", "ABC_1234"):
        assert expected in ledger.text
    assert not any(item.child_key == ledger.message_id for item in result.removal_list)
    agent.session.undo()
    assert agent.session.history == before


def test_shortening_leaves_no_ledger() -> None:
    agent = a_ladder()
    assert "swept" not in why(agent.collect(10)).values()
    assert ledgers(agent) == []


def test_ledger_percent_limits_the_ledger_and_0_leaves_none() -> None:
    for percent in (0.0, 3.0, 10.0):
        agent = Agent(ledger_percent=percent)
        for number in range(40):
            agent.use("lookup", {"n": number}, f"ticket_{number:04} " + body(str(number)))
        enough_calls_to_be_recent(agent)
        target = agent.tokens - 6_000
        agent.collect(6_000)
        size = agent.session.budget.counter.count_text("".join(m.text for m in ledgers(agent)))
        assert size <= target * percent / 100
        assert (size > 0) == (percent > 0)
        assert agent.tokens <= target


def test_the_ledger_is_replaced_and_never_swept() -> None:
    """Under pressure neither, although it is PRESERVABLE."""
    agent = Agent(limit=60_000, pressure_percent=1.0, ledger_percent=20.0)
    for number in range(4):
        for step in range(12):
            agent.use(*read(f"src/file_{number}_{step}.py"), body(f"file {number} {step}", 2_000))
        enough_calls_to_be_recent(agent)
        result = agent.collect(2_000)
        [ledger] = ledgers(agent)
        assert ledger.message_id not in why(result)
        assert "src/file_0_0.py" in ledger.text
    assert "src/file_1_0.py" in ledger.text


# --- options ---


CUSTOM = {"tools": {"read": ["Show_*"], "shell": ["please"], "path_arguments": ["document"]}}


def dead_by_own_tools(agent: Agent) -> dict[str, str]:
    first = agent.use("show_it", {"document": "a.py", "limit": 9}, FIRST)
    agent.use("show_it", {"document": "a.py"}, SECOND)
    again = agent.use("please", {"command": "make"}, body("make") + "its last words")
    agent.use("please", {"command": "make"}, "fine")
    agent.use(*read("a.py", limit=9), body("third"))  # not a tool of this agent
    agent.use(*read("a.py"), body("fourth"))
    enough_calls_to_be_recent(agent)
    reasons = agent.collect_only(*DEAD)
    assert agent.text(again).endswith("its last words")
    assert set(reasons) == {first, again}
    return reasons


def test_tools_of_your_own_are_recognised_by_options() -> None:
    assert set(dead_by_own_tools(Agent(CUSTOM)).values()) == {"cleared_superseded"}


def test_tools_of_your_own_are_recognised_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "gc.json"
    file.write_text(json.dumps({"type": "marksweep", "preserve_recent_turns": 1, **CUSTOM}))
    loaded = load_gc_from_file(file)
    assert loaded is not None
    agent = Agent()
    agent.session.set_gc_plugin(*loaded)

    assert set(dead_by_own_tools(agent).values()) == {"cleared_superseded"}


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"max_result_tokens": 0}, "max_result_tokens"),
        ({"max_result_tokens": "many"}, "max_result_tokens"),
        ({"max_name_tokens": 500}, "max_name_tokens"),  # not an option
        ({"max_result_token": 5}, "max_result_tokens"),
        ({"tools": {"reads": ["x"]}}, "did you mean 'tools.read'"),
        ({"tools": {"read": "x"}}, "read"),
        ({"tools": {"path_arguments": [1]}}, "path_arguments"),
        ({"tools": ["x"]}, r"tools=\['x'\]"),
    ],
)
def test_an_invalid_option_is_a_gc_config_error(
    options: dict[str, Any], hint: str, tmp_path: Path
) -> None:
    with pytest.raises(GCConfigError, match=hint):
        create_plugin().initialize(options)
    file = tmp_path / "gc.json"
    file.write_text(json.dumps({"type": "marksweep", **options}))
    with pytest.raises(GCConfigError, match=hint):
        load_gc_from_file(file)


# --- generations ---


def an_aged_session(**config: Any) -> tuple[Agent, str, str]:
    """Returns a session after one collection, with a dead read in its old and its young part."""
    agent = Agent(**config)
    old = agent.use(*read("old.py"), body("old.py", 4_000))
    agent.use(*bash("make"), body("make", 4_000))
    agent.use(*bash("make"), "fine")
    enough_calls_to_be_recent(agent)
    agent.collect(500)
    agent.use(*read("old.py"), body("old.py", 4_000) + "!")
    young = agent.use(*read("young.py"), body("young.py", 4_000))
    agent.use(*read("young.py"), body("young.py", 4_000) + "!")
    enough_calls_to_be_recent(agent)
    return agent, old, young


def test_the_beginning_is_unchanged_if_young_garbage_is_enough() -> None:
    agent, old, young = an_aged_session()
    ids = [each.message_id for each in agent.session.history]

    result = agent.collect(500)

    assert why(result) == {young: "cleared_superseded"}
    assert result.details["generation"] == "young"
    assert result.cache is not None
    assert result.cache.first_changed == ids.index(young)
    assert agent.text(old) == body("old.py", 4_000)


def test_everything_is_considered_if_young_garbage_is_not_enough() -> None:
    agent, old, young = an_aged_session()

    result = agent.collect(1_500)

    assert list(why(result)) == [old, young]
    assert result.details["generation"] == "all"


def test_everything_is_considered_under_pressure() -> None:
    agent, old, _ = an_aged_session(**UNDER_PRESSURE)

    result = agent.collect(500)

    assert why(result) == {old: "cleared_superseded"}
    assert result.details["generation"] == "all"


def test_overestimated_young_garbage_does_not_cause_a_larger_loss() -> None:
    """Arguments of signed calls can't be shortened, so only the old garbage is removed."""
    agent = Agent()
    old = agent.use(*read("old.py"), body("old.py", 4_000))
    agent.use(*bash("make"), body("make", 4_000))
    agent.use(*bash("make"), "fine")
    enough_calls_to_be_recent(agent)
    agent.collect(500)
    agent.use(*read("old.py"), body("old.py", 4_000) + "!")
    change = (*edit("b.py", body("b.py", 9_000)), "ok")
    agent.use_at_once(change, extra={"signature": "s"})
    enough_calls_to_be_recent(agent)

    assert why(agent.collect(500)) == {old: "cleared_superseded"}


# --- policies and reasons ---


@pytest.mark.parametrize("how", ["locked", "pinned", "recent", "preservable"])
def test_protected_content_is_unchanged(how: str) -> None:
    agent = Agent(preserve_recent_groups=99 if how == "recent" else 0)
    policy = {"locked": LOCKED, "preservable": PRESERVABLE}.get(how)
    if how == "recent":
        agent.ask()
    uses: list[Use] = [
        (*read("a.py"), body("a.py", 12_000)),
        (*edit("a.py", body("new", 1_000)), "ok"),
        (*read("a.py"), SECOND),
    ]
    kept = [agent.use_at_once(each, policy=policy)[0] for each in uses]
    if how == "pinned":
        for each in kept:
            agent.session.pin(each)
    if how != "recent":
        agent.ask()
    before = agent.session.history

    agent.collect(agent.tokens)

    after = agent.session.history
    positions = [index for index, each in enumerate(before) if each.message_id in kept]
    for index in positions:
        assert before[index] in after
        assert before[index - 1] in after


def test_preservable_content_is_removed_under_pressure() -> None:
    for config, goes in (({"pressure_percent": 90.0}, False), (UNDER_PRESSURE, True)):
        agent = Agent(**config)
        first = agent.use_at_once((*read("a.py"), FIRST), policy=PRESERVABLE)[0]
        note = agent.say("Remember this.", policy=PRESERVABLE)
        agent.use(*read("a.py"), SECOND)
        enough_calls_to_be_recent(agent)
        assert (agent.plan(50).result.removal_list[0].message_ids == [first]) == goes
        agent.collect(agent.tokens)
        ids = {each.message_id for each in agent.session.history}
        assert ({first, note} <= ids) != goes


def test_ephemeral_groups_are_swept_first() -> None:
    agent = Agent(preserve_recent_groups=0)
    uses: list[Use] = [("look", {"at": number}, "nothing") for number in range(3)]
    for use, policy in zip(uses, (PARTIAL, EPHEMERAL, PARTIAL), strict=True):
        agent.use_at_once(use, policy=policy)
    for number in range(12):
        agent.say(f"Step {number}")
    agent.ask()

    [item] = agent.collect(1).removal_list

    assert item.reason == "swept"
    calls = [each for message in agent.session.history for each in message.function_calls]
    assert [each.args["at"] for each in calls] == [0, 2]


def test_it_works_without_a_budget() -> None:
    agent = a_ladder()
    history = [*agent.session.history]
    config = GCConfig(preserve_recent_turns=1, target_percent=60.0)

    after, result = create_plugin().collect(history, {"percent_used": 75.0}, config, THRESHOLD)

    assert result.outcome is GCOutcome.REACHED
    assert [item.reason for item in result.removal_list] == LADDER[:3]
    assert check_history(after) == []
    assert history == agent.session.history


def test_a_request_comes_first_without_a_budget_too() -> None:
    history = [*a_ladder().session.history]
    config = GCConfig(preserve_recent_turns=0, target_percent=0.0)

    after, result = create_plugin().collect(history, {"percent_used": 90.0}, config, THRESHOLD)

    assert result.tokens_freed > 0
    assert check_history(after) == []
    assert after[0] == history[0]


def test_turn_limit_removes_the_oldest_turns_and_keeps_preservable_content() -> None:
    agent = Agent(max_turns=3)
    kept = agent.ask("Keep this.", policy=PRESERVABLE)
    turns = [agent.ask(f"Turn {number}.") for number in range(4)]

    result = agent.collect(0, TURN_LIMIT)

    ids = {each.message_id for each in agent.session.history}
    assert [each in ids for each in (kept, *turns)] == [True, False, False, False, True]
    assert {item.reason for item in result.removal_list} == {"truncated"}
    assert len(lay_out(agent.session.history).turns) == 3


def test_a_manual_collection_below_the_target_removes_everything_unprotected() -> None:
    agent = a_ladder()
    before = agent.session.history

    result = agent.session.manual_gc()

    assert result.success
    kept = [*repeating(before), *before[-7:]]
    assert agent.session.history == [before[0], *ledgers(agent), *kept]
    assert len(ledgers(agent)) == 1


def test_nothing_is_changed_if_nothing_has_to_be_freed() -> None:
    agent = a_ladder()
    before = agent.session.history

    assert agent.collect(0).outcome is GCOutcome.NOT_NEEDED
    assert agent.session.history == before
    assert agent.session.before_send() == before
    assert agent.session.after_turn() is None


def test_a_notice_is_replaced_and_never_swept() -> None:
    agent = a_ladder(notify_on_gc=True, **UNDER_PRESSURE)
    notice = ""
    for free in (3_000, agent.tokens):
        result = agent.collect(free)
        assert result.notification
        assert notice not in why(result)
        [notice] = [
            each.message_id
            for each in agent.session.history
            if each.synthetic is SyntheticKind.NOTICE
        ]


# --- stubs ---


@pytest.mark.parametrize("length", [4_000, 60_000])
def test_the_stub_of_a_long_result_has_the_same_size_for_all_texts(length: int) -> None:
    agent = Agent({"max_result_tokens": 10})
    names = " ".join(f"src/app/name_{number:05}.py" for number in range(length // 22))
    long = agent.use("Task", {}, names)
    enough_calls_to_be_recent(agent)
    agent.collect_only("cleared_long")

    [stub] = re.findall(r"\[.*\]", agent.text(long))
    assert re.fullmatch(
        r"\[\d+ characters cleared: the middle of a long result, made again by the same call\]",
        stub,
    )
    assert len(agent.text(long)) < 150


def test_a_shortened_result_has_no_names_of_its_middle() -> None:
    agent = Agent({"max_result_tokens": 100})
    lines = [f"a word and name_{number:03}" for number in range(200)]
    long = agent.use("WebFetch", {"url": "u"}, "\n".join(lines))
    enough_calls_to_be_recent(agent)
    agent.collect_only("cleared_long")

    kept = agent.text(long)
    assert "name_000" in kept
    assert "name_199" in kept
    assert "name_100" not in kept
    [stub] = [line for line in kept.splitlines() if line.startswith("[")]
    assert "name_" not in stub


def recall_keys(texts: Iterable[str]) -> list[str]:
    return [key for text in texts for key in re.findall(r"recall key ([0-9a-f]{16})\]", text)]


def all_text(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if part.function_call:
                yield as_text(part.function_call.args)
            if part.function_response:
                yield as_text(part.function_response.result)


def test_the_model_can_recall_everything_that_was_shortened() -> None:
    agent = Agent(stash=MemoryStash())
    text = body("one", 12_000)
    agent.use("Task", {"prompt": "p"}, text)
    agent.use(*read("a.py", limit=9), body("three"))
    agent.use(*read("a.py"), "fine")
    agent.use(*bash("make"), "Building\n" + body("make"))
    agent.use(*bash("make"), "fine")
    enough_calls_to_be_recent(agent)
    before = agent.session.history

    agent.collect_only(*GARBAGE)

    keys = recall_keys(all_text(agent.session.history))
    assert len(keys) == len(set(keys)) == 3
    recall = agent.session.recall_tool().handler
    recalled = "\n".join(recall({"key": key}) for key in keys)
    assert text in recalled
    assert "three" in recalled
    assert "Building" in recalled
    agent.session.undo()
    assert agent.session.history == before


def test_a_recall_key_survives_a_second_shortening_and_is_not_listed_as_a_name() -> None:
    stash = MemoryStash()
    agent = Agent({"max_result_tokens": 200}, stash=stash)
    whole = "import os_path\n" * 200
    shown = agent.use(*read("a.py"), whole)
    enough_calls_to_be_recent(agent)
    agent.collect_only("cleared_long")
    [key] = recall_keys([agent.text(shown)])
    agent.use(*read("a.py"), "import os")
    enough_calls_to_be_recent(agent)
    assert agent.collect_only(*DEAD) == {shown: "cleared_superseded"}

    assert agent.text(shown).count(key) == 1
    assert recall_keys([agent.text(shown)]) == [key]
    assert whole in agent.session.recall_tool().handler({"key": key})


# --- over several collections ---


def test_shortened_content_is_not_changed_again() -> None:
    """It is in the provider's prompt cache."""
    options = {"max_result_tokens": 300}
    agent = Agent(options, stash=MemoryStash(), **UNDER_PRESSURE)  # so that all is considered
    names = "\n".join(f"a word and name_{number:03}" for number in range(300))
    agent.use("Task", {"prompt": "p"}, names)
    agent.use("Grep", {"pattern": "x"}, lines("a search"))
    agent.use(*edit("a.py", body("new", 1_000)), "ok")
    agent.use("WebFetch", {"url": "u"}, f"A page\n{lines('a search')}")
    agent.use(*bash("make"), body("make"))
    agent.use(*bash("make"), "fine")
    enough_calls_to_be_recent(agent)
    assert set(agent.collect_only(*GARBAGE).values()) == {*GARBAGE} - {
        "cleared_failed", "identical",
    }  # fmt: skip
    before = agent.session.history

    assert agent.collect_only(*GARBAGE) == {}
    fresh = agent.use(*read("b.py", limit=9), body("b.py"))
    agent.use(*read("b.py"), "fine")
    enough_calls_to_be_recent(agent)

    assert agent.collect_only(*GARBAGE) == {fresh: "cleared_superseded"}
    assert agent.session.history[: len(before)] == before


def test_a_shortened_result_supersedes_nothing() -> None:
    """The newest read that is still whole is not dead because a later one was shortened."""
    agent = Agent({"max_result_tokens": 300})
    first = agent.use(*read("a.py"), FIRST)
    agent.session.pin(first)
    second = agent.use(*read("a.py"), body("the second", 4_000))
    enough_calls_to_be_recent(agent)
    assert agent.collect_only(*GARBAGE) == {second: "cleared_long"}
    agent.session.unpin(first)

    assert agent.collect_only(*GARBAGE) == {}
    assert agent.text(first) == FIRST


def test_a_long_run_stays_within_its_window() -> None:
    agent = Agent(limit=4_000, preserve_recent_turns=2)
    reasons: set[str] = set()
    for turn in range(30):
        agent.ask(f"Request {turn}")
        for step in range(4):
            path = f"file_{(turn + step) % 5}.py"
            agent.use(*read(path), body(f"{path} in {turn}", 600))
            agent.use(*edit(path, body("new", 500)), "ok")
            agent.use(*bash("make"), body(f"make {turn} {step}", 300))
            request = agent.session.before_send()
            assert check_history(request) == []
            assert agent.tokens <= 4_000
        agent.say()
        agent.session.after_turn()
    for result in agent.session.get_gc_history():
        assert result.outcome is GCOutcome.REACHED
        reasons |= set(why(result).values())
    assert reasons == {"cleared_superseded", "swept"}
    [ledger] = ledgers(agent)
    assert re.search(r"Files read: file_[0-9]\.py", ledger.text)


# --- at size ---


def grows_linearly(work: Callable[[int], Callable[[], object]], small: int, large: int) -> bool:
    counts = []
    for size in (small, large):
        collect = work(size)
        collect()  # so that every token is counted
        counts.append(count_operations(collect))
    return counts[1] <= large / small * counts[0] * 1.3


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_work_is_linear_in_a_plain_history(share: float) -> None:
    def collecting(turns: int) -> Callable[[], object]:
        agent = Agent()
        for message in long_history(turns):
            agent.session.append(message)
        return collecting_of(agent, share)

    assert grows_linearly(collecting, 100, 400)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8, 1.0])
def test_work_is_linear_in_tool_uses(share: float) -> None:
    def collecting(turns: int) -> Callable[[], object]:
        agent = Agent({"max_result_tokens": 100})
        for turn in range(turns):
            agent.ask(f"Look at item_{turn}")
            agent.use(*read(f"file_{turn % 7}.py"), body(f"file {turn}", 600))
            agent.use(*edit(f"file_{turn % 11}.py", body("new", 600)), "ok")
            agent.use(*bash(f"make {turn % 5}"), body(f"make {turn}", 300))
        return collecting_of(agent, share)

    assert grows_linearly(collecting, 50, 200)


def collecting_of(agent: Agent, share: float) -> Callable[[], object]:
    plugin, history = create_plugin(), [*agent.session.history]
    usage: ContextUsage = {"percent_used": 90.0}
    plugin.initialize({"max_result_tokens": 100})
    budget = agent.session.budget
    budget.context_limit = 2 * agent.tokens
    target = agent.target(int(share * agent.tokens))
    config = GCConfig(target_percent=target, preserve_recent_turns=1)
    return lambda: plugin.collect(history, usage, config, THRESHOLD, budget)


def test_work_is_linear_in_parallel_results() -> None:
    def collecting(calls: int) -> Callable[[], object]:
        agent = Agent(stash=MemoryStash())
        uses: list[Use] = [(*read(f"file_{n}.py"), body(f"file {n}")) for n in range(calls)]
        agent.use_at_once(*uses)
        agent.use_at_once(*uses)
        enough_calls_to_be_recent(agent)
        return collecting_of(agent, 0.4)

    assert grows_linearly(collecting, 50, 200)


@pytest.mark.parametrize("in_one_message", [True, False])
def test_two_hundred_parallel_results_can_be_collected(in_one_message: bool) -> None:
    agent = Agent(stash=MemoryStash())
    uses: list[Use] = [
        (*read(f"file_{number}.py"), body(f"file {number}")) for number in range(200)
    ]
    first = agent.use_at_once(*uses, in_one_message=in_one_message)
    agent.use_at_once(*uses[:100], in_one_message=in_one_message)
    enough_calls_to_be_recent(agent)
    before = agent.session.history

    agent.collect(15_000)

    places = [(first[0], n) if in_one_message else (first[n], 0) for n in range(200)]
    cleared = [agent.text(*place).startswith("[800 characters") for place in places]
    assert sum(cleared[:100]) > 80
    assert not any(cleared[100:])
    agent.session.undo()
    assert agent.session.history == before
