"""Disables hypothesis deadlines, so that no test fails because the machine is slow."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
