"""At how many places a model finds something, where nothing says how its scores or maps of heat are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxq.graph.model import Model
from onnxq.judge.comparable import as_tensor
from onnxq.task.layout import PixelClasses
from onnxq.task.makers import is_probability
from onnxq.task.sureness import Move, SurenessMeter

FOUND = 0.5
"""A score over which something is found at a place."""

_PLACES = 100  # of an image: fewer are classes, or points of a face
_ONE = 0.01  # how far the sum of probabilities is from 1
_MAP = 4  # axes: others are rows, a place each
_PIECES = 16  # a side: what is detected is mostly larger, and gone when they are mixed


def likely_places(model: Model) -> tuple[str, ...]:
    """The outputs that may be scores of many places, in rows or maps: those a Sigmoid or a Softmax makes."""
    return tuple(one.name for one in model.outputs if one.rank in (2, 3, 4) and is_probability(one))


class PlacesMeter(SurenessMeter):
    """Measures one preparation by the places of a picture with a score over 0.5, as of boxes.

    Of classes that sum to 1 the one that is first most often in the picture does not count.
    """

    def __init__(self, places: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__(PixelClasses(places[0], None, FOUND), outputs)
        self._places = places

    @property
    def is_of_boxes(self) -> bool:
        """That places are measured as detections are."""
        return True

    def add(self, seen: list[Any], again: list[Any], feeds: Mapping[str, np.ndarray], move: Move) -> None:
        """Adds the outputs for a sample, and those for it when it is moved."""
        one, other = (self._count(dict(zip(self._outputs, some, strict=True))) for some in (seen, again))
        self.samples += 1
        self.detected += one
        self._found.append(2 * min(one, other) - (one + other) / 2)

    def _count(self, outputs: Mapping[str, Any]) -> int:
        values = [as_tensor(outputs[name]) for name in self._places]
        if sum((one if one.ndim == _MAP else one[..., 0]).size for one in values) < _PLACES:
            return 0
        return sum(_found(one.reshape(-1, one.shape[-1]).astype(np.float64)) for one in values)


def _found(rows: np.ndarray) -> int:
    if rows.shape[1] > 1 and np.abs(rows.sum(1) - 1).max() < _ONE:
        rows = np.delete(rows, np.bincount(rows.argmax(1)).argmax(), 1)
    return int((rows > FOUND).sum())


def scrambled(pictures: np.ndarray, height: int, width: int) -> np.ndarray:
    """Pictures in 16 by 16 pieces, mixed and upside down: the same values and edges, and no objects."""
    random, axes = np.random.default_rng(0), (height, width)
    made = np.moveaxis(np.flip(pictures, axes), axes, (0, 1)).copy()
    high, wide = (size // _PIECES for size in made.shape[:2])
    whole = made[: high * _PIECES, : wide * _PIECES]
    pieces = whole.reshape(_PIECES, high, _PIECES, wide, *made.shape[2:]).swapaxes(1, 2)
    mixed = random.permutation(pieces.reshape(-1, *pieces.shape[2:])).reshape(pieces.shape)
    whole[:] = mixed.swapaxes(1, 2).reshape(whole.shape)
    return np.ascontiguousarray(np.moveaxis(made, (0, 1), axes))
