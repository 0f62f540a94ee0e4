from jaato_gc_testing import StrategyConformance
from jaato_gc_todos import TodosGCPlugin


class TestTodos(StrategyConformance):
    factory = staticmethod(TodosGCPlugin)
