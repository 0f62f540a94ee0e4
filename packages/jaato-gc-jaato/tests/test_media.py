"""jaato-server's limit on bytes of attachments."""

from typing import Any

import pytest
from jaato_host import (
    Attachment,
    Message,
    Model,
    Part,
    Role,
    call,
    gc,
    new_session,
    result,
    use,
    user,
)

PICTURE = b"\x89PNG" + bytes(600_000)


def looks(number: int) -> list[Any]:
    """Returns a call that takes a picture of the screen."""
    picture = Attachment("image/png", PICTURE, f"{number}.png")
    return [
        call(f"c{number}", "shot"),
        result(f"c{number}", "taken", "shot", attachments=[picture]),
    ]


def pictures(session: Any) -> list[int]:
    """Returns the places of messages with attachments."""
    history = session.get_history()
    return [at for at, message in enumerate(history) if gc.message_media_bytes(message)]


@pytest.fixture
def session() -> Any:
    history = [user("Test the page."), *(each for n in range(10) for each in looks(n))]
    made = new_session(Model(200_000), history)
    use(made, "gc_jg_budget", media_bytes_threshold=3_000_000)
    return made


def test_too_many_bytes_of_attachments_trigger_a_collection(session: Any) -> None:
    due, reason = session._gc_plugin.should_collect(session.get_context_usage(), session._gc_config)

    assert (due, reason) == (True, gc.GCTriggerReason.MEDIA_PRESSURE)


def test_nothing_is_triggered_if_triggers_are_off(session: Any) -> None:
    session._gc_config.auto_trigger = False

    usage = session.get_context_usage()

    assert session._gc_plugin.should_collect(usage, session._gc_config) == (False, None)


def test_the_oldest_attachments_leave_a_note_until_the_limit_holds(session: Any) -> None:
    before = session.get_history()

    collected = session._maybe_collect_before_send()

    assert collected.success, collected.error
    assert collected.trigger_reason is gc.GCTriggerReason.MEDIA_PRESSURE
    assert gc.history_media_bytes(session.get_history()) < 3_000_000
    assert pictures(session) == [14, 16, 18, 20]
    assert len(session.get_history()) == len(before)
    assert {item.reason for item in collected.removal_list} == {"media_pressure"}
    note = session.get_history()[2].parts[0].function_response.model_suffix
    assert "0.png" in note
    assert session._maybe_collect_before_send() is None


def test_the_budget_falls_with_the_attachments(session: Any) -> None:
    before = session._instruction_budget.total_tokens()

    collected = session._maybe_collect_before_send()

    total = session._instruction_budget.total_tokens()
    assert total == collected.tokens_after < before
    session._update_conversation_budget()
    assert session._instruction_budget.total_tokens() == pytest.approx(total, rel=0.15)


def test_attachments_of_the_request_itself_stay() -> None:
    picture = Part(inline_data={"mime_type": "image/png", "data": PICTURE})
    history = [user("Start."), *looks(1), Message(Role.USER, [Part.from_text("Compare."), picture])]
    session = new_session(Model(200_000), history)
    use(session, "gc_jg_budget", media_bytes_threshold=1_000)

    session._maybe_collect_before_send()

    assert pictures(session) == [3]


def test_tokens_are_collected_too_if_there_are_too_many() -> None:
    talk = [user("word " * 400) if n % 2 == 0 else call_free_answer() for n in range(40)]
    history = [user("Start."), *looks(1), *talk, *looks(2), user("Go on.")]
    session = new_session(Model(12_000), history)
    use(session, "gc_jg_truncate", media_bytes_threshold=1_000)

    collected = session._maybe_collect_before_send()

    assert collected.trigger_reason is gc.GCTriggerReason.MEDIA_PRESSURE
    assert session._instruction_budget.total_tokens() <= 0.6 * 12_000
    assert pictures(session) == []


def call_free_answer() -> Any:
    return Message(Role.MODEL, [Part.from_text("I see. " * 100)])
