"""Names that nothing has yet."""

from __future__ import annotations


def free_name(base: str, taken: set[str], others: frozenset[str] | set[str] = frozenset()) -> str:
    """A name that is not taken, `base` where possible; from now on it is.

    Args:
        base: the name to begin with; to others a number is added.
        taken: the names that are taken; the new one is added.
        others: names that one with a number may not have either.
    """
    name, count = base, 1
    while name in taken or (name != base and name in others):
        name, count = f"{base}_{count}", count + 1
    taken.add(name)
    return name
