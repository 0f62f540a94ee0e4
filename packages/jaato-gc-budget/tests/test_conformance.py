from jaato_gc import GCPlugin
from jaato_gc_budget import create_plugin
from jaato_gc_testing import StrategyConformance


class TestBudget(StrategyConformance):
    @staticmethod
    def factory() -> GCPlugin:
        return create_plugin()


class TestBudgetWithNotice(StrategyConformance):
    @staticmethod
    def factory() -> GCPlugin:
        plugin = create_plugin()
        plugin.initialize({"notify_on_gc": True})
        return plugin
