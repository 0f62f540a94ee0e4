"""Pieces of a history: what is removed together."""

from collections.abc import Iterable
from typing import NamedTuple

from jaato_gc.history import Group


class Piece(NamedTuple):
    """Groups that are removed together, with their key in the removal list.

    Args:
        key: The key in the removal list.
        groups: The groups.
    """

    key: str
    groups: list[Group]


def include_request(groups: Iterable[Group]) -> bool:
    """Returns whether the request of a turn is among groups: without it, the turn is gone."""
    return any(group.opens_turn for group in groups)
