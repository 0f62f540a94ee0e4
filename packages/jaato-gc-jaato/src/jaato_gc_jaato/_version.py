"""The distribution's version: the one place where it is written (Hatch reads it from here)."""

__version__ = "0.1.0"
