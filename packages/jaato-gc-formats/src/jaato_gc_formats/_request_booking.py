"""Books the parts of a request that are not in the history: system prompt, tools, response."""

from collections.abc import Mapping
from typing import Any

from jaato_gc import GCPolicy, GCSession, InstructionSource, Message, count_tokens
from jaato_gc.plugin import as_text
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._counting import tool_entries, tools_of
from jaato_gc_formats._wire import unmarked

SYSTEM_PROMPT = "(system prompt)"
"""Budget entry for the system prompt of the request."""
MARK = {"booked_by": "jaato-gc-formats"}
"""Metadata of the entries, so that a restored session knows which ones to replace."""


class RequestBooking:
    """Keeps the budget of a session equal to what the next request sends beside the history.

    Args:
        api: The provider's format.
        session: The session.
    """

    def __init__(self, api: ApiFormat, session: GCSession) -> None:
        self._api = api
        self._session = session
        self._booked: list[str] | None = None
        self.prompt: list[Message] = []
        """The system prompt of the request, as messages."""

    def follow(self, fields: Mapping[str, Any]) -> None:
        """Books the system prompt and the tools if they have changed, and reserves the response.

        Prompt and tools are compared as text, because hosts also change them in place.

        Args:
            fields: The fields of the next request.

        Raises:
            GCConfigError: The response leaves less than a tenth of the window.
            FormatError: The system prompt is invalid.
        """
        self._session.set_output_reserve(self._longest_response(fields))
        self._follow_content(fields)

    def _follow_content(self, fields: Mapping[str, Any]) -> None:
        prompt = {key: fields[key] for key in self._api.system_keys if fields.get(key)}
        tools = [unmarked(tool) for tool in tools_of(fields)]
        seen = [as_text(unmarked(value)) for value in (*prompt.values(), *tools)]
        # The number of prompts distinguishes a prompt from a tool with the same text.
        seen.append(str(len(prompt)))
        if seen == self._booked:
            return
        self.prompt = list(self._api.to_history({self._api.items_key: [], **prompt}))
        counter = self._session.budget.counter
        prompts = {SYSTEM_PROMPT: count_tokens(self.prompt, counter)} if self.prompt else {}
        self._book(InstructionSource.SYSTEM, prompts)
        self._book(InstructionSource.PLUGIN, tool_entries(tools, counter))
        self._booked = seen

    def _longest_response(self, fields: Mapping[str, Any]) -> int:
        """Returns the maximum length of the response; 0 if the request does not limit it.

        Anthropic and OpenAI refuse a request that, with this length added, exceeds the window.
        """
        given = [fields.get(key) for key in self._api.output_keys]
        # Objects of SDKs are unset values, and local servers read -1 as "no limit".
        return max([0, *(value for value in given if isinstance(value, int))])

    def _book(self, source: InstructionSource, tokens: Mapping[str, int]) -> None:
        budget = self._session.budget
        with budget.lock:  # so that no snapshot shows half of the change
            for key, entry in budget.entries[source].children.items():
                if entry.metadata.items() >= MARK.items():
                    budget.remove_child(source, key)
            for key, number in tokens.items():
                budget.add_child(source, key, number, GCPolicy.LOCKED, metadata=MARK)
