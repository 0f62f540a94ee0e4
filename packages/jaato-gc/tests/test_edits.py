"""Edits: applying, undoing, moving and finding them, for arbitrary histories."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import Message, Part, Role, SyntheticKind
from jaato_gc.history import Edit, apply_edits, edits_between, in_order, inverse, moved_to

PROPERTY = settings(max_examples=200, deadline=None)


def message(message_id: str, text: str = "text") -> Message:
    return Message.from_text(Role.USER, text, message_id=message_id)


def history_of(length: int, prefix: str = "m") -> list[Message]:
    return [message(f"{prefix}{number}") for number in range(length)]


def shorter(original: Message) -> Message:
    return original.with_parts([Part(text="short")])


@st.composite
def histories_with_edits(draw: st.DrawFn) -> tuple[list[Message], list[Edit]]:
    """A history and edits of it: every message may be removed or replaced, with insertions."""
    history = history_of(draw(st.integers(0, 8)))
    edits: list[Edit] = []
    inserted = 0
    for position in range(len(history) + 1):
        for _ in range(draw(st.integers(0, 2))):
            edits.append(Edit(position, None, message(f"new{inserted}"), reason="added"))
            inserted += 1
        kind = draw(st.sampled_from(["keep", "remove", "replace"]))
        if position == len(history) or kind == "keep":
            continue
        before = history[position]
        after = shorter(before) if kind == "replace" else None
        edits.append(Edit(position, before, after, key="turn_0", reason=kind))
    return history, edits


def naive(history: Sequence[Message], edits: Sequence[Edit]) -> list[Message]:
    """Returns the edited history, position by position."""
    edited: list[Message] = []
    for position in range(len(history) + 1):
        here = [edit for edit in edits if edit.position == position]
        edited += [edit.after for edit in here if edit.before is None and edit.after]
        changes = [edit for edit in here if edit.before is not None]
        if changes:
            edited += [edit.after for edit in changes if edit.after]
        else:
            edited += history[position : position + 1]
    return edited


# --- applying and undoing ---


@PROPERTY
@given(histories_with_edits())
def test_apply_edits_removes_replaces_and_inserts_at_the_given_positions(
    case: tuple[list[Message], list[Edit]],
) -> None:
    history, edits = case

    assert apply_edits(history, edits) == naive(history, edits)


@PROPERTY
@given(histories_with_edits())
def test_apply_edits_does_not_change_its_input_and_keeps_the_other_objects(
    case: tuple[list[Message], list[Edit]],
) -> None:
    history, edits = case
    copy = list(history)
    touched = {edit.message_id for edit in edits}
    originals = {each.message_id: each for each in history}

    edited = apply_edits(history, edits)

    assert all(one is other for one, other in zip(history, copy, strict=True))
    assert all(
        each is originals[each.message_id] for each in edited if each.message_id not in touched
    )


@PROPERTY
@given(histories_with_edits(), st.randoms(use_true_random=False))
def test_the_order_of_edits_at_different_places_does_not_matter(
    case: tuple[list[Message], list[Edit]], order: random.Random
) -> None:
    history, edits = case
    # Insertions at one position keep their order: only one of each is shuffled.
    places = {(edit.position, edit.before is None): edit for edit in edits}
    shuffled = list(places.values())
    order.shuffle(shuffled)

    assert apply_edits(history, shuffled) == apply_edits(history, in_order(shuffled))
    assert apply_edits(history, shuffled) == naive(history, shuffled)


@PROPERTY
@given(histories_with_edits())
def test_the_inverse_of_edits_restores_the_very_same_messages(
    case: tuple[list[Message], list[Edit]],
) -> None:
    history, edits = case
    edited = apply_edits(history, edits)

    restored = apply_edits(edited, inverse(edits))

    assert len(restored) == len(history)
    assert all(one is other for one, other in zip(restored, history, strict=True))


@PROPERTY
@given(histories_with_edits())
def test_the_inverse_of_the_inverse_does_the_same_as_the_edits(
    case: tuple[list[Message], list[Edit]],
) -> None:
    history, edits = case

    assert apply_edits(history, inverse(inverse(edits))) == apply_edits(history, edits)
    assert [edit.reason for edit in inverse(edits)] == [edit.reason for edit in in_order(edits)]


@PROPERTY
@given(histories_with_edits())
def test_edits_without_effect_have_no_inverse(case: tuple[list[Message], list[Edit]]) -> None:
    history, _ = case

    assert inverse([]) == []
    assert apply_edits(history, []) == history


# --- the difference between two histories ---


@st.composite
def pairs_of_histories(draw: st.DrawFn) -> tuple[list[Message], list[Message]]:
    """A history and another one: a reordered subset of it, with replaced and new messages."""
    before = history_of(draw(st.integers(0, 8)))
    kept = draw(st.lists(st.sampled_from(before), unique_by=lambda each: each.message_id) if before
                else st.just([]))  # fmt: skip
    added = history_of(draw(st.integers(0, 3)), "new")
    after = draw(st.permutations([*kept, *added]))
    return before, [shorter(each) if draw(st.booleans()) else each for each in after]


@PROPERTY
@given(pairs_of_histories())
def test_the_edits_between_two_histories_make_one_from_the_other(
    pair: tuple[list[Message], list[Message]],
) -> None:
    before, after = pair
    edits = edits_between(before, after)

    made = apply_edits(before, edits)
    assert len(made) == len(after)
    assert all(one is other for one, other in zip(made, after, strict=True))
    assert apply_edits(after, inverse(edits)) == before


@PROPERTY
@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_the_edits_between_histories_with_repeated_ids_make_one_from_the_other(
    first: list[int], second: list[int]
) -> None:
    before = [message(f"m{number}") for number in first]
    after = [message(f"m{number}", "other") for number in second]
    edits = edits_between(before, after)

    assert apply_edits(before, edits) == after
    assert apply_edits(after, inverse(edits)) == before


@PROPERTY
@given(st.integers(0, 8), st.lists(st.booleans(), min_size=8, max_size=8))
def test_the_edits_to_a_subset_are_exactly_its_removals(length: int, stays: list[bool]) -> None:
    before = history_of(length)
    after = [each for each, stay in zip(before, stays, strict=False) if stay]

    edits = edits_between(before, after)

    assert [edit.message_id for edit in edits] == [
        each.message_id for each, stay in zip(before, stays, strict=False) if not stay
    ]
    assert all(edit.after is None for edit in edits)


@pytest.mark.parametrize("place", range(5))
def test_a_notice_moves_and_other_messages_stay(place: int) -> None:
    notice = Message.from_text(Role.USER, "removed", synthetic=SyntheticKind.NOTICE)
    others = [Message.from_text(Role.USER, f"{number}") for number in range(4)]
    before = [*others[:2], notice, *others[2:]]
    after = [*others[:place], notice, *others[place:]]

    edits = edits_between(before, after)
    assert apply_edits(before, edits) == after
    assert all(notice in (edit.before, edit.after) for edit in edits)
    assert len(edits) == (0 if place == 2 else 2)


@PROPERTY
@given(st.integers(0, 8))
def test_there_are_no_edits_between_a_history_and_itself(length: int) -> None:
    history = history_of(length)

    assert edits_between(history, list(history)) == []


# --- edits of an earlier history ---


@PROPERTY
@given(histories_with_edits(), st.data())
def test_moved_edits_have_the_same_effect_in_a_history_that_changed_elsewhere(
    case: tuple[list[Message], list[Edit]], data: st.DataObject
) -> None:
    base, edits = case
    at_end = any(edit.position == len(base) for edit in edits)
    needed = {edit.position for edit in edits} | ({len(base) - 1} if at_end else set())
    removed = data.draw(st.sets(st.integers(0, 8)), label="removed elsewhere") - needed
    appended = history_of(data.draw(st.integers(0, 2)), "later") if base and not at_end else []
    history = [each for place, each in enumerate(base) if place not in removed] + appended

    moved = moved_to(edits, base, history)

    assert moved is not None
    gone = {base[place].message_id for place in removed if place < len(base)}
    expected = [each for each in apply_edits(base, edits) if each.message_id not in gone]
    assert apply_edits(history, moved) == [*expected, *appended]
    assert [edit.message_id for edit in moved] == [edit.message_id for edit in edits]


@PROPERTY
@given(histories_with_edits())
def test_edits_of_the_same_history_are_not_moved(case: tuple[list[Message], list[Edit]]) -> None:
    history, edits = case

    assert moved_to(edits, history, list(history)) == edits


@PROPERTY
@given(st.integers(1, 8), st.data())
def test_edits_of_a_message_that_was_removed_or_changed_can_not_be_moved(
    length: int, data: st.DataObject
) -> None:
    base = history_of(length)
    place = data.draw(st.integers(0, length - 1))
    edit = data.draw(
        st.sampled_from(
            [
                Edit(place, base[place], None),
                Edit(place, base[place], shorter(base[place])),
                Edit(place, None, message("new")),
            ]
        )
    )
    changed = [*base[:place], shorter(base[place]), *base[place + 1 :]]

    assert moved_to([edit], base, base[:place] + base[place + 1 :]) is None
    assert moved_to([edit], base, changed) is None


def test_an_insertion_at_the_end_stays_behind_the_last_message_it_was_made_for() -> None:
    base = history_of(2)
    later = [*base, message("later")]

    moved = moved_to([Edit(2, None, message("new"))], base, later)

    assert moved is not None
    ids = [each.message_id for each in apply_edits(later, moved)]
    assert ids == ["m0", "m1", "new", "later"]
