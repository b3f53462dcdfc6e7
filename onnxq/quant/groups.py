"""Scale groups: a union-find over tensors, in which every join says why."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Join:
    """Two tensors that share a scale, and why."""

    one: str
    other: str
    because: str


class Groups:
    """Tensors that share scales. The only way to share is a `join`."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self.joins: list[Join] = []

    def add(self, tensor: str) -> None:
        """Makes a tensor known, with a scale of its own."""
        self._parent.setdefault(tensor, tensor)

    def find(self, tensor: str) -> str:
        """The tensor that stands for the group."""
        root = tensor
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[tensor] != root:
            self._parent[tensor], tensor = root, self._parent[tensor]
        return root

    def join(self, one: str, other: str, because: str) -> None:
        """Gives two tensors one scale."""
        self.add(one)
        self.add(other)
        first, second = self.find(one), self.find(other)
        self.joins.append(Join(one, other, because))
        if first != second:
            self._parent[second] = first

    def members(self) -> dict[str, list[str]]:
        """The tensors of each group, by the tensor that stands for it, in order of arrival."""
        found: dict[str, list[str]] = {}
        for tensor in self._parent:
            found.setdefault(self.find(tensor), []).append(tensor)
        return found

    def reasons(self) -> dict[str, list[Join]]:
        """The joins of each group, by the tensor that stands for it; none for a tensor alone."""
        found: dict[str, list[Join]] = defaultdict(list)
        for join in self.joins:
            found[self.find(join.one)].append(join)
        return found
