"""Constructs that exporters write, most of which TensorRT rejects: tiny models with feeds, by subject.

A file a subject; each gives its constructs by a function `constructs`. They are written from the operators'
definitions: types, attributes, ranks, opsets, sizes known and not. What TensorRT says of each one as it is
stands in `verdicts.json`; `make constructs` asks it again, repairs them all and says what came of it.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import importlib
import pkgutil
from collections.abc import Sequence

from .build import Construct

_NOT_SUBJECTS = ("build", "judge", "pool", "verdicts", "__main__")


@functools.cache
def constructs() -> dict[str, Construct]:
    """All of them, by `subject/name`.

    Raises:
        ValueError: two have the same name.
    """
    found: dict[str, Construct] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name in _NOT_SUBJECTS or module.name.startswith("test_"):
            continue
        for one in importlib.import_module(f"{__name__}.{module.name}").constructs():
            one = dataclasses.replace(one, subject=module.name)
            if one.key in found:
                raise ValueError(f"two constructs are called {one.key}")
            found[one.key] = one
    return found


def chosen(globs: Sequence[str]) -> list[Construct]:
    """Those whose `subject/name` one of the globs matches; a subject alone means all of it."""
    wanted = [glob if "/" in glob or "*" in glob else f"{glob}/*" for glob in globs or ["*"]]
    return [one for key, one in constructs().items() if any(fnmatch.fnmatchcase(key, w) for w in wanted)]
