"""The stash: where removed content goes, and the tool that recalls it."""

from jaato_gc.stash.asking import asking as asking
from jaato_gc.stash.asking import entry_in as entry_in
from jaato_gc.stash.asking import read_from as read_from
from jaato_gc.stash.asking import store_in as store_in
from jaato_gc.stash.protocol import Stash as Stash
from jaato_gc.stash.protocol import StashEntry as StashEntry
from jaato_gc.stash.protocol import StashHit as StashHit
from jaato_gc.stash.protocol import StashStats as StashStats
from jaato_gc.stash.recall import RecallTool as RecallTool
from jaato_gc.stash.recall import recall_tool as recall_tool
