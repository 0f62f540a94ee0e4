"""The rules by which the Responses APIs of OpenAI and DeepSeek refuse requests.

Sources: the API reference of ``POST /v1/responses``, and errors of the live APIs quoted in public
issue threads. Each rule names its sources.

Some conditions can't be checked from a request alone:

- whether a referenced item exists on the server, and its type;
- which reasoning item belonged to an item, once the reasoning is removed. Ids do not show it: all
  ids of one conversation share their first half, and responses without reasoning are common. This
  is checked only by comparison with the request before a collection;
- calls stored on the server, under ``previous_response_id`` or ``conversation``.
"""

from collections.abc import Iterator
from typing import Any

from jaato_gc import Role
from jaato_gc_formats._openai_common import invalid_type, mistyped
from jaato_gc_formats._openai_responses_kinds import (
    CALLS,
    COMPACTIONS,
    PROGRAM,
    RESULTS,
    ROLES,
    TYPES,
    id_field,
    is_by_server,
    is_reference,
    program_of,
    role_of,
)
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Fields

KEPT_BY_SERVER = ("previous_response_id", "conversation", "prompt")
NEED_NO_ANSWER = ("mcp_approval_request",)


def refusals(request: Fields, before: Fields | None = None) -> Iterator[Refusal]:
    """Yields the rules that a request breaks.

    Args:
        request: The request.
        before: The request before a collection, to check whether reasoning items were separated
            from the items that they belong to.
    """
    given = request.get("input")
    on_server = any(request.get(key) for key in KEPT_BY_SERVER)
    if not given:
        if not on_server:
            yield Refusal(
                "no_input",
                "input",
                "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' "
                "must be provided.",
            )
        return
    if isinstance(given, str):
        return
    items = [item for item in given if isinstance(item, dict)]
    wrong = [(position, mistyped(item, TYPES)) for position, item in enumerate(items)]
    if any(name for _, name in wrong):
        yield from (invalid_type(f"input[{place}].{name}") for place, name in wrong if name)
        return
    yield from _answers_have_calls(items, on_server)
    if str(request.get("model", "")).startswith("deepseek"):
        yield from _answers_follow_calls(items)
    else:
        yield from _calls_have_answers(items)
    yield from _programs_are_there(items, on_server)
    yield from _reasoning_is_followed(items)
    yield from _ids_are_unique(items)
    yield from _roles_and_content(items)
    yield from _no_unknown_parameters(items)
    if before and isinstance(before.get("input"), list):
        yield from _reasoning_pairs_are_kept(items, before["input"])


def _answers_have_calls(items: list[Fields], on_server: bool) -> Iterator[Refusal]:
    """Each output belongs to an earlier call.

    Source: https://github.com/agentscope-ai/AgentTeams/issues/299.
    """
    called: set[Any] = set()
    for position, item in enumerate(items):
        kind = item.get("type")
        if is_reference(item):
            return  # the reference may be to a call
        if kind in CALLS:
            called.add(item.get(id_field(item)))
        elif kind in RESULTS and not is_by_server(item) and not on_server:
            answered = item.get(id_field(item))
            if answered not in called:
                yield Refusal(
                    "orphaned_result",
                    f"input.{position}",
                    f"No tool call found for {kind.replace('_', ' ')} with call_id {answered}.",
                )


def _calls_have_answers(items: list[Fields]) -> Iterator[Refusal]:
    """Each call that the client answers has a later output.

    Sources: https://github.com/stellarlinkco/agentsdk-go/pull/85 (function calls),
    https://github.com/diegosouzapw/OmniRoute/issues/8946 (custom tool calls).
    """
    for position, item in _unanswered(items):
        yield Refusal(
            "dangling_call",
            f"input.{position}",
            f"No tool output found for {item['type'].replace('_', ' ')} {item[id_field(item)]}.",
        )


def _unanswered(items: list[Fields]) -> list[tuple[int, Fields]]:
    waiting: dict[Any, list[tuple[int, Fields]]] = {}
    for position, item in enumerate(items):
        if _needs_answer(item):
            waiting.setdefault(item[id_field(item)], []).append((position, item))
        elif item.get("type") in RESULTS and waiting.get(item.get(id_field(item))):
            waiting[item[id_field(item)]].pop()
    return sorted(
        (each for calls in waiting.values() for each in calls), key=lambda found: found[0]
    )


def _needs_answer(item: Fields) -> bool:
    kind = item.get("type")
    if kind not in CALLS or kind in NEED_NO_ANSWER or is_by_server(item):
        return False
    return isinstance(item.get(id_field(item)), str)


def _programs_are_there(items: list[Fields], on_server: bool) -> Iterator[Refusal]:
    """The output of a program, and the calls that it made, follow the program.

    Source: the types of the SDK; the message is that of other outputs.
    """
    programs: set[Any] = set()
    for position, item in enumerate(() if on_server else items):
        if is_reference(item):
            return  # the reference may be to a program
        program = program_of(item)
        if item.get("type") == PROGRAM:
            programs.add(program)
        elif program is not None and program not in programs:
            yield Refusal(
                "orphaned_result",
                f"input.{position}",
                f"No program found for {item.get('type')} with call_id {program}.",
            )


