"""A session for a loop around a provider's own client: its objects go in, its requests come out."""

from collections.abc import Iterable
from typing import Any

from jaato_gc import GCSession, Message
from jaato_gc_formats._convert import find_api
from jaato_gc_formats._counting import book_tools


class ProviderSession:
    """A `GCSession` that is spoken to in a provider's own shape.

    Before each request it collects what is due, and what no collection touched is sent as the very
    same objects, so that the provider's prompt cache keeps matching.

    Args:
        format: The provider's format: ``openai-chat``, ``openai-responses``, ``anthropic``,
            ``gemini``.
        session: The session that collects: `undo`, `manual_gc` and all else are there.
        system: The system prompt, where the provider takes it beside the messages.
        tools: The tools' schemas, as they are sent: their tokens count too.
    """

    def __init__(
        self, format: str, session: GCSession, *, system: Any = None, tools: Iterable[Any] = ()
    ) -> None:
        self.session = session
        self._api = find_api(format, session.registry)
        self._names: dict[str, str] = {}
        if system is not None:
            request = {self._api.items_key: [], self._api.system_keys[0]: system}
            self._book(self._api.to_history(request))
        book_tools(session, tools)

    def append(self, *items: Any) -> list[Message]:
        """Add what was said: messages in the provider's shape, its SDK's objects, or a user's text.

        Returns them as they were booked, with the ids to pin them by.
        """
        shaped = [self._api.user_item(item) if isinstance(item, str) else item for item in items]
        return self._book(self._api.read(shaped, self._names))

    def request(self) -> dict[str, Any]:
        """What to send: collects before, if it is due. Keyword arguments for the client's call.

        Raises:
            InvalidHistoryError: The provider would refuse the history.
            ContextFloorError: The request does not fit, and nothing more can go.
        """
        request: dict[str, Any] = self._api.from_messages(self.session.before_send(), {})
        return request

    def answer(self, response: Any) -> list[Message]:
        """Take in what the provider answered, and what it reported on usage."""
        if usage := self._api.usage(response):
            self.session.report_usage(usage.input_tokens, usage.output_tokens)
        return self._book(self._api.read(self._api.answer_items(response), self._names))

    def _book(self, messages: Iterable[Message]) -> list[Message]:
        return [self.session.append(message) for message in messages]
