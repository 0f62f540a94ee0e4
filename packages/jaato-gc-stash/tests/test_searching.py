"""Search results and their order, on both databases."""

from collections.abc import Callable

import pytest

from jaato_gc import FunctionCall, InlineData, Message, Part, Role, ToolResult
from jaato_gc_stash import SqlStash
from jaato_gc_stash._words import words_to_find, words_to_index

Open = Callable[..., SqlStash]

TEXT = """
Traceback in src/foo/bar_baz.py, line 17: jaato_gc.PluginRegistry.loadEntryPoints failed
HTTPServer2 said MAX_RETRIES=5; see https://example.org/docs?page=setup#top and C:\\temp\\notes.txt
"""


def said(words: str) -> Message:
    return Message.from_text(Role.USER, words)


@pytest.mark.parametrize(
    "query",
    [
        "src/foo/bar_baz.py", "bar_baz.py", "bar_baz", "bar", "baz", "foo/bar_baz",
        "jaato_gc", "PluginRegistry", "pluginregistry", "plugin", "registry", "plug",
        "jaato_gc.PluginRegistry", "loadEntryPoints", "entry points", "HTTPServer", "http",
        "MAX_RETRIES", "max retries", "example.org", "setup", "notes.txt", "line 17",
    ],
)  # fmt: skip
def test_code_is_found_by_identifiers_and_their_pieces(stash: SqlStash, query: str) -> None:
    stash.put("gc-1", [said("nothing to see here")])
    [key] = stash.put("gc-1", [said(TEXT)])

    assert [hit.key for hit in stash.search(query)] == [key]


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("設定ファイルの読み込みに失敗しました。", ["読み込み", "失敗", "ファイル", "設", "敗"]),
        ("这个函数返回一个列表", ["函数", "列表", "表"]),
        ("설정 파일을 읽지 못했습니다", ["설정", "파일"]),
        ("не удалось прочитать файл", ["ПРОЧИТАТЬ", "файл", "проч"]),
        ("la configuration échoue", ["ÉCHOUE", "e\u0301choue"]),
        ("ไม่พบไฟล์การตั้งค่า", ["ไฟล์"]),
        ("ｆｕｌｌ ｗｉｄｔｈ", ["full width"]),
    ],
)
def test_text_in_other_scripts_is_found(stash: SqlStash, text: str, queries: list[str]) -> None:
    stash.put("gc-1", [said("nothing"), said("何もない"), said("ничего"), said("ком")])
    [key] = stash.put("gc-1", [said(text)])

    for query in queries:
        assert [hit.key for hit in stash.search(query)] == [key], query


def test_the_best_match_comes_first(stash: SqlStash) -> None:
    stash.put("gc-1", [said(f"the config of module {number}") for number in range(50)])
    [key] = stash.put("gc-1", [said("the config says parse_config fails for module 7")])
    stash.put("gc-1", [said(f"the config of part {number}") for number in range(50)])

    assert stash.search("why does parse_config fail")[0].key == key


def test_a_much_better_match_ranks_above_a_newer_one(open_stash: Open) -> None:
    now = 1_000_000.0
    stash = open_stash(clock=lambda: now)
    [better] = stash.put("gc-1", [said("deploy key rotation schedule")])
    now += 30 * 86400
    [newer] = stash.put("gc-1", [said("deploy notes of today, again")])
    stash.put("gc-1", [said(f"unrelated {number}") for number in range(10)])
    now += 60

    assert [hit.key for hit in stash.search("key rotation schedule deploy")] == [better, newer]


def test_the_score_decreases_with_age_as_documented(open_stash: Open) -> None:
    now = 1_000_000.0
    stash = open_stash(clock=lambda: now)
    [old] = stash.put("gc-1", [said("release notes")])
    now += 86400
    [new] = stash.put("gc-1", [said("release notes")])

    first, second = stash.search("release")

    assert (first.key, second.key) == (new, old)
    assert first.score / second.score == pytest.approx(2 / 1.5)


def test_an_entry_that_is_a_month_newer_ranks_above_a_slightly_better_match(
    open_stash: Open,
) -> None:
    now = 1_000_000.0
    stash = open_stash(clock=lambda: now)
    [old] = stash.put("gc-1", [said("release notes")])
    now += 30 * 86400
    [new] = stash.put("gc-1", [said("release notes of the project")])
    stash.put("gc-1", [said(f"unrelated {number}") for number in range(10)])

    assert [hit.key for hit in stash.search("release notes")] == [new, old]


