from jaato_gc import GCPlugin
from jaato_gc_testing import StrategyConformance
from jaato_gc_truncate import create_plugin


class TestTruncate(StrategyConformance):
    uses_policies = False

    @staticmethod
    def factory() -> GCPlugin:
        return create_plugin()


class TestTruncateWithNotice(StrategyConformance):
    uses_policies = False

    @staticmethod
    def factory() -> GCPlugin:
        plugin = create_plugin()
        plugin.initialize({"notify_on_gc": True})
        return plugin
