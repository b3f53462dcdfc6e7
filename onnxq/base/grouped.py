"""Values by what they have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key: keys in the order in which they first occur, values in that of the pairs."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def fitting(items: Iterable[tuple[Value, int]], room: int) -> list[list[Value]]:
    """Items in groups, in their order, whose sizes together fit; a larger item is a group of its own.

    Args:
        items: each with its size.
        room: the size that a group may have.

    Returns:
        The groups, one empty group where there are no items.
    """
    groups: list[list[Value]] = [[]]
    left = room
    for item, size in items:
        if size > left and groups[-1]:
            groups.append([])
            left = room
        groups[-1].append(item)
        left -= size
    return groups
