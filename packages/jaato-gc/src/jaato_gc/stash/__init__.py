"""The stash: where removed content goes, and the tool that recalls it."""

from jaato_gc.stash.protocol import Stash, StashEntry, StashHit, StashStats
from jaato_gc.stash.recall import RecallTool, recall_tool

__all__ = ["RecallTool", "Stash", "StashEntry", "StashHit", "StashStats", "recall_tool"]
