"""A session for a loop around a provider's client, in the provider's format."""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import is_not
from typing import Any, NamedTuple, TypeVar, Unpack, overload

from jaato_gc import (
    GCConfig,
    GCError,
    GCSession,
    Message,
    PluginRegistry,
    count_tokens,
    is_context_refusal,
)
from jaato_gc.plugin import GCPlugin, HostOptions
from jaato_gc_formats._answer_stream import AnswerStream, AsyncAnswerStream
from jaato_gc_formats._bound_thoughts import View
from jaato_gc_formats._cache_marks import CacheMarks
from jaato_gc_formats._convert import default_registry, find_api
from jaato_gc_formats._counting import counter_for
from jaato_gc_formats._errors import FormatError, reading
from jaato_gc_formats._provider_call import (
    as_call,
    check_call,
    check_config,
    check_options,
    fields_of,
)
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._request_booking import RequestBooking
from jaato_gc_formats._request_check import (
    item_refusals,
    may_be_alone,
    refused_items,
    refused_request,
    repaired_messages,
    sendable,
)
from jaato_gc_formats._wire import Fields, parse_arguments, without

Event = TypeVar("Event")


class ProviderTool(NamedTuple):
    """A tool in a provider's format, and its handler.

    ``definition`` belongs among the tools of the client's call. ``handler`` takes the arguments of
    a call as the provider's client returns them, as an object or as JSON text, and returns text.
    """

    definition: Fields
    handler: Callable[[object], str]


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
        call: The other arguments of the client's call, such as ``model``, ``system`` and
            ``tools``. They are sent unchanged with every request. For Gemini, system prompt and
            tools are in ``config``.

    Attributes:
        session: The wrapped session.
        call: The other arguments of the client's call. They may be changed between requests, for
            example to use another model or other tools. The budget counts the system prompt and
            the tools that the next request sends, and reserves the maximum length of its response.
            A system prompt in the history is sent after that of the call.

    Raises:
        FormatError: The format is unknown, or the system prompt is invalid.
        GCConfigError: An argument of the call is managed by the session, or the maximum length of
            the response leaves less than a tenth of the model's window.
    """

    def __init__(
        self, format: str, session: GCSession, *, call: Mapping[str, Any] | None = None
    ) -> None:
        self.session = session
        self.call = as_call(call)
        self._api = find_api(format, session.registry)
        self._names = {
            tool_call.id: tool_call.name
            for message in session.history
            for tool_call in message.function_calls
            if tool_call.id
        }
        self._booking = RequestBooking(self._api, session)
        self._marks = CacheMarks(self._api, session.history)
        self._sent: View | None = None
        self._follow_call()

    @classmethod
    def open(
        cls,
        format: str,
        *,
        context_limit: int | None = None,
        call: Mapping[str, Any] | None = None,
        strategy: str | GCPlugin | None = None,
        config: GCConfig | None = None,
        **options: Unpack[HostOptions],
    ) -> "ProviderSession":
        """Creates a session with the best token counter for the provider and the model.

        Args:
            format: The provider's format.
            context_limit: The model's context window, in tokens; by default, that of the model of
                the call, or 128,000 for a model that no installed plugin knows, which is logged.
            call: The other arguments of the client's call, which are sent with every request.
            strategy: Name of an installed strategy, or a strategy; by default, the one that is
                installed.
            config: When to collect and how much to remove. Unless ``reserve_output_tokens`` is
                set, the maximum length of the response is reserved, such as ``max_tokens``.
            **options: Other arguments of `GCSession`, such as ``stash``, ``summarizer`` and
                ``on_overflow``.

        Raises:
            FormatError: The format is unknown.
            GCPluginError: The strategy is unknown. Without a name: none is installed, or several.
            GCConfigError: The configuration or an argument is invalid.
            TypeError: There is no such argument.
        """
        if config is not None:
            check_config(config)
        call = as_call(call)
        registry = _set_defaults(options, format, call)
        find_api(format, registry)  # before anything else: the format is the first argument
        used = registry.strategy(strategy)
        session = GCSession(context_limit=context_limit, model=call.get("model"), **options)
        session.set_gc_plugin(used, config)
        return cls(format, session, call=call)

    @classmethod
    def restore(
        cls,
        format: str,
        saved: str,
        *,
        call: Mapping[str, Any] | None = None,
        context_limit: int | None = None,
        strategy: str | GCPlugin | None = None,
        **options: Unpack[HostOptions],
    ) -> "ProviderSession":
        """Restores a saved session.

        Args:
            format: The provider's format.
            saved: The return value of ``session.save()``, from a session created with `open`.
            call: The other arguments of the client's call. They are not saved.
            context_limit: The model's context window, in tokens; by default, the saved one.
            strategy: Name of an installed strategy, or a strategy; by default, the saved one.
            **options: Other arguments of `GCSession`, the same as for `open`: callables and the
                stash are not saved.

        Raises:
            SavedSessionError: ``saved`` is invalid, or the session's token counter is not
                installed.
            GCConfigError: An argument is invalid.
            TypeError: There is no such argument.
        """
        _set_defaults(options, format, as_call(call))
        session = GCSession.restore(saved, strategy=strategy, **options)
        if context_limit is not None:
            session.set_output_reserve(0)  # that of the call follows
            session.set_context_limit(context_limit)
        return cls(format, session, call=call)

    def child(
        self,
        profile: str | Mapping[str, Any] | None = None,
        *,
        call: Mapping[str, Any] | None = None,
        context_limit: int | None = None,
        **options: Unpack[HostOptions],
    ) -> "ProviderSession":
        """Returns a session for a sub-agent, in the same format and with its own history.

        It inherits the strategy, the configuration, the summarizer and the stash, in which agents
        do not find each other's content.

        Args:
            profile: Name of a profile, or an inline configuration ``{"gc": {…}}``.
            call: The other arguments of the sub-agent's call; by default, those of this session.
                They replace them all: ``{**agent.call, "system": …}`` changes one.
            context_limit: The window of the sub-agent's model; by default, the known one of another
                model, else that of this session.
            **options: Other arguments of `GCSession`. See `GCSession.child`.

        Raises:
            GCConfigError: The profile does not exist or is invalid, or an argument is invalid.
            GCPluginError: The strategy can't be used, or can't be copied.
            TypeError: There is no such argument.
        """
        check_options(options)
        call = self.call if call is None else call
        if call.get("model") != self.call.get("model"):
            registry = options.get("registry") or self.session.registry
            counter = counter_for(self._api.name, call.get("model"), registry=registry)
            options.setdefault("counter", counter)
            if context_limit is None:
                context_limit = registry.model_window(call.get("model"))
        if context_limit is None:
            context_limit = self.session.budget.context_limit
        session = self.session.child(profile, context_limit=context_limit, **options)
        return type(self)(self._api.name, session, call=call)

    # --- the loop ---

    def append(self, *items: Any) -> list[Message]:
        """Adds messages to the history and returns them, with the ids that can be used to pin them.

        Args:
            *items: Messages in the provider's format, as plain data or SDK objects. A string is the
                text of a user message.

        Raises:
            FormatError: The provider would refuse one of the items, whatever is before and after
                it, and the session has not ``repair=True`` or that can't help. None is added then.
        """
        shaped = [self._item(item) for item in items]
        # All are read first: an invalid item must leave the history unchanged.
        refusals = item_refusals(self._api, shaped)
        if refusals and not self.session.repair:
            raise refused_items(refusals, shaped)
        messages = list(self._api.read(shaped, self._names))
        if refusals:
            repaired = [sendable(self._api, message) for message in messages]
            messages = [message for message in repaired if message]
            if len(messages) < len(repaired):
                raise refused_items(refusals, shaped)
        return self._append_all(self._as_imported(messages))

    def request(self) -> dict[str, Any]:
        """Returns the keyword arguments for the client's call, after collecting if necessary.

        The request passes `check_request`. With ``repair=True``, what the provider would refuse is
        repaired first if possible: `undo` takes that back, and nothing LOCKED or pinned is changed.

        Raises:
            InvalidHistoryError: The provider would refuse the history. ``violations`` has the
                reasons.
            ContextFloorError: The request does not fit, and nothing more can be removed.
            StashError: The stash failed to store what a repair changes.
            GCConfigError: An argument of the call is managed by the session, the provider would
                refuse the history with these arguments, or the maximum length of the response
                leaves less than a tenth of the model's window.
        """
        fields = self._follow_call()
        history = self.session.history
        request, sent = self._built(history, fields)
        refusals = self._refusals(request)
        if refusals:  # before anything is collected
            self._repair(refusals, request, fields)
        messages = self.session.before_send()
        if refusals or len(messages) != len(history) or any(map(is_not, messages, history)):
            request, sent = self._built(messages, fields)
            refusals = self._refusals(request)
        if refusals:
            raise self._refused(refusals, request)
        items = request.pop(self._api.items_key)
        self._sent = sent
        call = dict(self.call)
        if request != fields:  # the history has a system prompt
            call = {**call, self._api.call_key: request} if self._api.call_key else request
        return {**call, self._api.items_key: items}

    def _built(self, messages: Sequence[Message], fields: Fields) -> tuple[Fields, View | None]:
        """Returns a request, and what its answer will be made from."""
        messages = self._marks.placed(messages)
        # After a collection, what an answer was made from is known only if it remembers it.
        request, sent = self._api.with_valid_thoughts(
            self._written(messages, fields),
            messages,
            keep_unknown=self.session.collection_count == 0,
        )
        return self._api.within_mark_limit(request), sent

    def _repair(self, refusals: Sequence[Refusal], request: Fields, fields: Fields) -> None:
        if not self.session.repair:
            raise self._refused(refusals, request)
        repair = partial(repaired_messages, self._api, request={**self.call, **fields})
        self.session.repair_history(repair, list(map(str, refusals)))

    def _refusals(self, request: Fields) -> list[Refusal]:
        return self._api.refusals({**self.call, **request})

    def _refused(self, refusals: Sequence[Refusal], request: Fields) -> GCError:
        items = request[self._api.items_key]
        return refused_request(refusals, items, repairs=self.session.repair)

    def answer(self, response: Any) -> list[Message]:
        """Adds a response to the history, reports its usage, and returns the added messages.

        A response without tool calls ends the turn, after which a collection may run. The list is
        empty if the response has no content, or only reasoning that the provider would refuse in a
        request. Blank texts are left out too.

        Args:
            response: The SDK's response object, or its plain data.

        Raises:
            FormatError: ``response`` is not a response of the provider, or one that it would refuse
                in a request. Some servers return an error in place of a response.
        """
        with reading("the response"):
            items, usage = self._api.answer_items(response), self._api.usage(response)
        said = self._sendable(items, self._api.read(items, self._names))
        said = self._as_imported(said) if self._sent is None else self._as_answer(said, self._sent)
        self._count(said)
        if usage and usage.input_tokens > 0:
            self.session.report_usage(usage.input_tokens, usage.output_tokens)
        booked = self._append_all(said)
        if not any(message.function_calls for message in booked):
            self.session.after_turn()
        return booked

    @overload
    def stream(self, events: Iterable[Event]) -> AnswerStream[Event]: ...
    @overload
    def stream(self, events: AsyncIterable[Event]) -> AsyncAnswerStream[Event]: ...
    def stream(
        self, events: Iterable[Event] | AsyncIterable[Event]
    ) -> AnswerStream[Event] | AsyncAnswerStream[Event]:
        """Yields the events of a streamed response, and adds the response when it is complete.

        The response is added as by `answer` when the stream is exhausted. If the loop over it ends
        early (an exception, ``break``, a cancelled task, a lost connection), nothing is added and
        nothing is reported: the request can be sent again.

        Args:
            events: The stream of the provider's client, sync or async.

        Raises:
            FormatError: ``events`` is not a stream. In the loop: the stream reports an error, or
                ended before the response was complete.
        """
        if isinstance(events, AsyncIterable):
            return AsyncAnswerStream(events, self._answer_events)
        # A complete response is iterable too.
        if not isinstance(events, Iterable) or hasattr(events, "model_dump"):
            kind = type(events).__name__
            raise FormatError(
                f"expected a stream, got {kind}: await the client's call, and make it with "
                "stream=True; pass a complete response to answer()"
            )
        return AnswerStream(events, self._answer_events)

    def recover(self, error: Exception) -> bool:
        """Collects after a request that was too long, and returns whether to retry it.

        Args:
            error: The exception of the provider's client. If it does not say that the request was
                too long, nothing is collected and the result is ``False``.
        """
        return is_context_refusal(error) and self.session.recover_from_refusal(error)

    def recall_tool(self, name: str = "recall") -> ProviderTool:
        """Returns a tool with which the model gets removed content back.

        Add its definition to the tools of `call`. Answer its calls with the handler:

            definition, recall = agent.recall_tool()
            agent.call["tools"] = [*tools, definition]
            ...
            output = recall(block.input)

        For Gemini, the definition is a function declaration.

        Raises:
            NotConfiguredError: There is no stash.
        """
        definition, handler = self.session.recall_tool(name)
        return ProviderTool(
            self._api.write_tool(definition), lambda given: handler(parse_arguments(given)[0])
        )

    def _item(self, item: Any) -> Any:
        """Returns a message in the provider's format, also if it is given as a string."""
        if isinstance(item, list | tuple):
            raise FormatError(f"expected a message, got a {type(item).__name__}: append(*messages)")
        if isinstance(item, Message):
            remedy = f"convert it with from_messages([message], {self._api.name!r})"
            raise FormatError(f"expected a message of {self._api.name}, got a Message: {remedy}")
        return self._api.user_item(item) if isinstance(item, str) else item

    def _follow_call(self) -> Fields:
        """Checks the arguments of the call and counts them. Returns the fields of the request."""
        check_call(self._api, self.call)
        fields = fields_of(self._api, self.call)
        self._booking.follow(fields)
        return fields

    def _answer_events(self, events: Iterable[Any]) -> list[Message]:
        return self.answer(self._api.read_stream(list(events)))

    def _sendable(self, items: Sequence[Any], messages: Iterable[Message]) -> list[Message]:
        """Returns the messages of an answer that say something, as they can be sent back.

        Raises:
            FormatError: The provider would refuse what they say.
        """
        found = []
        for message in messages:
            sent_back = sendable(self._api, message)
            if all(part.is_empty or part.thought is not None for part in message.parts):
                if sent_back and not message.is_empty and may_be_alone(self._api, sent_back):
                    found.append(sent_back)
            elif sent_back:
                found.append(sent_back)
            else:
                raise refused_items(item_refusals(self._api, items), items)
        return found

    def _count(self, messages: Iterable[Message]) -> None:
        """Counts messages, before any is added: the counter of a host may fail."""
        count_tokens(messages, self.session.budget.counter)

    def _append_all(self, messages: Sequence[Message]) -> list[Message]:
        self._count(messages)
        booked = [self.session.append(message) for message in messages]
        self._marks.follow(booked)
        return booked

    def _written(self, messages: Sequence[Message], fields: Fields) -> Fields:
        """Returns the fields of the whole request, messages included."""
        if not (self._api.system_keys and any(map(self._api.stands_beside, messages))):
            written: Fields = self._api.from_messages(messages, {})
            return {**fields, **written}
        written = self._api.from_messages([*self._booking.prompt, *messages], {})
        return {**without(fields, *self._api.system_keys), **written}

    def _as_answer(self, messages: list[Message], sent: View) -> list[Message]:
        """Returns the messages of an answer to the last request, which remember its view."""
        self._sent = None
        return self._api.remember_view(messages, sent)

    def _as_imported(self, messages: list[Message]) -> list[Message]:
        """Returns new messages whose answers count as made from the history before them."""
        fields = fields_of(self._api, self.call)
        if not self._api.has_unknown_views(messages, fields):
            return messages
        history = self.session.history
        together = [*history, *messages]
        return self._api.remember_views(together, self._written(together, fields))[len(history) :]


def _set_defaults(options: HostOptions, format: str, call: Mapping[str, Any]) -> PluginRegistry:
    """Checks the options, and sets registry and token counter. Returns the registry."""
    check_options(options)
    registry = options.get("registry") or default_registry()
    options["registry"] = registry
    if options.get("counter") is None:
        options["counter"] = counter_for(format, call.get("model"), registry=registry)
    return registry
