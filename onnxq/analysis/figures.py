"""How near a tensor is to another over samples: sums that are exact in any order, and the figures of them.

Each sample gives float64 sums of its values; those of samples are added as integers, so that the same samples
give the same figures whoever counted which, and in what order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np

from onnxq.documents.analysis import Figures
from onnxq.judge.comparable import is_real
from onnxq.judge.sqnr import cosine, is_constant, sqnr_db

Metric = Callable[[np.ndarray, np.ndarray], float]
"""A user's own: of a tensor of A and the one of B, float64 arrays of one shape; a number."""

BINS = 512
"""Of a histogram: four to each octave of a magnitude from 2^-40 to 2^24, by sign; the ends have the rest."""

_LOWEST, _HALF = (
    4 * (np.finfo(np.float32).maxexp - 1 - 40),
    BINS // 2,
)  # of the exponent and two bits of the mantissa of a float32

_SCALE = 1074  # every finite float64 is a multiple of 2^-1074


def inner(one: np.ndarray, other: np.ndarray) -> float:
    """The inner product of float64 `[n]`, by one thread.

    Threads of BLAS wait for each other: where others use the cores, a hundred times as long as the product
    takes. And its sum depends on how many they are.
    """
    return float(np.einsum("i,i->", one, other))


class ExactSum:
    """A sum of float64 numbers that no order changes; it is rounded once, when it is asked for."""

    __slots__ = ("_beyond", "_units")

    def __init__(self) -> None:
        self._units, self._beyond = 0, 0.0

    def add(self, value: float) -> None:
        """Adds a number."""
        if not math.isfinite(value):
            self._beyond += value
            return
        top, bottom = value.as_integer_ratio()
        self._units += top << (_SCALE - bottom.bit_length() + 1)

    def __float__(self) -> float:
        if self._beyond != 0.0 or math.isnan(self._beyond):
            return self._beyond
        try:
            return self._units / (1 << _SCALE)
        except OverflowError:
            return math.copysign(math.inf, self._units)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of A as float64, which several are compared with.

    Attributes:
        values: float64, of any shape.
        finite: where it is finite; None: everywhere.
        power: sum(a^2) of all, where all are finite.
        peak: the greatest finite |a|.
        bins: its histogram, int64 [BINS], where all are finite; None where none is asked for.
    """

    values: np.ndarray
    finite: np.ndarray | None
    power: float
    peak: float
    bins: np.ndarray | None

    @staticmethod
    def of(array: np.ndarray, *, histogram: bool) -> Operand:
        """That of an array of floats."""
        wide = np.asarray(array).astype(np.float64)
        flat = wide.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            power = inner(flat, flat)
        if math.isfinite(power):
            peak = max(float(flat.max(initial=0.0)), -float(flat.min(initial=0.0)))
            return Operand(wide, None, power, peak, histogram_of(flat) if histogram else None)
        finite = np.isfinite(wide)
        peak = float(np.abs(wide[finite]).max(initial=0.0))
        return Operand(wide, finite, power, peak, None)


def histogram_of(values: np.ndarray) -> np.ndarray:
    """Counts of finite values, int64 [BINS], of each as float32."""
    with np.errstate(over="ignore", under="ignore"):
        codes = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.int32) >> 21
    places = codes & 1023
    places -= _LOWEST
    np.clip(places, 0, _HALF - 1, out=places)
    places[codes < 0] += _HALF
    return np.bincount(places, minlength=BINS)


class TensorMeter:
    """Accumulates the figures of one tensor."""

    __slots__ = (
        "_bins", "_cand2", "_count", "_cross", "_l1", "_level", "_metric", "_noise", "_ref2", "_scored",
        "max_abs", "max_ref", "mismatched", "nonfinite", "samples", "skipped",
    )  # fmt: skip

    def __init__(self, *, histogram: bool = True, metric: Metric | None = None) -> None:
        """Of nothing yet.

        Args:
            histogram: whether histograms are counted, for `kl`.
            metric: the user's own.
        """
        self.samples = self.nonfinite = self.skipped = self.mismatched = 0
        self.max_abs = self.max_ref = 0.0
        self._count = self._scored = 0
        self._ref2, self._cand2, self._cross = ExactSum(), ExactSum(), ExactSum()
        self._noise, self._l1, self._level = ExactSum(), ExactSum(), ExactSum()
        self._bins = np.zeros((2, BINS), np.int64) if histogram else None
        self._metric: tuple[Metric, ExactSum] | None = None if metric is None else (metric, ExactSum())

    def add(self, reference: Operand, candidate: np.ndarray) -> float:
        """Adds a sample.

        Args:
            reference: the tensor of A.
            candidate: that of B.

        Returns:
            sum(d^2) of the sample, inf where B is not finite and A is, NaN where shapes differ.
        """
        self.samples += 1
        ref = reference.values
        if ref.shape != candidate.shape or not is_real(np.asarray(candidate).dtype):
            self.mismatched += 1
            return math.nan
        cand = np.asarray(candidate).astype(np.float64)
        flat, other = ref.reshape(-1), cand.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            cand2 = inner(other, other)
        whole = reference.finite is None and math.isfinite(cand2)
        if not whole:
            in_ref = np.isfinite(flat)
            in_both = in_ref & np.isfinite(other)
            self.skipped += int(flat.size - np.count_nonzero(in_ref))
            self.nonfinite += int(np.count_nonzero(in_ref) - np.count_nonzero(in_both))
            broken = bool(np.count_nonzero(in_ref) > np.count_nonzero(in_both))
            flat, other = flat[in_both], other[in_both]
            with np.errstate(over="ignore"):
                cand2, ref2 = inner(other, other), inner(flat, flat)
        else:
            ref2, broken = reference.power, False
        noise = other - flat
        with np.errstate(over="ignore"):
            power = inner(noise, noise)
            self._cross.add(inner(flat, other))
        self._ref2.add(ref2)
        self._cand2.add(cand2)
        self._noise.add(power)
        np.abs(noise, out=noise)
        self._l1.add(float(noise.sum()))
        self._level.add(float(flat.sum()))
        self.max_abs = max(self.max_abs, float(noise.max(initial=0.0)))
        self.max_ref = max(self.max_ref, reference.peak)
        self._count += flat.size
        if self._bins is not None:
            self._bins[0] += reference.bins if whole and reference.bins is not None else histogram_of(flat)
            self._bins[1] += histogram_of(other)
        if self._metric is not None:
            self._metric[1].add(float(self._metric[0](ref, cand)))
            self._scored += 1
        return math.inf if broken else power

    def figures(self, mean_power: float | None = None, step: float | None = None) -> Figures:
        """The figures of all samples so far.

        Args:
            mean_power: n times the sum over elements of the squared mean over n samples, where all are of one
                shape and there are two at least; None: the mean is that of all values.
            step: the scale that quantizes the tensor in B.
        """
        count, ref2, noise = self._count, float(self._ref2), float(self._noise)
        broken = self.nonfinite > 0
        if not count and not broken:
            none = dict.fromkeys(
                ("cosine", "sqnr_db", "sqnr_about_mean_db", "mse", "l1", "kl", "max_abs", "max_ref",
                 "max_steps", "rms_steps"), None,
            )  # fmt: skip
            return Figures(
                samples=self.samples, values=0, nonfinite=0, skipped=self.skipped,
                mismatched=self.mismatched, metric=self._score(), **none,
            )  # fmt: skip
        level = float(self._level)
        about = ref2 - (mean_power if mean_power is not None else level * level / count if count else 0.0)
        still = is_constant(about, count, self.max_ref)
        apart = math.inf if broken else noise
        mse = noise / count if count else math.inf
        max_abs = math.inf if broken else self.max_abs
        return Figures(
            samples=self.samples,
            values=count,
            cosine=cosine(ref2, float(self._cand2), float(self._cross), apart),
            sqnr_db=sqnr_db(ref2, apart),
            sqnr_about_mean_db=None if still and not broken else sqnr_db(about, apart),
            mse=math.inf if broken else mse,
            l1=math.inf if broken else float(self._l1) / count,
            kl=None if self._bins is None or not count else divergence(self._bins[0], self._bins[1]),
            max_abs=max_abs,
            max_ref=self.max_ref,
            max_steps=max_abs / step if step else None,
            rms_steps=(math.inf if broken else math.sqrt(mse)) / step if step else None,
            nonfinite=self.nonfinite,
            skipped=self.skipped,
            mismatched=self.mismatched,
            metric=self._score(),
        )

    def _score(self) -> float | None:
        return float(self._metric[1]) / self._scored if self._metric is not None and self._scored else None


def divergence(ours: np.ndarray, theirs: np.ndarray) -> float:
    """KL(A || B) of two histograms, nats; each bin that is not empty in both has half a value more."""
    filled = (ours > 0) | (theirs > 0)
    one, other = ours[filled] + 0.5, theirs[filled] + 0.5
    p, q = one / one.sum(), other / other.sum()
    return max(0.0, float(np.sum(p * np.log(p / q))))


class Means:
    """Sums over samples of each element of tensors of A, float64, of as many tensors as a budget takes.

    Attributes:
        left_out: the tensors that are too large.
    """

    def __init__(self, budget: int, always: Collection[str] = ()) -> None:
        """Of nothing yet.

        Args:
            budget: bytes.
            always: tensors whose sums are kept whatever they take.
        """
        self._left, self._always = budget, frozenset(always)
        self._sums: dict[str, np.ndarray | None] = {}
        self._counts: dict[str, int] = {}
        self._powers: dict[str, float | None] = {}
        self.left_out: list[str] = []

    def add(self, name: str, operand: Operand) -> None:
        """Adds a sample of a tensor."""
        self._counts[name] = self._counts.get(name, 0) + 1
        if name not in self._sums:
            self._sums[name] = self._begun(name, operand)
            return
        total = self._sums[name]
        if total is None or operand.finite is not None or total.shape != operand.values.shape:
            self._sums[name] = None
        else:
            total += operand.values

    def _begun(self, name: str, operand: Operand) -> np.ndarray | None:
        if name not in self._always:
            if operand.values.nbytes > self._left:
                self.left_out.append(name)
                return None
            self._left -= operand.values.nbytes
        return operand.values.copy() if operand.finite is None else None

    def power(self, name: str) -> float | None:
        """What `TensorMeter.figures` takes: n times the squared mean, summed; None where there is none."""
        if name in self._powers:
            return self._powers[name]
        total, count = self._sums.get(name), self._counts.get(name, 0)
        if total is None or count < 2:
            return None
        flat = total.reshape(-1)
        return inner(flat, flat) / count

    def settle(self, names: Iterable[str]) -> None:
        """Keeps no more than the power of tensors to which no sample is added any more."""
        for name in names:
            self._powers[name] = self.power(name)
            sums = self._sums.pop(name, None)
            if sums is not None and name not in self._always:
                self._left += sums.nbytes
