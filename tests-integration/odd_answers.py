"""Answers with odd values in them. A session rejects them, or keeps nothing of what is odd."""

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hostile_answers import Fault, answer, item, last_turn

from jaato_gc import InlineData, Message, Part, Role, SyntheticKind
from jaato_gc_testing.odd_values import (
    ODD_JSON,
    ODD_TEXTS,
    SURROGATE,
    Broken,
    EqualMessage,
    FickleMessage,
    OddDict,
    OddPart,
    OddText,
)


def one_of(values: Collection[Any], history: list[Message]) -> Any:
    """Returns one of some values, another one for another history."""
    return list(values)[len(history) % len(values)]


def without_old_turns(history: list[Message], **fields: Any) -> Any:
    start = last_turn(history)
    return answer(history[start:], item(history[:start]), **fields)


def with_item(history: list[Message], **fields: Any) -> Any:
    start = last_turn(history)
    named = {
        "source": "conversation",
        "child_key": "turn_0",
        "message_ids": ids_of(history[:start]),
    }
    return answer(history[start:], SimpleNamespace(**(named | fields)))  # type: ignore[arg-type]


def ids_of(messages: list[Message]) -> list[str]:
    return [message.message_id for message in messages]


# --- the result ---


def has_odd_details(history: list[Message]) -> Any:
    return without_old_turns(history, details={"odd": one_of(ODD_JSON.values(), history)})


def has_details_about_itself(history: list[Message]) -> Any:
    details: dict[Any, Any] = {"object": object(), 7: math.nan, "undone": True}
    details["itself"] = details
    return answer(history, details=details)


def has_details_with_names_of_core(history: list[Message]) -> Any:
    names = ("relaxed", "fits", "undone", "tokens_freed", "summary_tokens", "turns_before")
    return without_old_turns(history, details={name: [7] for name in names})


def has_an_odd_notification(history: list[Message]) -> Any:
    return without_old_turns(history, notification=one_of(ODD_TEXTS.values(), history))


def has_an_odd_key(history: list[Message]) -> Any:
    return with_item(history, child_key=one_of(ODD_TEXTS.values(), history))


def has_an_odd_reason(history: list[Message]) -> Any:
    return with_item(history, reason=one_of(ODD_TEXTS.values(), history))


def has_odd_ids(history: list[Message]) -> Any:
    return with_item(history, message_ids=one_of([[each] for each in ODD_TEXTS.values()], history))


def has_a_generator_of_ids(history: list[Message]) -> Any:
    return with_item(history, message_ids=iter(ids_of(history[: last_turn(history)])))


def has_broken_items(history: list[Message]) -> Any:
    return with_item(history, action=Broken(), stash=Broken())


def has_texts_of_a_subclass(history: list[Message]) -> Any:
    ids = [OddText(each) for each in ids_of(history[: last_turn(history)])]
    return with_item(
        history,
        child_key=OddText("mine"),
        reason=OddText("mine"),
        message_ids=ids,
        action=OddText(),
    )


def has_odd_fields_that_are_not_read(history: list[Message]) -> Any:
    start = last_turn(history)
    odd: dict[str, Any] = dict.fromkeys(("shortfall", "cache", "confidence", "gc_id"), object())
    return history[start:], SimpleNamespace(
        success=True, tokens_before=10**5_000, tokens_after=math.nan, plugin_name=b"", **odd
    )


def is_broken(history: list[Message]) -> Any:
    return history, Broken()


def fails_with_an_odd_error(history: list[Message]) -> Any:
    return answer(history, success=False, error=one_of(ODD_TEXTS.values(), history))


def raises_an_odd_text(_history: list[Message]) -> Any:
    raise RuntimeError(SURROGATE)


# --- the history ---


def added(history: list[Message], **fields: Any) -> Any:
    start = last_turn(history)
    values = {"role": Role.USER, "parts": (Part(text="new"),), "message_id": "mine"} | fields
    return answer([*history[start:], Message(**values)], item(history[:start]))