def test_forgotten_content_is_removed_from_the_index(stash: SqlStash) -> None:
    stash.forget(stash.put("gc-1", [said("macadamia")]))

    # A database may reuse the id for the next content.
    [key] = stash.put("gc-2", [said("chestnut")])

    assert stash.search("macadamia") == []
    assert [hit.key for hit in stash.search("chestnut")] == [key]


def test_an_entry_from_the_future_is_found(open_stash: Open) -> None:
    now = 1_000_000.0
    stash = open_stash(clock=lambda: now)
    [key] = stash.put("gc-1", [said("from the future")])
    now = 5.0

    assert [hit.key for hit in stash.search("future")] == [key]


def test_the_relevance_of_several_parts_adds_up(stash: SqlStash) -> None:
    both = Message(Role.MODEL, [Part(text="about walnuts"), Part(thought="and hazelnuts")])
    [one, key] = stash.put("gc-1", [said("about walnuts alone"), both])

    assert [hit.key for hit in stash.search("walnuts hazelnuts")] == [key, one]


def test_a_hit_describes_its_message(stash: SqlStash) -> None:
    call = FunctionCall("1", "read_file", {"path": "src/app.py"})
    other = FunctionCall("2", "grep", {"pattern": "main"})
    answer = ToolResult("1", "read_file", "def main():\n    return 'almonds'\n")
    stash.put(
        "gc-1",
        [
            Message(Role.MODEL, [Part(function_call=call), Part(function_call=other)]),
            Message(Role.TOOL, [Part(function_response=answer)]),
        ],
    )

    [hit] = stash.search("almonds")
    assert hit.about == "tool; result of read_file"
    assert hit.snippet == "read_file def main(): return 'almonds'"
    assert stash.search("app.py")[0].about == "model; calls read_file, grep"


def test_invalid_characters_in_tool_names_are_replaced_in_the_description(stash: SqlStash) -> None:
    call = FunctionCall("1", "rm\0\ud800" + "x" * 5000, {"note": "pecans"})
    stash.put("gc-1", [Message(Role.MODEL, [Part(function_call=call)])])

    [hit] = stash.search("pecans")
    assert hit.about.startswith("model; calls rm??x")
    assert len(hit.about) == 200


def test_a_snippet_shows_the_passage_with_the_most_words(stash: SqlStash) -> None:
    text = "cashew " + "filler " * 300 + "the cashew and the pistachio " + "filler " * 300
    stash.put("gc-1", [said(text)])

    [hit] = stash.search("pistachio cashew")

    assert "the cashew and the pistachio" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) <= 202


def test_both_ends_of_a_huge_text_are_searchable(stash: SqlStash) -> None:
    log = "first_clue\n" + "\n".join(f"line {number} of_{number}" for number in range(100_000))
    answer = ToolResult("1", "bash", f"{log}\nlast_clue")
    [key] = stash.put("gc-1", [Message(Role.TOOL, [Part(function_response=answer)])])

    for word in ("first_clue", "last_clue"):
        [hit] = stash.search(word)
        assert hit.key == key
    assert stash.restore([key])[0].function_responses[0].result.endswith("last_clue")


def test_attachments_are_found_by_uri_but_not_by_data(stash: SqlStash) -> None:
    image = InlineData("image/png", "cGVhbnV0", uri="file:///screens/checkout.png")
    stash.put("gc-1", [Message(Role.USER, [Part(inline_data=image)])])

    assert stash.search("cGVhbnV0") == []
    assert len(stash.search("checkout.png")) == 1


def test_identifiers_are_split_into_pieces() -> None:
    assert words_to_index("HTTPServer2.get_url") == [
        "httpserver2", "http", "server2", "get_url", "get", "url",
    ]  # fmt: skip
    assert words_to_index("SHA256sum a3f9c2 v2") == ["sha256sum", "sha256", "sum", "a3f9c2", "v2"]
    assert words_to_index("__init__ 'don''t'") == ["init", "don", "t"]
    assert words_to_index("\0 \ud800 -- '' \"") == []


def test_the_words_of_a_text_are_limited() -> None:
    noise = " ".join(f"{number}{'漢' * 70}" for number in range(20_000))
    assert sum(len(word.encode()) for word in words_to_index(noise)) < 500_000
    assert words_to_index("same " * 1000) == ["same"] * 16
    assert len(words_to_index("x" * 100_000)[0]) == 64
    assert len(words_to_find(noise)) == 40
