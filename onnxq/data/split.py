"""Dividing samples: those that calibrate, those that choose among scales, and those that verify."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator

import numpy as np

from onnxq.data.samples import Sample
from onnxq.data.sources import Source
from onnxq.errors import UserError

_HOLD_EVERY, CHOOSE_EVERY = 8, 4
HELD_OUT, CHOOSING = 64, 128
"""How many samples verify, and choose, at most."""

BLOCKS = (16, 64)
"""After how many samples that choose, hopeless candidates are left out, and what is clear is decided."""


class Split(ABC):
    """Samples divided into those that calibrate, choose and verify; none is in two parts.

    Attributes:
        shared: whether samples that calibrate verify too, because there are no others; of an iterator,
            known after the calibration pass.
        used: how many samples calibrate; of an iterator, None.
        chosen_with: how many choose; of an iterator, known after the calibration pass.
        held: how many verify; likewise.
        held_indices: which verify, where they can be read again.
    """

    shared = False
    used: int | None = None
    chosen_with: int | None = None
    held: int | None = None
    held_indices: tuple[int, ...] | None = None

    @abstractmethod
    def calibration(self) -> Iterator[Sample]:
        """The samples that calibrate; of an iterator, a second time: some, if none choose."""

    @abstractmethod
    def choice(self) -> Iterator[Sample]:
        """The samples that choose among scales; of an iterator, after the calibration pass.

        There may be none: of a few samples, or where all of these are bad and left out.
        """

    @abstractmethod
    def held_out(self) -> Iterator[Sample]:
        """The samples that verify; of an iterator, after the calibration pass."""


def split(
    source: Source, samples: int, seed: int, *, choose: bool = False, seen: Collection[int] | None = None
) -> Split:
    """Divides a source, so that no sample does two things.

    Of N samples, a permutation seeded with `seed` chooses: an eighth, at least 1 and at most 64,
    verifies; a quarter, at most 128, chooses where `choose` is set; and at most `samples` of the others
    calibrate. Of an iterator, samples 0, 8, 16, ... verify and, where `choose` is set, 4, 12, 20, ...
    choose, at most as many (they are kept in memory), and the others calibrate, at most `samples`.

    Args:
        source: the samples.
        samples: how many calibrate at most.
        seed: of the permutation.
        choose: whether some are to choose among scales.
        seen: indices of the samples that calibrated before, which neither choose nor verify; None:
            calibration is still to come.

    Raises:
        UserError: `samples` is less than 1, or there are others to be had once only that were seen.
    """
    if samples < 1:
        raise UserError(f"{samples} calibration samples were asked for", hint="there must be at least 1")
    if source.count is None:
        if seen is not None:
            raise UserError(
                "the data is an iterator: which of its samples calibrated before is not known",
                hint="give a path or a list, or calibrate anew",
            )
        return _StreamSplit(source, samples, choose)
    if source.count == 1:
        return _IndexSplit(source, (0,), (0,) if choose else (), (0,))
    order = _good_last(source, [int(i) for i in np.random.default_rng(seed).permutation(source.count)])
    held = min(HELD_OUT, max(1, source.count // _HOLD_EVERY))
    chosen = min(CHOOSING, source.count // CHOOSE_EVERY) if choose else 0
    used = order[: min(samples, source.count - held - chosen)]
    if seen is not None:
        used, known = [i for i in order if i in seen], frozenset(seen)
        order = _good_last(source, [i for i in order if i not in known] or used)
    apart = order[-held - chosen :]
    choosing = apart[: max(0, len(apart) - held)] if chosen else []
    return _IndexSplit(source, tuple(sorted(used)), tuple(choosing), tuple(sorted(apart[-held:])))


def _good_last(source: Source, order: list[int]) -> list[int]:
    """The order with a good sample at its end, for verification; bad ones from there come first."""
    if not source.skip_bad:
        return order
    bad = next((n for n, index in enumerate(reversed(order)) if any(source.good([index]))), 0)
    return order[len(order) - bad :] + order[: len(order) - bad]


def chosen_indices(source: Source, samples: int, seed: int) -> list[int]:
    """The samples that calibrate where others are kept apart to choose and to verify, ascending.

    Raises:
        UserError: the data can be read only once, or `samples` is less than 1.
    """
    parts = split(source, samples, seed, choose=True)
    if not isinstance(parts, _IndexSplit):
        raise UserError("the data can be read only once", hint="give a path, or a list of arrays")
    return list(parts.indices)


class _IndexSplit(Split):
    """Chosen indices of a source that can be read again."""

    def __init__(
        self, source: Source, used: tuple[int, ...], chosen: tuple[int, ...], held: tuple[int, ...]
    ) -> None:
        self._source = source
        self.indices = used
        self.used = len(used)
        self._chosen = chosen
        self.chosen_with = len(chosen)
        self._held = held
        self.held, self.held_indices = len(held), held
        self.shared = not set(used).isdisjoint(held)

    def calibration(self) -> Iterator[Sample]:
        any_good = False
        for sample in self._source.good(self.indices):
            any_good = True
            yield sample
        if not any_good:
            self.shared = True
            yield from self._source.read(self._held)

    def choice(self) -> Iterator[Sample]:
        for start, end in itertools.pairwise((0, *BLOCKS, len(self._chosen))):
            if start < end:  # each block is spread over the data, which may be sorted by class
                yield from self._source.good(sorted(self._chosen[start:end]))

    def held_out(self) -> Iterator[Sample]:
        return self._source.read(self._held)


class _StreamSplit(Split):
    """One pass over an iterator, which keeps the samples that do not calibrate."""

    def __init__(self, source: Source, samples: int, choose: bool) -> None:
        self._source = source
        self._samples = samples
        places = (0, CHOOSE_EVERY) if choose else (0,)
        self._kept: dict[int, list[Sample]] = {place: [] for place in places}
        self._first: list[Sample] | None = None  # of those that calibrate, until one is there to choose

    def calibration(self) -> Iterator[Sample]:
        if self._first is not None:
            yield from self._first
            return
        self._first = []
        used = 0
        for sample in self._source:
            place = sample.index % _HOLD_EVERY if self._kept[0] else 0
            kept = None if place and not used else self._kept.get(place)  # without one there is no scale
            if kept is not None and len(kept) < (CHOOSING if kept is not self._kept[0] else HELD_OUT):
                kept.append(sample)
                continue
            if any(not samples for samples in self._kept.values()) and len(self._first) < CHOOSING:
                self._first.append(sample)
            yield sample
            used += 1
            if used == self._samples:
                return
        if not used:  # there was one sample
            self.shared = True
            self._first = self._kept[0][:1]
            yield self._first[0]

    def choice(self) -> Iterator[Sample]:
        kept = self._kept.get(CHOOSE_EVERY, [])
        self.chosen_with = len(kept)
        return iter(kept)

    def held_out(self) -> Iterator[Sample]:
        self.held = len(self._kept[0])
        return iter(self._kept[0])
