"""The options of gc_marksweep."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from jaato_gc import StrategySettings


def words(text: str) -> Any:
    """A field whose default is a list of words."""
    return Field(default_factory=text.split)


class ToolNames(BaseModel):
    """How the tools of an agent are recognised: by patterns of their names, whatever their case.

    Of a tool that does several things, such as an editor, its ``command`` argument is looked at
    before its name; of ``mcp__server__tool``, the last part too. A call that shows or changes a
    file has to name one, and one that runs a command has to give it. What is none of these is some
    other tool: of those, only the same call made again counts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    read: list[str] = words("read* view* cat open* get_file* notebookread *_read_file")
    """Tools that show a file."""
    edit: list[str] = words(
        "edit* write* multiedit multi_edit apply_* patch* *_patch replace* str_replace* create* "
        "insert* append* update_file* notebookedit undo_edit *_write_file"
    )
    """Tools that change a file."""
    search: list[str] = words("ls list* glob* grep* search* find* tree *_search")
    """Tools that list or find something."""
    shell: list[str] = words(
        "bash* sh shell* *_shell *_bash exec* *.exec run run_command* run_shell* *terminal* "
        "*_command *_cmd powershell*"
    )
    """Tools that run a command."""
    path_arguments: list[str] = words(
        "file_path path filename file notebook_path target_file absolute_path filepath uri"
    )
    """Arguments that name the file; the first that is there counts."""


class MarkSweepSettings(StrategySettings):
    """Options of gc_marksweep."""

    tools: ToolNames = ToolNames()
    """How tools are recognised."""
    max_result_tokens: PositiveInt = 2_000
    """Of old results that are longer, only head and tail stay."""
    max_argument_tokens: NonNegativeInt = 100
    """Of the arguments of edits that succeeded, what is longer is cleared."""
    old_after: PositiveInt = 1
    """What has survived so many collections is old, and left alone while young garbage will do."""
    max_name_tokens: NonNegativeInt = 500
    """How much may be kept of the names that a cleared result mentions."""
