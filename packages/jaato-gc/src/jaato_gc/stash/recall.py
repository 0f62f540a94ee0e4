"""A tool with which the model gets back what was removed from its context."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaato_gc.deadline import is_failure
from jaato_gc.stash.protocol import Stash
from jaato_gc.tokens import render_message

MAX_CHARACTERS = 16_000
"""The size of one answer of the tool, because answers fill the window again."""


class RecallTool(NamedTuple):
    """A tool definition and its handler.

    ``definition`` has ``name``, ``description`` and ``parameters`` (a JSON schema), to be converted
    to a provider's own shape. ``handler`` takes the arguments of a call and returns text. It never
    raises.
    """

    definition: dict[str, Any]
    handler: Callable[[Mapping[str, Any]], str]


def recall_tool(
    stash: Stash, name: str = "recall", *, max_characters: int = MAX_CHARACTERS
) -> RecallTool:
    """Returns a tool that searches a stash and returns its content.

    Add the definition to the model's tools, and answer its calls with the handler:

        definition, recall = session.recall_tool()
        ...
        if call.name == definition["name"]:
            return recall(call.args)

    Args:
        stash: The stash to search.
        name: The name of the tool.
        max_characters: The size of one answer; ``offset`` gets the rest.
    """
    definition = {
        "name": name,
        "description": (
            "Get back content that was cleared or removed from this conversation to free context "
            "space. Give the key that a note such as '[… characters cleared: …; recall key …]' "
            "names, or words to search for."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "key": {"type": "string", "description": "The recall key of the content."},
                "query": {"type": "string", "description": "Words to look for; lists keys."},
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Where to go on in content that is too long for one answer.",
                },
            },
            "additionalProperties": False,
        },
    }

    def handler(arguments: Mapping[str, Any]) -> str:
        given = arguments if isinstance(arguments, Mapping) else {}  # models make mistakes
        key, query = given.get("key"), given.get("query")
        try:
            if isinstance(key, str) and key.strip():
                return _content(stash, key.strip(), given.get("offset"), max_characters)
            if isinstance(query, str) and query.strip():
                return _findings(stash, query, max_characters)
        except BaseException as error:  # the model needs an answer in any case
            if not is_failure(error):
                raise
            return f"Nothing can be recalled at the moment: {error}"[:max_characters]
        return "Give a key, or a query to search for."

    return RecallTool(definition, handler)


def _content(stash: Stash, key: str, offset: Any, most: int) -> str:
    entry = stash.get(key)
    if entry is None:
        return f"Nothing is kept under the key {key!r:.80}. Give a query to search for it."
    text = render_message(entry.message)
    start = offset if isinstance(offset, int) and 0 < offset < len(text) else 0
    rest = len(text) - start - most
    if rest <= 0:
        return text[start:]
    return f"{text[start : start + most]}\n[{rest} more characters: offset {start + most}]"


def _findings(stash: Stash, query: str, most: int) -> str:
    hits = stash.search(query)
    if not hits:
        return f"Nothing that was removed mentions {query!r:.80}."
    lines = [f"key {hit.key} ({hit.about}): {' '.join(hit.snippet.split())}" for hit in hits]
    return "\n".join(lines)[:most]
