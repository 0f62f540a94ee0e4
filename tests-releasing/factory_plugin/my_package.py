"""A strategy in the style of the seeds' README: a class, a factory, and no `budget`."""

from jaato_gc import GCResult, GCTriggerReason, Role


class MyCustomGCPlugin:
    """Keeps the system messages and the last turns. The session lists the removals."""

    @property
    def name(self) -> str:
        return "gc_custom"

    def initialize(self, config=None):
        self._config = config or {}

    def shutdown(self):
        pass

    def should_collect(self, context_usage, config):
        percent = context_usage.get("percent_used", 0)
        if percent >= config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(self, history, context_usage, config, reason):
        requests = [
            position
            for position, message in enumerate(history)
            if message.role is Role.USER
            and not any(part.function_response for part in message.parts)
        ]
        keep = min(len(requests), config.preserve_recent_turns)
        cut = requests[-keep] if keep else len(history)
        rules = [message for message in history[:cut] if message.role is Role.SYSTEM]
        new_history = [*rules, *history[cut:]]
        before = context_usage.get("total_tokens", 0)
        result = GCResult(
            success=True,
            items_collected=len(history) - len(new_history),
            tokens_before=before,
            tokens_after=before // 2,
            plugin_name=self.name,
            trigger_reason=reason,
        )
        return new_history, result


def create_plugin():
    return MyCustomGCPlugin()
