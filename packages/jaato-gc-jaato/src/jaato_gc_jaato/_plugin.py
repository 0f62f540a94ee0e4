"""A strategy of jaato-gc as a GC plugin of jaato-server."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any
from uuid import uuid4

from jaato_gc import GCConfig, GCError, GCPlugin, GCResult, Message, MessageError
from jaato_gc.plugin import SummarySettings, check_collection
from jaato_gc_jaato._budget import HostBudget
from jaato_gc_jaato._host import HostConfig, HostMessage, HostReason, HostResult, gc_package
from jaato_gc_jaato._media import is_media_pressure, without_excess_media
from jaato_gc_jaato._messages import read_history, write_message
from jaato_gc_jaato._options import read_config, read_options, read_usage, valid_options
from jaato_gc_jaato._results import read_reason, write_reason, write_result

logger = logging.getLogger("jaato_gc_jaato")

NO_SUMMARIZER = (
    "there is no summarizer: register one with the hook jaato_gc_register_summarizers and name it "
    'as "summarizer" in plugin_config of gc.json, or set "extractive": true there to summarize '
    "without a model"
)


def bridge(strategy_factory: Callable[[], GCPlugin], name: str) -> Callable[[], "JaatoGCPlugin"]:
    """Returns a factory of GC plugins for jaato-server that run a strategy of jaato-gc.

    Make it an entry point in the group ``jaato.gc_plugins``, under the same name.

    Args:
        strategy_factory: Returns a new strategy, such as a subclass of `GCStrategy`.
        name: The name of the plugin in jaato-server: ``gc_`` and the ``type`` in ``gc.json``.
    """
    return lambda: JaatoGCPlugin(strategy_factory, name)


class JaatoGCPlugin:
    """Runs a strategy of jaato-gc inside jaato-server.

    It never raises: jaato-server would run without GC, or end the turn. Problems are logged once
    each, and a collection that fails returns a result that says so.

    Args:
        strategy_factory: Returns a new strategy.
        name: The name of the plugin in jaato-server.
    """

    def __init__(self, strategy_factory: Callable[[], GCPlugin], name: str) -> None:
        self._strategy_factory = strategy_factory
        self._name = name
        self._given: dict[str, Any] = {}
        self._options: dict[str, Any] | None = None
        self._strategy: GCPlugin | None = None
        self._written: dict[str, Message] = {}
        """The messages that the last collections wrote, by their ids in jaato-server."""
        self._warnings: set[str] = set()

    @property
    def name(self) -> str:
        """The name of the plugin in jaato-server."""
        return self._name

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Sets the options. Unknown and invalid ones are logged and not used."""
        self._given = dict(config or {})
        try:
            self._strategy_with(self._given)
        except Exception as error:
            self._warn(f"can't be set up: {type(error).__name__}: {error}")

    def shutdown(self) -> None:
        """Releases the resources of the strategy."""
        if self._strategy is not None:
            self._strategy.shutdown()

    def should_collect(
        self, context_usage: Mapping[str, Any], config: HostConfig
    ) -> tuple[bool, HostReason | None]:
        """Returns whether to collect now, and why: also if there are too many bytes of media."""
        try:
            gc = gc_package(config)
            if config.auto_trigger and (media := gc.media_pressure_reason(context_usage, config)):
                return True, media
            strategy = self._strategy_for(config)
            due, reason = strategy.should_collect(read_usage(context_usage), self._read(config))
        except Exception as error:
            self._warn(f"can't say whether to collect: {type(error).__name__}: {error}")
            return False, None
        return due, write_reason(reason, gc) if reason else None

    def collect(
        self,
        history: list[HostMessage],
        context_usage: Mapping[str, Any],
        config: HostConfig,
        reason: HostReason,
        budget: Any = None,
    ) -> tuple[list[HostMessage], HostResult]:
        """Returns the history that remains, and the result."""
        gc = gc_package(config)
        try:
            return self._collect(history, context_usage, config, reason, budget, gc)
        except Exception as error:
            text = str(error) if isinstance(error, GCError) else f"{type(error).__name__}: {error}"
            self._warn(f"collects nothing: {text}")
            total = budget.total_tokens() if budget else context_usage.get("total_tokens", 0)
            return list(history), gc.GCResult(
                success=False,
                items_collected=0,
                tokens_before=total,
                tokens_after=total,
                plugin_name=self.name,
                trigger_reason=reason,
                error=text,
            )

    def _collect(
        self,
        history: Sequence[HostMessage],
        context_usage: Mapping[str, Any],
        host_config: HostConfig,
        reason: HostReason,
        host_budget: Any,
        gc: ModuleType,
    ) -> tuple[list[HostMessage], HostResult]:
        strategy, config = self._strategy_for(host_config), self._read(host_config)
        messages = read_history(history, self._written)
        budget = HostBudget(host_budget, messages) if host_budget else None
        if is_media_pressure(reason):
            ours = budget.ours if budget else None
            lighter, freed = without_excess_media(messages, host_config, config, ours, gc)
            messages = read_history(lighter, self._written)
            budget = HostBudget(host_budget, messages, freed) if host_budget else None
        after, result = strategy.collect(
            list(messages),
            read_usage(context_usage),
            config,
            read_reason(reason),
            budget.ours if budget else None,
        )
        if not result.success:
            raise GCError(self._explain(result, strategy))
        figures = budget.ours if budget else None
        if violations := check_collection(messages, after, result.removal_list, (), figures):
            raise MessageError("; ".join(map(str, violations[:3])))
        if "summarizer" in result.details:
            self._warn(f"truncates what it should summarize: {NO_SUMMARIZER}")
        left = self._write(history, messages, after)
        kept = set(map(id, left))
        changed = [
            message
            for message, original in zip(messages, history, strict=True)
            if id(original) not in kept
        ]
        return left, write_result(result, changed, self.name, reason, budget, gc)

    def _write(
        self, history: Sequence[HostMessage], messages: Sequence[Message], after: Sequence[Message]
    ) -> list[HostMessage]:
        """Returns what a strategy left, in messages of jaato-server."""
        before = {message.message_id: message for message in messages}
        unchanged = set(map(id, history))
        like = next((message for message in history if message.parts), None)
        left: list[HostMessage] = []
        written: dict[str, Message] = {}
        for message in after:
            host_message = write_message(message, before.get(message.message_id), like)
            if id(host_message) not in unchanged:
                # jaato-server counts the tokens of a message once, by its id.
                host_message = replace(host_message, message_id=str(uuid4()))
            if message.synthetic:
                written[host_message.message_id] = message
            left.append(host_message)
        present = {message.message_id for message in history}  # jaato-server may not follow us
        self._written = {key: own for key, own in self._written.items() if key in present} | written
        return left

    def _strategy_for(self, config: HostConfig) -> GCPlugin:
        """Returns the strategy. jaato-server gives a sub-agent's options only with its settings."""
        return self._strategy_with({**(config.plugin_config or {}), **self._given})

    def _strategy_with(self, options: dict[str, Any]) -> GCPlugin:
        if self._strategy is None or options != self._options:
            strategy = self._strategy_factory()
            read, problems = read_options(options)
            valid, others = valid_options(read, strategy.initialize)
            strategy.initialize(valid)
            self.shutdown()
            self._strategy, self._options = strategy, options
            if problems or others:
                self._warn(f"ignores options: {'; '.join([*problems, *others])}")
        return self._strategy

    def _read(self, config: HostConfig) -> GCConfig:
        read, problems = read_config(config)
        if problems:
            self._warn(f"ignores settings: {'; '.join(problems)}")
        return read

    def _explain(self, result: GCResult, strategy: GCPlugin) -> str:
        settings = getattr(strategy, "settings", None)
        lacks_one = isinstance(settings, SummarySettings) and not settings.can_summarize
        if lacks_one and getattr(strategy, "needs_summarizer", False):
            return NO_SUMMARIZER
        return result.error or "the strategy failed"

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.add(text)
            logger.warning("%s %s", self.name, text)
