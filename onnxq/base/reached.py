"""What is reached step by step, each thing once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

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
