"""The result of a collection."""

import pytest

from jaato_gc import GCOutcome, GCRemovalItem, GCResult, GCTriggerReason, InstructionSource


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


def test_results_do_not_share_their_removal_lists() -> None:
    first, second = result(2, 1), result(2, 1)
    first.removal_list.append(GCRemovalItem(InstructionSource.PLUGIN))

    assert second.removal_list == []


def test_a_result_can_be_made_with_the_fields_of_the_design() -> None:
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
    assert account.outcome is GCOutcome.FAILED
    assert (account.shortfall, account.cache, account.gc_id) == (None,) * 3


@pytest.mark.parametrize(("after", "outcome"), [(4, GCOutcome.REACHED), (10, GCOutcome.NOT_NEEDED)])
def test_an_outcome_that_is_not_given_is_derived(after: int, outcome: GCOutcome) -> None:
    assert result(10, after).outcome is outcome
    assert result(10, after, outcome=GCOutcome.SHORT).outcome is GCOutcome.SHORT


def test_a_removal_item_has_no_messages_and_is_kept_by_default() -> None:
    item = GCRemovalItem(source=InstructionSource.CONVERSATION)

    assert (item.child_key, item.tokens_freed, item.reason, item.message_ids) == (None, 0, "", [])
    assert (item.action, item.stash) == ("remove", True)


@pytest.mark.parametrize(("before", "after", "freed"), [(10, 4, 6), (10, 10, 0), (10, 12, 0)])
def test_tokens_freed_is_never_negative(before: int, after: int, freed: int) -> None:
    assert result(before, after).tokens_freed == freed


def test_every_outcome_except_failed_and_rejected_is_a_success() -> None:
    failures = {outcome for outcome in GCOutcome if not outcome.is_success}

    assert failures == {GCOutcome.FAILED, GCOutcome.REJECTED}


def test_every_reason_of_the_design_exists() -> None:
    assert {reason.name for reason in GCTriggerReason} == {
        "THRESHOLD",
        "MANUAL",
        "TURN_LIMIT",
        "PRE_MESSAGE",
        "CACHE_COLD",
        "CONTEXT_LIMIT",
    }


@pytest.mark.parametrize("reason", GCTriggerReason)
@pytest.mark.parametrize("outcome", GCOutcome)
@pytest.mark.parametrize("error", [None, "no summarizer", "Traceback:\n  line\n" * 99])
def test_a_result_is_printed_as_one_short_line(
    outcome: GCOutcome, reason: GCTriggerReason, error: str | None
) -> None:
    items = [GCRemovalItem(InstructionSource.CONVERSATION, "turn_0", 10)] * 123
    printed = str(
        GCResult(
            success=outcome.is_success,
            items_collected=len(items),
            tokens_before=123_456_789,
            tokens_after=98_765_432,
            plugin_name="gc_summarize",
            trigger_reason=reason,
            error=error,
            outcome=outcome,
            removal_list=items,
        )
    )

    assert len(printed) < 160
    assert printed.splitlines() == [printed]
    assert printed.startswith(f"gc_summarize ({reason}): {outcome}, ")


def test_a_printed_result_has_the_figures() -> None:
    account = result(10_000, 7_200, removal_list=[GCRemovalItem(InstructionSource.PLUGIN)])
    unchanged = result(800, 800)
    failed = GCResult(False, 0, 5, 5, "gc_mine", GCTriggerReason.MANUAL, error="no summarizer")

    assert str(account) == (
        "gc_truncate (threshold): reached, 10,000 -> 7,200 tokens, 1 item removed"
    )
    assert str(unchanged) == ("gc_truncate (threshold): not_needed, nothing removed at 800 tokens")
    assert str(failed) == "gc_mine (manual): failed, nothing changed: no summarizer"
