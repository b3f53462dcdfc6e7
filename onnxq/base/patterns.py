"""Names that fit patterns, as `--match` and `[[layer]] match` have them."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def fits(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Whether a name is one of the patterns, or fits one (`*`, `?`, `[...]`; case matters).

    Args:
        names: the names of one thing.
        patterns: they; a name with brackets fits itself. Where there are none, all names fit.
    """
    patterns = tuple(patterns)
    return not patterns or any(
        name == pattern or fnmatchcase(name, pattern) for name in names for pattern in patterns
    )