def _answers_follow_calls(items: list[Fields]) -> Iterator[Refusal]:
    """DeepSeek: only other calls and outputs are between a call and its output.

    Source: https://github.com/deepseek-ai/awesome-deepseek-integration/issues/740.
    """
    waiting: dict[Any, int] = {}
    for position, item in enumerate([*items, {}]):
        if _needs_answer(item):
            waiting[item[id_field(item)]] = position
        elif item.get("type") in RESULTS:
            waiting.pop(item.get(id_field(item)), None)
        else:
            for call_id, caller in waiting.items():
                yield Refusal(
                    "dangling_call",
                    f"input.{caller}",
                    f"No tool output found for tool call {call_id}.",
                )
            waiting = {}


def _reasoning_is_followed(items: list[Fields]) -> Iterator[Refusal]:
    """A reasoning item with an id is followed by an item of the same response.

    Source: https://github.com/continuedev/continue/issues/8933.
    """
    waiting: list[tuple[int, Fields]] = []
    for position, item in enumerate([*items, {"role": "user"}]):
        if item.get("type") == "reasoning":
            if item.get("id"):
                waiting.append((position, item))
            continue
        if role_of(item) is not Role.MODEL and item.get("type") not in COMPACTIONS:
            yield from (_unfollowed(*alone) for alone in waiting)
        waiting = []


def _unfollowed(position: int, item: Fields) -> Refusal:
    return Refusal(
        "reasoning_alone",
        f"input.{position}",
        f"Item '{item['id']}' of type 'reasoning' was provided without its required following "
        "item.",
    )


def _ids_are_unique(items: list[Fields]) -> Iterator[Refusal]:
    """No two items have the same id.

    Source: https://github.com/continuedev/continue/issues/10200.
    """
    seen: set[Any] = set()
    for position, item in enumerate(items):
        if id_field(item) == "id" and item.get("type") in RESULTS:
            continue  # this id is the id of the call
        found = item.get("id")
        if isinstance(found, str) and found in seen:
            yield Refusal(
                "duplicate_ids",
                f"input.{position}",
                f"Duplicate item found with id {found}. Remove duplicate items from your input and "
                "try again.",
            )
        seen.add(found)


def _roles_and_content(items: list[Fields]) -> Iterator[Refusal]:
    """Messages have one of four roles, and content of the types allowed for it.

    Source: the API reference; the messages are those of its validation.
    """
    for position, item in enumerate(items):
        if "role" not in item or item.get("type", "message") != "message":
            continue
        if item["role"] not in ROLES:
            yield Refusal(
                "unknown_role",
                f"input.{position}.role",
                f"Invalid value: '{item['role']}'. Supported values are: 'assistant', 'system', "
                "'developer', and 'user'.",
            )
        if not isinstance(item.get("content"), str | list):
            yield Refusal(
                "empty_content",
                f"input.{position}.content",
                f"Missing required parameter: 'input[{position}].content'.",
            )
            continue
        for index, block in enumerate(item["content"] if item["role"] in ROLES else ()):
            kind = str(block.get("type")) if isinstance(block, dict) else "output_text"
            is_output = kind in ("output_text", "refusal")
            if isinstance(block, dict) and is_output is not (item["role"] == "assistant"):
                wanted = "'input_text', 'input_image', and 'input_file'"
                wanted = wanted if is_output else "'output_text' and 'refusal'"
                yield Refusal(
                    "wrong_content",
                    f"input.{position}.content.{index}",
                    f"Invalid value: '{kind}'. Supported values are: {wanted}.",
                )


def _no_unknown_parameters(items: list[Fields]) -> Iterator[Refusal]:
    """Some fields of a response must not be sent back.

    Sources: https://github.com/BerriAI/litellm/issues/13420 (status of reasoning),
    https://github.com/openai/openai-python/pull/3146 (parsed_arguments).
    """
    for position, item in enumerate(items):
        name = "status" if item.get("type") == "reasoning" else "parsed_arguments"
        if name in item:
            yield Refusal(
                "unknown_parameter",
                f"input.{position}.{name}",
                f"Unknown parameter: 'input[{position}].{name}'.",
            )


def _reasoning_pairs_are_kept(items: list[Fields], before: list[Any]) -> Iterator[Refusal]:
    """A reasoning item and the items of its response are sent together.

    Sources: https://github.com/TanStack/ai/issues/1212 (a call without its reasoning),
    https://github.com/continuedev/continue/issues/11466 (a message without its reasoning).
    """
    reasoning_of: dict[str, str] = {}
    follower_of: dict[str, str] = {}
    reasoning: str | None = None
    is_next = False
    for item in before:
        found = item.get("id")
        if item.get("type") == "reasoning":
            reasoning, is_next = found, True
        elif role_of(item) is not Role.MODEL:
            reasoning = None
        elif reasoning and found:
            reasoning_of[found] = reasoning
            if is_next:
                follower_of[reasoning] = found
            is_next = False
    ids = {item.get("id") for item in items}
    for position, item in enumerate(items):
        found = item.get("id")
        wanted = reasoning_of.get(found) if isinstance(found, str) else None
        if wanted and wanted not in ids:
            kind = item.get("type", "message")
            yield Refusal(
                "missing_reasoning",
                f"input.{position}",
                f"Item '{found}' of type '{kind}' was provided without its required 'reasoning' "
                f"item: '{wanted}'.",
            )
        if isinstance(found, str) and follower_of.get(found, found) not in ids:
            yield _unfollowed(position, item)
