"""What all strict providers have in common: the order of their checks, and cache marks."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

Fields = dict[str, Any]


class StrictProvider(ABC):
    """One provider: it says why it refuses a request, and remembers its answers.

    Args:
        marks_given: The cache marks that the host has given so far; ``None``: it is not known.
    """

    items_key: ClassVar[str]
    mark: ClassVar[str] = ""
    """The field of a cache mark. Empty: the API has none."""
    most_marks: ClassVar[int | None] = None

    def __init__(self, marks_given: int | None = None) -> None:
        self.marks_given = marks_given

    def receive(self, request: Fields) -> list[str]:
        """Returns the reasons for which a request is refused."""
        if not request.get(self.items_key):
            return [f"{self.items_key}: it is empty"]
        try:
            faults = list(self.faults(request))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            return [f"malformed: {error!r}"]
        return [*faults, *self._faults_of_marks(request)]

    @abstractmethod
    def faults(self, request: Fields) -> Iterator[str]:
        """Yields the reasons for which a request is refused, cache marks aside.

        A request of a wrong shape may raise.
        """

    def answered(self, said: Any) -> None:  # noqa: B027  (most have nothing to remember)
        """Remembers what the answer to the last request says."""

    def _faults_of_marks(self, request: Fields) -> Iterator[str]:
        marks = count_marks(request, self.mark) if self.mark else 0
        if self.most_marks is not None and marks > self.most_marks:
            yield f"{marks} cache marks: {self.most_marks} are allowed"
        if self.marks_given is not None and marks > self.marks_given:
            yield f"{marks} cache marks, and the host gave {self.marks_given}"


def count_marks(value: Any, field: str) -> int:
    """Returns how often a field occurs anywhere in a value."""
    if isinstance(value, list):
        return sum(count_marks(each, field) for each in value)
    if isinstance(value, dict):
        return bool(value.get(field)) + sum(count_marks(each, field) for each in value.values())
    return 0


def twice(values: Iterable[Any]) -> list[Any]:
    """Returns the values that occur more than once, except ``None``."""
    seen: set[Any] = {None}
    repeated = []
    for value in values:
        if value in seen and value is not None:
            repeated.append(value)
        seen.add(value)
    return repeated
