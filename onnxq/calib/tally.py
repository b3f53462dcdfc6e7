"""The statistics of a pass while they grow, one sample after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxq.calib.histogram import Histogram, HistogramCounter, Scratch
from onnxq.calib.probes import Probe, Reading
from onnxq.calib.stats import ChannelStats, Counts, Stats, TensorStats, add_counts, add_exact, exact

_BUFFERS = 1 << 26  # bytes of values that wait to be counted, all tensors together


class Tally:
    """The statistics of the tensors of a pass while they grow.

    Attributes:
        samples: how many samples were added.
        whole: whether each of them was counted to its end: no error came in between.
    """

    def __init__(self, probes: Sequence[Probe]) -> None:
        self.whole = True
        self._probes = tuple(probes)
        count = len(self._probes)
        block = max(1 << 12, min(1 << 16, _BUFFERS // 4 // max(1, count)))
        scratch = Scratch(block)
        self._block, self._scratch = block, scratch
        self._counters: list[dict[int, HistogramCounter]] = [{} for _ in self._probes]  # by step
        self._steps = [0] * count  # of the last sample
        self._indices: list[int] = []
        self._ends: list[np.ndarray] = []  # [2, probes] in each sample
        self._size = np.zeros(count, np.int64)
        self._sums: list[int | None] = [0] * (2 * count)
        self._channels: list[ChannelStats | None] = [None] * count

    @property
    def samples(self) -> int:
        """As above."""
        return len(self._indices)

    def add(self, index: int, reading: Reading) -> None:
        """Adds what was found in the sample of this index."""
        self.whole = False
        self._indices.append(index)
        self._ends.append(np.stack([reading.low, reading.high]))
        self._size += reading.size
        self._sums = add_exact(self._sums, exact(reading.sums.ravel()))
        for i, (rows, step) in enumerate(zip(reading.rows, reading.steps, strict=True)):
            if rows is not None:
                self._count(i, rows, step)
        for i, channel in enumerate(reading.channels):
            if channel is not None and reading.size[i]:
                self._add_channels(i, channel, int(reading.size[i]))
        self.whole = True

    def _count(self, i: int, rows: np.ndarray, step: int) -> None:
        counters = self._counters[i]
        if step != self._steps[i]:
            if self._steps[i] in counters:
                counters[self._steps[i]].settle()  # its memory is free for the next one
            self._steps[i] = step
        if step not in counters:
            counters[step] = HistogramCounter(self._block, self._scratch)
        counters[step].add(rows)

    def _add_channels(self, i: int, reduced: np.ndarray, size: int) -> None:
        channels, before = self._probes[i].channels, self._channels[i]
        assert channels is not None
        low, high, total = reduced
        new = ChannelStats(channels.axis, low, high, tuple(exact(total)), size // len(low))
        self._channels[i] = new if before is None else before.merge(new)

    def stats(self) -> Stats:
        """What was found so far, the samples in the order of their indices."""
        self.whole = False  # counters count what waits
        order = np.argsort(self._indices, kind="stable")
        ends = np.array(self._ends, np.float32).reshape(len(order), 2, len(self._probes))[order]
        tensors = {}
        for i, (probe, counters) in enumerate(zip(self._probes, self._counters, strict=True)):
            total, squares = self._sums[2 * i : 2 * i + 2]
            counts = Counts(histogram=Histogram()) if probe.rows is not None else Counts()
            if counters:
                counts = add_counts([Counts(step, c.histogram()) for step, c in sorted(counters.items())])
            tensors[probe.tensor] = TensorStats(
                lows=ends[:, 0, i].copy(),
                highs=ends[:, 1, i].copy(),
                size=int(self._size[i]),
                total=total,
                squares=squares,
                step=counts.step,
                histogram=counts.histogram,
                channels=self._channels[i],
                spread=counts.spread,
            )
        self.whole = True
        return Stats(tensors, np.array(self._indices, np.int64)[order])
