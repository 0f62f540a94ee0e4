"""The options of gc_marksweep."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from jaato_gc.plugin import StrategySettings


def words(text: str) -> Any:
    """Returns a field whose default is a list of words."""
    return Field(default_factory=text.split)


class ToolNames(BaseModel):
    """How the tools of an agent are recognised: by patterns of their names, ignoring case.

    For a tool with several commands, such as an editor, the ``command`` argument counts before its
    name; for ``mcp__server__tool``, the last part counts too. A call that shows or changes a file
    has to name the file, and a call that runs a command has to give it. For all other tools, only a
    repeated call with the same arguments counts.
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
    """Arguments that name the file; the first one in a call counts."""


class MarkSweepSettings(StrategySettings):
    """Options of gc_marksweep."""

    tools: ToolNames = ToolNames()
    """How tools are recognised."""
    max_result_tokens: PositiveInt = 2_000
    """Longer old results are shortened to head and tail."""
    max_argument_tokens: NonNegativeInt = 100
    """Longer arguments of successful edits are shortened."""
    old_after: PositiveInt = 1
    """Content is old after this many collections, and stays while young garbage suffices."""
    max_name_tokens: NonNegativeInt = 500
    """The size of the names that a shortened result keeps."""
