"""A session for a loop around a provider's own client: its objects go in, its requests come out."""

from collections.abc import Iterable, Mapping
from typing import Any

from jaato_gc import (
    GCConfig,
    GCSession,
    InstructionSource,
    Message,
    PluginRegistry,
    is_context_refusal,
)
from jaato_gc_formats._convert import find_api, installed
from jaato_gc_formats._counting import book_tools, counter_for, tools_of


class ProviderSession:
    """A `GCSession` that is spoken to in a provider's own shape.

    Before each request it collects what is due, and what no collection touched is sent as the very
    same objects, so that the provider's prompt cache keeps matching.

    Its methods are plain calls: they suit a client that blocks, one that streams and one that is
    awaited.

    Args:
        format: The provider's format: ``openai-chat``, ``openai-responses``, ``anthropic``,
            ``gemini``.
        session: The session that collects: `undo`, `manual_gc` and all else are there. One that was
            restored goes on where it was.
        **call: The other arguments of the client's call, such as ``model``, ``system`` and
            ``tools``: they are sent with every request, as they are. System prompt and tools count
            too. Gemini's are in ``config``.

    Attributes:
        call: Those arguments. They may be changed between requests: another model, other tools. A
            system prompt counts as it was at first.
    """

    def __init__(self, format: str, session: GCSession, **call: Any) -> None:
        self.session = session
        self._api = find_api(format, session.registry)
        self.call = call
        self._names = {
            made.id: made.name
            for message in session.history
            for made in message.function_calls
            if made.id
        }
        beside = self._beside()
        self._has_system = any(beside.get(key) for key in self._api.system_keys)
        if self._has_system and not any(map(self._api.stands_beside, session.history)):
            prompt = {key: beside[key] for key in self._api.system_keys if beside.get(key)}
            self._book(self._api.to_history({self._api.items_key: [], **prompt}))
        self._tools: list[Any] = []
        self._booked_tools: list[str] = []
        self._book_tools()

    @classmethod
    def open(
        cls,
        format: str,
        *,
        limit: int,
        strategy: str = "gc_budget",
        gc_config: GCConfig | None = None,
        registry: PluginRegistry | None = None,
        **call: Any,
    ) -> "ProviderSession":
        """A new session, with what counts best for the provider and the model.

        For a stash, policies and all else that a `GCSession` can be given, make one yourself.

        Args:
            format: The provider's format.
            limit: The model's window, in tokens.
            strategy: Name of an installed strategy.
            gc_config: When to collect and how far down. Room for the answer is kept free, as much
                as the call's ``max_tokens`` says, unless ``reserve_output_tokens`` is set here.
            registry: Where strategies and formats come from; all that are installed if not given.
            **call: The other arguments of the client's call, sent with every request.

        Raises:
            FormatError: There is no such format.
            GCPluginError: There is no such strategy.
            GCConfigError: The configuration is not valid.
        """
        registry = registry or installed()
        counter = counter_for(format, call.get("model"), registry=registry)
        session = GCSession(context_limit=limit, counter=counter, registry=registry)
        session.set_gc_plugin(registry.create(strategy), _with_room(gc_config or GCConfig(), call))
        return cls(format, session, **call)

    @classmethod
    def restore(
        cls, format: str, saved: str, *, registry: PluginRegistry | None = None, **call: Any
    ) -> "ProviderSession":
        """A session that behaves as a saved one would have.

        Args:
            format: The provider's format.
            saved: What ``session.save()`` gave, of a session that was made by `open`.
            registry: Where strategies and formats come from; all that are installed if not given.
            **call: The other arguments of the client's call, as they were given to `open`.

        Raises:
            GCError: It is not what was saved, or its counter is not on this machine.
        """
        registry = registry or installed()
        counter = counter_for(format, call.get("model"), registry=registry)
        session = GCSession.restore(saved, registry=registry, counter=counter)
        return cls(format, session, **call)

    def append(self, *items: Any) -> list[Message]:
        """Add what was said: messages in the provider's shape, its SDK's objects, or a user's text.

        Returns them as they were booked, with the ids to pin them by.

        Raises:
            FormatError: One of them is none of that. Then none is added.
        """
        shaped = [self._api.user_item(item) if isinstance(item, str) else item for item in items]
        return self._book(self._api.read(shaped, self._names))

    def request(self) -> dict[str, Any]:
        """What to send: collects before, if it is due. Keyword arguments for the client's call.

        Raises:
            InvalidHistoryError: The provider would refuse the history.
            ContextFloorError: The request does not fit, and nothing more can go.
        """
        self._book_tools()
        written: dict[str, Any] = self._api.from_messages(self.session.before_send(), {})
        items = written.pop(self._api.items_key)
        call = dict(self.call)
        if written and not self._has_system:  # a system prompt that the session brought along
            if holder := self._api.call_key:
                call[holder] = {**self._beside(), **written}
            else:
                call |= written
        return {**call, self._api.items_key: items}

    def answer(self, response: Any) -> list[Message]:
        """Take in what the provider answered, and what it reported on usage.

        An answer that calls no tool ends the turn: what has become due is collected then. Returns
        the messages as they were booked; none for an answer that has nothing in it.

        Raises:
            FormatError: It is no answer, but an error that the server reported in place of one.
        """
        said = list(self._api.read(self._api.answer_items(response), self._names))
        if usage := self._api.usage(response):
            self.session.report_usage(usage.input_tokens, usage.output_tokens)
        booked = self._book(message for message in said if not message.is_empty)
        if not any(message.function_calls for message in booked):
            self.session.after_turn()
        return booked

    def recover(self, error: Exception) -> bool:
        """Whether a request that failed is worth another try, because it is smaller now.

        It is if the provider has refused it as too long, and a collection made it shorter. For all
        other errors nothing happens.
        """
        return is_context_refusal(error) and self.session.recover_from_refusal()

    def _beside(self) -> dict[str, Any]:
        """What the call has beside the messages, by name."""
        if self._api.call_key is None:
            return self.call
        given = self.call.get(self._api.call_key) or {}
        # An SDK's object can be read like pairs of names and values, unset ones included.
        pairs = given.items() if isinstance(given, Mapping) else given
        return {name: value for name, value in pairs if value is not None}

    def _book(self, messages: Iterable[Message]) -> list[Message]:
        whole = list(messages)  # all are read before the first is booked
        return [self.session.append(message) for message in whole]

    def _book_tools(self) -> None:
        """Count the tools, if they are others than were counted."""
        tools = tools_of(self._beside())
        if tools != self._tools:
            for name in self._booked_tools:
                self.session.budget.remove_child(InstructionSource.PLUGIN, name)
            self._booked_tools = book_tools(self.session, tools)
            self._tools = tools


def _with_room(config: GCConfig, call: Mapping[str, Any]) -> GCConfig:
    """The configuration, with as much room for the answer as the call asks for.

    Anthropic and OpenAI refuse a request if it and its longest answer are larger than the window.
    """
    room = call.get("max_tokens") or call.get("max_completion_tokens")
    if not isinstance(room, int) or "reserve_output_tokens" in config.model_fields_set:
        return config
    return config.model_copy(update={"reserve_output_tokens": room})
