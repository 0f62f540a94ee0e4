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

from collections.abc import Iterator, Sequence
from typing import Any

from jaato_gc import Role
from jaato_gc_formats._openai_common import mistyped
from jaato_gc_formats._openai_responses_kinds import (
    CALLS,
    COMPACTIONS,
    FOREIGN_KINDS,
    ID_PREFIXES,
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
from jaato_gc_formats._refusals import INVALID_TYPE, Refusal, invalid_type
from jaato_gc_formats._wire import Fields, plain

KEPT_BY_SERVER = ("previous_response_id", "conversation", "prompt")
REQUIRED = {
    "function_call": ("call_id", "name"),
    "function_call_output": ("call_id", "output"),
    "custom_tool_call": ("call_id", "name"),
    "custom_tool_call_output": ("call_id", "output"),
}
"""Required fields of calls of the client's tools, and of their outputs."""
MAX_CALL_ID = 64
NEED_NO_ANSWER = ("mcp_approval_request",)


def refusals(request: Fields, before: Fields | None = None) -> Iterator[Refusal]:
    """Yields the rules that a request breaks.

    Args:
        request: The request.
        before: The request before a collection, to check whether reasoning items were separated
            from the items that they belong to.
    """
    items = request.get("input")
    on_server = any(request.get(key) for key in KEPT_BY_SERVER)
    if not items:
        if not on_server:
            yield Refusal(
                "no_input",
                "input",
                "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' "
                "must be provided.",
            )
        return
    if isinstance(items, str):
        return
    wrong = list(item_refusals(items))
    yield from wrong
    if any(refusal.rule == INVALID_TYPE for refusal in wrong):
        return
    yield from _answers_have_calls(items, on_server)
    if str(request.get("model", "")).startswith("deepseek"):
        yield from _answers_follow_calls(items)
    else:
        yield from _calls_have_answers(items)
    yield from _programs_are_there(items, on_server)
    yield from _reasoning_is_followed(items)
    yield from _ids_are_unique(items)
    if before and isinstance(before.get("input"), list):
        yield from _reasoning_pairs_are_kept(items, before["input"])


def item_refusals(items: Sequence[Any]) -> Iterator[Refusal]:
    """Yields the rules that items break by themselves."""
    for position, item in enumerate(items):
        if (path := _mistyped(item)) is not None:
            yield invalid_type(f"input[{position}]{path}")
            continue
        yield from _type_is_known(position, item)
        yield from _id_has_its_prefix(position, item)
        yield from _call_is_complete(position, item)
        yield from _role_and_content(position, item)
        yield from _no_unknown_parameter(position, item)


def _mistyped(item: Any) -> str | None:
    """Returns the path of the first field with a wrong type; ``None`` if all types are right."""
    if not isinstance(item, dict):
        return ""
    if wrong := mistyped(item, TYPES):
        return f".{wrong}"
    content = item.get("content")
    if "role" in item and content is not None and not isinstance(content, str | list):
        return ".content"
    for index, block in enumerate(map(plain, content if isinstance(content, list) else ())):
        if not isinstance(block, dict):
            return f".content[{index}]"
    return None


def _type_is_known(position: int, item: Fields) -> Iterator[Refusal]:
    """An item has a type, a role, or the id of an item that it refers to.

    Of unknown types, only those of other APIs are refused: OpenAI adds types.

    Source: the API reference; the messages are those of its validation.
    """
    kind = item.get("type")
    if kind in FOREIGN_KINDS:
        said = f"Invalid value: '{kind}'. Supported values are the types of items."
        yield Refusal("foreign_item", f"input.{position}.type", said)
    elif is_reference(item) and not item.get("id"):
        name = "type" if kind is None else "id"
        said = f"Missing required parameter: 'input[{position}].{name}'."
        yield Refusal(f"missing_{name}", f"input.{position}.{name}", said)


def _id_has_its_prefix(position: int, item: Fields) -> Iterator[Refusal]:
    """The id of an item begins with a prefix that shows its type.

    Sources: https://github.com/openai/codex/issues/33176 (messages),
    https://github.com/jlcodes99/cockpit-tools/issues/2090 (reasoning).
    """
    prefix = ID_PREFIXES.get(item.get("type", "message"))
    found = item.get("id")
    if prefix and found and not found.startswith(prefix):
        yield Refusal(
            "invalid_id",
            f"input.{position}.id",
            f"Invalid 'input[{position}].id': '{found}'. Expected an ID that begins with "
            f"'{prefix}'.",
        )


def _call_is_complete(position: int, item: Fields) -> Iterator[Refusal]:
    """A call has an id and a name; its output has the id of the call, and a value.

    Sources: the API reference (required fields),
    https://github.com/AnswerDotAI/fastllm/issues/45 (length of ids).
    """
    for name in REQUIRED.get(item.get("type", ""), ()):
        if item.get(name) is None or (item[name] == "" and name != "output"):
            said = f"Missing required parameter: 'input[{position}].{name}'."
            yield Refusal(f"missing_{name}", f"input.{position}.{name}", said)
    length = len(item.get("call_id") or "")
    if length > MAX_CALL_ID:
        yield Refusal(
            "invalid_id",
            f"input.{position}.call_id",
            f"Invalid 'input[{position}].call_id': string too long. Expected a string with maximum "
            f"length {MAX_CALL_ID}, but got a string with length {length} instead.",
        )


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


def _role_and_content(position: int, item: Fields) -> Iterator[Refusal]:
    """A message has one of four roles, and content of the types allowed for it.

    Sources: the API reference (the messages are those of its validation),
    https://github.com/MervinPraison/PraisonAI/issues/3934 (blocks of Chat Completions).
    """
    if "role" not in item or item.get("type", "message") != "message":
        return
    if item["role"] not in ROLES:
        yield Refusal(
            "unknown_role",
            f"input.{position}.role",
            f"Invalid value: '{item['role']}'. Supported values are: 'assistant', 'system', "
            "'developer', and 'user'.",
        )
    content = item.get("content")
    if content is None:
        yield Refusal(
            "empty_content",
            f"input.{position}.content",
            f"Missing required parameter: 'input[{position}].content'.",
        )
    if not isinstance(content, list) or item["role"] not in ROLES:
        return
    for index, block in enumerate(map(plain, content)):
        kind = str(block.get("type"))
        is_output = kind in ("output_text", "refusal")
        is_models = item["role"] == "assistant"
        if is_output is not is_models or kind in FOREIGN_KINDS:
            wanted = "'input_text', 'input_image', and 'input_file'"
            wanted = "'output_text' and 'refusal'" if is_models else wanted
            yield Refusal(
                "wrong_content",
                f"input.{position}.content.{index}",
                f"Invalid value: '{kind}'. Supported values are: {wanted}.",
            )


def _no_unknown_parameter(position: int, item: Fields) -> Iterator[Refusal]:
    """Some fields of a response must not be sent back.

    Sources: https://github.com/BerriAI/litellm/issues/13420 (status of reasoning),
    https://github.com/openai/openai-python/pull/3146 (parsed_arguments).
    """
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
