"""How magnitudes are spread, by octaves: exact counts, few enough to print."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.calib.histogram import Histogram, HistogramCounter

_SHOWN = 24
_MANTISSA = 10  # bits of a histogram's code below the exponent
_BIAS = np.finfo(np.float32).maxexp - 1


@dataclass(frozen=True, slots=True)
class Octaves(DocumentPart):
    """How many magnitudes |x| lie in each octave.

    Attributes:
        zeros: values that are 0 (or less than 2^-136).
        below: other values under the first edge.
        edges: powers of two, one more than counts; 24 octaves at most, the greatest ones.
        counts: values with edges[i] <= |x| < edges[i + 1].
    """

    zeros: int
    below: int
    edges: tuple[float, ...]
    counts: tuple[int, ...]


def octaves_of(histogram: Histogram) -> Octaves:
    """The octaves of a histogram: its bins do not reach over the end of one."""
    held = np.flatnonzero(histogram.counts)
    if not len(held):
        return Octaves(histogram.zeros, 0, (), ())
    exponents = (held + histogram.first) >> _MANTISSA
    last = int(exponents[-1])
    first = max(1, int(exponents[0]), last - _SHOWN + 1)
    counts = np.zeros(last - first + 1, np.int64)
    inside = exponents >= first
    np.add.at(counts, exponents[inside] - first, histogram.counts[held][inside])
    edges = tuple(2.0 ** (exponent - _BIAS) for exponent in range(first, last + 2))
    below = int(histogram.counts[held][~inside].sum())
    return Octaves(histogram.zeros, below, edges, tuple(counts.tolist()))


def octaves(values: np.ndarray) -> Octaves:
    """The octaves of finite values of any shape, taken as float32."""
    counter = HistogramCounter()
    counter.add(values)
    return octaves_of(counter.histogram())
