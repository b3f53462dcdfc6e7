"""Statistics of activations, by tensor and by channel: what they hold, and what a scale makes of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.analysis.octaves import ChannelOctaves, Octaves, WhichChannels, octaves_of
from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted, say
from onnxq.base.shown import Shown, Words, count, model_name, number, percent
from onnxq.calib.histogram import Histogram, HistogramCounter, Scratch
from onnxq.calib.stats import TensorStats
from onnxq.graph.channels import by_channel

SATURATED = 0.5
"""The share of a channel's values at an end of its range from which on it is saturated."""

TAIL = 1e-4
"""The share of the greatest magnitudes that `p9999` leaves out."""

WORST = 2
"""The channels of a tensor, the worst, whose histograms are kept where not all are asked for."""

_ROWS = 10
_STATES = ("dead", "constant", "saturated")

_UNITS = 298
"""Squares of float32 are multiples of 2^-298, and so are float64 sums of them: they add up as integers."""


@dataclass(frozen=True, slots=True)
class CodeGrid:
    """How a tensor is quantized.

    Attributes:
        scale: the step.
        zero: the code of 0.
        least: the least code.
        greatest: the greatest code.
        reach: how far beyond the greatest number what is rounded to it lies, where numbers are not evenly
            spaced; 0: they are, and codes are rounded to whole numbers.
    """

    scale: float
    zero: int
    least: int
    greatest: int
    reach: float = 0.0

    @property
    def low(self) -> float:
        """What the least code stands for."""
        return (self.least - self.zero) * self.scale

    @property
    def high(self) -> float:
        """What the greatest code stands for."""
        return (self.greatest - self.zero) * self.scale


@dataclass(frozen=True, slots=True)
class TensorRow(DocumentPart):
    """A tensor over all samples, or one of its channels. None is what is not known: `TensorTable.lacks`.

    Attributes:
        tensor: its name.
        node: who writes it, "" for an input.
        op: the operator of that node.
        channel: which channel, from 0; None: the whole tensor.
        axis: the axis of the channels, None where they are not told apart.
        dtype: its type; all figures are of its values as float32, those beyond its range being its ends.
        values: how many values, over all samples.
        counted: how many of them are in the histogram, and in the shares if they are of it.
        min: the least of the finite values.
        max: the greatest of the finite values.
        mean: their mean.
        variance: their variance, E[x^2] - E[x]^2.
        zeros: the share that is 0.
        nan: how many are NaN.
        inf: how many are infinite.
        scale: the step of its codes.
        low: what the least code stands for.
        high: the threshold: what the greatest code stands for.
        clipped: the share that is rounded to a code beyond the ends.
        at_ends: the share that is not 0 and whose code is at an end, or beyond; where there is no scale, that
            equals the least value or the greatest one, whichever more do.
        state: "dead" where all is 0, "constant", "saturated" where half of the values or more are `at_ends`,
            else "".
        p9999: a magnitude that 99.99 % of the values do not exceed: the upper edge of a bin, at most 2^-10
            above the least such.
        without_tail: p9999 over the greatest magnitude: what the range would shrink to without the greatest
            0.01 % of the values.
        top_channel: the channel of the greatest magnitude.
        without_channel: the greatest magnitude of the others over it: what the range would shrink to.
        dead: channels that are dead.
        constant: channels that are constant.
        saturated: channels that are saturated.
        histogram: of the magnitudes; of whole tensors and of the worst channels, or all. Of a channel the
            octaves are among the 24 greatest of the tensor.
        codes: how often each code occurs, from `first_code` on; of whole tensors, where it was asked for.
        first_code: the code of codes[0].
    """

    tensor: str
    node: str
    op: str
    channel: int | None
    axis: int | None
    dtype: str
    values: int
    counted: int | None
    min: float | None
    max: float | None
    mean: float | None
    variance: float | None
    zeros: float | None
    nan: int | None
    inf: int | None
    scale: float | None
    low: float | None
    high: float | None
    clipped: float | None
    at_ends: float | None
    state: str
    p9999: float | None
    without_tail: float | None
    top_channel: int | None
    without_channel: float | None
    dead: int | None
    constant: int | None
    saturated: int | None
    histogram: Octaves | None
    codes: tuple[int, ...] | None
    first_code: int | None

    @property
    def dominated(self) -> float:
        """What the range would shrink to at least without its tail or its top channel; 1 where not known."""
        return min(1.0, *(x for x in (self.without_tail, self.without_channel, 1.0) if x is not None))


