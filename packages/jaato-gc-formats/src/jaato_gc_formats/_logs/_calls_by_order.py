"""Matches calls and results in logs without call ids, by their order."""

from typing import Any

from jaato_gc_formats._log_format import Dialogue
from jaato_gc_formats._logs._common import answered_by, moment_of
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields, compact_json


class CallsByOrder:
    """Builds Chat Completions messages from calls and results in order.

    A result answers the first open call of its name, or else the first open call.
    """

    def __init__(self) -> None:
        self._made = 0
        self._message: Record | None = None
        self._time: Any = None
        self._model = ""
        self._open: list[tuple[str, str]] = []

    def call(
        self,
        line: int,
        name: str,
        given: Any,
        *,
        message: Fields | None = None,
        time: Any = None,
        model: str = "",
    ) -> Dialogue:
        """Adds a call. Consecutive calls belong to one message.

        Args:
            line: The line of the call.
            name: The name of the tool.
            given: The arguments, as an object or as JSON text.
            message: The fields of a new message that starts with this call, if it starts one.
            time: The time of the call in the log, if the log records it.
            model: The model that made the call, if the log names it.
        """
        if self._open and self._message is None:  # the log has no result for an earlier call
            self._open = []
        if message is not None:
            yield from self.flush()
        self._made += 1
        call_id = f"call_{self._made}"
        function = {
            "name": name,
            "arguments": given if isinstance(given, str) else compact_json(given),
        }
        if self._message is None:
            item = {"role": "assistant", "content": None, **(message or {}), "tool_calls": []}
            self._message = Record(line, item)
            self._time, self._model = time, model
        self._message.value["tool_calls"].append(
            {"id": call_id, "type": "function", "function": function}
        )
        self._open.append((call_id, name))

    def result(self, line: int, name: str, text: str) -> Dialogue:
        """Adds a result. A result without an open call gets a call with empty arguments."""
        if not self._open:
            yield from self.call(line, name, {})
        yield from self.flush()
        position = next((i for i, (_id, each) in enumerate(self._open) if each == name), 0)
        call_id, _name = self._open.pop(position)
        yield Record(line, {"role": "tool", "tool_call_id": call_id, "content": text})

    def flush(self) -> Dialogue:
        """Yields the message whose calls were being added, after its moment and model."""
        if self._message is not None:
            yield from moment_of(self._time)
            yield from answered_by(self._model)
            yield self._message
            self._message = None
