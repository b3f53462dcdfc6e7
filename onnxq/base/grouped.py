"""Values by what they have in common: alike, joined a pair at a time, or reached step by step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

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


Item = TypeVar("Item", bound=Hashable)


class Joined(Generic[Item]):
    """Things in parts. The only way into one part is a `join`."""

    def __init__(self) -> None:
        self._parent: dict[Item, Item] = {}
        self._reasons: list[tuple[Item, str]] = []

    def add(self, item: Item) -> None:
        """Makes a thing known, in a part of its own."""
        self._parent.setdefault(item, item)

    def find(self, item: Item) -> Item:
        """What stands for the part of a known thing."""
        while (parent := self._parent[item]) != item:
            self._parent[item] = self._parent[parent]
            item = parent
        return item

    def join(self, one: Item, other: Item, because: str = "") -> None:
        """Puts two things into one part, for which the first one's stands."""
        self.add(one)
        self.add(other)
        self._reasons.append((one, because))
        self._parent[self.find(other)] = self.find(one)

    def members(self) -> dict[Item, list[Item]]:
        """The things of each part, by what stands for it, in order of arrival."""
        return grouped((self.find(item), item) for item in self._parent)

    def reasons(self) -> dict[Item, list[str]]:
        """Why the things of each part are in it, by what stands for it; none for a thing alone."""
        return grouped((self.find(one), because) for one, because in self._reasons)


Place = TypeVar("Place", bound=Hashable)


def reached(starts: Iterable[Place], onward: Callable[[Place], Iterable[Place]]) -> Iterator[Place]:
    """The places that are reached from some, these included; the last start and the last step come first.

    Args:
        starts: where to begin.
        onward: the next places behind one; it is asked when the place itself has been taken.
    """
    todo, seen = list(starts), set[Place]()
    while todo:
        place = todo.pop()
        if place not in seen:
            seen.add(place)
            yield place
            todo += onward(place)
