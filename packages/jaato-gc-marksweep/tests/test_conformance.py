from jaato_gc import GCPlugin
from jaato_gc_marksweep import create_plugin
from jaato_gc_testing import StrategyConformance


class TestMarkSweep(StrategyConformance):
    @staticmethod
    def factory() -> GCPlugin:
        return create_plugin()


class TestMarkSweepWithNotice(StrategyConformance):
    @staticmethod
    def factory() -> GCPlugin:
        plugin = create_plugin()
        plugin.initialize({"notify_on_gc": True})
        return plugin
