"""Strict models of saved data: messages, budgets, journals and sessions.

A saved session is a file that anything may have changed. What it says is checked where it is read,
so that a damaged document is one error, and never a crash in a later turn.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, StrictBool, ValidationError

from jaato_gc.errors import GCError
from jaato_gc.settings import explain

LARGEST = 2**53 - 1
"""The largest integer that all readers of JSON agree on. A float can hold it too."""

Count = Annotated[int, Strict(), Field(ge=0, le=LARGEST)]
"""An integer of 0 or more."""
SignedCount = Annotated[int, Strict(), Field(ge=-LARGEST, le=LARGEST)]
"""An integer of either sign."""
Flag = StrictBool
Seconds = Annotated[float, Strict(), Field(ge=-LARGEST, le=LARGEST)]
"""A time. NaN and infinite times are refused."""

# Pydantic is strict about texts, lists and dicts in any mode. In its strict mode it would also
# refuse the text of an enum, and every dataclass.
SAVED = ConfigDict(extra="forbid", defer_build=True)  # most processes restore nothing


class Saved(BaseModel):
    """Base class of the models. No unknown key, and no Python code runs while it is validated.

    Pydantic would make an error of its own of an interrupt in such code.
    """

    model_config = SAVED

    @classmethod
    def read(
        cls, data: "Mapping[str, Any] | Saved", what: str, error: type[GCError] = GCError
    ) -> Self:
        """Returns data in this model.

        Args:
            data: The data. If it is in a model already, it is not validated again.
            what: What it is, for the error.
            error: The class of the error.

        Raises:
            GCError: It is something else, or damaged.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as problem:
            raise error(f"{what} can't be read: {explain(problem, cls)}") from None
