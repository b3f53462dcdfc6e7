"""Who is at fault where a model does not run on a sample: its values, its sizes, or the model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import numpy as np

from onnxq.base.reason import noted
from onnxq.run.budget import OverBudget, RunError
from onnxq.run.in_parts import Runs

# Sizes of dynamic dimensions that are tried, but for the first dimension, which is 1.
_SIZES = (64, 224, 32, 128, 16, 8, 4, 2, 1)
_SECONDS = 10.0
"""After which a run is given up."""


def at_fault(session: Runs, feeds: Mapping[str, np.ndarray]) -> str:
    """A hint for the user whose sample a model does not run on.

    Args:
        session: the model.
        feeds: the sample.
    """
    if runs_on_made_up(session, feeds):
        return noted("sample-at-fault.values")
    ranks = ranks_that_run(session, feeds)
    if ranks:
        flags = [f"--shape {shlex.quote(name)}={'x'.join(map(str, dims))}" for name, dims in ranks.items()]
        return noted("sample-at-fault.rank", flags=" ".join(flags))
    sizes = sizes_that_run(session, feeds)
    if sizes:
        shown = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in sizes.items())
        return noted("sample-at-fault.sizes", sizes=shown)
    return noted("sample-at-fault.none")


def runs_on_made_up(session: Runs, feeds: Mapping[str, np.ndarray]) -> bool:
    """Whether a model runs on zeros or on ones of these shapes and types."""
    return any(
        _runs(session, {name: _filled(array.dtype, array.shape, value) for name, array in feeds.items()})
        for value in (0, 1)
    )


def ranks_that_run(session: Runs, feeds: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Shapes with an axis less or more in front at which a model runs on zeros or ones.

    Only those of inputs without a rank; empty where none was found.
    """
    filled = [name for name, array in feeds.items() if array.ndim and array.size]
    free = [name for name in filled if session.input_shapes.get(name) == ()]
    for less in (True, False) if free else ():
        made = {**feeds, **{name: feeds[name][0] if less else feeds[name][None] for name in free}}
        if runs_on_made_up(session, made):
            return {name: made[name].shape for name in free}
    return {}


def sizes_that_run(session: Runs, feeds: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Shapes of the dynamic inputs at which a model runs on zeros or ones; empty where none was found."""
    shapes = {name: shape for name, shape in session.input_shapes.items() if name in feeds}
    dynamic = [n for n, shape in shapes.items() if not all(isinstance(dim, int) for dim in shape)]
    for size in _SIZES if dynamic else ():
        made: dict[str, np.ndarray] = {}
        for name, array in feeds.items():
            dims = shapes.get(name, array.shape)
            sizes = (d if isinstance(d, int) else 1 if axis == 0 else size for axis, d in enumerate(dims))
            made[name] = np.empty(tuple(sizes), array.dtype)
        if runs_on_made_up(session, made):
            return {name: made[name].shape for name in dynamic}
    return {}


def _filled(dtype: np.dtype, shape: tuple[int, ...], value: int) -> np.ndarray:
    return np.full(shape, str(value) if dtype.kind in "OSU" else value, dtype)


def _runs(session: Runs, feeds: Mapping[str, np.ndarray]) -> bool:
    try:
        session.run(feeds, seconds=_SECONDS)
    except (RunError, OverBudget):
        return False
    return True
