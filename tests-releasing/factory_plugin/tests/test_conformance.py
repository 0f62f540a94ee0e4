from jaato_gc_testing import StrategyConformance
from my_package import create_plugin


class TestCustom(StrategyConformance):
    uses_policies = False

    @staticmethod
    def factory():
        plugin = create_plugin()
        plugin.initialize()
        return plugin
