"""The rules by which Anthropic's Messages API refuses requests.

Sources: the API reference of ``POST /v1/messages``, the pages on tool use and extended thinking of
the same documentation, and errors of the live API quoted in public issue threads. Each rule names
its sources.

The API joins consecutive messages of one role into one turn, and since October 2024 (release notes)
it does not require the first message to be a user message. Neither is checked here.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaato_gc_formats._anthropic_binding import thinking_is_adaptive, thoughts_are_bound
from jaato_gc_formats._anthropic_blocks import THOUGHTS, binds_thoughts, content_blocks
from jaato_gc_formats._anthropic_instructions import instructions_are_in_place
from jaato_gc_formats._anthropic_server_tools import USES, server_tools_are_complete
from jaato_gc_formats._anthropic_shapes import shape_refusals
from jaato_gc_formats._marks import count_marks
from jaato_gc_formats._refusals import INVALID_TYPE, Refusal
from jaato_gc_formats._wire import Fields, plain

MAX_BREAKPOINTS = 4
VALID_ID = re.compile(r"[a-zA-Z0-9_-]+")


class Block(NamedTuple):
    """A block of content with its path in the request."""

    where: str
    message: int
    data: Fields

    @property
    def type(self) -> Any:
        return self.data.get("type")


class RoleTurn(NamedTuple):
    """Consecutive messages of one role."""

    role: Any
    blocks: list[Block]

    def of_type(self, *types: str) -> list[Block]:
        return [block for block in self.blocks if block.type in types]


def refusals(request: Fields, before: Fields | None = None) -> Iterator[Refusal]:
    """Yields the rules that a request breaks.

    Args:
        request: The request.
        before: The last request that was sent, to check whether bound thinking blocks are still
            valid.
    """
    messages = request.get("messages")
    if not messages:
        yield Refusal("no_messages", "messages", "messages: at least one message is required")
        return
    wrong = list(shape_refusals(messages))
    yield from wrong
    if any(refusal.rule == INVALID_TYPE for refusal in wrong):
        return
    turns = list(_turns(messages))
    yield from _block_refusals(turns)
    yield from _calls_are_answered(turns)
    yield from _results_have_calls(turns)
    yield from _one_result_per_call(turns)
    yield from _ids_are_unique(turns)
    yield from server_tools_are_complete(messages)
    yield from instructions_are_in_place(messages)
    yield from _messages_have_content(messages)
    yield from _no_trailing_whitespace(turns)
    yield from _turn_starts_with_a_thought(request, turns)
    yield from _tools_are_defined(request, turns)
    yield from thinking_is_adaptive(request)
    yield from _breakpoints_within_limit(request)
    if before is not None:
        yield from thoughts_are_bound(request, before)


def item_refusals(messages: Sequence[Any]) -> Iterator[Refusal]:
    """Yields the rules that messages break by themselves."""
    wrong = list(shape_refusals(messages))
    yield from wrong
    if all(refusal.rule != INVALID_TYPE for refusal in wrong):
        yield from _block_refusals(list(_turns(messages)))


def _block_refusals(turns: list[RoleTurn]) -> Iterator[Refusal]:
    yield from _calls_are_well_formed(turns)
    yield from _texts_are_not_empty(turns)
    yield from _thoughts_are_signed(turns)


def _turns(messages: Sequence[Any]) -> Iterator[RoleTurn]:
    turn: RoleTurn | None = None
    for position, message in enumerate(messages):
        blocks = [
            Block(f"messages.{position}.content.{index}", position, block)
            for index, block in enumerate(content_blocks(message.get("content")))
        ]
        if turn is not None and turn.role == message.get("role"):
            turn.blocks.extend(blocks)
            continue
        if turn is not None:
            yield turn
        turn = RoleTurn(message.get("role"), blocks)
    if turn is not None:
        yield turn


def _calls_are_answered(turns: list[RoleTurn]) -> Iterator[Refusal]:
    """The turn after calls is a user turn that starts with a result for each call.

    Sources: https://github.com/anthropics/claude-code/issues/3512 and /5989 (dangling calls);
    the documentation's page "Handle tool calls" (text before results causes the same error).
    """
    for index, turn in enumerate(turns):
        calls = turn.of_type("tool_use") if turn.role == "assistant" else []
        following = turns[index + 1] if index + 1 < len(turns) else RoleTurn(None, [])
        first: set[Any] = set()
        for block in following.blocks if following.role == "user" else []:
            if block.type != "tool_result":
                break
            first.add(block.data.get("tool_use_id"))
        missing = [call for call in calls if call.data.get("id") not in first]
        if not missing:
            continue
        given = {block.data.get("tool_use_id") for block in following.of_type("tool_result")}
        late = all(call.data.get("id") in given for call in missing)
        ids = ", ".join(str(call.data.get("id")) for call in missing)
        yield Refusal(
            "results_not_first" if late else "dangling_call",
            f"messages.{missing[-1].message}",
            f"messages.{missing[-1].message}: `tool_use` ids were found without `tool_result` "
            f"blocks immediately after: {ids}. Each `tool_use` block must have a corresponding "
            "`tool_result` block in the next message.",
        )


def _results_have_calls(turns: list[RoleTurn]) -> Iterator[Refusal]:
    """Each result belongs to a call in the previous turn.

    Source: https://github.com/datakurre/graph-agent/issues/85.
    """
    calls: set[Any] = set()
    for turn in turns:
        for block in turn.of_type("tool_result"):
            if turn.role != "user" or block.data.get("tool_use_id") not in calls:
                yield Refusal(
                    "orphaned_result",
                    block.where,
                    f"{block.where}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{block.data.get('tool_use_id')}. Each `tool_result` block must have a "
                    "corresponding `tool_use` block in the previous message.",
                )
        calls = {block.data.get("id") for block in turn.of_type("tool_use")}


def _one_result_per_call(turns: list[RoleTurn]) -> Iterator[Refusal]:
    """No call has two results.

    Source: https://dev-error-db.com, "Duplicate tool_result Blocks for Same tool_use".
    """
    for turn in turns:
        seen: set[Any] = set()
        for block in turn.of_type("tool_result"):
            answered = block.data.get("tool_use_id")
            if answered in seen:
                yield Refusal(
                    "duplicate_result",
                    block.where,
                    f"{block.where}: each tool_use must have a single result. Found multiple "
                    f"`tool_result` blocks with id: {answered}",
                )
            seen.add(answered)


def _calls_are_well_formed(turns: list[RoleTurn]) -> Iterator[Refusal]:
    """Each call has an id of allowed characters, and an object as its input.

    Source: the API reference.
    """
    for block in (block for turn in turns for block in turn.of_type("tool_use")):
        call_id = block.data.get("id")
        if not isinstance(call_id, str) or not VALID_ID.fullmatch(call_id):
            yield Refusal(
                "invalid_id",
                f"{block.where}.tool_use.id",
                f"{block.where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            )
        if not isinstance(block.data.get("input"), dict):
            yield Refusal(
                "invalid_input",
                f"{block.where}.tool_use.input",
                f"{block.where}.tool_use.input: Input should be a valid dictionary",
            )


def _ids_are_unique(turns: list[RoleTurn]) -> Iterator[Refusal]:
    """No two calls of the whole request have the same id.

    Sources: https://github.com/anthropics/claude-code/issues/21317 and
    https://github.com/NVIDIA-NeMo/Switchyard/issues/502; for tools of the server, that a result
    names one use.
    """
    seen: set[Any] = set()
    for block in (block for turn in turns for block in turn.of_type("tool_use", *USES)):
        call_id = block.data.get("id")
        if isinstance(call_id, str) and call_id in seen:
            said = f"{block.where}: `{block.type}` ids must be unique"
            yield Refusal("duplicate_ids", block.where, said)
        seen.add(str(call_id))


def _messages_have_content(messages: list[Any]) -> Iterator[Refusal]:
    """Only an assistant message at the end may be empty.

    Source: https://github.com/anthropics/claude-code/issues/3196.
    """
    for position, message in enumerate(messages):
        final = position == len(messages) - 1 and message.get("role") == "assistant"
        if not message.get("content") and not final:
            yield Refusal(
                "empty_content",
                f"messages.{position}",
                f"messages.{position}: all messages must have non-empty content except for the "
                "optional final assistant message",
            )


def _texts_are_not_empty(turns: list[RoleTurn]) -> Iterator[Refusal]:
    """Text blocks are not blank.

    Sources: https://github.com/anthropics/claude-code/issues/59812 (empty), /62379 (empty, with
    a breakpoint on it), /23440 (only whitespace).
    """
    for block in (block for turn in turns for block in turn.of_type("text")):
        text = block.data.get("text")
        if text and not text.isspace():
            continue
        if text:
            message = "messages: text content blocks must contain non-whitespace text"
        elif block.data.get("cache_control"):
            message = f"{block.where}.text: cache_control cannot be set for empty text blocks"
        else:
            message = "messages: text content blocks must be non-empty"
        yield Refusal("empty_text", f"{block.where}.text", message)


def _no_trailing_whitespace(turns: list[RoleTurn]) -> Iterator[Refusal]:
    """A final assistant text, which the model continues, does not end with whitespace.

    Source: https://github.com/tailcallhq/forgecode/issues/1872.
    """
    last = turns[-1].blocks[-1] if turns[-1].role == "assistant" and turns[-1].blocks else None
    if last is None or last.type != "text":
        return
    text = last.data.get("text") or ""
    if text != text.rstrip():
        yield Refusal(
            "trailing_whitespace",
            last.where,
            "messages: final assistant content cannot end with trailing whitespace",
        )


def _thoughts_are_signed(turns: list[RoleTurn]) -> Iterator[Refusal]:
    """Thinking blocks have their signature, and redacted thinking blocks their data.

    Sources: the API reference (required fields);
    https://github.com/anthropics/claude-code/issues/10627 (invalid signature).
    """
    for block in (block for turn in turns for block in turn.of_type(*THOUGHTS)):
        field = "signature" if block.type == "thinking" else "data"
        if block.data.get(field):
            continue
        where = f"{block.where}.{block.type}.{field}"
        missing = block.data.get(field) is None
        yield Refusal(
            "unsigned_thought",
            where,
            f"{where}: Field required"
            if missing
            else f"{block.where}: Invalid `{field}` in `{block.type}` block",
        )


def _turn_starts_with_a_thought(request: Fields, turns: list[RoleTurn]) -> Iterator[Refusal]:
    """With thinking enabled, an assistant turn with tool calls starts with a thinking block.

    This applies to the first assistant message after the last user text. Later ones need no
    thinking block.

    Source: https://github.com/deepset-ai/haystack-core-integrations/issues/2146.
    """
    thinking = plain(request.get("thinking"))
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return
    if binds_thoughts(request.get("model")):  # refused by `thinking_is_adaptive` already
        return
    turns = [turn for turn in turns if turn.role != "system"]
    if turns[-1].role != "user" or not turns[-1].of_type("tool_result"):
        return
    first: Block | None = None
    for turn in reversed(turns):
        if turn.role == "user" and not turn.of_type("tool_result"):
            break
        if turn.role == "assistant" and turn.blocks:
            first = turn.blocks[0]
    if first is not None and first.type not in THOUGHTS:
        yield Refusal(
            "thought_missing",
            f"{first.where}.type",
            f"{first.where}.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{first.type}`. When `thinking` is enabled, a final `assistant` message must start "
            "with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` "
            "blocks). To avoid this requirement, disable `thinking`.",
        )


def _tools_are_defined(request: Fields, turns: list[RoleTurn]) -> Iterator[Refusal]:
    """A request with calls or results defines tools, even if it only asks for a summary.

    Checked only in a whole request, because a list of messages has no tools.

    Source: https://github.com/getsigit/sigit/pull/81.
    """
    whole = "model" in request or "anthropic_version" in request
    if not whole or request.get("tools"):
        return
    if any(turn.of_type("tool_use", "tool_result") for turn in turns):
        yield Refusal(
            "no_tools",
            "tools",
            "Requests which include `tool_use` or `tool_result` blocks must define tools",
        )


def _breakpoints_within_limit(request: Fields) -> Iterator[Refusal]:
    """Tools, system prompt and messages have at most four cache breakpoints in total.

    Source: https://github.com/tghamm/Anthropic.SDK/issues/50.
    """
    found = count_breakpoints(request)
    if found > MAX_BREAKPOINTS:
        yield Refusal(
            "too_many_breakpoints",
            "messages",
            f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. "
            f"Found {found}.",
        )


def count_breakpoints(request: Fields) -> int:
    """Returns the number of cache breakpoints of a request."""
    parts = [request.get(key) for key in ("tools", "system", "messages")]
    return bool(request.get("cache_control")) + count_marks(parts, "cache_control")
