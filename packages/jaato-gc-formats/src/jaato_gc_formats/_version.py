"""The version of the distribution. Hatch reads it from here."""

__version__ = "0.1.0"
