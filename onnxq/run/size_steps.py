"""Of which numbers the sizes of a dynamic dimension are multiples, where a model runs at no others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.run.budget import OverBudget, RunError
from onnxq.run.deployment import Dims
from onnxq.run.in_parts import Runs

_MORE = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 32)
_SECONDS = 10.0
"""What is added to a size; and after which time a run is given up."""

_FEWEST = 3  # sizes that run, so that their greatest common divisor says something
_NODE = re.compile(r"running (\w+) node\. Name:'([^']*)'")


@dataclass(frozen=True, slots=True)
class SizeStep:
    """A dimension that has multiples of a number as its size.

    Attributes:
        dimension: its symbol, else `input[axis]`.
        step: that number.
        size: one that is none of its multiples.
        node: what fails there.
        op: its operator.
    """

    dimension: str
    step: int
    size: int
    node: str
    op: str


def size_steps(
    session: Runs, feeds: Mapping[str, np.ndarray], names: Mapping[str, Dims], but: Sequence[str] = ()
) -> list[SizeStep]:
    """The dimensions in which a model runs at multiples of a number, of a few sizes that are tried.

    Args:
        session: the model.
        feeds: a sample on which it runs, whose values fill the larger ones.
        names: the dimensions of each input, a size or its name.
        but: dimensions that are left out.
    """
    places = {
        str(dim): (name, axis)
        for name, dims in names.items()
        for axis, dim in enumerate(dims)
        if not isinstance(dim, int) and dim not in but and name in feeds
    }
    found = []
    for dim, (name, axis) in places.items():
        base = feeds[name].shape[axis]
        failed = _failure(session, feeds, names, dim, base + 1)
        node = None if failed is None else _NODE.search(failed)
        if node is None or base < 1:
            continue  # it runs, or nobody knows what does not
        tried = sorted({*(base + more for more in _MORE[1:]), 2 * base})
        runs = [size for size in tried if _failure(session, feeds, names, dim, size) is None]
        step = math.gcd(base, *runs)
        bad = {base + 1, *tried} - {*runs}
        if step > 1 and len(runs) + 1 >= _FEWEST and all(size % step for size in bad):
            found.append(SizeStep(dim, step, base + 1, node[2], node[1]))
    return found


def _failure(
    session: Runs, feeds: Mapping[str, np.ndarray], names: Mapping[str, Dims], dim: str, size: int
) -> str | None:
    """Why a model does not run with another size of a dimension; None where it does."""
    made = {}
    for name, array in feeds.items():
        dims = names.get(name, array.shape)
        shape = [size if one == dim else now for one, now in zip(dims, array.shape, strict=True)]
        made[name] = np.resize(array, shape)
    try:
        session.run(made, seconds=_SECONDS)
    except (RunError, OverBudget) as error:
        return str(error)
    return None