def adds_an_odd_text(history: list[Message]) -> Any:
    return added(history, parts=(Part(text=one_of(ODD_TEXTS.values(), history)),))


def adds_an_odd_id(history: list[Message]) -> Any:
    return added(history, message_id=one_of([b"raw", 7, SURROGATE, ["a"]], history))


def adds_an_odd_extra(history: list[Message]) -> Any:
    return added(history, extra={"odd": one_of(ODD_JSON.values(), history)})


def adds_an_odd_ledger(history: list[Message]) -> Any:
    fields: dict[str, Any] = {"message_id": "gc_ledger", "synthetic": SyntheticKind.LEDGER}
    return added(history, extra={"entries": [7, "x", ["ran", "x", "y"]]}, **fields)


def adds_a_subclass(history: list[Message]) -> Any:
    start = last_turn(history)
    new = EqualMessage(Role.USER, [OddPart(text=OddText("new"))], OddText("mine"))
    return answer([*history[start:], new], item(history[:start]))


def altered(make: Callable[[Message], Message], history: list[Message]) -> Any:
    start = last_turn(history)
    return answer(list(map(make, history[start:])), item(history[:start]))


def alters_by_a_subclass(history: list[Message]) -> Any:
    def make(message: Message) -> Message:
        return EqualMessage(message.role, [Part(text="No.")], message.message_id)

    return altered(make, history)


def alters_by_a_fickle_subclass(history: list[Message]) -> Any:
    def make(message: Message) -> Message:
        return FickleMessage(message.role, [], message.message_id)

    return altered(make, history)


def alters_by_odd_parts(history: list[Message]) -> Any:
    return altered(lambda each: each.with_parts([OddPart(text=OddText("No."))]), history)


def alters_extras(history: list[Message]) -> Any:
    return altered(lambda each: replace(each, extra=OddDict(x=1)), history)


def makes_system_messages(history: list[Message]) -> Any:
    changed = [replace(each, role=Role.SYSTEM) if each.text else each for each in history]
    return answer(changed, item([each for each in history if each.text], "shorten"))


def results_are(value: Any, history: list[Message]) -> Any:
    """Replaces every result, and every attachment beside one."""

    def make(message: Message) -> Message:
        if not message.function_responses:
            return message
        parts = [
            replace(part, function_response=replace(part.function_response, result=value))
            if part.function_response
            else replace(part, inline_data=part.inline_data and InlineData("image/png", "aaaa"))
            for part in message.parts
        ]
        return message.with_parts(parts)

    changed = list(map(make, history))
    differ = [old for old, new in zip(history, changed, strict=True) if old is not new]
    return answer(changed, item(differ, "shorten"))


def shortens_to_odd_results(history: list[Message]) -> Any:
    return results_are(one_of(ODD_JSON.values(), history), history)


def shortens_to_results_of_a_subclass(history: list[Message]) -> Any:
    return results_are(OddDict(x=OddText("y")), history)


ODD_ANSWERS: list[Fault] = [
    has_odd_details,
    has_details_about_itself,
    has_details_with_names_of_core,
    has_an_odd_notification,
    has_an_odd_key,
    has_an_odd_reason,
    has_odd_ids,
    has_a_generator_of_ids,
    has_broken_items,
    has_texts_of_a_subclass,
    has_odd_fields_that_are_not_read,
    is_broken,
    fails_with_an_odd_error,
    raises_an_odd_text,
    adds_an_odd_text,
    adds_an_odd_id,
    adds_an_odd_extra,
    adds_an_odd_ledger,
    adds_a_subclass,
    alters_by_a_subclass,
    alters_by_a_fickle_subclass,
    alters_by_odd_parts,
    alters_extras,
    makes_system_messages,
    shortens_to_odd_results,
    shortens_to_results_of_a_subclass,
]
