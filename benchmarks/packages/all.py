"""All nets, by their names."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence

from benchmarks.packages import detectors, images, landmarks, language, masks, reading, sound
from benchmarks.packages.net import Net

_GROUPS = (detectors, landmarks, masks, images, reading, sound, language)


def nets(globs: Sequence[str] = ("*",)) -> Iterator[Net]:
    """Those whose names match."""
    for group in _GROUPS:
        for one in group.nets():
            if any(fnmatch.fnmatchcase(one.name, glob) for glob in globs):
                yield one


def net(name: str) -> Net:
    """A net by its name.

    Raises:
        LookupError: there is no such.
    """
    found = {one.name: one for one in nets()}
    if name not in found:
        raise LookupError(f"no net {name}: there are {', '.join(found)}")
    return found[name]
