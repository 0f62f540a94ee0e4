"""The names of a new plugin, derived from one name."""

import re
from dataclasses import dataclass
from typing import Self

from jaato_gc import GCError

MOST = 30
"""Maximum length of a short name: longer ones do not fit into a line of the template."""


@dataclass(frozen=True, slots=True)
class PluginNames:
    """The names of a plugin.

    Args:
        short: The name without prefix, such as ``todo_list``; the ``type`` in a configuration.
    """

    short: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the names for any spelling: ``Todo List``, ``gc_todo_list``, and so on.

        Raises:
            GCError: The text has no usable name.
        """
        joined = re.sub(r"[\s_.-]+", "_", text.strip().lower())
        short = re.sub(r"^(jaato_)?gc(_|$)", "", joined)
        if len(short) > MOST or not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", short):
            raise GCError(
                f"invalid name {text!r:.80}: expected a letter, then letters, digits and "
                f"underscores, at most {MOST} characters, such as todos"
            )
        return cls(short)

    @property
    def strategy(self) -> str:
        """The name of the strategy: ``gc_todo_list``."""
        return f"gc_{self.short}"

    @property
    def module(self) -> str:
        """The import name: ``jaato_gc_todo_list``."""
        return f"jaato_gc_{self.short}"

    @property
    def distribution(self) -> str:
        """The name on a package index: ``jaato-gc-todo-list``."""
        return self.module.replace("_", "-")

    @property
    def prefix(self) -> str:
        """The beginning of the names of its classes: ``TodoList``."""
        return "".join(word.capitalize() for word in self.short.split("_"))