@dataclass(frozen=True, slots=True)
class NotFinite(DocumentPart):
    """An operator that makes NaN or infinities of finite values, at the first sample where it does.

    Attributes:
        node: the node; "" where the input itself is not finite.
        op: its operator.
        tensor: what it writes.
        what: "NaN", "infinite" or "NaN and infinite".
        values: how many there are in that sample.
        sample: the index of the sample.
        where: the place of the sample in the data.
        reads: "finite" values, or "a constant that is not finite".
    """

    node: str
    op: str
    tensor: str
    what: str
    values: int
    sample: int
    where: str
    reads: str


@dataclass(frozen=True, slots=True, repr=False)
class TensorTable(Shown, DocumentPart):
    """What `onnxq statistics activations` finds.

    Attributes:
        kind: "statistics".
        schema: 1.
        model: the model's file, "" for one in memory.
        source: "data", or "file" for figures from statistics that `calibrate` wrote.
        scales: where scales are from: a file, "" where there are none.
        samples: how many samples.
        rows: each tensor, then its channels, in the order of the model.
        not_finite: who makes NaN and infinities, in the order of the model.
        lacks: what is not known, and why.
        skipped: bad samples that were left out.
    """

    kind: str
    schema: int
    model: str
    source: str
    scales: str
    samples: int
    rows: tuple[TensorRow, ...]
    not_finite: tuple[NotFinite, ...]
    lacks: tuple[str, ...]
    skipped: tuple[str, ...]

    def words(self) -> Words:
        """How much was looked at, who makes what is not finite, and the worst tensors."""
        tensors = sorted((row for row in self.rows if row.channel is None), key=order_of_badness)
        states = {state: sum(row.state == state for row in self.rows) for state in _STATES}
        bad = say("makes-not-finite", operators=count(len(self.not_finite), "operator"))
        alarms = [bad] * bool(self.not_finite)
        facts = [
            *(f"{total} {state}" for state, total in states.items() if total),
            f"{count(len(self.skipped), 'bad sample')} left out" if self.skipped else "",
        ]
        rows = [
            (
                row.tensor, number(row.min), number(row.max), percent(row.zeros), percent(row.clipped),
                percent(row.dominated if row.without_tail is not None else None),
            )
            for row in tensors[:_ROWS]
        ]  # fmt: skip
        head = (
            f"statistics of {model_name(self.model)}: {count(len(tensors), 'tensor')}, "
            f"{count(self.samples, 'sample')}"
        )
        return Words(head, facts, ("tensor", "min", "max", "zeros", "clipped", "narrower"), rows, alarms)


@dataclass(frozen=True, slots=True)
class Written:
    """A tensor of a graph: name, type, the node that writes it, its operator, the axis of its channels."""

    tensor: str
    dtype: str
    node: str
    op: str
    axis: int | None


def units(values: np.ndarray) -> list[int]:
    """Finite float64 sums as integers of 2^-298: their sum does not depend on the order."""
    mantissas, exponents = np.frexp(values)
    whole = np.ldexp(mantissas, 53).astype(np.int64).tolist()
    shifts = (exponents.astype(np.int64) + (_UNITS - 53)).tolist()
    return [m << s if s >= 0 else m >> -s for m, s in zip(whole, shifts, strict=True)]


