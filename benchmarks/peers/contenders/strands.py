"""strands-agents: `SlidingWindowConversationManager` with proactive compression."""

from collections.abc import Sequence
from typing import Any

from contender import TARGET, TRIGGER, WINDOW, Contender, Counts, Outcome, Run
from histories import Plain
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import BeforeModelCallEvent
from strands.models import Model
from strands.types.content import Message

from contenders.shared import Provider, complete, messages_in


class Stub(Model):  # type: ignore[misc]
    """A model that only has a window."""

    def get_config(self) -> dict[str, int]:
        """Returns the window."""
        return {"context_window_limit": WINDOW}

    def update_config(self, **_: Any) -> None:
        """Ignores all settings."""

    def stream(self, *_: Any, **__: Any) -> Any:
        """Not used."""
        raise NotImplementedError

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """Not used."""
        raise NotImplementedError


class Strands:
    """The messages of an agent, which its manager checks before a request."""

    name = "strands SlidingWindowConversationManager"
    distributions: Sequence[str] = ("strands-agents",)
    statement = "from strands.agent.conversation_manager import SlidingWindowConversationManager"
    counts: Counts = "messages"
    names_removed = False
    remark = "uses the provider's count as its trigger"

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """Nothing is counted: there is only one case."""
        if warm:
            return None
        manager = SlidingWindowConversationManager(window_size=messages_in(target, history))
        agent = _agent(manager, self.bare(history))

        def run() -> tuple[list[Message], int]:
            manager.apply_management(agent)
            return agent.messages, int(manager.removed_message_count > 0)

        return run

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """Sends the event that an agent sends before a request.

        It carries the provider's tokens and an estimate of later messages, as in the agent's loop.
        """
        provider = Provider(turns)
        messages_in_all = sum(len(turn) for turn in turns)
        average = provider.tokens(messages_in_all, messages_in_all) / messages_in_all
        target = round(TARGET * WINDOW / average)

        async def run() -> tuple[list[Message], int]:
            manager = SlidingWindowConversationManager(
                window_size=target, proactive_compression={"compression_threshold": TRIGGER}
            )
            agent = _agent(manager, [])
            messages = agent.messages
            collections = seen = 0
            for turn in turns:
                request, *rest = turn
                known = provider.tokens(seen, len(messages))
                messages.append(_message(request))
                before = len(messages)
                estimate = await agent.model.count_tokens(messages[-1:])
                await agent.hooks.invoke_callbacks_async(
                    BeforeModelCallEvent(agent=agent, projected_input_tokens=known + estimate)
                )
                collections += len(messages) < before
                messages.extend(_message(plain) for plain in rest)
                seen += len(turn)
            return messages, collections

        return lambda: complete(run())

    def outcome(self, returned: Any) -> Outcome:
        """Returns the texts that are left."""
        messages, collections = returned
        return Outcome([_text(message) for message in messages], collections)

    def hold(self, history: Sequence[Plain]) -> Agent:
        """Returns an agent with the history."""
        return _agent(SlidingWindowConversationManager(), self.bare(history))

    def bare(self, history: Sequence[Plain]) -> list[Message]:
        """Returns the messages alone. The agent holds the system prompt."""
        return [_message(plain) for plain in history if plain.role != "system"]


def _agent(manager: SlidingWindowConversationManager, messages: list[Message]) -> Agent:
    return Agent(
        model=Stub(), messages=messages, conversation_manager=manager, callback_handler=None
    )


def _message(plain: Plain) -> Message:
    if plain.role == "tool":
        result = {
            "toolUseId": plain.call_id,
            "status": "success",
            "content": [{"text": plain.text}],
        }
        return {"role": "user", "content": [{"toolResult": result}]}
    content: list[dict[str, Any]] = [{"text": plain.text}]
    if plain.call is not None:
        call = {"toolUseId": plain.call_id, "name": plain.call, "input": plain.arguments}
        content.append({"toolUse": call})
    return {"role": plain.role, "content": content}


def _text(message: Message) -> str:
    first = message["content"][0]
    return str(first["text"] if "text" in first else first["toolResult"]["content"][0]["text"])


def make() -> Contender:
    """Returns the contender."""
    return Strands()
