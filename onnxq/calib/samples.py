"""What calibration runs on: the model's inputs, and one feed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from onnxq.graph.types import is_float


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input of the model, as the data must fit it.

    Attributes:
        name: its name.
        dtype: its numpy (or ml_dtypes) dtype.
        shape: its dimensions, a symbol or None where dynamic; None where the rank is unknown.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of the model.

    Attributes:
        index: its place in the source.
        where: where it came from, e.g. `calib/003.png` or `data.npz[17]`.
        feeds: an array for each input, of the input's dtype and rank, every value finite.
    """

    index: int
    where: str
    feeds: dict[str, np.ndarray]


def as_float32(samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples for a model that is run as float32: double and bfloat16 are, float16 stays."""
    for sample in samples:
        cast = {
            name: array.astype(np.float32) if is_float(array.dtype) and array.dtype != np.float16 else array
            for name, array in sample.feeds.items()
        }
        yield replace(sample, feeds=cast)


def watched(samples: Iterable[Sample], tell: Callable[[int], None]) -> Iterator[Sample]:
    """The samples; `tell` hears how many are done: those after which the next was asked for."""
    for done, sample in enumerate(samples, 1):
        yield sample
        tell(done)
