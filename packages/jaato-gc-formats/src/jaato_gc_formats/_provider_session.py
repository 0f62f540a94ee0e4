"""A session for a loop around a provider's client, in the provider's format."""

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
from jaato_gc_formats._convert import default_registry, find_api
from jaato_gc_formats._counting import book_tools, counter_for, tools_of


class ProviderSession:
    """Wraps a `GCSession` and converts from and to a provider's format.

    It collects before a request if the threshold is exceeded. Messages that no collection changed
    are sent as the original objects, so that the provider's prompt cache keeps matching.

    The methods are synchronous and send nothing themselves, so they work with blocking, streaming
    and async clients.

    Args:
        format: The provider's format: ``openai-chat``, ``openai-responses``, ``anthropic`` or
            ``gemini``.
        session: The session, new or restored. Use it for everything else, such as `undo` and
            `manual_gc`.
        **call: The other arguments of the client's call, such as ``model``, ``system`` and
            ``tools``. They are sent unchanged with every request, and the system prompt and the
            tools are counted. For Gemini, these two are in ``config``.

    Attributes:
        session: The wrapped session.
        call: The other arguments of the client's call. They may be changed between requests, for
            example to use another model or other tools. Changed tools are counted again; the
            system prompt is counted once, when the session is created.
    """

    def __init__(self, format: str, session: GCSession, **call: Any) -> None:
        self.session = session
        self._api = find_api(format, session.registry)
        self.call = call
        self._names = {
            tool_call.id: tool_call.name
            for message in session.history
            for tool_call in message.function_calls
            if tool_call.id
        }
        fields = self._call_fields()
        self._has_system = any(fields.get(key) for key in self._api.system_keys)
        if self._has_system and not any(map(self._api.stands_beside, session.history)):
            prompt = {key: fields[key] for key in self._api.system_keys if fields.get(key)}
            self._append_all(self._api.to_history({self._api.items_key: [], **prompt}))
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
        """Creates a session with the best token counter for the provider and the model.

        To use a stash, policies or other options of `GCSession`, create one and pass it to the
        constructor.

        Args:
            format: The provider's format.
            limit: The model's context window, in tokens.
            strategy: Name of an installed strategy.
            gc_config: When to collect and how much to remove. Unless ``reserve_output_tokens`` is
                set, the ``max_tokens`` of the call are reserved for the response.
            registry: The registry that provides strategies and formats; by default, all installed
                plugins.
            **call: The other arguments of the client's call, which are sent with every request.

        Raises:
            FormatError: The format is unknown.
            GCPluginError: The strategy is unknown.
            GCConfigError: The configuration is invalid.
        """
        registry = registry or default_registry()
        counter = counter_for(format, call.get("model"), registry=registry)
        session = GCSession(context_limit=limit, counter=counter, registry=registry)
        session.set_gc_plugin(
            registry.create(strategy), _reserve_output(gc_config or GCConfig(), call)
        )
        return cls(format, session, **call)

    @classmethod
    def restore(
        cls, format: str, saved: str, *, registry: PluginRegistry | None = None, **call: Any
    ) -> "ProviderSession":
        """Restores a saved session.

        Args:
            format: The provider's format.
            saved: The return value of ``session.save()``, from a session created with `open`.
            registry: The registry that provides strategies and formats; by default, all installed
                plugins.
            **call: The other arguments of the client's call, the same as for `open`.

        Raises:
            GCError: ``saved`` is invalid, or the session's token counter is not installed.
        """
        registry = registry or default_registry()
        counter = counter_for(format, call.get("model"), registry=registry)
        session = GCSession.restore(saved, registry=registry, counter=counter)
        return cls(format, session, **call)

    def append(self, *items: Any) -> list[Message]:
        """Adds messages to the history and returns them, with the ids that can be used to pin them.

        Args:
            *items: Messages in the provider's format, as plain data or SDK objects. A string is the
                text of a user message.

        Raises:
            FormatError: One of the items is invalid. None of them is added then.
        """
        shaped = [self._api.user_item(item) if isinstance(item, str) else item for item in items]
        return self._append_all(self._api.read(shaped, self._names))

    def request(self) -> dict[str, Any]:
        """Returns the keyword arguments for the client's call, after collecting if necessary.

        Raises:
            InvalidHistoryError: The provider would refuse the history.
            ContextFloorError: The request does not fit, and nothing more can be removed.
        """
        self._book_tools()
        written: dict[str, Any] = self._api.from_messages(self.session.before_send(), {})
        items = written.pop(self._api.items_key)
        call = dict(self.call)
        if written and not self._has_system:  # the system prompt is in the session's history
            if config_key := self._api.call_key:
                call[config_key] = {**self._call_fields(), **written}
            else:
                call |= written
        return {**call, self._api.items_key: items}

    def answer(self, response: Any) -> list[Message]:
        """Adds a response to the history, reports its usage, and returns the added messages.

        A response without tool calls ends the turn, after which a collection may run. The list is
        empty if the response has no content.

        Args:
            response: The SDK's response object, or its plain data.

        Raises:
            FormatError: ``response`` is not a response of the provider. Some servers return an
                error in place of one.
        """
        said = list(self._api.read(self._api.answer_items(response), self._names))
        usage = self._api.usage(response)
        if usage and usage.input_tokens > 0:
            self.session.report_usage(usage.input_tokens, usage.output_tokens)
        booked = self._append_all(message for message in said if not message.is_empty)
        if not any(message.function_calls for message in booked):
            self.session.after_turn()
        return booked

    def recover(self, error: Exception) -> bool:
        """Collects after a request that was too long, and returns whether to retry it.

        Args:
            error: The exception of the provider's client. If it does not say that the request was
                too long, nothing is collected and the result is ``False``.
        """
        return is_context_refusal(error) and self.session.recover_from_refusal(error)

    def _call_fields(self) -> dict[str, Any]:
        """Returns the fields of the request other than the messages."""
        if self._api.call_key is None:
            return self.call
        given = self.call.get(self._api.call_key) or {}
        # Iterating over an object of the SDK yields pairs of name and value, including unset ones.
        pairs = given.items() if isinstance(given, Mapping) else given
        return {name: value for name, value in pairs if value is not None}

    def _append_all(self, messages: Iterable[Message]) -> list[Message]:
        read = list(messages)  # read all first: an invalid item must leave the history unchanged
        return [self.session.append(message) for message in read]

    def _book_tools(self) -> None:
        """Counts the tools if they have changed."""
        tools = tools_of(self._call_fields())
        if tools != self._tools:
            for name in self._booked_tools:
                self.session.budget.remove_child(InstructionSource.PLUGIN, name)
            self._booked_tools = book_tools(self.session, tools)
            self._tools = tools


def _reserve_output(config: GCConfig, call: Mapping[str, Any]) -> GCConfig:
    """Reserves the maximum length of the response, unless the configuration sets a reserve.

    Anthropic and OpenAI refuse a request that, with this length added, exceeds the window.
    """
    room = call.get("max_tokens") or call.get("max_completion_tokens")
    if not isinstance(room, int) or "reserve_output_tokens" in config.model_fields_set:
        return config
    return config.model_copy(update={"reserve_output_tokens": room})
