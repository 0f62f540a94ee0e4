"""The account of a collection."""

import pytest

from jaato_gc import (
    GCOutcome,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    InstructionSource,
)


def result(before: int, after: int, **fields: object) -> GCResult:
    return GCResult(
        success=True,
        items_collected=1,
        tokens_before=before,
        tokens_after=after,
        plugin_name="gc_truncate",
        trigger_reason=GCTriggerReason.THRESHOLD,
        **fields,  # type: ignore[arg-type]
    )


def test_gc_result_removal_list() -> None:
    items = [
        GCRemovalItem(
            source=InstructionSource.ENRICHMENT,
            child_key=None,
            tokens_freed=2000,
            reason="enrichment_bulk_clear",
        ),
        GCRemovalItem(
            source=InstructionSource.CONVERSATION,
            child_key="turn_3",
            tokens_freed=800,
            message_ids=["msg-7", "msg-8"],
        ),
    ]
    account = result(10_000, 7_200, removal_list=items)

    assert account.removal_list == items
    assert account.tokens_freed == sum(item.tokens_freed for item in items)


def test_a_result_lists_no_removals_unless_told() -> None:
    first, second = result(2, 1), result(2, 1)
    first.removal_list.append(GCRemovalItem(InstructionSource.PLUGIN))

    assert second.removal_list == []


def test_a_result_can_be_made_as_strategies_always_made_it() -> None:
    account = GCResult(
        success=False,
        items_collected=0,
        tokens_before=5,
        tokens_after=5,
        plugin_name="gc_custom",
        trigger_reason=GCTriggerReason.MANUAL,
        notification="collected",
        details={"summary_tokens": 3},
        error="no summarizer",
    )

    assert account.error == "no summarizer"
    assert (account.outcome, account.shortfall, account.cache, account.gc_id) == (None,) * 4


def test_a_removal_item_names_no_messages_and_is_stashed_unless_told() -> None:
    item = GCRemovalItem(source=InstructionSource.CONVERSATION)

    assert (item.child_key, item.tokens_freed, item.reason, item.message_ids) == (None, 0, "", ())
    assert (item.action, item.keep) == ("remove", True)


@pytest.mark.parametrize(("before", "after", "freed"), [(10, 4, 6), (10, 10, 0), (10, 12, 0)])
def test_tokens_freed_is_never_negative(before: int, after: int, freed: int) -> None:
    assert result(before, after).tokens_freed == freed


def test_only_failed_and_rejected_are_no_success() -> None:
    failures = {outcome for outcome in GCOutcome if not outcome.is_success}

    assert failures == {GCOutcome.FAILED, GCOutcome.REJECTED}


def test_every_reason_of_the_design_exists() -> None:
    assert {reason.name for reason in GCTriggerReason} == {
        "THRESHOLD",
        "MANUAL",
        "TURN_LIMIT",
        "PRE_MESSAGE",
        "CONTEXT_LIMIT",
    }
