"""Access to the content of other agents and other projects."""

from collections.abc import Callable

import pytest

from jaato_gc import Message, Role, StashError
from jaato_gc_stash import SqlStash

Open = Callable[..., SqlStash]


def said(words: str, message_id: str = "") -> Message:
    return Message.from_text(Role.USER, words, message_id=message_id)


def test_agents_do_not_see_each_other(stash: SqlStash) -> None:
    [key] = stash.put("gc-1", [said("a secret plan")])
    other = stash.for_agent("reviewer")

    assert other.get(key) is None
    assert other.search("secret") == []
    assert other.stats().entries == 0
    assert other.forget([key]) == other.forget() == 0
    with pytest.raises(StashError, match=f"agent 'reviewer' under {key}"):
        other.restore([key])
    assert stash.get(key)


def test_projects_do_not_see_each_other(open_stash: Open) -> None:
    [key] = open_stash(project="one").put("gc-1", [said("a secret plan")])
    other = open_stash(project="two", also_read=["main"])

    assert other.get(key) is None
    assert other.search("secret") == []
    assert other.forget() == 0


def test_also_read_allows_reading_but_not_deleting(open_stash: Open) -> None:
    main = open_stash()
    message = said("a plan")
    [key] = main.put("gc-1", [message])
    reader = open_stash(agent="reviewer", also_read=("main",))

    assert reader.restore([key]) == [message]
    assert [hit.key for hit in reader.search("plan")] == [key]
    assert reader.stats().entries == 0
    assert reader.forget([key]) == reader.forget() == 0
    assert main.get(key)


def test_content_of_other_agents_does_not_use_up_the_limit_of_a_search(open_stash: Open) -> None:
    stash = open_stash()
    [key] = stash.put("gc-1", [said("a plan, among other things that were said")])
    crowd = [said("plan") for _ in range(30)]
    stash.for_agent("other").put("gc-1", crowd)
    open_stash(project="other").put("gc-1", crowd)

    assert [hit.key for hit in stash.search("plan", limit=1)] == [key]


def test_also_read_is_neither_mutual_nor_inherited(stash: SqlStash) -> None:
    reader = stash.for_agent("reviewer", also_read=["main"])
    [key] = reader.put("gc-1", [said("a review")])

    assert stash.get(key) is None
    assert reader.for_agent("third").also_read == ()


def test_also_read_has_no_wildcards(open_stash: Open) -> None:
    [key] = open_stash().put("gc-1", [said("a plan")])

    for name in ("*", "%", "_ain", "' OR 1=1 --"):
        reader = open_stash(agent="reviewer", also_read=name)
        assert reader.get(key) is None
        assert reader.search("plan") == []


def test_a_key_of_several_agents_is_found_once_and_gives_the_own_entry(open_stash: Open) -> None:
    main = open_stash()
    reader = main.for_agent("reviewer", also_read=["main"])
    messages = [said(f"the same plan {number}", f"m{number}") for number in range(4)]
    main.put("gc-main", messages)
    [key] = reader.put("gc-own", messages[:1])

    entry = reader.get(key)

    assert entry
    assert entry.gc_id == "gc-own"
    hits = [hit.key for hit in reader.search("plan", limit=4)]
    assert len(hits) == len(set(hits)) == 4


def test_a_stash_shows_its_project_and_agent(open_stash: Open) -> None:
    stash = open_stash(project="web", also_read="reviewer")

    view = stash.for_agent("reviewer", also_read=["main", "reviewer"])

    assert (stash.project, stash.agent, stash.also_read) == ("web", "main", ("reviewer",))
    assert (view.project, view.agent, view.also_read) == ("web", "reviewer", ("main",))
    assert "'web' 'reviewer'" in repr(view)


@pytest.mark.parametrize("name", ["", "\0", "\ud800"])
def test_an_empty_or_unstorable_name_is_refused(open_stash: Open, name: str) -> None:
    for option, value in (("project", name), ("agent", name), ("also_read", [name])):
        with pytest.raises(StashError, match=f"{option}: expected "):
            open_stash(**{option: value})
