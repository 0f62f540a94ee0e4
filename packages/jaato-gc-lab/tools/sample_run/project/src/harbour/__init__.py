"""Plans the berths of the harbour and bills the vessels that use them."""

__version__ = "4.2.0"
