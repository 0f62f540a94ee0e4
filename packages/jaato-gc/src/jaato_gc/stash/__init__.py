"""The stash: where removed content goes, and the tool that recalls it."""

from jaato_gc.stash.protocol import Stash as Stash
from jaato_gc.stash.protocol import StashEntry as StashEntry
from jaato_gc.stash.protocol import StashHit as StashHit
from jaato_gc.stash.protocol import StashStats as StashStats
from jaato_gc.stash.recall import RecallTool as RecallTool
from jaato_gc.stash.recall import recall_tool as recall_tool
