"""gc_todos: the oldest turns go, but those that mention an open TODO go last."""

import re

from jaato_gc import GCStrategy, StrategyInfo, StrategySettings, hookimpl


class TodosSettings(StrategySettings):
    """Your options; any of GCConfig's can be given beside them."""

    open_todo: str = r"\bTODO\b|\[ \]"


class TodosGCPlugin(GCStrategy[TodosSettings]):
    name = "gc_todos"
    settings_model = TodosSettings

    def collect(self, history, context_usage, config, reason, budget=None):
        collection = self.begin(history, context_usage, config, reason, budget)
        is_open = re.compile(self.settings.open_todo).search
        done = [t for t in collection.turns if not any(is_open(m.text) for m in t.messages)]
        collection.remove_oldest(done, "no_open_todo")
        collection.remove_oldest(collection.turns, "oldest_todo")
        return collection.finish()


@hookimpl
def jaato_gc_register_strategies():
    summary = "Keeps what mentions open TODOs."
    return [StrategyInfo(TodosGCPlugin.name, TodosGCPlugin, summary, TodosSettings)]
