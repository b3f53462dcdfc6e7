"""Whether a model that detects finds anything at all, where nothing says how its outputs are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxq.judge.comparable import as_tensor
from onnxq.task.measures import SCORES

_PLACES = 100  # of an image: fewer are classes, or points of a face
_ONE = 0.01  # how far the sum of probabilities is from 1


class NothingFound:
    """Looks for a score that says that something is there, image by image.

    It is one over 0.25, of classes that sum to 1 any but the one that is first most often.

    Attributes:
        images: how many images were looked at without one.
    """

    def __init__(self, scores: tuple[str, ...]) -> None:
        """Of these outputs."""
        self._scores = scores
        self._most: dict[str, int] = {}
        self.images = 0

    def add(self, outputs: Mapping[str, Any]) -> bool:
        """Adds the outputs for an image; whether there is nothing in it, as in all before."""
        found = [self._greatest(name, as_tensor(outputs[name])) for name in self._scores]
        places = sum(as_tensor(outputs[name])[..., 0].size for name in self._scores)
        if places < _PLACES or max(found) > SCORES[0]:
            return False
        self.images += 1
        return True

    def _greatest(self, name: str, values: np.ndarray) -> float:
        rows = values.astype(np.float64).reshape(-1, values.shape[-1])
        if rows.shape[1] > 1 and np.abs(rows.sum(1) - 1).max() < _ONE:
            first = self._most.setdefault(name, int(np.bincount(rows.argmax(1)).argmax()))
            rows = np.delete(rows, first, 1)
        return float(rows.max(initial=0.0))
