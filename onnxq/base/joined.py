"""Parts of what is joined, a pair at a time: a union-find in which a join may say why."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from onnxq.base.grouped import grouped

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