class TensorTally:
    """The statistics of a tensor while they grow: the same bits in any order of the samples."""

    def __init__(self, axis: int | None = None, grid: CodeGrid | None = None, *, codes: bool = False) -> None:
        """An empty one.

        Args:
            axis: that of the channels; None: they are not told apart.
            grid: how it is quantized, None: it is not.
            codes: whether codes are counted.
        """
        self.axis, self.grid = axis, grid
        self.samples = 0
        self.collapsed = False  # whether channels differed in number, so that they are no longer told apart
        self._counts = np.zeros((0, 8), np.int64)  # [channels, as in `_COUNTED`]
        self._ends = np.zeros((2, 0), np.float32)  # least and greatest
        self._sums: list[list[int]] = [[], []]  # of values and of squares, by channel
        self._counter = HistogramCounter(1 << 12, _SCRATCH)
        self._octaves: ChannelOctaves | None = None
        self._codes: np.ndarray | None = None
        if codes and grid is not None and not grid.reach:
            self._codes = np.zeros(grid.greatest - grid.least + 1, np.int64)

    def add(self, values: np.ndarray) -> None:
        """Adds a sample's values."""
        self.samples += 1
        if not values.size:
            return
        if values.dtype == np.float64:
            values = np.where(np.isfinite(values), np.clip(values, -_LARGEST, _LARGEST), values)
        wide = np.asarray(values, np.float32)
        if self.axis is not None and wide.ndim <= self.axis:
            self._collapse()
        lines = wide.reshape(1, -1) if self.axis is None else by_channel(wide, self.axis)
        if len(self._counts) not in (0, len(lines)):
            self._collapse()
            lines = lines.reshape(1, -1)
        self._join(*self._read(lines))

    @property
    def histogram(self) -> Histogram:
        """The magnitudes of all finite values."""
        return self._counter.histogram()

    def rows(
        self, written: Written, *, channels: bool = True, histograms: WhichChannels = "worst"
    ) -> list[TensorRow]:
        """The row of the tensor, and those of its channels; `histograms`: which of these have one."""
        table, histogram = self._counts, self.histogram
        lines = [self._line(place, written) for place in range(len(table))] if self.axis is not None else []
        tops = np.abs(self._ends).max(0) if self._ends.size else np.zeros(0)
        tops = np.where(table[:, _FINITE] > 0, tops, 0) if len(table) else tops
        whole = self._line(None, written)
        states = [line.state for line in lines]
        most = float(tops.max()) if len(tops) else 0.0
        top = without = None
        if len(lines) > 1 and most:
            top = int(tops.argmax())
            without = float(np.delete(tops, top).max()) / most
        tail = tail_of(histogram)
        codes = None if self._codes is None else tuple(self._codes.tolist())
        whole = _with(
            whole,
            counted=histogram.total,
            p9999=None if tail is None else min(tail, most),
            without_tail=min(tail, most) / most if tail is not None and most else None,
            top_channel=top,
            without_channel=without,
            histogram=octaves_of(histogram),
            codes=codes,
            first_code=None if codes is None or self.grid is None else self.grid.least,
            **{s: states.count(s) if lines else None for s in ("dead", "constant", "saturated")},
        )
        return [whole, *(self._spread(lines, histograms) if channels else ())]

    def _spread(self, lines: list[TensorRow], which: WhichChannels) -> list[TensorRow]:
        """Channels with their histograms."""
        if self._octaves is None:
            return lines
        places = range(len(lines))
        worst = sorted(places, key=lambda place: channel_order(lines[place]))[:WORST]
        for place in places if which == "all" else worst:
            zeros = int(self._counts[place, _ZEROS])
            lines[place] = _with(lines[place], histogram=self._octaves.of(place, zeros))
        return lines

    def _read(self, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
        finite = np.isfinite(lines)
        sound, full = lines, bool(finite.all())
        counts = np.zeros((len(lines), 8), np.int64)
        counts[:, _VALUES] = lines.shape[1]
        counts[:, _FINITE] = lines.shape[1]
        if not full:
            counts[:, _FINITE] = finite.sum(1)
            counts[:, _NAN] = np.isnan(lines).sum(1)
            sound = np.where(finite, lines, np.float32(0))
        inf = np.float32(math.inf)
        low = (lines if full else np.where(finite, lines, inf)).min(1) + np.float32(0)  # -0 becomes 0
        high = (lines if full else np.where(finite, lines, -inf)).max(1) + np.float32(0)
        counts[:, _ZEROS] = ((lines == 0) & finite).sum(1)
        counts[:, _AT_LOW] = (lines == low[:, None]).sum(1) * np.isfinite(low)
        counts[:, _AT_HIGH] = (lines == high[:, None]).sum(1) * np.isfinite(high)
        if self.grid is not None:
            self._grid_counts(lines, finite, counts)
        wide = sound.astype(np.float64)
        sums = [units(wide.sum(1)), units(np.einsum("cn,cn->c", wide, wide))]
        self._counter.add(lines if full else lines[finite])
        if self.axis is not None:
            self._octaves = self._octaves or ChannelOctaves(len(lines))
            ends = np.stack([low, high])
            self._octaves.add(lines, float(np.abs(ends[np.isfinite(ends)]).max(initial=0)))
        return counts, np.stack([low, high]), sums

    def _grid_counts(self, lines: np.ndarray, finite: np.ndarray, counts: np.ndarray) -> None:
        grid = self.grid
        assert grid is not None
        with np.errstate(over="ignore", invalid="ignore"):
            places = lines / np.float32(grid.scale)
            places = (places if grid.reach else np.rint(places)) + np.float32(grid.zero)
        low, high = grid.least - grid.reach, grid.greatest + grid.reach
        counts[:, _CLIPPED] = (((places > high) | (places < low)) & finite).sum(1)
        ends = (places >= grid.greatest - grid.reach) | (places <= grid.least + grid.reach)
        counts[:, _SATURATED] = (ends & finite & (lines != 0)).sum(1)
        if self._codes is not None:
            codes = np.clip(places[finite], grid.least, grid.greatest).astype(np.int64) - grid.least
            self._codes += np.bincount(codes, minlength=len(self._codes))

    def _join(self, counts: np.ndarray, ends: np.ndarray, sums: list[list[int]]) -> None:
        if not len(self._counts):
            self._counts, self._ends, self._sums = counts.copy(), ends.copy(), [list(s) for s in sums]
            return
        before = self._counts[:, [_AT_LOW, _AT_HIGH]].copy()
        low, high = self._ends
        self._counts += counts
        for column, old, new, own, lower in (
            (_AT_LOW, low, ends[0], before[:, 0], True), (_AT_HIGH, high, ends[1], before[:, 1], False),
        ):  # fmt: skip
            further = new < old if lower else new > old
            less = new > old if lower else new < old
            self._counts[further, column] = counts[further, column]
            self._counts[less, column] = own[less]
        self._ends = np.stack([np.minimum(low, ends[0]), np.maximum(high, ends[1])])
        self._sums = [
            [a + b for a, b in zip(x, y, strict=True)] for x, y in zip(self._sums, sums, strict=True)
        ]

    def _collapse(self) -> None:
        """Tells channels apart no longer."""
        self.axis, self.collapsed, self._octaves = None, True, None
        if len(self._counts):
            self._counts, self._ends, self._sums = self._reduced(slice(None))

    def _reduced(self, one: slice) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
        """What is known of some channels, as of one."""
        counts, (low, high) = self._counts[one], self._ends[:, one]
        total = counts.sum(0, keepdims=True)
        ends = np.array([[low.min()], [high.max()]], np.float32)
        total[0, _AT_LOW] = counts[low == ends[0], _AT_LOW].sum()
        total[0, _AT_HIGH] = counts[high == ends[1], _AT_HIGH].sum()
        return total, ends, [[sum(channels[one])] for channels in self._sums]

    def _line(self, channel: int | None, written: Written) -> TensorRow:
        """A channel's row, or that of all of them, as far as counts tell."""
        lines = slice(None) if channel is None else slice(channel, channel + 1)
        counts, ends, sums = np.zeros(8, np.int64), self._ends, self._sums
        if len(self._counts):
            (counts,), ends, sums = self._reduced(lines)
        finite, total = int(counts[_FINITE]), int(counts[_VALUES])
        mean = variance = low = high = None
        if finite:
            low, high = float(ends[0, 0]), float(ends[1, 0])
            s, q = sums[0][0], sums[1][0]
            mean = s / (finite << _UNITS)
            # in integers nothing is lost to E[x^2] - E[x]^2 but what the sums lost
            variance = max(0.0, ((q << _UNITS) * finite - s * s) / (finite * finite << 2 * _UNITS))
            variance = 0.0 if low == high else variance
        at_ends = clipped = None
        if self.grid is not None and finite:
            at_ends, clipped = (int(counts[c]) / finite for c in (_SATURATED, _CLIPPED))
        elif finite:
            sides = ((low, counts[_AT_LOW]), (high, counts[_AT_HIGH]))
            at_ends = max((int(count) / finite for end, count in sides if end), default=0.0)
        state = ""
        if finite and finite == total:
            state = "dead" if low == high == 0 else "constant" if low == high else ""
        if not state and at_ends is not None and at_ends >= SATURATED and low != high:
            state = "saturated"
        return blank(
            written, total, self.axis, self.grid, channel=channel, min=low, max=high, mean=mean,
            variance=variance, zeros=int(counts[_ZEROS]) / finite if finite else None, nan=int(counts[_NAN]),
            inf=total - finite - int(counts[_NAN]), clipped=clipped, at_ends=at_ends, state=state,
        )  # fmt: skip


_SCRATCH = Scratch(1 << 14)
_LARGEST = float(np.finfo(np.float32).max)
_VALUES, _FINITE, _NAN, _ZEROS, _AT_LOW, _AT_HIGH, _CLIPPED, _SATURATED = range(8)


def row_of_stats(stats: TensorStats, written: Written, grid: CodeGrid | None) -> TensorRow:
    """The row of a tensor of a statistics file: what it does not hold is None.

    Shares are of the values that were counted. Clipped is what is in bins of the histogram that lie wholly
    beyond the threshold: too little by what is in one bin, of a width of 2^-10, at most.
    """
    histogram = stats.histogram if stats.histogram is not None and stats.histogram.total else None
    held = bool(stats.size)
    most = stats.amax if held else 0.0
    tail = None if histogram is None else tail_of(histogram)
    clipped = None
    if histogram is not None and grid is not None and not grid.zero and grid.least < 0:
        beyond = histogram.edges[:-1] > (grid.greatest + (grid.reach or 0.5)) * grid.scale
        clipped = int(histogram.counts[beyond].sum()) / histogram.total
    state = ""
    if held and stats.min == stats.max:
        state = "constant" if stats.min else "dead"
    return blank(
        written, stats.size, None, grid,
        counted=None if histogram is None else histogram.total,
        min=stats.min if held else None, max=stats.max if held else None,
        mean=stats.mean, variance=stats.variance if held else None,
        zeros=None if histogram is None else histogram.zeros / histogram.total,
        clipped=clipped, state=state,
        p9999=None if tail is None else min(tail, most),
        without_tail=min(tail, most) / most if tail is not None and most else None,
        histogram=None if histogram is None else octaves_of(histogram),
    )  # fmt: skip


def tail_of(histogram: Histogram) -> float | None:
    """The upper edge of the bin of the magnitude that 99.99 % of the values do not exceed; None for none."""
    total = histogram.total
    if not total:
        return None
    rank = total - int(total * TAIL)  # of that many values it is the greatest
    if rank <= histogram.zeros:
        return 0.0
    place = int(np.searchsorted(histogram.zeros + np.cumsum(histogram.counts), rank))
    return float(histogram.edges[place + 1])


def blank(
    written: Written,
    values: int,
    axis: int | None,
    grid: CodeGrid | None,
    **known: object,
) -> TensorRow:
    """A row of which only this is known."""
    row = TensorRow(
        tensor=written.tensor, node=written.node, op=written.op, channel=None, axis=axis, dtype=written.dtype,
        values=values, counted=None, min=None, max=None, mean=None, variance=None, zeros=None, nan=None,
        inf=None, scale=None if grid is None else grid.scale, low=None if grid is None else grid.low,
        high=None if grid is None else grid.high, clipped=None, at_ends=None, state="", p9999=None,
        without_tail=None, top_channel=None, without_channel=None, dead=None, constant=None, saturated=None,
        histogram=None, codes=None, first_code=None,
    )  # fmt: skip
    return _with(row, **known)


def _with(row: TensorRow, **known: object) -> TensorRow:
    return dataclasses.replace(row, **known)  # type: ignore[arg-type]


def order_of_badness(row: TensorRow) -> tuple[float, ...]:
    """Sorts rows of tensors, the worst first."""
    return (
        -float(bool(row.nan) or bool(row.inf)),
        -float(row.state in ("constant", "saturated")),
        -round(row.clipped or 0.0, 3),
        row.dominated,
        -float(row.clipped or 0.0),
    )


def channel_order(row: TensorRow) -> tuple[float, ...]:
    """Sorts channels, the worst first: not finite, saturated, clipped, then those that the range is for."""
    top = max(abs(row.min or 0.0), abs(row.max or 0.0))
    return (
        -float(bool(row.nan) or bool(row.inf)),
        -float(row.state == "saturated"),
        -round(row.clipped or 0.0, 3),
        -top,
    )


def lacks_of_file(rows: Sequence[TensorRow]) -> list[str]:
    """What a statistics file does not hold of these tensors."""
    lacks = [noted("statistics-lack.channels")]
    if any(row.counted is None and row.values for row in rows):
        lacks.append(noted("statistics-lack.histograms"))
    if any(row.counted is not None and row.counted < row.values for row in rows):
        lacks.append(noted("statistics-lack.rows"))
    return lacks
