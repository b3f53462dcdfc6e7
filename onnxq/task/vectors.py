"""Vectors that stand for samples: how near the float model's they are, and whether the same are neighbors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxq.base.errors import UserError
from onnxq.judge.comparable import as_tensor
from onnxq.task.layout import Vectors

MARGIN = 0.02
"""Of cosine: a neighbor that is so much less near than the nearest is as good as it."""

_FEWEST, _MOST = 4, 1000  # vectors that are compared with each other
_TINY = 1e-30


def vectors(layout: Vectors, values: Mapping[str, Any], feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    """The vectors of a sample, float64 `[batch, size]`, each of length 1.

    Raises:
        UserError: the output is none of vectors.
    """
    value = as_tensor(values[layout.output]).astype(np.float64)
    if value.ndim < 2:
        raise UserError(
            f"output {layout.output!r} has the shape {list(value.shape)}, and is to be [batch, size]",
            hint="state another layout with --task: onnxq help layout",
        )
    if value.ndim == 3:
        value = value[:, 0] if layout.pool == "first" else _mean(value, feeds.get(layout.mask or ""))
    rows = value.reshape(len(value), -1)
    unit: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)
    return np.where(np.isfinite(unit), unit, 0.0)


def _mean(value: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """The mean over positions, padding left out."""
    if mask is None or mask.shape != value.shape[:2]:
        return np.asarray(value.mean(1))
    weights = mask.astype(np.float64)[..., None]
    return np.asarray((value * weights).sum(1) / np.maximum(weights.sum(1), 1))


class Gallery:
    """The vectors of all samples, the float model's and another one's, each beside all others of its own."""

    def __init__(self) -> None:
        """Of none yet."""
        self._rows: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, wanted: np.ndarray, given: np.ndarray) -> None:
        """Adds a sample's; what has another shape stands for nothing."""
        self._rows.append((wanted, given if given.shape == wanted.shape else np.zeros_like(wanted)))

    def shared(self) -> tuple[list[float], list[float], list[float]]:
        """Of each sample how many have the float model's neighbor, the ranks in common, and how many it has.

        The ranks in common of a vector are the rank correlation of its cosines with all others (Spearman
        1904), none where it is negative. Of fewer than four vectors there is nothing to tell.
        """
        sizes = [float(len(wanted)) for wanted, _ in self._rows]
        if not _FEWEST <= sum(sizes) <= _MOST:
            return [0.0] * len(sizes), [0.0] * len(sizes), [0.0] * len(sizes)
        exact, other = (_cosines(np.concatenate(some)) for some in zip(*self._rows, strict=True))
        places = np.arange(len(exact))
        chosen = exact[places, other.argmax(1)]
        same = chosen >= exact.max(1) - MARGIN
        apart = ~np.eye(len(exact), dtype=bool)
        first, second = (_ranks(some[apart].reshape(len(exact), -1)) for some in (exact, other))
        power = np.sqrt((first**2).sum(1) * (second**2).sum(1))
        ranks = np.maximum((first * second).sum(1) / np.maximum(power, _TINY), 0)
        ends = np.cumsum(sizes).astype(int)[:-1]
        return (
            [float(one.sum()) for one in np.split(same, ends)],
            [float(one.sum()) for one in np.split(ranks, ends)],
            sizes,
        )


def _cosines(rows: np.ndarray) -> np.ndarray:
    """Of each vector with each other one; -inf with itself, as a neighbor is another one."""
    found: np.ndarray = rows @ rows.T
    np.fill_diagonal(found, -np.inf)
    return found


def _ranks(rows: np.ndarray) -> np.ndarray:
    """The place of each number in its row, about the mean."""
    places = rows.argsort(1, kind="stable").argsort(1, kind="stable")
    return np.asarray(places - (rows.shape[1] - 1) / 2)
