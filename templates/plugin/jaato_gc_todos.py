"""gc_todos: removes the oldest turns, those that mention an open TODO last."""

import re

from jaato_gc.plugin import GCStrategy, StrategyInfo, StrategySettings, hookimpl


class TodosSettings(StrategySettings):
    """Options of this strategy. Settings of GCConfig are accepted too."""

    open_todo: str = r"\bTODO\b|\[ \]"


class TodosGCPlugin(GCStrategy[TodosSettings]):
    name = "gc_todos"
    settings_model = TodosSettings

    def select(self, collection):
        is_open = re.compile(self.settings.open_todo).search
        done = [t for t in collection.turns if not any(is_open(m.text) for m in t.messages)]
        collection.remove_oldest(done, "no_open_todo")
        collection.remove_oldest(collection.turns, "oldest_todo")


@hookimpl
def jaato_gc_register_strategies():
    summary = "Keeps turns that mention open TODOs."
    return [StrategyInfo(TodosGCPlugin.name, TodosGCPlugin, summary, TodosSettings)]
