"""Dividing samples: those that calibrate, and those that verify, which calibration never sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from onnxq.calib.samples import Sample
from onnxq.calib.sources import Source
from onnxq.errors import UserError

_HOLD_EVERY = 8


class Split(ABC):
    """Samples divided into calibration and held-out ones.

    Attributes:
        shared: whether one sample does both, because there is only one; of an iterator, known
            after the calibration pass.
        used: how many samples calibrate; of an iterator, None.
        held: how many verify; of an iterator, known after the calibration pass.
    """

    shared = False
    used: int | None = None
    held: int | None = None

    @abstractmethod
    def calibration(self) -> Iterator[Sample]:
        """The samples that calibrate."""

    @abstractmethod
    def held_out(self) -> Iterator[Sample]:
        """The samples that verify; of an iterator, after the calibration pass."""


def split(source: Source, samples: int, seed: int, held_out: int = 64) -> Split:
    """Divides a source, so that no sample both calibrates and verifies.

    Of N samples, a permutation seeded with `seed` chooses: an eighth, at least 1 and at most
    `held_out`, verifies, and at most `samples` of the others calibrate. Of an iterator, samples
    0, 8, 16, ... verify, at most `held_out` of them (they are kept in memory), and the others
    calibrate, at most `samples`.

    Raises:
        UserError: `samples` or `held_out` is less than 1.
    """
    if samples < 1 or held_out < 1:
        raise UserError(
            f"{samples} calibration samples and {held_out} held-out samples were asked for",
            hint="both must be at least 1",
        )
    if source.count is None:
        return _StreamSplit(source, samples, held_out)
    if source.count == 1:
        return _IndexSplit(source, (0,), (0,))
    order = [int(i) for i in np.random.default_rng(seed).permutation(source.count)]
    held = min(held_out, max(1, source.count // _HOLD_EVERY))
    used = min(samples, source.count - held)
    return _IndexSplit(source, tuple(sorted(order[:used])), tuple(sorted(order[-held:])))


class _IndexSplit(Split):
    """Chosen indices of a source that can be read again."""

    def __init__(self, source: Source, used: tuple[int, ...], held: tuple[int, ...]) -> None:
        self._source = source
        self._used = used
        self.used = len(used)
        self._held = held
        self.held = len(held)
        self.shared = used == held

    def calibration(self) -> Iterator[Sample]:
        return self._source.read(self._used)

    def held_out(self) -> Iterator[Sample]:
        return self._source.read(self._held)


class _StreamSplit(Split):
    """One pass over an iterator, which keeps the held-out samples."""

    def __init__(self, source: Source, samples: int, held_out: int) -> None:
        self._source = source
        self._samples = samples
        self._held_out = held_out
        self._kept: list[Sample] = []

    def calibration(self) -> Iterator[Sample]:
        used = 0
        for sample in self._source:
            if sample.index % _HOLD_EVERY == 0 and len(self._kept) < self._held_out:
                self._kept.append(sample)
                continue
            yield sample
            used += 1
            if used == self._samples:
                return
        if not used:  # there was one sample
            self.shared = True
            yield self._kept[0]

    def held_out(self) -> Iterator[Sample]:
        self.held = len(self._kept)
        return iter(self._kept)
