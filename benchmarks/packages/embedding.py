"""Vectors that stand for something: whether the same ones are near each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.packages.net import Figure, share


def neighbours(exact: Sequence[np.ndarray], given: Sequence[np.ndarray], _: Sequence[Any]) -> Figure:
    """How often the nearest of the others is the same; how alike cosines are ordered; how near each is."""
    one, other = (_unit(np.stack(values)) for values in (exact, given))
    cosines, changed = one @ one.T, other @ other.T
    pairs = np.triu_indices(len(one), 1)
    nearest = [np.where(np.eye(len(one), dtype=bool), -2, values).argmax(1) for values in (cosines, changed)]
    ranks = [values[pairs].argsort().argsort() for values in (cosines, changed)]
    return {
        "nearest the same %": share(int((nearest[0] == nearest[1]).sum()), len(one)),
        "of": len(one),
        "rank correlation": float(np.corrcoef(*ranks)[0, 1]),
        "cosine to float": float((one * other).sum(1).mean()),
    }


def _unit(values: np.ndarray) -> np.ndarray:
    return np.asarray(values / np.linalg.norm(values, axis=1, keepdims=True).clip(1e-12))
