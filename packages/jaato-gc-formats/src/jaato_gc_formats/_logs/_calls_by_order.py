"""Calls and results of logs that note them one after the other, and give them no ids."""

from collections.abc import Iterator
from typing import Any

from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields, compact


class CallsByOrder:
    """Makes Chat Completions messages of them: a result answers the first call that waits."""

    def __init__(self) -> None:
        self._made = 0
        self._message: Record | None = None
        self._open: list[tuple[str, str]] = []

    def call(
        self, line: int, name: str, given: Any, *, beside: Fields | None = None
    ) -> Iterator[Record]:
        """Take a call. Calls in a row are of one message.

        Args:
            line: Where it is noted.
            name: The tool.
            given: The arguments, as an object or as JSON text.
            beside: The message that the call begins, if it begins one.
        """
        if self._open and self._message is None:  # an earlier one was never answered
            self._open = []
        if beside is not None:
            yield from self.waiting()
        self._made += 1
        call_id = f"call_{self._made}"
        function = {"name": name, "arguments": given if isinstance(given, str) else compact(given)}
        if self._message is None:
            message = {"role": "assistant", "content": None, **(beside or {}), "tool_calls": []}
            self._message = Record(line, message)
        self._message.value["tool_calls"].append(
            {"id": call_id, "type": "function", "function": function}
        )
        self._open.append((call_id, name))

    def result(self, line: int, name: str, text: str) -> Iterator[Record]:
        """Take a result; one that no call waits for is given the call that it must have had."""
        if not self._open:
            yield from self.call(line, name, {})
        yield from self.waiting()
        position = next((i for i, (_id, each) in enumerate(self._open) if each == name), 0)
        call_id, _name = self._open.pop(position)
        yield Record(line, {"role": "tool", "tool_call_id": call_id, "content": text})

    def waiting(self) -> Iterator[Record]:
        """The message whose calls are being collected, if there is one: it is finished."""
        if self._message is not None:
            yield self._message
            self._message = None
